//! `bench check`: the schedules of a folder of results, simulated again and compared with its rows.

use std::path::{Path, PathBuf};

use clap::Args;
use remat_core::io::read_schedule;
use remat_core::simulate;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::max_batch::Network;
use crate::harness::recorded::Instances;
use crate::harness::records::batches::{self, BatchRow};
use crate::harness::records::paths::schedule_path;
use crate::harness::records::select::{label, latest};
use crate::harness::records::{self, Record, folder_of};

/// Arguments of `bench check`.
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 1 if any row differs from what the simulator says of its schedule.\n\nExamples:\n  bench check results/resnet"
)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv")]
    results: PathBuf,
}

/// Checks every row that has a simulated time.
///
/// # Errors
/// There are no such results, or a row differs.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let records = records::read(&arguments.results)?;
    let folder = folder_of(&arguments.results);
    let mut instances = Instances::new(&folder);
    let with_schedule: Vec<_> = latest(&records).into_iter().filter(|row| row.simulated_time.is_some()).collect();
    let mut differences = Vec::new();
    for row in &with_schedule {
        if let Err(difference) = check(row, &folder, &mut instances) {
            let budget = if row.budget.is_empty() { String::new() } else { format!(" at {}", row.budget) };
            let label = label(&row.method, &row.parameters);
            differences.push(format!("{} {label}{budget} seed {}: {difference}", row.instance, row.seed));
        }
    }
    let searches: Vec<_> = batches::read(&folder)?.into_iter().filter(|row| row.largest.is_some()).collect();
    for row in &searches {
        if let Err(difference) = check_search(row, &folder) {
            differences.push(format!("{} {} largest batch: {difference}", row.network, row.label));
        }
    }
    let checked = count(with_schedule.len() + searches.len(), "row");
    if differences.is_empty() {
        return output::result(&format!("{checked}: each is what the simulator says of its schedule"));
    }
    output::result(&differences.join("\n"))?;
    Err(Failure::failed(format!("{} of {checked} not as recorded", differences.len())))
}

/// What differs between a row and its schedule, if anything.
fn check(row: &Record, folder: &Path, instances: &mut Instances) -> Result<(), String> {
    let instance = instances.get(row)?;
    let path = schedule_path(&folder.join("schedules"), row);
    let (_, schedule) = read_schedule(&path, instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    same("time", row.simulated_time, simulation.time)?;
    same("peak", row.simulated_peak, simulation.peak_bytes)?;
    same("recomputations", row.recomputations, simulation.recomputations())
}

/// What differs between a search's row and the schedule of its largest batch, if anything: the network is
/// made anew at that batch.
fn check_search(row: &BatchRow, folder: &Path) -> Result<(), String> {
    let names: Vec<_> = row.instances.split_whitespace().map(str::to_owned).collect();
    let temporary = std::env::temp_dir().join(format!("bench-check-{}", std::process::id()));
    let words = |failure: Failure| failure.to_string();
    let mut network = Network::read(&Library::locate(), &names, &temporary).map_err(words)?;
    let subject = network.at(row.largest.unwrap_or_default()).map_err(words);
    network.clean();
    // Empty by now; if not, the system clears its folder for temporary files.
    let _ = std::fs::remove_dir(&temporary);
    let instance = &subject?.instance;
    let found = instance.hash().to_string();
    if found != row.instance_hash {
        let (there, names) = (&row.instance_hash, &row.instances);
        return Err(format!(
            "{names} have changed: the hash is {found}, the row is about {there}; run the suite again"
        ));
    }
    let (_, schedule) =
        read_schedule(&batches::schedule_path(folder, row), instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    same("time", row.simulated_time, simulation.time)?;
    same("peak", row.simulated_peak, simulation.peak_bytes)
}

fn same(what: &str, recorded: Option<u64>, simulated: u64) -> Result<(), String> {
    match recorded {
        Some(recorded) if recorded != simulated => {
            Err(format!("{what}: the row says {recorded}, the simulator {simulated}"))
        }
        _ => Ok(()),
    }
}
