//! `bench plot`: one figure per instance from recorded results, and one more of what was executed.

use std::path::PathBuf;

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::records;
use crate::harness::replay;
use crate::harness::suite;
use crate::views::plot;

/// Arguments of `bench plot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bench plot results/resnet\n  bench plot results/resnet --out figures")]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv")]
    results: PathBuf,
    /// Folder for the figures [default: plots/ beside records.csv]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the figures.
///
/// # Errors
/// There are no such results, or the folder cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rows = records::read(&arguments.results)?;
    let suite = suite::kept_in(&arguments.results);
    let folder = records::folder_of(&arguments.results);
    let out = arguments.out.clone().unwrap_or_else(|| folder.join("plots"));
    let executed = replay::read(&folder)?;
    let written =
        plot::write_all(&rows, suite.as_ref(), &folder, &out)? + plot::executed::write_all(&rows, &executed, &out)?;
    output::info(&format!("{} in {}", count(written, "plot"), out.display()));
    Ok(())
}
