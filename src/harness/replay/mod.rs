//! What the real framework measured when schedules were replayed: `executed.csv` beside `records.csv`.
//!
//! One row per schedule and device, joined to the rows of `records.csv` by instance, method, parameters,
//! budget and seed: a schedule may be executed on several devices, later than it was found, or not at
//! all, and files without executions stay what they were. The executor is the profiler's
//! (`python -m remat_profiler replay-batch`); its records are kept under `replays/`.

pub mod executor;
mod outcome;
pub mod pass;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::rows;
use crate::ground::text;
use crate::harness::records::Record;
pub use outcome::executed;

/// Timed iterations of each schedule where nobody says otherwise.
pub const REPEATS: usize = 10;

/// A device on which schedules are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Device {
    /// The processor.
    Cpu,
    /// The first GPU of the machine.
    Cuda,
}

impl Device {
    /// Name in files, folders and of the executor's option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// One row of `executed.csv`. [`COLUMNS`] documents the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    #[serde(with = "text::csv")]
    pub instance: String,
    pub instance_hash: String,
    pub method: String,
    #[serde(with = "text::csv")]
    pub parameters: String,
    pub budget: String,
    pub seed: u64,
    #[serde(default)]
    pub simulated_time: Option<u64>,
    #[serde(default)]
    pub simulated_peak: Option<u64>,
    pub device: String,
    #[serde(with = "text::csv")]
    pub device_name: String,
    #[serde(with = "text::csv")]
    pub framework: String,
    pub executed_time_ns: Option<u64>,
    pub executed_time_spread_ns: Option<u64>,
    #[serde(default)]
    pub executed_over_store_all: Option<f64>,
    #[serde(default)]
    pub simulated_over_store_all: Option<f64>,
    pub executed_peak_bytes: Option<u64>,
    pub executed_storage_peak_bytes: Option<u64>,
    pub executed_reserved_bytes: Option<u64>,
    #[serde(default)]
    pub executed_arena_bytes: Option<u64>,
    #[serde(default)]
    pub executed_beside_bytes: Option<u64>,
    pub executed_equal: Option<bool>,
    pub executed_bitwise: Option<u64>,
    pub executed_within_tolerance: Option<u64>,
    #[serde(with = "text::csv")]
    pub executed_note: String,
    #[serde(with = "text::csv")]
    pub executed_error: String,
}

/// Name and meaning of each column, in order.
pub const COLUMNS: &[(&str, &str)] = &[
    ("instance", "name of the instance"),
    ("instance_hash", "hash of its contents; with the next four columns it names the row of records.csv"),
    ("method", "id of the method; pytorch:... for the framework's own ways, which have no row there"),
    ("parameters", "every parameter"),
    ("budget", "the budget as written"),
    ("seed", "seed of the method"),
    (
        "simulated_time",
        "simulated time of the schedule that was executed; empty for the framework's own ways, and in older files",
    ),
    ("simulated_peak", "its simulated peak"),
    ("device", "cpu or cuda; cpu-arena, cuda-arena: in one arena each, by a plan of addresses"),
    ("device_name", "name of the processor or GPU"),
    ("framework", "name and version of the framework"),
    ("executed_time_ns", "median time of an iteration"),
    ("executed_time_spread_ns", "interquartile range of the repeated iterations"),
    (
        "executed_over_store_all",
        "its iterations over those of store-all with default implementations, run in turn with them: median; cpu only",
    ),
    ("simulated_over_store_all", "the same by the instance's times"),
    ("executed_peak_bytes", "peak of the framework's allocator, fixed bytes and inputs included"),
    ("executed_storage_peak_bytes", "peak of the executor's own count of storages; no scratch memory"),
    ("executed_reserved_bytes", "peak of what the allocator reserved; cuda only"),
    ("executed_arena_bytes", "size of the arena that held every tensor; with an arena only"),
    (
        "executed_beside_bytes",
        "the allocator's peak beside that arena: results on their way into it, and what kernels need",
    ),
    (
        "executed_equal",
        "whether loss, gradients and buffers are those of the framework's own iteration; empty where that does not fit the device",
    ),
    ("executed_bitwise", "tensors that are, to the bit"),
    ("executed_within_tolerance", "tensors that are within the tolerance"),
    ("executed_note", "what the executor says besides"),
    ("executed_error", "why nothing was measured"),
];

impl Execution {
    /// Whether this is an execution of the schedule of a row as that is now: one that was run again may be another.
    pub fn is_of(&self, row: &Record) -> bool {
        let here = (&self.instance_hash, &self.method, &self.parameters, &self.budget, self.seed);
        let same = |executed: Option<u64>, now: Option<u64>| executed.is_none() || executed == now;
        here == (&row.instance_hash, &row.method, &row.parameters, &row.budget, row.seed)
            && same(self.simulated_time, row.simulated_time)
            && same(self.simulated_peak, row.simulated_peak)
    }

    /// The executed time over store-all's: as both were taken in turn, or else over what store-all took by itself.
    pub fn over_store_all(&self, store_all: Option<u64>) -> Option<f64> {
        self.executed_over_store_all.or_else(|| Some(self.executed_time_ns? as f64 / store_all? as f64))
    }
}

/// `executed.csv` in a folder of results.
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join("executed.csv")
}

/// The rows of a folder; none where nothing was executed.
///
/// # Errors
/// The file cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Execution>, Failure> {
    rows::read(&path_in(folder), "remove the file")
}

/// Writes the rows, by way of a temporary file.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, rows: &[Execution]) -> Result<(), Failure> {
    rows::write(&path_in(folder), rows)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    /// An execution of [`example`]'s schedule.
    pub fn execution(method: &str, budget: &str, time: u64, peak: u64) -> Execution {
        let row = example(method, None);
        Execution {
            instance: row.instance,
            instance_hash: row.instance_hash,
            method: method.into(),
            budget: budget.into(),
            device: "cpu".into(),
            executed_time_ns: Some(time),
            executed_peak_bytes: Some(peak),
            executed_storage_peak_bytes: Some(peak),
            executed_equal: Some(true),
            ..Execution::default()
        }
    }

    #[test]
    fn rows_survive_the_file_and_the_documented_columns_are_the_fields_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        let rows =
            [execution("a", "0.5x", 7, 8), Execution { executed_error: "x, \"y\"".into(), ..Execution::default() }];
        write(folder.path(), &rows).unwrap();
        assert_eq!(read(folder.path()).unwrap(), rows);
        let text = std::fs::read_to_string(path_in(folder.path())).unwrap();
        let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
        assert_eq!(text.lines().next().unwrap(), names.join(","));
    }

    #[test]
    fn an_execution_belongs_to_the_row_of_its_schedule_alone_and_to_no_later_schedule_of_it() {
        let row = example("a", Some(("0.5x", 7)));
        assert!(execution("a", "0.5x", 1, 1).is_of(&row));
        assert!(!execution("a", "0.6x", 1, 1).is_of(&row) && !execution("b", "0.5x", 1, 1).is_of(&row));
        let known = Execution { simulated_time: row.simulated_time, ..execution("a", "0.5x", 1, 1) };
        assert!(known.is_of(&row) && !known.is_of(&Record { simulated_time: Some(1), ..row }));
    }
}
