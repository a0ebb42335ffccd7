//! One task of a batch: its runs one after the other, into a part of the run directory that no other
//! process writes. A task that is begun again leaves out what was done before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::batch::{self, Batch, Work};
use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::names::file_name;
use crate::ground::output;
use crate::harness::cache::Cache;
use crate::harness::max_batch::campaign::{Campaign, Search};
use crate::harness::pool;
use crate::harness::records::batches;
use crate::harness::records::manifest::Session;
use crate::harness::records::{self, Existing, Writer, parts};
use crate::harness::run::{Conditions, Run, journal};

/// What a task works with.
struct Task<'a> {
    batch: &'a Batch,
    results: PathBuf,
    part: PathBuf,
    conditions: Conditions,
    stop: Arc<AtomicBool>,
}

/// Does the work of a task.
///
/// # Errors
/// There is no such task, its results cannot be written, or it was interrupted.
pub fn run(plan: &Path, task: usize, stop: Arc<AtomicBool>) -> Result<(), Failure> {
    let batch = batch::read(plan)?;
    let work = batch.tasks.get(task).ok_or_else(|| {
        Failure::input(format!("{}: has no task {task}; it has {}", plan.display(), batch.tasks.len()))
    })?;
    let results = plan.ancestors().nth(3).map(Path::to_owned).unwrap_or_default();
    let _share = parts::share(&results)?;
    let part = parts::folder(&results, &name(&batch, task));
    let conditions = Conditions {
        logs: Some(results.join("logs")),
        unfinished: Some(results.join(journal::FOLDER)),
        ..Conditions::bare(batch.allowance, &batch.root)
    };
    let task = Task { batch: &batch, results, part, conditions, stop };
    task.runs(work)?;
    work.iter()
        .filter_map(|work| if let Work::Search(search) = work { Some(search) } else { None })
        .try_for_each(|search| task.search(search))
}

/// Unique among all processes that ever work on a task, and sorted as they began.
fn name(batch: &Batch, task: usize) -> String {
    // Anybody may set a variable, and the name is that of a folder.
    let variable = |name: &str| std::env::var(name).ok().map(|value| file_name(&value));
    let job = variable("SLURM_JOB_ID").unwrap_or_else(|| format!("p{}", std::process::id()));
    let restart = variable("SLURM_RESTART_COUNT").unwrap_or_else(|| "0".into());
    format!("{:04}-{task:05}-{job}-{restart}", batch.number)
}

impl Task<'_> {
    fn runs(&self, work: &[Work]) -> Result<(), Failure> {
        let items = work.iter().filter_map(|work| if let Work::Run(item) = work { Some(item) } else { None });
        let runs: Vec<Run> = items.map(|item| item.run(&self.batch.suite)).collect::<Result<_, _>>()?;
        if runs.is_empty() {
            return Ok(());
        }
        // Rows of an earlier beginning of this task lie in another part.
        let batch_began = self.batch_rows()?;
        let runs = pool::missing(runs, |key| batch_began.contains(key));
        let mut writer = Writer::open(&self.part, Existing::Resume)?;
        Session::new(&runs, &self.conditions).append(&self.part)?;
        let cache = Cache::locate(&self.batch.root, self.batch.fresh);
        let summary = pool::run_all(runs, 1, &mut writer, &self.results, &self.conditions, cache.as_ref(), &self.stop)?;
        output::info(&format!("{} rows, {} of them from the cache", summary.rows, summary.cached));
        Ok(())
    }

    /// Identities of the rows that this batch has made so far.
    fn batch_rows(&self) -> Result<std::collections::HashSet<records::Key>, Failure> {
        let prefix = format!("{:04}-", self.batch.number);
        let of_batch =
            |part: &PathBuf| part.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        let parts = parts::folders(&self.results).into_iter().filter(of_batch);
        let mut keys = std::collections::HashSet::new();
        for part in parts {
            keys.extend(parts::rows_of(&part)?.iter().map(records::Record::key));
        }
        // Parts may have been absorbed since; what is older than the batch is there to be made again.
        let made = &self.batch.made;
        let absorbed = parts::rows_of(&self.results)?.into_iter();
        let absorbed = absorbed.filter(|row| !made.is_empty() && row.timestamp >= *made);
        keys.extend(absorbed.map(|row| row.key()));
        Ok(keys)
    }

    fn search(&self, search: &Search) -> Result<(), Failure> {
        output::make_folder(&self.part)?;
        // Where others stopped is where these begin, as they do on one machine.
        batches::write(&self.part, &batches::read(&self.results)?)?;
        let conditions = self.conditions.for_searches(self.batch.search_time);
        let library = Library { root: self.batch.root.clone() };
        // What the plan has is to be done, also where a row is an error that is not to stay.
        let existing = Existing::Retry;
        Campaign::only(search).run(&library, &self.part, &self.results, existing, &conditions, &self.stop)
    }
}
