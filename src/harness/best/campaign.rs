//! A campaign: the runs of a suite that may still improve the library, open gaps first, and what they come to taken over.
//!
//! It is the suite's own sweep, method by method: what one method proves spares the next ones the case. A killed campaign
//! loses at most the runs in flight, as every sweep does; begun again, it goes on with what has no row.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use remat_formulations::Class;

use super::update::classes_of;
use super::{CLASSES, Changes, Entry, read, update};
use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::records;
use crate::harness::run::Run;
use crate::harness::run::plan::RunBudget;
use crate::harness::sweep::Sweep;

/// What a campaign works on.
pub struct Campaign<'a> {
    /// The suite: networks, budgets and methods.
    pub sweep: Sweep<'a>,
    /// Folder of the library.
    pub folder: &'a Path,
}

impl Campaign<'_> {
    /// Does what has no row yet and may improve the library.
    ///
    /// # Errors
    /// As [`Sweep::perform`] and [`update()`]; what was written stays, and what it comes to was taken over.
    pub fn perform(&self, stop: &Arc<AtomicBool>) -> Result<Changes, Failure> {
        let runs = self.sweep.runs()?;
        self.sweep.same_limits(&runs, "give the same limits, or name another folder")?;
        let mut changes = self.take_over()?;
        self.announce(&runs, &read(self.folder)?);
        for round in rounds(runs) {
            let known = read(self.folder)?;
            let open = open_first(round, &known);
            if open.is_empty() {
                continue;
            }
            let performed = self.sweep.perform(&open, stop);
            changes.add(self.take_over()?);
            performed?;
        }
        Ok(changes)
    }

    /// Takes over what rows come to, those of a campaign that was killed included.
    fn take_over(&self) -> Result<Changes, Failure> {
        let results = &self.sweep.folder;
        if records::read_any(results)?.is_empty() { Ok(Changes::default()) } else { update(self.folder, results) }
    }

    fn announce(&self, runs: &[Run], known: &[Entry]) {
        let mut cases = BTreeMap::new();
        for run in runs {
            let classes = cases.entry(&run.subject.path).or_insert((0, 0));
            *classes = (classes_of(&run.subject.instance).len(), run.budgets.len().max(classes.1));
        }
        let all: usize = cases.values().map(|(classes, budgets)| classes * budgets).sum();
        let rows = open_first(runs.to_vec(), known).len();
        let most = self.sweep.conditions().allowance.limits.time.map(|time| rows as f64 * time.as_secs_f64() / 3600.0);
        let most = most.map_or(String::new(), |hours| {
            format!(": at most {hours:.1} hours, divided by {} at the same time", self.sweep.jobs())
        });
        output::info(&format!(
            "{} of {} (instance, class and budget); {} may improve what is known{most}",
            count(all, "case"),
            count(cases.len(), "network"),
            count(rows, "run")
        ));
    }
}

/// The runs of each setting of a method, in the suite's order.
fn rounds(runs: Vec<Run>) -> Vec<Vec<Run>> {
    let mut rounds: Vec<(String, Vec<Run>)> = Vec::new();
    for run in runs {
        let label = run.label();
        match rounds.iter_mut().find(|(known, _)| *known == label) {
            Some((_, round)) => round.push(run),
            None => rounds.push((label, vec![run])),
        }
    }
    rounds.into_iter().map(|(_, round)| round).collect()
}

/// The runs of one budget each that may improve the library: the widest gap first, and where gaps are alike, as when
/// nothing is known yet, small networks first.
fn open_first(runs: Vec<Run>, known: &[Entry]) -> Vec<Run> {
    let mut open: Vec<(f64, Run)> = Vec::new();
    for run in runs {
        for budget in &run.budgets {
            if let Some(gap) = gap(&run, budget, known) {
                open.push((gap, Run { budgets: vec![budget.clone()], ..run.clone() }));
            }
        }
    }
    open.sort_by(|(a, one), (b, other)| {
        let operators = |run: &Run| run.subject.instance.operators().len();
        b.total_cmp(a).then_with(|| operators(one).cmp(&operators(other)))
    });
    open.into_iter().map(|(_, run)| run).collect()
}

/// The gap that a run may close: that of the class that its method claims, or, where the library has no such class, the widest
/// of the classes around it. None: nothing is open, or the class is the same as a narrower one on this instance.
fn gap(run: &Run, budget: &RunBudget, known: &[Entry]) -> Option<f64> {
    let instance = &run.subject.instance;
    let claimed = run.method.claim(&run.parameters).class;
    let classes = classes_of(instance);
    let listed = CLASSES.iter().any(|(_, class)| *class == claimed);
    let own = |class: &&Class| if listed { **class == claimed } else { class.contains(&claimed) };
    let hash = instance.hash().to_string();
    let gap = |class: &Class| {
        let question = |entry: &&Entry| {
            (&entry.instance_hash, entry.class, Some(entry.budget_size)) == (&hash, *class, budget.bytes)
        };
        known.iter().find(question).map_or(Some(f64::INFINITY), Entry::open_gap)
    };
    classes.iter().filter(own).filter_map(gap).max_by(f64::total_cmp)
}
