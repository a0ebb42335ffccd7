//! Large neighbourhood search: the exact model of a part of the best schedule is solved, again and again.
//!
//! A neighbourhood ([`Neighbourhood`]) that is solved within its limits grows next time, one that is not shrinks, each
//! shape for itself. Deterministic for a seed as long as time does not run out.

use std::time::{Duration, Instant};

use remat_solvers::{Anew, Capability, Outcome, Request, Session, Stop};

use crate::method::MethodError;
use crate::monet::board::Board;
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
const TIME: Duration = Duration::from_secs(3);
/// So many violated rows of either kind are taken from a stage at a time.
const ALIKE: usize = 3;

const ARMS: [(Shape, f64); 6] = [(Shape::Nodes, 0.0), (Shape::Both, 1.0), (Shape::Stages, 0.0), (Shape::Nodes, 1.0), (Shape::Both, 0.0), (Shape::Stages, 1.0)];

/// Searches neighbourhoods of the best decisions until nothing more is wanted.
///
/// # Errors
/// The solver refuses.
pub fn explore(
    program: &Program<'_>,
    index: usize,
    capacity: i64,
    board: &Board,
    part: usize,
) -> Result<(), MethodError> {
    let mut explorer = Explorer::new(program.seed() + part as u64);
    while let Some(best) = board.wait() {
        let found = explorer.step(program, &best, capacity, board, Some(TIME))?;
        if let Some(found) = found {
            program.offer(index, board, &found)?;
        }
        let best = board.better_than(None);
        if best.is_some_and(|best| program.is_close(best.time(), board.bound())) {
            board.finish();
        }
    }
    Ok(())
}

/// Where a search over neighbourhoods stands.
pub struct Explorer {
    random: Random,
    /// Open cells, by shape.
    cells: [f64; ARMS.len()],
    /// Tries and successes, by shape.
    score: [(u32, u32); ARMS.len()],
}

impl Explorer {
    /// A search that has not begun.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::part(seed, 1), cells: [CELLS; ARMS.len()], score: [(0, 0); ARMS.len()] }
    }

    /// The next shape, drawn by how often each has succeeded.
    fn turn(&mut self) -> usize {
        let weights = self.score.map(|(tries, successes)| f64::from(successes + 1) / f64::from(tries + 2));
        let mut drawn = self.random.unit() * weights.iter().sum::<f64>();
        let of = |weight: &f64| {
            drawn -= weight;
            drawn < 0.0
        };
        weights.iter().position(of).unwrap_or(0)
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
        board: &Board,
        time: Option<Duration>,
    ) -> Result<Option<Decisions>, MethodError> {
        let turn = self.turn();
        let open = Neighbourhood::draw(&program.problem, best, ARMS[turn].0, ARMS[turn].1, self.cells[turn] as usize, &mut self.random);
        let began = Instant::now();
        let mut trial = Trial { program, best, capacity, board, deadline: time.map(|time| began + time.min(TIME)), found: None, words: String::new(), nodes: 0 };
        let solved = trial.run(&open)?;
        self.score[turn].0 += 1;
        self.score[turn].1 += u32::from(trial.found.is_some());
        let factor = match trial.nodes {
            _ if !solved => 0.7,
            0..2 => 1.5,
            _ => 1.15,
        };
        eprintln!("{:?} {} {} {solved} {:?} {:?} {}", ARMS[turn].0, ARMS[turn].1, self.cells[turn] as usize, began.elapsed(), trial.found.as_ref().map(Decisions::time), trial.words);
        self.cells[turn] = (self.cells[turn] * factor).max(FEWEST);
        Ok(trial.found)
    }
}

/// One neighbourhood.
struct Trial<'t, 'a> {
    program: &'t Program<'a>,
    best: &'t Decisions,
    capacity: i64,
    board: &'t Board,
    deadline: Option<Instant>,
    found: Option<Decisions>,
    words: String,
    nodes: u64,
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
            let t0 = Instant::now();
            let outcome = self.ask(session.as_mut(), &formulation, relaxed)?;
            use std::fmt::Write;
            let _ = write!(self.words, " {}{}x{}:{:.2}={:.0}", if relaxed {"L"} else {"M"}, formulation.layout.model.columns(), formulation.layout.model.rows.len(), t0.elapsed().as_secs_f64(), outcome.dual_bound.unwrap_or(0.0) * formulation.layout.scale.time);
            self.nodes = self.nodes.max(outcome.nodes.unwrap_or(0));
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
            interrupt: Some(&self.board.done),
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
