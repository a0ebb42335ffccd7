//! `bench check`: the schedules of a folder of results, simulated again and compared with its rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use remat_core::io::read_schedule;
use remat_core::{Instance, simulate};
use serde_json::Value;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::max_batch::{Network, time_limit};
use crate::harness::recorded::Instances;
use crate::harness::records::batches::{self, BatchRow};
use crate::harness::records::paths::{RESTORE, schedule_path};
use crate::harness::records::select::{label, latest_named};
use crate::harness::records::{self, COLUMNS, Record, folder_of};
use crate::harness::run::execute::judged;
use crate::harness::run::plan::Subject;

/// Arguments of `bench check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every column that follows from instance and schedule is computed anew: times, peaks, overheads, recomputations, classes and \
                  budgets. Bounds, terminations and seconds cannot be.\n\nA row whose schedule file is missing is not checked.\n\nThe exit code is 1 if any row differs from what the simulator says of its schedule, or is not checked.\n\nExamples:\n  bench check results/resnet"
)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv")]
    results: PathBuf,
}

/// Checks every row.
///
/// # Errors
/// There are no such results, or a row differs.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let records = records::read(&arguments.results)?;
    let folder = folder_of(&arguments.results);
    let mut instances = Instances::new(&folder);
    let rows = latest_named(&records);
    let mut differences = Vec::new();
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut without = BTreeMap::new();
    for row in &rows {
        let path = schedule_path(&folder.join("schedules"), row);
        if row.simulated_time.is_some() && !path.is_file() {
            missing.push(path);
            continue;
        }
        let instance = match instances.get(row) {
            Ok(instance) => instance,
            Err(why) => {
                *without.entry(why).or_insert(0) += 1;
                continue;
            }
        };
        if let Err(difference) = check(row, instance, &folder) {
            let budget = if row.budget.is_empty() { String::new() } else { format!(" at {}", row.budget) };
            let label = label(&row.method, &row.parameters);
            differences.push(format!("{} {label}{budget} seed {}: {difference}", row.instance, row.seed));
        }
    }
    let searches: Vec<_> = batches::read(&folder)?.into_iter().filter(|row| row.largest.is_some()).collect();
    for row in &searches {
        let path = batches::schedule_path(&folder, row);
        if !path.is_file() {
            missing.push(path);
            continue;
        }
        match network_of(row) {
            Err(why) => *without.entry(why).or_insert(0) += 1,
            Ok(subject) => {
                if let Err(difference) = check_search(row, &subject, &path) {
                    differences.push(format!("{} {} largest batch: {difference}", row.network, row.label));
                }
            }
        }
    }
    let checked = count(rows.len() + searches.len(), "row");
    if differences.is_empty() && missing.is_empty() && without.is_empty() {
        return output::result(&format!("{checked}: each is what the simulator says of its schedule"));
    }
    let mut words = Vec::new();
    if !differences.is_empty() {
        words.push(format!("{} of {checked} not as recorded", differences.len()));
    }
    if !without.is_empty() {
        let (rows, why) = (without.values().sum::<usize>(), "not found or not as they were; run inside the checkout");
        words.push(format!("{rows} of {checked} not checked: {} {why}", count(without.len(), "instance")));
    }
    differences.extend(without.into_iter().map(|(why, rows)| format!("not checked, {}: {why}", count(rows, "row"))));
    if !differences.is_empty() {
        output::result(&differences.join("\n"))?;
    }
    if let Some(first) = missing.first() {
        let (number, first) = (missing.len(), first.display());
        words.push(format!(
            "{number} of {checked} not checked: the schedule file is missing, the first is {first}; {RESTORE}"
        ));
    }
    Err(Failure::failed(words.join("; ")))
}

/// What differs between a row and what its instance and its schedule come to, if anything.
fn check(row: &Record, instance: &Instance, folder: &Path) -> Result<(), String> {
    let document = if row.simulated_time.is_some() {
        let path = schedule_path(&folder.join("schedules"), row);
        Some(read_schedule(&path, instance).map_err(|error| error.to_string())?.0)
    } else {
        None
    };
    let (made, error) = judged(instance, row, document)?;
    let [found, made] = [row, &made].map(|row| serde_json::to_value(row).unwrap_or_default());
    if let Some((column, _)) = COLUMNS.iter().find(|(column, _)| found[column] != made[column]) {
        let [found, made] = [&found[column], &made[column]].map(|value| match value {
            Value::Null => "nothing".into(),
            value => value.to_string(),
        });
        return Err(format!("{column}: the row says {found}, the simulator {made}"));
    }
    // A row that says that it failed may say so in its own words.
    if error.is_empty() || row.is_error() { Ok(()) } else { Err(error) }
}

/// A search's network at its largest batch, made anew.
///
/// # Errors
/// Its instances are not found, or not as they were.
fn network_of(row: &BatchRow) -> Result<Arc<Subject>, String> {
    let temporary = std::env::temp_dir().join(format!("bench-check-{}", std::process::id()));
    let words = |failure: Failure| failure.to_string();
    let mut network = Network::read(&Library::locate(), &row.names(), &temporary).map_err(words)?;
    let subject = network.at(row.largest.unwrap_or_default()).map_err(words)?;
    let found = subject.instance.hash().to_string();
    if found == row.instance_hash {
        return Ok(subject);
    }
    let (there, names) = (&row.instance_hash, &row.instances);
    Err(format!("{names} have changed: the hash is {found}, the row is about {there}; run the suite again"))
}

/// What differs between a search's row and the schedule of its largest batch, if anything.
fn check_search(row: &BatchRow, subject: &Subject, path: &Path) -> Result<(), String> {
    let instance = &subject.instance;
    let (_, schedule) = read_schedule(path, instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    let allowed = time_limit(subject, row.extra_forwards);
    same("store_all_time", row.store_all_time, subject.baseline.time)?;
    same("allowed_time", row.allowed_time, allowed)?;
    same("simulated_time", row.simulated_time, simulation.time)?;
    same("simulated_peak", row.simulated_peak, simulation.peak_bytes)?;
    let over = simulation.time > allowed || simulation.peak_bytes > row.memory;
    if over { Err("its schedule exceeds the memory or the time allowed".into()) } else { Ok(()) }
}

fn same(what: &str, recorded: Option<u64>, simulated: u64) -> Result<(), String> {
    if recorded == Some(simulated) {
        return Ok(());
    }
    let recorded = recorded.map_or("nothing".to_owned(), |recorded| recorded.to_string());
    Err(format!("{what}: the row says {recorded}, the simulator {simulated}"))
}
