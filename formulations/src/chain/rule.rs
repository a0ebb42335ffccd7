//! Which sequences of a chain a dynamic program searches.

use super::slots::Account;

/// Which sequences are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Memory-persistent sequences of the chain model (Theorem 4.8).
    Persistent,
    /// Only activations are kept: `F_all` right before each `B` (revolve on heterogeneous chains).
    SaveLast,
    /// Weakly persistent sequences of the chain model (Theorem 4.7, mended).
    Weak,
}

impl Rule {
    /// What its tables count.
    pub fn account(self) -> Account {
        if self == Self::Weak { Account::WithInput } else { Account::BesideInput }
    }
}
