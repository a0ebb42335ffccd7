//! As many slots as it takes: finer and finer tables, until the loss is proved to be small.
//!
//! Each round computes two tables on the aligned grids of `slots.rs`. With sizes rounded up it gives a
//! sequence, with sizes rounded down a makespan that no sequence can beat. A budget is refined for itself: its
//! answer does not depend on others.

use std::time::{Duration, Instant};

use remat_core::chain::{Chain, ChainCost, ChainStep};

use super::persistent::table as persistent;
use super::rule::Rule;
use super::slots::{Rounding, SlottedChain};
use super::solve::{DynamicProgram, Outcome, Slack, fits_in, least_bytes, useful_bytes};
use super::states::States;
use super::storage::{Execution, TableError};
use super::weak::table as weak;
use crate::search::clock::Clock;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Proved loss with which a budget is done, as a part of the makespan.
    pub loss: f64,
    /// Bytes that a table may take.
    pub bytes: usize,
    /// Time for a budget.
    pub time: Option<Duration>,
}

/// Why the refinement of a budget ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The loss is as small as it was to be, or there is no sequence.
    Done,
    /// Finer slots would take more memory or more operations than a budget is worth ([`MOST_OPERATIONS`]).
    Size,
    /// There was no time for finer slots.
    Time,
}

/// The answer for one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refined {
    /// The best sequence found, if any.
    pub outcome: Outcome,
    /// No sequence of the rule's class that meets the budget takes less.
    pub lower_bound: Option<u64>,
    /// Slots of the finest table, zero where none was needed.
    pub slots: u64,
    /// Why there was no finer one.
    pub end: End,
}

impl Refined {
    /// How much longer the sequence takes than the bound, as a part of the bound.
    pub fn loss(&self, chain: &Chain) -> f64 {
        match (self.time(chain), self.lower_bound) {
            (Some(time), Some(bound)) if time <= bound => 0.0,
            (Some(time), Some(bound)) => (time - bound) as f64 / bound.max(1) as f64,
            _ => f64::INFINITY,
        }
    }

    fn time(&self, chain: &Chain) -> Option<u64> {
        let Outcome::Sequence(sequence) = &self.outcome else { return None };
        chain.evaluate(sequence).ok().map(|cost| cost.time)
    }

    fn offer(&mut self, chain: &Chain, sequence: Option<Vec<ChainStep>>) {
        let Some(sequence) = sequence else { return };
        let offered = Self { outcome: Outcome::Sequence(sequence), ..*self };
        if self.time(chain).is_none_or(|time| offered.time(chain).is_some_and(|offered| offered < time)) {
            *self = offered;
        }
    }
}

/// Fewest and most slots of a first table, and the operations that it may take.
const FIRST: (u64, u64, u64) = (100, 8_000, 100_000_000);

/// Where a budget lies a hair below what a better sequence needs, the bound stays behind whatever the slots.
const MOST_SLOTS: u64 = 100_000;

/// Min-plus operations of the largest table, of the persistent programs and of the weak one: beyond, a smaller loss is
/// not worth the wait. With the tables before it a budget takes tens of CPU seconds at most.
pub const MOST_OPERATIONS: [f64; 2] = [6e10, 1.5e10];

/// Proved loss with which a start is good enough.
const START_LOSS: f64 = 0.05;

/// What the budgets of a chain have in common.
pub struct Refinement<'a> {
    chain: &'a Chain,
    rule: Rule,
    /// With the time that each budget has: what there was less what was spent on all of them.
    goal: Goal,
    /// Least budget that is met; none where there was no time to tell.
    needed: Option<u64>,
    /// The persistent programs, whose sequences weakly persistent ones start from.
    start: Option<Box<Self>>,
    /// The sequence without recomputation, if the rule allows it.
    store_all: Option<(Vec<ChainStep>, ChainCost)>,
    /// Bytes and operations of a table, per slot.
    per_slot: (f64, f64),
}

impl<'a> Refinement<'a> {
    /// Finds out what any budget needs.
    ///
    /// # Errors
    /// Even the smallest tables are larger than they may be, or there is no time.
    pub fn new(chain: &'a Chain, rule: Rule, goal: Goal) -> Result<Self, TableError> {
        let began = Instant::now();
        fits_in(chain, rule, goal.bytes, FIRST.0)?;
        let start = match rule {
            Rule::Weak => {
                let goal = Goal { loss: START_LOSS, time: goal.time.map(|time| time / 2), ..goal };
                Self::new(chain, Rule::Persistent, goal).ok().map(Box::new)
            }
            Rule::Persistent | Rule::SaveLast => None,
        };
        let slotted = SlottedChain::aligned(chain, 1, rule.account(), Rounding::Up);
        let (bytes, operations) = match rule {
            Rule::Weak => (weak::bytes::<u32>(&slotted, 100_000), weak::operations(&States::weak(&slotted))),
            Rule::Persistent | Rule::SaveLast => {
                (persistent::bytes::<u32>(chain.len(), 100_000), persistent::operations(chain.len()))
            }
        };
        let fastest = chain.store_all(|stage| slotted.fastest_position(stage));
        let cost = chain.evaluate(&fastest).ok().filter(|_| rule != Rule::SaveLast);
        let half = Clock::start(goal.time.map(|time| time / 2));
        let needed = match least_bytes(chain, rule, Execution::within(half)) {
            Err(TableError::Deadline) if start.is_some() => None,
            needed => Some(needed?),
        };
        Ok(Self {
            chain,
            rule,
            goal: Goal { time: goal.time.map(|time| time.saturating_sub(began.elapsed())), ..goal },
            needed,
            start,
            store_all: cost.map(|cost| (fastest, cost)),
            per_slot: (bytes as f64 / 100_000.0, operations.max(1) as f64),
        })
    }

    /// The best sequence for a budget (bytes, the chain's fixed bytes and input included), with a proof of how
    /// good it is.
    ///
    /// # Errors
    /// There is too little memory even for the first tables.
    pub fn refine(&self, budget: u64) -> Result<Refined, TableError> {
        let clock = Clock::start(self.goal.time);
        let mut answer = self.without_table(budget);
        if answer.end == End::Done {
            return Ok(answer);
        }
        if let Some(start) = self.start.as_ref().and_then(|start| start.refine(budget).ok()) {
            answer.offer(self.chain, start.outcome.sequence());
        }
        if self.needed.is_none() {
            return Ok(Refined { end: End::Time, ..answer });
        }
        let slots = whole(FIRST.2 as f64 / self.per_slot.1).clamp(FIRST.0, FIRST.1);
        let mut bytes = useful_bytes(self.chain, budget).div_ceil(slots).max(1);
        let mut previous = u64::MAX;
        loop {
            bytes = bytes.max(self.finest(budget));
            if bytes >= previous - previous / 8 {
                return Ok(answer); // Hardly finer than before.
            }
            let started = Instant::now();
            match self.round(budget, bytes, Execution::within(clock), &mut answer) {
                Err(TableError::Deadline) => return Ok(Refined { end: End::Time, ..answer }),
                // Too large after all: what there is stays.
                Err(_) if previous < u64::MAX || answer.time(self.chain).is_some() => return Ok(answer),
                other => other?,
            }
            let loss = answer.loss(self.chain);
            if loss <= self.goal.loss {
                return Ok(Refined { end: End::Done, ..answer });
            }
            let left = clock.left().map_or(f64::INFINITY, |left| left.as_secs_f64());
            let took = started.elapsed().as_secs_f64();
            // By how much finer a round may be to end in time. The first half of a round brings a sequence: where there
            // is time for half a round, one is begun.
            let affordable = 0.9 * left / took.max(1e-6);
            if affordable < 0.75 {
                return Ok(Refined { end: End::Time, ..answer });
            }
            let factor = (1.3 * loss / self.goal.loss.max(1e-9)).clamp(1.5, 4.0);
            previous = bytes;
            bytes = whole(bytes as f64 / factor.min(affordable.max(1.5)));
        }
    }

    /// The same from one round with so many slots, whatever the loss.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn once(&self, budget: u64, slots: u64) -> Result<Refined, TableError> {
        let mut answer = self.without_table(budget);
        let bytes = useful_bytes(self.chain, budget).div_ceil(slots).max(1);
        self.round(budget, bytes, Execution::default(), &mut answer)?;
        Ok(answer)
    }

    /// What is known without a table.
    fn without_table(&self, budget: u64) -> Refined {
        let known = |outcome, lower_bound, end| Refined { outcome, lower_bound, slots: 0, end };
        match &self.store_all {
            _ if self.needed.is_some_and(|needed| budget < needed) => known(Outcome::Infeasible, None, End::Done),
            Some((sequence, cost)) if cost.peak_bytes <= budget => {
                known(Outcome::Sequence(sequence.clone()), Some(cost.time), End::Done)
            }
            _ => known(Outcome::LostToRounding, None, End::Size),
        }
    }

    /// Bytes of the smallest slot with which a table fits into the memory and the operations allowed and has no
    /// more than [`MOST_SLOTS`].
    fn finest(&self, budget: u64) -> u64 {
        let (bytes, operations) = self.per_slot;
        let most = MOST_OPERATIONS[usize::from(self.rule == Rule::Weak)];
        let slots = (self.goal.bytes as f64 / bytes).min(most / operations);
        useful_bytes(self.chain, budget).div_ceil(whole(slots).clamp(FIRST.0, MOST_SLOTS))
    }

    /// Two tables with slots of so many bytes.
    fn round(&self, budget: u64, unit: u64, execution: Execution, answer: &mut Refined) -> Result<(), TableError> {
        if answer.outcome == Outcome::Infeasible {
            return Ok(());
        }
        let program = |rounding| {
            let slotted = SlottedChain::aligned(self.chain, unit, self.rule.account(), rounding);
            DynamicProgram::new(self.chain, slotted, self.rule, execution)
        };
        answer.offer(self.chain, program(Rounding::Up)?.sequence(budget, Slack::Eighth, execution)?);
        let bound = program(Rounding::Down)?.makespan(budget, execution)?;
        answer.slots = useful_bytes(self.chain, budget).div_ceil(unit);
        answer.lower_bound = answer.lower_bound.max(bound);
        Ok(())
    }
}

/// A number that is not negative, as a whole one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn whole(number: f64) -> u64 {
    number as u64
}
