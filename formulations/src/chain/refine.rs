//! As many slots as it takes: finer and finer tables, until the loss is proved to be small.
//!
//! Each round computes two tables on the aligned grids of `slots.rs`. With sizes rounded up it gives
//! sequences, with sizes rounded down makespans that no sequence can beat. Budgets whose two figures are
//! near enough are done; the next round's slots are fractions of the largest of the others.

use std::time::{Duration, Instant};

use remat_core::chain::{Chain, ChainStep};

use super::rule::Rule;
use super::slots::{Rounding, SlottedChain};
use super::solve::{Fit, Outcome, Program, least_bytes, share, unit};
use super::storage::TableError;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// Proved loss with which a budget is done, as a part of the makespan.
    pub loss: f64,
    /// Bytes that a table may take.
    pub bytes: usize,
    /// When the answers are wanted.
    pub deadline: Option<Instant>,
}

/// The answer for one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refined {
    /// The best sequence found, if any.
    pub outcome: Outcome,
    /// No sequence of the rule's class that meets the budget takes less.
    pub lower_bound: Option<u64>,
    /// Slots of the finest table that the budget took part in, zero where none was needed.
    pub slots: u64,
}

impl Refined {
    /// How much longer a sequence takes than the bound, as a part of the bound.
    pub fn loss(&self, chain: &Chain) -> f64 {
        let time = match &self.outcome {
            Outcome::Sequence(sequence) => chain.evaluate(sequence).ok().map(|cost| cost.time),
            _ => None,
        };
        match (time, self.lower_bound) {
            (Some(time), Some(bound)) if time <= bound => 0.0,
            (Some(time), Some(bound)) => (time - bound) as f64 / bound.max(1) as f64,
            _ => f64::INFINITY,
        }
    }
}

/// Fewest and most slots of a first table, and the operations that it may take.
const FIRST: (u64, u64, u64) = (500, 16_000, 600_000_000);

/// Where a budget lies a hair below what a better sequence needs, the bound stays behind whatever the slots.
const MOST_SLOTS: u64 = 100_000;

/// Best sequences for some budgets (bytes, the chain's fixed bytes and input included), with a proof of
/// how good they are.
///
/// # Errors
/// There is too little memory even for the first tables.
pub fn refine(chain: &Chain, budgets: &[u64], rule: Rule, goal: Goal) -> Result<Vec<Refined>, TableError> {
    let needed = least_bytes(chain, rule);
    let mut refinement =
        Refinement { chain, rule, goal, budgets, answers: first_answers(chain, budgets, needed, rule) };
    let stages = chain.len() as u64;
    // The weak program computes a few rows for each one of the persistent program.
    let operations = if rule == Rule::Weak { FIRST.2 / 4 } else { FIRST.2 };
    let slots = (operations / (stages.pow(3) / 6).max(1)).clamp(FIRST.0, FIRST.1);
    let mut open = refinement.open();
    let mut bytes = refinement.unit(&open, slots);
    let mut previous = u64::MAX;
    while !open.is_empty() {
        bytes = bytes.max(refinement.finest(&open));
        if bytes >= previous - previous / 8 {
            break; // Hardly finer than before.
        }
        let started = Instant::now();
        match refinement.round(&open, bytes) {
            Err(_) if previous < u64::MAX => break, // Too large after all: what there is stays.
            other => other?,
        }
        previous = bytes;
        let before = refinement.unit(&open, 1);
        open = refinement.open();
        let worst = open.iter().map(|&index| refinement.answers[index].loss(chain)).fold(0.0, f64::max);
        // Smaller budgets than before make a smaller table of the same slots.
        let smaller = before as f64 / refinement.unit(&open, 1) as f64;
        let factor = (1.3 * worst / goal.loss.max(1e-9)).clamp(1.5, 4.0);
        bytes = whole(bytes as f64 / factor.min(smaller * refinement.affordable(started.elapsed())));
    }
    Ok(refinement.answers)
}

/// The same from one round with so many slots, whatever the loss.
///
/// # Errors
/// There is too little memory.
pub fn once(chain: &Chain, budgets: &[u64], rule: Rule, slots: u64) -> Result<Vec<Refined>, TableError> {
    let needed = least_bytes(chain, rule);
    let goal = Goal { loss: 0.0, bytes: usize::MAX, deadline: None };
    let mut refinement =
        Refinement { chain, rule, goal, budgets, answers: first_answers(chain, budgets, needed, rule) };
    let open = refinement.open();
    let bytes = refinement.unit(&open, slots);
    refinement.round(&open, bytes)?;
    Ok(refinement.answers)
}

/// What is known without a table.
fn first_answers(chain: &Chain, budgets: &[u64], needed: u64, rule: Rule) -> Vec<Refined> {
    let fastest = |stage: usize| {
        let key = |&way: &usize| {
            let saving = &chain.stages[stage].savings[way];
            (saving.forward_time + saving.backward_time, saving.saved_bytes)
        };
        (0..chain.stages[stage].savings.len()).min_by_key(key).unwrap_or(0)
    };
    let store_all = chain.store_all(fastest);
    let cost = chain.evaluate(&store_all).ok().filter(|_| rule != Rule::SaveLast);
    let answer = |&budget: &u64| match &cost {
        _ if budget < needed => Refined { outcome: Outcome::Infeasible, lower_bound: None, slots: 0 },
        Some(cost) if cost.peak_bytes <= budget => {
            let outcome = Outcome::Sequence(store_all.clone());
            Refined { outcome, lower_bound: Some(cost.time), slots: 0 }
        }
        _ => Refined { outcome: Outcome::LostToRounding, lower_bound: None, slots: 0 },
    };
    budgets.iter().map(answer).collect()
}

/// The bytes of a slot as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate, and sizes are no less than 0"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

struct Refinement<'a> {
    chain: &'a Chain,
    rule: Rule,
    goal: Goal,
    budgets: &'a [u64],
    answers: Vec<Refined>,
}

impl<'a> Refinement<'a> {
    /// Budgets that are not done.
    fn open(&self) -> Vec<usize> {
        let is_open = |&index: &usize| {
            let answer = &self.answers[index];
            answer.outcome != Outcome::Infeasible && answer.loss(self.chain) > self.goal.loss
        };
        (0..self.budgets.len()).filter(is_open).collect()
    }

    fn program(&self, unit: u64, rounding: Rounding) -> Program<'a> {
        let slotted = SlottedChain::aligned(self.chain, unit, self.rule.account(), rounding);
        Program::new(self.chain, slotted, self.rule)
    }

    /// Bytes of a slot when the largest useful of the open budgets is cut into so many.
    fn unit(&self, open: &[usize], slots: u64) -> u64 {
        let budgets: Vec<_> = open.iter().map(|&index| self.budgets[index]).collect();
        unit(self.chain, &budgets, slots)
    }

    /// Bytes of the smallest slot with which a table fits into the memory allowed and has no more than
    /// [`MOST_SLOTS`].
    fn finest(&self, open: &[usize]) -> u64 {
        let largest = self.unit(open, 1);
        let per_slot = self.program(largest, Rounding::Up).bytes(100_000) as f64 / 100_000.0;
        whole((largest as f64 * per_slot / self.goal.bytes as f64).ceil()).max(largest.div_ceil(MOST_SLOTS))
    }

    /// The factor by which a round may be larger than one that took so long.
    fn affordable(&self, took: Duration) -> f64 {
        let left = self.goal.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(f64::INFINITY, |left| 0.7 * left.as_secs_f64() / took.as_secs_f64().max(1e-6))
    }

    /// Tables with slots of so many bytes, for the open budgets.
    fn round(&mut self, open: &[usize], unit: u64) -> Result<(), TableError> {
        let budgets: Vec<_> = open.iter().map(|&index| self.budgets[index]).collect();
        let slots = self.unit(open, 1).div_ceil(unit);
        let program = self.program(unit, Rounding::Up);
        let windows: Vec<_> = budgets.iter().map(|&budget| program.window(budget, Fit::Exact)).collect();
        let found = program.sequences(&budgets, &windows)?;
        let bounds = self.program(unit, Rounding::Down).makespans(&budgets)?;
        for ((&index, sequence), bound) in open.iter().zip(found).zip(bounds) {
            let answer = &mut self.answers[index];
            answer.slots = slots;
            answer.lower_bound = answer.lower_bound.max(bound);
            self.offer(index, sequence);
        }
        self.share();
        Ok(())
    }

    fn offer(&mut self, index: usize, sequence: Option<Vec<ChainStep>>) {
        let time = |sequence: &[ChainStep]| self.chain.evaluate(sequence).map_or(u64::MAX, |cost| cost.time);
        let better = |new: &[ChainStep]| match &self.answers[index].outcome {
            Outcome::Sequence(old) => time(new) < time(old),
            Outcome::LostToRounding | Outcome::Infeasible => true,
        };
        if let Some(sequence) = sequence.filter(|sequence| better(sequence)) {
            self.answers[index].outcome = Outcome::Sequence(sequence);
        }
    }

    /// Gives each budget the fastest sequence that any smaller or larger one has found for it, and each bound to
    /// all smaller budgets.
    fn share(&mut self) {
        let sequence = |answer: &Refined| match &answer.outcome {
            Outcome::Sequence(sequence) => Some(sequence.clone()),
            Outcome::LostToRounding | Outcome::Infeasible => None,
        };
        let mut sequences = self.answers.iter().map(sequence).collect();
        share(self.chain, self.budgets, &mut sequences);
        for (index, sequence) in sequences.into_iter().enumerate() {
            self.offer(index, sequence);
            let at_least = (0..self.budgets.len()).filter(|&other| self.budgets[other] >= self.budgets[index]);
            let bound = at_least.filter_map(|other| self.answers[other].lower_bound).max();
            if self.answers[index].outcome != Outcome::Infeasible {
                self.answers[index].lower_bound = bound;
            }
        }
    }
}
