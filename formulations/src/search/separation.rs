//! Rows as they are violated: a model is solved, first without integrality and then with it; what its solution
//! violates is added, until nothing is.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use remat_solvers::{Backend, Counting, Model, Outcome, Progress, Request, RowBlock, Session, SolverError, Stop};

use crate::method::{Context, MethodError};
use crate::search::clock::Clock;
use crate::search::incumbent::certain_bound;
use crate::search::term::Scale;
use crate::setting;

/// Rows are not worth a further solve without integrality if the bound rose by less than so much of the gap in so many solves.
const LITTLE: (f64, usize) = (0.1, 3);

/// After so many solves of linear programs twice as many rows are taken at a time, and at most so often.
const DOUBLED: usize = 6;
const MOST_DOUBLED: usize = 6;

/// Which model is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Without integrality.
    Relaxed,
    /// With it.
    Whole,
}

/// A model of schedules that lacks rows.
pub trait Relaxation {
    /// The model, with the rows so far.
    fn model(&self) -> &Model;
    /// Time of which the model's objective knows nothing.
    fn fixed_time(&self) -> u64;
    /// How times are scaled in the objective.
    fn scale(&self) -> Scale;
    /// Adds the worst of the rows that a point of a pass violates, so many times the usual number, to the model too; returns
    /// what was added.
    fn separate(&mut self, point: &[f64], pass: Pass, times: usize) -> RowBlock;
    /// Adds all rows that can bind, where they would be added as they are violated.
    fn complete(&mut self) {}
    /// Rows of memory of its model, and of each the stage that it is about; nothing where blocks are not split by them.
    fn memory_rows(&self) -> &[(usize, usize)] {
        &[]
    }

    /// The bound on the time that a bound on the objective proves.
    fn bound(&self, objective: f64) -> u64 {
        let Scale { time, longest, .. } = self.scale();
        certain_bound(self.fixed_time() as f64 + objective * time, longest)
    }
}

setting! {
    /// the solver; cbc only where it is installed, cbc-linked only where bench was built with it
    pub enum Solver("solver") = Highs { Highs = "highs", Cbc = "cbc", CbcLinked = "cbc-linked", Microlp = "microlp" }
}

/// A solver and what it may use.
#[derive(Clone, Copy)]
pub struct Solving {
    /// The solver.
    pub solver: &'static dyn Backend,
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
}

impl Solving {
    /// The solver of a method's parameters, within its limits.
    ///
    /// # Errors
    /// It is not built in.
    pub fn new(context: &Context<'_>) -> Result<Self, MethodError> {
        let limits = context.limits;
        let solver = remat_solvers::backend(context.parameters.get::<Solver>().word())
            .map_err(|error| MethodError::Parameter { name: "solver", message: error.to_string() })?;
        Ok(Self { solver, threads: limits.threads, seed: limits.seed })
    }

    /// A request within these limits.
    pub fn request<'r>(&self, clock: &Clock) -> Request<'r> {
        Request { time: clock.left(), threads: self.threads, seed: self.seed, ..Request::default() }
    }

    /// A session with a model.
    ///
    /// # Errors
    /// The solver refuses it.
    pub fn session(&self, model: &Model) -> Result<Counting, MethodError> {
        Ok(Counting::new(self.solver, model)?)
    }
}

/// A solver that refuses is a slip of the method or of its parameters.
impl From<SolverError> for MethodError {
    fn from(error: SolverError) -> Self {
        Self::Internal(error.to_string())
    }
}

/// Follows a separation.
pub trait Follower<R> {
    /// The gap, in units of time, below which it is not worth solving further.
    fn gap(&self) -> f64;
    /// A time beyond which nothing is of interest.
    fn cutoff(&self) -> Option<u64> {
        None
    }
    /// A point to start from.
    fn start(&self, relaxation: &R) -> Option<Vec<f64>>;
    /// Hears of a bound or a whole point while the solver works; `Break` stops it. What goes wrong is kept for
    /// [`Self::solved`].
    fn hear(&mut self, relaxation: &R, event: &Progress<'_>) -> ControlFlow<()>;
    /// Hears of the end of one solve; `Break` ends the separation.
    ///
    /// # Errors
    /// A solution is not what the method says of it.
    fn solved(&mut self, relaxation: &R, outcome: &Outcome, pass: Pass) -> Result<ControlFlow<()>, MethodError>;
}

/// What a separation may use.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Time.
    pub clock: Clock,
    /// Branch-and-bound nodes of one solve.
    pub nodes: Option<u64>,
    /// The first pass.
    pub from: Pass,
    /// The last pass.
    pub until: Pass,
    /// Stops the solver when it is set.
    pub interrupt: Option<&'a AtomicBool>,
}

/// How a separation ended.
pub struct Separated {
    /// The outcome of the last solve.
    pub outcome: Outcome,
    /// Number of solves.
    pub solves: usize,
    /// Time of all solves, as far as the solver kept its limits.
    pub solving: Duration,
}

/// Whether the last solves raised the bound by little of a gap that is not worth closing.
fn tails_off(bounds: &[f64], gap: f64) -> bool {
    let (part, solves) = LITTLE;
    let before = bounds.iter().rev().nth(solves);
    bounds.last().zip(before).is_some_and(|(last, before)| last - before < part * gap)
}

/// How many times the usual number of rows are taken after so many solves, where linear programs are all that is solved.
pub fn times(solves: usize) -> usize {
    1 << (solves / DOUBLED).min(MOST_DOUBLED)
}

/// Solves a model and adds rows until its solution violates none.
///
/// # Errors
/// The solver refuses.
pub fn separate<R: Relaxation>(
    solving: &Solving,
    relaxation: &mut R,
    terms: Terms<'_>,
    follower: &mut dyn Follower<R>,
) -> Result<Separated, MethodError> {
    let mut session = solving.session(relaxation.model())?;
    let mut pass = terms.from;
    let mut solves = 0;
    let mut spent = Duration::ZERO;
    let mut bounds = Vec::new();
    loop {
        solves += 1;
        let start = if pass == Pass::Whole { follower.start(relaxation) } else { None };
        let unit = relaxation.scale().time;
        let gap = follower.gap() / unit;
        let cutoff = follower.cutoff().map(|time| (time as f64 - relaxation.fixed_time() as f64) / unit);
        let now = &*relaxation;
        let mut observer = |event: &Progress<'_>| match pass {
            Pass::Relaxed => ControlFlow::Continue(()),
            Pass::Whole => follower.hear(now, event),
        };
        let request = Request {
            relaxation: pass == Pass::Relaxed,
            cutoff,
            start: start.as_deref().filter(|start| !start.is_empty()),
            interrupt: terms.interrupt,
            absolute_gap: gap,
            nodes: terms.nodes,
            ..solving.request(&terms.clock)
        };
        let granted = request.time.unwrap_or(Duration::MAX);
        let outcome = session.solve(&request, Some(&mut observer))?;
        spent += Duration::from_secs_f64(outcome.solve_seconds).min(granted);
        let ended = |outcome| Ok(Separated { outcome, solves, solving: spent });
        if outcome.stop == Stop::Infeasible {
            return ended(outcome);
        }
        let over = follower.solved(relaxation, &outcome, pass)?.is_break();
        let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
        let Some(point) = outcome.incumbent.as_ref().filter(|_| solved && !over) else {
            return ended(outcome);
        };
        bounds.extend(outcome.dual_bound);
        // Then only rows that whole points violate are added.
        let enough = pass != terms.until && tails_off(&bounds, gap);
        // Rows for linear programs alone hamper no branch and bound.
        let times = if terms.until == Pass::Relaxed { times(solves) } else { 1 };
        let rows = relaxation.separate(point, if enough { terms.until } else { pass }, times);
        if rows.is_empty() && pass == terms.until {
            return ended(outcome);
        }
        if terms.clock.is_over() {
            return ended(Outcome { stop: Stop::TimeLimit, ..outcome });
        }
        if rows.is_empty() {
            pass = Pass::Whole;
        } else {
            session.add_rows(&rows)?;
        }
    }
}
