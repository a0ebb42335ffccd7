//! `moccasin-reordered`: `fastsa` finds an order, `moccasin` the best schedule in it.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_solvers::cp::CpBackend;

use super::job::Job;
use super::published::Memory;
use super::{ConstraintSolver, Copies, Strategy, solver};
use crate::checkmate::{Workspace, class, joint};
use crate::method::parameters::Parameters;
use crate::method::report::{Progress, Reporter};
use crate::method::{
    About, Answer, BudgetUse, Claim, Claimed, Class, Context, Method, MethodError, SkipReason, Termination,
};
use crate::search::clock::Clock;
use crate::settings;
use crate::staged::joint::supports;
use crate::staged::starts::{LARGE, follow};
use crate::staged::task::Task;

/// Moccasin in an order that FastSA found first.
///
/// # Problem
/// As [`moccasin`](super::Moccasin), in the order of the first runs of `fastsa`'s schedule for the budget.
///
/// # Variables
/// Those of `moccasin`.
///
/// # Constraints
/// Those of `moccasin`. The order: operators by their first runs in `fastsa`'s schedule, those that it
/// leaves out as early as they can run; made topological where its implementations read less.
///
/// # Size
/// As `moccasin`; the annealing takes up to a quarter of the time for a budget, half from 1,000 operators on.
///
/// # Departures from the paper
/// The published comparison gives FastSA its own order and Moccasin the given one; this is neither, and
/// has a row of its own. FastSA's schedule is also the start.
///
/// # Claim
/// Heuristic: a legal schedule within the budget, or none. Nothing is proved about other orders, so it
/// ends `feasible` where `moccasin` ends `optimal`; what is proved for the order found is in the note.
///
/// # Reference
/// Bartan et al., "Moccasin", ICML 2023; Imanishi et al., "A fast heuristic to optimize time-space
/// tradeoff for large models", `NeurIPS` 2023.
pub struct MoccasinReordered;

impl Method for MoccasinReordered {
    fn about(&self) -> About {
        About {
            id: "moccasin-reordered",
            title: "moccasin in an order that fastsa found first",
            reference: "Moccasin (Bartan et al., ICML 2023) after FastSA (Imanishi et al., NeurIPS 2023)",
            parameters: settings![Strategy, ConstraintSolver, Memory, Copies, Workspace],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        // It may be the schedule of `fastsa` that it starts from: any number of runs, any implementations.
        Claim::heuristic(Class { memory: class(parameters).memory, ..Class::ALL })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solver = solver(context)?;
        context.answer_each(|index, of| budget(context, solver, index, of));
        Ok(())
    }
}

fn budget(
    context: &Context<'_>,
    solver: &'static dyn CpBackend,
    index: usize,
    budget: Option<u64>,
) -> Result<Answer, MethodError> {
    let (began, clock) = (Instant::now(), Clock::start(context.limits.time));
    // On large graphs even FastSA's first schedule takes long.
    let parts = if context.instance.operators().len() < LARGE { 4 } else { 2 };
    let schedule = match context.starts.schedule("fastsa", context, budget, clock.share(parts).left()) {
        Ok(schedule) => schedule,
        Err(why) => {
            let note = format!("fastsa: {why}");
            return Ok(Answer {
                note,
                solve: began.elapsed(),
                ..Answer::without_schedule(budget, Termination::NotFound)
            });
        }
    };
    let claimed = Claimed::simulated(context.instance, &schedule)?;
    context.reporter.report(index, Progress::incumbent(schedule.clone(), claimed));
    let instance = context.instance.in_order_of(&schedule);
    let joint = joint(&instance, context.parameters)?;
    let copies = context.parameters.get::<Copies>();
    let given = Some(follow(&instance, &joint, &schedule, copies));
    let task = Task { copies: Some(copies), ..Task::new(&instance, joint, budget) };
    let reporter = &Faster { reporter: context.reporter, time: claimed.time };
    let quiet = Context { instance: &instance, reporter, ..*context };
    let answer = Job { context: &quiet, task: &task, solver, index, clock, given }.answer()?;
    let first = Answer {
        schedule: Some(schedule),
        claimed: Some(claimed),
        ..Answer::without_schedule(budget, Termination::Feasible)
    };
    Ok(merged(&first, &answer, began.elapsed()))
}

/// The better of both schedules, and nothing that would be proved about other orders.
fn merged(first: &Answer, answer: &Answer, took: Duration) -> Answer {
    let proved = match answer.termination {
        Termination::Optimal => "the best of this order; ".to_owned(),
        Termination::Infeasible => "no schedule in stages of this order; ".to_owned(),
        _ => answer.lower_bound.map_or(String::new(), |bound| format!("at least {bound} in this order; ")),
    };
    let ours = answer.claimed.map(|claimed| (claimed.time, claimed.peak_bytes));
    let better = ours.is_some_and(|ours| first.claimed.is_none_or(|first| ours <= (first.time, first.peak_bytes)));
    let termination = match answer.termination {
        // Of its order only.
        Termination::Optimal | Termination::Infeasible => Termination::Feasible,
        other => other,
    };
    let kept = if better { "" } else { "fastsa's own schedule is faster; " };
    let note = format!("{kept}{proved}{}", answer.note);
    let chosen = if better { answer } else { first };
    Answer {
        budget: answer.budget,
        termination,
        schedule: chosen.schedule.clone(),
        claimed: chosen.claimed,
        lower_bound: None,
        claim: None,
        build: answer.build,
        solve: took.saturating_sub(answer.build),
        note,
    }
}

/// Hands schedules on that are faster than one that was reported, and keeps bounds back, which hold for one order only.
struct Faster<'a> {
    reporter: &'a dyn Reporter,
    time: u64,
}

impl Reporter for Faster<'_> {
    fn report(&self, index: usize, progress: Progress) {
        let incumbent = progress.incumbent.filter(|(_, claimed)| claimed.time < self.time);
        self.reporter.report(index, Progress { incumbent, lower_bound: None, ..progress });
    }

    fn answer(&self, _: usize, _: &Answer) {}

    fn wants_more(&self, index: usize) -> bool {
        self.reporter.wants_more(index)
    }
}
