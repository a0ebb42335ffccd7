//! The methods on the chain view, and the dynamic programs behind them.
//!
//! From the bottom up: [`slots`] counts a chain's memory in slots and [`kernel`] is the inner loop of every table
//! ([`storage`]). [`ranges`] says where the [`states`] of a table are worth computing, [`persistent`] and [`weak`] compute
//! their tables, and [`trace`] reads sequences off them. [`solve`] answers budgets from one table of either, [`refine`] takes as many slots as a
//! proof of the loss needs, and `method` makes methods of that. [`griewank`] and [`sequential`] need no table.

pub mod griewank;
pub mod kernel;
pub mod method;
pub mod persistent;
pub mod ranges;
pub mod refine;
pub mod revolve;
pub mod rule;
pub mod sequential;
pub mod slots;
pub mod solve;
pub mod states;
pub mod storage;
pub mod trace;
pub mod weak;
