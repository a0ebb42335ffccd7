//! `checkmate-lp`: the relaxation of Checkmate's integer program, a lower bound and nothing else.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_solvers::{Outcome, Request, Stop};

use crate::checkmate::encoding::encode;
use crate::checkmate::plain::Plain;
use crate::checkmate::relaxation::Linear;
use crate::checkmate::{Workspace, class, tasks};
use crate::method::formulation::Encode;
use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason, Termination};
use crate::search::clock::Clock;
use crate::search::incumbent::Incumbent;
use crate::search::refinement::bound_by_blocks;
use crate::search::separation::{Relaxation, Solver, Solving};
use crate::staged::joint::supports;
use crate::staged::task::Task;
use crate::{setting, settings};

/// The linear relaxation of `checkmate-ilp`.
///
/// # Problem
/// As `checkmate-ilp`, with every variable anywhere between 0 and 1.
///
/// # Variables
/// As `checkmate-ilp`.
///
/// # Constraints
/// As `checkmate-ilp`, without integrality.
///
/// # Size
/// As `checkmate-ilp`.
///
/// # Departures from the paper
/// As `checkmate-ilp`. `formulation=published` relaxes the published model; `formulation=blocks` (the default) relaxes
/// the model over blocks of stages, which are split where its solution does not fit until it does or the time is up: every
/// round is a bound.
///
/// # Claim
/// A lower bound on the time of every schedule that `checkmate-ilp` searches, less the solver's
/// tolerance.
///
/// # Reference
/// Checkmate (Jain et al., `MLSys` 2020), section 5.
pub struct CheckmateLp;

setting! {
    /// which model is relaxed; blocks: the one over blocks of stages, finer and finer
    pub enum Relaxed("formulation") = Blocks { Blocks = "blocks", Published = "published" }
}

impl Method for CheckmateLp {
    fn about(&self) -> About {
        About {
            id: "checkmate-lp",
            title: "lower bound: the relaxation of checkmate-ilp",
            reference: "Checkmate (Jain et al., MLSys 2020), section 5",
            parameters: settings![Relaxed, Workspace, Solver],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::bound(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn formulation(&self) -> Option<Encode> {
        Some(|instance, parameters, budget| {
            encode(instance, parameters, budget, parameters.get::<Relaxed>() == Relaxed::Published, true)
        })
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solving = Solving::new(context)?;
        let task = tasks(context)?;
        context.answer_each(|index, budget| bound(context, index, &task(budget), solving));
        Ok(())
    }
}

fn bound(context: &Context<'_>, index: usize, task: &Task<'_>, solving: Solving) -> Result<Answer, MethodError> {
    if let Some(answer) = task.at_once() {
        let known =
            if answer.termination == Termination::Optimal { Termination::BoundOnly } else { answer.termination };
        return Ok(Answer { termination: known, schedule: None, claimed: None, ..answer });
    }
    let began = Instant::now();
    let clock = Clock::start(context.limits.time);
    let formulation = context.parameters.get::<Relaxed>();
    let incumbent = Incumbent::new(task, context.reporter, index, 0.0);
    let (linear, outcome) = relax(&incumbent, formulation, solving, clock)?;
    let (lower_bound, build) = if formulation == Relaxed::Blocks {
        (Some(incumbent.bound()), Duration::ZERO)
    } else {
        let bound = outcome.dual_bound.filter(|_| outcome.stop == Stop::Optimal);
        let build = began.elapsed().saturating_sub(Duration::from_secs_f64(outcome.solve_seconds));
        (bound.map(|bound| linear.bound(bound)), build)
    };
    let termination = match outcome.stop {
        Stop::Optimal | Stop::GapReached => Termination::BoundOnly,
        stop => stop.into(),
    };
    let note = format!("a bound, no schedule; {}: {}; {}", outcome.solver, outcome.raw_status, outcome.size);
    let lower_bound = lower_bound.filter(|_| termination != Termination::Infeasible);
    let solve = began.elapsed().saturating_sub(build);
    Ok(Answer { lower_bound, build, solve, note, ..Answer::without_schedule(task.budget, termination) })
}

/// The relaxation of a model, solved.
///
/// # Errors
/// The solver refuses.
pub(super) fn relax<'t>(
    incumbent: &Incumbent<'t, Task<'t>>,
    formulation: Relaxed,
    solving: Solving,
    clock: Clock,
) -> Result<(Linear<'t>, Outcome), MethodError> {
    let task = incumbent.judge;
    if formulation == Relaxed::Blocks {
        return bound_by_blocks(incumbent, solving, clock);
    }
    let linear = Linear::Plain(Box::new(Plain::new(&task.joint, task.budget)));
    let request = Request { relaxation: true, ..solving.request(&clock) };
    let outcome = solving.solver.solve(linear.model(), &request)?;
    Ok((linear, outcome))
}
