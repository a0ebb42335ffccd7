//! `bench best`: the best-known values, shown, checked, and made better.

use std::path::PathBuf;

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::best;
use crate::views::best as table;

const AFTER_HELP: &str = "\
A value belongs to an instance, a class of schedules and a budget in bytes. Times of classes within the class count, and bounds of \
classes around it. The status is optimal if no schedule of the class can be faster (proved), best if that is not proved, infeasible \
if the class has no schedule (proved), and unknown if there is only a bound. An update takes nothing that is worse, and no schedule \
that the simulator does not confirm.

Examples:
  bench best --instance 'resnet*'
  bench best --update results/resnet
  bench best --check";

/// Arguments of `bench best`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Take what is better from the rows of this folder
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    update: Option<PathBuf>,
    /// Simulate every schedule again
    #[arg(long)]
    check: bool,
    /// Show only instances that match
    #[arg(long, value_name = "GLOB")]
    instance: Option<String>,
    /// Folder of best-known.csv and its schedules [default: results]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Format of the table
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows, checks or updates.
///
/// # Errors
/// Files are none of ours, or a schedule is not what its entry or row says.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let folder = arguments.folder.clone().unwrap_or_else(|| library.root.join("results"));
    if arguments.check {
        return check(&folder);
    }
    if let Some(results) = &arguments.update {
        return update(&folder, results);
    }
    let mut entries = best::read(&folder)?;
    if let Some(pattern) = &arguments.instance {
        let glob = crate::ground::library::glob(pattern)?;
        entries.retain(|entry| glob.matches_name(&entry.instance));
    }
    output::result(&table::render(&entries, arguments.format))
}

fn check(folder: &std::path::Path) -> Result<(), Failure> {
    let (entries, differences) = best::check(folder)?;
    let checked = count(entries, "schedule");
    if differences.is_empty() {
        return output::result(&format!("{checked}: each is what the simulator says"));
    }
    output::result(&differences.join("\n"))?;
    Err(Failure::failed(format!("{} of {checked} not as recorded", differences.len())))
}

fn update(folder: &std::path::Path, results: &std::path::Path) -> Result<(), Failure> {
    let changes = best::update(folder, results)?;
    for words in &changes.dropped {
        output::info(&format!("a bound does not hold for its class: {words}"));
    }
    let path = best::path_in(folder);
    let changed = format!("{} new, {} better", changes.new, changes.better);
    output::result(&format!("{}: {changed}", path.display()))?;
    if changes.refused.is_empty() {
        return Ok(());
    }
    output::result(&changes.refused.join("\n"))?;
    Err(Failure::failed(format!("{} refused", count(changes.refused.len(), "row"))))
}
