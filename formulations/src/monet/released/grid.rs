//! What annealing (`monet/anneal.rs`) knows of the published problem.

use crate::monet::anneal::{self, Grid, Step};
use crate::monet::released::decisions::{Decisions, complete};
use crate::monet::released::problem::{Problem, whole};
use crate::search::problem::Effort;

/// A problem within a capacity.
pub struct Walk<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Its capacity in the problem's unit.
    pub capacity: i64,
}

impl Grid for Walk<'_> {
    fn stages(&self) -> usize {
        self.problem.stages.len()
    }

    fn columns(&self) -> usize {
        self.problem.nodes.len()
    }

    fn forced(&self, stage: usize, column: usize) -> Option<bool> {
        self.problem.forced(stage, column)
    }

    fn step(&self, stage: usize, now: &[bool], next: &[bool]) -> Option<Step> {
        let plan = complete(self.problem, stage, now, next, self.capacity)?;
        let runs: Vec<usize> = plan.runs.iter().map(|run| run.0).collect();
        let (peak, widest) = (whole(plan.peak), whole(plan.widest));
        Some(Step { time: plan.time as f64, peak, widest, made: runs.clone(), runs })
    }

    fn touches(&self, stage: usize, runs: &[usize], column: usize) -> bool {
        let variants = &self.problem.stages[stage].variants;
        variants.iter().any(|variant| variant.reads.contains(&column))
            || runs.iter().any(|&node| node == column || self.problem.local[node].contains(&column))
    }

    fn least_time(&self, stage: usize) -> f64 {
        self.problem.least_time_of(stage) as f64
    }

    fn bytes(&self, column: usize) -> u64 {
        whole(self.problem.nodes[column].bytes)
    }

    fn neighbours(&self, column: usize) -> Vec<usize> {
        let node = &self.problem.nodes[column];
        node.inputs.iter().chain(&node.readers).copied().collect()
    }

    fn capacity(&self) -> u64 {
        whole(self.capacity)
    }

    fn mean_time(&self) -> f64 {
        let runs = self.problem.nodes.iter().filter_map(|node| node.again.first()).map(|way| way.time as f64);
        runs.sum::<f64>() / self.problem.nodes.len().max(1) as f64
    }
}

/// The best decisions within the capacity that annealing comes across, from some values kept.
pub fn anneal(
    problem: &Problem,
    mut kept: Vec<Vec<bool>>,
    capacity: i64,
    steps: usize,
    effort: Effort<'_>,
) -> Option<Decisions> {
    let walk = Walk { problem, capacity };
    settle(problem, &mut kept);
    if Decisions::complete(problem, kept.clone(), capacity).is_none() {
        // What must not run again is kept as long as it can be of use.
        for (at, node) in problem.nodes.iter().enumerate() {
            if node.again.is_empty() && node.parent.is_none() {
                (1..=node.last).for_each(|stage| kept[stage][at] = true);
            }
        }
    }
    Decisions::complete(problem, anneal::anneal(&walk, kept, steps, effort)?, capacity)
}

/// Keeps what must be kept, and drops what must not be.
pub fn settle(problem: &Problem, kept: &mut Vec<Vec<bool>>) {
    anneal::settle(&Walk { problem, capacity: 0 }, kept);
}
