//! From an instance and budgets to answers: which strategy is followed, what is known on the way, and what is said
//! of it in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remat_core::simulate;
use remat_solvers::{Backend, Request, SolverError, Stop, backend};

use crate::method::report::Progress;
use crate::method::{Answer, Claimed, Context, MethodError, Termination};
use crate::monet::board::Board;
use crate::monet::decisions::Decisions;
use crate::monet::explore::Explorer;
use crate::monet::formulation::Formulation;
use crate::monet::problem::{Modes, Problem, Rules};
use crate::monet::refine::Refinement;

/// Part of the time that is the solver's tolerance: a bound so close proves an optimum.
const TOLERANCE: f64 = 1e-6;

/// Stages times nodes up to which the exact model gets half of the time.
const SMALL: usize = 20_000;

/// What every method of MONeT has at hand.
pub struct Program<'a> {
    pub(super) context: &'a Context<'a>,
    /// The problem.
    pub problem: Arc<Problem>,
    pub(super) solver: &'static dyn Backend,
    /// Relative gap at which to stop.
    gap: f64,
    /// Whether schedules are looked for.
    pub(super) schedules: bool,
    deadline: Option<Instant>,
}

/// The best that is known of one budget.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The best decisions.
    pub best: Option<Decisions>,
    /// Proved lower bound on the time, in the problem's unit.
    pub bound: i64,
    /// Whether no decisions meet the budget, proved.
    pub infeasible: bool,
    /// Words for the reader.
    pub note: String,
    /// The same for all threads.
    pub board: Arc<Board>,
}

impl Known {
    /// Takes note of what other threads have found.
    pub(super) fn heed(&mut self) {
        self.best = self.board.best().or(self.best.take());
    }
}

impl<'a> Program<'a> {
    /// Derives the problem.
    ///
    /// # Errors
    /// The instance has no such view, or the solver is not built in.
    pub fn new(context: &'a Context<'a>, schedules: bool) -> Result<Self, MethodError> {
        let problem = Arc::new(Problem::new(context.instance, modes(context), rules(context))?);
        let solver = backend(context.parameters.word("solver"))
            .map_err(|error| MethodError::Parameter { name: "solver", message: error.to_string() })?;
        let ppm = if schedules { context.parameters.integer("gap-ppm") } else { None };
        let gap = ppm.unwrap_or(0) as f64 * 1e-6;
        Ok(Self { context, problem, solver, gap, schedules, deadline: None })
    }

    /// The same with the clock of one budget, which starts now.
    #[must_use]
    pub fn started(&self) -> Self {
        let deadline = self.context.limits.time.map(|time| Instant::now() + time);
        Self { problem: Arc::clone(&self.problem), deadline, ..*self }
    }

    /// Time left.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The seed.
    pub(super) fn seed(&self) -> u64 {
        self.context.limits.seed
    }

    pub(super) fn request(&self) -> Request<'_> {
        let limits = self.context.limits;
        let time = self.left();
        let threads = limits.threads.saturating_sub(self.explorers()).max(1);
        Request { time, relative_gap: self.gap, threads, seed: limits.seed, ..Request::default() }
    }

    /// Whether what is known is good enough.
    pub(super) fn enough(&self, known: &Known) -> bool {
        known.best.as_ref().is_some_and(|best| self.is_close(best.time(), known.bound))
    }

    /// Whether a time is close enough to a bound.
    pub(super) fn is_close(&self, time: i64, bound: i64) -> bool {
        (time - bound) as f64 <= self.gap.max(TOLERANCE) * time as f64
    }

    /// Threads that look for schedules while another finds bounds; none where what is found must not depend on
    /// who is first.
    pub(super) fn explorers(&self) -> usize {
        let coarse = self.schedules && self.context.parameters.word("strategy") == "coarse";
        if coarse && self.deadline.is_some() { self.context.limits.threads.saturating_sub(1) } else { 0 }
    }

    /// Solves one budget.
    ///
    /// # Errors
    /// The solver refuses, or a schedule is not legal: a slip of the method.
    pub fn solve(&self, index: usize) -> Result<Answer, MethodError> {
        let began = Instant::now();
        let budget = self.context.budgets[index];
        let capacity = self.capacity_of(index);
        let mut known = Known { bound: self.problem.least_time(), ..Known::default() };
        known.board.raise(known.bound);
        let store_all = Decisions::store_all(&self.problem, capacity);
        if let Some(found) = store_all {
            self.take(index, capacity, &mut known, found)?;
        }
        if self.enough(&known) {
            known.note = "nothing recomputed; no solver asked".into();
            return Ok(self.answer(budget, &known, began.elapsed(), Duration::ZERO, None));
        }
        let board = Arc::clone(&known.board);
        std::thread::scope(|scope| {
            let explorer = |part| {
                let (board, explorer) = (&board, Explorer::new(self.seed(), part));
                scope.spawn(move || explorer.run(self, index, capacity, board))
            };
            let explorers: Vec<_> = (1..=self.explorers()).map(explorer).collect();
            let answer = self.search(index, capacity, &mut known, began);
            board.finish();
            for explorer in explorers {
                explorer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            answer
        })
    }

    /// Whether the exact model can be solved.
    pub(super) fn is_small(&self) -> bool {
        self.problem.stages.len() * self.problem.nodes.len() <= SMALL
    }

    /// Solves one budget that is not trivial.
    fn search(&self, index: usize, capacity: i64, known: &mut Known, began: Instant) -> Result<Answer, MethodError> {
        let budget = self.context.budgets[index];
        let strategy = self.context.parameters.word("strategy");
        if strategy == "coarse" {
            let left = self.left();
            // Where the exact model can be solved it gets half of the time.
            let small = self.is_small();
            let time = if small { left.map(|left| left / 2) } else { left };
            let stop = Refinement::new(self, known, index, time).run()?;
            let open = matches!(stop, None | Some(Stop::TimeLimit)) && self.left().is_none_or(|left| !left.is_zero());
            if !(open && (small || stop.is_none())) {
                return Ok(self.answer(budget, known, Duration::ZERO, began.elapsed(), stop));
            }
        }
        let mut formulation = Formulation::new(&self.problem, capacity);
        let build = began.elapsed();
        let stop = if strategy == "plain" {
            formulation.add_all();
            self.exactly(index, &mut formulation, known)?
        } else {
            self.lazily(index, &mut formulation, known)?
        };
        let solve = began.elapsed().saturating_sub(build);
        Ok(self.answer(budget, known, build, solve, stop))
    }

    /// Bounds one budget.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn bound_only(&self, index: usize) -> Result<Answer, MethodError> {
        let began = Instant::now();
        let budget = self.context.budgets[index];
        let mut formulation = Formulation::new(&self.problem, self.capacity_of(index));
        formulation.add_first();
        let mut known = Known { bound: self.problem.least_time(), ..Known::default() };
        let build = began.elapsed();
        let stop = self.relax(index, &mut formulation, &mut known)?;
        Ok(self.answer(budget, &known, build, began.elapsed().saturating_sub(build), stop))
    }

    /// A budget in the problem's unit; where there is none, more than anything can need.
    pub(super) fn capacity_of(&self, index: usize) -> i64 {
        let budget = self.context.budgets[index];
        let instance = self.context.instance;
        let tensors: u64 = instance.tensors().iter().map(|tensor| tensor.bytes).sum();
        let ways = instance.operators().iter().flat_map(|operator| &operator.implementations);
        let workspace = ways.map(|way| way.workspace_bytes).max().unwrap_or(0);
        // Local sets may count a tensor beside its copy that is kept.
        let everything = instance.fixed_bytes().saturating_add(tensors).saturating_add(workspace).saturating_mul(4);
        let unlimited = Some(everything.min(1 << 60));
        self.problem.capacity(budget.or(unlimited)).unwrap_or(i64::MAX / 4)
    }

    /// Keeps decisions that are better than what is known and whose schedule meets the budget.
    pub(super) fn take(
        &self,
        index: usize,
        capacity: i64,
        known: &mut Known,
        found: Decisions,
    ) -> Result<bool, MethodError> {
        let better = known.best.as_ref().is_none_or(|best| found.time() < best.time());
        if found.peak() > capacity || !better {
            return Ok(false);
        }
        let over = self.offer(index, &known.board, &found)?;
        if over > 0 {
            known.note =
                format!("a solution of {} was rejected: simulated, it is {over} over the budget", found.time());
            return Ok(false);
        }
        known.best = Some(found);
        known.heed();
        Ok(true)
    }

    /// Offers decisions to all threads, and reports them if they are the best; by how much their schedule exceeds
    /// the budget.
    pub(super) fn offer(&self, index: usize, board: &Board, found: &Decisions) -> Result<u64, MethodError> {
        let schedule = found.schedule(self.context.instance, &self.problem);
        let simulation =
            simulate(self.context.instance, &schedule).map_err(|error| MethodError::Internal(error.to_string()))?;
        let over = self.context.budgets[index].map_or(0, |budget| simulation.peak_bytes.saturating_sub(budget));
        if over == 0 && board.offer(found) {
            let claimed = claimed(&self.problem, found);
            self.context.reporter.report(index, Progress::incumbent(schedule, claimed));
            if self.is_close(found.time(), board.bound()) {
                board.finish();
            }
        }
        Ok(over)
    }

    pub(super) fn raise(&self, index: usize, known: &mut Known, bound: i64) {
        if bound > known.bound {
            known.bound = bound;
            known.board.raise(bound);
            self.report_bound(index, bound);
        }
    }

    pub(super) fn report_bound(&self, index: usize, bound: i64) {
        let progress = Progress { lower_bound: self.bound(bound), ..Progress::default() };
        self.context.reporter.report(index, progress.after(bound.unsigned_abs()));
    }

    /// The bound in the instance's unit. As released, times are rounded up one by one, which a bound on
    /// their sum does not undo: there it is none.
    fn bound(&self, bound: i64) -> Option<u64> {
        (!self.problem.rules.released).then(|| u64::try_from(bound).unwrap_or(0))
    }

    fn answer(
        &self,
        budget: Option<u64>,
        known: &Known,
        build: Duration,
        solve: Duration,
        stop: Option<Stop>,
    ) -> Answer {
        let proved = known.best.as_ref().is_some_and(|best| best.time() <= known.bound);
        let termination = match (&known.best, stop) {
            (Some(_), _) if proved => Termination::Optimal,
            (Some(_), _) if self.gap > 0.0 && self.enough(known) => Termination::GapReached,
            (Some(_), Some(Stop::Optimal)) => Termination::Optimal,
            (None, _) if known.infeasible => Termination::Infeasible,
            (_, Some(Stop::TimeLimit)) => Termination::TimeLimit,
            (_, Some(Stop::MemoryLimit)) => Termination::MemoryLimit,
            (_, Some(Stop::NodeLimit)) => Termination::NodeLimit,
            (_, Some(Stop::Interrupted)) => Termination::Interrupted,
            (_, Some(Stop::Error | Stop::Unbounded)) => Termination::Error,
            (Some(_), _) => Termination::Feasible,
            (None, _) => Termination::NotFound,
        };
        let objective = known.best.as_ref().map_or("none".into(), |best| best.time().to_string());
        let words = format!("objective {objective}, bound {}; {}", known.bound, known.note);
        let schedule = known.best.as_ref().map(|best| best.schedule(self.context.instance, &self.problem));
        Answer {
            budget,
            termination,
            schedule,
            claimed: known.best.as_ref().map(|best| claimed(&self.problem, best)),
            lower_bound: if known.infeasible { None } else { self.bound(known.bound) },
            build,
            solve,
            note: words,
        }
    }
}

/// What the program says of decisions; as released, its sizes are counted up and so is the time.
pub(super) fn claimed(problem: &Problem, decisions: &Decisions) -> Claimed {
    let whole = |value: i64, unit: u64| u64::try_from(value).unwrap_or(0).saturating_mul(unit);
    Claimed {
        time: whole(decisions.time(), problem.rules.time_unit()),
        peak_bytes: whole(decisions.peak(), problem.rules.byte_unit()),
    }
}

/// A bound of the model as a whole number of the problem's units.
pub(super) fn whole_bound(formulation: &Formulation<'_>, bound: f64) -> i64 {
    let unscaled = bound * formulation.layout.scale.time;
    if !unscaled.is_finite() {
        return 0;
    }
    // Times are whole; what is left is the rounding of this product and of the scaled costs.
    let certain = (unscaled - 1e-9 * unscaled.abs() - 1e-6 * formulation.layout.scale.time).ceil().max(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "not negative, and below any sum of times")]
    let certain = certain as i64;
    certain
}

/// A solver that refuses is a slip of the method or of its parameters.
pub(super) fn failed(error: &SolverError) -> MethodError {
    MethodError::Internal(error.to_string())
}

/// The switches.
pub fn modes(context: &Context<'_>) -> Modes {
    let word = context.parameters.word("modes");
    Modes {
        algorithms: matches!(word, "conv" | "all"),
        outputs: matches!(word, "output-activated" | "all"),
        intermediates: matches!(word, "intermediate-activated" | "all"),
        in_place: context.parameters.word("in-place") == "on",
        recompute: context.parameters.word("recompute") == "on",
    }
}

/// How things are counted.
pub fn rules(context: &Context<'_>) -> Rules {
    let released = context.parameters.word("rules") == "as-released";
    Rules { released, tight_local: !released && context.parameters.word("local") == "dot" }
}
