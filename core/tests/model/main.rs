//! Instances, schedules, files and the simulator.
//!
//! One program, because every test program of its own is compiled and linked for itself.

mod batch;
mod chain_options;
mod chain_view;
mod common;
mod files;
mod frameworks;
mod fuzz;
mod malformed;
mod monet_file;
#[expect(clippy::unwrap_used, reason = "tests panic where they fail")]
#[path = "../../../tests/fuzz/mutate.rs"]
mod mutate;
mod shipped;
mod simulator;
