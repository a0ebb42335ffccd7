//! `bench report`: recorded results as one HTML page.

use std::path::PathBuf;

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::records;
use crate::harness::suite;
use crate::views::report::{self, Embedding};

const AFTER_HELP: &str = "\
The page holds everything that it shows and opens without a network: tables that sort and filter, plots, \
performance profiles, and the schedules step by step as the simulator sees them. Large results are cut: \
of the rows, schedules and progress plots so many are embedded as the options say, and the page says what it leaves out.

Examples:
  bench report results/resnet
  bench report results/resnet -o resnet.html --schedule-steps 1000000";

/// The files of a folder that a page is made of.
const READ: [&str; 6] = ["records.csv", "max-batch.csv", "executed.csv", "plans.csv", "suite.toml", "manifest.jsonl"];

/// Arguments of `bench report`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv")]
    results: PathBuf,
    /// The page [default: report.html beside records.csv]
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Steps of schedules to embed, over all schedules (about 25 bytes each)
    #[arg(long, value_name = "N", default_value_t = Embedding::default().schedule_steps)]
    schedule_steps: usize,
    /// Rows of the table of all rows
    #[arg(long, value_name = "N", default_value_t = Embedding::default().rows)]
    rows: usize,
    /// Plots of incumbents and bounds over time
    #[arg(long, value_name = "N", default_value_t = Embedding::default().progress_plots)]
    progress_plots: usize,
}

/// Writes the page.
///
/// # Errors
/// There are no such results, or the page cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = records::folder_of(&arguments.results);
    let read = READ.map(|name| folder.join(name));
    let inputs: Vec<_> = read.iter().chain([&arguments.results]).map(PathBuf::as_path).collect();
    output::keep_apart(&inputs, &[arguments.output.as_ref()])?;
    let rows = records::read(&arguments.results)?;
    let suite = suite::kept_in(&arguments.results);
    let embedding = Embedding {
        schedule_steps: arguments.schedule_steps,
        rows: arguments.rows,
        progress_plots: arguments.progress_plots,
    };
    let page = report::page(&Library::locate(), &rows, suite.as_ref(), &folder, embedding)?;
    let path = arguments.output.clone().unwrap_or_else(|| folder.join("report.html"));
    output::replace_file(&path, &page)?;
    output::info(&format!("{}: {} KiB", path.display(), page.len() / 1024));
    Ok(())
}
