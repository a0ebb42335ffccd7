//! `oracle`: the true optimum of small instances, by uniform-cost search over what is resident.
//!
//! [`problem`] turns an instance into bit masks, [`mod@search`] answers one budget. Uses the simulator's
//! rules and nothing of any other method, so that every other method can be tested against it.

pub mod problem;
pub mod search;

use std::time::Instant;

use remat_core::Instance;
use remat_core::liveness::with_liveness;

use crate::method::claim::{self, Class, Implementations, Runs};
use crate::method::parameters::{ParameterKind, Parameters};
use crate::method::setting::Setting;
use crate::method::{About, Answer, BudgetUse, Claim, Claimed, Context, Method, MethodError, SkipReason, Termination};
use crate::{setting, settings};
use problem::{MAX_COPIES, Order, Problem, Rules};
use search::{Bounds, End, Search, search};

/// The fastest schedule there is within a budget.
///
/// # Problem
/// Of all schedules that the simulator accepts and whose peak is within the budget, one of least
/// time: any order, any number of recomputations, any implementation of each run, in-place ones
/// included, exact bytes.
///
/// # Variables
/// A state is the set of resident tensors and the set of operators that have run, the latter only of
/// operators for which it matters: those that must run, may not run again, or update state. With
/// `order=fixed` or `stages`, or a number of `copies`, of all operators; then also how often each ran, or which
/// one ran again last since the last first run.
///
/// # Constraints
/// docs/reference/model.md, "What a schedule means". With `order=fixed` also: every operator runs, the first
/// runs of all operators happen in the instance's order (so do the backwards, which run once), and
/// between them operators that have run already and may run again do so in any order and number. With
/// `order=stages` they do so in the instance's order, each once between two first runs, as in Checkmate's stages. With
/// `copies=C` no operator runs more than C times. With `implementations=one` each operator runs in the implementation
/// that Checkmate and Moccasin fix for it.
///
/// # Size
/// Up to 2^tensors states. Tensors are dropped only to make room, and then no more of them than must
/// be. A state is left out when another with the same progress holds a superset at no greater time.
/// The search is led by a consistent bound, the least times of the operators that still have to
/// run: those that must, and the makers of what they read and is not there. A dozen operators take
/// milliseconds to seconds, depending on the budget and on how many implementations there are.
///
/// # Departures from the paper
/// None: there is no paper.
///
/// # Claim
/// Optimal among all schedules (with parameters: among those described above). `infeasible` is proved.
/// At a limit, the bound reached is given.
///
/// # Reference
/// Hart, Nilsson & Raphael, "A formal basis for the heuristic determination of minimum cost paths",
/// IEEE Transactions on Systems Science and Cybernetics 1968 (A*, consistent bounds).
pub struct Oracle;

setting! {
    /// most runs of one operator; auto: any number
    Copies("copies"): auto or number from 1 to 16
}
const _: () = assert!(
    matches!(Copies::SPEC.kind, ParameterKind::IntegerOrAuto { max: MAX_COPIES, .. }),
    "states count as many runs as may be asked for"
);

setting! {
    /// chosen: any, for each run anew; one: each operator its fastest that is consistent, as Checkmate and Moccasin
    pub enum Uses("implementations") = Chosen { Chosen = "chosen", One = "one" }
}

setting! {
    /// states per budget (about 150 bytes each) after which the search stops
    MaxStates("max-states"): number from 1 to 4_000_000_000 = 5000000
}

impl Method for Oracle {
    fn about(&self) -> About {
        About {
            id: "oracle",
            title: "the true optimum of small instances, by search",
            reference: "uniform-cost search with a consistent bound (A*: Hart, Nilsson & Raphael 1968)",
            parameters: settings![Order, Copies, Uses, MaxStates],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        let rules = rules(parameters);
        Claim::optimum(Class {
            order: match rules.order {
                Order::Free => claim::Order::Free,
                Order::Fixed => claim::Order::Given,
                Order::Stages => claim::Order::Stages,
            },
            runs: rules.copies.map_or(Runs::Any, |copies| Runs::AtMost(copies.into())),
            implementations: if rules.one_implementation { Implementations::One } else { Implementations::Chosen },
            ..Class::ALL
        })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Problem::new(instance, Rules { order: Order::Free, copies: None, one_implementation: false }).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let started = Instant::now();
        let problem = Problem::new(context.instance, rules(context.parameters))?;
        let states = context.parameters.get::<MaxStates>();
        let mut build = started.elapsed();
        context.answer_each(|_, budget| {
            let began = Instant::now();
            let bounds = Bounds { deadline: context.limits.deadline(began), states };
            let answer = answer(&problem, budget, bounds)?;
            Ok(Answer { build: std::mem::take(&mut build), solve: began.elapsed(), ..answer })
        });
        Ok(())
    }
}

/// The rules that parameters ask for.
fn rules(parameters: &Parameters) -> Rules {
    Rules {
        order: parameters.get::<Order>(),
        copies: parameters.get::<Copies>().and_then(|copies| u8::try_from(copies).ok()),
        one_implementation: parameters.get::<Uses>() == Uses::One,
    }
}

fn answer(problem: &Problem<'_>, budget: Option<u64>, bounds: Bounds) -> Result<Answer, MethodError> {
    let Search { end, bound, states } = search(problem, budget.unwrap_or(u64::MAX), bounds);
    let (termination, lower_bound) = match end {
        End::Optimal(_) => (Termination::Optimal, Some(bound)),
        End::Infeasible => (Termination::Infeasible, None),
        End::TimeLimit => (Termination::TimeLimit, Some(bound)),
        End::StateLimit => (Termination::NodeLimit, Some(bound)),
    };
    let mut answer =
        Answer { lower_bound, note: format!("{states} states"), ..Answer::without_schedule(budget, termination) };
    if let End::Optimal(computes) = &end {
        let schedule = with_liveness(problem.instance, computes);
        answer.claimed = Some(Claimed { time: bound, ..Claimed::simulated(problem.instance, &schedule)? });
        answer.schedule = Some(schedule);
    }
    Ok(answer)
}
