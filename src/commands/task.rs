//! `bench task`: one task of a batch, started by a cluster. Not for people.

use std::path::PathBuf;

use clap::Args;

use crate::ground::failure::Failure;
use crate::harness::launcher::worker;
use crate::harness::run::interrupts;

/// Arguments of `bench task`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The batch's plan
    plan: PathBuf,
    /// Number of the task
    task: usize,
}

/// Does the task's work.
///
/// # Errors
/// As [`worker::run`].
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    worker::run(&arguments.plan, arguments.task, interrupts()?)
}
