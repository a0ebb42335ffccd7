//! What a run directory has, what is on its way, and what was lost: the batches' plans beside the rows
//! that are there and what Slurm says of the tasks.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::batch::{self, Batch, Work};
use super::slurm::{self, State, States};
use crate::ground::failure::Failure;
use crate::harness::records::select::label;
use crate::harness::records::{self, Key, Record};
use crate::harness::records::{batches, manifest};

/// Counts of rows (and of searches for a batch size), and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// In tasks that wait.
    pub queued: usize,
    /// In tasks that run.
    pub running: usize,
    /// There, and no error.
    pub done: usize,
    /// Ended in an error, or lost with the task.
    pub failed: usize,
    /// Not there yet, of runs without a cluster.
    pub missing: usize,
    /// Whether such a run is at work.
    pub writing: bool,
    /// In tasks of which nothing is known, as Slurm does not answer.
    pub unknown: usize,
    /// A line for each task that ended without all of its rows.
    pub lost: Vec<String>,
    /// Why Slurm does not answer.
    pub silence: Option<String>,
}

/// What has become of a row that a batch was to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Lost,
    Unknown,
    Queued,
    Running,
}

/// A task of a batch, those of the last batch first.
struct Task<'a> {
    /// Number of the batch.
    batch: usize,
    /// Number of the task within it.
    number: usize,
    /// What it has not brought, in words.
    missing: Vec<String>,
    /// What Slurm says of it.
    state: Option<&'a State>,
}

/// Looks at a run directory.
///
/// # Errors
/// It holds neither rows nor batches, or files that are none of ours.
pub fn of(results: &Path) -> Result<Status, Failure> {
    let batches = batch::all(results)?;
    // Asked before the rows are read: a task that ends in between has then left its rows.
    let (states, silence) = ask(&batches);
    let records = records::read_any(results)?;
    let sessions = manifest::read(results);
    let is_begun = !sessions.is_empty();
    let records = records::up_to_date(sessions.iter().flat_map(|session| &session.instances), records);
    let to_come = manifest::to_come(sessions);
    let is_nothing = batches.is_empty() && records.is_empty() && to_come.rows.is_empty() && to_come.searches.is_empty();
    if is_nothing && !is_begun {
        return Err(Failure::input(format!("{}: holds neither rows nor batches of a bench run", results.display())));
    }
    let errors = records.iter().filter(|record| record.is_error()).count();
    let there: HashSet<Key> = records.iter().map(Record::key).collect();
    let searches = batches::read(results)?;
    let errors = errors + searches.iter().filter(|row| row.is_error()).count();
    let all = records.len() + searches.len();
    let searched: HashSet<_> = searches.into_iter().map(|row| (row.network, row.label)).collect();
    let mut status = Status { done: all - errors, failed: errors, ..Status::default() };
    let mut fates: HashMap<String, Fate> = HashMap::new();
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for batch in batches.iter().rev() {
        for (number, work) in batch.tasks.iter().enumerate() {
            let missing: Vec<_> = work.iter().flat_map(|work| missing(work, &there, &searched)).collect();
            let state = states.of(batch, number);
            let fate = match state {
                Some(State::Queued) => Fate::Queued,
                Some(State::Running) => Fate::Running,
                _ if silence.is_some() => Fate::Unknown,
                _ => Fate::Lost,
            };
            for what in &missing {
                // Lost once and submitted again: what counts is the best that can be hoped for.
                fates.entry(what.clone()).and_modify(|known| *known = fate.max(*known)).or_insert(fate);
            }
            tasks.push(Task { batch: batch.number, number, missing, state });
        }
    }
    let lost: BTreeSet<_> =
        fates.iter().filter(|(_, fate)| **fate == Fate::Lost).map(|(what, _)| what.clone()).collect();
    status.lost = lines(tasks, &lost);
    let count = |wanted: Fate| fates.values().filter(|&&fate| fate == wanted).count();
    (status.queued, status.running, status.unknown) = (count(Fate::Queued), count(Fate::Running), count(Fate::Unknown));
    status.failed += lost.len();
    status.silence = silence.filter(|_| status.unknown > 0);
    let (mut known, mut searches) = (there, searched);
    for work in batches.iter().flat_map(|batch| batch.tasks.iter().flatten()) {
        work.add_to(&mut known, &mut searches);
    }
    let known: HashSet<String> = known.iter().map(Key::digest).collect();
    let rows = to_come.rows.values().flatten().filter(|row| !known.contains(*row)).count();
    status.missing = rows + to_come.searches.iter().filter(|search| !searches.contains(search)).count();
    status.writing = status.missing > 0 && records::is_writing(results);
    Ok(status)
}

/// What Slurm says of all tasks, or why it says nothing.
fn ask(batches: &[Batch]) -> (States, Option<String>) {
    match slurm::states(batches) {
        Ok(states) => (states, None),
        Err(failure) => (States::default(), Some(failure.to_string())),
    }
}

/// What a piece of work has not brought yet, in words that name it.
fn missing<'a>(
    work: &'a Work,
    there: &'a HashSet<Key>,
    searched: &'a HashSet<(String, String)>,
) -> Box<dyn Iterator<Item = String> + 'a> {
    match work {
        Work::Run(item) => Box::new(item.keys().filter(|key| !there.contains(key)).map(|key| {
            let budget = if key.budget.is_empty() { String::new() } else { format!(" at {}", key.budget) };
            let seed = if key.seed == 0 { String::new() } else { format!(", seed {}", key.seed) };
            format!("{} {}{budget}{seed}", item.name, label(&key.method, &key.parameters))
        })),
        Work::Search(search) => Box::new(
            search
                .labels()
                .filter(|label| !searched.contains(&(search.name.clone(), label.clone())))
                .map(|label| format!("{} {label}, largest batch", search.name)),
        ),
    }
}

/// A line for the last task that was to bring each lost row.
fn lines(tasks: Vec<Task<'_>>, lost: &BTreeSet<String>) -> Vec<String> {
    let mut told = HashSet::new();
    let mut lines = Vec::new();
    for Task { batch, number, missing, state } in tasks {
        let new: Vec<_> = missing.into_iter().filter(|what| lost.contains(what) && told.insert(what.clone())).collect();
        if new.is_empty() {
            continue;
        }
        let end = match state {
            Some(State::Ended(word)) => word.as_str(),
            _ => "ended, and Slurm remembers nothing of it",
        };
        lines.push(format!("batch {batch}, task {number}: {end}: {}", new.join("; ")));
    }
    lines
}
