//! The library held against the simulator, against itself, and against the methods that proved it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use remat_core::io::read_schedule;
use remat_core::simulate;
use remat_formulations::method::claim::Strength;
use remat_formulations::random::Random;
use remat_formulations::search::incumbent::TOLERANCE;
use remat_formulations::{Class, Limits, Spec, Termination};

use super::relations::settle;
use super::{Entry, Status};
use crate::ground::failure::Failure;
use crate::ground::host::cores;
use crate::ground::output;
use crate::harness::pool::lock;
use crate::harness::recorded::Instances;
use crate::harness::records::{Ending, Record};
use crate::harness::run::plan::{RunBudget, Subject, method, parameters};
use crate::harness::run::{Allowance, Conditions, Run, execute};

/// A proof is tried again where it took at most this part of the time that there is for all.
const SHARE: u32 = 8;
/// Seconds that a proof may take, for each that it took, and besides.
const PATIENCE: (f64, f64) = (4.0, 2.0);

/// What a schedule file comes to: time, peak and class.
type Simulated = Result<(u64, u64, Class), String>;

/// Simulates the schedules of some entries again, and holds these against each other: all entries of an instance, or none of
/// them. Returns how many schedules there are, and what is not as it should be.
pub fn check(folder: &Path, entries: &[Entry]) -> (usize, Vec<String>) {
    let mut instances = Instances::new(folder);
    let mut simulated: BTreeMap<&str, Simulated> = BTreeMap::new();
    let mut differences = Vec::new();
    for entry in entries {
        if entry.time.is_some() {
            let known =
                simulated.entry(&entry.schedule).or_insert_with(|| simulated_again(entry, folder, &mut instances));
            differences.extend(confirm(entry, known).err().map(|words| about(entry, &words)));
        }
        differences.extend(uncovered(entry).map(|words| about(entry, &words)));
    }
    let count = simulated.len();
    let mut settled = entries.to_vec();
    differences.extend(settle(&mut settled));
    for entry in entries.iter().filter(|entry| !settled.contains(entry)) {
        differences
            .push(about(entry, "other lines of the table say more, or status or gap do not follow from the line"));
    }
    (count, differences)
}

fn about(entry: &Entry, words: &str) -> String {
    format!("{} {} at {}: {words}", entry.instance, entry.class_name(), entry.budget)
}

fn simulated_again(entry: &Entry, folder: &Path, instances: &mut Instances) -> Simulated {
    let instance = instances.named(&entry.instance, &entry.instance_hash)?;
    let (_, schedule) = read_schedule(&folder.join(&entry.schedule), instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    Ok((simulation.time, simulation.peak_bytes, Class::of(instance, &schedule)))
}

/// Whether the simulator says of a schedule what an entry says.
fn confirm(entry: &Entry, simulated: &Simulated) -> Result<(), String> {
    let (time, peak, class) = simulated.as_ref().map_err(Clone::clone)?;
    if (Some(*time), Some(*peak)) != (entry.time, entry.peak) {
        let (said, peak_said) = (entry.time.unwrap_or_default(), entry.peak.unwrap_or_default());
        return Err(format!("the entry says {said} and {peak_said}, the simulator {time} and {peak}"));
    }
    if *peak > entry.budget_size {
        return Err(format!("over budget: the simulated peak is {peak}"));
    }
    if !entry.class.contains(class) {
        return Err(format!("its schedule is outside of the class: {class}"));
    }
    Ok(())
}

/// What is wrong with who proved an entry, if anything: what it claims must cover the class. A method that claims of
/// each answer has that in its rows.
fn uncovered(entry: &Entry) -> Option<String> {
    if entry.bound.is_none() && entry.status != Status::Infeasible {
        return None;
    }
    let claim = match spec(&entry.bound_by).map(|(_, claim)| claim) {
        Ok(claim) => claim,
        Err(words) => return Some(words),
    };
    let covers = claim.strength != Strength::Baseline && claim.class.contains(&entry.class);
    (!covers).then(|| format!("{} claims {claim}, which does not cover the class", entry.bound_by))
}

/// How proofs are tried again.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Wall time of all.
    pub time: Duration,
    /// Proofs at the same time, which share the cores.
    pub jobs: usize,
    /// Of the order that they are drawn in.
    pub seed: u64,
}

/// How proofs that were tried again came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proofs {
    /// Proofs that came out again.
    pub again: usize,
    /// Proofs that did not: a limit came first, or the method claims of each answer. That refutes nothing.
    pub not_again: usize,
    /// What came out otherwise.
    pub differences: Vec<String>,
}

/// Tries proofs again in random order, those that settle a case first, each with the method that it is from, until the
/// time is up or none is left.
///
/// # Errors
/// Interrupted.
pub fn prove(
    root: &Path,
    folder: &Path,
    entries: &[Entry],
    trial: Trial,
    stop: &Arc<AtomicBool>,
) -> Result<Proofs, Failure> {
    let began = Instant::now();
    let mut random = Random::new(trial.seed);
    let mut sample = origins(entries);
    sample.retain(|entry| is_short(entry, trial.time));
    sample.sort_by_cached_key(|entry| (entry.status != Status::Open, random.below(u32::MAX)));
    let sample = Mutex::new(sample);
    let instances = Mutex::new(Instances::new(folder));
    let proofs = Mutex::new(Proofs::default());
    let threads = (cores() / trial.jobs).max(1);
    let work = || {
        while began.elapsed() < trial.time && !stop.load(Ordering::Relaxed) {
            let Some(entry) = lock(&sample).pop() else { break };
            let outcome = again(root, entry, threads, &instances, stop).and_then(|record| compare(entry, &record));
            let mut proofs = lock(&proofs);
            match outcome {
                Ok(true) => proofs.again += 1,
                Ok(false) => {
                    proofs.not_again += 1;
                    output::info(&about(entry, &format!("{} did not prove it this time", entry.bound_by)));
                }
                Err(words) => proofs.differences.push(about(entry, &words)),
            }
        }
    };
    std::thread::scope(|scope| (0..trial.jobs).for_each(|_| drop(scope.spawn(work))));
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted("interrupted while proofs were tried again".into()));
    }
    Ok(lock(&proofs).clone())
}

/// Of the entries that say the same by the same method, each within the next, the last: the others have it from there.
fn origins(entries: &[Entry]) -> Vec<&Entry> {
    let proved = |entry: &&Entry| entry.bound.is_some() || entry.status == Status::Infeasible;
    let says_the_same = |a: &Entry, b: &Entry| {
        (a.bound, &a.bound_by) == (b.bound, &b.bound_by) && (a.bound.is_some() || a.status == b.status)
    };
    let is_derived = |entry: &Entry| {
        let from = |other: &Entry| !std::ptr::eq(entry, other) && entry.is_within(other) && says_the_same(entry, other);
        entries.iter().any(from)
    };
    entries.iter().filter(proved).filter(|entry| !is_derived(entry)).collect()
}

fn is_short(entry: &Entry, time: Duration) -> bool {
    entry.bound_seconds.is_some_and(|seconds| seconds <= (time / SHARE).as_secs_f64())
}

/// The claim and the run of a label such as `checkmate-ilp[gap-ppm=10]`.
fn spec(label: &str) -> Result<(Spec, remat_formulations::Claim), String> {
    let spec: Spec = label.parse().map_err(|error: remat_formulations::SpecError| error.to_string())?;
    let known = method(&spec.id).map_err(|error| error.to_string())?;
    let claim = known.claim(&parameters(known, &spec.parameters).map_err(|error| error.to_string())?);
    Ok((spec, claim))
}

/// Runs the method that proved an entry again.
fn again(
    root: &Path,
    entry: &Entry,
    threads: usize,
    instances: &Mutex<Instances>,
    stop: &Arc<AtomicBool>,
) -> Result<Record, String> {
    let words = |failure: Failure| failure.to_string();
    let path = lock(instances).path(&entry.instance, &entry.instance_hash)?;
    let (Spec { id, parameters: given }, _) = spec(&entry.bound_by)?;
    let method = method(&id).map_err(words)?;
    let budget = RunBudget { text: entry.budget.clone(), bytes: Some(entry.budget_size) };
    let run = Run {
        suite: String::new(),
        subject: Arc::new(Subject::read(path).map_err(words)?),
        method,
        command: vec![],
        parameters: parameters(method, &given).map_err(words)?,
        given,
        budgets: vec![budget.clone()],
        seed: 0,
    };
    let (each, besides) = PATIENCE;
    let seconds = each * entry.bound_seconds.unwrap_or(0.0) + besides;
    let allowance = Allowance {
        limits: Limits { time: Some(Duration::from_secs_f64(seconds)), threads, seed: 0 },
        cpu_limit: None,
        memory_limit_bytes: None,
    };
    let row = execute(&run, &[budget], &Conditions::bare(allowance, root), stop).pop();
    row.map(|row| row.record).ok_or_else(|| "internal error: a run without a row".into())
}

/// Whether a row says at least as much as an entry; not, where its time was up, or where a method that claims of each answer
/// has proved something of another class this time.
fn compare(entry: &Entry, row: &Record) -> Result<bool, String> {
    if row.is_error() {
        return Err(format!("{} ends in an error: {}", entry.bound_by, row.error));
    }
    let covers = row.claim.class.contains(&entry.class);
    let infeasible = covers && row.claim.proves() && row.termination == Ending::Ran(Termination::Infeasible);
    if infeasible && entry.time.is_some() {
        return Err(format!("{} says that there is no schedule", entry.bound_by));
    }
    // Two runs that prove the same optimum may state bounds that differ by the tolerance.
    let below = |time: u64, bound: u64| bound.saturating_sub(time) as f64 > 2.0 * TOLERANCE * bound as f64;
    let is_within = row.schedule_class.is_some_and(|class| entry.class.contains(&class));
    if let (Some(bound), Some(time)) = (entry.bound, row.simulated_time.filter(|_| is_within))
        && below(time, bound)
    {
        return Err(format!("{} has a schedule of {time}, below the bound {bound}", entry.bound_by));
    }
    let holds = match (entry.status, entry.bound) {
        (Status::Infeasible, _) => infeasible,
        (_, Some(bound)) => row.proved_bound().is_some_and(|again| covers && !below(again, bound)),
        (_, None) => true,
    };
    let claims_each = spec(&entry.bound_by)?.1.strength == Strength::Heuristic;
    if holds || row.termination.is_limit() || claims_each {
        return Ok(holds);
    }
    Err(format!(
        "{} proves {} this time, and the entry says {}",
        entry.bound_by,
        row.lower_bound.map_or("nothing".into(), |bound| bound.to_string()),
        entry.bound.map_or("that there is no schedule".into(), |bound| bound.to_string())
    ))
}
