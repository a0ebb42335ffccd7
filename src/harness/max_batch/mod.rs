//! The largest batch that a method can train within a memory and a time: a search over batch sizes,
//! each step one run of the method on the network at that size, checked by the simulator.
//!
//! The networks come from [`remat_core::batch::Family`]. The allowed time is that of store-all and so
//! many more forward passes.

pub mod campaign;
mod search;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use remat_core::Instance;
use remat_core::batch::{Family, FamilyError};
use remat_core::format::InstanceDocument;
use remat_core::io::{read_json, write_json_quickly};
use remat_core::plan::Plan;
use remat_core::schedule::ScheduleDocument;
use remat_formulations::Termination;

use crate::ground::failure::Failure;
use crate::ground::host::timestamp;
use crate::ground::library::Library;
use crate::ground::names::file_name;
use crate::ground::output;
use crate::ground::size::{Budget, Size};
use crate::harness::records::batches::{BatchRow, FAILED, joined};
use crate::harness::records::select::label;
use crate::harness::records::{Ending, Record, Skipped};
use crate::harness::run::plan::{Subject, expand_method, method};
use crate::harness::run::{Conditions, execute};
use crate::harness::suite::SuiteMethod;
use search::{Found, Verdict};

/// Where instances of a family come from.
const TRACE: &str = "such as `remat-profiler trace --device flops --batch N` writes";

/// What is asked of every method.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Memory of the device.
    pub memory: Size,
    /// Forward passes that an iteration may take longer than store-all.
    pub extra_forwards: f64,
    /// Largest batch to try.
    pub most: u64,
}

/// One network at any batch size, with the files of the batches that were asked for.
pub struct Network {
    /// Name of the first of its instances.
    pub name: String,
    /// Its instances, as they were asked for.
    instances: Vec<String>,
    /// Their hashes, separated by spaces.
    hashes: String,
    family: Family,
    folder: PathBuf,
    subjects: BTreeMap<u64, Arc<Subject>>,
}

impl Network {
    /// The network that some instances show at different batches: two make it, further ones confirm it.
    ///
    /// # Errors
    /// They are no family, or cannot be read.
    pub fn read(library: &Library, instances: &[String], folder: &Path) -> Result<Self, Failure> {
        let mut documents = Vec::with_capacity(instances.len());
        for instance in instances {
            let path = library.find(instance)?;
            documents.push(read_json::<InstanceDocument>(&path)?);
        }
        let [first, second, others @ ..] = documents.as_slice() else {
            let words = instances.join(", ");
            return Err(Failure::input(format!(
                "{words} alone does not say what other batches need; name the same network at a second batch size, {TRACE}"
            )));
        };
        let wrong = |error| match error {
            FamilyError::NotAffine { .. } => {
                Failure::input(format!("{} and {}: {error}, {TRACE}", first.name, second.name))
            }
            FamilyError::Differs { .. } => Failure::input(format!("{} and {}: {error}", first.name, second.name)),
            // The others name the instances themselves.
            error => Failure::input(error),
        };
        let family = Family::new(first, second).map_err(wrong)?;
        for other in others {
            family.confirm(other).map_err(wrong)?;
        }
        let hash = |document| Ok(Instance::new(document).map_err(Failure::input)?.hash().to_string());
        let hashes = documents.iter().map(hash).collect::<Result<Vec<_>, Failure>>()?.join(" ");
        let instances = instances.to_vec();
        Ok(Self {
            name: first.name.clone(),
            instances,
            hashes,
            family,
            folder: folder.to_owned(),
            subjects: BTreeMap::new(),
        })
    }

    /// Whether some number of the network at a batch size is beyond what an instance may hold.
    fn overflows(&self, batch: u64) -> bool {
        match self.family.at(batch) {
            Ok(document) => batch > self.family.batches().1 && Instance::new(&document).is_err(),
            Err(error) => matches!(error, FamilyError::Range { value, .. } if value > 0),
        }
    }

    /// The network at a batch size, written to a file for the workers.
    ///
    /// # Errors
    /// There is no such batch, or the file cannot be written.
    pub fn at(&mut self, batch: u64) -> Result<Arc<Subject>, Failure> {
        if let Some(subject) = self.subjects.get(&batch) {
            return Ok(subject.clone());
        }
        let document = self.family.at(batch).map_err(Failure::input)?;
        output::make_folder(&self.folder)?;
        let path = self.folder.join(format!("{}.json.zst", file_name(&document.name)));
        write_json_quickly(&path, &document).map_err(Failure::writing)?;
        let subject = Arc::new(Subject::read(path)?);
        self.subjects.insert(batch, subject.clone());
        Ok(subject)
    }
}

/// Removes the files of all batches, and their folder once it is empty.
impl Drop for Network {
    fn drop(&mut self) {
        // What is left behind can be made again and is in nobody's way.
        for subject in self.subjects.values() {
            let _ = std::fs::remove_file(&subject.path);
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Searches for the largest batch that a method, with any of its settings, can train.
///
/// # Errors
/// Interrupted, or a file cannot be written. A run that ends in an error is in the row's note.
pub fn largest(
    network: &mut Network,
    chosen: &SuiteMethod,
    question: &Question,
    guess: u64,
    conditions: &Conditions,
    stop: &AtomicBool,
) -> Result<(BatchRow, Option<ScheduleDocument>), Failure> {
    let mut search =
        Search { network, chosen, question, conditions, stop, best: None, skipped: None, failed: None, cpu: 0.0 };
    let found = search::largest(guess, question.most, |batch| search.probe(batch))?;
    search.row(found)
}

/// A batch that a method managed.
struct Best {
    batch: u64,
    record: Record,
    /// The time that was allowed.
    limit: u64,
    schedule: Option<ScheduleDocument>,
}

struct Search<'a> {
    network: &'a mut Network,
    chosen: &'a SuiteMethod,
    question: &'a Question,
    conditions: &'a Conditions,
    stop: &'a AtomicBool,
    /// The largest batch so far.
    best: Option<Best>,
    skipped: Option<String>,
    /// The first run that ended in an error.
    failed: Option<String>,
    cpu: f64,
}

impl Search<'_> {
    fn probe(&mut self, batch: u64) -> Result<Verdict, Failure> {
        if self.skipped.is_some() {
            return Ok(Verdict::Unknown);
        }
        if self.network.overflows(batch) {
            return Ok(Verdict::Unknown);
        }
        let subject = self.network.at(batch)?;
        let limit = time_limit(&subject, self.question.extra_forwards);
        let memory = self.question.memory;
        let mut runs = Vec::new();
        let budget = memory.0.to_string().parse::<Budget>().map_err(Failure::input)?;
        expand_method("", &subject, self.chosen, (&[budget], &[self.conditions.allowance.limits.seed]), &mut runs)?;
        let mut verdict = Verdict::Refuted;
        for run in &runs {
            let rows = execute(run, &run.budgets, self.conditions, self.stop);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted("interrupted; --resume searches again what has no row".into()));
            }
            for row in rows {
                self.cpu += row.record.cpu_seconds;
                match self.judge(&row.record, memory.0, limit) {
                    Verdict::Holds => {
                        if self.best.as_ref().is_none_or(|best| batch > best.batch) {
                            self.best = Some(Best { batch, record: row.record, limit, schedule: row.schedule });
                        }
                        return Ok(Verdict::Holds);
                    }
                    Verdict::Unknown => verdict = Verdict::Unknown,
                    Verdict::Refuted => {}
                }
            }
        }
        Ok(verdict)
    }

    /// Whether a row meets memory and time, or shows that no schedule of the method's class does, or that the only one which the
    /// method makes does not.
    fn judge(&mut self, record: &Record, memory: u64, limit: u64) -> Verdict {
        if record.is_error() {
            let Record { method, instance, error, .. } = record;
            self.failed.get_or_insert(format!("{FAILED}{method} on {instance}: {error}"));
            return Verdict::Unknown;
        }
        if record.termination == Ending::Skipped(Skipped::Skipped) {
            self.skipped = Some(record.note.clone());
            return Verdict::Unknown;
        }
        let within = |value: Option<u64>, limit: u64| value.is_some_and(|value| value <= limit);
        if record.is_solved() && within(record.simulated_peak, memory) && within(record.simulated_time, limit) {
            return Verdict::Holds;
        }
        let only = record.budget_size.is_none() && !record.termination.is_limit();
        let infeasible = record.termination == Ending::Ran(Termination::Infeasible);
        let bounded = record.proved_bound().is_some_and(|bound| bound > limit);
        if only || infeasible || bounded { Verdict::Refuted } else { Verdict::Unknown }
    }

    fn row(self, found: Found) -> Result<(BatchRow, Option<ScheduleDocument>), Failure> {
        let usual = method(&self.chosen.id)?.usual_claim();
        let (batch, record, limit, schedule) = match self.best {
            Some(Best { batch, record, limit, schedule }) => (Some(batch), Some(record), Some(limit), schedule),
            None => (None, None, None, None),
        };
        let skipped = self.skipped.map(|reason| format!("skipped: {reason}"));
        let open = (batch == Some(self.question.most))
            .then(|| format!("no larger batch than {} was tried", self.question.most));
        let note = record.as_ref().map(|record| record.note.clone()).filter(|note| !note.is_empty());
        let limits = self.conditions.allowance.limits;
        let row = BatchRow {
            network: self.network.name.clone(),
            instances: joined(&self.network.instances),
            instance_hashes: self.network.hashes.clone(),
            instance_hash: record.as_ref().map(|record| record.instance_hash.clone()).unwrap_or_default(),
            method: self.chosen.id.clone(),
            label: label_of(self.chosen),
            settings: self.chosen.listed(),
            claim: record.as_ref().map_or(usual, |record| record.claim),
            memory: self.question.memory.0,
            extra_forwards: self.question.extra_forwards,
            most: self.question.most,
            largest: batch,
            refuted: found.refuted,
            probes: found.probes,
            store_all_time: record.as_ref().map(|record| record.store_all_time),
            allowed_time: limit,
            simulated_time: record.as_ref().and_then(|record| record.simulated_time),
            simulated_peak: record.as_ref().and_then(|record| record.simulated_peak),
            cpu_seconds: self.cpu,
            time_limit_seconds: limits.time.map(|limit| limit.as_secs_f64()),
            threads: limits.threads,
            seed: limits.seed,
            note: self.failed.into_iter().chain(skipped).chain(open).chain(note).collect::<Vec<_>>().join("; "),
            version: crate::ground::host::VERSION.into(),
            git_revision: self.conditions.host.git_revision.clone(),
            host: self.conditions.host.name.clone(),
            timestamp: timestamp(),
        };
        Ok((row, schedule))
    }
}

/// A method with its parameters; those of which there are several are tried together, and not named.
fn label_of(chosen: &SuiteMethod) -> String {
    let settings = chosen.settings();
    let given = settings.first().filter(|_| settings.len() == 1);
    let words: Vec<_> = given.into_iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
    label(&chosen.id, &words.join(","))
}

/// Where a search begins: at the largest batch that another method managed.
pub fn guess(rows: &[BatchRow], network: &str) -> u64 {
    rows.iter().filter(|row| row.network == network).filter_map(|row| row.largest).max().unwrap_or(1)
}

/// Time of store-all, and of some forward passes more.
pub fn time_limit(subject: &Subject, extra_forwards: f64) -> u64 {
    let extra = forward_time(&subject.instance) as f64 * extra_forwards;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; saturates")]
    let extra = extra as u64;
    subject.baseline.time.saturating_add(extra)
}

/// Time of the forward pass and the loss with the fastest implementations.
fn forward_time(instance: &Instance) -> u64 {
    let plan = Plan::fastest(instance);
    let forward = instance.operator_ids().filter(|&id| instance.operator(id).phase.is_forward());
    forward.map(|id| instance.operator(id).implementations[plan.saving[id.index()]].time).sum()
}
