//! `bench worker`: the child process in which one method works on one instance. Not for people.
//!
//! Reads a job, limits its own memory, and hands over answers as it gets them. It judges nothing.

use std::io::Write;
use std::os::unix::process::parent_id;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use remat_core::Instance;
use remat_core::io::read_instance;
use remat_core::schedule::ScheduleDocument;
use remat_formulations::{Answer, Context, Parameters, Spec, find};

use crate::failure::Failure;
use crate::fault;
use crate::run::job::{AnswerDocument, Job, Message};

/// Works on the job that standard input holds.
///
/// # Errors
/// The job cannot be read, or the answers not be written: nobody is there to hear them.
pub fn run() -> Result<(), Failure> {
    // Should the parent be killed outright, this process goes with it.
    set_pdeathsig(Signal::SIGKILL).map_err(Failure::failed)?;
    let job: Job = serde_json::from_reader(std::io::stdin().lock()).map_err(|error| {
        Failure::input(format!("no job on standard input ({error}); use `bench run` or `bench solve`"))
    })?;
    if parent_id() != job.parent {
        return Err(Failure::failed("the process that asked for this is gone"));
    }
    if let Some(limit) = job.memory_limit_bytes {
        setrlimit(Resource::RLIMIT_AS, limit, limit)
            .map_err(|error| Failure::failed(format!("cannot limit the memory to {limit} bytes: {error}")))?;
    }
    if let Err(message) = work(&job)? {
        send(&Message::Failed { message })?;
    }
    send(&Message::Done)
}

/// Runs the method and hands over its answers; the inner error is the method's, for the record.
fn work(job: &Job) -> Result<Result<(), String>, Failure> {
    let (instance, answers) = match solve(job) {
        Ok(Solved::Answers(instance, answers)) => (instance, answers),
        Ok(Solved::Skipped(reason)) => return send(&Message::Skipped { reason }).map(Ok),
        Err(message) => return Ok(Err(message)),
    };
    for (index, answer) in answers.iter().enumerate() {
        send(&Message::Answer(Box::new(document(job, &instance, index, answer))))?;
    }
    Ok(Ok(()))
}

enum Solved {
    Answers(Box<Instance>, Vec<Answer>),
    Skipped(String),
}

fn solve(job: &Job) -> Result<Solved, String> {
    let method = find(&job.method).ok_or_else(|| format!("no method {:?}", job.method))?;
    let parameters = Parameters::new(method.about().parameters, &job.parameters)
        .map_err(|error| format!("{} {error}", job.method))?;
    let instance = read_instance(&job.instance).map_err(|error| error.to_string())?;
    if let Err(reason) = method.supports(&instance) {
        return Ok(Solved::Skipped(reason.to_string()));
    }
    let fault = fault::asked(&job.method);
    if let Some(fault) = fault {
        fault.before();
    }
    let context = Context { instance: &instance, parameters: &parameters, budgets: &job.budgets, limits: job.limits };
    let mut answers = method.solve(&context).map_err(|error| error.to_string())?;
    if let Some(fault) = fault {
        fault.spoil(&mut answers);
    }
    if answers.len() != job.budgets.len() {
        return Err(format!("returns {} answers for {} budgets", answers.len(), job.budgets.len()));
    }
    Ok(Solved::Answers(Box::new(instance), answers))
}

fn document(job: &Job, instance: &Instance, index: usize, answer: &Answer) -> AnswerDocument {
    let spec = Spec { id: job.method.clone(), parameters: job.parameters.clone() };
    let schedule = answer.schedule.as_ref().map(|schedule| ScheduleDocument {
        method: Some(spec.to_string()),
        budget_bytes: job.budgets[index],
        claimed_time: answer.claimed.map(|claimed| claimed.time),
        claimed_peak_bytes: answer.claimed.map(|claimed| claimed.peak_bytes),
        ..ScheduleDocument::new(instance, schedule)
    });
    AnswerDocument {
        index,
        termination: answer.termination,
        schedule,
        claimed_time: answer.claimed.map(|claimed| claimed.time),
        claimed_peak_bytes: answer.claimed.map(|claimed| claimed.peak_bytes),
        lower_bound: answer.lower_bound,
        build_seconds: answer.build.as_secs_f64(),
        solve_seconds: answer.solve.as_secs_f64(),
        note: answer.note.clone(),
    }
}

/// Writes a message as one line, at once.
fn send(message: &Message) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(message).map_err(Failure::failed)?;
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::failed)
}
