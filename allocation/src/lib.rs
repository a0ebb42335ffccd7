//! Addresses for the tensors of a schedule: buffers with lifetimes and sizes in one arena.
//!
//! A schedule within its peak may still not fit into that much memory, because memory has addresses. Here are
//!
//! * [`mod@problem`]: buffers, and their CSV form;
//! * [`mod@method`]: what a method is, and the registry; [`fit`] and [`minimalloc`] are the methods;
//! * [`mod@model`]: the problem as a model for other solvers;
//! * [`mod@check`]: whether offsets are a packing, from the definition;
//! * [`lifetimes`] and [`plan`]: the buffers of a schedule, and where they are;
//! * [`confirm`]: whether a plan is one, and one of a schedule;
//! * [`caching`]: what PyTorch's allocator would reserve for them.
//!
//! Nothing here knows how a schedule was made.

pub mod caching;
pub mod check;
pub mod confirm;
pub mod fit;
pub mod lifetimes;
pub mod method;
pub mod minimalloc;
pub mod model;
pub mod plan;
pub mod problem;

pub use check::{Overlap, check};
pub use lifetimes::{Content, Lifetimes};
pub use method::{Answer, Limits, METHODS, Method, Stop, find};
pub use problem::{Buffer, Problem, ProblemError};
