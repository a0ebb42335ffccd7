//! Neighbourhoods of a schedule: what is kept is open in some cells of stages and nodes, and everywhere else it is
//! as the schedule has it.
//!
//! The exact model of a neighbourhood (`Formulation::within`) has constants for what is not open; stages at whose
//! ends nothing is open are settled, and need neither columns nor rows; what cannot be of use in a stage whatever
//! is kept does not run there. Knows no solver.

use std::ops::RangeInclusive;

use crate::monet::board::Kept;
use crate::monet::decisions::Decisions;
use crate::monet::improve::forced;
use crate::monet::problem::Problem;
use crate::random::Random;

/// Stages on either side of a difference that are open too.
const BESIDE: usize = 1;

/// How the open cells lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every node, in stages that follow each other.
    Stages,
    /// Nodes that follow each other, in every stage.
    Nodes,
    /// Nodes that follow each other, in stages that do.
    Both,
    /// Nodes in two places, in every stage: what one lets go of the other may keep.
    Pair,
    /// Nodes that read each other, in every stage.
    Near,
    /// Where the solution of a relaxation differs, and the stages beside; nodes that follow each other.
    Towards,
}

/// Where neighbourhoods are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The decisions to be improved.
    pub best: &'a Decisions,
    /// What the solution of a relaxation keeps, which nothing has to satisfy.
    pub guide: Option<&'a Kept>,
}

impl Around<'_> {
    /// Whether the guide keeps something else then or in a stage beside.
    fn differs(&self, stage: usize, node: usize) -> bool {
        let kept = &self.best.kept;
        let at = |guide: &Kept| {
            (stage.saturating_sub(BESIDE)..=(stage + BESIDE).min(kept.len() - 1))
                .any(|at| guide[at][node] != kept[at][node])
        };
        self.guide.is_some_and(at)
    }
}

/// What is open, and the decisions around it.
#[derive(Clone, Debug)]
pub struct Neighbourhood<'a> {
    around: Option<&'a Decisions>,
    /// By stage (and one more) and node; empty where everything is open.
    open: Vec<Vec<bool>>,
    /// By stage and node, what may run; empty where everything may.
    useful: Vec<Vec<bool>>,
}

impl<'a> Neighbourhood<'a> {
    /// Everything is open.
    pub fn everything() -> Self {
        Self { around: None, open: Vec::new(), useful: Vec::new() }
    }

    /// About so many open cells of some shape around a place that is drawn by what the decisions take time for.
    /// Where nothing runs now nothing may, but in a part of the stages (`heads`).
    pub fn draw(
        problem: &Problem,
        around: Around<'a>,
        shape: Shape,
        heads: f64,
        cells: usize,
        random: &mut Random,
    ) -> Self {
        let best = around.best;
        let (stage, node) = place(problem, best, random);
        let (stages, nodes) = (problem.stages.len(), problem.nodes.len());
        let free = |stage: usize, node: usize| forced(problem, stage, node).is_none();
        let rows = match shape {
            Shape::Stages => window(stage, stages, cells, |stage| (0..nodes).filter(|&node| free(stage, node)).count()),
            // A half to an eighth of the stages.
            Shape::Both => window(stage, stages, stages >> (1 + below(random, 3)), |_| 1),
            _ => 1..=stages,
        };
        let free =
            |stage: usize, node: usize| free(stage, node) && (shape != Shape::Towards || around.differs(stage, node));
        let count = |node: usize| rows.clone().filter(|&stage| free(stage, node)).count();
        let columns = match shape {
            Shape::Stages => vec![true; nodes],
            Shape::Nodes | Shape::Both | Shape::Towards => first(&outwards(nodes, &[node]), cells, count),
            Shape::Pair => first(&outwards(nodes, &[node, place(problem, best, random).1]), cells, count),
            Shape::Near => first(&connected(problem, node), cells, count),
        };
        let row = |stage| (0..nodes).map(|node| rows.contains(&stage) && columns[node] && free(stage, node)).collect();
        let open = (0..=stages).map(row).collect();
        let mut drawn = Self { around: Some(best), open, useful: Vec::new() };
        let useful = |stage: usize| {
            let head = stage == 0 || random.unit() < heads || !best.stages[stage].runs.is_empty();
            if head { drawn.closure(problem, stage) } else { vec![false; nodes] }
        };
        drawn.useful = (0..stages).map(useful).collect();
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
            .map(|node| may(stage + 1, node) && lacks(stage, node) || (stage == 0 && problem.must_run(node)))
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

/// A stage that takes time and a node that runs again there, half of the time; else any.
fn place(problem: &Problem, around: &Decisions, random: &mut Random) -> (usize, usize) {
    let (stage, node) = (1 + below(random, problem.stages.len()), below(random, problem.nodes.len()));
    let again = |stage: usize| around.stages[stage].runs.iter().map(move |&(node, way)| (stage, node, way));
    let runs: Vec<(usize, usize, i64)> = (1..around.stages.len())
        .flat_map(again)
        .map(|(stage, node, way)| (stage, node, problem.nodes[node].again[way].time))
        .collect();
    let total: i64 = runs.iter().map(|run| run.2).sum();
    let mut drawn = random.unit() * 2.0 * total as f64;
    for (stage, node, time) in runs {
        drawn -= time as f64;
        if drawn < 0.0 {
            return (stage, node);
        }
    }
    (stage, node)
}

fn below(random: &mut Random, bound: usize) -> usize {
    random.below(u32::try_from(bound).expect("fewer than 2^32 nodes and stages")) as usize
}

/// The least stretch of stages about one that counts so much.
fn window(from: usize, last: usize, wanted: usize, count: impl Fn(usize) -> usize) -> RangeInclusive<usize> {
    let (mut low, mut high) = (from, from);
    let mut sum = count(from);
    while sum < wanted && (low, high) != (1, last) {
        if low > 1 {
            low -= 1;
            sum += count(low);
        }
        if high < last {
            high += 1;
            sum += count(high);
        }
    }
    low..=high
}

/// The nodes that come first in some order, as many as count so much.
fn first(order: &[usize], wanted: usize, count: impl Fn(usize) -> usize) -> Vec<bool> {
    let mut taken = vec![false; order.len()];
    let mut sum = 0;
    for &node in order {
        taken[node] = true;
        sum += count(node);
        if sum >= wanted {
            break;
        }
    }
    taken
}

/// All nodes by their distance in order from the nearest of some.
fn outwards(nodes: usize, from: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes).collect();
    order.sort_by_key(|&node| from.iter().map(|&from| node.abs_diff(from)).min());
    order
}

/// All nodes by their distance from one, over what they read and what reads them; what is not connected comes last.
fn connected(problem: &Problem, from: usize) -> Vec<usize> {
    let mut order = vec![from];
    let mut met = vec![false; problem.nodes.len()];
    met[from] = true;
    let mut at = 0;
    while at < order.len() {
        let node = &problem.nodes[order[at]];
        at += 1;
        for &next in node.inputs.iter().chain(&node.readers) {
            if !std::mem::replace(&mut met[next], true) {
                order.push(next);
            }
        }
    }
    order.extend((0..met.len()).filter(|&node| !met[node]));
    order
}
