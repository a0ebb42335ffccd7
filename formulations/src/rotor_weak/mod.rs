//! `rotor-weak`: sequences of a heterogeneous chain that need not be memory-persistent.

pub(crate) mod limits;
pub(crate) mod states;
pub mod table;
mod trace;

use remat_core::Instance;

use crate::chain_method::{self, ChainProgram};
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason};
use crate::rotor::ranges::Rule;

/// Sequences of a heterogeneous chain with floating materialised activations.
///
/// # Problem
/// REMAT(L, M) (Definition 3.5): the fastest valid sequence within M, persistent or not.
///
/// # Variables
/// C_FL(s, t, l, m), the least time to run the backwards of stages l to t from the input of stage s
/// within m slots beside it, S the number of slots; of the O(L^3 S) entries only those whose floating
/// activation can be of use (`states.rs`).
///
/// # Constraints
/// Theorem 4.7 (equations 1 to 5), its inner minimum over (r, s', t') separated into three over one
/// index each (`table.rs`).
///
/// # Size
/// Where activations shrink along the chain, as `rotor-persistent`; on a random chain ln L times as much;
/// at worst, where they grow, L^4 S / 12 min-plus operations and 4 L^3 S / 6 bytes.
///
/// # Departures from the paper
/// The printed recurrence never gives a floating activation up on the way to the backward that it serves,
/// and is not optimal without that; the memory of the forwards between r and s' counts the moved
/// activation, which the printed m_none does not. Both were found by an exhaustive search and are described
/// in METHODOLOGY.md. The rest as `rotor-persistent`.
///
/// # Claim
/// None of optimality: the paper claims the optimum over all sequences of the chain view, and even mended the
/// program misses it on about one small random chain in two thousand (a test has one). Never slower than
/// `rotor-persistent` with the same slots; a budget below what any sequence needs is proved infeasible.
///
/// # Reference
/// rotor-toms-2024, section 4.3, Algorithms 1 and 2.
pub struct RotorWeak;

impl Method for RotorWeak {
    fn id(&self) -> &'static str {
        "rotor-weak"
    }

    fn about(&self) -> About {
        About {
            title: "sequences of a heterogeneous chain with floating activations",
            claim: Claim::Heuristic,
            claim_text: "no slower than rotor-persistent; nearly always the best of all sequences, which is not proved",
            reference: "rotor-toms-2024, Theorem 4.7, Algorithms 1 and 2",
            parameters: chain_method::SLOTS,
            budgets: BudgetUse::Used,
        }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        chain_method::supports(instance)
    }

    fn solve(&self, context: &Context<'_>) -> Result<Vec<Answer>, MethodError> {
        ChainProgram::new(context)?.solve(context, Rule::Weak)
    }
}
