//! One pass over a folder of results: what has a schedule is replayed, or packed for another machine, and
//! what records there are becomes `executed.csv`.

use std::path::{Path, PathBuf};

use remat_core::io::{read_json, write_json};
use serde_json::Value;

use super::{Device, Execution, executed, executor, read, write};
use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::names::file_name;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::plans::plan_path;
use crate::harness::recorded::Instances;
use crate::harness::records::Record;
use crate::harness::records::paths::{RESTORE, named_path, schedule_path};
use crate::harness::records::select::latest;

/// The framework's own ways that are measured beside the schedules of an instance.
const BASELINES: &[&str] = &["plain"];

/// Where schedules run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The device.
    pub device: Device,
    /// Whether each schedule runs in one arena, by the plan that `bench allocate --results` made of it.
    pub arena: bool,
}

impl Target {
    /// What the rows of `executed.csv` and the folder of records call it.
    fn name(self) -> String {
        let device = self.device.name();
        if self.arena { format!("{device}-arena") } else { device.into() }
    }
}

/// A schedule, or one of the framework's own ways, to be executed.
#[derive(Clone, Debug)]
struct Task {
    instance: PathBuf,
    /// A schedule file, or `baseline:NAME`.
    schedule: String,
    /// The plan of its arena.
    plan: Option<PathBuf>,
    /// Hash of all that is executed: names files that are of this schedule and of no other of its row.
    hash: String,
    /// Where the record lies in a folder of records.
    record: PathBuf,
    /// The identity of the row that the record becomes.
    row: Execution,
}

/// Replays every schedule of a folder on a device of this machine, and in an arena each where that is asked for. Returns what is
/// wrong with executions of it, if anything is.
///
/// # Errors
/// The executor cannot be run, or files not be read or written.
pub fn replay(rows: &[Record], folder: &Path, target: Target, repeat: usize) -> Result<Option<Failure>, Failure> {
    let library = Library::locate();
    let folder = std::path::absolute(folder).map_err(Failure::failed)?;
    let records = replays(&folder, target);
    let tasks: Vec<_> = tasks(rows, &folder, target)?
        .into_iter()
        .map(|task| Task { record: records.join(&task.record), ..task })
        .collect();
    let list = records.join("list.tsv");
    write_list(&list, &tasks)?;
    output::info(&format!("replaying {} on {}", count(tasks.len(), "schedule"), target.name()));
    executor::run(&library.root, &list, target.device, repeat)?;
    collect(rows, &folder, target)
}

/// Writes instances and schedules to a folder that a machine without this program replays
/// (`profiler/replay.sh`).
///
/// # Errors
/// Files cannot be read or written.
pub fn pack(rows: &[Record], folder: &Path, target: Target, to: &Path) -> Result<(), Failure> {
    let folder = std::path::absolute(folder).map_err(Failure::failed)?;
    let mut packed: Vec<Task> = Vec::new();
    for task in tasks(rows, &folder, target)? {
        let name = format!("{}.json.gz", file_name(&task.row.instance));
        let instance = Path::new("instances").join(file_name(&task.row.instance_hash)).join(name);
        if packed.last().is_none_or(|last| last.instance != instance) {
            copy(&task.instance, &to.join(&instance))?;
        }
        let below = |kind: &str| Path::new(kind).join(format!("{}.json.gz", task.hash));
        let mut schedule = task.schedule.clone();
        if !schedule.starts_with("baseline:") {
            let name = below("schedules");
            copy(Path::new(&schedule), &to.join(&name))?;
            schedule = name.display().to_string();
        }
        let plan = task.plan.as_ref().map(|plan| copy(plan, &to.join(below("plans"))).map(|()| below("plans")));
        packed.push(Task {
            instance,
            schedule,
            plan: plan.transpose()?,
            record: Path::new("records").join(&task.record),
            ..task
        });
    }
    write_list(&to.join("list.tsv"), &packed)?;
    output::info(&format!("{} in {}", count(packed.len(), "replay"), to.display()));
    Ok(())
}

/// Makes `executed.csv` of the records that are there; rows of other devices stay, and another pass waits. Returns what is wrong
/// with executions on this device, if anything is.
///
/// # Errors
/// A record is none, or files cannot be read or written.
pub fn collect(rows: &[Record], folder: &Path, target: Target) -> Result<Option<Failure>, Failure> {
    let _held = output::hold(folder)?;
    let mut all = read(folder)?;
    all.retain(|row| row.device != target.name());
    let there = all.len();
    for Task { record, row, .. } in tasks(rows, folder, target)? {
        let record = replays(folder, target).join(record);
        if !record.exists() {
            continue;
        }
        let measured = executed(&record).map_err(Failure::input)?;
        all.push(Execution {
            instance: row.instance,
            instance_hash: row.instance_hash,
            method: row.method,
            parameters: row.parameters,
            budget: row.budget,
            seed: row.seed,
            simulated_time: row.simulated_time,
            simulated_peak: row.simulated_peak,
            device: target.name(),
            ..measured
        });
    }
    let bad =
        all[there..].iter().filter(|row| row.executed_equal == Some(false) || !row.executed_error.is_empty()).count();
    let (made, path) = (count(all.len() - there, "execution"), super::path_in(folder));
    let (name, path) = (target.name(), path.display());
    output::info(&format!("{made} on {name} in {path}; {bad} failed or differ"));
    write(folder, &all)?;
    let words = || {
        format!(
            "{bad} of {made} on {name} failed or differ; columns executed_error and executed_equal of {path} say how"
        )
    };
    Ok((bad > 0).then(|| Failure::failed(words())))
}

/// Takes the records of a packed folder over, as far as they are of the schedules that the rows have now.
///
/// # Errors
/// There are none, or they cannot be copied.
pub fn bring(rows: &[Record], folder: &Path, target: Target, from: &Path) -> Result<(), Failure> {
    let mut found = 0;
    for Task { record, .. } in tasks(rows, folder, target)? {
        let (made, kept) = (from.join("records").join(&record), replays(folder, target).join(&record));
        if made.is_file() {
            make_parent(&kept)?;
            std::fs::copy(&made, &kept).map_err(Failure::cannot("write", &kept))?;
            found += 1;
        }
    }
    if found == 0 {
        return Err(Failure::input(format!(
            "{}: records/ has none of the schedules in {}; unpack records.tar.gz there, or pack anew with --pack",
            from.display(),
            folder.display()
        )));
    }
    Ok(())
}

/// Every schedule of a folder, instance by instance, the framework's own ways first.
fn tasks(rows: &[Record], folder: &Path, target: Target) -> Result<Vec<Task>, Failure> {
    let mut instances = Instances::new(folder);
    let mut tasks: Vec<Task> = Vec::new();
    let solved: Vec<_> = latest(rows).into_iter().filter(|row| row.simulated_time.is_some()).collect();
    let mut hashes: Vec<&str> = Vec::new();
    for row in &solved {
        if !hashes.contains(&row.instance_hash.as_str()) {
            hashes.push(&row.instance_hash);
        }
    }
    for hash in hashes {
        let of_instance = solved.iter().filter(|row| row.instance_hash == hash);
        for (at, row) in of_instance.enumerate() {
            let path = instances.path(&row.instance, &row.instance_hash).map_err(Failure::input)?;
            let instance = std::path::absolute(path).map_err(Failure::failed)?;
            // The framework's own ways have no plan.
            if at == 0 && !target.arena {
                tasks.extend(BASELINES.iter().map(|name| baseline(row, &instance, name)));
            }
            let plan = target.arena.then(|| planned(folder, row)).transpose()?;
            let schedule = schedule_path(&folder.join("schedules"), row);
            let hash = hash_of(row, std::iter::once(&schedule).chain(&plan))?;
            tasks.push(Task {
                instance,
                schedule: schedule.display().to_string(),
                plan,
                record: record_of(row, &hash),
                hash,
                row: identity(row),
            });
        }
    }
    Ok(tasks)
}

/// The plan of a row's schedule.
fn planned(folder: &Path, row: &Record) -> Result<PathBuf, Failure> {
    let path = plan_path(folder, row);
    if path.is_file() {
        return Ok(path);
    }
    let (path, folder) = (path.display(), folder.display());
    Err(Failure::input(format!("{path}: is not there; make the plans with `bench allocate --results {folder}`")))
}

fn baseline(row: &Record, instance: &Path, name: &str) -> Task {
    let like = Record {
        method: format!("pytorch:{name}"),
        parameters: String::new(),
        budget: String::new(),
        seed: 0,
        simulated_time: None,
        simulated_peak: None,
        ..row.clone()
    };
    // Of no file: it depends on the network alone.
    let hash = file_name(&row.instance_hash);
    Task {
        instance: instance.to_owned(),
        schedule: format!("baseline:{name}"),
        plan: None,
        record: record_of(&like, &hash),
        hash,
        row: identity(&like),
    }
}

/// Hash of the network and of the files that say how it is executed.
fn hash_of<'a>(row: &Record, files: impl Iterator<Item = &'a PathBuf>) -> Result<String, Failure> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(row.instance_hash.as_bytes());
    for path in files {
        let bytes = std::fs::read(path)
            .map_err(|error| Failure::unreadable(path)(format!("{error}; each row needs its schedule: {RESTORE}")))?;
        hasher.update(&bytes);
    }
    Ok(hasher.finalize().to_hex()[..12].to_owned())
}

/// `<instance>/<method>[<parameters>]@<budget>+seed<seed>.<hash>.json`.
fn record_of(row: &Record, hash: &str) -> PathBuf {
    named_path(Path::new(""), row, &format!("{hash}.json"))
}

fn identity(row: &Record) -> Execution {
    Execution {
        instance: row.instance.clone(),
        instance_hash: row.instance_hash.clone(),
        method: row.method.clone(),
        parameters: row.parameters.clone(),
        budget: row.budget.clone(),
        seed: row.seed,
        simulated_time: row.simulated_time,
        simulated_peak: row.simulated_peak,
        ..Execution::default()
    }
}

fn replays(folder: &Path, target: Target) -> PathBuf {
    folder.join("replays").join(target.name())
}

fn write_list(path: &Path, tasks: &[Task]) -> Result<(), Failure> {
    make_parent(path)?;
    let line = |task: &Task| {
        let plan = task.plan.as_ref().map_or(String::new(), |plan| format!("\t{}", plan.display()));
        format!("{}\t{}\t{}{plan}\n", task.instance.display(), task.schedule, task.record.display())
    };
    std::fs::write(path, tasks.iter().map(line).collect::<String>()).map_err(Failure::cannot("write", path))
}

/// Copies a JSON file, compressed as the target's name says.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    make_parent(to)?;
    let value: Value = read_json(from)?;
    write_json(to, &value).map_err(Failure::writing)
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(Failure::cannot("write", parent))
}
