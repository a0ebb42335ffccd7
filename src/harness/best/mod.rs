//! Best-known values, in the manner of MIPLIB's `.solu` file: per instance, class of methods and budget
//! the best simulated time and the best proved bound, who found them, and the schedule.
//!
//! An entry only ever gets better: a smaller time with a schedule that the simulator confirms, a larger
//! bound, a proof. It is about a class of schedules ([`remat_formulations::Class`]): it takes the times of all classes
//! within its own, and the bounds of all around it.

mod update;

use std::path::{Path, PathBuf};

use remat_core::format::{MemoryUnit, TimeUnit};
use remat_core::io::read_schedule;
use remat_core::simulate;
use remat_formulations::Class;
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::names::file_name;
use crate::ground::text;
use crate::harness::recorded::Instances;
pub use update::update;

/// What is known of an instance, a class and a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the instance.
    #[serde(with = "text::csv")]
    pub instance: String,
    /// Hash of its contents.
    pub instance_hash: String,
    /// The schedules that it is about.
    pub class: Class,
    /// Budget.
    pub budget_size: u64,
    /// What is proved.
    pub status: Status,
    /// Best simulated time.
    pub time: Option<u64>,
    /// Simulated peak of its schedule.
    pub peak: Option<u64>,
    /// Method and parameters that found it, or proved that there is none.
    #[serde(with = "text::csv")]
    pub found_by: String,
    /// Best proved lower bound on the time.
    pub bound: Option<u64>,
    /// Method and parameters that proved it.
    #[serde(with = "text::csv")]
    pub bound_by: String,
    /// Unit of times.
    pub time_unit: TimeUnit,
    /// Unit of sizes.
    pub memory_unit: MemoryUnit,
    /// Version and revision of bench that found the time.
    pub revision: String,
    /// When.
    pub timestamp: String,
    /// The schedule, relative to the file.
    pub schedule: String,
}

/// What is proved of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Who found the time proved that no schedule of its class is faster.
    Optimal,
    /// There is a time, and no such proof.
    Best,
    /// It is proved that no schedule of the class of who says so meets the budget.
    Infeasible,
    /// Only a bound is known.
    Unknown,
}

impl Status {
    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Best => "best",
            Self::Infeasible => "infeasible",
            Self::Unknown => "unknown",
        }
    }
}

impl Entry {
    /// Whether two entries are about the same instance and budget.
    fn same_budget(&self, other: &Self) -> bool {
        (&self.instance_hash, self.budget_size) == (&other.instance_hash, other.budget_size)
    }

    /// Whether two entries are about the same question.
    fn same_question(&self, other: &Self) -> bool {
        (&self.instance_hash, self.class, self.budget_size) == (&other.instance_hash, other.class, other.budget_size)
    }

    /// `best-known/<instance>/<class>@<budget>.json.zst`.
    fn schedule_name(&self) -> String {
        let class = self.class.to_string().replace(", ", "-").replace(' ', "-");
        format!(
            "best-known/{}/{}",
            file_name(&self.instance),
            file_name(&format!("{class}@{}.json.zst", self.budget_size))
        )
    }

    /// Percent of the time above the bound.
    pub fn gap(&self) -> Option<f64> {
        let (time, bound) = self.time.zip(self.bound).filter(|(_, bound)| *bound > 0)?;
        Some(100.0 * (time as f64 / bound as f64 - 1.0))
    }
}

/// `best-known.csv` in a folder.
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join("best-known.csv")
}

/// The entries in a folder; none where there is no file.
///
/// # Errors
/// The file is none of ours.
pub fn read(folder: &Path) -> Result<Vec<Entry>, Failure> {
    let path = path_in(folder);
    if !path.is_file() {
        return Ok(vec![]);
    }
    let wrong = |error: csv::Error| Failure::input(format!("{}: {error}; take the file from git", path.display()));
    let mut reader = csv::Reader::from_path(&path).map_err(wrong)?;
    reader.deserialize().collect::<Result<_, _>>().map_err(wrong)
}

/// Writes the entries, sorted, beside and then over the old file.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, entries: &mut [Entry]) -> Result<(), Failure> {
    entries.sort_by(|a, b| {
        let order =
            |entry: &Entry| (entry.instance.clone(), entry.instance_hash.clone(), entry.class, entry.budget_size);
        order(a).cmp(&order(b))
    });
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::failed(format!("{}: cannot make the folder: {error}", folder.display())))?;
    crate::ground::output::write_csv(&path_in(folder), entries)
}

/// Simulates every schedule again; returns what differs.
///
/// # Errors
/// The file is none of ours.
pub fn check(folder: &Path) -> Result<(usize, Vec<String>), Failure> {
    let entries = read(folder)?;
    let mut instances = Instances::new(folder);
    let with_time: Vec<_> = entries.iter().filter(|entry| entry.time.is_some()).collect();
    let differences = with_time.iter().filter_map(|entry| {
        let words = confirm(entry, &folder.join(&entry.schedule), &mut instances).err()?;
        Some(format!("{} {} at {}: {words}", entry.instance, entry.class, entry.budget_size))
    });
    let differences = differences.collect();
    Ok((with_time.len(), differences))
}

/// Whether the simulator says of a schedule what an entry says.
fn confirm(entry: &Entry, schedule: &Path, instances: &mut Instances) -> Result<(), String> {
    let instance = instances.named(&entry.instance, &entry.instance_hash)?;
    let (_, schedule) = read_schedule(schedule, instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    if Some(simulation.time) != entry.time || Some(simulation.peak_bytes) != entry.peak {
        return Err(format!(
            "the entry says {:?} and {:?}, the simulator {} and {}",
            entry.time.unwrap_or_default(),
            entry.peak.unwrap_or_default(),
            simulation.time,
            simulation.peak_bytes
        ));
    }
    if simulation.peak_bytes > entry.budget_size {
        return Err(format!("over budget: the simulated peak is {}", simulation.peak_bytes));
    }
    Ok(())
}
