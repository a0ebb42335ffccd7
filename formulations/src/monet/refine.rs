//! `strategy=coarse`: the model over blocks of stages is solved, what its solution comes to is improved into a
//! schedule, and blocks are split where that solution, stage by stage, exceeds the budget or costs more. Every
//! round leaves a bound on all schedules; over single stages the model is exact.
//!
//! Follows `checkmate/refine.rs`, but for how it comes by schedules: between the rounds the same model over short
//! blocks looks for them (`Refinement::search_short`); where what it says does not fit, its rows leave half of that
//! free next time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use remat_solvers::{Anew, Capability, Outcome, Request, Session, Stop};

use crate::checkmate::coarse::Block;
use crate::method::MethodError;
use crate::monet::blocks::{first_blocks, short_blocks, split};
use crate::monet::decisions::Decisions;
use crate::monet::explore::Explorer;
use crate::monet::formulation::Formulation;
use crate::monet::improve::{Effort, improve, settle};
use crate::monet::program::{Known, Program, failed, whole_bound};

/// Nodes of the first round without a time limit; each round may use twice as many as the last.
const NODES: u64 = 50;
/// So many violated rows of either kind are taken from a block at a time.
const ALIKE: usize = 3;
/// What the stages of a short block read together, as parts of the capacity: one after the other.
const SHORT: [f64; 4] = [0.5, 0.3, 0.2, 0.1];
/// How often what does not fit is tried again with more left free.
const TRIES: usize = 3;
/// Steps of the local search in the first round; twice as many in each that follows.
const EFFORT: usize = 400_000;
/// A part of what is left of the gap.
const LITTLE: f64 = 0.1;
/// Neighbourhoods after each round without a time limit.
const STEPS: usize = 12;

/// The state of a refinement of one budget.
pub struct Refinement<'p, 'a> {
    program: &'p Program<'a>,
    known: &'p mut Known,
    index: usize,
    capacity: i64,
    began: Instant,
    time: Option<Duration>,
    /// Which part of the gap that is left a relaxation may leave.
    part: f64,
    round: usize,
    explorer: Explorer,
}

impl<'p, 'a> Refinement<'p, 'a> {
    /// A refinement within some time.
    pub fn new(program: &'p Program<'a>, known: &'p mut Known, index: usize, time: Option<Duration>) -> Self {
        let capacity = program.capacity_of(index);
        Self {
            program,
            known,
            index,
            capacity,
            began: Instant::now(),
            time,
            part: 8.0,
            round: 0,
            explorer: Explorer::new(program.seed(), 0),
        }
    }

    /// Refines until nothing is left to be split or the time is up; none where the question is still open.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn run(mut self) -> Result<Option<Stop>, MethodError> {
        let problem = &self.program.problem;
        let mut blocks = first_blocks(problem);
        let mut before: Option<Formulation<'_>> = None;
        loop {
            self.round += 1;
            let (began, bound) = (Instant::now(), self.known.bound);
            let mut formulation = Formulation::coarse(problem, self.capacity, blocks.clone());
            if let Some(before) = &before {
                formulation.add_known(before);
            }
            let outcome = self.solve(&mut formulation, false)?;
            self.known.heed();
            self.note(&formulation, &outcome);
            if outcome.stop == Stop::Infeasible {
                if self.known.best.is_some() {
                    let note = &self.known.note;
                    return Err(MethodError::Internal(format!("{note}: infeasible, though there is a schedule")));
                }
                self.known.infeasible = true;
                return Ok(Some(Stop::Infeasible));
            }
            let said = self.said(&formulation, &outcome);
            self.schedules(said.as_ref(), began, bound)?;
            if self.program.enough(self.known) {
                return Ok(Some(Stop::Optimal));
            }
            if self.left().is_some_and(|left| left < Duration::from_millis(200)) {
                return Ok(Some(Stop::TimeLimit));
            }
            let finer = said.and_then(|said| self.finer(&formulation, &said, &outcome));
            before = Some(formulation);
            let Some(finer) = finer else { return Ok(None) };
            blocks = finer;
        }
    }

    fn note(&mut self, formulation: &Formulation<'_>, outcome: &Outcome) {
        let model = &formulation.layout.model;
        self.known.note = format!(
            "{}: {}; {} blocks of stages in {} rounds; {} columns, {} rows, {} nonzeros",
            outcome.solver,
            outcome.raw_status,
            formulation.layout.blocks.len(),
            self.round,
            model.columns(),
            model.rows.len(),
            model.nonzeros()
        );
    }

    /// Schedules from what a round's solution says, and from elsewhere where that does not do; the round began at some
    /// time with some bound.
    fn schedules(&mut self, said: Option<&Decisions>, began: Instant, bound: i64) -> Result<(), MethodError> {
        if let Some(said) = said {
            self.search(said)?;
        }
        if !self.program.enough(self.known) && said.is_none_or(|said| said.peak() > self.capacity) {
            self.search_short()?;
        }
        self.known.heed();
        // Rounds that do little for the bound leave time for schedules.
        let little = ((self.known.bound - bound) as f64) < LITTLE * self.open();
        if self.program.explorers() == 0 || little {
            self.explore(began.elapsed())?;
        }
        Ok(())
    }

    /// What a solution comes to, stage by stage.
    fn said(&self, formulation: &Formulation<'_>, outcome: &Outcome) -> Option<Decisions> {
        let mut kept = formulation.kept(outcome.incumbent.as_ref()?, 0.5);
        settle(&self.program.problem, &mut kept);
        self.known.board.guide(&kept);
        Decisions::complete(&self.program.problem, kept, self.capacity)
    }

    /// Schedules from what a solution comes to, and from the best that is known; more is tried from round to
    /// round.
    fn search(&mut self, said: &Decisions) -> Result<(), MethodError> {
        let program = self.program;
        program.take(self.index, self.capacity, self.known, said.clone())?;
        self.known.heed();
        let best = self.known.best.as_ref().map(|best| best.kept.clone());
        // Others search around the best where there are others.
        let alone = program.explorers() == 0;
        let starts = [(Some(said.kept.clone()), 0.3), (best.filter(|_| alone), 0.1)];
        for (kept, heat) in starts.into_iter().filter_map(|(kept, heat)| Some((kept?, heat))) {
            if program.enough(self.known) {
                break;
            }
            let steps = EFFORT << self.round.min(if alone { 6 } else { 1 });
            let effort = Effort { steps, heat, time: self.left().map(|left| left / 6) };
            let seed = program.seed() + self.round as u64;
            if let Some(found) = improve(&program.problem, kept, self.capacity, seed, effort) {
                program.take(self.index, self.capacity, self.known, found)?;
            }
        }
        Ok(())
    }

    /// What is left of the gap.
    fn open(&self) -> f64 {
        let best = self.known.best.as_ref().map_or(0, Decisions::time);
        (best - self.known.bound).max(0) as f64
    }

    /// Neighbourhoods of the best schedule, for as long as a round took; without a time limit, so many.
    fn explore(&mut self, round: Duration) -> Result<(), MethodError> {
        let (program, began) = (self.program, Instant::now());
        let mut steps = 0;
        while !program.enough(self.known) {
            let left = self.time.map(|_| round.saturating_sub(began.elapsed()));
            let over = left.map_or(steps == STEPS, |left| left.is_zero());
            let Some(best) = self.known.best.clone().filter(|_| !over) else { break };
            self.explorer.step(program, self.index, self.capacity, &self.known.board, &best, self.left())?;
            self.known.heed();
            steps += 1;
        }
        Ok(())
    }

    /// Schedules from the relaxation of the model over short blocks, shorter from round to round: what does not
    /// fit when it is expanded is left free there next time. Where nothing is left free its bound is one.
    fn search_short(&mut self) -> Result<(), MethodError> {
        let problem = &self.program.problem;
        let share = SHORT[(self.round - 1).min(SHORT.len() - 1)];
        let blocks = short_blocks(problem, self.capacity, share);
        let mut margin = vec![0; problem.stages.len()];
        let mut before: Option<Formulation<'_>> = None;
        for _ in 0..TRIES {
            let mut formulation = Formulation::coarse(problem, self.capacity, blocks.clone());
            formulation.margin.clone_from(&margin);
            if let Some(before) = &before {
                formulation.add_known(before);
            }
            let outcome = self.solve(&mut formulation, true)?;
            let Some(said) = self.said(&formulation, &outcome) else { return Ok(()) };
            self.search(&said)?;
            if said.peak() <= self.capacity || self.program.enough(self.known) {
                return Ok(());
            }
            self.widen(&mut margin, &blocks, &said);
            before = Some(formulation);
        }
        Ok(())
    }

    /// Leaves half of what a block exceeds the capacity by free in its stages.
    fn widen(&self, margin: &mut [i64], blocks: &[Block], said: &Decisions) {
        for block in blocks {
            let stages = block.first..=block.last;
            let peaks = said.stages[stages.clone()].iter().map(|doing| doing.peak);
            let over = peaks.max().map_or(0, |peak| (peak - self.capacity).max(0));
            margin[stages].iter_mut().for_each(|margin| *margin += over / 2);
        }
    }

    fn left(&self) -> Option<Duration> {
        self.time.map(|time| time.saturating_sub(self.began.elapsed()))
    }

    /// Memory rows as they are violated, first by the relaxation.
    fn solve(&mut self, formulation: &mut Formulation<'_>, only_relaxed: bool) -> Result<Outcome, MethodError> {
        let program = self.program;
        let mut session: Box<dyn Session> = match program.solver.supports(Capability::Sessions) {
            Ok(()) => program.solver.session(&formulation.layout.model).map_err(|error| failed(&error))?,
            Err(_) => Box::new(Anew::new(program.solver, formulation.layout.model.clone())),
        };
        let bounding = formulation.leaves_nothing_free();
        let share = self.left().map(|left| left / if only_relaxed { 12 } else { 6 });
        let began = Instant::now();
        let mut relaxed = true;
        loop {
            let left = share.map(|share| share.saturating_sub(began.elapsed()));
            let outcome = self.ask(session.as_mut(), formulation, relaxed, left)?;
            if outcome.stop == Stop::Infeasible {
                return Ok(outcome);
            }
            if let Some(bound) = outcome.dual_bound.filter(|_| bounding) {
                program.raise(self.index, self.known, whole_bound(formulation, bound));
            }
            let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
            let before = formulation.layout.model.rows.len();
            let added = match &outcome.incumbent {
                Some(values) if solved => formulation.add_worst(values, ALIKE),
                _ => 0,
            };
            if added > 0 {
                let rows = formulation.rows_from(before);
                session.add_rows(&rows).map_err(|error| failed(&error))?;
            } else if relaxed && solved && !only_relaxed && !program.enough(self.known) {
                relaxed = false;
            } else {
                return Ok(outcome);
            }
        }
    }

    /// Solves the model as it stands; bounds are taken as they come.
    fn ask(
        &mut self,
        session: &mut dyn Session,
        formulation: &Formulation<'_>,
        relaxed: bool,
        time: Option<Duration>,
    ) -> Result<Outcome, MethodError> {
        let program = self.program;
        let whole = !relaxed && formulation.leaves_nothing_free();
        let start = self.known.best.as_ref().filter(|_| whole).map(|best| formulation.vector(best));
        let wanted = self.gap_wanted() / formulation.layout.scale.time;
        let board = Arc::clone(&self.known.board);
        let (index, known) = (self.index, &mut *self.known);
        let mut observer = |event: &remat_solvers::Progress<'_>| {
            if let Some(bound) = event.bound.filter(|_| whole) {
                program.raise(index, known, whole_bound(formulation, bound));
            }
            if program.enough(known) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut request = Request {
            time,
            relaxation: relaxed,
            start: start.as_deref(),
            observer: Some(&mut observer),
            interrupt: Some(&board.done),
            absolute_gap: wanted,
            relative_gap: 0.0,
            nodes: self.time.is_none().then(|| NODES << self.round.min(20)),
            ..program.request()
        };
        session.solve(&mut request).map_err(|error| failed(&error))
    }

    /// A part of the gap that is left: there is no use in solving a relaxation better than the schedules
    /// that come of it.
    fn gap_wanted(&self) -> f64 {
        let best = self.known.best.as_ref().map(|best| (best.time() - self.known.bound).max(0) as f64);
        // Without a schedule, or with a bad one, a solution within a few per mille says enough.
        let most = self.known.bound as f64 / 50.0;
        (best.unwrap_or(most).min(most) / self.part).max(0.5)
    }

    /// The blocks of the next round; none where this way ends.
    fn finer(&mut self, formulation: &Formulation<'_>, said: &Decisions, outcome: &Outcome) -> Option<Vec<Block>> {
        let layout = &formulation.layout;
        let capacity = self.capacity;
        if let Some(finer) = split(&layout.blocks, said, |_, need| need > capacity) {
            return Some(finer);
        }
        let left = outcome.objective.zip(outcome.dual_bound).map_or(0.0, |(objective, bound)| objective - bound);
        if left * layout.scale.time > 1e-6 * said.time() as f64 + 1.0 {
            // A better solution of the same relaxation may be another one.
            self.part *= 4.0;
            return Some(layout.blocks.clone());
        }
        let values = outcome.incumbent.as_ref()?;
        split(&layout.blocks, said, |at, _| {
            let Block { first, last } = layout.blocks[at];
            let time: i64 = said.stages[first..=last].iter().map(|doing| doing.time).sum();
            time as f64 > layout.costs[at].value(values) + 0.5
        })
    }
}
