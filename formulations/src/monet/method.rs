//! The methods `monet` and `monet-lp`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remat_core::Instance;

use crate::method::claim::{Class, Implementations, Memory, Order, Runs, Time};
use crate::method::formulation::Encode;
use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason, Termination};
use crate::monet::bound::relax;
use crate::monet::encoding::encode;
use crate::monet::released;
use crate::monet::released::problem::Problem;
use crate::monet::settings::{InPlace, Mode, Recompute, Rules, Strategy, modes};
use crate::monet::task::Task;
use crate::search::clock::Clock;
use crate::search::driver::{Ended, answer, search_or_solve};
use crate::search::incumbent::{Gap, Incumbent};
use crate::search::problem::Staged;
use crate::search::separation::{Relaxation, Solver, Solving};
use crate::staged::graph::Graph;
use crate::staged::joint::{Joint, is_within_reach};
use crate::staged::stages::Stages;
use crate::staged::starts::{Start, offer_starts};
use crate::{settings, staged};

/// MONeT: checkpointing and implementations of operators in one integer program.
///
/// # Problem
/// Forward and backward operators in the instance's order; stage t runs some earlier operators again, in order, and then
/// operator t for the first time. Least time within a budget over what is recomputed, what is kept, and which
/// implementation each run uses.
///
/// # Variables
/// r\[t,i,w\]: operator i runs in stage t by implementation w (the paper's r and delta in one). s\[t,a\]: tensor a is
/// there when stage t begins (the paper's s^{t-1}). Over single stages also m: the larger of two sums of these, so that a
/// tensor is there while some later operator of its stage reads it, or while it is kept.
///
/// # Constraints
/// Equations 7 and 8: what runs finds what its implementation reads, kept or made in the stage; what is kept was. One
/// implementation of each run (C.2). What an implementation overwrites (C.3) is read by nothing later in the stage and not
/// kept. Memory during each run (`staged/model/`).
///
/// # Size
/// O(n^2) columns for each implementation and tensor, O(n^2) memory rows, of which a few hundred are violated. Over b blocks
/// of stages (`strategy=coarse`) O(b n) columns.
///
/// # Departures from the paper
/// * `rules=exact`, the default: stages before every operator, where the paper has the forward pass as one; memory as the
///   simulator counts it, where the paper bounds what is local from above (Appendix B, L-bar and L-dot); s for each tensor,
///   where the paper keeps or drops the outputs of an operator together; any operator that may runs again.
///   docs/findings/monet.md says what each of these brings.
/// * `rules=as-released` is the authors' program in its own units, KiB and 0.01 ms, each number rounded up. An implementation
///   that saves something extra (a mask) is a node that runs with its parent, and the parent's inputs are not counted beside
///   it. What the backward operator needs is counted beside the local set (L-bar), too. The loss counts as a gradient. A
///   schedule of it may need more than its budget, which the simulator says, and it is not returned.
/// * Dominated implementations are left out; `strategy=coarse` begins with a relaxation over blocks of stages, which is not
///   in the paper, and with the starts of `checkmate-ilp`, or, within `auto`, with the best schedule so far and its
///   implementations. It adds memory rows when they are violated.
/// * `modes` leaves the implementations that the paper's ablation has beside the one that an operator has without
///   alternatives, the same as `checkmate-ilp`'s. `recompute=off` chooses implementations alone.
///
/// # Claim
/// Optimal among schedules in such stages, within 10^-6 of the time; so never behind `checkmate-ilp` once both are
/// proved. As released: among schedules of that program, in its units. `strategy=plain` counts memory in units of
/// 2^-26 of the budget, rounded down: where its solution exceeds the budget by less than that, it has a bound alone.
///
/// # Reference
/// Shah et al., "Memory Optimization for Deep Networks", ICLR 2021, sections 3 and 4, appendices B and C.
pub struct Monet;

/// The relaxation of [`Monet`]: a bound.
///
/// # Problem
/// As [`Monet`], without integrality.
///
/// # Variables
/// As [`Monet`], from 0 to 1.
///
/// # Constraints
/// As [`Monet`]; memory rows and rows of paths (`search/paths.rs`) as they are violated.
///
/// # Size
/// As [`Monet`].
///
/// # Departures from the paper
/// The paper has no relaxation of its own; the bound comes from the multipliers of an interior-point
/// solution, in arithmetic with bounded rounding errors.
///
/// # Claim
/// A lower bound on the time of every schedule of [`Monet`]'s class within the budget.
///
/// # Reference
/// As [`Monet`].
pub struct MonetLp;

/// The schedules that are searched.
fn class(parameters: &Parameters) -> Class {
    let released = parameters.get::<Rules>() == Rules::AsReleased;
    let counted = if released {
        Class { order: Order::Passes, memory: Memory::Released, time: Time::Released, ..Class::ALL }
    } else {
        Class { order: Order::Stages, ..Class::ALL }
    };
    Class {
        runs: if parameters.get::<Recompute>() { Runs::Any } else { Runs::AtMost(1) },
        implementations: match (parameters.get::<Mode>(), parameters.get::<InPlace>()) {
            (Mode::All, true) => Implementations::Chosen,
            (modes, in_place) => Implementations::Modes { modes, in_place },
        },
        ..counted
    }
}

impl Method for Monet {
    fn about(&self) -> About {
        About {
            id: "monet",
            title: "checkpointing and operator implementations in one integer program",
            reference: "MONeT (Shah et al., ICLR 2021), equations 1 to 16, appendices B and C",
            parameters: settings![Mode, InPlace, Recompute, Rules, Strategy, Solver, Gap],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::optimum(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        is_within_reach(instance)
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn formulation(&self) -> Option<Encode> {
        Some(|instance, parameters, budget| encode(instance, parameters, budget, false))
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        answer_each(context, false)
    }
}

/// Answers all budgets by the rules that are asked for: with schedules, or from the relaxation alone.
fn answer_each(context: &Context<'_>, relaxed: bool) -> Result<(), MethodError> {
    let solving = Solving::new(context)?;
    let modes = modes(context.parameters);
    if context.parameters.get::<Rules>() == Rules::AsReleased {
        let problem = Arc::new(Problem::new(context.instance, modes)?);
        context.answer_each(|index, budget| {
            let task = released::task::Task::new(context.instance, &problem, budget);
            if relaxed {
                return bound(context, index, budget, &task, solving);
            }
            let from = |incumbent: &Incumbent<'_, released::task::Task<'_>>| {
                let store_all = task.store_all().filter(|store_all| task.fits(store_all));
                store_all.map_or(Ok(false), |store_all| incumbent.offer(store_all)).map(drop)
            };
            solve(context, index, budget, &task, solving, from)
        });
        return Ok(());
    }
    let graph = Graph::new(context.instance, modes);
    let recomputed = (modes.recompute && !relaxed).then(|| Joint::new(context.instance).ok());
    let joint = recomputed.flatten().map(Arc::new);
    context.answer_each(|index, budget| {
        if budget.is_some_and(|budget| budget < graph.base_bytes) {
            let note = format!("{} is always there; no solver asked", graph.base_bytes);
            return Ok(Answer { note, ..Answer::without_schedule(budget, Termination::Infeasible) });
        }
        let one = joint.as_ref().map(|joint| one(context.instance, joint, budget));
        let task = Task { instance: context.instance, graph: &graph, budget, one };
        if relaxed {
            return bound(context, index, budget, &task, solving);
        }
        let from = |incumbent: &Incumbent<'_, Task<'_>>| start(context, index, &task, incumbent);
        solve(context, index, budget, &task, solving, from)
    });
    Ok(())
}

/// A budget with one implementation per operator.
fn one<'a>(instance: &'a Instance, joint: &Arc<Joint>, budget: Option<u64>) -> staged::task::Task<'a> {
    staged::task::Task::new(instance, Arc::clone(joint), budget)
}

/// Offers what is known without a search of its own: keeping everything, and what other methods have found for the budget, or
/// else what one implementation per operator starts from.
fn start(
    context: &Context<'_>,
    index: usize,
    task: &Task<'_>,
    incumbent: &Incumbent<'_, Task<'_>>,
) -> Result<(), MethodError> {
    let clock = Clock::start(context.limits.time);
    // Where that takes long it is tried if it fits with one implementation per operator.
    let hopeful = |one: &staged::task::Task<'_>| !task.is_large() || one.meets(&Stages::store_all(&one.joint));
    if task.one.as_ref().is_none_or(hopeful)
        && let Some(store_all) = task.store_all().filter(|plan| task.fits(plan))
    {
        incumbent.offer(store_all)?;
    }
    let known = context.starts.known().and_then(|schedule| task.follow(&schedule));
    if let Some(known) = known.filter(|plan| task.fits(plan)) {
        return incumbent.offer(known).map(drop);
    }
    let Some(one) = task.one.as_ref().filter(|_| !incumbent.is_done()) else { return Ok(()) };
    if let Some(known) = one.at_once() {
        let store_all = known.schedule.and_then(|_| task.lift(&one.joint, &Stages::store_all(&one.joint)));
        return store_all.map_or(Ok(()), |store_all| incumbent.offer(store_all).map(drop));
    }
    // Its schedules are of this problem, too, so they are reported as they come.
    let beside = Incumbent::new(one, context.reporter, index, 0.0);
    offer_starts(context, &beside, Start::Auto, clock.without(2 * task.lifting()))?;
    let found = beside.best().and_then(|best| task.lift(&one.joint, &best));
    found.map_or(Ok(false), |found| incumbent.offer(found)).map(drop)
}

/// Searches by the strategy that is asked for, from what there is to start from, with the exact model where it comes first.
fn solve<'p, P: Staged>(
    context: &Context<'p>,
    index: usize,
    budget: Option<u64>,
    task: &'p P,
    solving: Solving,
    start: impl FnOnce(&Incumbent<'p, P>) -> Result<(), MethodError>,
) -> Result<Answer, MethodError> {
    let (clock, began) = (Clock::start(context.limits.time), Instant::now());
    let gap = context.parameters.get::<Gap>() as f64 * 1e-6;
    let incumbent = Incumbent::new(task, context.reporter, index, gap);
    start(&incumbent)?;
    if incumbent.is_enough() {
        let note = "nothing recomputed; no solver asked".into();
        return worded(&incumbent, budget, Ended { stop: None, note }, began.elapsed(), Duration::ZERO);
    }
    let complete = || {
        let mut exact = task.exact();
        exact.complete();
        exact
    };
    let whole = (context.parameters.get::<Strategy>() == Strategy::Plain).then_some(complete);
    let (ended, build) = search_or_solve(&incumbent, whole, solving, clock)?;
    worded(&incumbent, budget, ended, build, began.elapsed().saturating_sub(build))
}

/// The answer, with objective and bound in the program's own unit in its note: as released no other has a bound.
fn worded<P: Staged>(
    incumbent: &Incumbent<'_, P>,
    budget: Option<u64>,
    mut ended: Ended,
    build: Duration,
    solve: Duration,
) -> Result<Answer, MethodError> {
    let objective = incumbent.time().map_or("none".into(), |time| time.to_string());
    ended.note = format!("objective {objective}, bound {}; {}", incumbent.bound(), ended.note);
    answer(incumbent, budget, ended, build, solve)
}

impl Method for MonetLp {
    fn about(&self) -> About {
        About {
            id: "monet-lp",
            title: "the linear relaxation of monet, a bound",
            reference: "MONeT (Shah et al., ICLR 2021), equations 1 to 16, appendices B and C",
            parameters: settings![Mode, InPlace, Recompute, Rules, Solver],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::bound(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        is_within_reach(instance)
    }

    fn formulation(&self) -> Option<Encode> {
        Some(|instance, parameters, budget| encode(instance, parameters, budget, true))
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        answer_each(context, true)
    }
}

fn bound<P: Staged>(
    context: &Context<'_>,
    index: usize,
    budget: Option<u64>,
    task: &P,
    solving: Solving,
) -> Result<Answer, MethodError> {
    let (clock, began) = (Clock::start(context.limits.time), Instant::now());
    let incumbent = Incumbent::new(task, context.reporter, index, 0.0);
    let ended = relax(&incumbent, solving, clock)?;
    let answer = worded(&incumbent, budget, ended, Duration::ZERO, began.elapsed())?;
    let termination = match answer.termination {
        Termination::NotFound => Termination::BoundOnly,
        other => other,
    };
    Ok(Answer { termination, ..answer })
}
