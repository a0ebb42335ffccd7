//! One run from its job to its rows. Whatever becomes of the child, each budget gets a row.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use remat_core::schedule::ScheduleDocument;
use remat_formulations::{BudgetUse, Limits, Termination};

use super::child::{self, Heard, Outcome};
use super::job::{AnswerDocument, Job, Message, Point};
use super::judge::{Verdict, judge};
use super::logs;
use super::plan::{Run, RunBudget};
use crate::baseline::overhead;
use crate::host::{Host, SOURCES, VERSION, timestamp};
use crate::records::{Ending, Record, SCHEMA_VERSION, Skipped, one_line};

/// What all runs of a command have in common.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// What each method may use.
    pub limits: Limits,
    /// Limit on the address space of each worker.
    pub memory_limit_bytes: Option<u64>,
    /// Limit on the CPU time of each worker's process group.
    pub cpu_limit: Option<Duration>,
    /// Folder for the solvers' logs, where they are kept.
    pub logs: Option<PathBuf>,
    /// Where this happens.
    pub host: Host,
}

/// A row, and the schedule that it is about.
pub struct Row {
    /// The row.
    pub record: Record,
    /// The schedule, if it is legal.
    pub schedule: Option<ScheduleDocument>,
    /// What was known when, as far as the method reported it.
    pub trace: Vec<Point>,
}

/// Runs a method in a process of its own and judges what it answers to each of `budgets`.
pub fn execute(run: &Run, budgets: &[RunBudget], conditions: &Conditions, interrupted: &AtomicBool) -> Vec<Row> {
    let job = Job {
        parent: std::process::id(),
        instance: run.subject.path.clone(),
        method: run.method.id().into(),
        parameters: run.given.clone(),
        budgets: budgets.iter().map(|budget| budget.bytes).collect(),
        limits: Limits { seed: run.seed, ..conditions.limits },
        memory_limit_bytes: conditions.memory_limit_bytes,
        cpu_limit: conditions.cpu_limit,
        log: conditions.logs.as_deref().and_then(|folder| logs::open(folder, run, budgets)),
    };
    let outcome = child::run(&job, interrupted).unwrap_or_else(|error| Outcome {
        heard: Heard::default(),
        death: Some((Termination::Error, format!("no worker could be started: {error}"))),
        wall_seconds: 0.0,
        cpu_seconds: 0.0,
        peak_rss_bytes: 0,
    });
    if let Some(log) = &job.log {
        logs::trim(log);
    }
    rows(run, budgets, conditions, outcome)
}

fn rows(run: &Run, budgets: &[RunBudget], conditions: &Conditions, outcome: Outcome) -> Vec<Row> {
    let mut answers: BTreeMap<usize, AnswerDocument> = BTreeMap::new();
    let mut otherwise = outcome.death.map(|(termination, words)| (Ending::Ran(termination), words));
    let template = |budget: &RunBudget| Record {
        wall_seconds: outcome.wall_seconds,
        cpu_seconds: outcome.cpu_seconds,
        peak_rss_bytes: outcome.peak_rss_bytes,
        ..blank(run, budget, conditions)
    };
    let Heard { messages, mut traces, mut incumbents, .. } = outcome.heard;
    for message in messages {
        match message {
            Message::Answer(answer) => drop(answers.insert(answer.index, *answer)),
            Message::Skipped { reason } => otherwise = Some((Ending::Skipped(Skipped::Skipped), reason)),
            Message::Failed { message } => otherwise = Some((Ending::Ran(Termination::Error), message)),
            Message::Progress(_) | Message::Done => {}
        }
    }
    let (ending, words) = otherwise.unwrap_or((Ending::Ran(Termination::Error), "the worker gave no answer".into()));
    let row = |(index, budget): (usize, &RunBudget)| {
        let trace = traces.remove(&index).unwrap_or_default();
        if let Some(answer) = answers.remove(&index) {
            return Row { trace, ..answered(run, budget, answer, template(budget)) };
        }
        if let Ending::Ran(termination) = ending {
            let cut_short = cut_short(index, termination, incumbents.remove(&index), &trace);
            let row = answered(run, budget, cut_short, template(budget));
            let words = if row.record.error.is_empty() { &words } else { &row.record.error };
            return Row { record: with_words(row.record.clone(), words), schedule: row.schedule, trace };
        }
        let record = Record { termination: ending, ..template(budget) };
        Row { record: with_words(record, &words), schedule: None, trace }
    };
    budgets.iter().enumerate().map(row).collect()
}

/// What a worker that came to no answer had reported before.
fn cut_short(
    index: usize,
    termination: Termination,
    schedule: Option<ScheduleDocument>,
    trace: &[Point],
) -> AnswerDocument {
    AnswerDocument {
        index,
        termination,
        claimed_time: schedule.as_ref().and_then(|schedule| schedule.claimed_time),
        claimed_peak_bytes: schedule.as_ref().and_then(|schedule| schedule.claimed_peak_bytes),
        schedule,
        lower_bound: trace.iter().filter_map(|point| point.lower_bound).max(),
        build_seconds: None,
        solve_seconds: None,
        note: String::new(),
    }
}

/// Words go to `note` where nothing went wrong.
fn with_words(record: Record, words: &str) -> Record {
    match record.termination {
        Ending::Skipped(_) => Record { note: one_line(words), ..record },
        Ending::Ran(_) => Record { error: one_line(words), ..record },
    }
}

fn answered(run: &Run, budget: &RunBudget, answer: AnswerDocument, template: Record) -> Row {
    let Verdict { termination, simulation, error } = judge(&run.subject.instance, budget.bytes, &answer);
    let baseline = run.subject.baseline;
    let time = simulation.as_ref().map(|simulation| simulation.time);
    let record = Record {
        termination: Ending::Ran(termination),
        claimed_time: answer.claimed_time,
        claimed_peak: answer.claimed_peak_bytes,
        simulated_time: time,
        simulated_peak: simulation.as_ref().map(|simulation| simulation.peak_bytes),
        overhead: time.and_then(|time| overhead(time, baseline.time)),
        overhead_default: time.and_then(|time| overhead(time, baseline.default_time)),
        lower_bound: answer.lower_bound,
        recomputations: simulation.as_ref().map(remat_core::Simulation::recomputations),
        build_seconds: answer.build_seconds,
        solve_seconds: answer.solve_seconds,
        note: one_line(&answer.note),
        error: one_line(&error),
        ..template
    };
    Row { record, schedule: answer.schedule.filter(|_| simulation.is_some()), trace: vec![] }
}

/// A row without results.
fn blank(run: &Run, budget: &RunBudget, conditions: &Conditions) -> Record {
    let instance = &run.subject.instance;
    let about = run.method.about();
    let budgeted = about.budgets == BudgetUse::Used;
    Record {
        schema_version: SCHEMA_VERSION,
        suite: run.suite.clone(),
        instance: instance.name().into(),
        instance_hash: instance.hash().to_string(),
        batch_size: instance.provenance().batch_size,
        times: instance.provenance().times.kind().into(),
        time_unit: instance.units().time,
        memory_unit: instance.units().memory,
        store_all_time: run.subject.baseline.time,
        store_all_peak: run.subject.baseline.peak_bytes,
        method: run.method.id().into(),
        parameters: run.parameters.to_string(),
        claim: run.method.claim(&run.parameters),
        budget_size: budget.bytes.filter(|_| budgeted),
        budget: budget.text.clone(),
        termination: Ending::Ran(Termination::Error),
        claimed_time: None,
        claimed_peak: None,
        simulated_time: None,
        simulated_peak: None,
        overhead: None,
        overhead_default: None,
        lower_bound: None,
        recomputations: None,
        build_seconds: None,
        solve_seconds: None,
        wall_seconds: 0.0,
        cpu_seconds: 0.0,
        peak_rss_bytes: 0,
        threads: conditions.limits.threads,
        time_limit_seconds: conditions.limits.time.map(|limit| limit.as_secs_f64()),
        cpu_limit_seconds: conditions.cpu_limit.map(|limit| limit.as_secs_f64()),
        memory_limit_bytes: conditions.memory_limit_bytes,
        seed: run.seed,
        note: String::new(),
        error: String::new(),
        cached: false,
        version: VERSION.into(),
        sources: SOURCES.into(),
        git_revision: conditions.host.git_revision.clone(),
        host: conditions.host.name.clone(),
        timestamp: timestamp(),
    }
}
