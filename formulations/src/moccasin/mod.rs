//! `moccasin`: the optimal schedule in the instance's order with at most C runs of each operator, by
//! constraint programming.
//!
//! [`published`] is the model of the paper, [`blocks`] the improved one, [`improve`] the search with it,
//! [`greedy`] a start, [`exchange`] the published model as text for other programs. Checkmate's joint graph and stages are shared: the paper's event grid is theirs.

pub mod blocks;
mod encoding;
pub mod exchange;
pub mod greedy;
pub mod improve;
pub mod published;

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_solvers::Stop;
use remat_solvers::cp::{CpBackend, CpOutcome, CpRequest, Emphasis, cp_backend};

use crate::checkmate::ilp::chain_starts;
use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::formulation::Formulation;
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason, Termination};
use crate::moccasin::improve::{Found, Search, Task};
use crate::moccasin::published::{Memory, Phase, Published};
use crate::parameters::{ParameterKind, ParameterSpec};
use crate::report::Progress;

/// Moccasin.
///
/// # Problem
/// The joint graph of n operators in a fixed order; each operator runs at most C times. Least total
/// time within a budget.
///
/// # Variables
/// For copy c of operator i: its start, the number of an event (t, i) of the grid of n(n+1)/2 events in
/// which stage t consists of the events (t, 1) to (t, t), and a literal that says whether it is there,
/// fixed for the first copy at (i, i). For each value that i makes and each copy: the end of its
/// retention interval. 2 C integer variables and C literals per operator with one output.
///
/// # Constraints
/// Copy c + 1 starts after the intervals of copy c end, and is there only if copy c is. At every present
/// start of j each value that j reads is covered by one of its retention intervals. Memory: a cumulative
/// constraint over all intervals, or a reservoir over their starts and ends. Phase 1 minimises
/// max(peak, budget), phase 2 starts from its result and minimises the durations of present copies.
/// Sizes and durations are divided by their greatest common divisors.
///
/// # Size
/// O(C n) variables with domains of O(n^2) values, and O(C^2 m) covering literals, m the number of edges.
/// The improved model has O(h n) variables, h the number of stages with memory rows.
///
/// # Departures from the paper
/// * An operator may make several values; each has an interval of its own per copy. Inputs stay;
///   gradients of parameters and outputs stay from their last copy to the end; what nobody reads is
///   there during its operator only.
/// * The workspace counts (`workspace=on`); as published it does not (`workspace=off`).
/// * Backward operators run once unless the instance says otherwise; an operator that updates state runs
///   again in its `recompute` implementation. Each operator uses the fastest implementation.
/// * Lengths are exact; the authors' program restricts them to a logarithmic grid, which over-counts.
/// * The order is the instance's.
/// * `strategy=improved` (the default) solves the same problem otherwise: zero-one variables per block of
///   stages, memory rows where they are violated, unsatisfiable cores or the linear relaxation for the
///   proof, neighbourhoods of a greedy start for schedules (`blocks.rs`, `improve.rs`).
///
/// # Claim
/// Optimal among schedules in such stages with at most C runs of each operator and one implementation
/// per operator, when it says so; `infeasible` is proved for that class. With `solver=cp-sat` in exact
/// integers, with `solver=embedded` within the tolerances of HiGHS, whose answers are checked.
///
/// # Reference
/// Bartan et al., "Moccasin: Efficient Tensor Rematerialization for Neural Networks", ICML 2023.
pub struct Moccasin;

const STRATEGY: ParameterSpec = ParameterSpec {
    name: "strategy",
    default: "improved",
    kind: ParameterKind::Choice(&["as-published", "improved"]),
    help: "as-published: retention intervals in two phases; improved: blocks of stages and lazy memory rows",
};

const SOLVER: ParameterSpec = ParameterSpec {
    name: "solver",
    default: "embedded",
    kind: ParameterKind::Choice(&["embedded", "cp-sat"]),
    help: "embedded: HiGHS, always there; cp-sat: OR-Tools, where it is installed (scripts/setup.sh --ortools)",
};

const MEMORY: ParameterSpec = ParameterSpec {
    name: "memory",
    default: "cumulative",
    kind: ParameterKind::Choice(&["cumulative", "reservoir"]),
    help: "how strategy=as-published states memory",
};

const COPIES: ParameterSpec = ParameterSpec {
    name: "copies",
    default: "2",
    kind: ParameterKind::Integer { min: 1, max: 1000 },
    help: "most runs of one operator (C)",
};

const START: ParameterSpec = ParameterSpec {
    name: "start",
    default: "auto",
    kind: ParameterKind::Choice(&["auto", "none", "trivial", "chain", "greedy"]),
    help: "the hint: trivial: store-all; chain: rotor-persistent; greedy: drop and repeat; auto: none as published, else greedy and chain",
};

impl Method for Moccasin {
    fn id(&self) -> &'static str {
        "moccasin"
    }

    fn about(&self) -> About {
        About {
            title: "optimal schedule in the instance's order with at most C runs each, by constraint programming",
            claim: Claim::AtMostRuns,
            claim_text: "optimal among schedules in stages of the instance's order with at most C runs of each operator",
            reference: "Moccasin (Bartan et al., ICML 2023)",
            parameters: &[STRATEGY, SOLVER, MEMORY, COPIES, crate::checkmate::program::WORKSPACE, START],
            budgets: BudgetUse::Used,
        }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Joint::new(instance).map(|_| ())
    }

    fn formulation(&self) -> Option<&dyn Formulation> {
        Some(self)
    }

    fn solve(&self, context: &Context<'_>) -> Result<Vec<Answer>, MethodError> {
        let solver = solver(context)?;
        let joint = Joint::new(context.instance)?;
        let deadline = context.limits.time.map(|time| Instant::now() + time);
        let mut answers = Vec::with_capacity(context.budgets.len());
        for (at, &budget) in context.budgets.iter().enumerate() {
            let began = Instant::now();
            let left = u32::try_from(context.budgets.len() - at).unwrap_or(u32::MAX);
            let share = deadline.map(|deadline| began + deadline.saturating_duration_since(began) / left);
            let job = Job { context, joint: &joint, solver, index: at, budget, deadline: share };
            let found = match job.at_once() {
                Some(found) => found,
                None if context.parameters.word("strategy") == "improved" => job.improved()?,
                None => job.as_published()?,
            };
            let answer = job.answer(found, began.elapsed());
            context.reporter.answer(at, &answer);
            answers.push(answer);
        }
        Ok(answers)
    }
}

fn solver(context: &Context<'_>) -> Result<&'static dyn CpBackend, MethodError> {
    let id = if context.parameters.word("solver") == "cp-sat" { "cp-sat" } else { "highs" };
    let refused = |message: String| MethodError::Parameter { name: "solver", message };
    let solver = cp_backend(id).map_err(|error| refused(error.to_string()))?;
    solver.available().map_err(refused)?;
    Ok(solver)
}

/// One budget.
struct Job<'a> {
    context: &'a Context<'a>,
    joint: &'a Joint,
    solver: &'static dyn CpBackend,
    index: usize,
    budget: Option<u64>,
    deadline: Option<Instant>,
}

impl Job<'_> {
    fn workspace(&self) -> bool {
        self.context.parameters.word("workspace") == "on"
    }

    fn copies(&self) -> u64 {
        self.context.parameters.integer("copies").unwrap_or(2)
    }

    fn fixed_time(&self) -> u64 {
        self.joint.operators.iter().map(|operator| operator.first.time).sum()
    }

    /// What can be said without a solver: a budget below what one operator needs has no schedule, and one
    /// that store-all meets needs none better.
    fn at_once(&self) -> Option<Found> {
        let least = self.joint.least_peak(self.workspace());
        let store_all = Stages::store_all(self.joint);
        let peak = store_all.claim(self.joint, self.workspace()).peak_bytes;
        let found = |termination, stages, lower_bound, note| Some(Found { termination, stages, lower_bound, note });
        match self.budget {
            Some(budget) if budget < least => {
                let note = format!("one operator alone needs {least}; no solver asked");
                found(Termination::Infeasible, None, None, note)
            }
            Some(budget) if budget < peak => None,
            _ => {
                let note = "store-all fits; no solver asked".into();
                found(Termination::Optimal, Some(store_all), Some(self.fixed_time()), note)
            }
        }
    }

    /// Reports progress of this budget.
    fn hears(&self, progress: &Progress, stages: Option<&Stages>) {
        let incumbent = stages.map(|stages| {
            let claim = stages.claim(self.joint, self.workspace());
            (stages.schedule(self.context.instance, self.joint), claim)
        });
        let report = Progress { incumbent, lower_bound: progress.lower_bound, effort: progress.effort };
        self.context.reporter.report(self.index, report);
    }

    /// The start that is asked for, whether it meets the budget or not.
    fn start(&self) -> Option<Stages> {
        match self.context.parameters.word("start") {
            "trivial" => Some(Stages::store_all(self.joint)),
            "chain" => self.chain(),
            "greedy" => {
                let limits = greedy::Limits {
                    budget: self.budget?,
                    workspace: self.workspace(),
                    copies: self.copies(),
                    deadline: self.deadline,
                };
                greedy::greedy(self.joint, limits)
            }
            _ => None,
        }
    }

    /// The schedule of `rotor-persistent`, where there is one and it fits the stages.
    fn chain(&self) -> Option<Stages> {
        let context = Context { budgets: &[self.budget], ..*self.context };
        chain_starts(&context, self.joint).pop().flatten()
    }

    fn improved(&self) -> Result<Found, MethodError> {
        let hears = |progress: &Progress, stages: Option<&Stages>| self.hears(progress, stages);
        let task = Task {
            joint: self.joint,
            budget: self.budget.unwrap_or(u64::MAX),
            workspace: self.workspace(),
            copies: self.copies(),
            solver: self.solver,
            deadline: self.deadline,
            threads: self.context.limits.threads,
            seed: self.context.limits.seed,
            hears: &hears,
        };
        let mut search = Search::new(&task);
        if self.context.parameters.word("start") == "auto" {
            search.start_greedily();
            if let Some(stages) = self.chain() {
                search.offer(stages);
            }
        } else if let Some(stages) = self.start() {
            search.offer(stages);
        }
        search.run()
    }

    fn phase(
        &self,
        published: &Published<'_>,
        hint: &[(remat_solvers::cp::Variable, i64)],
        parts: u32,
    ) -> Result<CpOutcome, MethodError> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) / parts);
        let request = CpRequest {
            time: left,
            threads: self.context.limits.threads,
            seed: self.context.limits.seed,
            emphasis: Emphasis::Default,
            hint,
            interrupt: None,
        };
        let outcome = self.solver.solve(&published.model, &request);
        outcome.map_err(|error| MethodError::Internal(error.to_string()))
    }

    /// Both phases of the paper.
    fn as_published(&self) -> Result<Found, MethodError> {
        let word = |name| self.context.parameters.word(name);
        let memory = if word("memory") == "reservoir" { Memory::Reservoir } else { Memory::Cumulative };
        let budget = self.budget.unwrap_or(u64::MAX);
        let most = Stages::store_all(self.joint).claim(self.joint, self.workspace()).peak_bytes;
        let room = (budget - self.joint.base_bytes, most - self.joint.base_bytes);
        let model = |phase| Published::new(self.joint, room, self.copies(), self.workspace(), memory, phase);
        let first = model(Phase::Memory);
        let hint = self.start().map(|stages| first.hint(&stages)).unwrap_or_default();
        let outcome = self.phase(&first, &hint, 2)?;
        let size = format!("{} variables, {} constraints", first.model.domains.len(), first.model.constraints.len());
        let said =
            |phase, outcome: &CpOutcome| format!("phase {phase} {} in {:.1} s", outcome.raw_status, outcome.seconds);
        let mut note = format!("{}: {size}; {}", outcome.solver, said(1, &outcome));
        let within =
            |capacity: i64| u64::try_from(capacity).is_ok_and(|capacity| capacity * first.memory_unit() <= room.0);
        let start = outcome.values.as_ref().filter(|_| outcome.objective.is_some_and(within));
        let Some(values) = start else {
            let least = outcome.bound.is_some_and(|bound| !within(bound));
            let termination = if least { Termination::Infeasible } else { termination(outcome.stop) };
            let termination = if termination == Termination::Optimal { Termination::Infeasible } else { termination };
            let lower_bound = (termination != Termination::Infeasible).then(|| self.fixed_time());
            return Ok(Found { termination, stages: None, lower_bound, note });
        };
        let feasible = first.stages(values);
        self.hears(&Progress::default(), Some(&feasible));
        let second = model(Phase::Duration);
        let hint = second.hint(&feasible);
        let outcome = self.phase(&second, &hint, 1)?;
        note = format!("{note}; {}", said(2, &outcome));
        let stages = outcome.values.as_ref().map_or(feasible, |values| second.stages(values));
        let bound = outcome.bound.and_then(|bound| u64::try_from(bound).ok()).unwrap_or(0);
        let lower_bound = self.fixed_time() + bound * second.time_unit();
        Ok(Found { termination: termination(outcome.stop), stages: Some(stages), lower_bound: Some(lower_bound), note })
    }

    fn answer(&self, found: Found, took: Duration) -> Answer {
        let claimed = found.stages.as_ref().map(|stages| stages.claim(self.joint, self.workspace()));
        Answer {
            budget: self.budget,
            termination: found.termination,
            schedule: found.stages.as_ref().map(|stages| stages.schedule(self.context.instance, self.joint)),
            claimed,
            lower_bound: found.lower_bound,
            build: Duration::ZERO,
            solve: took,
            note: found.note,
        }
    }
}

fn termination(stop: Stop) -> Termination {
    match stop {
        Stop::Optimal => Termination::Optimal,
        Stop::GapReached => Termination::GapReached,
        Stop::Infeasible => Termination::Infeasible,
        Stop::TimeLimit => Termination::TimeLimit,
        Stop::MemoryLimit => Termination::MemoryLimit,
        Stop::NodeLimit => Termination::NodeLimit,
        Stop::Interrupted => Termination::Interrupted,
        Stop::Unbounded | Stop::InfeasibleOrUnbounded | Stop::Error => Termination::Error,
    }
}
