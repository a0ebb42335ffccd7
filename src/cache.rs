//! Rows that need not be computed again: one file per row, named by the hash of everything that decides
//! it. What is taken is simulated anew; what does not hold is computed as if it had not been there.
//!
//! The key: instance hash, method, every parameter, budget, seed, limits, threads, and the hash of the
//! sources and of the build ([`SOURCES`]). Rows that ended in an error or were interrupted are not kept.

use std::path::{Path, PathBuf};

use remat_core::io::{read_json, write_json_quickly};
use remat_core::schedule::ScheduleDocument;
use remat_core::{Instance, simulate};
use remat_formulations::Termination;
use serde::{Deserialize, Serialize};

use crate::host::SOURCES;
use crate::records::{Ending, Record, SCHEMA_VERSION};
use crate::run::job::Point;
use crate::run::plan::RunBudget;
use crate::run::{Conditions, Row, Run};

/// Names the folder; empty means no cache.
const VARIABLE: &str = "BENCH_CACHE";

/// A folder of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    /// Whether rows are only put in, and none taken.
    fresh: bool,
}

/// A row as it is kept.
#[derive(Serialize, Deserialize)]
struct Entry {
    record: Record,
    schedule: Option<ScheduleDocument>,
    trace: Vec<Point>,
}

impl Cache {
    /// The folder that the environment names, or else `results/.cache` under `root`; none where the
    /// environment says so by an empty name.
    pub fn locate(root: &Path, fresh: bool) -> Option<Self> {
        let folder = match std::env::var_os(VARIABLE) {
            Some(named) if named.is_empty() => return None,
            Some(named) => named.into(),
            None => root.join("results/.cache"),
        };
        Some(Self { folder, fresh })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The row of a budget, as if it had just been computed, if it is there and holds.
    pub fn take(&self, run: &Run, budget: &RunBudget, conditions: &Conditions) -> Option<Row> {
        if self.fresh {
            return None;
        }
        let path = self.path(&key(run, budget, conditions));
        let Entry { record, schedule, trace } = read_json(&path).ok()?;
        if !holds(&run.subject.instance, &record, schedule.as_ref()) {
            return None;
        }
        // What names the row where it is used, and does not change what it says.
        let record = Record {
            suite: run.suite.clone(),
            instance: run.subject.instance.name().into(),
            budget: budget.text.clone(),
            cached: true,
            ..record
        };
        Some(Row { record, schedule, trace })
    }

    /// Keeps a row, if it may be used again. That it cannot be kept is no failure of the run.
    pub fn put(&self, row: &Row, run: &Run, conditions: &Conditions) {
        let again = row.record.is_error() || row.record.termination == Ending::Ran(Termination::Interrupted);
        if again || row.record.cached {
            return;
        }
        let budget = RunBudget { text: row.record.budget.clone(), bytes: row.record.budget_size };
        let path = self.path(&key(run, &budget, conditions));
        let entry = Entry { record: row.record.clone(), schedule: row.schedule.clone(), trace: row.trace.clone() };
        let made = path.parent().is_some_and(|parent| std::fs::create_dir_all(parent).is_ok());
        if made {
            let _ = write_json_quickly(&path, &entry);
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        let hash = blake3::hash(key.as_bytes()).to_hex();
        self.folder.join(&hash[..2]).join(format!("{}.json.zst", &hash[2..32]))
    }
}

/// Everything that decides a row, as text.
fn key(run: &Run, budget: &RunBudget, conditions: &Conditions) -> String {
    let Conditions { limits, memory_limit_bytes, cpu_limit, .. } = conditions;
    format!(
        "{SCHEMA_VERSION} {SOURCES}\n{} {}[{}] {:?} seed {}\n{:?} {cpu_limit:?} {memory_limit_bytes:?} {} threads\n",
        run.subject.instance.hash(),
        run.method.id(),
        run.parameters,
        budget.bytes,
        run.seed,
        limits.time,
        limits.threads,
    )
}

/// Whether the simulator says of a schedule what its row says.
fn holds(instance: &Instance, record: &Record, schedule: Option<&ScheduleDocument>) -> bool {
    let Some(schedule) = schedule else { return record.simulated_time.is_none() };
    let simulation = schedule.resolve(instance).ok().and_then(|schedule| simulate(instance, &schedule).ok());
    simulation.is_some_and(|simulation| {
        Some(simulation.time) == record.simulated_time
            && Some(simulation.peak_bytes) == record.simulated_peak
            && record.instance_hash == instance.hash().to_string()
    })
}
