//! `bench best`: the library of best-known values, shown, checked, and made better.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::commands::values::{positive, seconds};
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::best::{self, Campaign, Changes, Proofs, Trial};
use crate::harness::records::Existing;
use crate::harness::run::interrupts;
use crate::harness::run::plan::Overrides;
use crate::harness::suite;
use crate::harness::sweep::{Grants, Sweep};
use crate::views::best as table;

/// The suite whose networks, budgets and methods a campaign takes.
const SUITE: &str = "library";
/// Wall time of all proofs of a check.
const PROOFS: Duration = Duration::from_secs(20);

const AFTER_HELP: &str = "\
A value belongs to an instance, a class of schedules and a budget. The classes are the fixed order, the fixed order with a \
choice of implementations, and all schedules; a schedule counts in every class that it is in, a bound in every class within \
the one that it was proved for, and likewise for budgets. The status is solved (within a millionth, proved), infeasible (no \
schedule of the class meets the budget, proved) or open. An update takes nothing that is worse, no schedule that the simulator \
does not confirm, and no bound that a schedule refutes.

A campaign is the suite library with what is solved left out and the widest gaps first. Its rows lie in DIR as those of any \
bench run: begun again with the same DIR it goes on where it was, after a kill too, and what it comes to is taken over after \
each method. With more time, or after a change of the methods, name another DIR. On a cluster, run bench run --suite library \
--launcher slurm --out DIR, then a campaign with that DIR.

Examples:
  bench best --instance 'resnet*'
  bench best --campaign results/library --time 60
  bench best --update results/resnet
  bench best --check
  bench best --check --instance 'resnet50-*'
  bench best --check --time 20000 --jobs 2";

/// Arguments of `bench best`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Take what is better from the rows of this folder
    #[arg(long, value_name = "DIR", group = "action", conflicts_with = "format")]
    update: Option<PathBuf>,
    /// Work on what is open, with rows in this folder, and take over what is better
    #[arg(long, value_name = "DIR", group = "action")]
    campaign: Option<PathBuf>,
    /// Simulate every schedule again, hold all values against each other, and try proofs again, drawn at random
    #[arg(long, group = "action", conflicts_with = "format")]
    check: bool,
    /// With --campaign, wall seconds of each run [default: the suite's]; with --check, of all proofs that are tried [default: 20]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, requires = "action", conflicts_with = "update")]
    time: Option<Duration>,
    /// With --campaign, runs at the same time [default: the suite's]; with --check, proofs, which share the cores [default: 1]
    #[arg(long, value_name = "N", value_parser = positive, requires = "action", conflicts_with = "update")]
    jobs: Option<usize>,
    /// With --check, seed of the sample [default: another one each time]
    #[arg(long, value_name = "N", requires = "check")]
    seed: Option<u64>,
    /// Show, or with --campaign work on, or with --check check, only instances that match
    #[arg(long, value_name = "GLOB", conflicts_with = "update")]
    instance: Option<String>,
    /// Folder of best-known.csv and its schedules [default: results]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Format of the table
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows, checks, updates, or works on the library.
///
/// # Errors
/// Files are none of ours, a value is not what it should be, or interrupted.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let folder = arguments.folder.clone().unwrap_or_else(|| library.root.join("results"));
    if arguments.check {
        return check(arguments, &library, &folder);
    }
    if let Some(results) = &arguments.update {
        let changes = best::update(&folder, results)?;
        return tell(&changes, &folder);
    }
    if let Some(results) = &arguments.campaign {
        let changes = campaign(arguments, &library, &folder, results)?;
        output::result(&table::digest(&best::read(&folder)?, arguments.format))?;
        return tell(&changes, &folder);
    }
    let entries = best::read_some(&folder, arguments.instance.as_deref())?;
    output::result(&table::render(&entries, arguments.format))?;
    if arguments.format == Format::Text { output::result(&table::digest(&entries, arguments.format)) } else { Ok(()) }
}

fn campaign(arguments: &Arguments, library: &Library, folder: &Path, results: &Path) -> Result<Changes, Failure> {
    let file = suite::read(library, SUITE)?;
    let sweep = Sweep {
        library,
        host: OnceCell::new(),
        file: &file,
        overrides: Overrides { instances: arguments.instance.iter().cloned().collect(), ..Overrides::default() },
        grants: Grants { time: arguments.time, jobs: arguments.jobs, ..Grants::default() },
        batches: false,
        fresh: false,
        folder: results.to_owned(),
        existing: Existing::Resume,
    };
    Campaign { sweep, folder }.perform(&interrupts()?)
}

fn check(arguments: &Arguments, library: &Library, folder: &Path) -> Result<(), Failure> {
    let entries = best::read_some(folder, arguments.instance.as_deref())?;
    let (schedules, mut differences) = best::check(folder, &entries);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = arguments.seed.unwrap_or(clock.as_secs());
    let trial = Trial { time: arguments.time.unwrap_or(PROOFS), jobs: arguments.jobs.unwrap_or(1), seed };
    let Proofs { again, not_again, differences: unproved } =
        best::prove(&library.root, folder, &entries, trial, &interrupts()?)?;
    differences.extend(unproved);
    let checked = count(schedules, "schedule");
    let late = if not_again > 0 { format!(", {not_again} not this time") } else { String::new() };
    let proofs = format!("{} proved again{late} (--seed {seed})", count(again, "value"));
    if differences.is_empty() {
        return output::result(&format!("{checked}: each is what the simulator says; {proofs}"));
    }
    output::result(&differences.join("\n"))?;
    Err(Failure::failed(format!("{} not as recorded; {checked}, {proofs}", count(differences.len(), "value"))))
}

/// Says what an update changed, and fails where rows or bounds were refused.
fn tell(changes: &Changes, folder: &Path) -> Result<(), Failure> {
    let path = best::path_in(folder);
    let gone = match changes.gone {
        0 => String::new(),
        gone => format!(", {} of instances as they were before dropped", count(gone, "value")),
    };
    output::result(&format!("{}: {} new, {} better{gone}", path.display(), changes.new, changes.better))?;
    let refused: Vec<&str> = changes.refused.iter().chain(&changes.refuted).map(String::as_str).collect();
    if refused.is_empty() {
        return Ok(());
    }
    output::result(&refused.join("\n"))?;
    let (rows, bounds) = (count(changes.refused.len(), "row"), count(changes.refuted.len(), "bound"));
    Err(Failure::failed(format!("{rows} refused, {bounds} refuted by a schedule")))
}
