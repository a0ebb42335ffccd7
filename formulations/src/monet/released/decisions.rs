//! What a solution says: which values are kept from stage to stage, and what each stage then does.
//!
//! Given what is kept, the stages are independent of each other, and each has a cheapest completion that is
//! easily found ([`complete`]): the least recomputation, in place wherever it may be, and of each operator
//! the fastest implementation that fits. Memory is counted exactly as the program's rows count it, in whole
//! numbers. Knows no solver.

use remat_core::liveness::{Compute, with_liveness};
use remat_core::{Instance, Schedule};

use crate::monet::released::problem::{Node, Problem, Stage, Way};

/// What one stage does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StagePlan {
    /// Nodes that run, with the position of their way, in order.
    pub runs: Vec<(usize, usize)>,
    /// Nodes that run in place.
    pub over: Vec<usize>,
    /// Variant and way of the backward operator.
    pub backward: Option<(usize, usize)>,
    /// Time of all that.
    pub time: i64,
    /// Largest memory.
    pub peak: i64,
    /// Largest memory of any way to run that was to choose from.
    pub widest: i64,
}

/// What is kept, and what the stages do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// For each stage and one more, which values are there when it begins.
    pub kept: Vec<Vec<bool>>,
    /// What each stage does.
    pub stages: Vec<StagePlan>,
}

impl Decisions {
    /// The cheapest completion of what is kept; what misses the capacity least where none meets it.
    ///
    /// None where something would have to run that must not.
    pub fn complete(problem: &Problem, kept: Vec<Vec<bool>>, capacity: i64) -> Option<Self> {
        let stages = (0..problem.stages.len())
            .map(|stage| complete(problem, stage, &kept[stage], &kept[stage + 1], capacity))
            .collect::<Option<Vec<_>>>()?;
        Some(Self { kept, stages })
    }

    /// Everything kept until its last use, nothing run twice.
    pub fn store_all(problem: &Problem, capacity: i64) -> Option<Self> {
        let stages = problem.stages.len();
        let of = |stage, (at, node): (usize, &Node)| problem.forced(stage, at).unwrap_or(node.parent.is_none());
        let row = |stage| problem.nodes.iter().enumerate().map(|node| of(stage, node)).collect();
        Self::complete(problem, (0..=stages).map(row).collect(), capacity)
    }

    /// Time in the problem's unit.
    pub fn time(&self) -> i64 {
        self.stages.iter().map(|stage| stage.time).sum()
    }

    /// Largest memory in the problem's unit.
    pub fn peak(&self) -> i64 {
        self.stages.iter().map(|stage| stage.peak).max().unwrap_or(0)
    }

    /// The schedule: each stage's nodes in order, then its backward operator; freed as early as can be.
    pub fn schedule(&self, instance: &Instance, problem: &Problem) -> Schedule {
        with_liveness(instance, &self.computes(problem))
    }

    fn computes(&self, problem: &Problem) -> Vec<Compute> {
        let mut computes = Vec::new();
        for (stage, plan) in self.stages.iter().enumerate() {
            for &(at, way) in plan.runs.iter().filter(|&&(at, _)| problem.nodes[at].parent.is_none()) {
                // An intermediate is a way of its parent.
                let child = plan.runs.iter().find(|&&(child, _)| problem.nodes[child].parent == Some(at));
                let (node, way) = child.map_or((at, way), |&(child, way)| (child, way));
                let over = problem.over(stage, node).filter(|_| plan.over.contains(&at));
                let plain = problem.ways(stage, node).get(way).map_or(0, |way| way.implementation);
                computes.push((problem.nodes[at].operator, over.map_or(plain, |over| over.implementation)));
            }
            let stage = &problem.stages[stage];
            if let (Some(operator), Some((variant, way))) = (stage.operator, plan.backward) {
                computes.push((operator, stage.variants[variant].ways[way].implementation));
            }
        }
        computes
    }
}

/// The cheapest way through a stage between two sets of kept values; the least memory where none fits.
pub fn complete(problem: &Problem, stage: usize, now: &[bool], next: &[bool], capacity: i64) -> Option<StagePlan> {
    if stage == 0 {
        return Passage::new(problem, stage, now, next, &[])?.plan(None, capacity);
    }
    let variants = problem.stages[stage].variants.iter().enumerate();
    let plans = variants
        .filter_map(|(at, variant)| Passage::new(problem, stage, now, next, &variant.reads)?.plan(Some(at), capacity));
    let mut widest = 0;
    let best = plans.inspect(|plan| widest = widest.max(plan.widest));
    let best = best.min_by_key(|plan| ((plan.peak - capacity).max(0), plan.time))?;
    Some(StagePlan { widest, ..best })
}

/// One stage with one variant of its backward operator.
struct Passage<'a> {
    problem: &'a Problem,
    stage: usize,
    now: &'a [bool],
    next: &'a [bool],
    /// Read by the backward operator, and not kept into the next stage.
    held: Vec<bool>,
    runs: Vec<bool>,
}

impl<'a> Passage<'a> {
    /// What has to run; none where something of it must not.
    fn new(problem: &'a Problem, stage: usize, now: &'a [bool], next: &'a [bool], reads: &[usize]) -> Option<Self> {
        let count = problem.nodes.len();
        let mut held = vec![false; count];
        for &read in reads {
            held[read] = !next[read];
        }
        let mut runs = vec![false; count];
        for at in (0..count).rev() {
            runs[at] |= held[at] || (next[at] && !now[at]) || problem.must_run(stage, at);
            if !runs[at] {
                continue;
            }
            let node = &problem.nodes[at];
            if problem.ways(stage, at).is_empty() {
                return None;
            }
            for &input in &node.inputs {
                runs[input] |= !now[input] || node.parent == Some(input);
            }
        }
        Some(Self { problem, stage, now, next, held, runs })
    }

    /// Whether a node may run in place.
    fn may_overwrite(&self, at: usize, child: Option<usize>) -> bool {
        let Some(over) = self.problem.over(self.stage, at) else { return false };
        let target = over.node;
        let read_later = self.problem.nodes[target].readers.iter().any(|&reader| reader > at && self.runs[reader]);
        let child_too = child.is_none_or(|child| self.problem.over(self.stage, child).is_some());
        !self.next[target] && !self.held[target] && !read_later && child_too
    }

    fn plan(&self, variant: Option<usize>, capacity: i64) -> Option<StagePlan> {
        let nodes = &self.problem.nodes;
        let stage = &self.problem.stages[self.stage];
        let mut plan = StagePlan::default();
        let bytes = |at: usize, there: bool| if there { nodes[at].bytes } else { 0 };
        // Kept values at and after a node as they came in; before it, as they go out.
        let mut after: i64 = (0..nodes.len()).map(|at| bytes(at, self.now[at])).sum();
        let (mut before, mut held) = (0, 0);
        let mut children = vec![None; nodes.len()];
        for at in (0..nodes.len()).filter(|&at| self.runs[at]) {
            if let Some(parent) = nodes[at].parent {
                if children[parent].is_some() {
                    return None;
                }
                children[parent] = Some(at);
            }
        }
        for at in 0..nodes.len() {
            plan.peak = plan.peak.max(stage.before + before + held + after);
            after -= bytes(at, self.now[at]);
            if self.runs[at] {
                let local = self.local(at);
                let base = stage.before + before + held + after - local.0 + nodes[at].bytes + local.1;
                self.run(at, base, children[at], capacity, &mut plan);
            }
            before += bytes(at, self.next[at]);
            held += bytes(at, self.held[at]) + self.loss_read(at);
        }
        plan.time += backward(stage, variant, before + held, capacity, &mut plan);
        plan.widest = plan.widest.max(plan.peak);
        Some(plan)
    }

    /// What the loss reads is kept in the forward pass.
    fn loss_read(&self, at: usize) -> i64 {
        let nodes = &self.problem.nodes;
        let reads = self.stage == 0 && !self.next[at] && nodes.last().is_some_and(|loss| loss.inputs.contains(&at));
        if reads { nodes[at].bytes } else { 0 }
    }

    /// Of the local set of a node: what is counted before it anyway, and all.
    fn local(&self, at: usize) -> (i64, i64) {
        let nodes = &self.problem.nodes;
        let (mut counted, mut all) = (0, 0);
        for &local in &self.problem.local[at] {
            all += nodes[local].bytes;
            if self.next[local] {
                counted += nodes[local].bytes;
            }
        }
        (counted, all)
    }

    /// Adds a node: in place if that is no slower or needed, and the fastest way that fits.
    fn run(&self, at: usize, base: i64, child: Option<usize>, capacity: i64, plan: &mut StagePlan) {
        let node = &self.problem.nodes[at];
        let ways = self.problem.ways(self.stage, at);
        let fits = |way: &&Way| base + way.beside <= capacity;
        let least = || ways.iter().enumerate().min_by_key(|(_, way)| way.beside);
        let (mut chosen, mut way) =
            ways.iter().enumerate().find(|(_, way)| fits(way)).or_else(least).expect("a node that runs has a way");
        let over = match node.parent {
            // With the parent, which stands before it.
            Some(parent) => self.problem.over(self.stage, at).filter(|_| plan.over.contains(&parent)),
            None => self.problem.over(self.stage, at).filter(|over| {
                let with = child.and_then(|child| self.problem.over(self.stage, child)).map_or(0, |over| over.time);
                let quicker = over.time + with <= 0;
                self.may_overwrite(at, child) && (quicker || base + way.beside > capacity || child.is_some())
            }),
        };
        plan.widest = plan.widest.max(base + most_beside(ways));
        let mut beside = way.beside;
        if let Some(over) = over {
            // Relative to the first way.
            (chosen, way) = (0, &ways[0]);
            beside = way.beside + over.beside;
            plan.over.push(at);
            plan.time += over.time;
        }
        plan.time += way.time;
        plan.runs.push((at, chosen));
        plan.peak = plan.peak.max(base + beside);
    }
}

/// What the way that needs most needs.
fn most_beside(ways: &[Way]) -> i64 {
    ways.iter().map(|way| way.beside).max().unwrap_or(0)
}

/// Chooses the backward operator's implementation; its time.
fn backward(stage: &Stage, variant: Option<usize>, there: i64, capacity: i64, plan: &mut StagePlan) -> i64 {
    let Some(at) = variant else { return 0 };
    let base = stage.during + there;
    let ways = &stage.variants[at].ways;
    let fits = ways.iter().position(|way| base + way.beside <= capacity);
    let least = || (0..ways.len()).min_by_key(|&way| ways[way].beside).expect("a variant has a way");
    let way = fits.unwrap_or_else(least);
    plan.backward = Some((at, way));
    plan.widest = plan.widest.max(base + most_beside(ways));
    plan.peak = plan.peak.max(base + ways[way].beside);
    ways[way].time
}
