//! Schedules without a solver: a matrix S is repaired until it fits the budget, then filled up where
//! memory is left. Deterministic; proves nothing.

use std::cmp::Reverse;

use crate::search::clock::Clock;
use crate::search::incumbent::Kept;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// The search.
#[derive(Clone, Copy)]
pub struct Repair<'a> {
    /// What a schedule has to meet.
    pub task: &'a Task<'a>,
    /// How long.
    pub clock: Clock,
}

/// Stages and how far they are from the budget.
#[derive(Clone)]
struct Point {
    stages: Stages,
    kept: Kept,
    time: u64,
    /// Sum over stages of what exceeds the budget.
    excess: u64,
    /// Stage and position of the largest excess.
    worst: (usize, usize),
}

/// How many ways of dropping something are looked at together.
const CANDIDATES: usize = 16;

impl Repair<'_> {
    /// Stages within the budget that keep what some stages keep as far as that fits; none if the repair gets stuck.
    pub fn improve(&self, stages: &Stages) -> Option<Stages> {
        let point = self.fit(self.point(stages.clone()))?;
        Some(self.fill(point).stages)
    }

    fn late(&self) -> bool {
        self.clock.is_over()
    }

    fn point(&self, stages: Stages) -> Point {
        let (joint, budget) = (&self.task.joint, self.task.budget_bytes());
        let peaks = stages.peaks(joint);
        let first_largest = |&(stage, &(bytes, _)): &(usize, &(u64, usize))| (bytes, Reverse(stage));
        let worst = peaks.iter().enumerate().max_by_key(first_largest);
        Point {
            kept: stages.kept(joint),
            time: stages.time(joint),
            excess: peaks.iter().map(|&(bytes, _)| bytes.saturating_sub(budget)).sum(),
            worst: worst.map_or((0, 0), |(stage, &(_, position))| (stage, position)),
            stages,
        }
    }

    fn with(&self, kept: &Kept, values: &[usize], stages: std::ops::RangeInclusive<usize>, keep: bool) -> Point {
        let changed = |stage: usize, at: usize| {
            if stages.contains(&stage) && values.contains(&at) { keep } else { kept[stage][at] }
        };
        self.point(Stages::complete(&self.task.joint, changed))
    }

    /// Drops what costs least for what it frees at the worst place, until everything fits.
    fn fit(&self, mut point: Point) -> Option<Point> {
        let mut rounds = 20 * self.task.joint.len();
        while point.excess > 0 && rounds > 0 && !self.late() {
            rounds -= 1;
            let worth = |next: &Point| {
                let freed = point.excess.saturating_sub(next.excess);
                next.time.saturating_sub(point.time).max(1) as f64 / freed as f64
            };
            // The cheapest by their own cost first; the others only where these are of no use.
            let drops = self.drops(&point);
            let best = drops.chunks(CANDIDATES).find_map(|drops| {
                let tried =
                    drops.iter().map(|(value, stages)| self.with(&point.kept, &[*value], stages.clone(), false));
                let better = tried.filter(|next| next.excess < point.excess);
                better.min_by(|left, right| worth(left).total_cmp(&worth(right)))
            });
            point = best?;
        }
        (point.excess == 0).then_some(point)
    }

    /// What could be dropped so that it is not there at the worst place: values and the stages into
    /// which they are no longer kept.
    fn drops(&self, point: &Point) -> Vec<(usize, std::ops::RangeInclusive<usize>)> {
        let (stage, position) = point.worst;
        let mut there = Vec::new();
        point.stages.walk(&self.task.joint, |at, run, now, _| {
            if (at, run) == point.worst {
                there = now.to_vec();
            }
        });
        let touched = |value: usize| {
            let reads = self.task.joint.run(stage, position).is_some_and(|way| way.reads.contains(&value));
            reads || self.task.joint.operators[position].makes.contains(&value)
        };
        let mut drops = Vec::new();
        for (at, value) in self.task.joint.values.iter().enumerate() {
            let Some(again) = self.task.joint.operators[value.producer].again.as_ref() else { continue };
            if there.get(at) != Some(&true) || touched(at) {
                continue;
            }
            let stages = if point.kept[stage + 1][at] {
                stage + 1..=self.next_use(point, at, stage + 1)
            } else if value.producer > position && point.kept[stage][at] {
                stage..=stage
            } else {
                continue;
            };
            if *stages.end() < self.task.joint.len() {
                drops.push((again.time as f64 / value.bytes.max(1) as f64, at, stages));
            }
        }
        drops.sort_by(|left, right| left.0.total_cmp(&right.0));
        drops.into_iter().map(|(_, value, stages)| (value, stages)).collect()
    }

    /// The first stage from one on that reads a value or makes it again.
    fn next_use(&self, point: &Point, value: usize, from: usize) -> usize {
        let uses = |stage: &usize| {
            let runs = &point.stages.runs[*stage];
            let reads =
                |&position: &usize| self.task.joint.run(*stage, position).is_some_and(|way| way.reads.contains(&value));
            runs.binary_search(&self.task.joint.values[value].producer).is_ok() || runs.iter().any(reads)
        };
        (from..self.task.joint.len()).find(uses).unwrap_or(self.task.joint.len())
    }

    /// Keeps what is made again, where that fits and saves time: the most time for the least memory
    /// first.
    fn fill(&self, mut point: Point) -> Point {
        loop {
            let mut gaps = self.gaps(&point);
            gaps.sort_by(|left, right| right.0.total_cmp(&left.0));
            let mut changed = false;
            for (_, position, stages) in gaps {
                if self.late() {
                    return point;
                }
                let made = &self.task.joint.operators[position].makes;
                let next = self.with(&point.kept, made, stages, true);
                if next.excess == 0 && next.time < point.time {
                    (point, changed) = (next, true);
                }
            }
            if !changed {
                return point;
            }
        }
    }

    /// Stages between two runs of an operator, and what keeping what it makes there is worth.
    fn gaps(&self, point: &Point) -> Vec<(f64, usize, std::ops::RangeInclusive<usize>)> {
        let mut gaps = Vec::new();
        let mut last = vec![None; self.task.joint.len()];
        for (stage, runs) in point.stages.runs.iter().enumerate() {
            for &position in runs {
                if let Some(before) = last[position].replace(stage) {
                    let time = self.task.joint.run(stage, position).map_or(0, |way| way.time) as f64;
                    let made = self.task.joint.operators[position].makes.iter();
                    let bytes = made.map(|&value| self.task.joint.values[value].bytes).sum::<u64>() as f64;
                    gaps.push((time / (bytes * (stage - before) as f64).max(1.0), position, before + 1..=stage));
                }
            }
        }
        gaps
    }
}
