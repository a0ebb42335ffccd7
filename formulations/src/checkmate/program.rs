//! From an instance and budgets to answers: builds the model that a strategy asks for, has it solved,
//! reads the stages back, and says what is claimed of them.

use std::sync::Arc;
use std::time::Duration;

use remat_core::Instance;
use remat_solvers::{Backend, Outcome, Request, SolverError, Stop, backend};

use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::checkmate::watch::Watch;
use crate::method::parameters::{ParameterKind, ParameterSpec};
use crate::method::report::Reporter;
use crate::method::{Answer, Context, MethodError, Termination};

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
    /// Where incumbents and bounds go.
    pub reporter: &'a dyn Reporter,
    /// Wall time of one budget.
    pub time: Option<Duration>,
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
            reporter: context.reporter,
            time: context.limits.time,
            threads: context.limits.threads,
            seed: context.limits.seed,
        })
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

    /// How far a bound may be below an optimal time: what [`Self::bound`] takes off for the tolerance.
    pub fn margin(time: u64) -> f64 {
        // A little more, for the rounding of this very sum.
        1.001e-6 * time as f64
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

    /// What the last outcome and everything before it amount to: stages are believed only within the
    /// budget.
    ///
    /// # Errors
    /// A variable is not whole, or the solver contradicts a schedule that there is.
    pub fn found(
        &self,
        watch: &mut Watch<'_, '_>,
        outcome: &Outcome,
        stages: Option<Result<Stages, f64>>,
        unit: f64,
        build: Duration,
    ) -> Result<Found, MethodError> {
        let mut note = format!(
            "{}: {}; {}; {} nodes",
            outcome.solver,
            outcome.raw_status,
            outcome.size,
            outcome.nodes.map_or("unknown".into(), |nodes| nodes.to_string())
        );
        let stages = stages.transpose().map_err(|worst| {
            MethodError::Internal(format!("a zero-one variable is {worst} away from a whole number"))
        })?;
        if outcome.stop == Stop::Infeasible && watch.best.is_some() {
            return Err(MethodError::Internal(format!("{note}: infeasible, though there is a schedule")));
        }
        if outcome.stop != Stop::Infeasible {
            watch.objective_bound(outcome.dual_bound, unit);
        }
        let mut over = false;
        if let Some(stages) = &stages {
            watch.schedule(stages);
            let peak = stages.claim(&self.joint, self.workspace).peak_bytes;
            over = watch.budget.is_some_and(|budget| peak > budget);
            if over {
                // Within the solver's tolerance, but not within the budget.
                note = format!("{note}; a solution that needs {peak} was rejected");
            }
        }
        let termination = match outcome.stop {
            _ if watch.optimal() => Termination::Optimal,
            _ if over && watch.best.is_none() => Termination::NotFound,
            _ if over => Termination::Feasible,
            // Integer costs leave no gap below one; what is left is the solver's tolerance.
            Stop::Optimal if self.gap == 0.0 => Termination::Optimal,
            Stop::Optimal => Termination::GapReached,
            stop => stop.into(),
        };
        let solve = Duration::from_secs_f64(outcome.build_seconds + outcome.solve_seconds);
        Ok(self.conclude(watch, termination, build, solve, note))
    }

    /// What is known, as it will be answered.
    pub fn conclude(
        &self,
        watch: &Watch<'_, '_>,
        termination: Termination,
        build: Duration,
        solve: Duration,
        note: String,
    ) -> Found {
        let infeasible = termination == Termination::Infeasible;
        let stages = watch.best.as_ref().map(|(_, stages)| stages.clone());
        Found { termination, stages, lower_bound: watch.bound.filter(|_| !infeasible), build, solve, note }
    }
}

/// A solver that refuses is a slip of the method or of its parameters.
pub fn failed(error: &SolverError) -> MethodError {
    MethodError::Internal(error.to_string())
}
