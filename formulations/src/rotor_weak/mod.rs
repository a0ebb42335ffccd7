//! `rotor-weak`: the true optimum of a heterogeneous chain.

pub mod least;
pub mod table;
mod tetrahedron;
mod trace;

use remat_core::Instance;

use crate::chain_method::{self, ChainProgram};
use crate::method::{About, Answer, BudgetUse, Claim, Context, Method, MethodError, SkipReason};
use crate::rotor::ranges::Rule;
pub use tetrahedron::Tetrahedron;

/// The optimal sequence of a heterogeneous chain, through floating materialised activations.
///
/// # Problem
/// REMAT(L, M) (Definition 3.5): the fastest valid sequence within M, persistent or not.
///
/// # Variables
/// C_FL(s, t, l, m), the least time to run the backwards of stages l to t from the input of stage s
/// within m slots beside it; O(L^3 S) entries, S the number of slots.
///
/// # Constraints
/// Theorem 4.7 (equations 1 to 5), its inner minimum over (r, s', t') separated into three over one
/// index each (`table.rs`).
///
/// # Size
/// About L^4 S / 12 min-plus operations and 4 L^3 S / 6 bytes; tables beyond 16 GiB are refused.
///
/// # Departures from the paper
/// The printed recurrence lacks the case s < t = l and is not optimal without it; the memory of the
/// forwards between r and s' counts the moved activation, which the printed m_none does not. Both were
/// found by an exhaustive search and are described in METHODOLOGY.md. The rest as `rotor-persistent`.
///
/// # Claim
/// No slower than the optimum over all sequences of the chain view (deleting a stage's input while
/// keeping what the stage saved is not one of their operations) when sizes are rounded up to slots.
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
            title: "optimal sequence of a heterogeneous chain, persistent or not",
            claim: Claim::Chain,
            claim_text: "optimal (or better) among all sequences of the chain view with sizes rounded up to slots",
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
