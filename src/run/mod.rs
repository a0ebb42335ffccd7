//! Runs: what a suite expands to, the child processes that do the work, and the rows that come out.

pub mod child;
pub mod execute;
pub mod job;
pub mod judge;
pub mod manifest;
pub mod messenger;
pub mod plan;
pub mod pool;

pub use execute::{Conditions, Row, execute};
pub use plan::Run;
