//! Schedules to start from: store-all, greedy dropping, annealing, and what other methods say, as stages.

use std::collections::BTreeMap;
use std::time::Instant;

use remat_core::{Instance, Schedule, Step};

use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};
use crate::method::report::Silent;
use crate::method::{BudgetUse, Context, Limits, MethodError};
use crate::moccasin::greedy;
use crate::registry::find;

/// The parameter.
pub const START: ParameterSpec = ParameterSpec {
    name: "start",
    default: "auto",
    kind: ParameterKind::Choice(&[
        "auto",
        "none",
        "trivial",
        "greedy",
        "anneal",
        "chain",
        "rotor-weak",
        "ap-greedy",
        "linearized-greedy",
        "kusumoto-2019",
        "checkmate-rounding",
        "fastsa",
    ]),
    help: "the hint: trivial: store-all; greedy: drop and repeat; anneal: annealed later runs; chain: rotor-persistent; \
           others: that method's schedule, annealed where it exceeds the budget; auto: none as published, else greedy, chain and, where these find none, anneal",
};

/// A start, and what is to be said about it.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The stages; they may exceed the budget.
    pub stages: Option<Stages>,
    /// A few words, where they are needed.
    pub words: String,
}

/// The schedule of another method within a budget, in stages as far as that goes.
///
/// # Errors
/// The method fails.
pub fn of_method(
    id: &str,
    context: &Context<'_>,
    joint: &Joint,
    budget: Option<u64>,
    copies: u64,
) -> Result<Start, MethodError> {
    let id = if id == "chain" { "rotor-persistent" } else { id };
    let method = find(id).ok_or_else(|| MethodError::Internal(format!("start={id} is no registered method")))?;
    if let Err(why) = method.supports(context.instance) {
        return Ok(Start { stages: None, words: format!("no start: {id} does not support this instance: {why}; ") });
    }
    let parameters = Parameters::new(method.about().parameters, &BTreeMap::new())
        .map_err(|error| MethodError::Internal(format!("defaults of {id}: {error}")))?;
    let asked: &[Option<u64>] = if method.about().budgets == BudgetUse::Used { &[budget] } else { &[None] };
    // Some methods use all the time that they are given.
    let limits = Limits { time: context.limits.time.map(|time| time / 4), ..context.limits };
    let context = Context { parameters: &parameters, budgets: asked, limits, reporter: &Silent, ..*context };
    let answer = method.answers(&context)?.pop();
    let Some(schedule) = answer.and_then(|answer| answer.schedule) else {
        return Ok(Start { stages: None, words: format!("no start: {id} has no schedule within the budget; ") });
    };
    Ok(Start { stages: Some(follow(context.instance, joint, &schedule, copies)), words: String::new() })
}

/// What a schedule in any order says of later runs, said in stages: each later run goes to the stage of the
/// first run that follows it. A schedule in stages comes out as it is; of another one runs may be left
/// out, and it may need more memory.
pub fn follow(instance: &Instance, joint: &Joint, schedule: &Schedule, copies: u64) -> Stages {
    let mut position_of = vec![0; instance.operators().len()];
    for (position, operator) in joint.operators.iter().enumerate() {
        position_of[operator.id.index()] = position;
    }
    let mut stages = Stages::store_all(joint);
    let mut runs = vec![0_u64; joint.len()];
    let mut waiting: Vec<usize> = Vec::new();
    for step in &schedule.steps {
        let Step::Compute { operator, .. } = *step else { continue };
        let position = position_of[operator.index()];
        if runs[position] > 0 {
            waiting.push(position);
            continue;
        }
        runs[position] = 1;
        waiting.sort_unstable();
        waiting.dedup();
        for later in waiting.drain(..) {
            if later < position && runs[later] < copies && joint.operators[later].again.is_some() {
                runs[later] += 1;
                stages.runs[position].push(later);
            }
        }
        stages.runs[position].sort_unstable();
    }
    stages
}

/// Limits of a search for a start: a share of the time that is left.
pub fn limits(share: u32, limits: greedy::Limits) -> greedy::Limits {
    let now = Instant::now();
    let deadline = limits.deadline.map(|deadline| now + deadline.saturating_duration_since(now) / share);
    greedy::Limits { deadline, ..limits }
}
