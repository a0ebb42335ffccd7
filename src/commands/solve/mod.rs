//! `bench solve`: a schedule for one instance and one budget, checked by the simulator.

mod addresses;
mod fit;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use remat_allocation::plan::PlanDocument;
use remat_core::io::{could_write_json, write_json};
use remat_formulations::{BudgetUse, Limits, Spec, Termination};

use addresses::WithAddresses;

use crate::commands::values::{positive, seconds, svg};
use crate::ground::failure::Failure;
use crate::ground::format::{self, ReportFormat};
use crate::ground::host::cores;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::{Budget, Size};
use crate::harness::records::{Ending, Record};
use crate::harness::run::plan::{RunBudget, Subject, method, parameters};
use crate::harness::run::{Allowance, Conditions, Row, Run, execute, interrupts, progress};
use crate::views::plot;

const AFTER_HELP: &str = "\
INSTANCE is a file, or a name under instances/. The exit code is 0 only if there is a schedule that the \
simulator accepts within the budget.

Without --method, several methods work together for 30 seconds, or for those of --time-limit. The answer says who found the schedule, \
and gives a lower bound with the class of schedules that it holds for.

Examples:
  bench solve resnet50-224-b32 --budget 0.5x -o schedule.json --trace quality.svg
  bench solve resnet50-224-b32 --method rotor-persistent --budget 0.5x -o schedule.json
  bench solve instance.json --method 'rotor-persistent[slots=1000]' --budget 8GiB --format json";

/// Arguments of `bench solve`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Instance file, or a name under instances/
    instance: String,
    /// Method: ID, or ID[name=value,...]; `bench methods` lists them
    #[arg(long, short, value_name = "METHOD", default_value = "auto")]
    method: Spec,
    /// Memory budget: a size (8GiB, 500MB) or a fraction of store-all's peak (0.5x, 50%) [default: unlimited]
    #[arg(long, short, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<Budget>,
    /// Write the schedule to this file (.json, .json.zst or .json.gz)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw quality over time: incumbents and who found them, and the bound, against seconds
    #[arg(long, value_name = "FILE.svg")]
    trace: Option<PathBuf>,
    /// Find addresses within the budget too, and write that plan to this file (.json): where a schedule's tensors do not
    /// fit, ask again for a smaller peak, each time with half of the time that is left
    #[arg(long, value_name = "FILE")]
    arena: Option<PathBuf>,
    /// Wall limit in seconds [default: 30 with auto, none otherwise]
    #[arg(long, visible_alias = "timelimit", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    time_limit: Option<Duration>,
    /// Limit on CPU seconds, all threads and processes together
    #[arg(long, visible_alias = "cpulimit", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    cpu_limit: Option<Duration>,
    /// Address-space limit, e.g. 4GiB
    #[arg(long, visible_alias = "memlimit", value_name = "SIZE")]
    memory_limit: Option<Size>,
    /// Threads that the method may use [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Format of the result: lines, or one JSON object with the columns of records.csv
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
}

/// Wall time of `auto` where no limit is given.
const AUTO_TIME: Duration = Duration::from_secs(30);

/// Solves one instance.
///
/// # Errors
/// Arguments or files do not fit, or there is no schedule.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let method = method(&arguments.method.id)?;
    let given = arguments.method.parameters.clone();
    let parameters = parameters(method, &given)?;
    let path = library.find(&arguments.instance)?;
    prepare(arguments, &path)?;
    let subject = Arc::new(Subject::read(path)?);
    let budget = budget(arguments, &subject)?;
    let run = Run {
        suite: String::new(),
        subject,
        method,
        command: vec![],
        given,
        parameters,
        budgets: vec![budget.clone()],
        seed: arguments.seed,
    };
    let stop = interrupts()?;
    let WithAddresses { row, plan, ran_out } = if arguments.arena.is_some() {
        addresses::solve(arguments, &library, &run, &budget, &stop)?
    } else {
        let row = solve(arguments, &library, &run, &budget, limits(arguments, &run), &stop)?;
        WithAddresses { row, plan: None, ran_out: None }
    };
    let record = &row.record;
    let unpacked = "not known: there is a schedule, and no addresses within the budget were found";
    let fits = if ran_out.is_some() { unpacked.into() } else { fit::answer(record) };
    let text = arguments.format.render(record, |record| text(record, fits))?;
    // What took the time is saved before anything else can fail.
    let saved = save(arguments, &row, plan.as_ref());
    let shown = output::result(&text);
    let drawn = arguments.trace.as_ref().map_or(Ok(()), |path| draw(path, &row));
    saved.and(shown).and(drawn)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!("interrupted; {}", what_is_there(record))));
    }
    if record.is_solved() {
        if arguments.output.is_none() && arguments.format == ReportFormat::Text {
            output::info("-o FILE.json keeps the schedule, for `bench verify` and for training with it");
        }
        return Ok(());
    }
    for path in [&arguments.output, &arguments.arena].into_iter().flatten().filter(|path| path.exists()) {
        output::info(&format!("{}: left as it was", path.display()));
    }
    Err(Failure::failed(
        ran_out.unwrap_or_else(|| why_unsolved(record) + &fit::needed(arguments, &library, &run, record, &stop)),
    ))
}

/// What a run that was interrupted leaves.
fn what_is_there(record: &Record) -> &'static str {
    if record.is_solved() { "that is the best schedule until then" } else { "there was no schedule yet" }
}

/// Refuses outputs that could not be written, before anything is solved.
fn prepare(arguments: &Arguments, instance: &Path) -> Result<(), Failure> {
    let Arguments { output, arena, trace, .. } = arguments;
    output::keep_apart(&[instance], &[output.as_ref(), arena.as_ref(), trace.as_ref()])?;
    for path in [output, arena].into_iter().flatten() {
        could_write_json(path).map_err(Failure::writing)?;
    }
    let Some(path) = trace else { return Ok(()) };
    svg("--trace", path)?;
    output::could_write(path)
}

/// Writes the schedule and its addresses, where there are any.
fn save(arguments: &Arguments, row: &Row, plan: Option<&PlanDocument>) -> Result<(), Failure> {
    if !row.record.is_solved() {
        return Ok(());
    }
    if let (Some(path), Some(schedule)) = (&arguments.output, &row.schedule) {
        write_json(path, schedule).map_err(Failure::writing)?;
    }
    let plan = arguments.arena.as_ref().zip(plan);
    plan.map_or(Ok(()), |(path, plan)| write_json(path, plan).map_err(Failure::writing))
}

/// Draws what was known when, where anything was.
fn draw(path: &Path, row: &Row) -> Result<(), Failure> {
    let failed = Failure::cannot("draw", path);
    match plot::progress_of(&row.record, &row.trace) {
        Some(svg) => output::replace_file(path, svg.map_err(failed)?),
        None => Err(failed(why_unsolved(&row.record))),
    }
}

fn budget(arguments: &Arguments, subject: &Subject) -> Result<RunBudget, Failure> {
    let Some(budget) = &arguments.budget else { return Ok(RunBudget { text: String::new(), bytes: None }) };
    Ok(RunBudget { text: budget.to_string(), bytes: Some(subject.bytes(budget)?) })
}

/// Wall time and CPU time that there are for all.
fn limits(arguments: &Arguments, run: &Run) -> (Option<Duration>, Option<Duration>) {
    (arguments.time_limit.or((run.method.id() == "auto").then_some(AUTO_TIME)), arguments.cpu_limit)
}

/// Runs the method within wall time and CPU time; one that ignores budgets is held to the budget afterwards.
fn solve(
    arguments: &Arguments,
    library: &Library,
    run: &Run,
    budget: &RunBudget,
    (time, cpu_limit): (Option<Duration>, Option<Duration>),
    stop: &AtomicBool,
) -> Result<Row, Failure> {
    let allowance = Allowance {
        limits: Limits { time, threads: arguments.threads.unwrap_or_else(cores), seed: arguments.seed },
        cpu_limit,
        memory_limit_bytes: arguments.memory_limit.map(|size| size.0),
    };
    let ignores = run.method.about().budgets == BudgetUse::Ignored;
    let asked = if ignores { RunBudget { text: String::new(), bytes: None } } else { budget.clone() };
    let progress = progress::line();
    let conditions = Conditions { progress: progress.clone(), ..Conditions::bare(allowance, &library.root) };
    let mut rows = execute(run, &[asked], &conditions, stop);
    progress.finish_and_clear();
    let mut row = rows.pop().ok_or_else(|| Failure::failed("internal error: a run without a row"))?;
    if ignores {
        hold_to(&mut row, budget);
    }
    Ok(row)
}

/// A point outside of the budget is not found, whatever its method says of itself.
fn hold_to(row: &mut Row, budget: &RunBudget) {
    let record = &mut row.record;
    (record.budget_size, record.budget) = (budget.bytes, budget.text.clone());
    let over = budget.bytes.zip(record.simulated_peak).filter(|(budget, peak)| peak > budget);
    if let Some((budget, peak)) = over {
        record.termination = Ending::Ran(Termination::NotFound);
        record.note = format!("{} ignores budgets; its peak is {peak}, the budget {budget}", record.method);
        row.schedule = None;
    }
}

/// Why there is no schedule; the note of a method that ran is on standard output.
fn why_unsolved(record: &Record) -> String {
    let is_skipped = matches!(record.termination, Ending::Skipped(_));
    let words = if is_skipped { &record.note } else { &record.error };
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    let ending = ending_words(record);
    format!("no schedule of {} by {}: {ending}{words}", record.instance, record.method)
}

/// How a row without a schedule ended, in words.
fn ending_words(record: &Record) -> String {
    let words = match record.termination {
        Ending::Skipped(_) => "not supported",
        Ending::Ran(Termination::Infeasible) => {
            return format!("infeasible within the budget, proved for the class \"{}\"", record.claim.class);
        }
        Ending::Ran(Termination::BoundOnly) => "a lower bound is all that the method gives",
        Ending::Ran(Termination::NotFound) => "none found within the budget",
        Ending::Ran(Termination::TimeLimit) => "time limit",
        Ending::Ran(Termination::CpuLimit) => "CPU limit",
        Ending::Ran(Termination::MemoryLimit) => "memory limit",
        Ending::Ran(_) => "error",
    };
    words.into()
}

fn text(record: &Record, fits: String) -> String {
    let (time_unit, memory_unit) = (record.time_unit, record.memory_unit);
    let time = |value: Option<u64>| value.map_or("-".into(), |value| format::time(value, time_unit));
    let bytes = |value: Option<u64>| value.map_or("-".into(), |value| format::bytes(value, memory_unit));
    let budget = match (record.budget_size, record.budget.as_str()) {
        (None, _) => "unlimited".into(),
        (Some(value), written) => format!("{} ({written})", format::bytes(value, memory_unit)),
    };
    let overhead = record.overhead.map_or("-".into(), |overhead| format!("{:.1} % over store-all", 100.0 * overhead));
    let lines = [
        ("instance", format!("{} ({})", record.instance, record.instance_hash)),
        ("method", format!("{}[{}]", record.method, record.parameters)),
        ("budget", budget),
        ("fits", fits),
        ("termination", record.termination.to_string()),
        ("time", format!("{} (claimed {}), {overhead}", time(record.simulated_time), time(record.claimed_time))),
        ("peak", format!("{} (claimed {})", bytes(record.simulated_peak), bytes(record.claimed_peak))),
        ("lower bound", time(record.lower_bound)),
        ("recomputations", record.recomputations.map_or("-".into(), |count| count.to_string())),
        (
            "build, solve",
            match (record.build_seconds, record.solve_seconds) {
                (Some(build), Some(solve)) => format!("{build:.3} s, {solve:.3} s"),
                _ => "-".into(),
            },
        ),
        (
            "process",
            format!(
                "{:.2} s, peak {}",
                record.wall_seconds,
                format::bytes(record.peak_rss_bytes, remat_core::format::MemoryUnit::Bytes)
            ),
        ),
        ("claim", record.claim.to_string()),
        ("note", record.note.replace("; ", &format!("\n{:15}", ""))),
    ];
    let shown = lines.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{name:<15}{value}\n")).collect::<Vec<_>>().concat()
}
