//! MONeT: `monet` and its relaxation `monet-lp`.
//!
//! [`problem`] is the view of the instance, [`layout`], [`constraints`] and [`memory`] the integer program, [`coarse`] the
//! same over [`blocks`] of stages and [`expand`] what its solutions come to. [`relaxation`] is the linear model with the
//! memory rows that it has so far, [`separation`] says which it lacks, [`neighbourhood`] what is constant in a part of it.
//! [`decisions`] are its schedules, [`anneal`] looks for them without a solver. [`task`] is what the search (`search/`)
//! knows of all that, [`bound`] the relaxation in exact arithmetic, [`encoding`] the model for other solvers.

pub mod anneal;
pub mod blocks;
pub mod bound;
pub mod coarse;
pub mod constraints;
pub mod decisions;
pub mod encoding;
pub mod expand;
pub mod layout;
pub mod memory;
pub mod method;
pub mod neighbourhood;
pub mod problem;
pub mod relaxation;
pub mod separation;
pub mod settings;
pub mod task;

pub use method::{Monet, MonetLp};
