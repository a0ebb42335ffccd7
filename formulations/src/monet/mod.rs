//! MONeT: `monet` and its relaxation `monet-lp`.
//!
//! The instance with all implementations that may be chosen, and the linear model over blocks of stages, are in `staged/`.
//! [`plan`] are its schedules, [`task`] is what the search (`search/`) knows of them, [`anneal`] looks for schedules without
//! a solver, [`bound`] is the relaxation in exact arithmetic, [`encoding`] the model for other solvers. [`released`] has the
//! program as its authors released it.

pub mod anneal;
pub mod bound;
pub mod encoding;
pub mod method;
pub mod plan;
pub mod released;
pub mod settings;
pub mod task;

pub use method::{Monet, MonetLp};
