//! A neutral sparse mixed-integer model, and one thin backend per solver.
//!
//! * [`model`]: columns, bounds, kinds, rows in compressed form;
//! * [`request`] and [`outcome`]: what a solver may use, and what became of it, with why it stopped,
//!   what it found and what it said kept apart;
//! * [`mod@backend`]: the trait, sessions to which rows are added, and the list of backends;
//! * [`highs`], [`cbc`] (a program, run where it is installed) and [`microlp`]: the backends;
//! * [`cp`]: a constraint program beside it, with backends of its own;
//! * [`Counting`]: sessions that count columns that are alike, so that repeated layers are not told apart in vain;
//! * [`fn@safe_bound`]: a lower bound that holds in exact arithmetic, from any multipliers;
//! * [`log`]: whether solvers write their own logs;
//! * [`export`] and [`solution`]: models as text for every other solver, and what such a solver answers.
//!
//! Nothing here has ever heard of tensors.

pub mod backend;
pub mod cbc;
mod counting;
pub mod cp;
pub mod export;
pub mod highs;
pub mod log;
pub mod microlp;
pub mod model;
pub mod outcome;
mod position;
pub mod request;
mod safe_bound;
pub mod solution;

use std::path::PathBuf;

pub use backend::{BACKENDS, Backend, Session, SolverError, backend};
pub use counting::Counting;
pub use model::{Column, Kind, Model, Names, Row, RowBlock};
pub use outcome::{Linear, Outcome, Stop};
pub use request::{Progress, Request};
pub use safe_bound::safe_bound;

/// The user's folder for what can be made again.
pub fn cache() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
}
