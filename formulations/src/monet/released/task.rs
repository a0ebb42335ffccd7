//! One budget of MONeT's problem as the search sees it.

use std::borrow::Cow;
use std::sync::Arc;

use remat_core::{Instance, Schedule};

use crate::method::{Claimed, MethodError};
use crate::monet::anneal::{Grid, Step, anneal};
use crate::monet::released::blocks::short_blocks;
use crate::monet::released::decisions::{self, Decisions};
use crate::monet::released::neighbourhood::Neighbourhood;
use crate::monet::released::problem::{BYTE_UNIT, Problem, TIME_UNIT, whole};
use crate::monet::released::relaxation::{Linear, is_small};
use crate::search::blocks::{Block, two};
use crate::search::incumbent::{Judge, Kept};
use crate::search::problem::{Effort, Offer, Open, Staged};

/// What the stages of a short block read together, as parts of the capacity: one after the other.
const SHORT: [f64; 4] = [0.5, 0.3, 0.2, 0.1];
/// Steps of the local search in the first round; twice as many in each that follows.
const STEPS: usize = 400_000;

/// One budget.
pub struct Task<'a> {
    instance: &'a Instance,
    /// The problem.
    pub problem: Arc<Problem>,
    budget: Option<u64>,
    /// The budget in the problem's unit; where there is none, more than anything can need.
    pub capacity: i64,
}

impl<'a> Task<'a> {
    /// A budget of a problem.
    pub fn new(instance: &'a Instance, problem: &Arc<Problem>, budget: Option<u64>) -> Self {
        // Each number is rounded up by itself.
        let tensors: u64 = instance.tensors().iter().map(|tensor| tensor.bytes + BYTE_UNIT).sum();
        let ways = instance.operators().iter().flat_map(|operator| &operator.implementations);
        let workspace = ways.map(|way| way.workspace_bytes).max().unwrap_or(0);
        // Local sets may count a tensor beside its copy that is kept.
        let everything =
            instance.fixed_bytes().saturating_add(tensors).saturating_add(workspace + 2 * BYTE_UNIT).saturating_mul(4);
        let bytes = budget.unwrap_or(everything.min(1 << 60));
        let capacity = i64::try_from(bytes / BYTE_UNIT).expect("below 2^54");
        Self { instance, problem: Arc::clone(problem), budget, capacity }
    }

    /// What the program says of decisions; its sizes are counted up, and so is the time.
    pub fn claim(&self, decisions: &Decisions) -> Claimed {
        Claimed {
            time: whole(decisions.time()).saturating_mul(TIME_UNIT),
            peak_bytes: whole(decisions.peak()).saturating_mul(BYTE_UNIT),
        }
    }
}

impl Judge for Task<'_> {
    type Solution = Decisions;

    fn least_time(&self) -> u64 {
        whole(self.problem.least_time())
    }

    fn time(&self, decisions: &Decisions) -> u64 {
        whole(decisions.time())
    }

    fn admit(&self, decisions: &Decisions) -> Result<Result<(Schedule, Claimed), String>, MethodError> {
        if decisions.peak() > self.capacity {
            return Ok(Err(format!("it needs {} by the program's bound", self.claim(decisions).peak_bytes)));
        }
        let schedule = decisions.schedule(self.instance, &self.problem);
        let simulated = Claimed::simulated(self.instance, &schedule)?;
        match self.budget.map_or(0, |budget| simulated.peak_bytes.saturating_sub(budget)) {
            0 => Ok(Ok((schedule, self.claim(decisions)))),
            over => Ok(Err(format!("simulated, it is {over} over the budget"))),
        }
    }

    /// Schedules can be faster than the problem counts: times are rounded up one by one.
    fn bound(&self, _: u64) -> Option<u64> {
        None
    }
}

impl Staged for Task<'_> {
    type Relaxation<'p>
        = Linear<'p>
    where
        Self: 'p;

    fn capacity(&self) -> u64 {
        whole(self.capacity)
    }

    fn needs(&self, decisions: &Decisions) -> Vec<u64> {
        decisions.stages.iter().map(|plan| whole(plan.peak)).collect()
    }

    fn kept<'s>(&self, decisions: &'s Decisions) -> Cow<'s, Kept> {
        Cow::Borrowed(&decisions.kept)
    }

    fn store_all(&self) -> Option<Decisions> {
        Decisions::store_all(&self.problem, self.capacity)
    }

    fn complete(&self, kept: Kept) -> Option<Decisions> {
        Decisions::complete(&self.problem, kept, self.capacity)
    }

    fn improve(&self, start: &Decisions, effort: Effort<'_>, offer: Offer<'_, Decisions>) -> Result<(), MethodError> {
        if start.peak() <= self.capacity {
            offer(start.clone())?;
        }
        let found = anneal(self, start.kept.clone(), STEPS << effort.round.min(4), effort);
        found.and_then(|kept| self.complete(kept)).map_or(Ok(()), offer)
    }

    fn first_blocks(&self) -> Vec<Block> {
        two(self.problem.stages.len(), &[])
    }

    fn over<'p>(&'p self, blocks: &[Block], before: Option<&Linear<'p>>) -> Linear<'p> {
        let mut linear = Linear::coarse(&self.problem, self.capacity, blocks.to_vec());
        if let Some(before) = before {
            linear.add_known(before);
        }
        linear
    }

    fn short<'p>(
        &'p self,
        round: usize,
        margin: &[u64],
        before: Option<&Linear<'p>>,
    ) -> Option<(Vec<Block>, Linear<'p>)> {
        let share = SHORT[(round - 1).min(SHORT.len() - 1)];
        let blocks = short_blocks(&self.problem, self.capacity, share);
        let mut linear = Linear::coarse(&self.problem, self.capacity, blocks.clone());
        linear.margin = margin.iter().map(|&margin| i64::try_from(margin).unwrap_or(i64::MAX)).collect();
        if let Some(before) = before {
            linear.add_known(before);
        }
        Some((blocks, linear))
    }

    fn costs_more(&self, linear: &Linear<'_>, point: &[f64], decisions: &Decisions, block: usize) -> bool {
        let Block { first, last } = linear.layout.blocks[block];
        let time: i64 = decisions.stages[first..=last].iter().map(|plan| plan.time).sum();
        time as f64 > linear.layout.costs[block].value(point) + 0.5
    }

    fn exact(&self) -> Linear<'_> {
        let mut linear = Linear::new(&self.problem, self.capacity);
        linear.add_usual();
        linear
    }

    fn is_small(&self) -> bool {
        is_small(&self.problem)
    }

    fn within(&self, around: &Decisions, open: &Open) -> Linear<'_> {
        let open = Neighbourhood::new(&self.problem, around, open);
        Linear::within(&self.problem, self.capacity, &open)
    }

    fn expand(&self, linear: &Linear<'_>, point: &[f64]) -> Option<Decisions> {
        let mut kept = linear.kept(point, 0.5);
        self.settle(&mut kept);
        self.complete(kept)
    }

    fn point(&self, linear: &Linear<'_>, decisions: &Decisions) -> Vec<f64> {
        linear.vector(decisions)
    }

    fn stages(&self) -> usize {
        self.problem.stages.len()
    }

    fn columns(&self) -> usize {
        self.problem.nodes.len()
    }

    fn forced(&self, stage: usize, node: usize) -> Option<bool> {
        self.problem.forced(stage, node)
    }

    fn neighbours(&self, node: usize) -> Vec<usize> {
        let node = &self.problem.nodes[node];
        node.inputs.iter().chain(&node.readers).copied().collect()
    }

    fn repeated(&self, decisions: &Decisions) -> Vec<(usize, usize, u64)> {
        let again = |stage: usize| decisions.stages[stage].runs.iter().map(move |&(node, way)| (stage, node, way));
        let runs = (1..decisions.stages.len()).flat_map(again);
        runs.map(|(stage, node, way)| (stage, node, whole(self.problem.nodes[node].again[way].time))).collect()
    }
}

impl Grid for Task<'_> {
    fn step(&self, stage: usize, now: &[bool], next: &[bool]) -> Option<Step> {
        let plan = decisions::complete(&self.problem, stage, now, next, self.capacity)?;
        let runs: Vec<usize> = plan.runs.iter().map(|run| run.0).collect();
        let (peak, widest) = (whole(plan.peak), whole(plan.widest));
        Some(Step { time: plan.time as f64, peak, widest, made: runs.clone(), runs })
    }

    fn touches(&self, stage: usize, runs: &[usize], column: usize) -> bool {
        let variants = &self.problem.stages[stage].variants;
        variants.iter().any(|variant| variant.reads.contains(&column))
            || runs.iter().any(|&node| node == column || self.problem.local[node].contains(&column))
    }

    fn least_time_of(&self, stage: usize) -> f64 {
        self.problem.least_time_of(stage) as f64
    }

    fn bytes(&self, column: usize) -> u64 {
        whole(self.problem.nodes[column].bytes)
    }

    fn mean_time(&self) -> f64 {
        let runs = self.problem.nodes.iter().filter_map(|node| node.again.first()).map(|way| way.time as f64);
        runs.sum::<f64>() / self.problem.nodes.len().max(1) as f64
    }
}
