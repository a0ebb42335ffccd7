//! Rows of a run become entries, where they are better than what is known.

use std::path::{Path, PathBuf};

use remat_formulations::Termination;
use remat_formulations::method::claim::Time;

use super::{Entry, Status, confirm, read, write};
use crate::ground::failure::Failure;
use crate::ground::output;
use crate::harness::recorded::Instances;
use crate::harness::records::paths::schedule_path;
use crate::harness::records::select::label;
use crate::harness::records::{self, Ending, Record, folder_of};

/// What an update changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Entries that were not there.
    pub new: usize,
    /// Entries with a better time, bound or proof.
    pub better: usize,
    /// Rows that were refused, and why.
    pub refused: Vec<String>,
    /// Bounds that a schedule refutes.
    pub dropped: Vec<String>,
}

/// Takes what is better from the rows of a run.
///
/// # Errors
/// Files are none of ours, or the folder cannot be written.
pub fn update(folder: &Path, results: &Path) -> Result<Changes, Failure> {
    let rows = records::read(results)?;
    // Nothing else writes there, and an update that was killed leaves half a file.
    output::sweep(&folder.join("best-known"), None);
    let source = folder_of(results);
    let mut instances = Instances::new(&source);
    let mut entries = read(folder)?;
    let mut changes = Changes::default();
    for row in &rows {
        let Some(offer) = offer(row) else { continue };
        let schedule = schedule_path(&source.join("schedules"), row);
        if offer.time.is_some()
            && let Err(words) = confirm(&offer, &schedule, &mut instances)
        {
            changes.refused.push(format!("{} {}: {words}", row.instance, offer.found_by));
            continue;
        }
        take(&mut entries, offer, folder, &schedule, &mut changes)?;
    }
    spread(&mut entries, &mut changes);
    write(folder, &mut entries)?;
    Ok(changes)
}

/// What a row says, as an entry; nothing where it says nothing.
fn offer(row: &Record) -> Option<Entry> {
    let Ending::Ran(termination) = row.termination else { return None };
    if row.is_error() || termination == Termination::Interrupted {
        return None;
    }
    let solved = row.is_solved();
    let status = match termination {
        Termination::Infeasible => Status::Infeasible,
        Termination::Optimal if solved => Status::Optimal,
        _ if solved => Status::Best,
        _ => Status::Unknown,
    };
    if status == Status::Unknown && row.lower_bound.is_none() {
        return None;
    }
    let who = label(&row.method, &row.parameters);
    // An infeasible problem has any bound; who proves an optimum proves a bound, if it counts time as it is.
    let bound = match status {
        Status::Infeasible => None,
        Status::Optimal if row.claim.class.time != Time::Exact => None,
        Status::Optimal => row.lower_bound.max(row.simulated_time),
        _ => row.lower_bound,
    };
    let mut entry = Entry {
        instance: row.instance.clone(),
        instance_hash: row.instance_hash.clone(),
        class: row.claim.class,
        budget_size: row.budget_size?,
        status,
        time: row.simulated_time.filter(|_| solved),
        peak: row.simulated_peak.filter(|_| solved),
        found_by: if status == Status::Unknown { String::new() } else { who.clone() },
        bound,
        bound_by: bound.map_or(String::new(), |_| who),
        time_unit: row.time_unit,
        memory_unit: row.memory_unit,
        revision: format!("{} {}", row.version, row.git_revision).trim().to_owned(),
        timestamp: row.timestamp.clone(),
        schedule: String::new(),
    };
    if solved {
        entry.schedule = entry.schedule_name();
    }
    Some(entry)
}

/// Puts an offer among the entries, as far as it is better.
fn take(
    entries: &mut Vec<Entry>,
    offer: Entry,
    folder: &Path,
    schedule: &Path,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let known = entries.iter_mut().find(|entry| entry.same_question(&offer));
    let Some(known) = known else {
        keep_schedule(&offer, folder, schedule)?;
        changes.new += 1;
        entries.push(offer);
        return Ok(());
    };
    let merged = merge(known, &offer);
    if merged.time < known.time || known.time.is_none() && merged.time.is_some() {
        keep_schedule(&merged, folder, schedule)?;
    }
    replace(known, &offer, merged, changes);
    Ok(())
}

/// What entries say of each other: a time holds in every class around its own, a bound in every class within.
fn spread(entries: &mut [Entry], changes: &mut Changes) {
    let known = entries.to_vec();
    for from in &known {
        for known in entries.iter_mut().filter(|entry| entry.same_budget(from) && entry.class != from.class) {
            let is_within = known.class.contains(&from.class);
            let bounds = from.class.contains(&known.class);
            let said = Entry {
                time: from.time.filter(|_| is_within),
                bound: from.bound.filter(|_| bounds),
                status: match from.status {
                    Status::Infeasible if from.class.contains(&known.class) => Status::Infeasible,
                    Status::Best | Status::Optimal if is_within => Status::Best,
                    _ => Status::Unknown,
                },
                ..from.clone()
            };
            let merged = Entry { class: known.class, ..merge(known, &said) };
            replace(known, &said, merged, changes);
        }
    }
}

/// Puts what two entries come to in the place of one, and says whose bound was refuted.
fn replace(known: &mut Entry, offer: &Entry, merged: Entry, changes: &mut Changes) {
    if known.bound > merged.bound || offer.bound > merged.bound {
        let (bound, by) =
            if known.bound > offer.bound { (known.bound, &known.bound_by) } else { (offer.bound, &offer.bound_by) };
        changes.dropped.push(format!(
            "{} {} at {}: {by} says that nothing is faster than {}, {} found {}",
            known.instance,
            known.class,
            known.budget_size,
            bound.unwrap_or_default(),
            merged.found_by,
            merged.time.unwrap_or_default()
        ));
    }
    changes.better += usize::from(merged != *known);
    *known = merged;
}

/// The better of two in every respect.
fn merge(known: &Entry, offer: &Entry) -> Entry {
    let mut merged = known.clone();
    let faster = match (known.time, offer.time) {
        (Some(known), Some(offer)) => offer < known,
        (None, Some(_)) => true,
        _ => false,
    };
    // The same time is worth more with a proof, and so is "there is none" where no time is known.
    let proved = offer.time == known.time && (known.status, offer.status) == (Status::Best, Status::Optimal)
        || known.status == Status::Unknown && offer.status == Status::Infeasible;
    if faster {
        merged = Entry { bound: known.bound, bound_by: known.bound_by.clone(), ..offer.clone() };
    } else if proved {
        (merged.status, merged.found_by) = (offer.status, offer.found_by.clone());
        (merged.revision, merged.timestamp) = (offer.revision.clone(), offer.timestamp.clone());
    }
    if offer.bound > merged.bound {
        (merged.bound, merged.bound_by) = (offer.bound, offer.bound_by.clone());
    }
    if merged.bound.zip(merged.time).is_some_and(|(bound, time)| bound > time) {
        // A schedule refutes it; the other one may hold.
        let other = [known, offer].into_iter().find(|entry| entry.bound.is_some() && entry.bound <= merged.time);
        (merged.bound, merged.bound_by) =
            other.map_or((None, String::new()), |other| (other.bound, other.bound_by.clone()));
    }
    if merged.status == Status::Best && merged.bound == merged.time {
        merged.status = Status::Optimal;
    }
    merged
}

/// Copies a schedule, as small as it gets.
fn keep_schedule(entry: &Entry, folder: &Path, schedule: &Path) -> Result<(), Failure> {
    if entry.time.is_none() {
        return Ok(());
    }
    let document: remat_core::schedule::ScheduleDocument = remat_core::io::read_json(schedule)?;
    let target: PathBuf = folder.join(&entry.schedule);
    output::write_file(&target, |path| remat_core::io::write_json(path, &document).map_err(|error| error.to_string()))
        .map_err(Failure::failed)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    fn entry(time: Option<u64>, bound: Option<u64>, termination: Termination) -> Entry {
        let mut row = example("m", Some(("0.5x", 7)));
        (row.simulated_time, row.lower_bound) = (time, bound);
        row.termination = Ending::Ran(termination);
        offer(&row).unwrap()
    }

    #[test]
    fn nothing_ever_gets_worse() {
        let best = entry(Some(10), None, Termination::Optimal);
        assert_eq!(best.bound, Some(10));
        for worse in [
            entry(Some(11), Some(7), Termination::Feasible),
            entry(Some(10), None, Termination::Feasible),
            entry(None, Some(8), Termination::BoundOnly),
            entry(None, None, Termination::Infeasible),
        ] {
            assert_eq!(merge(&best, &worse), best);
        }
    }

    #[test]
    fn times_bounds_and_proofs_get_better_one_by_one() {
        let known = entry(Some(10), Some(5), Termination::Feasible);
        let faster = merge(&known, &entry(Some(9), None, Termination::Feasible));
        assert_eq!((faster.time, faster.bound, faster.status), (Some(9), Some(5), Status::Best));
        let tighter = merge(&faster, &entry(None, Some(7), Termination::BoundOnly));
        assert_eq!((tighter.time, tighter.bound), (Some(9), Some(7)));
        let proved = merge(&tighter, &entry(Some(9), Some(9), Termination::Optimal));
        assert_eq!((proved.time, proved.bound, proved.status), (Some(9), Some(9), Status::Optimal));
    }

    #[test]
    fn a_bound_above_a_time_is_about_something_else() {
        let known = entry(Some(10), Some(10), Termination::Optimal);
        let faster = merge(&known, &entry(Some(8), Some(6), Termination::Feasible));
        assert_eq!((faster.time, faster.bound, faster.status), (Some(8), Some(6), Status::Best));
        let narrow = merge(&faster, &entry(None, Some(9), Termination::BoundOnly));
        assert_eq!((narrow.time, narrow.bound), (Some(8), Some(6)));
    }

    #[test]
    fn a_schedule_refutes_that_there_is_none() {
        let infeasible = entry(None, None, Termination::Infeasible);
        assert_eq!(infeasible.status, Status::Infeasible);
        assert_eq!(merge(&infeasible, &entry(Some(3), None, Termination::Feasible)).status, Status::Best);
    }
}
