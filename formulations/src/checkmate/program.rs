//! From an instance and budgets to answers: builds the model that a strategy asks for, has it solved,
//! reads the stages back, and says what is claimed of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_solvers::{Anew, Backend, Capability, Model, Outcome, Request, Session, SolverError, Stop, backend};

use crate::checkmate::compact::{Compact, Rows};
use crate::checkmate::joint::Joint;
use crate::checkmate::plain::Plain;
use crate::checkmate::stages::Stages;
use crate::method::{Answer, Context, MethodError, Termination};
use crate::parameters::{ParameterKind, ParameterSpec};

/// Parameter `workspace`.
pub const WORKSPACE: ParameterSpec = ParameterSpec {
    name: "workspace",
    default: "on",
    kind: ParameterKind::Choice(&["on", "off"]),
    help: "whether an operator's workspace counts; off as published, and such a schedule may exceed its budget",
};

/// Parameter `solver`.
pub const SOLVER: ParameterSpec = ParameterSpec {
    name: "solver",
    default: "highs",
    kind: ParameterKind::Choice(&["highs", "cbc", "microlp"]),
    help: "the solver; cbc only where bench was built with it",
};

/// Distance from a whole number that counts as none.
pub const INTEGRALITY: f64 = 1e-5;

/// What every Checkmate method has at hand.
pub struct Program<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// Its joint graph.
    pub joint: Arc<Joint>,
    /// Whether workspaces count.
    pub workspace: bool,
    /// The solver.
    pub solver: &'static dyn Backend,
    /// Largest relative gap that is left.
    pub gap: f64,
    deadline: Option<Instant>,
    threads: usize,
    seed: u64,
}

/// What became of one budget, before it is an answer.
pub struct Found {
    /// Why it stopped.
    pub termination: Termination,
    /// The best stages.
    pub stages: Option<Stages>,
    /// Proved lower bound on the time.
    pub lower_bound: Option<u64>,
    /// Seconds of building.
    pub build: Duration,
    /// Seconds of solving.
    pub solve: Duration,
    /// What else to say.
    pub note: String,
}

impl<'a> Program<'a> {
    /// Derives the joint graph.
    ///
    /// # Errors
    /// The instance has none, or the solver is not built in.
    pub fn new(context: &Context<'a>) -> Result<Self, MethodError> {
        let joint = Arc::new(Joint::new(context.instance)?);
        let solver = backend(context.parameters.word("solver"))
            .map_err(|error| MethodError::Parameter { name: "solver", message: error.to_string() })?;
        Ok(Self {
            instance: context.instance,
            joint,
            workspace: context.parameters.word("workspace") == "on",
            solver,
            gap: 0.0,
            deadline: context.limits.time.map(|time| Instant::now() + time),
            threads: context.limits.threads,
            seed: context.limits.seed,
        })
    }

    /// The share of what time is left that one of several budgets may use.
    pub fn share(&self, budgets: usize) -> Option<Duration> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Some(left / u32::try_from(budgets.max(1)).unwrap_or(u32::MAX))
    }

    /// A request with this program's limits.
    pub fn request(&self, time: Option<Duration>) -> Request<'_> {
        Request { time, relative_gap: self.gap, threads: self.threads, seed: self.seed, ..Request::default() }
    }

    /// Time of all first runs.
    pub fn fixed_time(&self) -> u64 {
        self.joint.operators.iter().map(|operator| operator.first.time).sum()
    }

    /// What can be said without a solver: a budget below what one operator needs has no schedule, and
    /// one that store-all meets needs none better.
    pub fn at_once(&self, budget: Option<u64>) -> Option<Found> {
        let found = |termination, stages: Option<Stages>, lower_bound, note: String| Found {
            termination,
            stages,
            lower_bound,
            build: Duration::ZERO,
            solve: Duration::ZERO,
            note,
        };
        let least = self.joint.least_peak(self.workspace);
        if budget.is_some_and(|budget| budget < least) {
            return Some(found(
                Termination::Infeasible,
                None,
                None,
                format!("one operator alone needs {least}; no solver asked"),
            ));
        }
        let store_all = Stages::store_all(&self.joint);
        let peak = store_all.claim(&self.joint, self.workspace).peak_bytes;
        let fits = budget.is_none_or(|budget| peak <= budget);
        fits.then(|| {
            found(
                Termination::Optimal,
                Some(store_all),
                Some(self.fixed_time()),
                "store-all fits; no solver asked".into(),
            )
        })
    }

    /// The bound in the instance's unit that a bound of the model proves.
    pub fn bound(&self, objective: f64, unit: f64) -> u64 {
        let beyond = objective * unit;
        // What the solver's tolerance may have cost, then up to the next whole number.
        let certain = (beyond - 1e-6 * (self.fixed_time() as f64 + beyond).max(1.0)).max(0.0).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and below any sum of times"
        )]
        let certain = certain as u64;
        self.fixed_time().saturating_add(certain)
    }

    /// Turns what was found into an answer.
    pub fn answer(&self, budget: Option<u64>, found: Found) -> Answer {
        let claimed = found.stages.as_ref().map(|stages| stages.claim(&self.joint, self.workspace));
        Answer {
            budget,
            termination: found.termination,
            schedule: found.stages.as_ref().map(|stages| stages.schedule(self.instance, &self.joint)),
            claimed,
            lower_bound: found.lower_bound,
            build: found.build,
            solve: found.solve,
            note: found.note,
        }
    }

    /// Solves one budget exactly.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn optimise(
        &self,
        budget: Option<u64>,
        strategy: &str,
        start: Option<&Stages>,
        time: Option<Duration>,
    ) -> Result<Found, MethodError> {
        if let Some(found) = self.at_once(budget) {
            return Ok(found);
        }
        let began = Instant::now();
        match strategy {
            "plain" => {
                let plain = Plain::new(&self.joint, budget, self.workspace);
                let build = began.elapsed();
                let outcome =
                    self.solver.solve(&plain.model, &mut self.request(time)).map_err(|error| failed(&error))?;
                let stages = outcome.incumbent.as_ref().map(|values| plain.stages(values, INTEGRALITY));
                self.found(budget, &outcome, stages, plain.time_unit(), build, &plain.model)
            }
            "lazy" => self.lazily(budget, start, time),
            _ => {
                let compact = Compact::new(&self.joint, budget, self.workspace, Rows::All);
                let build = began.elapsed();
                let vector = start.map(|stages| compact.vector(stages));
                let mut request = Request { start: vector.as_deref(), ..self.request(time) };
                let outcome = self.solver.solve(&compact.model, &mut request).map_err(|error| failed(&error))?;
                let stages = outcome.incumbent.as_ref().map(|values| compact.stages(values, INTEGRALITY));
                self.found(budget, &outcome, stages, compact.time_unit(), build, &compact.model)
            }
        }
    }

    /// Memory rows as they are violated: first by the relaxation, then by whole solutions.
    fn lazily(
        &self,
        budget: Option<u64>,
        start: Option<&Stages>,
        time: Option<Duration>,
    ) -> Result<Found, MethodError> {
        let began = Instant::now();
        let compact = Compact::new(&self.joint, budget, self.workspace, Rows::Lazy);
        let mut session: Box<dyn Session> = match self.solver.supports(Capability::Sessions) {
            Ok(()) => self.solver.session(&compact.model).map_err(|error| failed(&error))?,
            Err(_) => Box::new(Anew::new(self.solver, compact.model.clone())),
        };
        let build = began.elapsed();
        let vector = start.map(|stages| compact.vector(stages));
        let left = || time.map(|time| time.saturating_sub(began.elapsed()));
        let (mut relaxed, mut rounds, mut added) = (true, 0, 0);
        // Fewer rows, a lower optimum: every bound on the way is one.
        let mut proved: Option<f64> = None;
        loop {
            let vector = vector.as_deref().filter(|_| !relaxed);
            let mut request = Request { relaxation: relaxed, start: vector, ..self.request(left()) };
            let mut outcome = session.solve(&mut request).map_err(|error| failed(&error))?;
            let solved = outcome.stop == Stop::Optimal || outcome.stop == Stop::GapReached;
            let rows = outcome.incumbent.as_ref().filter(|_| solved).map(|values| compact.violated(values));
            let rows = rows.filter(|rows| !rows.is_empty());
            rounds += 1;
            proved = outcome.dual_bound.into_iter().chain(proved).reduce(f64::max);
            if let Some(rows) = rows {
                added += rows.len();
                session.add_rows(&rows).map_err(|error| failed(&error))?;
                continue;
            }
            if relaxed && solved {
                relaxed = false;
                continue;
            }
            if relaxed && outcome.stop != Stop::Infeasible {
                // Out of time before there was anything whole.
                outcome.incumbent = None;
            }
            outcome.solve_seconds = began.elapsed().as_secs_f64() - build.as_secs_f64();
            outcome.dual_bound = proved;
            let whole = outcome.incumbent.as_ref().filter(|values| compact.violated(values).is_empty());
            let stages = whole.map(|values| compact.stages(values, INTEGRALITY));
            // A start that was given is a solution, also where the search had no time to look at it.
            let stages = stages.or_else(|| start.filter(|_| outcome.stop != Stop::Infeasible).cloned().map(Ok));
            let mut found = self.found(budget, &outcome, stages, compact.time_unit(), build, &compact.model)?;
            found.note = format!("{}; {added} memory rows added in {rounds} rounds", found.note);
            return Ok(found);
        }
    }

    fn found(
        &self,
        budget: Option<u64>,
        outcome: &Outcome,
        stages: Option<Result<Stages, f64>>,
        unit: f64,
        build: Duration,
        model: &Model,
    ) -> Result<Found, MethodError> {
        let mut note = format!(
            "{}: {}; {} columns, {} rows, {} nonzeros; {} nodes",
            outcome.solver,
            outcome.raw_status,
            model.columns(),
            outcome.size.rows,
            outcome.size.nonzeros,
            outcome.nodes.map_or("unknown".into(), |nodes| nodes.to_string())
        );
        let stages = stages.transpose().map_err(|worst| {
            MethodError::Internal(format!("a zero-one variable is {worst} away from a whole number"))
        })?;
        let lower_bound = match outcome.stop {
            Stop::Infeasible => None,
            _ => outcome.dual_bound.map(|bound| self.bound(bound, unit)),
        };
        let claim = stages.as_ref().map(|stages| stages.claim(&self.joint, self.workspace));
        let over = claim.filter(|claim| budget.is_some_and(|budget| claim.peak_bytes > budget));
        if let Some(claim) = over {
            // Within the solver's tolerance, but not within the budget.
            note = format!("{note}; a solution that needs {} was rejected", claim.peak_bytes);
        }
        let stages = stages.filter(|_| over.is_none());
        let proved = claim.is_some_and(|claim| lower_bound.is_some_and(|bound| bound >= claim.time));
        let termination = match outcome.stop {
            _ if over.is_some() => Termination::NotFound,
            Stop::Optimal | Stop::GapReached if proved => Termination::Optimal,
            // Integer costs leave no gap below one; what is left is the solver's tolerance.
            Stop::Optimal if self.gap == 0.0 => Termination::Optimal,
            Stop::Optimal | Stop::GapReached => Termination::GapReached,
            Stop::Infeasible => Termination::Infeasible,
            Stop::TimeLimit => Termination::TimeLimit,
            Stop::MemoryLimit => Termination::MemoryLimit,
            Stop::NodeLimit => Termination::NodeLimit,
            Stop::Interrupted => Termination::Interrupted,
            Stop::Unbounded | Stop::InfeasibleOrUnbounded | Stop::Error => Termination::Error,
        };
        let solve = Duration::from_secs_f64(outcome.build_seconds + outcome.solve_seconds);
        Ok(Found { termination, stages, lower_bound, build, solve, note })
    }
}

/// A solver that refuses is a slip of the method or of its parameters.
pub fn failed(error: &SolverError) -> MethodError {
    MethodError::Internal(error.to_string())
}
