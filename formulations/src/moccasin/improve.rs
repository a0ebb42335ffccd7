//! The improved search for one budget: a relaxation over blocks of stages that gains memory rows until its optimum fits,
//! by a constraint solver; beside it the search that all methods in stages share looks for schedules, and bounds where
//! the constraint solver takes long.

use std::collections::BTreeSet;
use std::time::Duration;

use remat_solvers::Stop;
use remat_solvers::cp::{CpBackend, CpOutcome, CpRequest, Emphasis};

use crate::method::MethodError;
use crate::moccasin::blocks::{Blocks, Rows};
use crate::search::clock::{Clock, Pace};
use crate::search::driver::{Ended, beside_explorers};
use crate::search::incumbent::Incumbent;
use crate::search::neighbourhoods::Explorer;
use crate::search::problem::{Effort, Staged, improve_best};
use crate::search::refinement::Refinement;
use crate::search::separation::Solving;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// The first turn of the constraint solver; each round of turns has twice as long as the last.
const FIRST: Duration = Duration::from_secs(2);
/// A turn that is over sooner did nothing.
const IDLE: Duration = Duration::from_millis(1);

/// The search.
pub struct Search<'s, 'a> {
    task: &'s Task<'a>,
    incumbent: &'s Incumbent<'s, Task<'a>>,
    constraints: &'static dyn CpBackend,
    solving: Solving,
    clock: Clock,
    /// Other threads that search neighbourhoods.
    explorers: usize,
    explorer: Explorer,
    rows: Rows,
    solves: u64,
    largest: usize,
    conflicts: u64,
    rounds: usize,
    pace: Pace,
    version: String,
}

/// How a relaxation ended.
enum Relaxed {
    Infeasible,
    /// An optimum that fits, or is within the rows of all hot stages.
    Solved,
    Stopped,
}

/// Searches until the incumbent is good enough or the time is up.
///
/// # Errors
/// The solver refuses, or contradicts a schedule that there is.
pub fn search(
    incumbent: &Incumbent<'_, Task<'_>>,
    constraints: &'static dyn CpBackend,
    solving: Solving,
    clock: Clock,
) -> Result<Ended, MethodError> {
    let explorer = Explorer::new(solving.seed, 0);
    beside_explorers(incumbent, solving, clock, |solving, explorers| {
        let task = incumbent.judge;
        let mut search = Search {
            task,
            incumbent,
            constraints,
            solving,
            clock,
            explorers,
            explorer,
            rows: Rows::new(),
            solves: 0,
            largest: 0,
            conflicts: 0,
            rounds: 0,
            pace: Pace::OF_CONSTRAINTS,
            version: String::new(),
        };
        for (stage, position) in search.violated(&Stages::store_all(&task.joint)) {
            search.add_row(stage, position);
        }
        search.run()
    })
}

impl Search<'_, '_> {
    fn run(mut self) -> Result<Ended, MethodError> {
        // With a choice of strategies each gets its turn.
        let choice = self.constraints.has_emphasis();
        let turns: &[Emphasis] = if choice { &[Emphasis::Relaxation, Emphasis::Cores] } else { &[Emphasis::Default] };
        // What it does not prove soon, Checkmate's relaxation may; and of a short time most is left to what finds schedules.
        let mut slice = self.clock.left().map_or(FIRST, |left| FIRST.min(left / 5));
        loop {
            for &emphasis in turns {
                self.incumbent.hear();
                let (turn, solves) = (Clock::start(Some(slice)), self.solves);
                match self.relax(emphasis, slice)? {
                    Relaxed::Infeasible => {
                        self.incumbent.refuted(&self.note())?;
                        return Ok(self.ended(Stop::Infeasible));
                    }
                    Relaxed::Solved => {}
                    Relaxed::Stopped => self.elsewhere(turn.elapsed().max(Duration::from_secs(1)))?,
                }
                // No time for the model, which only grows, and nothing to be done elsewhere.
                if self.solves == solves && turn.elapsed() < IDLE {
                    return Ok(self.ended(Stop::TimeLimit));
                }
                if let Some(stop) = self.incumbent.stop() {
                    return Ok(self.ended(stop));
                }
                if self.clock.is_over() {
                    return Ok(self.ended(Stop::TimeLimit));
                }
            }
            slice = slice.saturating_mul(2);
        }
    }

    /// Hard enough to be worth some time elsewhere: annealing, neighbourhoods, the linear relaxation.
    fn elsewhere(&mut self, time: Duration) -> Result<(), MethodError> {
        self.rounds += 1;
        let incumbent = self.incumbent;
        let seed = self.solving.seed.wrapping_add(self.rounds as u64);
        let effort = Effort::of(incumbent, self.rounds, 0.2, seed, self.clock.at_most(time));
        improve_best(incumbent, effort)?;
        if !incumbent.is_done() {
            // A third of what is left at first; later rounds have their bounds from here too.
            let clock = if self.rounds == 1 { self.clock.share(3) } else { self.clock.at_most(time) };
            let stop = Refinement::new(incumbent, self.solving, clock, self.explorers).run()?;
            if stop == Some(Stop::Infeasible) {
                return Ok(());
            }
        }
        if self.explorers == 0 {
            self.explorer.run(incumbent, &self.solving, self.clock.at_most(time))?;
        }
        Ok(())
    }

    fn add_row(&mut self, stage: usize, position: usize) {
        self.rows.entry(stage).or_default().insert(position);
    }

    /// Where stages exceed the budget most; of neighbours only the worst, since what is dropped there is
    /// mostly dropped around it too, and every hot stage is another block.
    fn violated(&self, stages: &Stages) -> Vec<(usize, usize)> {
        let (joint, budget) = (&self.task.joint, self.task.budget_bytes());
        let peaks = stages.peaks(joint);
        let mut over: Vec<usize> = (0..peaks.len()).filter(|&stage| peaks[stage].0 > budget).collect();
        over.sort_by_key(|&stage| std::cmp::Reverse(peaks[stage].0));
        let apart = joint.len() / 40;
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        for stage in over {
            if chosen.iter().all(|&(other, _)| other.abs_diff(stage) > apart) {
                chosen.push((stage, peaks[stage].1));
            }
        }
        chosen
    }

    fn solve(&mut self, blocks: &Blocks<'_>, emphasis: Emphasis, slice: Duration) -> Result<CpOutcome, MethodError> {
        let hint = self.incumbent.best().map(|stages| blocks.hint(&stages)).unwrap_or_default();
        let request = CpRequest {
            time: self.clock.at_most(slice).left(),
            threads: self.solving.threads,
            seed: self.solving.seed,
            emphasis,
            hint: &hint,
            interrupt: Some(self.incumbent.interrupt()),
        };
        let outcome = self.constraints.solve(&blocks.model, &request)?;
        if outcome.stop == Stop::Error {
            return Err(MethodError::Internal(format!("{}: {}", outcome.solver, outcome.raw_status)));
        }
        self.solves += 1;
        self.largest = self.largest.max(blocks.model.domains.len());
        self.conflicts += outcome.conflicts.unwrap_or(0);
        self.version.clone_from(&outcome.solver);
        self.incumbent.effort(self.solves);
        Ok(outcome)
    }

    /// The relaxation with the rows so far; rows that its optimum breaks are added, until it fits or a solve takes too
    /// long.
    fn relax(&mut self, emphasis: Emphasis, slice: Duration) -> Result<Relaxed, MethodError> {
        loop {
            let size = Blocks::count(self.task, &self.rows) * self.task.columns();
            if !self.pace.allows(size, &self.clock) {
                return Ok(Relaxed::Stopped);
            }
            let clock = Clock::start(None);
            let blocks = Blocks::new(self.task, &self.rows);
            let outcome = self.solve(&blocks, emphasis, slice)?;
            self.pace.learn(size, clock.elapsed().saturating_sub(Duration::from_secs_f64(outcome.seconds)));
            if outcome.stop == Stop::Infeasible {
                return Ok(Relaxed::Infeasible);
            }
            let bound = outcome.bound.and_then(|bound| u64::try_from(bound).ok()).unwrap_or(0);
            self.incumbent.raise(self.task.joint.least_time() + bound * blocks.time_unit());
            let Some(stages) = outcome.values.as_ref().map(|values| blocks.expand(values)) else {
                return Ok(Relaxed::Stopped);
            };
            let over = self.violated(&stages);
            self.incumbent.set_guide(stages.kept(&self.task.joint));
            if over.is_empty() {
                self.incumbent.offer(stages)?;
            }
            if !matches!(outcome.stop, Stop::Optimal | Stop::GapReached) || self.clock.is_over() {
                return Ok(Relaxed::Stopped);
            }
            let cold = over.iter().any(|(stage, _)| !self.rows.contains_key(stage));
            for &(stage, position) in &over {
                self.add_row(stage, position);
            }
            // Rows of new stages make the model larger: the next turn is another strategy's.
            if over.is_empty() || cold || self.incumbent.is_done() {
                return Ok(Relaxed::Solved);
            }
        }
    }

    fn note(&self) -> String {
        let rows: usize = self.rows.values().map(BTreeSet::len).sum();
        let version = if self.version.is_empty() { "no model in the time".into() } else { self.version.clone() };
        format!(
            "{}: {} solves of up to {} variables; {rows} memory rows in {} of {} stages; {} conflicts; {} rounds elsewhere{}",
            version,
            self.solves,
            self.largest,
            self.rows.len(),
            self.task.joint.len(),
            self.conflicts,
            self.rounds,
            if self.rounds > 0 { ", Checkmate's relaxation too" } else { "" }
        )
    }

    fn ended(&self, stop: Stop) -> Ended {
        Ended { stop: Some(stop), note: self.note() }
    }
}
