//! All runs of a suite: so many at a time, rows and schedules written as they come, a progress bar (without a terminal,
//! a line now and then), and an orderly end when interrupted or when the disk is full.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use remat_core::io::write_json_quickly;
use remat_formulations::Termination;

use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::rows;
use crate::ground::text;
use crate::ground::text::count;
use crate::harness::cache::Cache;
use crate::harness::records::paths::{schedule_path, trace_path};
use crate::harness::records::{Ending, Key, Writer};
use crate::harness::run::journal;
use crate::harness::run::{Conditions, Row, Run, execute};

/// From one line of progress to the next, where there is no terminal for a bar.
const PAUSE: Duration = Duration::from_secs(10);

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows written.
    pub rows: usize,
    /// Rows written that ended in an error.
    pub errors: usize,
    /// Rows of these that were taken from the cache.
    pub cached: usize,
}

/// What the threads share.
struct Shared<'a> {
    queue: Mutex<VecDeque<Run>>,
    writer: Mutex<&'a mut Writer>,
    summary: Mutex<Summary>,
    failure: Mutex<Option<Failure>>,
    /// Set on an interrupt and on the first failure.
    stop: &'a AtomicBool,
    progress: ProgressBar,
    /// What is being run, and since when.
    now: Mutex<BTreeMap<usize, (String, Instant)>>,
    began: Instant,
    folder: &'a Path,
    conditions: &'a Conditions,
    cache: Option<&'a Cache>,
}

/// The runs, each with the budgets that have no row yet; those without any are left out.
pub fn missing(runs: Vec<Run>, there: impl Fn(&Key) -> bool) -> Vec<Run> {
    let reduced = runs.into_iter().map(|run| {
        let open = |budget: &&crate::harness::run::plan::RunBudget| !there(&run.key(budget));
        let budgets: Vec<_> = run.budgets.iter().filter(open).cloned().collect();
        Run { budgets, ..run }
    });
    reduced.filter(|run| !run.budgets.is_empty()).collect()
}

/// Executes runs, `jobs` at a time.
///
/// # Errors
/// Interrupted, or a row or schedule could not be written. What was written stays.
pub fn run_all(
    runs: Vec<Run>,
    jobs: usize,
    writer: &mut Writer,
    folder: &Path,
    conditions: &Conditions,
    cache: Option<&Cache>,
    stop: &Arc<AtomicBool>,
) -> Result<Summary, Failure> {
    let shared = Shared {
        progress: progress_bar(runs.len()),
        now: Mutex::default(),
        began: Instant::now(),
        queue: Mutex::new(runs.into()),
        writer: Mutex::new(writer),
        summary: Mutex::default(),
        failure: Mutex::default(),
        stop,
        folder,
        conditions,
        cache,
    };
    let (running, done) = channel::<()>();
    std::thread::scope(|scope| {
        // Ends what tells of progress, also where a worker panics.
        let _running = running;
        let shared = &shared;
        if !std::io::stderr().is_terminal() {
            scope.spawn(move || shared.tell(&done));
        }
        std::thread::scope(|scope| {
            for worker in 0..jobs {
                scope.spawn(move || shared.work(worker));
            }
        });
    });
    shared.progress.finish_and_clear();
    let summary = *lock(&shared.summary);
    if let Some(failure) = lock(&shared.failure).take() {
        return Err(failure);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!(
            "interrupted after {}; continue with the same command and --resume",
            count(summary.rows, "row")
        )));
    }
    Ok(summary)
}

impl Shared<'_> {
    /// Says how far the runs are, every now and then until they are done.
    fn tell(&self, done: &Receiver<()>) {
        while done.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            let since = |(what, since): &(String, Instant)| format!("{what} ({} s)", since.elapsed().as_secs());
            let now: Vec<String> = lock(&self.now).values().map(since).collect();
            let (ended, all) = (self.progress.position(), self.progress.length().unwrap_or(0));
            let seconds = self.began.elapsed().as_secs();
            output::info(&text::line(&format!("{ended} of {all} runs after {seconds} s; now {}", now.join(", "))));
        }
    }

    fn work(&self, worker: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(run) = lock(&self.queue).pop_front() else { break };
            let what = text::line(&format!("{} {}", run.subject.instance.name(), run.label()));
            self.progress.set_message(what.clone());
            lock(&self.now).insert(worker, (what, Instant::now()));
            if let Err(failure) = self.complete(run) {
                lock(&self.failure).get_or_insert(failure);
                self.stop.store(true, Ordering::Relaxed);
                break;
            }
            self.progress.inc(1);
        }
        lock(&self.now).remove(&worker);
    }

    /// Takes what the cache has of a run, and executes the rest.
    fn complete(&self, run: Run) -> Result<(), Failure> {
        // A program may have changed since, and nobody would know.
        let cache = self.cache.filter(|_| run.command.is_empty());
        let mut left = Vec::new();
        for budget in &run.budgets {
            match cache.and_then(|cache| cache.take(&run, budget, self.conditions)) {
                Some(row) => self.keep(&row)?,
                None => left.push(budget.clone()),
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let run = Run { budgets: left, ..run };
        for row in execute(&run, &run.budgets, self.conditions, self.stop) {
            // A row that was interrupted is no row: the resumed run does it.
            if row.record.termination != Ending::Ran(Termination::Interrupted) {
                self.keep(&row)?;
                cache.inspect(|cache| cache.put(&row, &run, self.conditions));
            }
        }
        if let Some(folder) = &self.conditions.unfinished {
            journal::forget(folder, &run);
        }
        Ok(())
    }

    /// Writes schedule and trace, then the row: a row says that everything about it is there.
    fn keep(&self, row: &Row) -> Result<(), Failure> {
        let path = schedule_path(&self.folder.join("schedules"), &row.record);
        let kept = match &row.schedule {
            Some(schedule) => output::write_file(&path, |path| write_json_quickly(path, schedule)),
            None => remove(&path),
        };
        let path = trace_path(&self.folder.join("traces"), &row.record);
        let traced = match row.trace.as_slice() {
            [] => remove(&path),
            trace => rows::write(&path, trace),
        };
        kept.and(traced).map_err(|error| {
            Failure::failed(format!("{error}; the rows written so far are kept: continue with --resume"))
        })?;
        lock(&self.writer).write(&row.record)?;
        let mut summary = lock(&self.summary);
        summary.rows += 1;
        summary.cached += usize::from(row.record.cached);
        summary.errors += usize::from(row.record.is_error());
        Ok(())
    }
}

/// A mutex locked, also one that a panicking thread left behind: each protects plain data.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn progress_bar(length: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed} elapsed, {eta} left: {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Removes what an earlier row of the same identity left, where the new one has nothing to put there.
fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::cannot("remove", path)(error)),
        _ => Ok(()),
    }
}
