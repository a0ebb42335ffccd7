//! `revolve`: optimal checkpointing of a heterogeneous chain when only activations are kept.

use super::method::ChainRule;
use super::rule::Rule;
use crate::method::claim::Kept;

/// The automatic-differentiation strategy on a heterogeneous chain.
///
/// # Problem
/// As `rotor-persistent`, but a forward keeps nothing except its input: every backward is preceded by
/// its own `F_all`.
///
/// # Constraints
/// Theorem 4.8 of rotor-toms-2024 with C_all allowed for single stages only, which is the dynamic
/// program of Griewank and Walther (2008), section 12.3, with memory in slots.
///
/// # Size
/// As `rotor-persistent`.
///
/// # Departures from the paper
/// As `rotor-persistent`: one table per sweep, sizes rounded up, parameter gradients counted.
///
/// # Claim
/// Optimal among memory-persistent sequences in which `F_all` comes right before each backward, sizes
/// and loss as `rotor-persistent`.
///
/// # Reference
/// rotor-toms-2024, section 5.4 ("revolve"); Gruslys et al. 2016, appendix C.
pub struct Revolve;

impl ChainRule for Revolve {
    const ID: &'static str = "revolve";
    const RULE: Rule = Rule::SaveLast;
    const KEPT: Kept = Kept::SaveLast;
    const TITLE: &'static str = "optimal checkpointing of activations only, F_all right before each backward";
    const REFERENCE: &'static str = "rotor-toms-2024, section 5.4; Griewank & Walther 2008, section 12.3";
}
