//! The methods: each one file or folder, and the registry that lists them.
//!
//! A method turns an instance, parameters and budgets into schedules with its own claims about them.
//! It prints nothing, reads no flags, and is not believed: the harness simulates what it returns.

pub mod contradiction;
pub mod method;
pub mod random;
mod registry;
pub mod vectors;

pub mod auto;
pub mod chain;
pub mod checkmate;
pub mod chen;
pub mod fastsa;
pub mod free_order;
pub mod gist;
pub mod kusumoto;
pub mod moccasin;
pub mod monet;
pub mod options;
pub mod oracle;
pub mod planners;
pub mod search;
pub mod staged;
pub mod store_all;

pub use method::formulation::{DecodeError, Decoded, Encode, Encoding, Format};
pub use method::parameters::{ParameterError, ParameterKind, ParameterSpec, Parameters, Spec, SpecError};
pub use method::report::{Progress, Reporter, Silent};
pub use method::{
    About, Answer, BudgetUse, Claim, Claimed, Class, Context, Limits, Method, MethodError, NoStarts, SkipReason,
    Starts, Termination,
};
pub use registry::{METHODS, Registered, find};

/// Id of every solver for mixed-integer programs, and its version where it is there, or what would bring it.
pub fn solvers() -> Vec<(&'static str, Result<String, String>)> {
    let version = |solver: &&dyn remat_solvers::Backend| solver.available().map(|()| solver.version());
    remat_solvers::BACKENDS.iter().map(|solver| (solver.id(), version(solver))).collect()
}

/// Id of CP-SAT, and its version where it is installed, or what would bring it. Loads nothing.
pub fn constraint_solver() -> (&'static str, Result<String, String>) {
    remat_solvers::cp::cp_sat::installed()
}

/// From now on solvers write their logs to standard output.
pub fn enable_solver_logs() {
    remat_solvers::log::enable();
}
