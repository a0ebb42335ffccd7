//! `bench check`: the schedules of a folder of results, simulated again and compared with its rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use remat_core::io::{read_instance, read_schedule};
use remat_core::{Instance, simulate};

use crate::cli::count;
use crate::failure::Failure;
use crate::library::Library;
use crate::output;
use crate::records::{self, Record, folder_of};
use crate::run::{manifest, pool::schedule_path};
use crate::table::label;

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
    let rows = records::read(&arguments.results)?;
    let folder = folder_of(&arguments.results);
    let mut instances = Instances::new(&folder);
    let with_schedule: Vec<_> = latest(&rows).into_iter().filter(|row| row.simulated_time_ns.is_some()).collect();
    let mut differences = Vec::new();
    for row in &with_schedule {
        if let Err(difference) = check(row, &folder, &mut instances) {
            let budget = if row.budget.is_empty() { String::new() } else { format!(" at {}", row.budget) };
            let label = label(&row.method, &row.parameters);
            differences.push(format!("{} {label}{budget} seed {}: {difference}", row.instance, row.seed));
        }
    }
    let checked = count(with_schedule.len(), "row");
    if differences.is_empty() {
        return output::result(&format!("{checked}: each is what the simulator says of its schedule"));
    }
    output::result(&differences.join("\n"))?;
    Err(Failure::failed(format!("{} of {checked} not as recorded", differences.len())))
}

/// The last row of each key: a later one has replaced the schedules of those before.
pub fn latest(rows: &[Record]) -> Vec<&Record> {
    let last: BTreeMap<_, _> =
        rows.iter().enumerate().map(|(at, row)| (schedule_path(Path::new(""), row), at)).collect();
    let mut positions: Vec<_> = last.into_values().collect();
    positions.sort_unstable();
    positions.into_iter().map(|at| &rows[at]).collect()
}

/// What differs between a row and its schedule, if anything.
fn check(row: &Record, folder: &Path, instances: &mut Instances) -> Result<(), String> {
    let instance = instances.get(row)?;
    let path = schedule_path(&folder.join("schedules"), row);
    let (_, schedule) = read_schedule(&path, instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    let same = |what: &str, recorded: Option<u64>, simulated: u64| match recorded {
        Some(recorded) if recorded != simulated => {
            Err(format!("{what}: the row says {recorded}, the simulator {simulated}"))
        }
        _ => Ok(()),
    };
    same("time", row.simulated_time_ns, simulation.time)?;
    same("peak", row.simulated_peak_bytes, simulation.peak_bytes)?;
    same("recomputations", row.recomputations, simulation.recomputations())
}

/// The instances of a folder of results, read once each.
pub struct Instances {
    library: Library,
    paths: BTreeMap<String, PathBuf>,
    read: BTreeMap<String, Instance>,
}

impl Instances {
    /// The manifest says where each instance was.
    pub fn new(folder: &Path) -> Self {
        let sessions = manifest::read(folder);
        let entries = sessions.into_iter().flat_map(|session| session.instances);
        let paths = entries.map(|entry| (entry.hash, entry.path)).collect();
        Self { library: Library::locate(), paths, read: BTreeMap::new() }
    }

    /// The file of a row's instance: where it was, or where a library has it by name.
    ///
    /// # Errors
    /// It is in neither place.
    pub fn path(&self, row: &Record) -> Result<PathBuf, String> {
        let there = self.paths.get(&row.instance_hash).filter(|path| path.is_file()).cloned();
        there.map_or_else(|| self.library.find(&row.instance).map_err(|failure| failure.to_string()), Ok)
    }

    fn get(&mut self, row: &Record) -> Result<&Instance, String> {
        if !self.read.contains_key(&row.instance_hash) {
            let path = self.path(row)?;
            let instance = read_instance(&path).map_err(|error| error.to_string())?;
            let found = instance.hash().to_string();
            if found != row.instance_hash {
                return Err(format!(
                    "{} has changed: its hash is {found}, the row is about {}; run the suite again",
                    path.display(),
                    row.instance_hash
                ));
            }
            self.read.insert(found, instance);
        }
        self.read.get(&row.instance_hash).ok_or_else(|| "no such instance".into())
    }
}
