//! `moccasin-reordered`: `fastsa` finds an order, `moccasin` the best schedule in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use remat_core::{Instance, OperatorId, Schedule, Step};
use remat_solvers::cp::CpBackend;

use super::job::Job;
use super::{COPIES, MEMORY, RELAXATION, SOLVER, STRATEGY, solver, starts};
use crate::checkmate::joint::Joint;
use crate::fastsa::FastSa;
use crate::method::parameters::{ParameterKind, ParameterSpec, Parameters};
use crate::method::report::{Progress, Reporter, Silent};
use crate::method::{About, Answer, BudgetUse, Claim, Context, Limits, Method, MethodError, SkipReason, Termination};

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
/// As `moccasin`; the annealing takes up to a quarter of the time for a budget.
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

const MUTATIONS: ParameterSpec = ParameterSpec {
    name: "mutations",
    default: "5000000",
    kind: ParameterKind::Integer { min: 0, max: 1_000_000_000_000 },
    help: "mutations of fastsa's first stage, on operators, at 5 times the published temperature; a fifth of it in the second",
};

impl Method for MoccasinReordered {
    fn id(&self) -> &'static str {
        "moccasin-reordered"
    }

    fn about(&self) -> About {
        About {
            title: "moccasin in an order that fastsa found first",
            claim: Claim::Heuristic,
            claim_text: "a legal schedule within the budget, or none; the best of the order found, where the note says so",
            reference: "Moccasin (Bartan et al., ICML 2023) after FastSA (Imanishi et al., NeurIPS 2023)",
            parameters: &[
                STRATEGY,
                SOLVER,
                MEMORY,
                COPIES,
                crate::checkmate::program::WORKSPACE,
                START,
                RELAXATION,
                MUTATIONS,
            ],
            budgets: BudgetUse::Used,
        }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Joint::new(instance)?;
        FastSa.supports(instance)
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solver = solver(context)?;
        context.answer_each(|index, _| budget(context, solver, index));
        Ok(())
    }
}

/// Only the order and its schedule are a start here.
const START: ParameterSpec = ParameterSpec {
    name: "start",
    default: "fastsa",
    kind: ParameterKind::Choice(&["fastsa"]),
    help: "the hint: the schedule that the order comes from",
};

fn budget(context: &Context<'_>, solver: &'static dyn CpBackend, index: usize) -> Result<Answer, MethodError> {
    let began = Instant::now();
    let time = context.limits.time;
    let deadline = time.map(|time| began + time);
    let first = annealed(context, index, time.map(|time| time / 4))?;
    let Some(schedule) = &first.schedule else {
        let note = format!("fastsa: {}", first.note);
        return Ok(Answer { note, solve: began.elapsed(), ..first });
    };
    let joint = Joint::in_order(context.instance, &order(context.instance, schedule)?)?;
    let copies = context.parameters.integer("copies").unwrap_or(2);
    let start = starts::follow(context.instance, &joint, schedule, copies);
    let quiet = Context { reporter: &WithoutBounds(context.reporter), ..*context };
    let job = Job::new(&quiet, &joint, solver, index, deadline).starting_from(start);
    let answer = job.answer(Duration::ZERO)?;
    Ok(merged(&first, &answer, began.elapsed()))
}

/// FastSA's answer to one budget: on operators, in the model of one implementation each.
fn annealed(context: &Context<'_>, index: usize, time: Option<Duration>) -> Result<Answer, MethodError> {
    let mutations = context.parameters.integer("mutations").unwrap_or(0);
    let given = [
        ("preset", "paper".to_owned()),
        ("objective", "elu".to_owned()),
        ("grouping", "off".to_owned()),
        ("early-stop", "off".to_owned()),
        ("implementations", "fastest".to_owned()),
        ("initial-ppm", "5000".to_owned()),
        ("iterations", mutations.to_string()),
        ("second-iterations", (mutations / 5).to_string()),
    ];
    let given: BTreeMap<String, String> = given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let parameters = Parameters::new(FastSa.about().parameters, &given)
        .map_err(|error| MethodError::Internal(format!("parameters of fastsa: {error}")))?;
    let budgets = &context.budgets[index..=index];
    let limits = Limits { time, ..context.limits };
    let context = Context { parameters: &parameters, budgets, limits, reporter: &Silent, ..*context };
    FastSa.answers(&context)?.pop().ok_or_else(|| MethodError::Internal("fastsa gave no answer to one budget".into()))
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
    let note = format!("{kept}{proved}{}; fastsa: {}", answer.note, first.note);
    let chosen = if better { answer } else { first };
    Answer {
        budget: answer.budget,
        termination,
        schedule: chosen.schedule.clone(),
        claimed: chosen.claimed,
        lower_bound: None,
        build: answer.build,
        solve: took.saturating_sub(answer.build),
        note,
    }
}

/// Every operator in the order of first runs; topological whatever the implementation of each.
fn order(instance: &Instance, schedule: &Schedule) -> Result<Vec<OperatorId>, MethodError> {
    let mut rank = vec![0; instance.operators().len()];
    for (at, step) in schedule.steps.iter().enumerate() {
        let Step::Compute { operator, .. } = *step else { continue };
        if rank[operator.index()] == 0 {
            rank[operator.index()] = at + 1;
        }
    }
    let mut waits = vec![0; instance.operators().len()];
    let mut next: Vec<Vec<OperatorId>> = vec![Vec::new(); instance.operators().len()];
    for id in instance.operator_ids() {
        let ways = &instance.operator(id).implementations;
        let reads = ways.iter().flat_map(|way| &way.reads);
        for producer in reads.filter_map(|&tensor| instance.tensor(tensor).producer) {
            waits[id.index()] += 1;
            next[producer.index()].push(id);
        }
    }
    let entry = |id: OperatorId, rank: &[usize]| (Reverse(rank[id.index()]), Reverse(id.index()), id);
    let free = instance.operator_ids().filter(|id| waits[id.index()] == 0);
    let mut ready: BinaryHeap<_> = free.map(|id| entry(id, &rank)).collect();
    let mut order = Vec::with_capacity(rank.len());
    while let Some((_, _, id)) = ready.pop() {
        order.push(id);
        for &reader in &next[id.index()] {
            waits[reader.index()] -= 1;
            if waits[reader.index()] == 0 {
                ready.push(entry(reader, &rank));
            }
        }
    }
    let all = order.len() == rank.len();
    all.then_some(order).ok_or_else(|| MethodError::Internal("the graph has a cycle over all implementations".into()))
}

/// Hands schedules on and keeps bounds back, which hold for one order only.
struct WithoutBounds<'a>(&'a dyn Reporter);

impl Reporter for WithoutBounds<'_> {
    fn report(&self, index: usize, progress: Progress) {
        self.0.report(index, Progress { lower_bound: None, ..progress });
    }

    fn answer(&self, _: usize, _: &Answer) {}
}
