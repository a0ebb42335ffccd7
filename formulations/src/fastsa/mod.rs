//! `fastsa`: simulated annealing over sequences of operators, on the joint graph of an instance.
//!
//! [`graph`], [`transfer`] and [`group`] make the nodes, [`state`] keeps a sequence with its memory ([`profile`],
//! [`times`]), [`propose`] and [`mutate`] draw and judge, [`anneal`] cools, [`run`] is one annealing, [`start`] where one may begin,
//! [`fit`] what other methods use, and this file answers budgets. Builds on the simulator's rules; what it returns is simulated
//! before it is claimed.

pub mod anneal;
pub mod answer;
pub mod fit;
pub mod graph;
pub mod group;
pub mod mutate;
pub mod objective;
pub mod profile;
pub mod propose;
pub mod run;
pub mod settings;
pub mod start;
pub mod state;
pub mod times;
pub mod transfer;

use remat_core::Instance;

use crate::method::claim::Implementations;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use answer::Sweep;
use graph::Operators;
use settings::{PARAMETERS, Settings};

/// Simulated annealing over schedules.
///
/// # Problem
/// Least f(S) = max(budget, M(S)) C(S) over all sequences S of nodes in which every input is produced
/// before it is read: any order, any number of recomputations.
///
/// # Variables
/// n_1, ..., n_T: a node or `nop` at each of T times. From them C(S), the sum of durations, and M(S), the
/// largest memory, by a segment tree over life intervals.
///
/// # Constraints
/// Section 2.2: a node is added where its inputs are produced before; removed where its outputs are produced
/// before or not read before they are produced again; and moved where both hold. What may not be
/// recomputed is only moved. docs/reference/model.md, "What a schedule means", beyond that: state is updated in
/// the first run and in no other; a buffer that is taken over is not read again.
///
/// # Size
/// T <= 16 n; O(log T + degree) per mutation. As many mutations as the time limit allows; without one 20 million,
/// as in the paper (which has 2 million more in its second stage), and 400,000 n below 50 operators.
///
/// # Departures from the paper
/// * A value is in memory while it is produced, as in the simulator. L_S as printed leaves that step out (docs/errata.md).
/// * What is not needed is left out first: the paper's dead code elimination.
/// * Workspace counts. A fifth mutation runs a step with another implementation, in-place ones included;
///   `implementations=fastest` is the paper's model.
/// * T follows the number of steps, which are spread evenly anew every 32 T mutations, so that memory stays proportional to the
///   graph. The paper's 1048576 were measured 1.4 to 2.5 times as slow, for cache misses. The temperature changes every 1024
///   mutations. The dynamic tree of appendix C.3 had half to three quarters of the speed (docs/findings/annealing.md).
/// * Algorithm 1 fuses a node only if every reader of its outputs takes part. As printed, a reader of one of two outputs would
///   lose its input (docs/errata.md). Outputs that nobody reads do not prevent it. Results are not fused away, what may not be
///   recomputed goes into one group only, and the operators of all groups are at most 16 times those of the graph.
/// * Stage two begins with the final temperature of the schedule of stage one, even where that ended early. The best schedule
///   seen within the budget is returned, not the last one. A budget that store-all meets needs no annealing.
/// * `preset=best`, the default, is not in the paper. Half of the proposals are drawn where they may be of use, and the
///   objective is that of footnote 2. It has four parts:
///   1. A short annealing of the operators in the given order, a tenth of the whole.
///   2. Where that misses the budget: groups, at most a tenth, until they meet it, and their operators, half as much. Not
///      beyond 2,000 operators (20,000 with `start=order`).
///   3. Where both miss it: the schedule that a search with prices finds (`staged/prices.rs`). Without one, a byte beyond the
///      budget counts six times.
///   4. One long annealing of the best of these, and a descent from the best schedule, a tenth.
///
///   Temperatures follow the share of the time limit that is over, or of the mutations where there is no limit or
///   `iterations` is given. `preset=paper` has the stages and values of appendix D.4.
/// * `reheats=k` anneals the best schedule k more times. `start=METHOD` and `start=prices` start from another schedule instead
///   of the first stage. Neither is in the paper.
/// * Offloading (B.3, `offload=RATE`): a fetch is a step of its own that may be anywhere after the value was made, not only
///   right before a reader as F_i is. "Flip fetch" adds it there, other mutations move it. Transfers overlap with nothing, as in
///   the paper's example of a cost.
/// # Claim
/// Heuristic. `infeasible` is proved: some operator that must run, or the results, need more by themselves.
///
/// # Reference
/// Imanishi, Xu, Takagi, Wang & Castillo, "A fast heuristic to optimize time-space tradeoff for large
/// models", `NeurIPS` 2023.
pub struct FastSa;

impl Method for FastSa {
    fn about(&self) -> About {
        About {
            id: "fastsa",
            title: "simulated annealing over order, recomputation and implementations",
            reference: "FastSA (Imanishi et al., NeurIPS 2023)",
            parameters: PARAMETERS,
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        let uses_alternatives = settings::uses_alternatives(parameters);
        let implementations = if uses_alternatives { Implementations::Chosen } else { Implementations::One };
        let transfers = parameters.get::<settings::Offload>() > 0;
        Claim::heuristic(Class { implementations, transfers, ..Class::ALL })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Operators::new(instance, true, None).map(|_| ())
    }

    fn is_random(&self, _: &Parameters) -> bool {
        true
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let settings = Settings::new(context.parameters);
        Sweep::new(context, settings)?.run();
        Ok(())
    }
}
