//! A method of one's own: a program that a suite names by its `command`, in place of a method of the registry.
//!
//! It runs where a worker would: `bench worker` puts the limits on itself and becomes the program. The program gets one
//! JSON object on standard input ([`Question`]) and answers with the messages of workers. It proves nothing here: its
//! schedules count for what the simulator says of them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use nix::sys::memfd::{MFdFlags, memfd_create};
use remat_core::Instance;
use remat_core::format::InstanceDocument;
use remat_core::io::read_json;
use remat_formulations::{
    About, BudgetUse, Claim, Class, Context, Method, MethodError, Parameters, SkipReason, Termination,
};
use serde::Serialize;

use super::job::{Allowance, AnswerDocument, Job, Point};

/// Version of what programs read and write.
pub const VERSION: u32 = 1;

/// What a program reads.
#[derive(Serialize)]
struct Question<'a> {
    /// Version of this.
    bench: u32,
    /// The instance, as in its file; views are folded into their storages.
    instance: InstanceDocument,
    /// Budgets in the instance's unit of memory, fixed bytes included; null: unlimited.
    budgets: &'a [Option<u64>],
    /// The same as rows name them, such as `0.5x`.
    written: &'a [String],
    /// What the program may use.
    limits: QuestionLimits,
}

#[derive(Serialize)]
struct QuestionLimits {
    /// Wall seconds for each budget.
    seconds: Option<f64>,
    /// CPU seconds for each budget, of all threads and processes together.
    cpu_seconds: Option<f64>,
    /// Address space.
    memory_bytes: Option<u64>,
    threads: usize,
    seed: u64,
}

/// Becomes the program of a job, which reads its question on standard input.
///
/// Returns why that is impossible.
pub fn become_it(job: &Job) -> String {
    let Some((program, words)) = job.command.split_first() else { return "the command is empty".into() };
    match question(job).and_then(|question| stored(&question)) {
        Ok(file) => format!("cannot start {program:?}: {}", Command::new(program).args(words).stdin(file).exec()),
        Err(error) => error,
    }
}

fn question(job: &Job) -> Result<Question<'_>, String> {
    let mut instance: InstanceDocument = read_json(&job.instance).map_err(|error| error.to_string())?;
    fold_views(&mut instance);
    let Allowance { limits, cpu_limit, memory_limit_bytes } = job.allowance;
    let limits = QuestionLimits {
        seconds: limits.time.map(|time| time.as_secs_f64()),
        cpu_seconds: cpu_limit.map(|time| time.as_secs_f64()),
        memory_bytes: memory_limit_bytes,
        threads: limits.threads,
        seed: limits.seed,
    };
    Ok(Question { bench: VERSION, instance, budgets: &job.budgets, written: &job.written, limits })
}

fn fold_views(instance: &mut InstanceDocument) {
    let of: HashMap<u32, u32> = instance.views.drain(..).map(|view| (view.id, view.of)).collect();
    let fold = |ids: &mut Vec<u32>| {
        for id in ids {
            while let Some(&storage) = of.get(id) {
                *id = storage;
            }
        }
    };
    for operator in &mut instance.operators {
        fold(&mut operator.inputs);
        operator.implementations.iter_mut().filter_map(|one| one.inputs.as_mut()).for_each(fold);
    }
}

/// The question as a file without a name, to be read from its beginning.
fn stored(question: &Question<'_>) -> Result<File, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot hand the question over: {error}");
    let mut file = File::from(memfd_create("question", MFdFlags::MFD_CLOEXEC).map_err(|error| cannot(&error))?);
    serde_json::to_writer(&mut file, question).map_err(|error| cannot(&error))?;
    file.flush().and_then(|()| file.rewind()).map_err(|error| cannot(&error))?;
    Ok(file)
}

/// What a program says that it cannot know.
pub fn refused(answer: &AnswerDocument) -> Option<String> {
    use Termination::{BoundOnly, GapReached, Infeasible, Interrupted, Optimal};
    let unknown = matches!(answer.termination, Optimal | GapReached | Infeasible | BoundOnly | Interrupted);
    (unknown || answer.claim.is_some() || answer.lower_bound.is_some()).then(|| {
        format!(
            "a program of one's own proves nothing: expected the termination \"feasible\", \"not_found\" or that of a \
             limit, without claim and lower_bound, found \"{}\"",
            answer.termination
        )
    })
}

/// A number of seconds that cannot be, where the program ran for so many.
pub fn impossible(answer: Option<&AnswerDocument>, trace: &[Point], ran: f64) -> Option<String> {
    let of_answer =
        |answer: &AnswerDocument| [("build_seconds", answer.build_seconds), ("solve_seconds", answer.solve_seconds)];
    let figures = answer.into_iter().flat_map(of_answer);
    let figures = figures.chain(trace.iter().map(|point| ("the seconds of its progress", Some(point.seconds))));
    let (name, seconds) = figures
        .filter_map(|(name, seconds)| Some((name, seconds?)))
        .find(|(_, seconds)| !(0.0..=ran).contains(seconds))?;
    Some(format!("a number of seconds cannot be: {name} is {seconds:?}, and the program ran from 0 to {ran:.3} s"))
}

/// A program as what the harness asks of every method.
struct Program {
    id: &'static str,
}

/// The method that runs a program under an id.
pub fn method(id: &str) -> &'static dyn Method {
    static KNOWN: Mutex<BTreeMap<String, &'static Program>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Methods live as long as the process; there are as many of these as suites name.
    *known.entry(id.to_owned()).or_insert_with(|| Box::leak(Box::new(Program { id: id.to_owned().leak() })))
}

impl Method for Program {
    fn about(&self) -> About {
        About {
            id: self.id,
            title: "a program that a suite names",
            reference: "the suite",
            parameters: &[],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(Class::ALL)
    }

    fn supports(&self, _: &Instance) -> Result<(), SkipReason> {
        Ok(())
    }

    fn solve(&self, _: &Context<'_>) -> Result<(), MethodError> {
        Err(MethodError::Internal(format!("{} is a program, which runs in a process of its own", self.id)))
    }

    /// It is told the seed; whether it uses it, nobody knows.
    fn is_random(&self, _: &Parameters) -> bool {
        true
    }
}
