//! Large neighbourhood search: the exact model of a part of the best schedule is solved, again and again.
//!
//! A neighbourhood ([`Neighbourhood`]) that is solved within its limits grows next time, one that is not shrinks, each
//! shape for itself. Deterministic for a seed as long as time does not run out.

use std::time::{Duration, Instant};

use remat_solvers::{Anew, Capability, Outcome, Request, Session, Stop};

use crate::method::MethodError;
use crate::monet::decisions::Decisions;
use crate::monet::formulation::Formulation;
use crate::monet::neighbourhood::{Neighbourhood, Shape};
use crate::monet::program::{Program, failed};
use crate::random::Random;

/// Open cells of the first neighbourhoods.
const CELLS: f64 = 400.0;
/// Fewest.
const FEWEST: f64 = 20.0;
/// Branch-and-bound nodes of one solve.
const NODES: u64 = 300;
/// Wall time of one neighbourhood.
const TIME: Duration = Duration::from_secs(6);
/// So many violated rows of either kind are taken from a stage at a time.
const ALIKE: usize = 3;

const SHAPES: [Shape; 3] = [Shape::Stages, Shape::Nodes, Shape::Both];

/// Where a search over neighbourhoods stands.
pub struct Explorer {
    random: Random,
    /// Open cells, by shape.
    cells: [f64; 3],
    turn: usize,
}

impl Explorer {
    /// A search that has not begun.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::part(seed, 1), cells: [CELLS; 3], turn: 0 }
    }

    /// Tries one neighbourhood of some decisions; better ones, if it has any.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn step(
        &mut self,
        program: &Program<'_>,
        best: &Decisions,
        capacity: i64,
        time: Option<Duration>,
    ) -> Result<Option<Decisions>, MethodError> {
        let turn = self.turn % SHAPES.len();
        self.turn += 1;
        let open = Neighbourhood::draw(&program.problem, best, SHAPES[turn], self.cells[turn] as usize, &mut self.random);
        let began = Instant::now();
        let mut trial = Trial { program, best, capacity, deadline: time.map(|time| began + time.min(TIME)), found: None };
        let solved = trial.run(&open)?;
        eprintln!("{:?} {} {solved} {:?} {:?}", SHAPES[turn], self.cells[turn] as usize, began.elapsed(), trial.found.as_ref().map(Decisions::time));
        self.cells[turn] = (self.cells[turn] * if solved { 1.2 } else { 0.75 }).max(FEWEST);
        Ok(trial.found)
    }
}

/// One neighbourhood.
struct Trial<'t, 'a> {
    program: &'t Program<'a>,
    best: &'t Decisions,
    capacity: i64,
    deadline: Option<Instant>,
    found: Option<Decisions>,
}

impl Trial<'_, '_> {
    /// Solves the model with memory rows as they are violated; whether it was solved within the limits.
    fn run(&mut self, open: &Neighbourhood<'_>) -> Result<bool, MethodError> {
        let program = self.program;
        let mut formulation = Formulation::within(&program.problem, self.capacity, open);
        let mut session: Box<dyn Session> = match program.solver.supports(Capability::Sessions) {
            Ok(()) => program.solver.session(&formulation.layout.model).map_err(|error| failed(&error))?,
            Err(_) => Box::new(Anew::new(program.solver, formulation.layout.model.clone())),
        };
        let mut relaxed = true;
        loop {
            let outcome = self.ask(session.as_mut(), &formulation, relaxed)?;
            let Some(values) = &outcome.incumbent else { return Ok(outcome.stop == Stop::Infeasible) };
            if !relaxed {
                self.take(&formulation, values);
            }
            if !matches!(outcome.stop, Stop::Optimal | Stop::GapReached) {
                return Ok(false);
            }
            let bound = outcome.dual_bound.map_or(0.0, |bound| bound * formulation.layout.scale.time);
            if bound > self.best.time() as f64 - 1.0 {
                return Ok(true);
            }
            let before = formulation.layout.model.rows.len();
            if formulation.add_worst(values, ALIKE) > 0 {
                session.add_rows(&formulation.rows_from(before)).map_err(|error| failed(&error))?;
            } else if relaxed {
                relaxed = false;
            } else {
                return Ok(true);
            }
        }
    }

    fn ask(
        &self,
        session: &mut dyn Session,
        formulation: &Formulation<'_>,
        relaxed: bool,
    ) -> Result<Outcome, MethodError> {
        let start = (!relaxed).then(|| formulation.vector(self.best));
        let mut request = Request {
            time: self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
            relaxation: relaxed,
            start: start.as_deref(),
            absolute_gap: self.best.time() as f64 * 2e-5 / formulation.layout.scale.time,
            relative_gap: 0.0,
            nodes: Some(NODES),
            threads: 1,
            ..self.program.request(1)
        };
        session.solve(&mut request).map_err(|error| failed(&error))
    }

    /// Keeps what a vector comes to if it is better.
    fn take(&mut self, formulation: &Formulation<'_>, values: &[f64]) {
        let kept = formulation.kept(values, 0.5);
        let best = self.found.as_ref().map_or_else(|| self.best.time(), Decisions::time);
        let found = Decisions::complete(&self.program.problem, kept, self.capacity);
        self.found = found.filter(|found| found.peak() <= self.capacity && found.time() < best).or(self.found.take());
    }
}
