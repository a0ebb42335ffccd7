//! MONeT's program as its authors released it: `rules=as-released`.
//!
//! [`problem`] is the view of the instance, [`layout`], [`constraints`] and [`memory`] the integer program, [`coarse`] the
//! same over [`blocks`] of stages and [`expand`] what its solutions come to. [`relaxation`] is the linear model with the
//! memory rows that it has so far and those of [`paths`], [`neighbourhood`] says what is constant in a part of it.
//! [`decisions`] are its schedules, [`task`] is what the search (`search/`) and annealing know of all that,
//! [`encoding`] the model for other solvers.

pub mod blocks;
pub mod coarse;
pub mod constraints;
pub mod decisions;
pub mod encoding;
pub mod expand;
pub mod layout;
pub mod memory;
pub mod neighbourhood;
pub mod paths;
pub mod problem;
pub mod relaxation;
pub mod task;
