//! `moccasin`: the optimal schedule in the instance's order with at most C runs of each operator, by
//! constraint programming.
//!
//! [`published`] is the model of the paper, [`blocks`] the improved one, [`improve`] the search with it beside the one of
//! all methods in stages (`search/`, with Checkmate's linear models), [`reordered`] the method that has `fastsa` choose the
//! order first. The joint graph and its schedules are in `staged/`: the paper's event grid is theirs.

pub mod blocks;
mod encoding;
pub mod improve;
mod job;
pub mod published;
pub mod reordered;

use remat_core::Instance;
use remat_solvers::cp::{CpBackend, cp_backend};

use crate::checkmate::{Workspace, class, tasks};
use crate::method::claim::Runs;
use crate::method::formulation::Encode;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use crate::moccasin::job::Job;
use crate::moccasin::published::Memory;
use crate::search::clock::Clock;
use crate::staged::joint::supports;
use crate::staged::starts::Start;
use crate::staged::task::Task;
use crate::{setting, settings};

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
///   proof, also Checkmate's relaxation over blocks, and neighbourhoods of the best schedule
///   (`blocks.rs`, `improve.rs`, `search/`).
///
/// # Claim
/// Optimal among schedules in such stages with at most C runs of each operator and one implementation
/// per operator, when it says so; `infeasible` is proved for that class. With `solver=cp-sat` in exact
/// integers, with `solver=embedded` in floating point, whose answers are checked.
///
/// # Reference
/// Bartan et al., "Moccasin: Efficient Tensor Rematerialization for Neural Networks", ICML 2023.
pub struct Moccasin;

setting! {
    /// as-published: retention intervals in two phases; improved: blocks of stages and lazy memory rows
    pub enum Strategy("strategy") = Improved { AsPublished = "as-published", Improved = "improved" }
}

setting! {
    /// embedded: HiGHS, always there; cp-sat: OR-Tools, where it is installed (scripts/setup.sh --ortools)
    pub enum ConstraintSolver("solver") = Embedded { Embedded = "embedded", CpSat = "cp-sat" }
}

setting! {
    /// most runs of one operator (C)
    pub Copies("copies"): number from 1 to 1000 = 2
}

impl Method for Moccasin {
    fn about(&self) -> About {
        About {
            id: "moccasin",
            title: "optimal schedule in the instance's order with at most C runs each, by constraint programming",
            reference: "Moccasin (Bartan et al., ICML 2023)",
            parameters: settings![Strategy, ConstraintSolver, Memory, Copies, Workspace, Start],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::optimum(Class { runs: Runs::AtMost(parameters.get::<Copies>()), ..class(parameters) })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn formulation(&self) -> Option<Encode> {
        Some(encoding::encode)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solver = solver(context)?;
        let task = tasks(context)?;
        context.answer_each(|index, budget| {
            let task = Task { copies: Some(context.parameters.get::<Copies>()), ..task(budget) };
            let clock = Clock::start(context.limits.time);
            Job { context, task: &task, solver, index, clock, given: None }.answer()
        });
        Ok(())
    }
}

fn solver(context: &Context<'_>) -> Result<&'static dyn CpBackend, MethodError> {
    let id = match context.parameters.get::<ConstraintSolver>() {
        ConstraintSolver::CpSat => "cp-sat",
        ConstraintSolver::Embedded => "highs",
    };
    let refused = |message: String| MethodError::Parameter { name: "solver", message };
    let solver = cp_backend(id).map_err(|error| refused(error.to_string()))?;
    solver.available().map_err(refused)?;
    Ok(solver)
}
