//! One run from its job to its rows. Whatever becomes of the child, each budget gets a row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use indicatif::ProgressBar;
use remat_core::Instance;
use remat_core::schedule::ScheduleDocument;
use remat_formulations::method::claim::Strength;
use remat_formulations::{BudgetUse, Limits, Termination};

use super::child::{self, Heard, Outcome};
use super::job::{Allowance, AnswerDocument, Job, Message, Point};
use super::journal::{self, Journal, Kept};
use super::judge::{Verdict, judge};
use super::logs;
use super::plan::{Run, RunBudget};
use super::program;
use super::progress;
use crate::ground::host::{Host, SOURCES, VERSION, timestamp};
use crate::ground::size::Budget;
use crate::harness::baseline::{Baseline, overhead};
use crate::harness::records::{Ending, Record, SCHEMA_VERSION, Skipped, one_line};

/// What all runs of a command have in common.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// What each run may use.
    pub allowance: Allowance,
    /// Folder for the solvers' logs, where they are kept.
    pub logs: Option<PathBuf>,
    /// Folder for the answers of runs in flight, where a later run may take them up.
    pub unfinished: Option<PathBuf>,
    /// Where this happens.
    pub host: Host,
    /// The line that says how far a run is.
    pub progress: ProgressBar,
}

impl Conditions {
    /// Conditions of a run that leaves neither logs nor answers behind, and does not say how far it is.
    pub fn bare(allowance: Allowance, root: &Path) -> Self {
        Self { allowance, logs: None, unfinished: None, host: Host::new(root), progress: ProgressBar::hidden() }
    }

    /// The same for searches, whose runs have a wall limit of their own and are not taken up again.
    pub fn for_searches(&self, time: Option<Duration>) -> Self {
        let limits = Limits { time, ..self.allowance.limits };
        Self { allowance: Allowance { limits, ..self.allowance }, unfinished: None, ..self.clone() }
    }

    /// Everything that decides a row, as text.
    pub fn key(&self, run: &Run, budget: &RunBudget) -> String {
        let Allowance { limits, cpu_limit, memory_limit_bytes } = self.allowance;
        format!(
            "{SCHEMA_VERSION} {SOURCES}\n{} {}[{}] {:?} seed {}\n{:?} {cpu_limit:?} {memory_limit_bytes:?} {} threads\n",
            run.subject.instance.hash(),
            run.method.id(),
            run.parameters,
            budget.bytes,
            run.seed,
            limits.time,
            limits.threads,
        )
    }
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
///
/// A row is what the method says when it is asked for this budget alone. Whatever ended a process that had
/// several budgets says nothing about those that it had not answered yet: each of them is asked again, alone.
pub fn execute(run: &Run, budgets: &[RunBudget], conditions: &Conditions, interrupted: &AtomicBool) -> Vec<Row> {
    // A program may have changed since, and nobody would know.
    let unfinished = conditions.unfinished.as_deref().filter(|_| run.command.is_empty());
    let kept = unfinished.map(|folder| journal::kept(folder, run, conditions)).unwrap_or_default();
    let open: Vec<RunBudget> = budgets.iter().filter(|budget| !kept.contains_key(&budget.bytes)).cloned().collect();
    let mut rows = execute_all(run, &open, conditions, unfinished, interrupted).into_iter();
    let row = |budget: &RunBudget| match kept.get(&budget.bytes) {
        Some(kept) => Some(taken_up(run, budget, conditions, kept.clone())),
        None => rows.next(),
    };
    budgets.iter().filter_map(row).collect()
}

fn execute_all(
    run: &Run,
    budgets: &[RunBudget],
    conditions: &Conditions,
    unfinished: Option<&Path>,
    interrupted: &AtomicBool,
) -> Vec<Row> {
    if budgets.is_empty() {
        return vec![];
    }
    let attempt = |budgets: &[RunBudget]| {
        let journal = unfinished.and_then(|folder| Journal::open(folder, run, budgets, conditions));
        attempt_all(run, budgets, conditions, journal.as_ref(), interrupted)
    };
    let again = |(budget, first): (&RunBudget, Attempt)| {
        let second = (first.open && budgets.len() > 1).then(|| attempt(std::slice::from_ref(budget)).pop()).flatten();
        second.unwrap_or(first).row
    };
    budgets.iter().zip(attempt(budgets)).map(again).collect()
}

/// The row of an answer that a process gave before it was killed together with the harness.
fn taken_up(run: &Run, budget: &RunBudget, conditions: &Conditions, kept: Kept) -> Row {
    let Kept { answer, trace } = kept;
    let used = answer.used.unwrap_or_default();
    let template = Record {
        wall_seconds: answer.given_after.unwrap_or(0.0),
        cpu_seconds: used.cpu_seconds,
        peak_rss_bytes: used.peak_rss_bytes,
        ..blank(run, budget, conditions)
    };
    Row { trace, ..answered(run, budget, answer, template) }
}

/// What one process has brought for a budget.
struct Attempt {
    row: Row,
    /// Whether this budget alone may bring more: the process failed or was stopped before it answered it.
    open: bool,
}

fn attempt_all(
    run: &Run,
    budgets: &[RunBudget],
    conditions: &Conditions,
    journal: Option<&Journal>,
    interrupted: &AtomicBool,
) -> Vec<Attempt> {
    let allowance = conditions.allowance;
    let job = Job {
        instance: run.subject.path.clone(),
        method: run.method.id().into(),
        command: run.command.clone(),
        parameters: run.given.clone(),
        budgets: budgets.iter().map(|budget| budget.bytes).collect(),
        written: budgets.iter().map(|budget| budget.text.clone()).collect(),
        allowance: Allowance { limits: Limits { seed: run.seed, ..allowance.limits }, ..allowance },
        log: conditions.logs.as_deref().and_then(|folder| logs::open(folder, run, budgets)),
    };
    let hear = |message: &Message| {
        if let Some(journal) = journal {
            journal.note(message);
        }
        progress::show(&conditions.progress, message, run);
    };
    let outcome = child::run(&job, &hear, interrupted).unwrap_or_else(|error| Outcome {
        heard: Heard::default(),
        death: Some((Termination::Error, format!("no worker could be started: {error}"))),
        wall_seconds: 0.0,
        cpu_seconds: 0.0,
        peak_rss_bytes: 0,
    });
    if let Some(log) = &job.log {
        logs::trim(log);
    }
    attempts(run, budgets, conditions, outcome)
}

fn attempts(run: &Run, budgets: &[RunBudget], conditions: &Conditions, outcome: Outcome) -> Vec<Attempt> {
    let mut answers: BTreeMap<usize, AnswerDocument> = BTreeMap::new();
    let mut otherwise = outcome.death.map(|(termination, words)| (Ending::Ran(termination), words));
    let template = |budget: &RunBudget| Record {
        wall_seconds: outcome.wall_seconds,
        cpu_seconds: outcome.cpu_seconds,
        peak_rss_bytes: outcome.peak_rss_bytes,
        ..blank(run, budget, conditions)
    };
    let foreign = !run.command.is_empty();
    // Of a program, what follows a line that is no message is not believed.
    let whole = if foreign { outcome.heard.whole() } else { usize::MAX };
    let mut last = None;
    let Heard { messages, mut traces, mut incumbents, begun, answered: there, .. } = outcome.heard;
    for message in messages.into_iter().take(whole) {
        match message {
            Message::Answer(answer) if answer.index >= budgets.len() => {
                let words = format!("{} answers budget {} of {}", run.who(), answer.index, budgets.len());
                otherwise = Some((Ending::Ran(Termination::Error), words));
            }
            Message::Answer(answer) => {
                last = Some(answer.index);
                answers.insert(answer.index, *answer);
            }
            Message::Skipped { reason } => otherwise = Some((Ending::Skipped(Skipped::Skipped), reason)),
            Message::Failed { message } => {
                let starved = child::starved(&message);
                let termination = if starved { Termination::MemoryLimit } else { Termination::Error };
                otherwise = Some((Ending::Ran(termination), message));
            }
            Message::Progress(_) | Message::Done => {}
        }
    }
    let given: Vec<f64> = answers.values().filter_map(|answer| answer.given_after).collect();
    // A program that goes wrong fails a row: that of its last answer, where all budgets are answered.
    let wrong = matches!(otherwise, Some((Ending::Ran(Termination::Error), _)));
    let broken = last.filter(|_| foreign && wrong && answers.len() == budgets.len());
    let (ending, words) =
        otherwise.unwrap_or((Ending::Ran(Termination::Error), format!("{} gave no answer", run.who())));
    let attempt = |(index, budget): (usize, &RunBudget)| {
        let mut answer = answers.remove(&index);
        let mut trace = traces.remove(&index).unwrap_or_default();
        let refused = answer.as_ref().and_then(program::refused);
        let refused = refused.or_else(|| program::impossible(answer.as_ref(), &trace, outcome.wall_seconds));
        if let Some(note) = refused.filter(|_| foreign) {
            let answer = AnswerDocument { note, ..AnswerDocument::blank(index, Termination::Error) };
            return Attempt { row: answered(run, budget, answer, template(budget)), open: false };
        }
        if foreign {
            let begun = begun.get(&index).copied().unwrap_or_default();
            trace = since(begun, trace);
            answer = answer.map(|answer| timed(answer, there[&index] - begun));
        } else {
            trace = since_begun(trace, &given);
        }
        if let Some(answer) = answer {
            let mut row = Row { trace, ..answered(run, budget, answer, template(budget)) };
            if broken == Some(index) && !row.record.is_error() {
                row.record = Record { termination: ending, error: one_line(&words), ..row.record };
            }
            return Attempt { row, open: false };
        }
        let Ending::Ran(termination) = ending else {
            let record = Record { termination: ending, note: one_line(&words), ..template(budget) };
            return Attempt { row: Row { record, schedule: None, trace }, open: false };
        };
        let cut_short = cut_short(index, termination, incumbents.remove(&index), &trace);
        let Row { record, schedule, .. } = answered(run, budget, cut_short, template(budget));
        let error = if record.error.is_empty() { one_line(&words) } else { record.error };
        Attempt { row: Row { record: Record { error, ..record }, schedule, trace }, open: true }
    };
    budgets.iter().enumerate().map(attempt).collect()
}

/// An answer of a program that took so many seconds, where it does not say for what.
fn timed(answer: AnswerDocument, seconds: f64) -> AnswerDocument {
    let rest = (seconds - answer.build_seconds.unwrap_or_default()).max(0.0);
    AnswerDocument {
        build_seconds: answer.build_seconds.or(Some(0.0)),
        solve_seconds: answer.solve_seconds.or(Some(rest)),
        ..answer
    }
}

/// A trace that counts from when the method turned to its budget: after the last answer to another one that was
/// there before anything was known of this one.
pub fn since_begun(trace: Vec<Point>, given: &[f64]) -> Vec<Point> {
    let first = trace.first().map_or(0.0, |point| point.seconds);
    since(given.iter().copied().filter(|&seconds| seconds <= first).fold(0.0, f64::max), trace)
}

/// A trace that counts from so many seconds on.
fn since(begun: f64, mut trace: Vec<Point>) -> Vec<Point> {
    for point in &mut trace {
        point.seconds = (point.seconds - begun).max(0.0);
    }
    trace
}

/// What a worker that came to no answer had reported before.
fn cut_short(
    index: usize,
    termination: Termination,
    schedule: Option<ScheduleDocument>,
    trace: &[Point],
) -> AnswerDocument {
    AnswerDocument {
        claimed_time: schedule.as_ref().and_then(|schedule| schedule.claimed_time),
        claimed_peak_bytes: schedule.as_ref().and_then(|schedule| schedule.claimed_peak_bytes),
        schedule,
        lower_bound: trace.iter().filter_map(|point| point.lower_bound).max(),
        ..AnswerDocument::blank(index, termination)
    }
}

fn answered(run: &Run, budget: &RunBudget, mut answer: AnswerDocument, template: Record) -> Row {
    let claim = answer.claim.unwrap_or(template.claim);
    // Nothing is known of what a bound without a claim holds for: that of a worker that was stopped before it said so.
    answer.lower_bound = answer.lower_bound.filter(|_| claim.strength != Strength::Heuristic);
    let verdict = judge(&run.subject.instance, budget.bytes, claim, &answer);
    // What a method says of its own failure is the error.
    let failed = verdict.termination == Termination::Error && verdict.error.is_empty();
    let error = if failed { &answer.note } else { &verdict.error };
    let record = Record {
        termination: Ending::Ran(verdict.termination),
        claim,
        claimed_time: answer.claimed_time,
        claimed_peak: answer.claimed_peak_bytes,
        lower_bound: answer.lower_bound,
        build_seconds: answer.build_seconds,
        solve_seconds: answer.solve_seconds,
        note: one_line(&answer.note),
        error: one_line(error),
        ..simulated(run.subject.baseline, &verdict, template)
    };
    Row { record, schedule: answer.schedule.filter(|_| verdict.simulation.is_some()), trace: vec![] }
}

/// A row with the columns that the simulator decides.
fn simulated(baseline: Baseline, verdict: &Verdict, row: Record) -> Record {
    let simulation = verdict.simulation.as_ref();
    let time = simulation.map(|simulation| simulation.time);
    Record {
        schedule_class: verdict.class,
        simulated_time: time,
        simulated_peak: simulation.map(|simulation| simulation.peak_bytes),
        overhead: time.and_then(|time| overhead(time, baseline.time)),
        overhead_default: time.and_then(|time| overhead(time, baseline.default_time)),
        recomputations: simulation.map(remat_core::Simulation::recomputations),
        ..row
    }
}

/// A row with every column that follows from the instance and the schedule made anew, and what is wrong with its answer.
///
/// # Errors
/// Store-all is impossible on the instance, or the budget is none.
pub fn judged(
    instance: &Instance,
    row: &Record,
    schedule: Option<ScheduleDocument>,
) -> Result<(Record, String), String> {
    let baseline =
        Baseline::new(instance).map_err(|error| format!("store-all is illegal on this instance: {error}"))?;
    let budget_size = if row.budget.is_empty() {
        None
    } else {
        let budget: Budget = row.budget.parse().map_err(|error| format!("budget: {error}"))?;
        budget.resolve(baseline.peak_bytes)
    };
    let row = Record { budget_size, ..about(instance, baseline, row.clone()) };
    let Ending::Ran(termination) = row.termination else { return Ok((row, String::new())) };
    let verdict = judge(instance, budget_size, row.claim, &kept_answer(&row, termination, schedule));
    Ok((simulated(baseline, &verdict, row), verdict.error))
}

/// The answer that a row was made from.
fn kept_answer(record: &Record, termination: Termination, schedule: Option<ScheduleDocument>) -> AnswerDocument {
    AnswerDocument {
        schedule,
        claimed_time: record.claimed_time,
        claimed_peak_bytes: record.claimed_peak,
        lower_bound: record.lower_bound,
        claim: Some(record.claim),
        build_seconds: record.build_seconds,
        solve_seconds: record.solve_seconds,
        note: record.note.clone(),
        ..AnswerDocument::blank(0, termination)
    }
}

/// A row that was kept, judged again as if it had just been computed; nothing where the judge says otherwise than
/// the row.
///
/// What was measured, and what the method said, is taken from the row; all else is made anew.
pub fn again(run: &Run, budget: &RunBudget, conditions: &Conditions, kept: Row) -> Option<Row> {
    let Row { record, schedule, trace } = kept;
    let template = Record {
        wall_seconds: record.wall_seconds,
        cpu_seconds: record.cpu_seconds,
        peak_rss_bytes: record.peak_rss_bytes,
        git_revision: record.git_revision.clone(),
        host: record.host.clone(),
        timestamp: record.timestamp.clone(),
        cached: true,
        ..blank(run, budget, conditions)
    };
    let row = match record.termination {
        Ending::Skipped(_) => {
            let reason = run.method.supports(&run.subject.instance).err()?;
            let record = Record { termination: record.termination, note: one_line(&reason.to_string()), ..template };
            Row { record, schedule: None, trace }
        }
        Ending::Ran(termination) => {
            let answer = kept_answer(&record, termination, schedule);
            let mut row = Row { trace, ..answered(run, budget, answer, template) };
            // The words of a worker's death are its own.
            if row.record.error.is_empty() {
                row.record.error.clone_from(&record.error);
            }
            row
        }
    };
    // Names may differ where the row is used; what is computed in floating point is made anew and was stored as text.
    let expected = Record {
        suite: row.record.suite.clone(),
        instance: row.record.instance.clone(),
        budget: row.record.budget.clone(),
        overhead: row.record.overhead,
        overhead_default: row.record.overhead_default,
        time_limit_seconds: row.record.time_limit_seconds,
        cpu_limit_seconds: row.record.cpu_limit_seconds,
        cached: true,
        ..record
    };
    (expected == row.record).then_some(row)
}

/// A row without results.
fn blank(run: &Run, budget: &RunBudget, conditions: &Conditions) -> Record {
    let instance = &run.subject.instance;
    let budgeted = run.method.about().budgets == BudgetUse::Used;
    let Allowance { limits, cpu_limit, memory_limit_bytes } = conditions.allowance;
    let row = Record {
        schema_version: SCHEMA_VERSION,
        suite: run.suite.clone(),
        instance: String::new(),
        instance_hash: String::new(),
        batch_size: None,
        times: String::new(),
        time_unit: instance.units().time,
        memory_unit: instance.units().memory,
        store_all_time: 0,
        store_all_peak: 0,
        method: run.method.id().into(),
        parameters: run.parameters.to_string(),
        claim: run.method.claim(&run.parameters),
        schedule_class: None,
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
        threads: limits.threads,
        time_limit_seconds: limits.time.map(|limit| limit.as_secs_f64()),
        cpu_limit_seconds: cpu_limit.map(|limit| limit.as_secs_f64()),
        memory_limit_bytes,
        seed: run.seed,
        note: String::new(),
        error: String::new(),
        cached: false,
        version: VERSION.into(),
        sources: SOURCES.into(),
        git_revision: conditions.host.git_revision.clone(),
        host: conditions.host.name.clone(),
        timestamp: timestamp(),
    };
    about(instance, run.subject.baseline, row)
}

/// A row with the columns that the instance decides.
fn about(instance: &Instance, baseline: Baseline, row: Record) -> Record {
    Record {
        instance: instance.name().into(),
        instance_hash: instance.hash().to_string(),
        batch_size: instance.provenance().batch_size,
        times: instance.provenance().times.kind().into(),
        time_unit: instance.units().time,
        memory_unit: instance.units().memory,
        store_all_time: baseline.time,
        store_all_peak: baseline.peak_bytes,
        ..row
    }
}
