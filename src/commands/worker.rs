//! `bench worker`: the child process in which one method works on one instance. Not for people.
//!
//! Reads a job, limits its own memory, and hands over answers as it gets them. It judges nothing.

use std::os::unix::process::parent_id;
use std::sync::mpsc;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use remat_core::Instance;
use remat_core::io::read_instance;
use remat_formulations::{Answer, Context, Method, Parameters, Reporter, find};

use crate::failure::Failure;
use crate::fault;
use crate::run::job::{Job, Message};
use crate::run::messenger::{self, Messenger};

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
    let Prepared { method, parameters, instance } = match prepare(job) {
        Ok(prepared) => prepared,
        Err(message) => return Ok(Err(message)),
    };
    if let Err(reason) = method.supports(&instance) {
        return send(&Message::Skipped { reason: reason.to_string() }).map(Ok);
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let writer = scope.spawn(|| messenger::write_all(job, &instance, &{ receiver }, std::io::stdout()));
        let reporter = Messenger::new(job, &instance, sender);
        let context = Context {
            instance: &instance,
            parameters: &parameters,
            budgets: &job.budgets,
            limits: job.limits,
            reporter: &reporter,
        };
        let solved = solve(method, &context);
        for (index, answer) in solved.iter().flatten().enumerate() {
            reporter.answer(index, answer);
        }
        drop(reporter);
        let written = writer.join().map_err(|_| Failure::failed("the thread that writes messages panicked"))?;
        written.map_err(Failure::failed)?;
        Ok(solved.map(drop))
    })
}

struct Prepared {
    method: &'static dyn Method,
    parameters: Parameters,
    instance: Instance,
}

fn prepare(job: &Job) -> Result<Prepared, String> {
    let method = find(&job.method).ok_or_else(|| format!("no method {:?}", job.method))?;
    let parameters = Parameters::new(method.about().parameters, &job.parameters)
        .map_err(|error| format!("{} {error}", job.method))?;
    let instance = read_instance(&job.instance).map_err(|error| error.to_string())?;
    Ok(Prepared { method, parameters, instance })
}

fn solve(method: &dyn Method, context: &Context<'_>) -> Result<Vec<Answer>, String> {
    let fault = fault::asked(method.id());
    if let Some(fault) = fault {
        fault.before();
    }
    let mut answers = method.solve(context).map_err(|error| error.to_string())?;
    if let Some(fault) = fault {
        fault.spoil(&mut answers, context.reporter);
    }
    if answers.len() != context.budgets.len() {
        return Err(format!("returns {} answers for {} budgets", answers.len(), context.budgets.len()));
    }
    Ok(answers)
}

fn send(message: &Message) -> Result<(), Failure> {
    messenger::line(&mut std::io::stdout().lock(), message).map_err(Failure::failed)
}
