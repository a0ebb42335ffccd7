//! The library of best-known values, in the manner of MIPLIB's `.solu` file: per instance, class of schedules and
//! budget the best simulated time with its schedule, the best proved bound, and who found them.
//!
//! An entry only ever gets better: a smaller time with a schedule that the simulator confirms, a larger bound, a proof.
//! There are three [`CLASSES`]. A schedule counts for each class that it is in, whatever its method claims, and a bound for
//! each class within the one that it was proved for. Budgets are nested likewise: what fits a budget fits every
//! larger one, and what no schedule of a budget undercuts, none of a smaller one does ([`Entry::is_within`]).

mod campaign;
mod check;
mod relations;
mod update;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use remat_core::format::{MemoryUnit, TimeUnit};
use remat_formulations::Class;
use remat_formulations::method::claim::Order;
use remat_formulations::search::incumbent::proves;
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::library::glob;
use crate::ground::names::{file_name, nearest};
use crate::ground::rows;
use crate::ground::text;
pub use campaign::Campaign;
pub use check::{Proofs, Trial, check, prove};
#[cfg(test)]
pub use relations::tests::entry;
pub use update::{Changes, update};

/// The classes of the library, each within the next, with short names for people.
pub const CLASSES: [(&str, Class); 3] = [
    ("fixed order", Class::STAGES),
    ("with implementations", Class { order: Order::Stages, ..Class::ALL }),
    ("all schedules", Class::ALL),
];

/// What is known of an instance, a class and a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the instance.
    #[serde(with = "text::csv")]
    pub instance: String,
    /// Hash of its contents.
    pub instance_hash: String,
    /// The schedules that it is about.
    pub class: Class,
    /// Budget as written: `0.5x` of store-all's peak, say.
    #[serde(with = "text::csv")]
    pub budget: String,
    /// Budget in the instance's unit of memory.
    pub budget_size: u64,
    /// What is proved.
    pub status: Status,
    /// Best simulated time.
    pub time: Option<u64>,
    /// Simulated peak of its schedule.
    pub peak: Option<u64>,
    /// Best proved lower bound on the time.
    pub bound: Option<u64>,
    /// Per cent of the bound by which the time exceeds it.
    pub gap: Option<f64>,
    /// Method and parameters that found the time.
    #[serde(with = "text::csv")]
    pub found_by: String,
    /// Wall seconds of that run.
    pub found_seconds: Option<f64>,
    /// Method and parameters that proved the bound, or that there is no schedule.
    #[serde(with = "text::csv")]
    pub bound_by: String,
    /// Wall seconds of that run.
    pub bound_seconds: Option<f64>,
    /// Unit of times.
    pub time_unit: TimeUnit,
    /// Unit of sizes.
    pub memory_unit: MemoryUnit,
    /// Version and revision of bench that the last improvement is from.
    pub revision: String,
    /// When that was.
    pub timestamp: String,
    /// The schedule, relative to the file.
    pub schedule: String,
}

/// What is proved of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No schedule of the class is faster by more than a millionth: proved.
    Solved,
    /// There is a time or a bound, and a gap between them.
    Open,
    /// The class has no schedule within the budget: proved.
    Infeasible,
}

impl Status {
    /// The word for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Open => "open",
            Self::Infeasible => "infeasible",
        }
    }
}

impl Entry {
    /// Whether every schedule that this entry is about is one that another is about.
    pub fn is_within(&self, other: &Self) -> bool {
        self.instance_hash == other.instance_hash
            && self.budget_size <= other.budget_size
            && other.class.contains(&self.class)
    }

    /// Whether two entries are about the same question.
    fn same_question(&self, other: &Self) -> bool {
        (&self.instance_hash, self.class, self.budget_size) == (&other.instance_hash, other.class, other.budget_size)
    }

    /// The gap of an entry that is open, infinite without a time or a bound; none of one that is settled.
    pub fn open_gap(&self) -> Option<f64> {
        (self.status == Status::Open).then(|| self.gap.unwrap_or(f64::INFINITY))
    }

    /// The short name of the class.
    pub fn class_name(&self) -> String {
        let known = CLASSES.iter().find(|(_, class)| *class == self.class);
        known.map_or_else(|| self.class.to_string(), |(name, _)| (*name).into())
    }

    /// Status and gap from time and bound.
    fn judge(&mut self) {
        let pair = self.time.zip(self.bound);
        self.gap = pair.map(|(time, bound)| 100.0 * (time.saturating_sub(bound) as f64 / bound.max(1) as f64));
        if self.time.is_some() || self.status != Status::Infeasible {
            let solved = pair.is_some_and(|(time, bound)| proves(bound, time));
            self.status = if solved { Status::Solved } else { Status::Open };
        }
    }

    /// `best-known/<instance>/<budget>-<hash>.json.zst`: a schedule of other contents has another name, so that a
    /// killed update leaves what the table names as it was.
    fn schedule_name(&self, contents: &str) -> String {
        let hash = blake3::hash(contents.as_bytes()).to_hex();
        format!("best-known/{}/{}-{}.json.zst", file_name(&self.instance), self.budget_size, &hash[..12])
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
    rows::read(&path_in(folder), "take the file from git")
}

/// The entries in a folder, at least one; with a pattern, those of the instances that match.
///
/// # Errors
/// The file is none of ours, is not there or has no line, the pattern is malformed, or no instance matches.
pub fn read_some(folder: &Path, pattern: Option<&str>) -> Result<Vec<Entry>, Failure> {
    let path = path_in(folder);
    let all = read(folder)?;
    if all.is_empty() {
        return Err(Failure::input(format!("{}: no best-known values; name a folder that has some", path.display())));
    }
    let Some(pattern) = pattern else { return Ok(all) };
    let glob = glob(pattern)?;
    let (chosen, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|entry| glob.matches_name(&entry.instance));
    if chosen.is_empty() {
        let names: BTreeSet<&str> = others.iter().map(|entry| entry.instance.as_str()).collect();
        return Err(Failure::input(format!(
            "{}: none of its {} matches {pattern:?}; nearest: {}",
            path.display(),
            text::count(names.len(), "instance"),
            nearest(pattern, names).join(", ")
        )));
    }
    Ok(chosen)
}

/// Writes the entries, sorted, beside and then over the old file.
///
/// # Errors
/// The folder cannot be written.
fn write(folder: &Path, entries: &mut [Entry]) -> Result<(), Failure> {
    entries.sort_by(|a, b| key(a).cmp(&key(b)));
    rows::write(&path_in(folder), &*entries)
}

/// Instances by name, classes from the narrowest on, budgets upwards.
fn key(entry: &Entry) -> (&str, &str, usize, u64) {
    let class = CLASSES.iter().position(|(_, class)| *class == entry.class).unwrap_or(CLASSES.len());
    (&entry.instance, &entry.instance_hash, class, entry.budget_size)
}
