//! The improved search for one budget: a relaxation over blocks of stages that gains memory rows until
//! its optimum fits, and neighbourhoods of the best schedule while that takes long.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use remat_solvers::Stop;
use remat_solvers::cp::{CpBackend, CpCapability, CpOutcome, CpRequest, Emphasis};

use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::method::{Claimed, MethodError, Termination};
use crate::moccasin::blocks::{Blocks, Rows, Scope, stage_peaks};
use crate::moccasin::greedy::{self, greedy};
use crate::random::Random;
use crate::report::Progress;

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
}

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
}

/// The search.
pub struct Search<'a> {
    task: &'a Task<'a>,
    fixed_time: u64,
    best: Option<(Claimed, Stages)>,
    bound: u64,
    /// Rows of the relaxation.
    rows: Rows,
    /// Those, and rows that only neighbourhoods needed.
    known_rows: Rows,
    solves: u64,
    largest: usize,
    conflicts: u64,
    random: RefCell<Random>,
    version: String,
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

    /// Looks for a start by itself.
    pub fn start_greedily(&mut self) {
        let share = self.left().map(|left| Instant::now() + left / 3);
        let Task { budget, workspace, copies, .. } = *self.task;
        if let Some(stages) = greedy(self.task.joint, greedy::Limits { budget, workspace, copies, deadline: share }) {
            self.offer(stages);
        }
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
                    Relaxed::Stopped => self.neighbourhoods(began.elapsed().max(Duration::from_secs(1)))?,
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

    fn left(&self) -> Option<Duration> {
        self.task.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn add_row(&mut self, stage: usize, position: usize) {
        self.rows.entry(stage).or_default().insert(position);
        self.known_rows.entry(stage).or_default().insert(position);
    }

    /// Where stages exceed the budget most; of neighbours only the worst, since what is dropped there is
    /// mostly dropped around it too, and every hot stage is another block.
    fn violated(&self, stages: &Stages) -> Vec<(usize, usize)> {
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

    fn blocks(&self, scope: &Scope, rows: &Rows) -> Blocks<'a> {
        let Task { joint, budget, workspace, copies, .. } = *self.task;
        Blocks::new(joint, scope, budget, (workspace, copies), rows)
    }

    fn solve(&mut self, blocks: &Blocks<'_>, emphasis: Emphasis, slice: Duration) -> Result<CpOutcome, MethodError> {
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
            let blocks = self.blocks(&scope, &self.rows);
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

    /// The best schedule in which only some operators run again, within a time; keeps it if it is better.
    fn neighbourhood(&mut self, may: &BTreeSet<usize>, slice: Duration) -> Result<(), MethodError> {
        let until = Instant::now() + slice;
        let scope = Scope::new(self.task.joint, |position| may.contains(&position));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.left().is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            let blocks = self.blocks(&scope, &self.known_rows);
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
    fn neighbourhoods(&mut self, slice: Duration) -> Result<(), MethodError> {
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

    fn found(self, termination: Termination) -> Found {
        let rows: usize = self.rows.values().map(BTreeSet::len).sum();
        let note = format!(
            "{}: {} solves of up to {} variables; {rows} memory rows in {} of {} stages; {} conflicts",
            self.version,
            self.solves,
            self.largest,
            self.rows.len(),
            self.task.joint.len(),
            self.conflicts
        );
        let infeasible = termination == Termination::Infeasible;
        Found {
            termination,
            stages: self.best.filter(|_| !infeasible).map(|(_, stages)| stages),
            lower_bound: (!infeasible).then_some(self.bound),
            note,
        }
    }
}

/// The operators that run more than once.
fn again(stages: &Stages) -> BTreeSet<usize> {
    let runs = stages.runs.iter().enumerate();
    runs.flat_map(|(stage, runs)| runs.iter().copied().filter(move |&position| position < stage)).collect()
}
