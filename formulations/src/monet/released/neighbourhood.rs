//! Neighbourhoods of a schedule: what is kept is open in some cells of stages and nodes, and everywhere else it is
//! as the schedule has it.
//!
//! The exact model of a neighbourhood (`Linear::within`) has constants for what is not open; stages at whose
//! ends nothing is open are settled, and need neither columns nor rows; what cannot be of use in a stage whatever
//! is kept does not run there. Knows no solver.

use crate::monet::released::decisions::Decisions;
use crate::monet::released::problem::Problem;
use crate::search::incumbent::Kept;
use crate::search::problem::Open;

/// What is open, and the decisions around it.
#[derive(Clone, Debug)]
pub struct Neighbourhood<'a> {
    around: Option<&'a Decisions>,
    /// By stage (and one more) and node; empty where everything is open.
    open: Kept,
    /// By stage and node, what may run; empty where everything may.
    useful: Vec<Vec<bool>>,
}

impl<'a> Neighbourhood<'a> {
    /// Everything is open.
    pub fn everything() -> Self {
        Self { around: None, open: Vec::new(), useful: Vec::new() }
    }

    /// What is open around some decisions. Where nothing runs now nothing may, but in the stages that say so.
    pub fn new(problem: &Problem, around: &'a Decisions, open: &Open) -> Self {
        let nodes = problem.nodes.len();
        let mut drawn = Self { around: Some(around), open: open.cells.clone(), useful: Vec::new() };
        let useful = |stage: usize| {
            let head = open.heads[stage] || !around.stages[stage].runs.is_empty();
            if head { drawn.closure(problem, stage) } else { vec![false; nodes] }
        };
        drawn.useful = (0..problem.stages.len()).map(useful).collect();
        drawn
    }

    /// Whether a value is there when a stage begins exactly if it was when the one before did: nothing there could
    /// make it, or have it read and dropped.
    pub fn joined(&self, problem: &Problem, stage: usize, node: usize) -> bool {
        let Some(around) = self.around.filter(|_| stage > 1) else { return false };
        let before = stage - 1;
        let open = self.open[stage][node] && self.open[before][node];
        let same = around.kept[stage][node] == around.kept[before][node];
        let runs = |node: usize| self.useful[before][node];
        let of = &problem.nodes[node];
        open && same
            && !runs(node)
            && !of.readers.iter().any(|&reader| runs(reader))
            && !problem.stages[before].variants.iter().any(|variant| variant.reads.contains(&node))
    }

    /// Whether a value is there when a stage begins; none where that is open.
    pub fn kept(&self, stage: usize, node: usize) -> Option<bool> {
        self.around.filter(|_| !self.open[stage][node]).map(|around| around.kept[stage][node])
    }

    /// The time of a stage at whose ends nothing is open.
    pub fn settled(&self, stage: usize) -> Option<i64> {
        let closed = |stage: usize| !self.open[stage].contains(&true);
        self.around.filter(|_| closed(stage) && closed(stage + 1)).map(|around| around.stages[stage].time)
    }

    /// Whether a node may run in a stage.
    pub fn may_run(&self, stage: usize, node: usize) -> bool {
        self.useful.is_empty() || self.useful[stage][node]
    }

    /// Which nodes can be of use in a stage, whatever is kept.
    fn closure(&self, problem: &Problem, stage: usize) -> Vec<bool> {
        let count = problem.nodes.len();
        let may = |stage: usize, node: usize| self.kept(stage, node).unwrap_or(true);
        let lacks = |stage: usize, node: usize| !self.kept(stage, node).unwrap_or(false);
        let mut useful: Vec<bool> = (0..count)
            .map(|node| may(stage + 1, node) && lacks(stage, node) || problem.must_run(stage, node))
            .collect();
        for read in problem.stages[stage].reads() {
            useful[read] |= lacks(stage + 1, read);
        }
        for at in (0..count).rev().filter(|&at| problem.nodes[at].last > 0 || stage == 0) {
            if useful[at] {
                let node = &problem.nodes[at];
                node.inputs
                    .iter()
                    .for_each(|&input| useful[input] |= lacks(stage, input) || node.parent == Some(input));
            }
        }
        useful
    }
}
