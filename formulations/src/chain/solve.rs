//! Any number of budgets from one table.

use remat_core::chain::{Chain, ChainStep};

use super::kernel::Cost;
use super::persistent::ranges::Ranges;
use super::persistent::table::{self, Table};
use super::rule::Rule;
use super::slots::{Account, Rounding, SlottedChain};
use super::storage::TableError;
use super::weak::ranges::Ranges as WeakRanges;
use super::weak::states::States;
use super::weak::table::{self as weak_table, WeakTable};

/// Answer for one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The best sequence for the rounded sizes.
    Sequence(Vec<ChainStep>),
    /// Rounding up to slots leaves no sequence, though exact sizes might.
    LostToRounding,
    /// No sequence of the rule's class meets the budget, whatever the slots.
    Infeasible,
}

/// Which of the table's sequences answers a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The one for as many slots as the budget has: safe, since sizes are rounded up.
    Rounded,
    /// The one for as many slots as possible whose peak in bytes meets the budget. No slower than the
    /// former: rounding up leaves memory unused.
    Exact,
}

/// What is to be solved, besides the chain and the budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Slots that the largest budget is divided into.
    pub slots: u64,
    /// Which sequences are allowed.
    pub rule: Rule,
    /// Which sequence answers a budget.
    pub fit: Fit,
}

/// Best sequences for some budgets (bytes, the chain's fixed bytes and input included), every size
/// rounded up to slots as published.
///
/// # Errors
/// There is too little memory for the table.
pub fn solve(chain: &Chain, budgets: &[u64], settings: Settings) -> Result<Vec<Outcome>, TableError> {
    let Settings { slots, rule, fit } = settings;
    let unit = unit(chain, budgets, slots);
    let program = Program::new(chain, SlottedChain::rounded(chain, unit, rule.account()), rule);
    let needed = least_bytes(chain, rule);
    let feasible: Vec<_> = budgets.iter().map(|&budget| budget >= needed).collect();
    let window = |(&budget, &feasible): (&u64, &bool)| program.window(budget, fit).filter(|_| feasible);
    let windows: Vec<_> = budgets.iter().zip(&feasible).map(window).collect();
    refuse(&program, &windows)?;
    let mut sequences = program.sequences(budgets, &windows)?;
    if fit == Fit::Exact {
        share(chain, budgets, &mut sequences);
    }
    let outcome = |(sequence, feasible): (Option<Vec<ChainStep>>, bool)| match sequence {
        Some(sequence) => Outcome::Sequence(sequence),
        None if feasible => Outcome::LostToRounding,
        None => Outcome::Infeasible,
    };
    Ok(sequences.into_iter().zip(feasible).map(outcome).collect())
}

/// Tables beyond this are refused.
const MOST_BYTES: usize = 16 << 30;

fn refuse(program: &Program<'_>, windows: &[Option<Window>]) -> Result<(), TableError> {
    let bytes = program.bytes(windows.iter().flatten().map(|window| window.most).max().unwrap_or(0));
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let source = std::io::Error::new(std::io::ErrorKind::OutOfMemory, format!("at most {MOST_BYTES} are taken"));
    Err(TableError::Memory { bytes, source })
}

/// Bytes of a slot when the largest useful of some budgets, less the fixed bytes, is cut into at most
/// `slots` of them.
pub(super) fn unit(chain: &Chain, budgets: &[u64], slots: u64) -> u64 {
    // More than saving everything takes is of no use, and would only make the slots coarser.
    let enough = chain.evaluate(&chain.store_all(|_| 0)).map_or(u64::MAX, |cost| cost.peak_bytes);
    let usable = budgets.iter().filter_map(|&budget| budget.min(enough).checked_sub(chain.fixed_bytes));
    usable.max().unwrap_or(0).div_ceil(slots).max(1)
}

/// A sequence per budget.
pub(super) type Sequences = Vec<Option<Vec<ChainStep>>>;

/// Gives each budget the fastest of all sequences found that meets it, so that more memory never costs time.
pub(super) fn share(chain: &Chain, budgets: &[u64], sequences: &mut Sequences) {
    let cost = |sequence: &Option<Vec<ChainStep>>| chain.evaluate(sequence.as_ref()?).ok();
    let costs: Vec<_> = sequences.iter().map(cost).collect();
    let best = |&budget: &u64| {
        let meeting = costs.iter().enumerate().filter_map(|(index, cost)| Some((index, cost.as_ref()?)));
        let meeting = meeting.filter(|(_, cost)| cost.peak_bytes <= budget);
        meeting.min_by_key(|(_, cost)| (cost.time, cost.peak_bytes)).map(|(index, _)| sequences[index].clone())
    };
    let shared: Vec<_> = budgets.iter().map(best).collect();
    for (sequence, best) in sequences.iter_mut().zip(shared) {
        *sequence = best.flatten();
    }
}

/// Least budget, in bytes, that any sequence of the rule's class meets: exact.
pub fn least_bytes(chain: &Chain, rule: Rule) -> u64 {
    let exact = SlottedChain::aligned(chain, 1, rule.account(), Rounding::Up);
    let least = Program::new(chain, exact, rule).least as u64;
    let input = if rule.account() == Account::BesideInput { chain.input_bytes } else { 0 };
    least.saturating_add(chain.fixed_bytes).saturating_add(input)
}

/// Between how many slots the answer to a budget is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// A sequence for so many, if there is one, meets the budget for certain.
    safe: usize,
    /// More are not tried.
    most: usize,
}

/// A table that sequences can be read off.
trait Sequenced {
    /// A best sequence within a slot; none where there is none.
    fn sequence(&self, slot: usize) -> Option<Vec<ChainStep>>;
    /// Its makespan, where the table's cells can tell it from none.
    fn makespan(&self, slot: usize) -> Option<u64>;
}

impl<C: Cost> Sequenced for Table<'_, C> {
    fn sequence(&self, slot: usize) -> Option<Vec<ChainStep>> {
        Table::sequence(self, slot)
    }
    fn makespan(&self, slot: usize) -> Option<u64> {
        Table::makespan(self, slot)
    }
}

impl<C: Cost> Sequenced for WeakTable<'_, C> {
    fn sequence(&self, slot: usize) -> Option<Vec<ChainStep>> {
        WeakTable::sequence(self, slot)
    }
    fn makespan(&self, slot: usize) -> Option<u64> {
        WeakTable::makespan(self, slot)
    }
}

/// A chain in slots under a rule.
pub(super) struct Program<'a> {
    chain: &'a Chain,
    slotted: SlottedChain,
    rule: Rule,
    /// Limits of subchains; the weak program has its own.
    ranges: Option<Ranges>,
    /// The slot below which there is no sequence.
    least: usize,
    /// The slot from which nothing is gained.
    enough: usize,
}

impl<'a> Program<'a> {
    pub(super) fn new(chain: &'a Chain, slotted: SlottedChain, rule: Rule) -> Self {
        let last = slotted.len() - 1;
        if rule == Rule::Weak {
            let states = States::new(&slotted);
            let ranges = WeakRanges::new(&slotted, &states);
            let root = states.row(0, 0, last);
            let (least, enough) = (ranges.least[root], ranges.enough[root]);
            return Self { chain, slotted, rule, ranges: None, least, enough };
        }
        let ranges = Ranges::new(&slotted, rule);
        let (least, enough) = (ranges.least[(0, last)], ranges.enough[(0, last)]);
        Self { chain, slotted, rule, ranges: Some(ranges), least, enough }
    }

    /// Bytes of a table for so many slots.
    pub(super) fn bytes(&self, slots: usize) -> usize {
        match self.rule {
            Rule::Weak => weak_table::bytes::<u32>(&self.slotted, slots),
            Rule::Persistent | Rule::SaveLast => table::bytes::<u32>(self.slotted.len(), slots),
        }
    }

    fn slot(&self, budget: u64) -> Option<usize> {
        self.slotted.slot_of_budget(budget.checked_sub(self.chain.fixed_bytes)?)
    }

    /// None where no number of slots is worth trying.
    pub(super) fn window(&self, budget: u64, fit: Fit) -> Option<Window> {
        // Each stage keeps at most one tensor or set of tensors, each rounded up by less than a slot.
        let slack = if fit == Fit::Exact { self.slotted.len() + 4 } else { 0 };
        let safe = self.slot(budget)?.min(self.enough);
        let most = (safe + slack).min(self.enough);
        (most >= self.least).then_some(Window { safe, most })
    }

    /// The table up to a slot, in the narrowest cells that can tell the makespans of some slots.
    fn table(&self, capacity: usize, told: &[usize]) -> Result<Box<dyn Sequenced + '_>, TableError> {
        let once: u64 = (0..self.slotted.len()).map(|stage| self.slotted.fastest(stage).time).sum();
        // A narrow table that is bound to overflow is not worth computing.
        if <u32 as Cost>::new(once.saturating_mul(2)).is_some() {
            match self.table_of::<u32>(capacity) {
                Ok(table) if told.iter().all(|&slot| table.makespan(slot).is_some()) => return Ok(table),
                Ok(_) | Err(TableError::Times) => {}
                Err(error) => return Err(error),
            }
        }
        self.table_of::<i64>(capacity)
    }

    fn table_of<C: Cost>(&self, capacity: usize) -> Result<Box<dyn Sequenced + '_>, TableError> {
        Ok(match &self.ranges {
            None => Box::new(WeakTable::<C>::new(&self.slotted, capacity)?),
            Some(ranges) => Box::new(Table::<C>::new(&self.slotted, ranges, self.rule, capacity)?),
        })
    }

    /// A sequence for each budget with a window, if there is one.
    pub(super) fn sequences(&self, budgets: &[u64], windows: &[Option<Window>]) -> Result<Sequences, TableError> {
        let Some(capacity) = windows.iter().flatten().map(|window| window.most).max() else {
            return Ok(vec![None; budgets.len()]);
        };
        let told: Vec<_> = windows.iter().flatten().map(|window| window.safe.max(self.least)).collect();
        let table = self.table(capacity, &told)?;
        let answer = |(&budget, window): (&u64, &Option<Window>)| self.fit(&*table, budget, (*window)?);
        Ok(budgets.iter().zip(windows).map(answer).collect())
    }

    /// The makespan of the table for each budget, none where the table has none.
    pub(super) fn makespans(&self, budgets: &[u64]) -> Result<Vec<Option<u64>>, TableError> {
        let slots: Vec<_> = budgets
            .iter()
            .map(|&budget| self.slot(budget).map(|slot| slot.min(self.enough)).filter(|&slot| slot >= self.least))
            .collect();
        let told: Vec<_> = slots.iter().flatten().copied().collect();
        let Some(&capacity) = told.iter().max() else { return Ok(vec![None; budgets.len()]) };
        let table = self.table(capacity, &told)?;
        Ok(slots.into_iter().map(|slot| table.makespan(slot?)).collect())
    }

    /// The sequence for the most slots that meets the budget; bisection, as if peaks grew with slots,
    /// which they nearly do.
    fn fit(&self, table: &dyn Sequenced, budget: u64, window: Window) -> Option<Vec<ChainStep>> {
        let meets = |slot: usize| {
            let sequence = table.sequence(slot)?;
            let cost = self.chain.evaluate(&sequence).ok()?;
            (cost.peak_bytes <= budget).then_some(sequence)
        };
        let mut low = window.safe.max(self.least);
        let mut best = meets(low);
        let mut high = window.most;
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match meets(middle) {
                Some(sequence) => {
                    best = Some(sequence);
                    low = middle;
                }
                None => high = middle - 1,
            }
        }
        best
    }
}
