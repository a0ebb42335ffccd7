//! Schedules in stages with an implementation for each run. Knows no solver.

use remat_core::liveness::with_liveness;
use remat_core::{Instance, Schedule};

use crate::monet::passage::Passages;
use crate::search::bits::bits;
use crate::search::incumbent::Kept;
use crate::staged::graph::Graph;
use crate::staged::model::Run;

/// What one stage does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Its runs, in order.
    pub runs: Vec<Run>,
    /// Time of all that.
    pub time: u64,
    /// Largest memory.
    pub peak: u64,
}

/// What every stage does, and what is kept into each (and one more).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By stage and value, no longer than needed.
    pub kept: Kept,
    /// By stage.
    pub passes: Vec<Pass>,
}

impl Plan {
    /// The schedule of some runs by stage, but for later ones that make nothing of use; none where something is read that is
    /// not there.
    pub fn of_runs(graph: &Graph, mut runs: Vec<Vec<Run>>) -> Option<Self> {
        let mut kept = vec![vec![false; graph.values.len()]; graph.len() + 1];
        for (at, value) in graph.values.iter().enumerate() {
            kept[graph.len()][at] = value.result;
        }
        for (stage, runs) in runs.iter_mut().enumerate().rev() {
            let mut needed = kept[stage + 1].clone();
            let mut illegal = false;
            runs.reverse();
            runs.retain(|&(position, way)| {
                let way = &graph.ways(stage, position)[way];
                if position < stage && !way.makes.iter().any(|&value| needed[value]) {
                    return false;
                }
                illegal |= way.over.is_some_and(|over| needed[over]);
                way.makes.iter().for_each(|&value| needed[value] = false);
                way.reads.iter().for_each(|&value| needed[value] = true);
                true
            });
            runs.reverse();
            if illegal {
                return None;
            }
            kept[stage] = needed;
        }
        if kept[0].contains(&true) {
            return None;
        }
        let mut passages = Passages::new(graph);
        let pass = |(stage, runs): (usize, Vec<Run>)| {
            let mut pass = Pass { runs, ..Pass::default() };
            passages.measure(stage, &bits(&kept[stage]), &bits(&kept[stage + 1]), &mut pass);
            pass
        };
        let passes = runs.into_iter().enumerate().map(pass).collect();
        Some(Self { kept, passes })
    }

    /// The cheapest schedule that keeps this; what cannot be made again is kept besides. None where some operator has no
    /// way to run that leaves what is kept after it.
    pub fn complete(graph: &Graph, mut kept: Kept, capacity: u64) -> Option<Self> {
        for (stage, row) in kept.iter_mut().enumerate() {
            for (at, there) in row.iter_mut().enumerate() {
                *there = graph.forced(stage, at).unwrap_or(*there);
            }
        }
        let mut passages = Passages::new(graph);
        let mut passes = vec![Pass::default(); graph.len()];
        let mut next = bits(&kept[graph.len()]);
        for (stage, pass) in passes.iter_mut().enumerate().rev() {
            let mut now = bits(&kept[stage]);
            while let Err(missing) = passages.through(stage, &now, &next, capacity, pass) {
                // It was there before, or nothing helps.
                let missing = missing.filter(|&missing| stage > graph.values[missing].producer)?;
                if now.put(missing) {
                    return None;
                }
            }
            next = now;
        }
        Self::of_runs(graph, passes.into_iter().map(|pass| pass.runs).collect())
    }

    /// Everything kept as long as something may read it.
    pub fn store_all(graph: &Graph, capacity: u64) -> Option<Self> {
        let row = |stage| (0..graph.values.len()).map(|at| graph.forced(stage, at) != Some(false)).collect();
        // What some way makes besides its outputs is kept only where somebody reads it.
        Self::complete(graph, (0..=graph.len()).map(row).collect(), capacity)
    }

    /// Time.
    pub fn time(&self) -> u64 {
        self.passes.iter().map(|pass| pass.time).sum()
    }

    /// Largest memory.
    pub fn peak(&self) -> u64 {
        self.passes.iter().map(|pass| pass.peak).max().unwrap_or(0)
    }

    /// The schedule; everything is freed as early as can be.
    pub fn schedule(&self, instance: &Instance, graph: &Graph) -> Schedule {
        let runs =
            self.passes.iter().enumerate().flat_map(|(stage, pass)| pass.runs.iter().map(move |run| (stage, run)));
        let computes: Vec<_> = runs
            .map(|(stage, &(position, way))| {
                (graph.operators[position].id, graph.ways(stage, position)[way].implementation)
            })
            .collect();
        with_liveness(instance, &computes)
    }
}
