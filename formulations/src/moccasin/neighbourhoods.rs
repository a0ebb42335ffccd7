//! Large-neighbourhood search for [`Search`]: what the best schedule runs again, and what lies idle where memory
//! is short, may change; everything else runs once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use remat_solvers::cp::Emphasis;

use crate::checkmate::stages::Stages;
use crate::method::MethodError;
use crate::moccasin::blocks::Scope;
use crate::moccasin::improve::Search;

impl Search<'_> {
    /// The best schedule in which only some operators run again, within a time; keeps it if it is better.
    pub(super) fn neighbourhood(&mut self, may: &BTreeSet<usize>, slice: Duration) -> Result<(), MethodError> {
        let until = Instant::now() + slice;
        let scope = Scope::new(self.task.joint, |position| may.contains(&position));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.left().is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            let blocks = self.blocks(&scope, true);
            let outcome = self.solve(&blocks, Emphasis::Default, left)?;
            let Some(values) = outcome.values else { return Ok(()) };
            let stages = blocks.expand(&values);
            let over = self.violated(&stages);
            if over.is_empty() {
                self.offer(stages);
                return Ok(());
            }
            let known = over.iter().all(|(stage, position)| {
                self.known_rows.get(stage).is_some_and(|positions| positions.contains(position))
            });
            if known {
                return Ok(());
            }
            for (stage, position) in over {
                self.known_rows.entry(stage).or_default().insert(position);
            }
        }
    }

    /// Neighbourhoods around one hot stage after the other: what runs again now, and what is there then.
    pub(super) fn neighbourhoods(&mut self, slice: Duration) -> Result<(), MethodError> {
        let until = Instant::now() + slice;
        let hot: Vec<usize> = self.known_rows.keys().copied().collect();
        let kept = Stages::store_all(self.task.joint).kept(self.task.joint);
        while Instant::now() < until && !hot.is_empty() {
            let stage = hot[self.draw(hot.len())];
            let mut may = self.best.as_ref().map(|(_, stages)| again(stages)).unwrap_or_default();
            let idle: Vec<usize> = (0..self.task.joint.values.len()).filter(|&value| kept[stage][value]).collect();
            // Of what is there most may be dropped, and in every second round what made it may run again too.
            for _ in 0..idle.len().min(60) {
                let producer = self.task.joint.values[idle[self.draw(idle.len())]].producer;
                may.insert(producer);
                if stage.is_multiple_of(2) {
                    let reads = &self.task.joint.operators[producer].first.reads;
                    may.extend(reads.iter().map(|&value| self.task.joint.values[value].producer));
                }
            }
            self.neighbourhood(&may, slice / 4)?;
            if self.best.as_ref().is_some_and(|(best, _)| best.time <= self.bound) {
                break;
            }
        }
        Ok(())
    }

    /// A random position.
    fn draw(&self, below: usize) -> usize {
        usize::try_from(self.random.borrow_mut().bits() % below.max(1) as u64).unwrap_or(0)
    }
}

/// The operators that run more than once.
pub(super) fn again(stages: &Stages) -> BTreeSet<usize> {
    let runs = stages.runs.iter().enumerate();
    runs.flat_map(|(stage, runs)| runs.iter().copied().filter(move |&position| position < stage)).collect()
}
