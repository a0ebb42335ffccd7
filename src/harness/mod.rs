//! The middle floor: suites, the processes that work on them, and the rows that come out. Shows nothing of them.

pub mod arena;
pub mod baseline;
pub mod best;
pub mod cache;
#[cfg(feature = "faults")]
pub mod fault;
pub mod index;
pub mod launcher;
pub mod max_batch;
pub mod model;
pub mod plans;
pub mod pool;
pub mod recorded;
pub mod records;
pub mod replay;
pub mod run;
pub mod suite;
pub mod sweep;
