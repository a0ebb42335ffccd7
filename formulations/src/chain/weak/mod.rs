//! `rotor-weak`: the optimal weakly persistent sequence of a heterogeneous chain.

pub mod table;

use crate::chain::method::ChainRule;
use crate::chain::rule::Rule;
use crate::method::claim::Kept;

/// The optimal weakly persistent sequence of a heterogeneous chain, through floating materialised activations.
///
/// # Problem
/// REMAT(L, M) (Definition 3.5) restricted to weakly persistent sequences (Definition 4.3): while what `F_ck` or
/// `F_all` of a stage keeps is there, no forward before that stage runs; `F_none` or `B` of the stage end that.
/// What is kept is a stack then, and only its top, the floating activation, may move on or be given up.
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
/// * The printed recurrence never gives a floating activation up on the way to the backward that it serves, and is not optimal
///   without that. Here it may.
/// * The forwards between r and s' run beside the moved activation. They are checked so; the printed m_none leaves that out.
/// * Refining starts with the sequence of `rotor-persistent`, and stops before a table of more than 1.5 10^10 min-plus
///   operations. Everything else is as in `rotor-persistent`.
///
/// The first two are in docs/errata.md, with a counterexample and the search that found it.
///
/// # Claim
/// As `rotor-persistent`, over weakly persistent sequences of the chain view; never slower than it. The paper claims the
/// optimum of all sequences. That rests on its Lemma 4.4, which does not hold: docs/errata.md has two chains on which a
/// sequence that is not weakly persistent is faster.
/// # Reference
/// rotor-toms-2024, section 4.3, Algorithms 1 and 2.
pub struct RotorWeak;

impl ChainRule for RotorWeak {
    const ID: &'static str = "rotor-weak";
    const RULE: Rule = Rule::Weak;
    const KEPT: Kept = Kept::Weak;
    const TITLE: &'static str = "optimal sequence of a heterogeneous chain with floating activations";
    const REFERENCE: &'static str = "rotor-toms-2024, Theorem 4.7, Algorithms 1 and 2";
}
