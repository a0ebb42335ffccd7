//! The methods `monet` and `monet-lp`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remat_core::Instance;

use crate::method::claim::{self, Class, Implementations, Memory, Order, Runs, Time};
use crate::method::formulation::{Encoding, Formulation};
use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason, Termination};
use crate::monet::bound::relax;
use crate::monet::encoding::encode;
use crate::monet::problem::{Modes, Problem, Rules};
use crate::monet::relaxation::Linear;
use crate::monet::settings::{Count, Gap, InPlace, Local, Mode, Recompute, Strategy};
use crate::monet::task::{Task, modes, rules};
use crate::search::clock::Clock;
use crate::search::driver::{Ended, answer, exactly, search};
use crate::search::incumbent::Incumbent;
use crate::search::problem::Staged;
use crate::search::separation::{Pass, Solver, Solving};
use crate::settings;

/// MONeT: checkpointing and implementations of operators in one integer program.
///
/// # Problem
/// Forward operators in their order, one value each; stage 0 is the forward pass, stage k recomputes some
/// operators in order and then runs the k-th backward operator. Least time within a budget over what is
/// recomputed, what is kept, and which implementation each run uses.
///
/// # Variables
/// r\[k,i\]: operator i runs in stage k. s\[k,i\]: its value is there when stage k begins (the paper's
/// s^{k-1} of the stage before). Implementations of forward runs, of the backward operator (the paper's
/// delta); q in place, p present (C.3); products of s and a backward implementation (C.4), as one column
/// per value: read by the chosen implementation and not kept.
///
/// # Constraints
/// Equations 7 and 8 with C.3 (`constraints.rs`), memory by equations 1, 5, 10 and 11 to 13 with the local
/// set bounded as in Appendix B (`memory.rs`), the objective (9) in `layout.rs`.
///
/// # Size
/// O(n^2) columns and O(n^2) memory rows of O(n) terms each, of which `strategy=lazy` needs a few hundred. Over b
/// blocks of stages (`strategy=coarse`) O(b n) columns.
///
/// # Departures from the paper
/// * What no later backward operator can need is fixed at 0; dominated implementations are left out;
///   memory rows that cannot bind are left out; with `strategy=lazy` the others come when violated.
/// * In place (15): p + q <= 1 and s + q <= 1 instead of coefficients 2, the same in whole numbers; what
///   is overwritten is read by no later node of the stage.
/// * An implementation that saves something extra (a mask) is a node that runs with its parent, beside the
///   parent's inputs; as released those inputs are not counted, and such a schedule may need more than
///   its budget, which the simulator then says, and it is not returned.
/// * All outputs of one operator are kept or dropped together; outputs of the network stay.
/// * `local=dot` takes only readers that can run in that stage, which is within the paper's L-dot.
/// * `strategy=coarse` begins with a relaxation over blocks of stages, which is not in the paper.
/// * `recompute=off` chooses implementations alone.
/// * `rules=as-released` counts as the authors' program does: KiB and 0.01 ms, rounded up one by one; what
///   the backward operator needs is counted beside the local set, too; the loss counts as a gradient.
///   A view out of place (flatten) takes memory here and none there.
///
/// # Claim
/// Optimal among schedules in such stages whose memory by these bounds is within the budget (as released:
/// in the units above), within the solver's tolerances; bounds from relaxations hold in exact arithmetic.
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
/// As [`Monet`]; memory rows as they are violated.
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
    let is = |name: &str, word: &str| parameters.word(name) == word;
    let released = is("rules", "as-released");
    let modes = parameters.word("modes").parse().unwrap_or(claim::Modes::All);
    let in_place = is("in-place", "on");
    Class {
        order: Order::Passes,
        runs: if is("recompute", "on") { Runs::Any } else { Runs::AtMost(1) },
        implementations: match (modes, in_place) {
            (claim::Modes::All, true) => Implementations::Chosen,
            _ => Implementations::Modes { modes, in_place },
        },
        memory: match parameters.word("local") {
            _ if released => Memory::Released,
            "bar" => Memory::LocalBar,
            _ => Memory::LocalDot,
        },
        time: if released { Time::Released } else { Time::Passes },
        ..Class::ALL
    }
}

fn supports(instance: &Instance) -> Result<(), SkipReason> {
    let modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };
    Problem::new(instance, modes, Rules { released: false, tight_local: false }).map(|_| ())
}

impl Formulation for Monet {
    fn encode<'a>(
        &self,
        instance: &'a Instance,
        parameters: &Parameters,
        budget: Option<u64>,
    ) -> Result<Box<dyn Encoding + 'a>, MethodError> {
        encode(instance, parameters, budget, false)
    }
}

impl Method for Monet {
    fn id(&self) -> &'static str {
        "monet"
    }

    fn about(&self) -> About {
        About {
            title: "checkpointing and operator implementations in one integer program",
            reference: "MONeT (Shah et al., ICLR 2021), equations 1 to 16, appendices B and C",
            parameters: settings![Mode, InPlace, Recompute, Local, Count, Strategy, Solver, Gap],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::optimum(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn formulation(&self) -> Option<&dyn Formulation> {
        Some(self)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solving = Solving::new(context)?;
        let problem = Arc::new(Problem::new(context.instance, modes(context), rules(context))?);
        context.answer_each(|index, budget| {
            solve(context, index, budget, &Task::new(context.instance, &problem, budget), solving)
        });
        Ok(())
    }
}

fn solve(
    context: &Context<'_>,
    index: usize,
    budget: Option<u64>,
    task: &Task<'_>,
    solving: Solving,
) -> Result<Answer, MethodError> {
    let (clock, began) = (Clock::start(context.limits.time), Instant::now());
    let gap = context.parameters.get::<Gap>() as f64 * 1e-6;
    let incumbent = Incumbent::new(task, context.reporter, index, gap);
    if let Some(store_all) = task.store_all() {
        incumbent.offer(store_all)?;
    }
    if incumbent.is_enough() {
        let note = "nothing recomputed; no solver asked".into();
        return worded(&incumbent, budget, Ended { stop: None, note }, began.elapsed(), Duration::ZERO);
    }
    let (mut build, mut linear) = (Duration::ZERO, None);
    let strategy = context.parameters.get::<Strategy>();
    if strategy != Strategy::Coarse {
        let mut exact = Linear::new(&task.problem, task.capacity);
        if strategy == Strategy::Plain {
            exact.add_all();
        } else {
            exact.add_usual();
        }
        (build, linear) = (began.elapsed(), Some(exact));
    }
    let from = if strategy == Strategy::Plain { Pass::Whole } else { Pass::Relaxed };
    let ended = match linear {
        Some(linear) => exactly(&incumbent, linear, from, solving, clock)?,
        None => search(&incumbent, solving, clock)?,
    };
    worded(&incumbent, budget, ended, build, began.elapsed().saturating_sub(build))
}

/// The answer, with objective and bound in the program's own unit in its note: as released no other has a bound.
fn worded(
    incumbent: &Incumbent<'_, Task<'_>>,
    budget: Option<u64>,
    mut ended: Ended,
    build: Duration,
    solve: Duration,
) -> Result<Answer, MethodError> {
    let objective = incumbent.time().map_or("none".into(), |time| time.to_string());
    ended.note = format!("objective {objective}, bound {}; {}", incumbent.bound(), ended.note);
    answer(incumbent, budget, ended, build, solve)
}

impl Formulation for MonetLp {
    fn encode<'a>(
        &self,
        instance: &'a Instance,
        parameters: &Parameters,
        budget: Option<u64>,
    ) -> Result<Box<dyn Encoding + 'a>, MethodError> {
        encode(instance, parameters, budget, true)
    }
}

impl Method for MonetLp {
    fn id(&self) -> &'static str {
        "monet-lp"
    }

    fn about(&self) -> About {
        About {
            title: "the linear relaxation of monet, a bound",
            reference: "MONeT (Shah et al., ICLR 2021), equations 1 to 16, appendices B and C",
            parameters: settings![Mode, InPlace, Recompute, Local, Count, Solver],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        Claim::bound(class(parameters))
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        supports(instance)
    }

    fn formulation(&self) -> Option<&dyn Formulation> {
        Some(self)
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let solving = Solving::new(context)?;
        let problem = Arc::new(Problem::new(context.instance, modes(context), rules(context))?);
        context.answer_each(|index, budget| {
            let (clock, began) = (Clock::start(context.limits.time), Instant::now());
            let task = Task::new(context.instance, &problem, budget);
            let incumbent = Incumbent::new(&task, context.reporter, index, 0.0);
            let ended = relax(&incumbent, solving, clock)?;
            let answer = worded(&incumbent, budget, ended, Duration::ZERO, began.elapsed())?;
            let termination = match answer.termination {
                Termination::NotFound => Termination::BoundOnly,
                other => other,
            };
            Ok(Answer { termination, ..answer })
        });
        Ok(())
    }
}
