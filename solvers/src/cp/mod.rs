//! A neutral constraint program beside the mixed-integer model, and its backends.
//!
//! * [`model`]: whole-numbered variables, literals, optional intervals, cumulative, reservoir, linear
//!   constraints, clauses, an objective; and a checker that trusts no solver;
//! * [`request`]: what a solver is asked, and what became of it;
//! * [`mod@backend`]: the trait, and the list of backends;
//! * [`cp_sat`]: OR-Tools' CP-SAT, loaded when it is there; [`by_mip`]: any mixed-integer backend;
//! * [`proto`]: the same model as CP-SAT's protocol buffer, in bytes and as text.
//!
//! Nothing here has ever heard of tensors.

pub mod backend;
pub mod by_mip;
pub mod cp_sat;
pub mod model;
pub mod proto;
pub mod request;

pub use backend::{CP_BACKENDS, CpBackend, cp_backend};
pub use model::{Constraint, CpModel, Interval, Literal, Rule, Variable};
pub use request::{CpOutcome, CpRequest, Emphasis};
