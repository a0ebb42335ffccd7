//! `moccasin`: the optimal schedule in the instance's order with at most C runs of each operator, by
//! constraint programming.
//!
//! [`published`] is the model of the paper, [`blocks`] the improved one, [`improve`] the search with it,
//! [`starts`], [`greedy`] and [`anneal`] starts, [`exchange`] the published model as text for other programs,
//! [`reordered`] the method that has `fastsa` choose the order first. Checkmate's joint graph and stages are
//! shared: the paper's event grid is theirs.

pub mod anneal;
pub mod blocks;
mod encoding;
pub mod exchange;
pub mod greedy;
pub mod improve;
mod job;
mod neighbourhoods;
pub mod published;
pub mod reordered;
pub mod starts;
pub mod timeline;

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_solvers::cp::{CpBackend, cp_backend};

use crate::checkmate::joint::Joint;
use crate::method::formulation::Formulation;
use crate::method::parameters::{ParameterKind, ParameterSpec};
use crate::method::{About, BudgetUse, Claim, Context, Method, MethodError, SkipReason};
use crate::moccasin::job::Job;
use crate::moccasin::starts::START;

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
/// * The order is the instance's; `moccasin-reordered` has `fastsa` choose one.
/// * `strategy=improved` (the default) solves the same problem otherwise: zero-one variables per block of
///   stages, memory rows where they are violated, unsatisfiable cores or the linear relaxation for the
///   proof, also Checkmate's relaxation over blocks (`relaxation=both`), neighbourhoods of a greedy or annealed start for schedules (`blocks.rs`, `improve.rs`, `anneal.rs`).
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

const RELAXATION: ParameterSpec = ParameterSpec {
    name: "relaxation",
    default: "both",
    kind: ParameterKind::Choice(&["own", "both"]),
    help: "own: bounds from its own blocks; both: also from checkmate-ilp's, with HiGHS, where the own take long",
};

/// The parameters.
const PARAMETERS: &[ParameterSpec] =
    &[STRATEGY, SOLVER, MEMORY, COPIES, crate::checkmate::program::WORKSPACE, START, RELAXATION];

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
            parameters: PARAMETERS,
            budgets: BudgetUse::Used,
        }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Joint::new(instance).map(|_| ())
    }

    fn formulation(&self) -> Option<&dyn Formulation> {
        Some(self)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let began = Instant::now();
        let solver = solver(context)?;
        let joint = Joint::new(context.instance)?;
        let build = began.elapsed();
        context.answer_each(|at, _| {
            let deadline = context.limits.time.map(|time| Instant::now() + time);
            Job::new(context, &joint, solver, at, deadline).answer(if at == 0 { build } else { Duration::ZERO })
        });
        Ok(())
    }
}

fn solver(context: &Context<'_>) -> Result<&'static dyn CpBackend, MethodError> {
    let id = if context.parameters.word("solver") == "cp-sat" { "cp-sat" } else { "highs" };
    let refused = |message: String| MethodError::Parameter { name: "solver", message };
    let solver = cp_backend(id).map_err(|error| refused(error.to_string()))?;
    solver.available().map_err(refused)?;
    Ok(solver)
}
