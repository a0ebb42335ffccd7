//! The plans of a folder of results: an address for every tensor of every schedule. They lie in `plans/`, and `plans.csv` says of
//! each what the tables show, joined to the rows of `records.csv` by instance, method, parameters, budget and seed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use remat_core::format::MemoryUnit;
use remat_core::io::{read_schedule, write_json};
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::rows;
use crate::ground::text;
use crate::harness::arena::{Arena, Terms};
use crate::harness::recorded::Instances;
use crate::harness::records::Record;
use crate::harness::records::paths::{named_path, schedule_path};
use crate::harness::records::select::latest;

/// One row of `plans.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Name of the instance.
    #[serde(with = "text::csv")]
    pub instance: String,
    /// Its hash; with the next four columns it names the row of `records.csv`.
    pub instance_hash: String,
    /// Id of the method that made the schedule.
    pub method: String,
    /// Every parameter.
    #[serde(with = "text::csv")]
    pub parameters: String,
    /// The budget as written.
    #[serde(with = "text::csv")]
    pub budget: String,
    /// Seed of the method.
    pub seed: u64,
    /// Simulated time of the schedule that was packed.
    pub time: u64,
    /// Its simulated peak.
    pub peak: u64,
    /// Unit of sizes.
    pub memory_unit: MemoryUnit,
    /// What offsets and sizes are multiples of.
    pub alignment: u64,
    /// Number of buffers.
    pub buffers: usize,
    /// Bytes outside of the arena.
    pub fixed: u64,
    /// No arena is lower.
    pub bound: u64,
    /// Size of the arena.
    pub height: u64,
    /// The method that packed.
    pub packed_by: String,
    /// Wall seconds that it took.
    pub seconds: f64,
}

impl Planned {
    /// Whether this is about the schedule of a row as that is now: one that was run again may be another.
    pub fn is_of(&self, row: &Record) -> bool {
        let here = (&self.instance_hash, &self.method, &self.parameters, &self.budget, self.seed);
        here == (&row.instance_hash, &row.method, &row.parameters, &row.budget, row.seed)
            && (Some(self.time), Some(self.peak)) == (row.simulated_time, row.simulated_peak)
    }

    /// Fixed bytes and arena above the peak, as a part of that; none where the peak is 0.
    pub fn above_peak(&self) -> Option<f64> {
        let memory = self.fixed as f64 + self.height as f64;
        (self.peak > 0).then(|| memory / self.peak as f64 - 1.0)
    }
}

/// `plans/<instance>/<method>[<parameters>]@<budget>+seed<seed>.json.zst` in a folder of results.
pub fn plan_path(folder: &Path, record: &Record) -> PathBuf {
    named_path(&folder.join("plans"), record, "json.zst")
}

/// The rows of a folder; none where nothing was packed.
///
/// # Errors
/// The file cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Planned>, Failure> {
    rows::read(&folder.join("plans.csv"), "remove the file")
}

/// Packs every schedule of a folder, and writes plans and `plans.csv` anew.
///
/// # Errors
/// An instance or schedule is gone or not what the row says, or files cannot be written.
pub fn make(rows: &[Record], folder: &Path, terms: &Terms) -> Result<Vec<Planned>, Failure> {
    let mut instances = Instances::new(folder);
    let mut made = Vec::new();
    for row in latest(rows).into_iter().filter(|row| row.simulated_time.is_some()) {
        let instance = instances.get(row).map_err(Failure::input)?;
        let path = schedule_path(&folder.join("schedules"), row);
        let (_, schedule) = read_schedule(&path, instance)?;
        let start = Instant::now();
        let arena = Arena::new(instance, &schedule, terms)?;
        let (time, peak) = (arena.lifetimes.simulation.time, arena.lifetimes.simulation.peak_bytes);
        if (Some(time), Some(peak)) != (row.simulated_time, row.simulated_peak) {
            let words = "is not what its row says; `bench check` has the difference";
            return Err(Failure::at(&path)(words));
        }
        let target = plan_path(folder, row);
        let plan = arena.plan(instance, terms.method.id());
        output::write_file(&target, |path| write_json(path, &plan))?;
        made.push(Planned {
            instance: row.instance.clone(),
            instance_hash: row.instance_hash.clone(),
            method: row.method.clone(),
            parameters: row.parameters.clone(),
            budget: row.budget.clone(),
            seed: row.seed,
            time,
            peak,
            memory_unit: row.memory_unit,
            alignment: plan.alignment,
            buffers: plan.buffers.len(),
            fixed: plan.fixed_bytes,
            bound: plan.bound,
            height: plan.height,
            packed_by: plan.method,
            seconds: start.elapsed().as_secs_f64(),
        });
    }
    rows::write(&folder.join("plans.csv"), &made)?;
    Ok(made)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    #[test]
    fn a_plan_belongs_to_the_schedule_that_was_packed_and_to_no_later_one_of_its_row() {
        let row = Record { simulated_time: Some(7), simulated_peak: Some(100), ..example("m", Some(("0.5x", 50))) };
        let planned = Planned {
            instance: row.instance.clone(),
            instance_hash: row.instance_hash.clone(),
            method: row.method.clone(),
            parameters: row.parameters.clone(),
            budget: row.budget.clone(),
            seed: row.seed,
            time: 7,
            peak: 100,
            memory_unit: row.memory_unit,
            alignment: 1,
            buffers: 3,
            fixed: 20,
            bound: 80,
            height: 85,
            packed_by: "minimalloc".into(),
            seconds: 0.5,
        };
        assert!(planned.is_of(&row) && !planned.is_of(&Record { simulated_peak: Some(99), ..row.clone() }));
        assert!(!planned.is_of(&Record { seed: 1, ..row.clone() }));
        assert!((planned.above_peak().unwrap() - 0.05).abs() < 1e-12);
        assert_eq!(Planned { peak: 0, ..planned.clone() }.above_peak(), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        rows::write(&folder.path().join("plans.csv"), [&planned]).unwrap();
        assert_eq!(read(folder.path()).unwrap(), [planned]);
    }
}
