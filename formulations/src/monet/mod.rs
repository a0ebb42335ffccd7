//! MONeT: `monet` and its relaxation `monet-lp`.
//!
//! [`graph`] is the instance with all implementations that may be chosen, [`plan`] its schedules, [`model`] the linear model
//! over blocks of stages, exact over single ones (its rows in `constraints.rs` and `memory.rs`, its points in `decode.rs`). [`task`] is what the search (`search/`) knows of them, [`anneal`] looks
//! for schedules without a solver, [`bound`] is the relaxation in exact arithmetic, [`encoding`] the model for other
//! solvers. [`released`] has all that again as the authors' program counts.

pub mod anneal;
pub mod bound;
mod constraints;
mod decode;
pub mod encoding;
pub mod graph;
mod memory;
pub mod method;
pub mod model;
mod neighbourhood;
pub mod plan;
pub mod released;
pub mod settings;
pub mod task;

pub use method::{Monet, MonetLp};
