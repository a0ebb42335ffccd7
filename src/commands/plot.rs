//! `bench plot`: one figure per instance from recorded results, and one more of what was executed; or the figures of a file.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::records;
use crate::harness::suite;
use crate::views::plot;

/// Arguments of `bench plot`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bench plot results/resnet\n  bench plot results/resnet --out figures\n  bench plot --figures results/figures.toml"
)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv", required_unless_present = "figures")]
    results: Option<PathBuf>,
    /// Folder for the figures [default: plots/ beside records.csv]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw what this file says, from the tables that it names
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["results", "out"])]
    figures: Option<PathBuf>,
    /// With --figures: write nothing, fail where a figure would change
    #[arg(long, requires = "figures", conflicts_with_all = ["results", "out"])]
    check: bool,
}

/// Writes the figures.
///
/// # Errors
/// There are no such results, or the folder cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(results) = &arguments.results else {
        return arguments.figures.as_ref().map_or(Ok(()), |file| draw(file, arguments.check));
    };
    let rows = records::read(results)?;
    let suite = suite::kept_in(results);
    let folder = records::folder_of(results);
    let out = arguments.out.clone().unwrap_or_else(|| folder.join("plots"));
    let written = plot::write_all(&rows, suite.as_ref(), &folder, &out)?;
    output::info(&format!("{} in {}", count(written, "plot"), out.display()));
    Ok(())
}

/// Draws the figures of a file, or compares them with those that are there.
fn draw(file: &Path, check: bool) -> Result<(), Failure> {
    let figures = plot::drawn::figures(file)?;
    for (path, svg) in &figures {
        if std::fs::read_to_string(path).is_ok_and(|there| there == *svg) {
            continue;
        }
        if check {
            let words = format!("is not what {} says; run `bench plot --figures {0}`", file.display());
            return Err(Failure::failed(format!("{}: {words}", path.display())));
        }
        output::write_file(path, |path| output::replace_file(path, svg))?;
    }
    output::info(&format!("{} of {}", count(figures.len(), "figure"), file.display()));
    Ok(())
}
