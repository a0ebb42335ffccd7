//! What a method is: its claim, what it supports, and the answers that it gives.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use remat_core::{Instance, Schedule, simulate};
use remat_solvers::Stop;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub mod claim;
pub mod formulation;
pub mod parameters;
pub mod report;
pub mod setting;

pub use claim::{Claim, Class};

use crate::method::formulation::Encode;
use crate::method::parameters::{ParameterSpec, Parameters};
use crate::method::report::{Collector, Reporter, Silent};

/// A rematerialization method.
pub trait Method: Sync {
    /// Id, citation and parameters.
    fn about(&self) -> About;
    /// [`About::id`].
    fn id(&self) -> &'static str {
        self.about().id
    }
    /// What it claims with these parameters: its optima, bounds and `infeasible` are those of this class.
    fn claim(&self, parameters: &Parameters) -> Claim;
    /// Whether the method can work on an instance, and if not, why.
    ///
    /// # Errors
    /// The reason, as printed in tables.
    fn supports(&self, instance: &Instance) -> Result<(), SkipReason>;
    /// Gives each budget its answer with [`Context::answer`], as soon as it is there; methods with
    /// [`BudgetUse::Ignored`] are given `[None]`. The answer to a budget does not depend on the others.
    ///
    /// A budget of `None` means unlimited memory.
    ///
    /// # Errors
    /// Only when nothing can be said of any budget; one that cannot be met is an answer, and so is one that
    /// fails ([`Answer::failed`]).
    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError>;
    /// Runs it and collects the answers, in the order of the budgets.
    ///
    /// # Errors
    /// Those of [`Self::solve`]; or a budget was left without an answer.
    fn answers(&self, context: &Context<'_>) -> Result<Vec<Answer>, MethodError> {
        let collector = Collector::new(context.reporter, context.budgets.len());
        self.solve(&Context { reporter: &collector, ..*context })?;
        collector.into_answers()
    }
    /// The model behind its answers, for methods whose answer for a budget is that of one model: so that other solvers can be
    /// given it.
    fn formulation(&self) -> Option<Encode> {
        None
    }
    /// Name of the type, with its module: its doc comment is the method's page.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
    /// What it claims with the default parameters.
    fn usual_claim(&self) -> Claim {
        self.claim(&Parameters::defaults(self.about().parameters))
    }
    /// Whether another seed may give another answer; suites repeat such methods for each of their seeds.
    fn is_random(&self, _parameters: &Parameters) -> bool {
        false
    }
    /// Parameter settings that together make up a sweep of a method without budgets.
    fn sweep(&self, _instance: &Instance) -> Vec<BTreeMap<String, String>> {
        Vec::new()
    }
}

/// Everything that a method is given.
pub struct Context<'a> {
    /// The instance; [`Method::supports`] has said yes to it.
    pub instance: &'a Instance,
    /// Parameters, defaults filled in.
    pub parameters: &'a Parameters,
    /// Budgets in the instance's unit of memory, fixed bytes included.
    pub budgets: &'a [Option<u64>],
    /// What the method may use.
    pub limits: Limits,
    /// Where incumbents and bounds go as they come.
    pub reporter: &'a dyn Reporter,
    /// Schedules of other methods to start from.
    pub starts: &'a dyn Starts,
}

/// Schedules of other methods: methods do not look each other up.
pub trait Starts: Sync {
    /// The method with an id; none where it is not at hand.
    fn method(&self, _id: &str) -> Option<&'static dyn Method> {
        None
    }

    /// The most time that a start may take.
    fn most(&self) -> Option<Duration> {
        None
    }

    /// The best schedule that other methods have found for the same budget, where some have worked on it before.
    fn known(&self) -> Option<Schedule> {
        None
    }

    /// The schedule that a method with its default parameters finds for a budget in some time.
    ///
    /// # Errors
    /// Why there is none, in a few words.
    fn schedule(
        &self,
        id: &str,
        context: &Context<'_>,
        budget: Option<u64>,
        time: Option<Duration>,
    ) -> Result<Schedule, String> {
        let method = self.method(id).ok_or_else(|| format!("{id} is not at hand"))?;
        method.supports(context.instance).map_err(|why| why.to_string())?;
        let parameters = Parameters::defaults(method.about().parameters);
        let budgets = if method.about().budgets == BudgetUse::Used { [budget] } else { [None] };
        let limits = Limits { time: time.into_iter().chain(self.most()).min(), ..context.limits };
        let context = Context::new(context.instance, &parameters, &budgets, limits);
        let answer = method.answers(&context).map_err(|error| error.to_string())?.pop();
        answer.and_then(|answer| answer.schedule).ok_or_else(|| "no schedule within the budget".into())
    }
}

/// There are no other methods.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStarts;

impl Starts for NoStarts {}

impl<'a> Context<'a> {
    /// A context in which nobody listens until the answers are there, and no other methods are at hand.
    pub fn new(instance: &'a Instance, parameters: &'a Parameters, budgets: &'a [Option<u64>], limits: Limits) -> Self {
        Self { instance, parameters, budgets, limits, reporter: &Silent, starts: &NoStarts }
    }

    /// Hands over the answer to the budget at a position.
    pub fn answer(&self, index: usize, answer: &Answer) {
        self.reporter.answer(index, answer);
    }

    /// Answers the budgets one by one, in their order; what fails for one is that one's answer.
    pub fn answer_each(&self, mut answer: impl FnMut(usize, Option<u64>) -> Result<Answer, MethodError>) {
        for (index, &budget) in self.budgets.iter().enumerate() {
            let answer = answer(index, budget).unwrap_or_else(|error| Answer::failed(budget, &error));
            self.answer(index, &answer);
        }
    }
}

/// What a method may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall time of one budget, from when work on it begins; a method stops by itself to keep it. One that
    /// answers several budgets from one table may use as many times as much.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
    /// Seed of every random choice.
    pub seed: u64,
}

impl Limits {
    /// When the time of work that began at a moment is over; never, too, where that is beyond what clocks count.
    pub fn deadline(&self, began: Instant) -> Option<Instant> {
        self.time.and_then(|time| began.checked_add(time))
    }
}

/// What a method says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Kebab-case id, the same in TOML, CLI, CSV, plots and file names.
    pub id: &'static str,
    /// One line for `bench methods`.
    pub title: &'static str,
    /// Paper, section, equation.
    pub reference: &'static str,
    /// Parameters with their defaults.
    pub parameters: &'static [ParameterSpec],
    /// Whether budgets change the answer.
    pub budgets: BudgetUse,
}

/// Whether budgets change a method's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUse {
    /// One answer per parameter setting, whatever the budget.
    Ignored,
    /// One answer per budget; all budgets of a sweep are best given at once.
    Used,
}

/// Why a method stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// The answer is optimal in the sense of the method's claim, proved.
    Optimal,
    /// Within the gap asked for, proved.
    GapReached,
    /// Finished with a schedule and no proof about it.
    Feasible,
    /// Finished with what it is for: a lower bound, and no schedule.
    BoundOnly,
    /// Finished without a schedule, and nothing is proved.
    NotFound,
    /// No schedule of the method's class meets the budget, proved.
    Infeasible,
    /// The limit on wall time was reached.
    TimeLimit,
    /// The limit on CPU time was reached.
    CpuLimit,
    /// The memory limit was reached.
    MemoryLimit,
    /// The node limit was reached.
    NodeLimit,
    /// Stopped from outside.
    Interrupted,
    /// Failed.
    Error,
}

/// The word that stands in the column `termination`.
impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl From<Stop> for Termination {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Optimal => Self::Optimal,
            Stop::GapReached => Self::GapReached,
            Stop::Infeasible => Self::Infeasible,
            Stop::TimeLimit => Self::TimeLimit,
            Stop::MemoryLimit => Self::MemoryLimit,
            Stop::NodeLimit => Self::NodeLimit,
            Stop::Interrupted => Self::Interrupted,
            Stop::Cutoff | Stop::Unbounded | Stop::InfeasibleOrUnbounded | Stop::Error => Self::Error,
        }
    }
}

/// A method's answer for one budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The budget that it answers.
    pub budget: Option<u64>,
    /// Why the method stopped.
    pub termination: Termination,
    /// The best schedule found, if any.
    pub schedule: Option<Schedule>,
    /// What the method's own model says of that schedule.
    pub claimed: Option<Claimed>,
    /// Proved lower bound on the time of any schedule that meets the budget, where there is one.
    pub lower_bound: Option<u64>,
    /// What is claimed of this answer, where that is not what the method claims of all.
    pub claim: Option<Claim>,
    /// Time spent building the model or tables; work that serves several budgets is in the first.
    pub build: Duration,
    /// Time spent solving, likewise.
    pub solve: Duration,
    /// What else a reader should know, in a few words: the number of segments chosen, say.
    pub note: String,
}

impl Answer {
    /// The answer where the method failed for one budget.
    pub fn failed(budget: Option<u64>, error: &MethodError) -> Self {
        Self { note: error.to_string(), ..Self::without_schedule(budget, Termination::Error) }
    }

    /// The answer of a method that finds one schedule, whatever the budget, since a moment.
    ///
    /// # Errors
    /// The schedule is not legal.
    pub fn of(instance: &Instance, schedule: Schedule, began: Instant) -> Result<Self, MethodError> {
        let claimed = Some(Claimed::simulated(instance, &schedule)?);
        let empty = Self::without_schedule(None, Termination::Feasible);
        Ok(Self { schedule: Some(schedule), claimed, solve: began.elapsed(), ..empty })
    }

    /// An answer that says nothing but why the method stopped.
    pub fn without_schedule(budget: Option<u64>, termination: Termination) -> Self {
        Self {
            budget,
            termination,
            schedule: None,
            claimed: None,
            lower_bound: None,
            claim: None,
            build: Duration::ZERO,
            solve: Duration::ZERO,
            note: String::new(),
        }
    }
}

/// What a method's own model says of its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Duration.
    pub time: u64,
    /// Peak memory, fixed bytes included.
    pub peak_bytes: u64,
}

impl Claimed {
    /// What the simulator says of a schedule.
    ///
    /// # Errors
    /// It is not legal: a slip of the method.
    pub fn simulated(instance: &Instance, schedule: &Schedule) -> Result<Self, MethodError> {
        let simulation = simulate(instance, schedule).map_err(|error| MethodError::Internal(error.to_string()))?;
        Ok(Self { time: simulation.time, peak_bytes: simulation.peak_bytes })
    }
}

/// Why a method does not work on an instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SkipReason(pub String);

/// Why a method could say nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MethodError {
    /// The instance is outside of what the method supports.
    #[error("not supported: {0}")]
    Unsupported(#[from] SkipReason),
    /// A parameter has a value that this instance does not allow.
    #[error("parameter {name}: {message}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// The instance is larger than the method's tables may become.
    #[error("too large: {0}")]
    TooLarge(String),
    /// Something that should not happen, with what a report needs.
    #[error("internal error: {0}")]
    Internal(String),
}
