//! Any number of budgets from one table.

use remat_core::chain::{Chain, ChainStep};

use super::kernel::Cost;
use super::ranges::{Ranges, Rule};
use super::slots::SlottedChain;
use super::table::{Table, TableError};
use crate::rotor_weak::{self, table::WeakTable};

/// Answer for one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An optimal sequence for the rounded sizes.
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

/// The memory axis: capacity in slots of each budget.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Axis {
    /// Bytes of a slot.
    unit: u64,
    /// Slots that each budget leaves beside the chain's input; none where not even that fits.
    capacities: Vec<Option<usize>>,
}

impl Axis {
    /// Cuts the largest useful budget, less the fixed bytes, into at most `slots` slots.
    fn new(chain: &Chain, budgets: &[u64], slots: u64) -> Self {
        let usable = |budget: u64| budget.checked_sub(chain.fixed_bytes);
        // More than saving everything takes is of no use, and would only make the slots coarser.
        let enough = chain.evaluate(&chain.store_all(|_| 0)).map_or(u64::MAX, |cost| cost.peak_bytes);
        let largest = budgets.iter().filter_map(|&budget| usable(budget.min(enough))).max().unwrap_or(0);
        let unit = largest.div_ceil(slots).max(1);
        let input = chain.input_bytes.div_ceil(unit);
        // Every size rounded up, saving everything takes at most some slots per stage more.
        let useful = enough.saturating_add(unit.saturating_mul(8 * (chain.len() as u64 + 1)));
        let capacity = |budget: u64| usize::try_from((usable(budget.min(useful))? / unit).checked_sub(input)?).ok();
        Self { unit, capacities: budgets.iter().map(|&budget| capacity(budget)).collect() }
    }
}

/// Best sequences for some budgets (bytes, the chain's fixed bytes and input included).
///
/// # Errors
/// There is too little memory for the table.
pub fn solve(chain: &Chain, budgets: &[u64], settings: Settings) -> Result<Vec<Outcome>, TableError> {
    let Settings { slots, rule, fit } = settings;
    let axis = Axis::new(chain, budgets, slots);
    if let (Rule::Weak, Some(&Some(slots))) = (rule, axis.capacities.iter().max()) {
        rotor_weak::table::fits::<u32>(chain.len(), slots)?;
    }
    let slotted = SlottedChain::new(chain, axis.unit);
    let ranges = Ranges::new(&slotted, rule);
    let needed = least_bytes(chain, rule);
    let least = least_slots(&slotted, &ranges, rule);
    let feasible: Vec<_> = budgets.iter().map(|&budget| budget >= needed).collect();
    let problem = Problem { chain, slotted: &slotted, ranges: &ranges, rule, least };
    let limits = axis.capacities.iter().zip(&feasible).map(|(&safe, &feasible)| {
        let safe = safe.filter(|_| feasible)?;
        problem.limits(safe, fit)
    });
    let wanted: Vec<Option<Limits>> = limits.collect();
    let mut sequences = problem.narrow_or_wide(budgets, &wanted)?.unwrap_or_else(|| vec![None; budgets.len()]);
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

/// Gives each budget the fastest of all sequences found that meets it, so that more memory never costs time.
fn share(chain: &Chain, budgets: &[u64], sequences: &mut [Option<Vec<ChainStep>>]) {
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
    let exact = SlottedChain::new(chain, 1);
    let ranges = Ranges::new(&exact, rule);
    let least = least_slots(&exact, &ranges, rule);
    (least as u64).saturating_add(chain.fixed_bytes).saturating_add(chain.input_bytes)
}

/// Least memory of the whole chain beside its input, in slots.
fn least_slots(chain: &SlottedChain, ranges: &Ranges, rule: Rule) -> usize {
    let last = chain.len() - 1;
    match rule {
        Rule::Persistent | Rule::SaveLast => ranges.least[(0, last)],
        Rule::Weak => rotor_weak::least::least(chain).row(0, 0, last)[0].saturating_sub(chain.input[0]),
    }
}

/// Between how many slots the answer to a budget is looked for.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// A sequence for so many, if there is one, meets the budget for certain.
    safe: usize,
    /// More are not tried.
    most: usize,
}

struct Problem<'a> {
    chain: &'a Chain,
    slotted: &'a SlottedChain,
    ranges: &'a Ranges,
    rule: Rule,
    /// Slots below which there is no sequence.
    least: usize,
}

/// A table that sequences can be read off.
trait Sequenced {
    /// A best sequence with `m` slots beside the chain's input; none where there is none.
    fn sequence(&self, m: usize) -> Option<Vec<ChainStep>>;
    /// Whether there is one that the table's cells can tell from none.
    fn is_finite(&self, m: usize) -> bool;
}

impl<C: Cost> Sequenced for Table<'_, C> {
    fn sequence(&self, m: usize) -> Option<Vec<ChainStep>> {
        Table::sequence(self, m)
    }
    fn is_finite(&self, m: usize) -> bool {
        Table::is_finite(self, m)
    }
}

impl<C: Cost> Sequenced for WeakTable<'_, C> {
    fn sequence(&self, m: usize) -> Option<Vec<ChainStep>> {
        WeakTable::sequence(self, m + self.input())
    }
    fn is_finite(&self, m: usize) -> bool {
        self.makespan(m + self.input()).is_some()
    }
}

type Sequences = Vec<Option<Vec<ChainStep>>>;

impl Problem<'_> {
    /// None where no number of slots is worth trying.
    fn limits(&self, safe: usize, fit: Fit) -> Option<Limits> {
        let root = (0, self.slotted.len() - 1);
        // Each stage keeps at most one tensor or set of tensors, each rounded up by less than a slot.
        let slack = if fit == Fit::Exact { self.slotted.len() + 4 } else { 0 };
        let safe = safe.min(self.ranges.enough[root]);
        let most = (safe + slack).min(self.ranges.enough[root]);
        (most >= self.least).then_some(Limits { safe, most })
    }

    fn narrow_or_wide(&self, budgets: &[u64], wanted: &[Option<Limits>]) -> Result<Option<Sequences>, TableError> {
        let narrow = self.sequences::<u32>(budgets, wanted)?;
        match narrow {
            // What the narrow type calls infinite may be finite in the wide one.
            Some((sequences, true)) => Ok(Some(sequences)),
            _ => Ok(self.sequences::<i64>(budgets, wanted)?.map(|(sequences, _)| sequences)),
        }
    }

    /// A sequence for each budget, and whether the table could tell all makespans from infinity; none
    /// at all when times do not fit the type.
    fn sequences<C: Cost>(
        &self,
        budgets: &[u64],
        wanted: &[Option<Limits>],
    ) -> Result<Option<(Sequences, bool)>, TableError> {
        let Some(capacity) = wanted.iter().flatten().map(|limits| limits.most).max() else {
            return Ok(Some((vec![None; budgets.len()], true)));
        };
        // A narrow table that is bound to overflow is not worth computing.
        let once: u64 = self.slotted.savings.iter().zip(&self.ranges.fastest).map(|(s, &f)| s[f].time).sum();
        if C::new(once.saturating_mul(2)).is_none() {
            return Ok(None);
        }
        let sequenced: Result<Box<dyn Sequenced + '_>, TableError> = if self.rule == Rule::Weak {
            WeakTable::<C>::new(self.slotted, capacity).map(|table| Box::new(table) as _)
        } else {
            Table::<C>::new(self.slotted, self.ranges, self.rule, capacity).map(|table| Box::new(table) as _)
        };
        let sequenced = match sequenced {
            Ok(sequenced) => sequenced,
            Err(TableError::Times) => return Ok(None),
            Err(error) => return Err(error),
        };
        let tellable = wanted.iter().flatten().all(|limits| sequenced.is_finite(limits.safe.max(self.least)));
        let answer = |(&budget, limits): (&u64, &Option<Limits>)| self.fit(&*sequenced, budget, (*limits)?);
        Ok(Some((budgets.iter().zip(wanted).map(answer).collect(), tellable)))
    }

    /// The sequence for the most slots that meets the budget; bisection, as if peaks grew with slots,
    /// which they nearly do.
    fn fit(&self, table: &dyn Sequenced, budget: u64, limits: Limits) -> Option<Vec<ChainStep>> {
        let meets = |m: usize| {
            let sequence = table.sequence(m)?;
            let cost = self.chain.evaluate(&sequence).ok()?;
            (cost.peak_bytes <= budget).then_some(sequence)
        };
        let mut low = limits.safe.max(self.least);
        let mut best = meets(low);
        let mut high = limits.most;
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
