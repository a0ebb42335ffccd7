//! What is constant in the linear model of a neighbourhood.

use crate::search::incumbent::Kept;
use crate::search::problem::Open;
use crate::staged::graph::Graph;
use crate::staged::model::Run;

/// What is constant in a neighbourhood of a schedule.
#[derive(Clone, Copy)]
pub struct Around<'p> {
    /// What the schedule keeps.
    pub kept: &'p Kept,
    /// What runs in a stage at whose ends nothing is open.
    pub runs: &'p dyn Fn(usize) -> Vec<Run>,
    /// What is open.
    pub open: &'p Open,
}

impl Around<'_> {
    /// Whether a value is there when a stage begins exactly if it was when the one before did: nothing there could make it,
    /// or have it read and dropped.
    pub(super) fn joined(&self, graph: &Graph, stage: usize, at: usize, useful: &[bool]) -> bool {
        let (before, value) = (stage - 1, &graph.values[at]);
        let runs = |position: usize| position <= before && useful[position];
        self.open.touches(before)
            && self.open.cells[before][at]
            && graph.forced(before, at).is_none()
            && self.kept[stage][at] == self.kept[before][at]
            && !runs(value.producer)
            && !value.readers.iter().any(|&reader| runs(reader))
    }

    /// Which operators can be of use in a stage, whatever is kept where that is open.
    pub(super) fn useful(&self, graph: &Graph, stage: usize) -> Vec<bool> {
        let mut useful = vec![false; stage + 1];
        useful[stage] = true;
        if !self.open.heads[stage] {
            return useful;
        }
        let cell = |stage: usize, at: usize| {
            let open = graph.forced(stage, at).is_none() && self.open.cells[stage][at];
            (open || self.kept[stage][at], open || !self.kept[stage][at])
        };
        for (at, value) in graph.values.iter().enumerate().filter(|(_, value)| value.producer < stage) {
            useful[value.producer] |= cell(stage + 1, at).0 && cell(stage, at).1;
        }
        for position in (0..=stage).rev() {
            let reads = if useful[position] { &graph.operators[position].reads[..] } else { &[] };
            for &value in reads.iter().filter(|&&value| graph.values[value].producer < stage) {
                useful[graph.values[value].producer] |= cell(stage, value).1;
            }
        }
        useful
    }
}
