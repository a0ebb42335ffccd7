//! One budget of the exact problem as the search sees it: the graph with all implementations, its schedules and its models.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use remat_core::{Instance, Schedule, instance};

use crate::method::{Claimed, MethodError};
use crate::monet::anneal::{Grid, Step, anneal};
use crate::monet::plan::{Pass, Plan, through};
use crate::search::blocks::{Block, two};
use crate::search::incumbent::{Judge, Kept};
use crate::search::problem::{Effort, Offer, Open, Staged};
use crate::staged;
use crate::staged::graph::{Graph, Operator, Way};
use crate::staged::joint::Joint;
use crate::staged::model::{Around, Linear, Run};
use crate::staged::stages::Stages;
use crate::staged::starts::follow_with;

/// Beyond so many stages times values a schedule is not made anew for every idea.
const LARGE: usize = 2_000_000;
/// Steps of the local search in the first round; twice as many in each that follows.
const STEPS: usize = 200_000;

/// One budget.
pub struct Task<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// Its graph.
    pub graph: &'a Graph,
    /// The budget in bytes; none means unlimited.
    pub budget: Option<u64>,
    /// The same with one implementation per operator, where there is such a thing and anything may run again.
    pub one: Option<staged::task::Task<'a>>,
}

impl Task<'_> {
    fn budget_bytes(&self) -> u64 {
        self.budget.unwrap_or(u64::MAX)
    }

    /// Whether a whole schedule takes more than some milliseconds.
    pub fn is_large(&self) -> bool {
        self.graph.len() * self.graph.values.len() > LARGE
    }

    /// How long it takes to make a whole schedule of stages, where that is long.
    pub fn lifting(&self) -> Duration {
        let cells = if self.is_large() { self.graph.len() * self.graph.values.len() } else { 0 };
        Duration::from_secs_f64(1e-8 * cells as f64)
    }

    /// Stages of one implementation per operator as a schedule of this problem.
    pub fn lift(&self, joint: &Joint, stages: &Stages) -> Option<Plan> {
        let implementation = |stage, position| Some((position, joint.run(stage, position)?.implementation));
        let runs = stages.runs.iter().enumerate();
        let runs = runs.map(|(stage, runs)| runs.iter().map(|&position| implementation(stage, position)).collect());
        self.plan(&runs.collect::<Option<Vec<Vec<_>>>>()?)
    }

    /// What a schedule in any order comes to in these stages.
    pub fn follow(&self, schedule: &Schedule) -> Option<Plan> {
        let may = |position: usize| !self.graph.operators[position].again.is_empty();
        self.plan(&follow_with(self.instance, schedule, u64::MAX, may))
    }

    /// The schedule of some runs by stage, positions and implementations: as they are, or what keeping the same comes to with
    /// all implementations, if that is better.
    fn plan(&self, runs: &[Vec<(usize, usize)>]) -> Option<Plan> {
        let runs = runs.iter().enumerate().map(|(stage, runs)| {
            let way = |&(position, implementation)| Some((position, self.way(stage, position, implementation)?));
            runs.iter().map(way).collect::<Option<Vec<Run>>>()
        });
        let plan = Plan::of_runs(self.graph, runs.collect::<Option<_>>()?)?;
        if self.is_large() {
            return Some(plan);
        }
        let chosen = Plan::complete(self.graph, plan.kept.clone(), self.budget_bytes());
        let rank = |plan: &Plan| (plan.peak().saturating_sub(self.budget_bytes()), plan.time());
        Some(chosen.filter(|chosen| rank(chosen) < rank(&plan)).unwrap_or(plan))
    }

    /// The way that has an implementation, or one that is no worse and reads and makes the same.
    fn way(&self, stage: usize, position: usize, implementation: usize) -> Option<usize> {
        let ways = self.graph.ways(stage, position);
        let exactly = ways.iter().position(|way| way.implementation == implementation);
        exactly.or_else(|| {
            let operator = self.instance.operator(self.graph.operators[position].id);
            let wanted = &operator.implementations[implementation];
            let alike = |way: &Way| {
                let way = &operator.implementations[way.implementation];
                way.reads == wanted.reads && way.saves == wanted.saves && way.in_place == wanted.in_place
            };
            ways.iter().position(|way| {
                alike(way)
                    && wanted.time >= operator.implementations[way.implementation].time
                    && operator.implementations[way.implementation].workspace_bytes <= wanted.workspace_bytes
            })
        })
    }

    /// The problem with one implementation per operator, those of a schedule: of its first runs, and of a later run that makes as
    /// much, where there is one; what runs in place does not, here. None where nothing may run again, or these do not fit together.
    fn one_like(&self, start: &Plan) -> Option<staged::task::Task<'_>> {
        let one = self.one.as_ref()?;
        let fastest = remat_core::plan::Plan::fastest(self.instance);
        let again = vec![None; self.graph.len()];
        let mut plan = remat_core::plan::Plan { saving_again: again, ..fastest.clone() };
        for (stage, pass) in start.passes.iter().enumerate() {
            for &(position, way) in &pass.runs {
                let id = self.graph.operators[position].id;
                let way = self.graph.ways(stage, position)[way].implementation;
                match out_of_place(self.instance.operator(id), way) {
                    Some(way) if position == stage => plan.saving[id.index()] = way,
                    way if position < stage => plan.saving_again[id.index()] = way,
                    _ => {}
                }
            }
        }
        for id in self.instance.operator_ids() {
            let made = |way: usize| self.instance.operator(id).makes(way).collect::<BTreeSet<_>>();
            let (first, again) = (plan.saving[id.index()], &mut plan.saving_again[id.index()]);
            let way = again.filter(|&way| made(way).is_superset(&made(first)));
            *again = way.or_else(|| Some(fastest.repeated(self.instance, (id, first))));
        }
        let joint = Arc::new(Joint::with(self.instance, &plan).ok()?);
        Some(staged::task::Task { joint, ..one.clone() })
    }

    /// The stages of a schedule, its implementations forgotten.
    fn stages_of(joint: &Joint, plan: &Plan) -> Stages {
        let may = |stage: usize, position: usize| joint.run(stage, position).is_some();
        let runs =
            plan.passes.iter().enumerate().map(|(stage, pass)| {
                pass.runs.iter().map(|run| run.0).filter(|&position| may(stage, position)).collect()
            });
        let stages = Stages { runs: runs.collect() };
        let kept = stages.kept(joint);
        // What another way need not read may be missing here.
        Stages::complete(joint, |stage, value| stage > joint.values[value].producer && kept[stage][value])
    }
}

/// An implementation, or one that does the same with buffers of its own.
fn out_of_place(operator: &instance::Operator, implementation: usize) -> Option<usize> {
    let all = &operator.implementations;
    let does = |way: &instance::Implementation| (way.reads.clone(), way.saves.clone(), way.recompute);
    let way = &all[implementation];
    let other = || all.iter().position(|other| other.in_place.is_none() && does(other) == does(way));
    if way.in_place.is_none() { Some(implementation) } else { other() }
}

impl Judge for Task<'_> {
    type Solution = Plan;

    fn least_time(&self) -> u64 {
        self.graph.least_time()
    }

    fn time(&self, plan: &Plan) -> u64 {
        plan.time()
    }

    fn admit(&self, plan: &Plan) -> Result<Result<(Schedule, Claimed), String>, MethodError> {
        let schedule = plan.schedule(self.instance, self.graph);
        let claimed = Claimed::simulated(self.instance, &schedule)?;
        Ok(if claimed.peak_bytes <= self.budget_bytes() {
            Ok((schedule, claimed))
        } else {
            Err(format!("it needs {}", claimed.peak_bytes))
        })
    }
}

impl Staged for Task<'_> {
    type Relaxation<'p>
        = Linear<'p>
    where
        Self: 'p;

    fn capacity(&self) -> u64 {
        self.budget_bytes()
    }

    fn needs(&self, plan: &Plan) -> Vec<u64> {
        plan.passes.iter().map(|pass| pass.peak).collect()
    }

    fn kept<'s>(&self, plan: &'s Plan) -> Cow<'s, Kept> {
        Cow::Borrowed(&plan.kept)
    }

    fn store_all(&self) -> Option<Plan> {
        Plan::store_all(self.graph, u64::MAX)
    }

    fn complete(&self, kept: Kept) -> Option<Plan> {
        Plan::complete(self.graph, kept, self.budget_bytes())
    }

    /// With one implementation per operator first, which is fast: those of the start. Then with all where there are others.
    fn improve(&self, start: &Plan, effort: Effort<'_>, offer: Offer<'_, Plan>) -> Result<(), MethodError> {
        let lifting = 2 * self.lifting();
        if effort.clock.has_less_than(2 * lifting) {
            return Ok(());
        }
        let effort = Effort { clock: effort.clock.without(lifting), ..effort };
        let mut best: Option<Plan> = None;
        let mut take = |plan: Plan| {
            if self.fits(&plan) && best.as_ref().is_none_or(|best| plan.time() < best.time()) {
                best = Some(plan.clone());
                return offer(plan);
            }
            Ok(())
        };
        take(start.clone())?;
        let alone = self.graph.operators.iter().all(|operator| operator.first.len() < 2 && operator.again.len() < 2);
        let like = if alone { None } else { self.one_like(start) };
        if let Some(one) = like.as_ref().or(self.one.as_ref()) {
            let clock = if alone { effort.clock } else { effort.clock.share(2) };
            let stages = Self::stages_of(&one.joint, start);
            let mut last = None;
            one.improve(&stages, Effort { clock, ..effort }, &mut |stages| {
                if self.is_large() {
                    last = Some(stages);
                    return Ok(());
                }
                self.lift(&one.joint, &stages).map_or(Ok(()), &mut take)
            })?;
            last.and_then(|stages| self.lift(&one.joint, &stages)).map_or(Ok(()), &mut take)?;
        }
        if alone && self.one.is_some() {
            return Ok(());
        }
        let kept = best.as_ref().unwrap_or(start).kept.clone();
        let found = anneal(self, kept, STEPS << effort.round.min(4), effort);
        found.and_then(|kept| self.complete(kept)).map_or(Ok(()), offer)
    }

    /// Two blocks that meet where keeping everything needs most.
    fn first_blocks(&self) -> Vec<Block> {
        if let Some(one) = self.one.as_ref().filter(|_| self.is_large()) {
            return one.first_blocks();
        }
        two(self.graph.len(), &self.store_all().map_or_else(Vec::new, |plan| self.needs(&plan)))
    }

    fn over<'p>(&'p self, blocks: &[Block], _: Option<&Linear<'p>>) -> Linear<'p> {
        Linear::new(self.graph, self.budget, blocks.to_vec())
    }

    fn costs_more(&self, linear: &Linear<'_>, point: &[f64], plan: &Plan, block: usize) -> bool {
        let Block { first, last } = linear.blocks[block];
        let stages = first..=last;
        let time: u64 = plan.passes[stages.clone()].iter().map(|pass| pass.time).sum();
        let least: u64 = self.graph.operators[stages].iter().map(Operator::least_time).sum();
        (time - least) as f64 > linear.costs[block].value(point) + 0.5
    }

    fn exact(&self) -> Linear<'_> {
        Linear::exact(self.graph, self.budget)
    }

    fn within(&self, around: &Plan, open: &Open) -> Linear<'_> {
        let around = Around { kept: &around.kept, runs: &|stage| around.passes[stage].runs.clone(), open };
        Linear::within(self.graph, self.budget, around)
    }

    fn expand(&self, linear: &Linear<'_>, point: &[f64]) -> Option<Plan> {
        let runs = linear.runs(point).and_then(|runs| Plan::of_runs(self.graph, runs));
        runs.or_else(|| self.complete(linear.kept(point)))
    }

    fn point(&self, linear: &Linear<'_>, plan: &Plan) -> Vec<f64> {
        let kept: Vec<&[bool]> = linear.starts().into_iter().map(|stage| plan.kept[stage].as_slice()).collect();
        linear.point(|stage| plan.passes[stage].runs.iter().copied(), &kept)
    }

    fn stages(&self) -> usize {
        self.graph.len()
    }

    fn columns(&self) -> usize {
        self.graph.values.len()
    }

    fn forced(&self, stage: usize, column: usize) -> Option<bool> {
        self.graph.forced(stage, column)
    }

    fn neighbours(&self, column: usize) -> Vec<usize> {
        self.graph.neighbours(column)
    }

    fn repeated(&self, plan: &Plan) -> Vec<(usize, usize, u64)> {
        let later = |(stage, pass): (usize, &Pass)| {
            let run = move |&(position, way): &Run| {
                let way = &self.graph.ways(stage, position)[way];
                (position < stage).then(|| Some((stage, *way.makes.first()?, way.time))).flatten()
            };
            pass.runs.iter().filter_map(run).collect::<Vec<_>>()
        };
        plan.passes.iter().enumerate().flat_map(later).collect()
    }
}

impl Grid for Task<'_> {
    fn step(&self, stage: usize, now: &[bool], next: &[bool]) -> Option<Step> {
        let pass = through(self.graph, stage, now, next, self.budget_bytes()).ok()?;
        let later = pass.runs.iter().filter(|run| run.0 < stage);
        let made = later.flat_map(|&(position, way)| &self.graph.ways(stage, position)[way].makes);
        let made = made.copied().collect();
        let runs = pass.runs.iter().map(|run| run.0).collect();
        Some(Step { time: pass.time as f64, peak: pass.peak, widest: pass.widest, runs, made })
    }

    fn touches(&self, _: usize, runs: &[usize], column: usize) -> bool {
        let producer = self.graph.values[column].producer;
        let reads = |position: usize| self.graph.operators[position].reads.binary_search(&column).is_ok();
        runs.iter().any(|&position| position == producer || reads(position))
    }

    fn least_time_of(&self, stage: usize) -> f64 {
        self.graph.operators[stage].least_time() as f64
    }

    fn bytes(&self, column: usize) -> u64 {
        self.graph.values[column].bytes
    }

    fn mean_time(&self) -> f64 {
        self.graph.least_time() as f64 / self.graph.len().max(1) as f64
    }
}
