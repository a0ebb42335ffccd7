//! `rotor-persistent`, and the table that `revolve` shares with it.

pub mod table;

use crate::chain::method::ChainRule;
use crate::chain::rule::Rule;
use crate::method::claim::Kept;

/// The optimal memory-persistent sequence of a heterogeneous chain.
///
/// # Problem
/// REMAT(L, M) restricted to memory-persistent sequences (Definitions 3.5 and 4.1): once a stage is
/// run with `F_ck` or `F_all`, what it keeps stays until the stage's backward.
///
/// # Variables
/// C(s, t, m), the least time to run the backwards of stages t to s from the input of s within m
/// slots beside that input; O(L^2 S) entries, S the number of slots.
///
/// # Constraints
/// Theorem 4.8 (equations 6 and 7) with m_all = max(w_delta^t + w_abar^s + o_f^s, w_delta^s +
/// w_delta^{s-1} + w_abar^s + o_b^s); the printed text shows w_a^s for w_abar^s in places, and
/// Theorem 1 of RR-9302 lacks w_delta^{s-1}.
///
/// # Size
/// L^3 S / 6 min-plus operations, less what `ranges` proves unnecessary; 4 bytes a cell, 8 when
/// makespans exceed 2^31.
///
/// # Departures from the paper
/// * The number of slots is not given (`slots=auto`). Tables on grids aligned to the stages (`slots.rs`) are rounded up for
///   sequences and down for bounds, and refined until the two are `loss` apart (`refine.rs`). Refining ends early where the
///   next table would take more than 6 10^10 min-plus operations; the note then says what is proved.
/// * With a given number of slots, as published, one table answers every budget of a sweep. Slots are fractions of what saving
///   everything needs (the paper: of the budget), and sizes are rounded up (the paper says down, its code up).
/// * With `fit=exact` a budget is answered by the table's sequence for the most slots whose peak in bytes meets it. The
///   sequence for the budget's own slots (`fit=rounded`) leaves unused what rounding up adds.
/// * Each stage may offer several savings.
/// * Parameter gradients, which the paper leaves out, count from the backward that makes them.
///
/// # Claim
/// `optimal`: no memory-persistent sequence of the chain view that meets the budget is faster, in exact bytes.
/// `gap_reached`: none is faster by more than `loss`; the note has the figure. With a number of slots: no slower than the
/// optimum when sizes are rounded up to whole slots (what saving everything needs over `slots`), and that optimum itself with
/// `fit=rounded`. `infeasible` is decided in exact bytes.
/// # Reference
/// Beaumont et al., "Optimal Re-Materialization Strategies for Heterogeneous Chains", ACM TOMS 2024
/// (rotor-toms-2024), section 4.4, Algorithms 3 and 4.
pub struct RotorPersistent;

impl ChainRule for RotorPersistent {
    const ID: &'static str = "rotor-persistent";
    const RULE: Rule = Rule::Persistent;
    const KEPT: Kept = Kept::Persistent;
    const TITLE: &'static str = "optimal memory-persistent sequence of a heterogeneous chain";
    const REFERENCE: &'static str = "rotor-toms-2024, Theorem 4.8, Algorithms 3 and 4";
}
