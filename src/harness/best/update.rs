//! Rows of a run become entries, where they are better than what is known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use remat_core::io::{read_json, read_schedule, write_json};
use remat_core::schedule::ScheduleDocument;
use remat_core::{Instance, Operator, simulate};
use remat_formulations::method::claim::{Implementations, fixed_implementations};
use remat_formulations::{Claim, Class, Spec, SpecError, Termination};

use super::relations::{settle, spread_times};
use super::{CLASSES, Entry, Status, read, write};
use crate::ground::failure::Failure;
use crate::ground::output;
use crate::harness::recorded::Instances;
use crate::harness::records::paths::schedule_path;
use crate::harness::records::select::label;
use crate::harness::records::{self, Ending, Record, folder_of};
use crate::harness::run::plan;

/// What an update changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Entries that were not there.
    pub new: usize,
    /// Entries with a better time, bound or proof.
    pub better: usize,
    /// Entries about an earlier state of an instance.
    pub gone: usize,
    /// Rows that were refused, and why.
    pub refused: Vec<String>,
    /// Bounds that a schedule refutes.
    pub refuted: Vec<String>,
}

impl Changes {
    /// Counts what another update changed, too. Rows that both refuse are refused once.
    pub(super) fn add(&mut self, other: Self) {
        self.new += other.new;
        self.better += other.better;
        self.gone += other.gone;
        self.refused = other.refused;
        self.refuted.extend(other.refuted);
        self.refuted.sort();
        self.refuted.dedup();
    }
}

/// What a row offers: an entry about the class of its claim.
struct Offer {
    said: Entry,
    claim: Claim,
    /// The class that its schedule is in; none without one.
    found: Option<Class>,
    /// The classes of the library that its instance has.
    classes: Vec<Class>,
    /// Where its schedule is.
    path: PathBuf,
}

/// Takes what is better from the rows of a run.
///
/// # Errors
/// Files are none of ours, or the folder cannot be written.
pub fn update(folder: &Path, results: &Path) -> Result<Changes, Failure> {
    let rows = records::read(results)?;
    let _held = output::hold(folder)?;
    // An update that was killed leaves half a file.
    output::sweep(&folder.join("best-known"), None);
    let source = folder_of(results);
    let mut instances = Instances::new(&source);
    let before = read(folder)?;
    let mut entries = before.clone();
    let mut changes = Changes::default();
    let mut offers = Vec::new();
    for row in rows.iter().filter(|row| says_something(row)) {
        match offer(row, &source, &mut instances) {
            Ok(offer) => offers.extend(offer),
            Err(words) => {
                let who = label(&row.method, &row.parameters);
                changes.refused.push(format!("{} {who} at {}: {words}", row.instance, row.budget));
            }
        }
    }
    changes.gone = drop_gone(&mut entries, &offers, &mut instances);
    for offer in &offers {
        offer.ask(&mut entries);
    }
    spread_times(&mut entries);
    for offer in &offers {
        changes.refuted.extend(offer.prove(&mut entries));
    }
    changes.refuted.extend(settle(&mut entries));
    for entry in &entries {
        match before.iter().find(|known| known.same_question(entry)) {
            None => changes.new += 1,
            Some(known) => changes.better += usize::from(known != entry),
        }
    }
    keep_schedules(folder, &entries, &offers)?;
    if !(before.is_empty() && entries.is_empty()) {
        write(folder, &mut entries)?;
    }
    remove_replaced(folder, &before, &entries);
    Ok(changes)
}

/// Drops what is about an earlier state of an instance that rows are about; how many entries. Another instance of the same name
/// that is still there keeps its own.
fn drop_gone(entries: &mut Vec<Entry>, offers: &[Offer], instances: &mut Instances) -> usize {
    let before = entries.len();
    entries.retain(|entry| {
        let mut now = offers.iter().map(|offer| &offer.said).filter(|said| said.instance == entry.instance);
        let same = now.all(|said| said.instance_hash == entry.instance_hash);
        same || instances.named(&entry.instance, &entry.instance_hash).is_ok()
    });
    before - entries.len()
}

/// Whether a row has a budget and a schedule or a proof.
fn says_something(row: &Record) -> bool {
    let ran = matches!(row.termination, Ending::Ran(ending) if ending != Termination::Interrupted);
    let proved = row.lower_bound.is_some() || row.termination == Ending::Ran(Termination::Infeasible);
    ran && !row.is_error() && row.budget_size.is_some() && (row.is_solved() || proved)
}

/// What a row offers, its schedule simulated; nothing where it has no budget.
fn offer(row: &Record, source: &Path, instances: &mut Instances) -> Result<Option<Offer>, String> {
    let instance = instances.named(&row.instance, &row.instance_hash)?;
    let Some(budget_size) = row.budget_size else { return Ok(None) };
    let claim = row.claim;
    let solved = row.is_solved();
    let bound = row.proved_bound();
    let infeasible = claim.proves() && row.termination == Ending::Ran(Termination::Infeasible);
    if infeasible || bound.is_some() {
        claimed(row)?;
    }
    let who = label(&row.method, &row.parameters);
    let mut said = Entry {
        instance: row.instance.clone(),
        instance_hash: row.instance_hash.clone(),
        class: claim.class,
        budget: row.budget.clone(),
        budget_size,
        status: if infeasible { Status::Infeasible } else { Status::Open },
        time: row.simulated_time.filter(|_| solved),
        peak: row.simulated_peak.filter(|_| solved),
        bound,
        gap: None,
        found_by: if solved { who.clone() } else { String::new() },
        found_seconds: solved.then_some(row.wall_seconds),
        bound_by: if infeasible || bound.is_some() { who } else { String::new() },
        bound_seconds: (infeasible || bound.is_some()).then_some(row.wall_seconds),
        time_unit: row.time_unit,
        memory_unit: row.memory_unit,
        revision: format!("{} {}", row.version, row.git_revision).trim().to_owned(),
        timestamp: row.timestamp.clone(),
        schedule: String::new(),
    };
    let path = schedule_path(&source.join("schedules"), row);
    let found = solved.then(|| confirm(&mut said, instance, &path)).transpose()?;
    Ok(Some(Offer { said, claim, found, classes: classes_of(instance), path }))
}

/// Whether what a row proves is what its method claims. The answers of `auto` have the claims of those that gave them.
///
/// # Errors
/// The method is not registered, or claims something else with these parameters.
fn claimed(row: &Record) -> Result<(), String> {
    let asked = format!("{}[{}]", row.method, row.parameters);
    let spec: Spec = asked.parse().map_err(|error: SpecError| error.to_string())?;
    let words = |failure: Failure| format!("its proof cannot be tried again: {failure}");
    let method = plan::method(&spec.id).map_err(words)?;
    let claim = method.claim(&plan::parameters(method, &spec.parameters).map_err(words)?);
    if claim == row.claim || method.id() == "auto" {
        return Ok(());
    }
    Err(format!("the row claims \"{}\", {asked} claims \"{claim}\"", row.claim))
}

/// The classes of the library that differ on an instance: where an operator has no implementation but those of the fixed
/// order, there is no class between that and all schedules.
pub(super) fn classes_of(instance: &Instance) -> Vec<Class> {
    let fixed = fixed_implementations(instance);
    let chooses = fixed.is_none_or(|fixed| {
        let ways = |(operator, (first, again)): (&Operator, &(usize, Option<usize>))| {
            (0..operator.implementations.len()).any(|way| way != *first && Some(way) != *again)
        };
        instance.operators().iter().zip(&fixed).any(ways)
    });
    let between = |class: &Class| *class != Class::ALL && class.implementations == Implementations::Chosen;
    CLASSES.iter().map(|(_, class)| *class).filter(|class| chooses || !between(class)).collect()
}

/// Simulates a schedule and gives it the name under which it is kept; returns its class.
fn confirm(said: &mut Entry, instance: &Instance, path: &Path) -> Result<Class, String> {
    let (document, schedule) = read_schedule(path, instance).map_err(|error| error.to_string())?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    let (time, peak) = (said.time.unwrap_or_default(), said.peak.unwrap_or_default());
    if (simulation.time, simulation.peak_bytes) != (time, peak) {
        return Err(format!(
            "the row says {time} and {peak}, the simulator {} and {}",
            simulation.time, simulation.peak_bytes
        ));
    }
    if peak > said.budget_size {
        return Err(format!("over budget: the simulated peak is {peak}"));
    }
    said.schedule = said.schedule_name(&serde_json::to_string(&document).map_err(|error| error.to_string())?);
    Ok(Class::of(instance, &schedule))
}

impl Offer {
    /// Makes the entries that this says something about where they are not there, and offers them its time.
    fn ask(&self, entries: &mut Vec<Entry>) {
        for &class in &self.classes {
            let found = self.found.is_some_and(|found| class.contains(&found));
            if !found && !self.covers(class) {
                continue;
            }
            let question = Entry { class, ..self.said.clone() };
            let at = entries.iter().position(|entry| entry.same_question(&question)).unwrap_or_else(|| {
                entries.push(Entry {
                    status: Status::Open,
                    time: None,
                    peak: None,
                    bound: None,
                    found_by: String::new(),
                    found_seconds: None,
                    bound_by: String::new(),
                    bound_seconds: None,
                    schedule: String::new(),
                    ..question.clone()
                });
                entries.len() - 1
            });
            if found {
                entries[at].learn_time(&self.said);
            }
        }
    }

    /// Whether something is proved of a class.
    fn covers(&self, class: Class) -> bool {
        let proved = self.said.bound.is_some() || self.said.status == Status::Infeasible;
        proved && self.claim.class.contains(&class)
    }

    /// Offers what is proved; returns what a time refutes.
    fn prove(&self, entries: &mut [Entry]) -> Vec<String> {
        let mut refuted = Vec::new();
        for entry in entries.iter_mut() {
            let same = (&entry.instance_hash, entry.budget_size) == (&self.said.instance_hash, self.said.budget_size);
            if !same || !self.covers(entry.class) {
                continue;
            }
            match entry.refutes(&self.said) {
                Some(words) => refuted.push(words),
                None => entry.learn_bound(&self.said),
            }
        }
        refuted
    }
}

/// Copies the schedules that entries name and that are not there yet, as small as they get.
fn keep_schedules(folder: &Path, entries: &[Entry], offers: &[Offer]) -> Result<(), Failure> {
    for entry in entries.iter().filter(|entry| !entry.schedule.is_empty()) {
        let target = folder.join(&entry.schedule);
        let source = offers.iter().find(|offer| offer.said.schedule == entry.schedule);
        if let Some(offer) = source.filter(|_| !target.is_file()) {
            let document: ScheduleDocument = read_json(&offer.path)?;
            output::write_file(&target, |path| write_json(path, &document))?;
        }
    }
    Ok(())
}

/// Removes the schedules that entries named before and none names now. Others are nobody's to remove: where the table has lost
/// lines, they are what it can be mended from. What cannot be removed stays: it is in nobody's way.
fn remove_replaced(folder: &Path, before: &[Entry], entries: &[Entry]) {
    let named =
        |entries: &[Entry]| -> BTreeSet<PathBuf> { entries.iter().map(|entry| folder.join(&entry.schedule)).collect() };
    let replaced = &named(before) - &named(entries);
    for inner in std::fs::read_dir(folder.join("best-known")).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(inner.path()).into_iter().flatten().flatten() {
            if replaced.contains(&file.path()) {
                let _ = std::fs::remove_file(file.path());
            }
        }
        // Fails where schedules are left.
        let _ = std::fs::remove_dir(inner.path());
    }
}
