//! `max-batch.csv`: one row per network and method.

use std::path::{Path, PathBuf};

use remat_core::io::write_json_quickly;
use remat_core::schedule::ScheduleDocument;
use remat_formulations::Claim;
use serde::{Deserialize, Serialize};

use super::parts;
use crate::ground::failure::Failure;
use crate::ground::names::file_name;
use crate::ground::output;
use crate::ground::rows;
use crate::ground::text;

/// How the note of a search begins of which a run ended in an error.
pub const FAILED: &str = "error: ";

/// One search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchRow {
    /// Name of the first of the network's instances.
    #[serde(with = "text::csv")]
    pub network: String,
    /// The instances that show it at different batches, as [`joined`] writes them.
    #[serde(with = "text::csv")]
    pub instances: String,
    /// Their hashes, separated by spaces; empty in files of before there was this column.
    #[serde(default)]
    pub instance_hashes: String,
    /// Hash of the network at the largest batch.
    pub instance_hash: String,
    /// Id of the method.
    pub method: String,
    /// The method with the parameters that the suite gives.
    #[serde(with = "text::csv")]
    pub label: String,
    /// All settings that are tried together; empty in files of before there was this column.
    #[serde(default, with = "text::csv")]
    pub settings: String,
    /// Its claim.
    pub claim: Claim,
    /// Memory of the device.
    pub memory: u64,
    /// Forward passes allowed beyond store-all's time.
    pub extra_forwards: f64,
    /// Largest batch to try; 0 in files of before there was this column.
    #[serde(default)]
    pub most: u64,
    /// Largest batch found.
    pub largest: Option<u64>,
    /// Least batch at which no schedule of the method's class will do, or the only one that it makes does not.
    pub refuted: Option<u64>,
    /// Batch sizes tried.
    pub probes: u64,
    /// Store-all's time at the largest batch.
    pub store_all_time: Option<u64>,
    /// The time allowed there.
    pub allowed_time: Option<u64>,
    /// The time of the schedule found there.
    pub simulated_time: Option<u64>,
    /// Its peak.
    pub simulated_peak: Option<u64>,
    /// CPU seconds of all runs.
    pub cpu_seconds: f64,
    /// Wall limit of each run.
    pub time_limit_seconds: Option<f64>,
    /// Threads of each run.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
    /// What else to know.
    #[serde(with = "text::csv")]
    pub note: String,
    /// Version of bench.
    pub version: String,
    /// Revision of the checkout.
    pub git_revision: String,
    /// Host.
    #[serde(with = "text::csv")]
    pub host: String,
    /// End of the search.
    pub timestamp: String,
}

impl BatchRow {
    /// Whether a run ended in an error, so that more may be possible.
    pub fn is_error(&self) -> bool {
        self.note.starts_with(FAILED)
    }

    /// The instances that show the network.
    pub fn names(&self) -> Vec<String> {
        let apart = || self.instances.split_whitespace().map(str::to_owned).collect();
        serde_json::from_str(&self.instances).unwrap_or_else(|_| apart())
    }

    /// Whether the largest batch is the largest that was to be tried.
    pub fn stopped_at_most(&self) -> bool {
        self.largest == Some(self.most)
    }

    /// What the search is about: of the rows about the same, the latest counts.
    pub fn about(&self) -> About<'_> {
        let Self { network, label, memory, extra_forwards, seed, version, .. } = self;
        (network, label, *memory, extra_forwards.to_bits(), *seed, version)
    }

    /// All that decides its answer but the limits: what it is about, the hashes of the instances, the settings, and the largest
    /// batch to try.
    pub fn question(&self) -> (About<'_>, &str, &str, u64) {
        (self.about(), &self.instance_hashes, &self.settings, self.most)
    }
}

/// Network, label, memory, bits of the forward passes, seed and version.
pub type About<'a> = (&'a str, &'a str, u64, u64, u64, &'a str);
/// Names of instances as a row has them: separated by spaces, or as a list of JSON where a name has one.
pub fn joined(names: &[String]) -> String {
    let spaced = names.iter().any(|name| name.contains(char::is_whitespace));
    if spaced { serde_json::json!(names).to_string() } else { names.join(" ") }
}

/// The file in a folder of results.
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join("max-batch.csv")
}

/// The rows in a folder of results and in its parts, of those about the same the latest;
/// none where there is no such file.
///
/// # Errors
/// A file is none of ours.
pub fn read(folder: &Path) -> Result<Vec<BatchRow>, Failure> {
    let mut rows: Vec<BatchRow> = Vec::new();
    let parts = parts::folders(folder);
    for folder in std::iter::once(folder).chain(parts.iter().map(PathBuf::as_path)) {
        for row in rows::read::<BatchRow>(&path_in(folder), "remove the file")? {
            match rows.iter_mut().find(|other| other.about() == row.about()) {
                // A task of a cluster begins with a copy of the rows that are there.
                Some(other) if other.timestamp > row.timestamp => {}
                Some(other) => *other = row,
                None => rows.push(row),
            }
        }
    }
    Ok(rows)
}

/// Writes all rows, beside and then over the old file.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, rows: &[BatchRow]) -> Result<(), Failure> {
    rows::write(&path_in(folder), rows)
}

/// The schedule of a row's largest batch: `schedules/max-batch/<network>/<method>@<memory>+forwards<n>+seed<seed>.json.zst`
/// (no seed 0).
pub fn schedule_path(results: &Path, row: &BatchRow) -> PathBuf {
    let seed = if row.seed == 0 { String::new() } else { format!("+seed{}", row.seed) };
    let name = file_name(&format!("{}@{}+forwards{}{seed}", row.label, row.memory, row.extra_forwards));
    results.join("schedules/max-batch").join(file_name(&row.network)).join(format!("{name}.json.zst"))
}

/// Keeps the schedule of a row.
///
/// # Errors
/// It cannot be written.
pub fn write_schedule(results: &Path, row: &BatchRow, schedule: &ScheduleDocument) -> Result<(), Failure> {
    output::write_file(&schedule_path(results, row), |path| write_json_quickly(path, schedule))
}
