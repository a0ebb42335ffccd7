//! Any number of budgets from one table.

use remat_core::chain::{Chain, ChainStep};

use super::persistent::table::{self as persistent, Table};
use super::ranges::Ranges;
use super::rule::Rule;
use super::slots::{Account, Rounding, SlottedChain};
use super::storage::{Execution, TableError};
use super::trace::Sequenced;
use super::weak::table::WeakTable;
use crate::setting;
use crate::vectors::Cost;

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

impl Outcome {
    /// The sequence, if there is one.
    pub fn sequence(self) -> Option<Vec<ChainStep>> {
        if let Self::Sequence(sequence) = self { Some(sequence) } else { None }
    }
}

setting! {
    /// with a number of slots, which of the table's sequences answers a budget. exact: the one for the most slots
    /// whose peak in bytes meets the budget; rounded: the one for as many slots as the budget has, as published, which
    /// leaves unused what rounding up adds
    pub enum Fit("fit") = Exact { Exact = "exact", Rounded = "rounded" }
}

/// What is to be solved, besides the chain and the budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Slots that the memory for saving everything is divided into.
    pub slots: u64,
    /// Which sequences are allowed.
    pub rule: Rule,
    /// Which sequence answers a budget.
    pub fit: Fit,
}

/// Best sequences for some budgets (bytes, the chain's fixed bytes and input included), every size
/// rounded up to slots as published; `answer` is called for one budget after the other.
///
/// # Errors
/// There is too little memory or time for the table.
pub fn solve(
    chain: &Chain,
    budgets: &[u64],
    settings: Settings,
    execution: Execution,
    mut answer: impl FnMut(usize, Outcome),
) -> Result<(), TableError> {
    let Settings { slots, rule, fit } = settings;
    fits_in(chain, rule, MOST_BYTES, slots)?;
    let unit = useful_bytes(chain, u64::MAX).div_ceil(slots).max(1);
    let slotted = SlottedChain::rounded(chain, unit, rule.account());
    let program = DynamicProgram::new(chain, slotted, rule, execution)?;
    let needed = least_bytes(chain, rule, execution)?;
    let slack = if fit == Fit::Exact { Slack::All } else { Slack::None };
    let window = |&budget: &u64| program.window(budget, slack).filter(|_| budget >= needed);
    let windows: Vec<_> = budgets.iter().map(window).collect();
    let table = program.table_for(windows.iter().flatten(), execution)?;
    for (index, (&budget, window)) in budgets.iter().zip(windows).enumerate() {
        let sequence = window.zip(table.as_ref()).and_then(|(window, table)| program.fit(&**table, budget, window));
        let without = if budget < needed { Outcome::Infeasible } else { Outcome::LostToRounding };
        answer(index, sequence.map_or(without, Outcome::Sequence));
    }
    Ok(())
}

/// Tables beyond this are refused.
const MOST_BYTES: usize = 16 << 30;

/// Whether a table with so many slots is within some bytes: told before anything is computed.
///
/// # Errors
/// It is not.
pub(super) fn fits_in(chain: &Chain, rule: Rule, most: usize, slots: u64) -> Result<(), TableError> {
    let slots = usize::try_from(slots).unwrap_or(usize::MAX);
    let bytes = match rule {
        // The table of the weak program has these rows and more.
        Rule::Weak => (chain.len() * chain.len() / 2).saturating_mul(slots).saturating_mul(size_of::<u32>()),
        Rule::Persistent | Rule::SaveLast => persistent::bytes::<u32>(chain.len(), slots),
    };
    if bytes <= most {
        return Ok(());
    }
    let allowed = format!("a chain of {} stages in {slots} slots; {most} are allowed", chain.len());
    Err(TableError::Memory { bytes, source: std::io::Error::new(std::io::ErrorKind::OutOfMemory, allowed) })
}

/// Bytes of a budget that can be of use, less the fixed bytes: more than saving everything takes is not, and would
/// only make the slots coarser.
pub(super) fn useful_bytes(chain: &Chain, budget: u64) -> u64 {
    let enough = chain.evaluate(&chain.store_all(|_| 0)).map_or(u64::MAX, |cost| cost.peak_bytes);
    budget.min(enough).saturating_sub(chain.fixed_bytes)
}

/// Least budget, in bytes, that any sequence of the rule's class meets: exact.
///
/// # Errors
/// There is too little time.
pub fn least_bytes(chain: &Chain, rule: Rule, execution: Execution) -> Result<u64, TableError> {
    let exact = SlottedChain::aligned(chain, 1, rule.account(), Rounding::Up);
    let least = DynamicProgram::new(chain, exact, rule, execution)?.least as u64;
    let input = if rule.account() == Account::BesideInput { chain.input_bytes } else { 0 };
    Ok(least.saturating_add(chain.fixed_bytes).saturating_add(input))
}

/// Between how many slots the answer to a budget is looked for.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// A sequence for so many, if there is one, meets the budget for certain.
    safe: usize,
    /// More are not tried.
    most: usize,
}

/// How many slots more than a budget's own are tried, because rounding up leaves memory unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slack {
    None,
    /// As many as an eighth of its own: on aligned grids hardly more fit.
    Eighth,
    /// As many as can fit.
    All,
}

/// The dynamic program of a rule for a chain in slots.
pub(super) struct DynamicProgram<'a> {
    chain: &'a Chain,
    slotted: SlottedChain,
    ranges: Ranges,
    /// The slot below which there is no sequence.
    least: usize,
    /// The slot from which nothing is gained.
    enough: usize,
}

impl<'a> DynamicProgram<'a> {
    pub(super) fn new(
        chain: &'a Chain,
        slotted: SlottedChain,
        rule: Rule,
        execution: Execution,
    ) -> Result<Self, TableError> {
        let ranges = Ranges::new(&slotted, rule, execution)?;
        let (least, enough) = (ranges.least[ranges.root()], ranges.enough_for_all(&slotted));
        Ok(Self { chain, slotted, ranges, least, enough })
    }

    fn slot(&self, budget: u64) -> Option<usize> {
        self.slotted.slot_of_budget(budget.checked_sub(self.chain.fixed_bytes)?)
    }

    /// None where no number of slots is worth trying.
    fn window(&self, budget: u64, slack: Slack) -> Option<Window> {
        let safe = self.slot(budget)?.min(self.enough);
        // Each stage keeps at most one tensor or set of tensors, each rounded up by less than a slot.
        let most = self.slotted.len() + 4;
        let slack = match slack {
            Slack::None => 0,
            Slack::Eighth => most.min(safe / 8),
            Slack::All => most,
        };
        let most = (safe + slack).min(self.enough);
        (most >= self.least).then_some(Window { safe, most })
    }

    /// The table for some windows, none where there are none: in the narrowest cells that can tell the makespans of
    /// their safe slots.
    fn table_for<'w>(
        &self,
        windows: impl Iterator<Item = &'w Window>,
        execution: Execution,
    ) -> Result<Option<Box<dyn Sequenced + '_>>, TableError> {
        let windows: Vec<_> = windows.collect();
        let Some(capacity) = windows.iter().map(|window| window.most).max() else { return Ok(None) };
        let once: u64 = (0..self.slotted.len()).map(|stage| self.slotted.fastest(stage).time).sum();
        // A narrow table that is bound to overflow is not worth computing.
        if <u32 as Cost>::new(once.saturating_mul(2)).is_some() {
            let is_told =
                |table: &dyn Sequenced, window: &Window| table.makespan(window.safe.max(self.least)).is_some();
            match self.table::<u32>(capacity, execution) {
                Ok(table) if windows.iter().all(|window| is_told(&*table, window)) => return Ok(Some(table)),
                Ok(_) | Err(TableError::Times) => {}
                Err(error) => return Err(error),
            }
        }
        self.table::<i64>(capacity, execution).map(Some)
    }

    fn table<C: Cost>(&self, capacity: usize, execution: Execution) -> Result<Box<dyn Sequenced + '_>, TableError> {
        let (chain, ranges) = (&self.slotted, &self.ranges);
        Ok(match ranges.rule {
            Rule::Weak => Box::new(WeakTable::<C>::new(chain, ranges, capacity, execution)?),
            Rule::Persistent | Rule::SaveLast => Box::new(Table::<C>::new(chain, ranges, capacity, execution)?),
        })
    }

    /// A sequence for a budget, if there is one.
    pub(super) fn sequence(
        &self,
        budget: u64,
        slack: Slack,
        execution: Execution,
    ) -> Result<Option<Vec<ChainStep>>, TableError> {
        let window = self.window(budget, slack);
        let table = self.table_for(window.iter(), execution)?;
        Ok(window.zip(table).and_then(|(window, table)| self.fit(&*table, budget, window)))
    }

    /// The makespan of the table for a budget, none where the table has none.
    pub(super) fn makespan(&self, budget: u64, execution: Execution) -> Result<Option<u64>, TableError> {
        let window = self.window(budget, Slack::None);
        let table = self.table_for(window.iter(), execution)?;
        Ok(window.zip(table).and_then(|(window, table)| table.makespan(window.safe)))
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
