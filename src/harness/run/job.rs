//! What parent and worker say to each other: a job on standard input, messages as JSON lines on
//! standard output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use remat_core::schedule::ScheduleDocument;
use remat_formulations::{Claim, Limits, Termination};
use serde::{Deserialize, Serialize};

use crate::harness::records;

/// What a run may use for each of its budgets.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Allowance {
    /// What the method itself is told to keep to.
    pub limits: Limits,
    /// Limit on the CPU time of the worker's process group.
    pub cpu_limit: Option<Duration>,
    /// Limit on the address space of the worker.
    pub memory_limit_bytes: Option<u64>,
}

impl Allowance {
    /// The limits of a row, as the command line has them.
    pub fn words(&self) -> String {
        let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64());
        records::limits(seconds(self.limits.time), seconds(self.cpu_limit), self.memory_limit_bytes)
    }
}

/// One run: an instance, a method with parameters, and all its budgets at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The instance file.
    pub instance: PathBuf,
    /// Id of the method.
    pub method: String,
    /// The program that is the method; empty: a registered one has the id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Parameters given.
    pub parameters: BTreeMap<String, String>,
    /// Budgets in the instance's unit of memory.
    pub budgets: Vec<Option<u64>>,
    /// The same as they are written.
    #[serde(default)]
    pub written: Vec<String>,
    /// What it may use.
    #[serde(flatten)]
    pub allowance: Allowance,
    /// File to which solvers append their logs.
    pub log: Option<PathBuf>,
}

/// One line from the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// The method does not support the instance.
    Skipped {
        /// Why.
        reason: String,
    },
    /// The method, or reading the instance, failed.
    Failed {
        /// The error.
        message: String,
    },
    /// How far a budget is.
    Progress(Box<ProgressDocument>),
    /// The answer for one budget; a later one for the same budget replaces it.
    Answer(Box<AnswerDocument>),
    /// Nothing more follows.
    Done,
}

/// [`remat_formulations::Answer`], with the schedule in the instance's own ids.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnswerDocument {
    /// Position of the budget.
    pub index: usize,
    /// Why the method stopped.
    pub termination: Termination,
    /// The best schedule found.
    pub schedule: Option<ScheduleDocument>,
    /// Claimed time.
    pub claimed_time: Option<u64>,
    /// Claimed peak.
    pub claimed_peak_bytes: Option<u64>,
    /// Proved lower bound.
    pub lower_bound: Option<u64>,
    /// What is claimed of this answer, where that is not what the method claims of all.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// Seconds of building; nothing from a worker that was killed.
    pub build_seconds: Option<f64>,
    /// Seconds of solving; likewise.
    pub solve_seconds: Option<f64>,
    /// The method's note.
    #[serde(default)]
    pub note: String,
    /// Wall seconds from the beginning of the method until this answer; nothing from a worker that was killed.
    pub given_after: Option<f64>,
    /// What the worker had used by then; likewise.
    #[serde(default)]
    pub used: Option<Used>,
}

impl AnswerDocument {
    /// The answer to a budget that says nothing but why the method stopped.
    pub fn blank(index: usize, termination: Termination) -> Self {
        Self {
            index,
            termination,
            schedule: None,
            claimed_time: None,
            claimed_peak_bytes: None,
            lower_bound: None,
            claim: None,
            build_seconds: None,
            solve_seconds: None,
            note: String::new(),
            given_after: None,
            used: None,
        }
    }
}

/// What a worker and the processes that it has waited for have used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// User and system seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory of the largest process.
    pub peak_rss_bytes: u64,
}

/// [`remat_formulations::Progress`] over a short while, with the schedule in the instance's own ids.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgressDocument {
    /// Position of the budget.
    pub index: usize,
    /// The numbers.
    pub point: Point,
    /// The best schedule so far, where it is new and some time has passed since the last one was sent.
    pub schedule: Option<ScheduleDocument>,
}

/// A point of a run's trace: what was known when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Wall seconds: in messages since the method began, in traces since it began work on this budget.
    pub seconds: f64,
    /// Time that the best schedule so far claims.
    pub claimed_time: Option<u64>,
    /// Peak that it claims.
    pub claimed_peak: Option<u64>,
    /// Best proved lower bound so far.
    pub lower_bound: Option<u64>,
    /// Nodes, iterations or states so far.
    pub effort: Option<u64>,
    /// The method that found that schedule, where the run's method lets others search.
    #[serde(default)]
    pub found_by: Option<String>,
}
