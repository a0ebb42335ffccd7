//! `xla-greedy`: the pass with which XLA makes a sequence of instructions fit a memory limit.

mod pass;

use super::planner::Planner;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Class, Context, MethodError, SkipReason};
use crate::search::sweep::{Sweep, Tries};
use crate::staged::joint::Joint;
use crate::{setting, settings};
use pass::Pass;
use remat_core::Instance;
use remat_core::liveness::with_liveness;

/// XLA's rematerialization pass: where memory exceeds the limit, what frees most of it runs again later.
///
/// # Problem
/// Operators are placed one by one in the instance's order. While the memory of the operator in progress is above the limit,
/// an operator placed before is chosen: everything that still wants its results reads a copy of it instead, which runs right
/// before the first of them. How long it takes is no part of the rule.
///
/// # Variables
/// Per candidate its cost, limit / bytes freed, in whole numbers; 0 where nobody has read its results yet, for then it is moved and
/// not repeated. Freed are its results that are still wanted, less what it reads and is gone. The candidate of the least
/// cost is taken, and of equal ones the first in the sequence.
///
/// # Constraints
/// * What the operator in progress reads stays, and so do results of the iteration. A candidate frees at least one byte.
/// * The copy runs before the first reader of its results, and before every later reader of what it reads, so
///   that this stays no longer than without it. A copy may be chosen in its turn; what is moved twice is left alone from then on.
/// * Without a candidate, runs of consecutive operators are looked at, of twice the length each time, up to `block`. The search for
///   them ends when it has looked at as many as there were single candidates.
/// * `mode=always` takes places above the limit as they come. `mode=peak` takes the place of the highest peak only, until
///   it is lower, and begins anew. Its costs are those of a limit of at least 1 GiB, it repeats no copy, and it puts a copy after readers of
///   what it reads where that is smaller than what it makes.
///
/// # Size
/// Each choice looks at all operators placed so far.
///
/// # Departures from the paper
/// * Parameters and inputs are there all the time, as in XLA. XLA's caller allocates the results, so that it counts them from
///   the start; here they count from when they are made. Workspace counts while its operator runs.
/// * A value has one copy at a time: where XLA would keep an old copy beside a new one, the new one serves.
/// * An operator that may not run again in the instance can be moved and nothing else. Random operators run again with the
///   generator's state, as JAX's do.
/// * XLA fuses before this pass, and its GPU compiler has turned products, convolutions and attention into library calls,
///   which the pass leaves alone; `library-calls=off` leaves them alone here.
/// * XLA's other ways to free memory, compact layouts and copies to the host, are not here. The GPU compiler does not use them.
/// * XLA gives up above the limit; such a schedule counts for the budgets that it meets. More memory may be worse for
///   the rule: it is told of `tries` limits, from the given one down in steps of 1 % of it, and the fastest schedule counts. One
///   try is XLA's pass. A run that places 20 times as many operators as there are ends without a schedule.
///
/// # Claim
/// Heuristic.
///
/// # Reference
/// `OpenXLA`, `xla/hlo/transforms/simplifiers/hlo_rematerialization.cc`.
pub struct XlaGreedy;

setting! {
    /// where it looks for what to repeat: at each place above the limit in turn, or at the highest peak only
    pub enum Mode("mode") = Always { Always = "always", Peak = "peak" }
}

setting! {
    /// most consecutive operators that are repeated together; 1 is the GPU compiler's
    pub Block("block"): number from 1 to 1_000 = 1
}

setting! {
    /// whether matrix products, convolutions and attention may run again; off: as in XLA's GPU compiler, to which they are library calls
    pub LibraryCalls("library-calls"): switch = on
}

impl Planner for XlaGreedy {
    const CLASS: Class = Class { order: crate::method::claim::Order::Free, ..Class::STAGES };
    type View<'a> = Joint;

    fn about(&self) -> About {
        About {
            id: "xla-greedy",
            title: "where memory exceeds the limit, what frees most of it runs again later",
            reference: "OpenXLA, xla/hlo/transforms/simplifiers/hlo_rematerialization.cc",
            parameters: settings![Mode, Block, LibraryCalls, Tries],
            budgets: BudgetUse::Used,
        }
    }

    fn view(&self, instance: &Instance, _: &Parameters) -> Result<Joint, SkipReason> {
        Joint::new(instance)
    }

    fn plan(&self, joint: Joint, context: &Context<'_>) -> Result<(), MethodError> {
        let parameters = context.parameters;
        let mode = parameters.get::<Mode>();
        let block = parameters.count::<Block>();
        let library_calls = parameters.get::<LibraryCalls>();
        Sweep::told(context, |bytes, clock| {
            let mut pass = Pass::new(context.instance, &joint, library_calls);
            pass.run(mode, bytes.saturating_sub(joint.base_bytes), block, clock)?;
            Ok(with_liveness(context.instance, &pass.computes()))
        })
    }
}
