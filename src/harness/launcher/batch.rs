//! A batch: what is submitted at once, as a file that its tasks read. It is written before anything is
//! submitted, so that a kill at any moment leaves no job that nobody knows of, and again only where arrays were refused.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use remat_core::io::{read_json, write_json};
use remat_formulations::Limits;
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::host::VERSION;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::max_batch::campaign::Search;
use crate::harness::records::Key;
use crate::harness::run::Run;
use crate::harness::run::execute::limits_in_words;
use crate::harness::run::plan::{RunBudget, Subject, method, parameters};
use crate::harness::run::program;

/// What is submitted at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// 1, 2, ... within its run directory.
    pub number: usize,
    /// When it was made, UTC.
    #[serde(default)]
    pub made: String,
    /// Name of the suite.
    pub suite: String,
    /// Folder that holds `instances/`.
    pub root: PathBuf,
    /// What each row may use.
    pub limits: Limits,
    /// Wall time of each run of a search for a batch size.
    pub search_time: Option<Duration>,
    /// Limit on the CPU time of each row.
    pub cpu_limit: Option<Duration>,
    /// Limit on the memory of each run.
    pub memory_limit_bytes: Option<u64>,
    /// Whether no row is taken from the cache.
    pub fresh: bool,
    /// The work of each task.
    pub tasks: Vec<Vec<Work>>,
    /// The job arrays that the tasks are spread over.
    pub arrays: Vec<Array>,
}

/// A job array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Name of the job, which no other array has.
    pub name: String,
    /// First task.
    pub first: usize,
    /// Number of tasks.
    pub count: usize,
}

/// Something to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// A method on an instance.
    Run(Item),
    /// Searches for the largest batch of one network, one after the other as each begins where another ended.
    Search(Search),
}

impl Work {
    /// Adds the identities of the rows, or the networks and labels of the searches, that it is to bring.
    pub fn add_to(&self, rows: &mut HashSet<Key>, searches: &mut HashSet<(String, String)>) {
        match self {
            Self::Run(item) => rows.extend(item.keys()),
            Self::Search(search) => searches.extend(search.labels().map(|label| (search.name.clone(), label))),
        }
    }
}

/// A [`Run`] as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Item {
    /// Name of the instance.
    pub name: String,
    /// Its file.
    pub instance: PathBuf,
    /// Its hash.
    pub instance_hash: String,
    /// Id of the method.
    pub method: String,
    /// The program that is the method; empty: a registered one has the id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Parameters given.
    pub given: BTreeMap<String, String>,
    /// Every parameter.
    pub parameters: String,
    /// Budgets.
    pub budgets: Vec<RunBudget>,
    /// Seed.
    pub seed: u64,
}

impl Item {
    /// A run as text.
    ///
    /// # Errors
    /// The instance's file has no absolute name.
    pub fn new(run: &Run) -> Result<Self, Failure> {
        let path = &run.subject.path;
        let instance = std::path::absolute(path)
            .map_err(|error| Failure::failed(format!("{}: has no absolute path: {error}", path.display())))?;
        Ok(Self {
            name: run.subject.instance.name().into(),
            instance,
            instance_hash: run.subject.instance.hash().to_string(),
            method: run.method.id().into(),
            command: run.command.clone(),
            given: run.given.clone(),
            parameters: run.parameters.to_string(),
            budgets: run.budgets.clone(),
            seed: run.seed,
        })
    }

    /// The identities of its rows.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.budgets.iter().map(|budget| Key {
            instance_hash: self.instance_hash.clone(),
            method: self.method.clone(),
            parameters: self.parameters.clone(),
            budget_size: budget.bytes,
            budget: budget.text.clone(),
            seed: self.seed,
            version: VERSION.into(),
        })
    }

    /// The run, its instance read again.
    ///
    /// # Errors
    /// The instance is not what it was, or this is another bench.
    pub fn run(&self, suite: &str) -> Result<Run, Failure> {
        let subject = Subject::read(self.instance.clone())?;
        let hash = subject.instance.hash().to_string();
        if hash != self.instance_hash {
            return Err(Failure::input(format!(
                "{}: has changed since the batch was submitted: its hash is {hash}, not {}; use --resume",
                self.instance.display(),
                self.instance_hash
            )));
        }
        let method = if self.command.is_empty() { method(&self.method)? } else { program::method(&self.method) };
        Ok(Run {
            suite: suite.into(),
            subject: Arc::new(subject),
            method,
            command: self.command.clone(),
            given: self.given.clone(),
            parameters: parameters(method, &self.given)?,
            budgets: self.budgets.clone(),
            seed: self.seed,
        })
    }
}

impl Batch {
    /// The job name and the index within it of a task.
    pub fn place(&self, task: usize) -> Option<(&str, usize)> {
        let array =
            self.arrays.iter().find(|array| task.checked_sub(array.first).is_some_and(|at| at < array.count))?;
        Some((&array.name, task - array.first))
    }

    /// Keeps the first arrays alone, and nothing where there are none: the others were refused.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&mut self, arrays: usize, results: &Path) -> Result<(), Failure> {
        self.arrays.truncate(arrays);
        self.tasks.truncate(self.arrays.iter().map(|array| array.count).sum());
        if arrays > 0 {
            return self.write(results);
        }
        let folder = folder(results, self.number);
        std::fs::remove_dir_all(&folder).map_err(Failure::cannot("remove", &folder))
    }

    /// The limits of its rows, as the command line has them, and their threads.
    pub fn limits(&self) -> String {
        let limits = limits_in_words(&self.limits, self.cpu_limit, self.memory_limit_bytes);
        format!("{limits} and {}", count(self.limits.threads, "thread"))
    }

    /// Writes the plan.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, results: &Path) -> Result<(), Failure> {
        output::make_folder(&folder(results, self.number))?;
        write_json(&plan_path(results, self.number), self).map_err(Failure::writing)
    }
}

/// `slurm/0001` in a run directory: plan, script, and what its tasks print.
pub fn folder(results: &Path, number: usize) -> PathBuf {
    results.join("slurm").join(format!("{number:04}"))
}

/// The plan of a batch.
pub fn plan_path(results: &Path, number: usize) -> PathBuf {
    folder(results, number).join("plan.json")
}

/// Every batch of a run directory, in order.
///
/// # Errors
/// A plan is none of ours.
pub fn all(results: &Path) -> Result<Vec<Batch>, Failure> {
    let entries = std::fs::read_dir(results.join("slurm")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<usize>().ok());
    let mut plans: Vec<_> = numbers.map(|number| plan_path(results, number)).filter(|path| path.is_file()).collect();
    plans.sort_unstable();
    plans.iter().map(|path| read(path)).collect()
}

/// Reads a plan.
///
/// # Errors
/// It is none of ours.
pub fn read(plan: &Path) -> Result<Batch, Failure> {
    read_json(plan).map_err(Failure::input)
}
