//! `checkmate-ilp`: the optimal schedule in the instance's order.

use std::time::Instant;

use remat_core::Instance;

use crate::checkmate::encoding::encode;
use crate::checkmate::plain::Plain;
use crate::checkmate::relaxation::Linear;
use crate::checkmate::{Workspace, class, tasks};
use crate::method::formulation::Encode;
use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason};
use crate::search::clock::Clock;
use crate::search::driver::{answer, search_or_solve};
use crate::search::incumbent::{Gap, Incumbent};
use crate::search::separation::{Solver, Solving};
use crate::staged::joint::supports;
use crate::staged::starts::{Start, offer_starts};
use crate::staged::task::Task;
use crate::{setting, settings};

/// Checkmate's integer linear program.
///
/// # Problem
/// The joint graph of n operators in a fixed order, unrolled into n stages: stage t ends with the first
/// run of operator t, and runs each operator at most once, in order. Least total time within a budget.
///
/// # Variables
/// R\[t,i\] in {0,1}: operator i runs in stage t. S\[t,a\] in {0,1}: value a is kept into stage t.
/// FREE\[t,a,k\] in {0,1}: a is dropped in stage t after k. U\[t,k\]: memory during k in stage t, bytes.
///
/// # Constraints
/// Dependencies (1b), retention (1c, 1d), frontier-advancing stages (8), the two inequalities of FREE
/// and the recursion of U, in `plain.rs`, one function each.
///
/// # Size
/// O(n (n + m)) columns, rows and nonzeros, m the number of edges.
///
/// # Departures from the paper
/// * S and FREE are per tensor, not per operator: an operator may make several. With one output each
///   the formulation is the published one.
/// * Inputs stay; gradients of parameters and outputs stay from the last time they are made to the end
///   (the paper counts 2 `M_param` throughout); what nobody reads is there during its operator only.
/// * The workspace of an operator counts (`workspace=on`); as published it does not (`workspace=off`),
///   and then a schedule may exceed its budget, which the judge says.
/// * Backward operators run once unless the instance says otherwise; an operator that updates state
///   runs again in its `recompute` implementation. Each operator uses the fastest implementation.
/// * No noise on the costs; a budget below what one operator needs is refused without a solver, and one
///   that store-all meets is answered by it.
/// * `strategy=plain` is the published model. `strategy=coarse` (the default) has a relaxation over blocks of stages,
///   refined, beside neighbourhoods of the best schedule (`search/`), and then an equivalent smaller model (`staged/model/`),
///   whose memory rows are added when a solution violates them. Both have the same optimum, which is tested.
///
/// # Claim
/// Optimal among schedules in such stages with one implementation per operator, within 10^-6 of the time. Any schedule
/// that runs each stage's operators in order and at most once is such a schedule. `strategy=plain` counts memory in units of
/// 2^-26 of the budget, rounded down: where its solution exceeds the budget by less than that, it has a bound alone.
///
/// # Reference
/// Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", `MLSys`
/// 2020, sections 4.2 to 4.7.
pub struct CheckmateIlp;

setting! {
    /// plain: as published; coarse: first blocks of stages, then an equivalent smaller model
    pub enum Strategy("strategy") = Coarse { Plain = "plain", Coarse = "coarse" }
}

impl Method for CheckmateIlp {
    fn about(&self) -> About {
        About {
            id: "checkmate-ilp",
            title: "optimal schedule in the instance's order, by integer programming",
            reference: "Checkmate (Jain et al., MLSys 2020), equations 1 to 9",
            parameters: settings![Strategy, Workspace, Solver, Gap, Start],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::optimum(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn is_random(&self, parameters: &Parameters) -> bool {
        parameters.get::<Strategy>() == Strategy::Coarse
    }

    fn formulation(&self) -> Option<Encode> {
        Some(|instance, parameters, budget| {
            encode(instance, parameters, budget, parameters.get::<Strategy>() == Strategy::Plain, false)
        })
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solving = Solving::new(context)?;
        let task = tasks(context)?;
        context.answer_each(|index, budget| solve(context, index, &task(budget), solving));
        Ok(())
    }
}

fn solve(context: &Context<'_>, index: usize, task: &Task<'_>, solving: Solving) -> Result<Answer, MethodError> {
    if let Some(answer) = task.at_once() {
        return Ok(answer);
    }
    let (clock, began) = (Clock::start(context.limits.time), Instant::now());
    let gap = context.parameters.get::<Gap>() as f64 * 1e-6;
    let incumbent = Incumbent::new(task, context.reporter, index, gap);
    let is_plain = context.parameters.get::<Strategy>() == Strategy::Plain;
    // As published there is no start.
    if !is_plain {
        offer_starts(context, &incumbent, context.parameters.get::<Start>(), clock)?;
    }
    let published = || Linear::Plain(Box::new(Plain::new(&task.joint, task.budget)));
    let (ended, build) = search_or_solve(&incumbent, is_plain.then_some(published), solving, clock)?;
    answer(&incumbent, task.budget, ended, build, began.elapsed().saturating_sub(build))
}
