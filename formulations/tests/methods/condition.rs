//! A method in stages as CONTRIBUTING.md says that one is written: Checkmate's schedules with a limit on all later runs
//! together. What it answers is held against `checkmate-ilp`.

use std::time::{Duration, Instant};

use remat_core::{Instance, Step};
use remat_formulations::checkmate::{Workspace, class, tasks};
use remat_formulations::search::clock::Clock;
use remat_formulations::search::driver::{answer, search};
use remat_formulations::search::incumbent::Incumbent;
use remat_formulations::search::separation::{Solver, Solving};
use remat_formulations::search::term::Sum;
use remat_formulations::staged::joint::{Joint, supports};
use remat_formulations::staged::model::Linear;
use remat_formulations::staged::stages::Stages;
use remat_formulations::staged::starts::{Start, offer_starts};
use remat_formulations::staged::task::{Condition, Task};
use remat_formulations::{
    About, Answer, BudgetUse, Claim, Context, Limits, Method, MethodError, Parameters, SkipReason, Termination, find,
    setting, settings,
};

use crate::networks;

setting! {
    /// most later runs of all operators together
    pub Most("most"): number from 0 to 1_000_000 = 0
}

/// At most so many later runs.
struct FewRuns(u64);

impl Condition for FewRuns {
    fn constrain(&self, linear: &mut Linear<'_>) {
        let operators = linear.blocks.last().map_or(0, |block| block.last + 1);
        let mut runs = Sum::default();
        for block in 0..linear.blocks.len() {
            let all = (0..operators).map(|position| linear.runs_in(block, position));
            runs = all.fold(runs, |sum, run| sum.plus(1.0, &run));
        }
        linear.add_row(runs, (operators as u64 + self.0) as f64);
    }

    fn admit(&self, stages: &Stages) -> Result<(), String> {
        let runs = stages.later_runs().count() as u64;
        if runs <= self.0 { Ok(()) } else { Err(format!("{runs} later runs")) }
    }
}

struct Few;

impl Method for Few {
    fn about(&self) -> About {
        About {
            id: "few",
            title: "few later runs",
            reference: "none",
            parameters: settings![Most, Workspace, Solver],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::heuristic(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let (solving, task) = (Solving::new(context)?, tasks(context)?);
        let few = FewRuns(context.parameters.get::<Most>());
        context.answer_each(|index, budget| {
            let task = Task { condition: Some(&few), ..task(budget) };
            solve(context, index, &task, solving)
        });
        Ok(())
    }
}

fn solve(context: &Context<'_>, index: usize, task: &Task<'_>, solving: Solving) -> Result<Answer, MethodError> {
    if let Some(answer) = task.at_once() {
        return Ok(answer);
    }
    let (clock, began) = (Clock::start(context.limits.time), Instant::now());
    let incumbent = Incumbent::new(task, context.reporter, index, 0.0);
    offer_starts(context, &incumbent, Start::Auto, clock)?;
    let ended = search(&incumbent, solving, clock)?;
    answer(&incumbent, task.budget, ended, Duration::ZERO, began.elapsed())
}

fn answers(method: &dyn Method, given: &[(&str, u64)], instance: &Instance, budget: Option<u64>) -> Answer {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    let parameters = Parameters::new(method.about().parameters, &given).expect("its own");
    let budgets = [budget];
    let context = Context::new(instance, &parameters, &budgets, Limits { time: None, threads: 1, seed: 0 });
    method.answers(&context).expect("supported").remove(0)
}

/// Runs beyond the first of each operator.
fn later(answer: &Answer, instance: &Instance) -> u64 {
    let steps = &answer.schedule.as_ref().expect("a schedule").steps;
    let runs = steps.iter().filter(|step| matches!(step, Step::Compute { .. })).count();
    (runs - instance.operators().len()) as u64
}

#[test]
fn a_condition_on_stages_is_kept() {
    let checkmate = find("checkmate-ilp").expect("registered");
    let mut fewer = 0;
    for seed in networks::some_of(0..24) {
        let instance = networks::instance(seed);
        if supports(&instance).is_err() {
            continue;
        }
        for budget in networks::budgets(&Joint::new(&instance).expect("supported"), 3) {
            let best = answers(checkmate, &[], &instance, budget);
            let Some(claimed) = best.claimed.filter(|_| best.termination == Termination::Optimal) else { continue };
            let runs = later(&best, &instance);
            let same = answers(&Few, &[("most", runs)], &instance, budget);
            assert_eq!(same.claimed.map(|claimed| claimed.time), Some(claimed.time), "seed {seed}, {budget:?}");
            let Some(less) = runs.checked_sub(1) else { continue };
            let few = answers(&Few, &[("most", less)], &instance, budget);
            if few.schedule.is_some() {
                assert!(later(&few, &instance) <= less && few.claimed.is_some_and(|few| few.time >= claimed.time));
            }
            let none = answers(&Few, &[("most", 0)], &instance, budget);
            assert_eq!(none.termination, Termination::Infeasible, "seed {seed}, {budget:?}: {}", none.note);
            fewer += 1;
        }
    }
    assert!(fewer > 0, "no network needs a later run");
}
