//! The improved search for one budget: a relaxation over blocks of stages that gains memory rows until
//! its optimum fits, and neighbourhoods of the best schedule while that takes long.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use remat_solvers::Stop;
use remat_solvers::cp::{CpBackend, CpCapability, CpOutcome, CpRequest, Emphasis};

use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::method::report::Progress;
use crate::method::{Claimed, MethodError, Termination};
use crate::moccasin::anneal::{Plan, anneal};
use crate::moccasin::blocks::{Blocks, Rows, Scope, stage_peaks};
use crate::moccasin::greedy::{self, greedy};
use crate::moccasin::neighbourhoods::again;
use crate::moccasin::starts;
use crate::random::Random;

/// Most operators with which dropping greedily is worth its time; beyond, annealing is faster.
const GREEDY_OPERATORS: usize = 400;

/// What a search needs to know.
pub struct Task<'a> {
    /// The joint graph.
    pub joint: &'a Joint,
    /// The budget.
    pub budget: u64,
    /// Whether workspaces count.
    pub workspace: bool,
    /// Most runs of one operator (C).
    pub copies: u64,
    /// The solver.
    pub solver: &'a dyn CpBackend,
    /// When to stop.
    pub deadline: Option<Instant>,
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
    /// Hears of progress.
    pub hears: &'a dyn Fn(&Progress, Option<&Stages>),
    /// Another relaxation, asked once for so long where the own one takes long.
    pub opinion: Option<&'a Opinion<'a>>,
}

/// Works for some time, and returns a schedule and a proved bound on the time of all schedules.
pub type Opinion<'a> = dyn Fn(Option<Duration>) -> Result<(Option<Stages>, Option<u64>), MethodError> + 'a;

/// What a search leaves.
pub struct Found {
    /// Why it stopped.
    pub termination: Termination,
    /// The best stages.
    pub stages: Option<Stages>,
    /// Proved lower bound on the time.
    pub lower_bound: Option<u64>,
    /// What else to say.
    pub note: String,
    /// Time spent on building models.
    pub build: Duration,
}

impl Found {
    /// Nothing but why it stopped.
    pub fn of(termination: Termination) -> Self {
        Self { termination, stages: None, lower_bound: None, note: String::new(), build: Duration::ZERO }
    }
}

/// The search.
pub struct Search<'a> {
    pub(super) task: &'a Task<'a>,
    fixed_time: u64,
    pub(super) best: Option<(Claimed, Stages)>,
    pub(super) bound: u64,
    /// Rows of the relaxation.
    rows: Rows,
    /// Those, and rows that only neighbourhoods needed.
    pub(super) known_rows: Rows,
    solves: u64,
    largest: usize,
    conflicts: u64,
    pub(super) random: RefCell<Random>,
    version: String,
    build: Duration,
    /// How often schedules have been annealed.
    annealings: u64,
    /// Whether the other relaxation has been asked.
    asked: bool,
}

/// How a relaxation ended.
enum Relaxed {
    Infeasible,
    /// The optimum, and where it goes over the budget.
    Solved(Stages, Vec<(usize, usize)>),
    Stopped,
}

impl<'a> Search<'a> {
    /// A search that knows nothing yet.
    pub fn new(task: &'a Task<'a>) -> Self {
        let mut search = Self {
            task,
            fixed_time: task.joint.operators.iter().map(|operator| operator.first.time).sum(),
            best: None,
            bound: 0,
            rows: Rows::new(),
            known_rows: Rows::new(),
            solves: 0,
            largest: 0,
            conflicts: 0,
            random: RefCell::new(Random::new(task.seed)),
            version: String::new(),
            build: Duration::ZERO,
            annealings: 0,
            asked: false,
        };
        search.bound = search.fixed_time;
        let store_all = Stages::store_all(task.joint);
        for (stage, position) in search.violated(&store_all) {
            search.add_row(stage, position);
        }
        search
    }

    /// Takes a schedule that meets the budget, if it does and is better.
    pub fn offer(&mut self, stages: Stages) -> bool {
        let claim = stages.claim(self.task.joint, self.task.workspace);
        let fits =
            claim.peak_bytes <= self.task.budget && greedy::within_copies(self.task.joint, &stages, self.task.copies);
        if !fits || self.best.as_ref().is_some_and(|(best, _)| best.time <= claim.time) {
            return false;
        }
        (self.task.hears)(&Progress::default().after(self.solves), Some(&stages));
        self.best = Some((claim, stages));
        true
    }

    /// Looks for a start by itself, where a greedy step takes milliseconds.
    pub fn start_greedily(&mut self) {
        let limits = starts::limits(6, self.limits());
        if self.task.joint.len() <= GREEDY_OPERATORS
            && let Some(stages) = greedy(self.task.joint, limits)
        {
            self.offer(stages);
        }
    }

    /// Anneals store-all where there is no schedule yet.
    pub fn anneal_unless_found(&mut self) {
        if self.best.is_none() {
            self.anneal();
        }
    }

    /// Anneals the best schedule, or store-all where there is none, within a fifth of the time that is left.
    fn anneal(&mut self) {
        let Task { joint, seed, .. } = *self.task;
        let start = self.best.as_ref().map_or_else(|| Stages::store_all(joint), |(_, stages)| stages.clone());
        // Later rounds refine what is known.
        let initial = if self.annealings > 0 && self.best.is_some() { 0.2 } else { 1.0 };
        let plan = Plan { initial, ..Plan::of(joint) };
        let seed = seed.wrapping_add(self.annealings);
        self.annealings += 1;
        anneal(joint, starts::limits(5, self.limits()), plan, &start, seed, &mut |stages| {
            self.offer(stages.clone());
        });
    }

    /// Asks the other relaxation, the first time only, for a third of the time that is left.
    fn second_opinion(&mut self) -> Result<(), MethodError> {
        let Some(opinion) = self.task.opinion.filter(|_| !self.asked) else { return Ok(()) };
        self.asked = true;
        let (stages, bound) = opinion(self.left().map(|left| left / 3))?;
        if let Some(bound) = bound.filter(|&bound| bound > self.bound) {
            self.bound = bound;
            (self.task.hears)(&Progress::bound(bound).after(self.solves), None);
        }
        if let Some(stages) = stages {
            self.offer(stages);
        }
        Ok(())
    }

    fn limits(&self) -> greedy::Limits {
        let Task { budget, workspace, copies, deadline, .. } = *self.task;
        greedy::Limits { budget, workspace, copies, deadline }
    }

    /// Runs to the end or the deadline.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn run(mut self) -> Result<Found, MethodError> {
        // With a choice of strategies each gets its turn, and twice as much in the next round.
        let choice = self.task.solver.supports(CpCapability::Emphasis).is_ok();
        let turns: &[Emphasis] = if choice { &[Emphasis::Relaxation, Emphasis::Cores] } else { &[Emphasis::Default] };
        let mut slice = Duration::from_secs(if choice { 5 } else { 15 });
        loop {
            for &emphasis in turns {
                let began = Instant::now();
                match self.relax(emphasis, slice)? {
                    Relaxed::Infeasible => return Ok(self.found(Termination::Infeasible)),
                    Relaxed::Solved(stages, over) => {
                        if over.is_empty() {
                            self.offer(stages);
                        } else {
                            let again: BTreeSet<usize> = again(&stages);
                            for &(stage, position) in &over {
                                self.add_row(stage, position);
                            }
                            self.neighbourhood(&again, began.elapsed().max(Duration::from_millis(200)))?;
                        }
                    }
                    Relaxed::Stopped => {
                        // Hard enough to be worth a few seconds; later rounds draw other numbers.
                        self.anneal();
                        self.second_opinion()?;
                        self.neighbourhoods(began.elapsed().max(Duration::from_secs(1)))?;
                    }
                }
                if self.best.as_ref().is_some_and(|(best, _)| best.time <= self.bound) {
                    return Ok(self.found(Termination::Optimal));
                }
                if self.left().is_some_and(|left| left.is_zero()) {
                    return Ok(self.found(Termination::TimeLimit));
                }
            }
            slice *= 2;
        }
    }

    pub(super) fn left(&self) -> Option<Duration> {
        self.task.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn add_row(&mut self, stage: usize, position: usize) {
        self.rows.entry(stage).or_default().insert(position);
        self.known_rows.entry(stage).or_default().insert(position);
    }

    /// Where stages exceed the budget most; of neighbours only the worst, since what is dropped there is
    /// mostly dropped around it too, and every hot stage is another block.
    pub(super) fn violated(&self, stages: &Stages) -> Vec<(usize, usize)> {
        let peaks = stage_peaks(self.task.joint, stages, self.task.workspace);
        let mut over: Vec<usize> = (0..peaks.len()).filter(|&stage| peaks[stage].0 > self.task.budget).collect();
        over.sort_by_key(|&stage| std::cmp::Reverse(peaks[stage].0));
        let apart = self.task.joint.len() / 40;
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        for stage in over {
            if chosen.iter().all(|&(other, _)| other.abs_diff(stage) > apart) {
                chosen.push((stage, peaks[stage].1));
            }
        }
        chosen
    }

    /// The model with rows of the relaxation, or with all that are known.
    pub(super) fn blocks(&mut self, scope: &Scope, all_rows: bool) -> Blocks<'a> {
        let began = Instant::now();
        let Task { joint, budget, workspace, copies, .. } = *self.task;
        let rows = if all_rows { &self.known_rows } else { &self.rows };
        let blocks = Blocks::new(joint, scope, budget, (workspace, copies), rows);
        self.build += began.elapsed();
        blocks
    }

    pub(super) fn solve(
        &mut self,
        blocks: &Blocks<'_>,
        emphasis: Emphasis,
        slice: Duration,
    ) -> Result<CpOutcome, MethodError> {
        let hint = self.best.as_ref().map(|(_, stages)| blocks.hint(stages)).unwrap_or_default();
        let time = self.left().map_or(slice, |left| left.min(slice));
        let request = CpRequest {
            time: Some(time),
            threads: self.task.threads,
            seed: self.task.seed,
            emphasis,
            hint: &hint,
            interrupt: None,
        };
        let outcome = self.task.solver.solve(&blocks.model, &request);
        let outcome = outcome.map_err(|error| MethodError::Internal(error.to_string()))?;
        if outcome.stop == Stop::Error {
            return Err(MethodError::Internal(format!("{}: {}", outcome.solver, outcome.raw_status)));
        }
        self.solves += 1;
        self.largest = self.largest.max(blocks.variables_count());
        self.conflicts += outcome.conflicts.unwrap_or(0);
        self.version.clone_from(&outcome.solver);
        Ok(outcome)
    }

    fn time(&self, blocks: &Blocks<'_>, objective: i64) -> u64 {
        self.fixed_time.saturating_add(u64::try_from(objective).unwrap_or(0).saturating_mul(blocks.time_unit()))
    }

    /// The relaxation with the rows so far; rows of its hot stages that a solution breaks are added at once.
    fn relax(&mut self, emphasis: Emphasis, slice: Duration) -> Result<Relaxed, MethodError> {
        let scope = Scope::new(self.task.joint, |_| true);
        loop {
            let blocks = self.blocks(&scope, false);
            let outcome = self.solve(&blocks, emphasis, slice)?;
            if outcome.stop == Stop::Infeasible {
                return Ok(Relaxed::Infeasible);
            }
            let bound = outcome.bound.map_or(0, |bound| self.time(&blocks, bound));
            if bound > self.bound {
                self.bound = bound;
                (self.task.hears)(&Progress::bound(bound).after(self.solves), None);
            }
            let stages = outcome.values.as_ref().map(|values| blocks.expand(values));
            let over = stages.as_ref().map(|stages| self.violated(stages)).unwrap_or_default();
            if let Some(stages) = stages.as_ref().filter(|_| over.is_empty()) {
                self.offer(stages.clone());
            }
            let (Stop::Optimal | Stop::GapReached, Some(stages)) = (outcome.stop, stages) else {
                return Ok(Relaxed::Stopped);
            };
            let hot: Vec<_> = over.iter().copied().filter(|(stage, _)| self.rows.contains_key(stage)).collect();
            if hot.is_empty() || self.left().is_some_and(|left| left.is_zero()) {
                return Ok(Relaxed::Solved(stages, over));
            }
            for (stage, position) in hot {
                self.add_row(stage, position);
            }
        }
    }

    fn found(self, termination: Termination) -> Found {
        let rows: usize = self.rows.values().map(BTreeSet::len).sum();
        let note = format!(
            "{}: {} solves of up to {} variables; {rows} memory rows in {} of {} stages; {} conflicts; {} annealings{}",
            self.version,
            self.solves,
            self.largest,
            self.rows.len(),
            self.task.joint.len(),
            self.conflicts,
            self.annealings,
            if self.asked { "; Checkmate's relaxation" } else { "" }
        );
        let infeasible = termination == Termination::Infeasible;
        Found {
            termination,
            stages: self.best.filter(|_| !infeasible).map(|(_, stages)| stages),
            lower_bound: (!infeasible).then_some(self.bound),
            note,
            build: self.build,
        }
    }
}
