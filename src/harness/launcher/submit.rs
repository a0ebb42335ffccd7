//! From runs to job arrays: what is missing and not already on its way is cut into tasks, written down as
//! a batch, and submitted.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::batch::{self, Array, Batch, Item, Work};
use super::slurm::{self, Request, State, States};
use super::status::{self, Status};
use crate::ground::failure::Failure;
use crate::ground::host::timestamp;
use crate::ground::size::Size;
use crate::ground::text::count;
use crate::harness::max_batch::campaign::{Campaign, Search};
use crate::harness::pool;
use crate::harness::records::{self, Existing, Key, Record, Writer, parts};
use crate::harness::run::child::{deadline, times};
use crate::harness::run::{Allowance, Conditions, Run};

/// Seconds that a run takes besides what its limit counts: reading, judging, writing.
const SLACK: Duration = Duration::from_secs(20);
/// How often Slurm is asked while waiting.
const POLL: Duration = Duration::from_secs(3);
/// How often in a row it may give no answer: a busy controller does not at once.
const PATIENCE: u32 = 40;
/// Memory that a task takes besides its run's: bench itself and the instance.
const SLACK_BYTES: u64 = 512 << 20;

/// What is to be submitted, and how.
pub struct Order<'a> {
    /// Every run of the suite.
    pub runs: Vec<Run>,
    /// Its searches for batch sizes.
    pub campaign: Option<&'a Campaign<'a>>,
    /// Name of the suite.
    pub suite: &'a str,
    /// Folder that holds `instances/`.
    pub root: &'a Path,
    /// The run directory.
    pub results: &'a Path,
    /// What each run may use.
    pub conditions: &'a Conditions,
    /// Wall time of each run of a search.
    pub search_time: Option<Duration>,
    /// Whether no row is taken from the cache.
    pub fresh: bool,
    /// What becomes of the rows that are there.
    pub existing: Existing,
    /// Runs per task.
    pub chunk: usize,
    /// What each task asks for.
    pub request: Request,
}

/// What was submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submitted {
    /// Number of tasks.
    pub tasks: usize,
    /// Numbers of the jobs.
    pub jobs: Vec<String>,
    /// Rows that are there already.
    pub there: usize,
    /// Rows that tasks of earlier batches will bring.
    pub coming: usize,
}

/// Prepares a run directory for workers: absorbs parts, or drops what is there, unless workers are at it.
///
/// # Errors
/// The folder cannot be written, there are rows and `existing` refuses, or workers are there and it is not resumed.
pub fn prepare(results: &Path, existing: Existing) -> Result<(), Failure> {
    match Writer::open(results, existing) {
        Ok(_) => Ok(()),
        // Workers of an earlier batch have it; what they leave out can be submitted none the less.
        Err(_) if matches!(existing, Existing::Resume | Existing::Retry) && parts::share(results).is_ok() => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Takes the turn to submit: others are kept out until the handle is dropped.
///
/// # Errors
/// Somebody else has it.
pub fn turn(results: &Path) -> Result<File, Failure> {
    let folder = results.join("slurm");
    let path = folder.join("submit.lock");
    let cannot = Failure::cannot("lock", &path);
    std::fs::create_dir_all(&folder).map_err(cannot)?;
    let lock = File::create(&path).map_err(cannot)?;
    lock.try_lock().map_err(|_| {
        Failure::failed(format!("{}: another bench run is submitting from here; wait for it", results.display()))
    })?;
    Ok(lock)
}

/// The batches of a run directory, and what Slurm says of their tasks.
pub struct Known {
    batches: Vec<Batch>,
    states: States,
}

impl Known {
    /// Reads the plans and asks Slurm. Whoever reads rows later finds those of the tasks that ended in between.
    ///
    /// # Errors
    /// A plan is none of ours, or Slurm cannot be asked.
    pub fn of(results: &Path) -> Result<Self, Failure> {
        let batches = batch::all(results)?;
        Ok(Self { states: slurm::states(&batches)?, batches })
    }

    /// Holds the tasks that are on their way to some rows against other limits: their rows would pass for rows under these.
    ///
    /// # Errors
    /// A task has others.
    pub fn same_limits(&self, runs: &[Run], results: &Path, allowance: &Allowance) -> Result<(), Failure> {
        let wanted: HashSet<Key> = runs.iter().flat_map(Run::keys).collect();
        let words = |of: &Allowance| format!("{} and {}", of.words(), count(of.limits.threads, "thread"));
        let mine = words(allowance);
        for batch in self.batches.iter().filter(|batch| words(&batch.allowance) != mine) {
            if self.coming(std::slice::from_ref(batch)).rows.is_disjoint(&wanted) {
                continue;
            }
            return Err(Failure::input(format!(
                "{}: tasks that are queued or running have {}, and this run has {mine}; wait for them, give the same limits, \
                 or cancel them first (scancel --name={})",
                results.display(),
                words(&batch.allowance),
                array_names(&[batch])
            )));
        }
        Ok(())
    }

    /// Refuses to drop the rows of a folder for which tasks are on their way: theirs would lie among the new ones.
    ///
    /// # Errors
    /// A task is queued or running.
    pub fn none_coming(&self, results: &Path) -> Result<(), Failure> {
        let is_coming = |batch: &&Batch| {
            let Coming { rows, searches } = self.coming(std::slice::from_ref(*batch));
            !rows.is_empty() || !searches.is_empty()
        };
        let batches: Vec<&Batch> = self.batches.iter().filter(is_coming).collect();
        if batches.is_empty() {
            return Ok(());
        }
        Err(Failure::input(format!(
            "{}: tasks of a cluster are queued or running for this folder; cancel them first (scancel --name={}), or wait for them",
            results.display(),
            array_names(&batches)
        )))
    }

    /// What tasks of some batches that are queued or running will bring.
    fn coming(&self, batches: &[Batch]) -> Coming {
        let mut coming = Coming::default();
        for batch in batches {
            for (task, work) in batch.tasks.iter().enumerate() {
                if matches!(self.states.of(batch, task), Some(State::Queued | State::Running)) {
                    for work in work {
                        work.add_to(&mut coming.rows, &mut coming.searches);
                    }
                }
            }
        }
        coming
    }
}

/// The job arrays of some batches, as Slurm takes several names.
fn array_names(batches: &[&Batch]) -> String {
    let arrays = batches.iter().flat_map(|batch| &batch.arrays);
    arrays.map(|array| array.name.as_str()).collect::<Vec<_>>().join(",")
}

/// Submits what is missing.
///
/// # Errors
/// Slurm cannot be asked or refuses, or the plan cannot be written.
pub fn submit(mut order: Order<'_>, known: &Known) -> Result<Submitted, Failure> {
    let most = slurm::most_per_array()?;
    let number = known.batches.iter().map(|batch| batch.number).max().unwrap_or(0) + 1;
    let Open { runs, searches, there, coming } = open(&mut order, &known.coming(&known.batches))?;
    let mut tasks = Vec::new();
    for runs in runs.chunks(order.chunk) {
        tasks.push(runs.iter().map(|run| Item::new(run).map(Work::Run)).collect::<Result<Vec<_>, _>>()?);
    }
    // How long a search takes is not known: it asks for no more time than the cluster gives anyway.
    let allowance = order.conditions.allowance;
    let longest = minutes(&tasks, allowance.limits.time).filter(|_| searches.is_empty());
    tasks.extend(searches.into_iter().map(|search| vec![Work::Search(search)]));
    let mut submitted = Submitted { tasks: tasks.len(), jobs: vec![], there, coming };
    if tasks.is_empty() {
        return Ok(submitted);
    }
    let root = if order.root.as_os_str().is_empty() { Path::new(".") } else { order.root };
    let mut batch = Batch {
        number,
        made: timestamp(),
        suite: order.suite.into(),
        root: std::path::absolute(root).map_err(Failure::failed)?,
        allowance,
        search_time: order.search_time,
        fresh: order.fresh,
        arrays: arrays(order.results, number, tasks.len(), most),
        tasks,
    };
    batch.write(order.results)?;
    let memory = allowance.memory_limit_bytes.map(|bytes| Size(bytes.saturating_add(SLACK_BYTES)));
    let Request { minutes, memory: asked, .. } = order.request;
    let request = Request { minutes: minutes.or(longest), memory: asked.or(memory), ..order.request };
    let Err(refused) = slurm::submit(order.results, &batch, &request, &mut submitted.jobs) else {
        return Ok(submitted);
    };
    let jobs = &submitted.jobs;
    batch.keep(jobs.len(), order.results)?;
    let before = format!("; {} before it: {}", count(jobs.len(), "job"), jobs.join(", "));
    Err(Failure::failed(format!("{refused}{}", if jobs.is_empty() { "" } else { &before })))
}

/// What is neither there nor on its way.
struct Open {
    runs: Vec<Run>,
    searches: Vec<Search>,
    /// Rows that are there.
    there: usize,
    /// Rows on their way.
    coming: usize,
}

fn open(order: &mut Order<'_>, coming: &Coming) -> Result<Open, Failure> {
    let Order { results, root, existing, conditions, .. } = *order;
    let there = records::read_any(results)?;
    let counting = there.iter().filter(|record| existing.counts(record.is_error()));
    let there: HashSet<Key> = counting.map(Record::key).collect();
    let rows = |runs: &[Run]| runs.iter().map(|run| run.budgets.len()).sum::<usize>();
    let all = rows(&order.runs);
    let absent = pool::missing(std::mem::take(&mut order.runs), |key| there.contains(key));
    let absent_rows = rows(&absent);
    let runs = pool::missing(absent, |key| coming.rows.contains(key));
    let seed = conditions.allowance.limits.seed;
    let missing = |campaign: &Campaign<'_>| campaign.missing(results, root, existing, seed);
    let searches = order.campaign.map(missing).transpose()?.unwrap_or_default().into_iter();
    let is_coming = |name: &str, label: &str| coming.searches.contains(&(name.to_owned(), label.to_owned()));
    let searches = searches.filter_map(|search| search.without(is_coming)).collect();
    Ok(Open { coming: absent_rows - rows(&runs), there: all - absent_rows, runs, searches })
}

/// Waits until no task is queued or running any more, and says what became of all.
///
/// # Errors
/// Slurm cannot be asked, or interrupted: the tasks go on then.
pub fn wait(results: &Path, stop: &AtomicBool) -> Result<Status, Failure> {
    let mut patience = PATIENCE;
    loop {
        let status = status::of(results)?;
        match status.silence {
            None if status.queued + status.running == 0 => return Ok(status),
            None => patience = PATIENCE,
            Some(silence) if patience == 0 => return Err(Failure::failed(silence)),
            Some(_) => patience -= 1,
        }
        let asked = Instant::now();
        while asked.elapsed() < POLL {
            if stop.load(Ordering::Relaxed) {
                let words = "interrupted; the tasks go on, `bench status` shows how far they are, `scancel` ends them";
                return Err(Failure::Interrupted(words.into()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What tasks that are queued or running will bring.
#[derive(Default)]
struct Coming {
    rows: HashSet<Key>,
    /// Network and label of each search.
    searches: HashSet<(String, String)>,
}

/// Tasks spread over as few arrays as the cluster allows, with names that nobody else has.
fn arrays(results: &Path, number: usize, tasks: usize, most: usize) -> Vec<Array> {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{} {} {}", results.display(), std::process::id(), moment.as_nanos());
    let token = &blake3::hash(seed.as_bytes()).to_hex()[..12];
    let array = |first: usize| Array {
        name: format!("bench-{token}-{number:04}-{first}"),
        first,
        count: most.min(tasks - first),
    };
    (0..tasks).step_by(most).map(array).collect()
}

/// Wall time that a run may take: all budgets at once and, should that be stopped, each again.
fn longest(work: &Work, limit: Duration) -> Duration {
    let Work::Run(item) = work else { return Duration::ZERO };
    let budgets = item.budgets.len();
    let again = if budgets > 1 { times(deadline(limit, 1), budgets) } else { Duration::ZERO };
    deadline(limit, budgets).saturating_add(again).saturating_add(SLACK)
}

/// Wall minutes that the longest task may take, where each run has a limit.
fn minutes(tasks: &[Vec<Work>], limit: Option<Duration>) -> Option<u64> {
    let limit = limit?;
    let longest = tasks
        .iter()
        .map(|task| task.iter().fold(Duration::ZERO, |all, work| all.saturating_add(longest(work, limit))))
        .max()?;
    Some(longest.as_secs() / 60 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_spread_over_arrays_without_gap_or_overlap() {
        for (tasks, most) in [(1, 1), (7, 3), (6, 3), (2, 1001)] {
            let arrays = arrays(Path::new("out"), 1, tasks, most);
            let covered: Vec<_> = arrays.iter().flat_map(|array| array.first..array.first + array.count).collect();
            assert_eq!(covered, (0..tasks).collect::<Vec<_>>());
            assert!(arrays.iter().all(|array| array.count <= most && array.name.contains("bench-")));
        }
    }
}
