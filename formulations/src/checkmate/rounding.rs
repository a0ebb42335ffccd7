//! `checkmate-rounding`: two-phase rounding of the relaxation.

use std::time::Instant;

use remat_core::{Instance, Schedule};
use remat_solvers::Stop;

use crate::checkmate::lp::{Relaxed, relax};
use crate::checkmate::relaxation::Linear;
use crate::checkmate::{Workspace, class, tasks};
use crate::method::parameters::Parameters;
use crate::method::report::Silent;
use crate::method::{About, Answer, BudgetUse, Claim, Claimed, Context, Method, MethodError, SkipReason, Termination};
use crate::random::Random;
use crate::search::clock::Clock;
use crate::search::incumbent::Incumbent;
use crate::search::separation::{Solver, Solving};
use crate::staged::joint::supports;
use crate::staged::stages::Stages;
use crate::staged::task::Task;
use crate::{setting, settings};

/// Checkmate's approximation.
///
/// # Problem
/// As `checkmate-ilp`, approximately.
///
/// # Variables
/// S* of the relaxation at (1 - eps) times the budget, rounded to S; then the least R with which S is
/// valid.
///
/// # Constraints
/// As `checkmate-lp`; then section 5.1's second phase.
///
/// # Size
/// One linear program (over blocks of stages a few), then O(n m) for each candidate.
///
/// # Departures from the paper
/// A candidate is accepted if it simulates within the budget (the public code updates the peak before
/// it adds the tensor). `rounding=thresholds` takes the best of 101 thresholds, as `FastSA`'s authors
/// did; `deterministic` is 0.5; `random` keeps each value with probability S*, `samples` times. What
/// cannot be made again is kept. With `formulation=blocks` (the default) S* is that of the relaxation over blocks
/// of stages, as fine as the time allows; within a block what counts as kept is used and dropped as early as can be.
///
/// # Claim
/// Heuristic. No schedule within the budget is reported as none, which proves nothing.
///
/// # Reference
/// Checkmate (Jain et al., `MLSys` 2020), sections 5.1 and 5.2.
pub struct CheckmateRounding;

setting! {
    /// deterministic: at 0.5; thresholds: the best of 0.00, 0.01, ..., 1.00; random: with probability S*
    pub enum Rounding("rounding") = Thresholds {
        Deterministic = "deterministic",
        Thresholds = "thresholds",
        Random = "random",
    }
}

setting! {
    /// how much of the budget the relaxation leaves to the rounding
    pub Eps("eps-percent"): number from 0 to 99 = 10
}

setting! {
    /// how often rounding=random rounds
    pub Samples("samples"): number from 1 to 100_000 = 100
}

impl Method for CheckmateRounding {
    fn about(&self) -> About {
        About {
            id: "checkmate-rounding",
            title: "two-phase rounding of the relaxation of checkmate-ilp",
            reference: "Checkmate (Jain et al., MLSys 2020), sections 5.1 and 5.2",
            parameters: settings![Rounding, Eps, Samples, Relaxed, Workspace, Solver],
            budgets: BudgetUse::Used,
        }
    }

    fn is_random(&self, parameters: &Parameters) -> bool {
        parameters.get::<Rounding>() == Rounding::Random
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::heuristic(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solving = Solving::new(context)?;
        let task = tasks(context)?;
        context.answer_each(|_, budget| round(context, &task(budget), solving));
        Ok(())
    }
}

fn round(context: &Context<'_>, task: &Task<'_>, solving: Solving) -> Result<Answer, MethodError> {
    if let Some(answer) = task.at_once() {
        // Store-all is all that a heuristic has to say of a budget that it meets.
        let known = if answer.termination == Termination::Optimal { Termination::Feasible } else { answer.termination };
        return Ok(Answer { termination: known, lower_bound: None, ..answer });
    }
    let began = Instant::now();
    let clock = Clock::start(context.limits.time);
    let eps = context.parameters.get::<Eps>();
    let less = |budget: u64| budget - u64::try_from(u128::from(budget) * u128::from(eps) / 100).unwrap_or(0);
    let reduced = Task { budget: task.budget.map(less), ..task.clone() };
    let incumbent = Incumbent::new(&reduced, &Silent, 0, 0.0);
    let formulation = context.parameters.get::<Relaxed>();
    let (linear, outcome) = relax(&incumbent, formulation, solving, clock)?;
    let words = format!("{}: {} at {}% of the budget", outcome.solver, outcome.raw_status, 100 - eps);
    let empty = |termination, note| Answer {
        solve: began.elapsed(),
        note,
        ..Answer::without_schedule(task.budget, termination)
    };
    let point = match (outcome.stop, outcome.incumbent) {
        (_, Some(point)) => point,
        // The relaxation at a smaller budget proves nothing about this one.
        (Stop::Infeasible, None) => return Ok(empty(Termination::NotFound, words)),
        (stop, None) => return Ok(empty(stop.into(), words)),
    };
    let (mut best, mut fitting): (Option<(Stages, Schedule)>, usize) = (None, 0);
    let candidates = candidates(context, task, &linear, &point, clock);
    let count = candidates.len();
    for stages in candidates {
        let schedule = stages.schedule(task.instance, &task.joint);
        if Claimed::simulated(task.instance, &schedule)?.peak_bytes <= task.budget_bytes() {
            fitting += 1;
            if best.as_ref().is_none_or(|(best, _)| stages.time(&task.joint) < best.time(&task.joint)) {
                best = Some((stages, schedule));
            }
        }
    }
    let termination = if best.is_some() { Termination::Feasible } else { Termination::NotFound };
    let claimed = best.as_ref().map(|(stages, _)| task.claim(stages));
    let note = format!("{words}; {fitting} of {count} candidates within the budget");
    Ok(Answer { schedule: best.map(|(_, schedule)| schedule), claimed, ..empty(termination, note) })
}

fn candidates(context: &Context<'_>, task: &Task<'_>, linear: &Linear<'_>, point: &[f64], clock: Clock) -> Vec<Stages> {
    // Solvers leave 0.9999999 where they mean 1.
    const NOISE: f64 = 1e-6;
    let at = |threshold: f64| task.rounded(linear, point, |share| share > threshold - NOISE && share > NOISE);
    let mut candidates = Vec::new();
    match context.parameters.get::<Rounding>() {
        Rounding::Deterministic => candidates.push(at(0.5)),
        Rounding::Random => {
            let mut random = Random::new(context.limits.seed);
            for _ in 0..context.parameters.get::<Samples>() {
                candidates.push(task.rounded(linear, point, |share| random.unit() < share));
                if clock.is_over() {
                    break;
                }
            }
        }
        Rounding::Thresholds => {
            // From the middle outwards, so that a short time leaves the most promising.
            let mut percents: Vec<u32> = (0..=100).collect();
            percents.sort_by_key(|percent| percent.abs_diff(50));
            for percent in percents {
                candidates.push(at(f64::from(percent) / 100.0));
                if clock.is_over() {
                    break;
                }
            }
        }
    }
    candidates.dedup();
    candidates
}

impl Task<'_> {
    /// Stages that keep what a rule says of S* in a point, column by column.
    fn rounded(&self, linear: &Linear<'_>, point: &[f64], mut holds: impl FnMut(f64) -> bool) -> Stages {
        let point: Vec<f64> = point.iter().map(|&share| f64::from(holds(share))).collect();
        self.stages_of(linear, &point)
    }
}
