//! MONeT: `monet` and its relaxation `monet-lp`.
//!
//! [`problem`] is the view of the instance, [`layout`], [`constraints`] and [`memory`] the integer program,
//! [`formulation`] the model with the memory rows that it has so far and [`separation`] those it lacks,
//! [`decisions`] what a solution says, [`improve`] the local search, [`coarse`] the model over [`blocks`] of stages,
//! [`expand`] what its solutions come to and [`refine`] the search over blocks, [`neighbourhood`] and [`explore`] the
//! search around the best schedule, [`board`] what the threads tell each other, [`exact`] the search over single stages,
//! [`encoding`] the model for other solvers, [`program`] what leads from budgets to answers.

pub mod blocks;
pub mod board;
pub mod coarse;
pub mod constraints;
pub mod decisions;
pub mod encoding;
pub mod exact;
pub mod expand;
pub mod explore;
pub mod formulation;
pub mod improve;
pub mod layout;
pub mod memory;
pub mod method;
pub mod neighbourhood;
pub mod problem;
pub mod program;
pub mod refine;
pub mod separation;

pub use method::{Monet, MonetLp};
