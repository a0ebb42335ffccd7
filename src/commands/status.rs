//! `bench status`: how far a run directory is.

use std::path::PathBuf;

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::format::ReportFormat;
use crate::ground::output;
use crate::harness::launcher::status::{self, Status};
use crate::harness::records::folder_of;

const AFTER_HELP: &str = "\
Counts are of rows. A row failed if it ended in an error (run it again with --resume --retry-errors), or if \
the task that was to bring it ended without it: cancelled, out of time, lost with its node (--resume \
submits it again). Rows of a run on this machine are not there yet until it has written them.

Examples:
  bench status results/resnet
  bench status results/resnet --format json";

/// Arguments of `bench status`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv")]
    results: PathBuf,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
}

/// Prints how far it is.
///
/// # Errors
/// There are no such results.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    output::result(&arguments.format.render(&status::of(&folder_of(&arguments.results))?, text)?)
}

fn text(status: &Status) -> String {
    let Status { queued, running, done, failed, missing, writing, unknown, lost, silence } = status;
    let mut lines = vec![format!("{queued} queued, {running} running, {done} done, {failed} failed")];
    if *missing > 0 {
        let at_work =
            if *writing { "a bench run is at work on them" } else { "no bench run is at work; --resume goes on" };
        lines.push(format!("{missing} not there yet: {at_work}"));
    }
    if let Some(silence) = silence {
        lines.push(format!("{unknown} of which nothing is known: {silence}"));
    }
    lines.extend(lost.iter().cloned());
    lines.join("\n")
}
