//! A suite from its file to rows, on this machine: what `bench run` and `bench reproduce` have in common.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use indicatif::ProgressBar;
use remat_formulations::Limits;

use crate::ground::failure::Failure;
use crate::ground::host::{Host, cores};
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::Size;
use crate::ground::text::count;
use crate::harness::cache::Cache;
use crate::harness::max_batch::campaign::{Campaign, Search};
use crate::harness::pool;
use crate::harness::records::batches::BatchRow;
use crate::harness::records::manifest::{Session, ToCome};
use crate::harness::records::select::label;
use crate::harness::records::{self, Existing, Key, Record, Writer, batches, limits};
use crate::harness::run::plan::{self, Overrides};
use crate::harness::run::{Allowance, Conditions, Run, journal};
use crate::harness::suite::{Suite, SuiteFile};

/// What of a suite is run, with what, and where its rows go.
pub struct Sweep<'a> {
    /// The checkout.
    pub library: &'a Library,
    /// Where this happens, once that was asked.
    pub host: OnceCell<Host>,
    /// The suite.
    pub file: &'a SuiteFile,
    /// What is run instead of what the suite says.
    pub overrides: Overrides,
    /// What runs may use instead of what the suite says.
    pub grants: Grants,
    /// Whether the suite's searches for the largest batch are done, too.
    pub batches: bool,
    /// Whether no row is taken from the cache.
    pub fresh: bool,
    /// Folder of the rows.
    pub folder: PathBuf,
    /// What becomes of the rows that are there.
    pub existing: Existing,
}

/// What runs may use; nothing: as the suite says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grants {
    /// Wall time of each row.
    pub time: Option<Duration>,
    /// CPU time of each row.
    pub cpu: Option<Duration>,
    /// Memory of each run.
    pub memory: Option<Size>,
    /// Threads of each run.
    pub threads: Option<usize>,
    /// Runs at the same time.
    pub jobs: Option<usize>,
}

impl<'a> Sweep<'a> {
    /// The suite.
    pub fn suite(&self) -> &'a Suite {
        &self.file.suite
    }

    /// The runs.
    ///
    /// # Errors
    /// A file, method, parameter or budget that does not fit.
    pub fn runs(&self) -> Result<Vec<Run>, Failure> {
        plan::expand(self.library, self.suite(), &self.overrides)
    }

    /// The searches for the largest batch; none where there are none to do.
    ///
    /// # Errors
    /// A pattern is malformed.
    pub fn campaign(&self) -> Result<Option<Campaign<'a>>, Failure> {
        let Overrides { methods, instances, .. } = &self.overrides;
        Ok(Campaign::of(self.suite(), methods, instances)?.filter(|_| self.batches))
    }

    /// How many runs go at the same time: as many as asked for, or as the suite says and there are cores for.
    pub fn jobs(&self) -> usize {
        self.grants.jobs.or(self.suite().limits.jobs.map(|jobs| jobs.min(cores()))).unwrap_or(1)
    }

    /// The seed of searches: runs have seeds of their own.
    fn seed(&self) -> u64 {
        self.overrides.seeds.first().copied().unwrap_or(0)
    }

    /// What each run may use.
    pub fn conditions(&self) -> Conditions {
        let (grants, limits) = (&self.grants, &self.suite().limits);
        let threads = grants.threads.or(limits.threads).unwrap_or((cores() / self.jobs()).max(1));
        let time = grants.time.or(limits.time_seconds.map(Duration::from_secs_f64));
        let allowance = Allowance {
            limits: Limits { time, threads, seed: self.seed() },
            cpu_limit: grants.cpu.or(limits.cpu_seconds.map(Duration::from_secs_f64)),
            memory_limit_bytes: grants.memory.or(limits.memory).map(|size| size.0),
        };
        Conditions {
            allowance,
            logs: Some(self.folder.join("logs")),
            unfinished: Some(self.folder.join(journal::FOLDER)),
            host: self.host.get_or_init(|| Host::new(&self.library.root)).clone(),
            progress: ProgressBar::hidden(),
        }
    }

    /// Wall limit of each run of a search, which has one budget.
    pub fn search_time(&self, campaign: &Campaign<'_>, conditions: &Conditions) -> Option<Duration> {
        self.grants.time.or(campaign.time_limit()).or(conditions.allowance.limits.time)
    }

    /// Holds the rows that a resumed run keeps against its limits: they would pass for rows under these. The remedy is the
    /// end of the message.
    ///
    /// # Errors
    /// A row was made under others, or rows cannot be read.
    pub fn same_limits(&self, runs: &[Run], remedy: &str) -> Result<(), Failure> {
        let conditions = self.conditions();
        let wanted = keys_of(runs);
        let kept = |row: &&Record| self.existing.counts(row.is_error()) && wanted.contains(&row.key());
        let differ = |file: &str, what: &str, made: &str, mine: &str| {
            Failure::input(format!(
                "{}: the row of {what} was made with {made}, and this run has {mine}; {remedy}",
                self.folder.join(file).display()
            ))
        };
        // Where nobody says how many, each machine has its own number of threads.
        let are_given = self.grants.threads.or(self.suite().limits.threads).is_some();
        let with = |limits: String, threads| {
            if are_given { format!("{limits} and {}", count(threads, "thread")) } else { limits }
        };
        let mine = with(conditions.allowance.words(), conditions.allowance.limits.threads);
        let made = |row: &Record| with(row.limits(), row.threads);
        let rows = records::read_any(&self.folder)?;
        if let Some(row) = rows.iter().filter(kept).find(|row| made(row) != mine) {
            let budget = if row.budget.is_empty() { String::new() } else { format!(" at {}", row.budget) };
            let what = format!("{}{budget} on {}", label(&row.method, &row.parameters), row.instance);
            return Err(differ("records.csv", &what, &made(row), &mine));
        }
        let Some(campaign) = self.campaign()? else { return Ok(()) };
        let time = self.search_time(&campaign, &conditions).map(|limit| limit.as_secs_f64());
        let searches = batches::read(&self.folder)?;
        let kept = |row: &&BatchRow| self.existing.counts(row.is_error()) && campaign.has(row);
        match searches.iter().filter(kept).find(|row| row.time_limit_seconds != time) {
            Some(row) => {
                let what = format!("the largest batch of {} on {}", row.label, row.network);
                Err(differ(
                    "max-batch.csv",
                    &what,
                    &limits(row.time_limit_seconds, None, None),
                    &limits(time, None, None),
                ))
            }
            None => Ok(()),
        }
    }

    /// Does what has no row yet, runs before searches.
    ///
    /// # Errors
    /// Results cannot be written, or interrupted. What was written stays.
    pub fn perform(&self, runs: &[Run], stop: &Arc<AtomicBool>) -> Result<(), Failure> {
        let mut writer = Writer::open(&self.folder, self.existing)?;
        write_suite(&self.folder, &self.file.text)?;
        let conditions = self.conditions();
        let missing = pool::missing(runs.to_vec(), |key| writer.contains(key));
        let campaign = self.campaign()?;
        let to_come = self.to_come(&writer, &missing, campaign.as_ref())?;
        Session { to_come: Some(to_come), ..Session::new(runs, &conditions) }.append(&self.folder)?;
        announce(self.suite(), runs, &missing, &self.folder);
        let cache = Cache::locate(&self.library.root, self.fresh);
        let summary =
            pool::run_all(missing, self.jobs(), &mut writer, &self.folder, &conditions, cache.as_ref(), stop)?;
        tell_of(cache.as_ref(), summary.cached);
        if let Some(campaign) = &campaign {
            let conditions = conditions.for_searches(self.search_time(campaign, &conditions));
            campaign.run(self.library, &self.folder, &self.folder, self.existing, &conditions, stop)?;
        }
        Ok(())
    }

    /// The rows and searches that are to come.
    fn to_come(&self, writer: &Writer, missing: &[Run], campaign: Option<&Campaign<'_>>) -> Result<ToCome, Failure> {
        let afresh = writer.records()?.is_empty() && batches::read(&self.folder)?.is_empty();
        let mut rows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in keys_of(missing) {
            rows.entry(key.instance_hash.clone()).or_default().insert(key.digest());
        }
        let missing =
            |campaign: &Campaign<'_>| campaign.missing(&self.folder, &self.library.root, self.existing, self.seed());
        let open = campaign.map(missing).transpose()?.unwrap_or_default();
        let of = |search: &Search| search.labels().map(|label| (search.name.clone(), label)).collect::<Vec<_>>();
        Ok(ToCome { afresh, rows, searches: open.iter().flat_map(of).collect() })
    }
}

/// The identities of the rows of some runs.
fn keys_of(runs: &[Run]) -> HashSet<Key> {
    runs.iter().flat_map(Run::keys).collect()
}

/// Those of some rows that came of some runs.
pub fn rows_of(runs: &[Run], records: &[Record]) -> Vec<Record> {
    let wanted = keys_of(runs);
    records.iter().filter(|record| wanted.contains(&record.key())).cloned().collect()
}

/// What was run is kept beside what came out.
///
/// # Errors
/// It cannot be written.
pub fn write_suite(folder: &Path, text: &str) -> Result<(), Failure> {
    output::replace_file(&folder.join("suite.toml"), text)
}

fn announce(suite: &Suite, runs: &[Run], missing: &[Run], folder: &Path) {
    output::info(&format!("{}: {}", suite.name, suite.title));
    let rows = |runs: &[Run]| runs.iter().map(|run| run.budgets.len()).sum::<usize>();
    let there = rows(runs) - rows(missing);
    let already = if there > 0 { format!("; {} there already", count(there, "row")) } else { String::new() };
    let (runs, rows) = (count(missing.len(), "run"), count(rows(missing), "row"));
    output::info(&format!("{runs} for {rows}, to {}{already}", folder.display()));
}

fn tell_of(cache: Option<&Cache>, rows: usize) {
    if let Some(cache) = cache.filter(|_| rows > 0) {
        let (rows, folder) = (count(rows, "row"), cache.folder().display());
        output::info(&format!("{rows} taken from {folder}; --fresh computes them anew"));
    }
}
