//! Any number of budgets from one table.

use remat_core::chain::{Chain, ChainStep};

use super::kernel::Cost;
use super::ranges::{Ranges, Rule};
use super::slots::SlottedChain;
use super::table::{Table, TableError};
use super::trace::Trace;

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

/// The memory axis: capacity in slots of each budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Bytes of a slot.
    pub unit: u64,
    /// Slots that each budget leaves beside the chain's input; none where not even that fits.
    pub capacities: Vec<Option<usize>>,
}

impl Axis {
    /// Cuts the largest budget, less the fixed bytes, into at most `slots` slots.
    pub fn new(chain: &Chain, budgets: &[u64], slots: u64) -> Self {
        let usable = |budget: u64| budget.checked_sub(chain.fixed_bytes);
        let largest = budgets.iter().filter_map(|&budget| usable(budget)).max().unwrap_or(0);
        let unit = largest.div_ceil(slots).max(1);
        let input = chain.input_bytes.div_ceil(unit);
        let capacity = |budget: u64| usize::try_from((usable(budget)? / unit).checked_sub(input)?).ok();
        Self { unit, capacities: budgets.iter().map(|&budget| capacity(budget)).collect() }
    }
}

/// What the solver did, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Bytes of the table.
    pub table_bytes: usize,
}

/// Optimal sequences for some budgets (bytes, the chain's fixed bytes and input included).
///
/// # Errors
/// There is too little memory for the table.
pub fn solve(chain: &Chain, budgets: &[u64], slots: u64, rule: Rule) -> Result<(Vec<Outcome>, Effort), TableError> {
    let axis = Axis::new(chain, budgets, slots);
    let slotted = SlottedChain::new(chain, axis.unit);
    let ranges = Ranges::new(&slotted, rule);
    let needed = least_bytes(chain, rule);
    let root = (0, slotted.len() - 1);
    let fits = |capacity: Option<usize>| capacity.filter(|&m| m >= ranges.least[root]);
    let Some(capacity) = axis.capacities.iter().copied().filter_map(fits).max() else {
        let outcome = |&budget: &u64| if budget < needed { Outcome::Infeasible } else { Outcome::LostToRounding };
        return Ok((budgets.iter().map(outcome).collect(), Effort::default()));
    };
    let problem = Problem { chain: &slotted, ranges: &ranges, rule, capacity };
    let mut effort = Effort::default();
    let wanted: Vec<_> = axis.capacities.iter().map(|&capacity| fits(capacity)).collect();
    let narrow = problem.sequences::<u32>(&wanted, &mut effort)?;
    // What the narrow type calls infinite may be finite in the wide one.
    let complete =
        |sequences: &Vec<Option<_>>| wanted.iter().zip(sequences).all(|(m, found)| m.is_none() || found.is_some());
    let sequences = match narrow.filter(complete) {
        Some(sequences) => sequences,
        None => problem.sequences::<i64>(&wanted, &mut effort)?.unwrap_or_else(|| vec![None; wanted.len()]),
    };
    let outcome = |(&budget, sequence): (&u64, Option<Vec<ChainStep>>)| match sequence {
        Some(sequence) => Outcome::Sequence(sequence),
        None if budget < needed => Outcome::Infeasible,
        None => Outcome::LostToRounding,
    };
    Ok((budgets.iter().zip(sequences).map(outcome).collect(), effort))
}

/// Least budget, in bytes, that any sequence of the rule's class meets: exact.
pub fn least_bytes(chain: &Chain, rule: Rule) -> u64 {
    let exact = SlottedChain::new(chain, 1);
    let least = Ranges::new(&exact, rule).least[(0, exact.len() - 1)];
    (least as u64).saturating_add(chain.fixed_bytes).saturating_add(chain.input_bytes)
}

struct Problem<'a> {
    chain: &'a SlottedChain,
    ranges: &'a Ranges,
    rule: Rule,
    capacity: usize,
}

impl Problem<'_> {
    /// A sequence for each wanted number of slots; none at all when times do not fit the type.
    fn sequences<C: Cost>(
        &self,
        wanted: &[Option<usize>],
        effort: &mut Effort,
    ) -> Result<Option<Vec<Option<Vec<ChainStep>>>>, TableError> {
        // A narrow table that is bound to overflow is not worth computing.
        let once: u64 = self.chain.savings.iter().zip(&self.ranges.fastest).map(|(s, &f)| s[f].time).sum();
        if C::new(once.saturating_mul(2)).is_none() {
            return Ok(None);
        }
        let table = match Table::<C>::new(self.chain, self.ranges, self.rule, self.capacity) {
            Ok(table) => table,
            Err(TableError::Times) => return Ok(None),
            Err(error) => return Err(error),
        };
        effort.table_bytes = table.bytes();
        let trace = Trace { chain: self.chain, ranges: self.ranges, rule: self.rule, table: &table };
        Ok(Some(wanted.iter().map(|m| trace.sequence((*m)?)).collect()))
    }
}
