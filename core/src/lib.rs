//! The model on which every rematerialization method is compared: what an instance is, what a
//! schedule means, and what a view of an instance may assume.
//!
//! * [`mod@format`] and [`io`]: the file format;
//! * [`instance`]: a checked instance with dense ids;
//! * [`schedule`] and [`liveness`]: steps, and where to free;
//! * [`mod@simulate`]: the independent judge;
//! * [`plan`]: which implementation each operator uses when a method does not choose;
//! * [`batch`]: a network at any batch size, from two;
//! * [`chain`] and [`chain_view`]: the chain that an instance's forward graph is cut into;
//! * [`chain_file`], [`node_link`] and [`monet_file`]: published chains, graphs and profiles, and the
//!   instances that they become.
//! * [`bounded`] and [`cell`]: texts that nobody vouches for, as they are read and as cells of CSV.
//!
//! Nothing here knows of a method or a solver.

pub mod batch;
pub mod bounded;
pub mod cell;
pub mod chain;
pub mod chain_file;
pub mod chain_view;
pub mod format;
pub mod generate;
pub mod instance;
pub mod io;
pub mod liveness;
pub mod monet_file;
pub mod node_link;
pub mod object;
pub mod plan;
pub mod schedule;
pub mod simulate;
mod validate;

pub use instance::{Implementation, Instance, Operator, OperatorId, Tensor, TensorId};
pub use schedule::{Schedule, Step, TransferRates};
pub use simulate::{Simulation, simulate};
