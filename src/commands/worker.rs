//! `bench worker`: the child process in which one method works on one instance. Not for people.
//!
//! Reads a job, limits its own memory and CPU time, sends what solvers print to the run's log, and hands
//! over answers as it gets them. It judges nothing.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::mpsc;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{dup2_stdout, getpgrp, getpid};
use remat_core::Instance;
use remat_core::io::read_instance;
use remat_formulations::{Context, Method, Parameters, Registered, enable_solver_logs, find};

use crate::ground::failure::Failure;
use crate::harness::run::child::times;
use crate::harness::run::interrupts;
use crate::harness::run::job::{Job, Message};
use crate::harness::run::messenger::{self, Messenger};
use crate::harness::run::program;

/// Works on the job that standard input holds.
///
/// # Errors
/// The job cannot be read, or the answers not be written: nobody is there to hear them.
pub fn run() -> Result<(), Failure> {
    // A cluster that ends a job signals all of its processes; the parent decides what becomes of this one.
    interrupts()?;
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).map_err(serde_json::Error::io);
    let job: Job = read.and_then(|_| serde_json::from_str(&line)).map_err(|error| {
        Failure::input(format!("no job on standard input ({error}); use `bench run` or `bench solve`"))
    })?;
    if job.command.is_empty() {
        // Before the limits: a thread needs memory.
        std::thread::spawn(go_with_the_parent);
    }
    limit(&job)?;
    if !job.command.is_empty() {
        // The program has no such thread, and one that starts late here would read the program's input.
        set_pdeathsig(Signal::SIGKILL).map_err(Failure::failed)?;
        let message = program::become_it(&job);
        send(&divert(&Job { log: None, ..job })?, &Message::Failed { message })?;
        return Ok(());
    }
    let out = divert(&job)?;
    if let Err(message) = work(&job, &out)? {
        send(&out, &Message::Failed { message })?;
    }
    send(&out, &Message::Done)
}

/// Waits for the end of standard input, which the parent keeps open as long as it lives, and then ends all processes of
/// this worker's group: what it has started would go on for nobody.
fn go_with_the_parent() {
    let mut rest = [0; 64];
    while matches!(std::io::stdin().read(&mut rest), Ok(1..)) {}
    // A worker leads its group, unless somebody started it by hand.
    if getpgrp() == getpid() {
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    }
    std::process::exit(1);
}

/// Puts the system's limits on this process and on all that it starts.
fn limit(job: &Job) -> Result<(), Failure> {
    let set = |resource, what: &str, soft: u64, hard: u64| {
        setrlimit(resource, soft, hard)
            .map_err(|error| Failure::failed(format!("cannot limit the {what} to {soft}: {error}")))
    };
    if let Some(bytes) = job.allowance.memory_limit_bytes {
        set(Resource::RLIMIT_AS, "bytes of memory", bytes, bytes)?;
    }
    if let Some(limit) = job.allowance.cpu_limit {
        // The parent counts the whole group and kills it; this is for when it is not looking.
        let seconds = times(limit, job.budgets.len()).as_secs().saturating_add(2);
        set(Resource::RLIMIT_CPU, "seconds of CPU time", seconds, seconds.saturating_add(1))?;
    }
    Ok(())
}

/// Where messages go. Where the run keeps a log, standard output itself becomes that, for solvers print there.
fn divert(job: &Job) -> Result<File, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot divert standard output: {error}"));
    let messages = std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    if let Some(path) = &job.log {
        let log = File::options().create(true).append(true).open(path).map_err(failed)?;
        dup2_stdout(log).map_err(|error| failed(error.into()))?;
        enable_solver_logs();
    }
    Ok(messages.into())
}

/// Runs the method and hands over its answers; the inner error is the method's, for the record.
fn work(job: &Job, out: &File) -> Result<Result<(), String>, Failure> {
    let (method, parameters, instance) = match prepare(job) {
        Ok(prepared) => prepared,
        Err(message) => return Ok(Err(message)),
    };
    if let Err(reason) = method.supports(&instance) {
        return send(out, &Message::Skipped { reason: reason.to_string() }).map(Ok);
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let write = || messenger::write_all(job, &instance, &{ receiver }, out);
        let writer = match std::thread::Builder::new().spawn_scoped(scope, write) {
            Ok(writer) => writer,
            Err(error) => return Ok(Err(format!("failed to spawn thread: {error}"))),
        };
        let reporter = Messenger::new(job, &instance, sender);
        let context = Context {
            instance: &instance,
            parameters: &parameters,
            budgets: &job.budgets,
            limits: job.allowance.limits,
            reporter: &reporter,
            starts: &Registered,
        };
        let solved = solve(method, &context);
        drop(reporter);
        let written = writer.join().map_err(|_| Failure::failed("the thread that writes messages panicked"))?;
        written.map_err(Failure::failed)?;
        Ok(solved)
    })
}

fn prepare(job: &Job) -> Result<(&'static dyn Method, Parameters, Instance), String> {
    let method = find(&job.method).ok_or_else(|| format!("no method {:?}", job.method))?;
    let parameters = Parameters::new(method.about().parameters, &job.parameters)
        .map_err(|error| format!("{} {error}", job.method))?;
    let instance = read_instance(&job.instance).map_err(|error| error.to_string())?;
    Ok((method, parameters, instance))
}

fn solve(method: &dyn Method, context: &Context<'_>) -> Result<(), String> {
    #[cfg(feature = "faults")]
    if let Some(fault) = crate::harness::fault::asked(method.id()) {
        return misbehave(fault, method, context);
    }
    method.answers(context).map(drop).map_err(|error| error.to_string())
}

/// Solves, and does what a test of the harness asks for.
#[cfg(feature = "faults")]
fn misbehave(fault: crate::harness::fault::Fault, method: &dyn Method, context: &Context<'_>) -> Result<(), String> {
    fault.before();
    let silent = Context { reporter: &remat_formulations::Silent, ..*context };
    let mut answers = method.answers(&silent).map_err(|error| error.to_string())?;
    fault.spoil(&mut answers, context.reporter);
    answers.iter().enumerate().for_each(|(index, answer)| context.answer(index, answer));
    if answers.is_empty() { Err("returns no answers".into()) } else { Ok(()) }
}

fn send(mut out: &File, message: &Message) -> Result<(), Failure> {
    messenger::line(&mut out, message).map_err(Failure::failed)
}
