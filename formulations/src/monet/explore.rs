//! Large neighbourhood search: the exact model of a part of the best schedule is solved, again and again.
//!
//! A neighbourhood ([`Neighbourhood`]) has one of six shapes and a number of open cells. Each kind has a number of
//! its own, which grows while its models are solved and shrinks where they are not; kinds are drawn by how often
//! they were of use. Several threads may search at once: what one finds is carried over to what another has found
//! meanwhile. Deterministic for a seed with one thread, as long as no time runs out.

use std::time::{Duration, Instant};

use remat_solvers::{Anew, Capability, Outcome, Request, Session, Stop};

use crate::method::MethodError;
use crate::monet::board::Board;
use crate::monet::decisions::Decisions;
use crate::monet::formulation::Formulation;
use crate::monet::neighbourhood::{Around, Neighbourhood, Shape};
use crate::monet::problem::Problem;
use crate::monet::program::{Program, failed};
use crate::random::Random;

/// Open cells of the first neighbourhoods.
const CELLS: f64 = 400.0;
/// Fewest.
const FEWEST: f64 = 20.0;
/// Branch-and-bound nodes of one solve.
const NODES: u64 = 300;
/// Wall time of one neighbourhood at first; as much again after every so many that were of no use.
const TIME: Duration = Duration::from_secs(3);
/// So many that were of no use.
const PATIENCE: u32 = 40;
/// So many rows of either kind that a relaxation violates are taken from a stage at a time; all that a whole solution
/// does.
const ALIKE: usize = 3;
/// Rows with less room than this part of the capacity, if all ran that may, are given to branch and bound.
const NEAR: f64 = 0.2;

/// A kind of neighbourhoods, and how it has done.
#[derive(Clone, Copy, Debug)]
struct Kind {
    shape: Shape,
    /// Part of the stages where something may run though nothing does now.
    heads: f64,
    /// Open cells of the next one.
    cells: f64,
    tries: u32,
    successes: u32,
}

impl Kind {
    fn new(shape: Shape, heads: f64) -> Self {
        Self { shape, heads, cells: CELLS, tries: 0, successes: 0 }
    }
}

/// A search over neighbourhoods.
pub struct Explorer {
    random: Random,
    kinds: Vec<Kind>,
    /// Neighbourhoods since one was of use.
    useless: u32,
}

impl Explorer {
    /// A search that has not begun.
    pub fn new(seed: u64, part: usize) -> Self {
        let shapes = [Shape::Nodes, Shape::Stages, Shape::Both, Shape::Pair, Shape::Near, Shape::Towards];
        let kinds = shapes.into_iter().flat_map(|shape| [Kind::new(shape, 0.0), Kind::new(shape, 1.0)]);
        Self { random: Random::part(seed, 1 + part as u64), kinds: kinds.collect(), useless: 0 }
    }

    /// Searches until nothing more is wanted.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn run(mut self, program: &Program<'_>, index: usize, capacity: i64, board: &Board) -> Result<(), MethodError> {
        while let Some(best) = board.wait() {
            self.step(program, index, capacity, board, &best, Some(Duration::MAX))?;
        }
        Ok(())
    }

    /// Tries one neighbourhood of some decisions and offers what it finds.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn step(
        &mut self,
        program: &Program<'_>,
        index: usize,
        capacity: i64,
        board: &Board,
        best: &Decisions,
        left: Option<Duration>,
    ) -> Result<(), MethodError> {
        let guide = board.guided();
        let at = self.draw(guide.is_some());
        let Kind { shape, heads, cells, .. } = self.kinds[at];
        let around = Around { best, guide: guide.as_ref() };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and a count of cells")]
        let open = Neighbourhood::draw(&program.problem, around, shape, heads, cells as usize, &mut self.random);
        let patience = TIME * (1 + self.useless / PATIENCE);
        let deadline = left.map(|left| Instant::now() + left.min(patience));
        let mut trial = Trial { program, best, capacity, board, deadline, found: None, nodes: 0 };
        let solved = trial.run(&open)?;
        let factor = match trial.nodes {
            _ if !solved => 0.7,
            // At the root.
            0..2 => 1.5,
            _ => 1.15,
        };
        let kind = &mut self.kinds[at];
        kind.cells = (kind.cells * factor).max(FEWEST);
        kind.tries += 1;
        self.useless += 1;
        let Some(found) = trial.found else { return Ok(()) };
        kind.successes += 1;
        self.useless = 0;
        let carried = board.best().and_then(|now| carry(&program.problem, best, &found, &now, capacity));
        for found in carried.iter().chain([&found]) {
            program.offer(index, board, found)?;
        }
        Ok(())
    }

    /// The next kind, drawn by how often each was of use.
    fn draw(&mut self, guided: bool) -> usize {
        let usable = |kind: &Kind| guided || kind.shape != Shape::Towards;
        let weight =
            |kind: &Kind| f64::from(u8::from(usable(kind))) * f64::from(kind.successes + 1) / f64::from(kind.tries + 2);
        let mut drawn = self.random.unit() * self.kinds.iter().map(weight).sum::<f64>();
        let reached = |kind: &Kind| {
            drawn -= weight(kind);
            drawn < 0.0
        };
        self.kinds.iter().position(reached).unwrap_or(0)
    }
}

/// What was changed on the way from some decisions to better ones, changed in others too; none where that exceeds the
/// capacity or leads to nothing better.
pub fn carry(
    problem: &Problem,
    from: &Decisions,
    to: &Decisions,
    other: &Decisions,
    capacity: i64,
) -> Option<Decisions> {
    let mut kept = other.kept.clone();
    for (stage, row) in kept.iter_mut().enumerate() {
        for (node, there) in row.iter_mut().enumerate() {
            if from.kept[stage][node] != to.kept[stage][node] {
                *there = to.kept[stage][node];
            }
        }
    }
    let carried = Decisions::complete(problem, kept, capacity)?;
    (carried.peak() <= capacity && carried.time() < other.time().min(to.time())).then_some(carried)
}

/// One neighbourhood.
struct Trial<'t, 'a> {
    program: &'t Program<'a>,
    best: &'t Decisions,
    capacity: i64,
    board: &'t Board,
    deadline: Option<Instant>,
    found: Option<Decisions>,
    nodes: u64,
}

impl Trial<'_, '_> {
    /// Solves the model with memory rows as they are violated; whether it was solved within the limits.
    fn run(&mut self, open: &Neighbourhood<'_>) -> Result<bool, MethodError> {
        let program = self.program;
        let mut formulation = Formulation::within(&program.problem, self.capacity, open);
        if formulation.layout.model.columns() == 0 {
            return Ok(true);
        }
        let mut session: Box<dyn Session> = match program.solver.supports(Capability::Sessions) {
            Ok(()) => program.solver.session(&formulation.layout.model).map_err(|error| failed(&error))?,
            Err(_) => Box::new(Anew::new(program.solver, formulation.layout.model.clone())),
        };
        let mut relaxed = true;
        loop {
            let outcome = self.ask(session.as_mut(), &formulation, relaxed)?;
            self.nodes = self.nodes.max(outcome.nodes.unwrap_or(0));
            let Some(values) = &outcome.incumbent else { return Ok(false) };
            if !relaxed {
                self.take(&formulation, values);
            }
            if !matches!(outcome.stop, Stop::Optimal | Stop::GapReached) {
                return Ok(false);
            }
            let bound = outcome.dual_bound.map_or(0.0, |bound| bound * formulation.layout.scale.time);
            if bound > self.best.time() as f64 - 1.0 {
                // Nothing better here.
                return Ok(true);
            }
            let before = formulation.layout.model.rows.len();
            let violated = formulation.add_worst(values, if relaxed { ALIKE } else { usize::MAX });
            if violated == 0 && !relaxed {
                return Ok(true);
            }
            // Each whole solve may take a second, and seldom is it the last where these rows are not there.
            if !relaxed || (violated == 0 && program.is_small()) {
                formulation.add_near(values, NEAR);
            }
            relaxed &= violated > 0;
            session.add_rows(&formulation.rows_from(before)).map_err(|error| failed(&error))?;
        }
    }

    fn ask(
        &self,
        session: &mut dyn Session,
        formulation: &Formulation<'_>,
        relaxed: bool,
    ) -> Result<Outcome, MethodError> {
        let start = (!relaxed).then(|| formulation.vector(self.best));
        // A fiftieth of what is to be gained at all.
        let gap = (self.best.time() - self.board.bound()).max(0) as f64 / 50.0;
        let mut request = Request {
            time: self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
            relaxation: relaxed,
            start: start.as_deref(),
            interrupt: Some(&self.board.done),
            absolute_gap: gap / formulation.layout.scale.time,
            relative_gap: 0.0,
            nodes: Some(NODES),
            threads: 1,
            ..self.program.request()
        };
        session.solve(&mut request).map_err(|error| failed(&error))
    }

    /// Keeps what a vector comes to if it is better.
    fn take(&mut self, formulation: &Formulation<'_>, values: &[f64]) {
        let kept = formulation.kept(values, 0.5);
        let best = self.found.as_ref().unwrap_or(self.best).time();
        let found = Decisions::complete(&self.program.problem, kept, self.capacity);
        self.found = found.filter(|found| found.peak() <= self.capacity && found.time() < best).or(self.found.take());
    }
}
