//! From coarse to fine: the coarse relaxation is solved, what its solution says is repaired into a
//! schedule, and blocks are split where the two differ. Leaves the best schedule and the best bound in
//! a [`Watch`].

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use remat_solvers::{Anew, Capability, Outcome, Progress, Request, Session, Stop};

use crate::checkmate::coarse::{Block, Coarse};
use crate::checkmate::primal::Primal;
use crate::checkmate::program::{Found, Program, failed};
use crate::checkmate::stages::Stages;
use crate::checkmate::watch::Watch;
use crate::method::{MethodError, Termination};

/// Up to so many columns of R and S the exact model is worth most of the time.
const LARGE: usize = 50_000;
/// Rounds of refinement where it is.
const ROUNDS: usize = 6;
/// Nodes of the first round without a time limit; each round may use twice as many as the last.
const NODES: u64 = 50;

/// The state of a refinement.
pub struct Refinement<'w, 'p, 'a> {
    program: &'p Program<'a>,
    watch: &'w mut Watch<'p, 'a>,
    began: Instant,
    time: Option<Duration>,
    build: Duration,
    /// Which part of the gap that is left a relaxation may leave.
    part: f64,
    round: usize,
    /// Whether the exact model is out of reach.
    large: bool,
}

impl<'w, 'p, 'a> Refinement<'w, 'p, 'a> {
    /// A refinement within some time.
    pub fn new(time: Option<Duration>, watch: &'w mut Watch<'p, 'a>) -> Self {
        let joint = &watch.program.joint;
        let kept = |stage| joint.values.iter().filter(move |value| stage > value.producer && stage <= value.last_use);
        let large = (0..joint.len()).map(|stage| kept(stage).count()).sum::<usize>() > LARGE;
        let (began, build) = (Instant::now(), Duration::ZERO);
        // Where the exact model can be solved it gets half of the time.
        let time = if large { time } else { time.map(|time| time / 2) };
        Self { program: watch.program, watch, began, time, build, part: 8.0, round: 0, large }
    }

    /// Refines as long as it pays. Returns an answer only where nothing is left to be done.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn run(mut self) -> Result<Option<Found>, MethodError> {
        let Some(budget) = self.watch.budget else { return Ok(None) };
        let joint = &self.program.joint;
        let deadline = self.time.map(|time| self.began + time);
        let primal = Primal { joint, budget, workspace: self.program.workspace, deadline };
        let mut blocks = self.halves();
        while self.large || self.round < ROUNDS {
            self.round += 1;
            let began = Instant::now();
            let coarse = Coarse::new(joint, budget, self.program.workspace, blocks.clone());
            self.build += began.elapsed();
            let outcome = self.solve(&coarse)?;
            let note = format!("{}: {} blocks of stages in {} rounds", outcome.solver, blocks.len(), self.round);
            if outcome.stop == Stop::Infeasible {
                if self.watch.best.is_some() {
                    return Err(MethodError::Internal(format!("{note}: infeasible, though there is a schedule")));
                }
                return Ok(Some(self.conclude(Termination::Infeasible, note)));
            }
            let said = outcome.incumbent.as_ref().map(|values| {
                let kept = coarse.expand(values);
                Stages::complete(joint, |stage, value| kept[stage][value])
            });
            if let Some(said) = &said {
                self.watch.schedule(said);
                let repaired = primal.improve(said);
                // What the relaxation says may be beyond repair; store-all seldom is.
                let repaired = repaired.or_else(|| {
                    let needed = self.watch.best.is_none();
                    needed.then(|| primal.improve(&Stages::store_all(joint))).flatten()
                });
                repaired.map(|stages| self.watch.schedule(&stages));
            }
            if self.watch.closed() {
                return Ok(Some(self.conclude(Termination::Optimal, note)));
            }
            if self.left().is_some_and(|left| left < Duration::from_millis(200)) {
                return Ok(Some(self.conclude(Termination::TimeLimit, note)).filter(|_| self.large));
            }
            let Some(finer) = said.and_then(|said| self.finer(blocks, &said, &outcome, coarse.time_unit())) else {
                break;
            };
            blocks = finer;
        }
        Ok(None)
    }

    /// The blocks of the next round; none where this way ends.
    fn finer(&mut self, blocks: Vec<Block>, said: &Stages, outcome: &Outcome, unit: f64) -> Option<Vec<Block>> {
        let budget = self.watch.budget.unwrap_or(u64::MAX);
        if let Some(finer) = self.split(&blocks, |need, _| need > budget, said) {
            return Some(finer);
        }
        let left = outcome.objective.zip(outcome.dual_bound).map_or(0.0, |(objective, bound)| objective - bound);
        if left * unit > Program::margin(said.claim(&self.program.joint, false).time) {
            // A better solution of the same relaxation may be another one.
            self.part *= 4.0;
            return Some(blocks);
        }
        self.split(&blocks, |_, repeats| repeats, said)
    }

    fn conclude(&self, termination: Termination, note: String) -> Found {
        let solve = self.began.elapsed().saturating_sub(self.build);
        let termination = match termination {
            Termination::Optimal if !self.watch.optimal() => Termination::GapReached,
            other => other,
        };
        self.program.conclude(self.watch, termination, self.build, solve, note)
    }

    fn left(&self) -> Option<Duration> {
        self.time.map(|time| time.saturating_sub(self.began.elapsed()))
    }

    /// Two blocks that meet where store-all needs most.
    fn halves(&self) -> Vec<Block> {
        let joint = &self.program.joint;
        let (mut worst, mut most) = (0, 0);
        let store_all = Stages::store_all(joint);
        store_all.walk(joint, &store_all.kept(joint), |stage, _, _, bytes| {
            if bytes > most {
                (worst, most) = (stage, bytes);
            }
        });
        let last = joint.len() - 1;
        let whole = Block { first: 0, last };
        if worst < last { vec![Block { last: worst, ..whole }, Block { first: worst + 1, last }] } else { vec![whole] }
    }

    /// Memory rows as they are violated, first by the relaxation.
    fn solve(&mut self, coarse: &Coarse) -> Result<Outcome, MethodError> {
        let program = self.program;
        let mut session: Box<dyn Session> = match program.solver.supports(Capability::Sessions) {
            Ok(()) => program.solver.session(&coarse.model).map_err(|error| failed(&error))?,
            Err(_) => Box::new(Anew::new(program.solver, coarse.model.clone())),
        };
        let unit = coarse.time_unit();
        let start = self.watch.best.as_ref().map(|(_, stages)| coarse.vector(stages));
        let share = self.left().map(|left| left / 3);
        let began = Instant::now();
        let mut relaxed = true;
        loop {
            let gap = self.gap_wanted();
            let watch = &mut *self.watch;
            let mut observer = |progress: &Progress<'_>| {
                watch.objective_bound(progress.bound, unit);
                ControlFlow::Continue(())
            };
            let mut request = Request {
                relaxation: relaxed,
                start: start.as_deref().filter(|_| !relaxed),
                observer: Some(&mut observer),
                absolute_gap: gap / unit,
                nodes: self.time.is_none().then(|| NODES << self.round.min(20)),
                ..program.request(share.map(|share| share.saturating_sub(began.elapsed())))
            };
            let outcome = session.solve(&mut request).map_err(|error| failed(&error))?;
            if outcome.stop == Stop::Infeasible {
                return Ok(outcome);
            }
            self.watch.objective_bound(outcome.dual_bound, unit);
            let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
            let rows = outcome.incumbent.as_ref().filter(|_| solved).map(|values| coarse.violated(values));
            match rows {
                Some(rows) if !rows.is_empty() => session.add_rows(&rows).map_err(|error| failed(&error))?,
                _ if relaxed && solved => relaxed = false,
                _ => return Ok(outcome),
            }
        }
    }

    /// A part of the gap that is left: there is no use in solving a relaxation better than the schedules
    /// that come of it.
    fn gap_wanted(&self) -> f64 {
        let gap = self.watch.time().zip(self.watch.bound).map(|(time, bound)| time.saturating_sub(bound) as f64);
        // Without a schedule any solution within a few per mille says enough.
        (gap.unwrap_or(self.program.fixed_time() as f64 / 50.0) / self.part).max(0.5)
    }

    /// Blocks split at their stage of greatest need, where `wanted` says so of that need and of whether
    /// some operator runs twice in the block; none if nothing was split.
    fn split(&self, blocks: &[Block], wanted: impl Fn(u64, bool) -> bool, said: &Stages) -> Option<Vec<Block>> {
        let joint = &self.program.joint;
        let mut needs = vec![0; joint.len()];
        said.walk(joint, &said.kept(joint), |stage, position, _, bytes| {
            let way = joint.run(stage, position);
            let need: &mut u64 = &mut needs[stage];
            *need = (*need).max(bytes + way.map_or(0, |way| way.transient(self.program.workspace)));
        });
        let mut finer = Vec::with_capacity(blocks.len() + 1);
        for &block in blocks {
            let worst = (block.first..=block.last).max_by_key(|&stage| needs[stage]).unwrap_or(block.first);
            if block.first == block.last || !wanted(needs[worst], repeats(said, block)) {
                finer.push(block);
                continue;
            }
            finer.extend(block.split_at(worst));
        }
        (finer.len() > blocks.len()).then_some(finer)
    }
}

/// Whether an operator runs again twice in a block, which the coarse model counts once.
fn repeats(said: &Stages, block: Block) -> bool {
    let mut seen = BTreeSet::new();
    let mut again = (block.first..=block.last).flat_map(|stage| said.runs[stage].iter().filter(move |&&at| at < stage));
    again.any(|&position| !seen.insert(position))
}
