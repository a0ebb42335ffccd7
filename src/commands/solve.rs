//! `bench solve`: a schedule for one instance and one budget, checked by the simulator.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use remat_allocation::minimalloc::MiniMalloc;
use remat_allocation::plan::PlanDocument;
use remat_core::format::MemoryUnit;
use remat_core::io::{could_write_json, write_json};
use remat_formulations::staged::joint::Joint;
use remat_formulations::{BudgetUse, Claim, Limits, Spec, Termination};

use crate::commands::values::{positive, seconds};
use crate::ground::failure::Failure;
use crate::ground::format::{self, ReportFormat};
use crate::ground::host::{Host, cores};
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::{Budget, Size};
use crate::ground::text::count;
use crate::harness::arena::{Arena, Terms};
use crate::harness::records::{Ending, Record};
use crate::harness::run::plan::{RunBudget, Subject, method, parameters};
use crate::harness::run::{Conditions, Row, Run, execute, interrupts};
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

/// Schedules for which addresses are looked for with `--arena`, and the seconds for each.
const PACKINGS: usize = 6;
const PACKING_TIME: Duration = Duration::from_secs(10);
/// In less there is no use in another try.
const LEAST_TIME: Duration = Duration::from_millis(100);

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
    let mut run = Run {
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
        solve_with_addresses(arguments, &library, &mut run, &budget, &stop)?
    } else {
        let row = solve(arguments, &library, &run, &budget, limits(arguments, &run), &stop)?;
        WithAddresses { row, plan: None, ran_out: None }
    };
    let record = &row.record;
    let text = match arguments.format {
        ReportFormat::Json => serde_json::to_string_pretty(record).map_err(Failure::failed)?,
        ReportFormat::Text => text(record),
    };
    // What took the time is saved before anything else can fail.
    let saved = save(arguments, &row, plan.as_ref());
    let shown = output::result(&text);
    let drawn = arguments.trace.as_ref().map_or(Ok(()), |path| draw(path, &row));
    saved.and(shown).and(drawn)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!("interrupted; {}", what_is_there(record))));
    }
    if record.is_solved() {
        return Ok(());
    }
    for path in [&arguments.output, &arguments.arena].into_iter().flatten().filter(|path| path.exists()) {
        output::info(&format!("{}: left as it was", path.display()));
    }
    let hint = ran_out.is_none().then(|| needed(&run.subject, record)).flatten().unwrap_or_default();
    Err(Failure::failed(ran_out.unwrap_or_else(|| why_unsolved(record)) + &hint))
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
    if path.extension().is_none_or(|extension| extension != "svg") {
        let path = path.display();
        return Err(Failure::input(format!("--trace {path}: the figure is an SVG; name a file that ends in .svg")));
    }
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

/// What came of looking for a schedule with addresses.
struct WithAddresses {
    row: Row,
    plan: Option<PlanDocument>,
    /// What ran out, where there is no plan and a schedule was found on the way.
    ran_out: Option<String>,
}

/// The schedules for which no addresses were found within the budget.
#[derive(Default)]
struct Misses {
    /// No addresses fit: proved.
    proved: usize,
    /// None were found in the time of a packing.
    unpacked: usize,
    /// The least memory that any of them needs with addresses, or is proved to need.
    least: Option<u64>,
}

impl Misses {
    fn all(&self) -> usize {
        self.proved + self.unpacked
    }

    /// Counts a schedule that needs more than the budget; returns how much it needs, or is proved to need.
    fn add(&mut self, arena: &Arena, budget: u64) -> u64 {
        let proved = arena.bound() > budget;
        // Where it is proved that the schedule does not fit, the search has not gone on to the least.
        let needed = if proved { arena.bound() } else { arena.memory() };
        *(if proved { &mut self.proved } else { &mut self.unpacked }) += 1;
        self.least = Some(self.least.map_or(needed, |least| least.min(needed)));
        needed
    }

    /// `3 schedules do not fit with addresses (2 proved, 1 not packed in time)`
    fn words(&self) -> String {
        let parts = [(self.proved, "proved"), (self.unpacked, "not packed in time")];
        let parts: Vec<_> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
        let do_not = if self.all() == 1 { "does not fit" } else { "do not fit" };
        format!("{} {do_not} with addresses ({})", count(self.all(), "schedule"), parts.join(", "))
    }
}

/// Solves with ever smaller budgets until all tensors of the schedule have addresses within the one that was asked for.
fn solve_with_addresses(
    arguments: &Arguments,
    library: &Library,
    run: &mut Run,
    budget: &RunBudget,
    stop: &AtomicBool,
) -> Result<WithAddresses, Failure> {
    let (began, whole) = (Instant::now(), limits(arguments, run));
    let mut cpu_used = Duration::ZERO;
    let mut asked = budget.clone();
    let (mut cut, mut misses) = (0, Misses::default());
    // Peaks below which nothing was found, and that were too large with addresses.
    let (mut floor, mut ceiling) = (0, u64::MAX);
    let mut first = None;
    let mut over = "the tries ran out";
    let mut tries = PACKINGS;
    while tries > 0 {
        tries -= 1;
        // Half of what is left, so that there is time for another try; the last one has all.
        let share = |limit: Duration, used: Duration| limit.saturating_sub(used) / if tries > 0 { 2 } else { 1 };
        let time = whole.0.map(|limit| share(limit, began.elapsed()));
        let cpu = whole.1.map(|limit| share(limit, cpu_used));
        if misses.all() > 0 && time.is_some_and(|time| time < LEAST_TIME) {
            over = "time ran out";
            break;
        }
        run.budgets = vec![asked.clone()];
        let mut row = solve(arguments, library, run, &asked, (time, cpu), stop)?;
        cpu_used += Duration::try_from_secs_f64(row.record.cpu_seconds).unwrap_or_default();
        let first = &*first.get_or_insert((row.record.lower_bound, row.record.claim));
        let Some(document) = &row.schedule else {
            let limited = [Termination::TimeLimit, Termination::CpuLimit].map(Ending::Ran);
            if tries > 0 && limited.contains(&row.record.termination) {
                // There is the other half yet.
                tries = 1;
                continue;
            }
            let nothing = [Termination::Infeasible, Termination::NotFound].map(Ending::Ran);
            if misses.all() > 0 && tries > 0 && nothing.contains(&row.record.termination) {
                floor = asked.bytes.unwrap_or_default();
                if let Some(next) = between(floor, ceiling) {
                    output::info(&format!("no schedule within {floor}; asking for {next}"));
                    asked = RunBudget { text: next.to_string(), bytes: Some(next) };
                    continue;
                }
            }
            let ran_out = (misses.all() > 0).then(|| no_smaller_peak(&row.record, budget, &misses));
            answers(&mut row, budget, first, None, whole);
            return Ok(WithAddresses { row, plan: None, ran_out });
        };
        let time = whole.0.map_or(PACKING_TIME, |limit| share(limit, began.elapsed()).min(PACKING_TIME));
        let threads = arguments.threads.unwrap_or_else(cores);
        let terms = Terms { method: &MiniMalloc, alignment: None, capacity: budget.bytes, time, threads };
        let instance = &run.subject.instance;
        let arena = Arena::new(instance, &document.resolve(instance).map_err(Failure::failed)?, &terms)?;
        let Some(bytes) = budget.bytes.filter(|&budget| arena.memory() > budget) else {
            let plan = arena.plan(instance, terms.method.id());
            answers(&mut row, budget, first, Some(arena.memory()), whole);
            return Ok(WithAddresses { row, plan: Some(plan), ran_out: None });
        };
        let (needed, peak) = (misses.add(&arena, bytes), arena.lifetimes.simulation.peak_bytes);
        cut = (needed - bytes).max(2 * cut);
        ceiling = ceiling.min(peak);
        let next = if floor == 0 { peak.checked_sub(cut).filter(|&next| next > 0) } else { between(floor, ceiling) };
        let Some(next) = next else {
            over = "there is no smaller peak to ask for";
            break;
        };
        if stop.load(Ordering::Relaxed) {
            over = "it was interrupted";
            break;
        }
        output::info(&format!("a schedule with a peak of {peak} needs {needed} with addresses; asking for {next}"));
        asked = RunBudget { text: next.to_string(), bytes: Some(next) };
    }
    Err(Failure::failed(tries_ran_out(budget, &misses, over)))
}

/// The middle between two numbers, if there is a number between them.
fn between(low: u64, high: u64) -> Option<u64> {
    let next = low.midpoint(high);
    (low < next && next < high).then_some(next)
}

/// Makes a row of a smaller budget one of the budget that was asked for. Its schedule is one there too, but what it proves holds
/// for the smaller one alone: bound and claim are those of the first try.
fn answers(
    row: &mut Row,
    budget: &RunBudget,
    first: &(Option<u64>, Claim),
    memory: Option<u64>,
    whole: (Option<Duration>, Option<Duration>),
) {
    let record = &mut row.record;
    let memory = memory.map(|memory| format!("with addresses it needs {memory}"));
    let mut smaller = None;
    if record.budget_size != budget.bytes {
        smaller = Some(format!("found with a budget of {}", record.budget));
        (record.budget, record.budget_size) = (budget.text.clone(), budget.bytes);
        (record.lower_bound, record.claim) = *first;
        record.termination = match record.termination {
            Ending::Ran(Termination::Optimal | Termination::GapReached) => Ending::Ran(Termination::Feasible),
            Ending::Ran(Termination::Infeasible) => Ending::Ran(Termination::NotFound),
            other => other,
        };
        row.trace.iter_mut().for_each(|point| point.lower_bound = None);
    }
    let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64());
    (record.time_limit_seconds, record.cpu_limit_seconds) = (seconds(whole.0), seconds(whole.1));
    let own = Some(std::mem::take(&mut record.note)).filter(|note| !note.is_empty());
    record.note = [memory, smaller, own].into_iter().flatten().collect::<Vec<_>>().join("; ");
}

/// What to say after the last try.
fn tries_ran_out(budget: &RunBudget, misses: &Misses, over: &str) -> String {
    let bytes = budget.bytes.unwrap_or_default();
    let least = misses.least.map_or(String::new(), |least| format!(", the best of them needs {least}"));
    let words = misses.words();
    format!("no arena within {bytes}: {over}, for {words}{least}; allow more memory or time, or try another --method")
}

/// Why there is no arena where a schedule fits the budget, but no addresses of it, and the method gave none with a smaller peak.
fn no_smaller_peak(record: &Record, budget: &RunBudget, misses: &Misses) -> String {
    let (bytes, asked) = (budget.bytes.unwrap_or_default(), record.budget_size.unwrap_or_default());
    let why = match record.termination {
        Ending::Ran(Termination::Infeasible) => {
            format!("it is proved that no schedule of this class has a peak within {asked}")
        }
        Ending::Ran(Termination::TimeLimit | Termination::CpuLimit) => {
            format!("time ran out before a schedule with a peak within {asked} was found; allow more")
        }
        Ending::Ran(Termination::NotFound) => {
            format!(
                "the method found no schedule with a peak within {asked}, which proves nothing; try another --method"
            )
        }
        _ => format!("the search for a peak within {asked} ended: {}", ending_words(record)),
    };
    format!("no arena within {bytes}: {}, and {why}", misses.words())
}

/// Draws what was known when, where anything was.
fn draw(path: &Path, row: &Row) -> Result<(), Failure> {
    let failed = |error: String| Failure::failed(format!("{}: cannot draw: {error}", path.display()));
    match plot::progress_of(&row.record, &row.trace) {
        Some(svg) => output::replace_file(path, svg.map_err(failed)?),
        None => Err(failed(why_unsolved(&row.record))),
    }
}

fn budget(arguments: &Arguments, subject: &Subject) -> Result<RunBudget, Failure> {
    let Some(budget) = &arguments.budget else { return Ok(RunBudget { text: String::new(), bytes: None }) };
    let bytes = budget.resolve(subject.baseline.peak_bytes);
    let bytes =
        bytes.ok_or_else(|| Failure::input(format!("budget {budget} overflows 64 bits; name a smaller one")))?;
    Ok(RunBudget { text: budget.to_string(), bytes: Some(bytes) })
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
    let conditions = Conditions {
        limits: Limits { time, threads: arguments.threads.unwrap_or_else(cores), seed: arguments.seed },
        memory_limit_bytes: arguments.memory_limit.map(|size| size.0),
        cpu_limit,
        logs: None,
        unfinished: None,
        host: Host::new(&library.root),
    };
    let ignores = run.method.about().budgets == BudgetUse::Ignored;
    let asked = if ignores { RunBudget { text: String::new(), bytes: None } } else { budget.clone() };
    let mut rows = execute(run, &[asked], &conditions, stop);
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

fn why_unsolved(record: &Record) -> String {
    let words = if record.error.is_empty() { &record.note } else { &record.error };
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    let ending = ending_words(record);
    format!("no schedule of {} by {}: {ending}{words}", record.instance, record.method)
}

/// What to ask for where a budget was too small for a schedule.
fn needed(subject: &Subject, record: &Record) -> Option<String> {
    let (budget, Subject { instance, baseline, .. }) = (record.budget_size?, subject);
    if !matches!(record.termination, Ending::Ran(Termination::Infeasible | Termination::NotFound)) {
        return None;
    }
    let unit = record.memory_unit;
    let bytes = |bytes: u64| format::bytes(bytes, unit);
    let least = Joint::of_fastest(instance).ok().map(|joint| joint.least_peak());
    let alone = least.filter(|&least| least > budget).map(|least| {
        format!(", and one operator alone {} with the fastest implementations in the instance's order", bytes(least))
    });
    let is_bare = record.budget.bytes().all(|digit| digit.is_ascii_digit());
    let meant = is_bare && unit == MemoryUnit::Bytes && least.is_some_and(|least| budget < least / 1000);
    let meant = if meant { format!("; {budget} is {budget} bytes: did you mean {budget}GiB?") } else { String::new() };
    Some(format!("; store-all needs {}{}{meant}", bytes(baseline.peak_bytes), alone.unwrap_or_default()))
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

fn text(record: &Record) -> String {
    let (time_unit, memory_unit) = (record.time_unit, record.memory_unit);
    let time = |value: Option<u64>| value.map_or("-".into(), |value| format::time(value, time_unit));
    let bytes = |value: Option<u64>| value.map_or("-".into(), |value| format::bytes(value, memory_unit));
    let budget = match (record.budget_size, record.budget.as_str()) {
        (None, _) => "unlimited".into(),
        (Some(value), written) => format!("{} ({written})", format::bytes(value, memory_unit)),
    };
    let overhead = record.overhead.map_or("-".into(), |overhead| format!("{:.1} % over store-all", 100.0 * overhead));
    let termination = serde_json::to_value(record.termination).ok();
    let termination = termination.as_ref().and_then(|value| value.as_str()).unwrap_or_default();
    let lines = [
        ("instance", format!("{} ({})", record.instance, record.instance_hash)),
        ("method", format!("{}[{}]", record.method, record.parameters)),
        ("budget", budget),
        ("termination", termination.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    #[test]
    fn one_sentence_says_whether_tries_time_or_schedules_ran_out() {
        let budget = RunBudget { text: "0.5x".into(), bytes: Some(1000) };
        let misses = Misses { proved: 2, unpacked: 1, least: Some(1010) };
        assert_eq!(
            tries_ran_out(&budget, &misses, "the tries ran out"),
            "no arena within 1000: the tries ran out, for 3 schedules do not fit with addresses (2 proved, 1 not packed in time), \
             the best of them needs 1010; allow more memory or time, or try another --method"
        );
        let one = Misses { proved: 0, unpacked: 1, least: Some(1010) };
        let ended = |termination| {
            let record = Record { termination: Ending::Ran(termination), ..example("m", Some(("990", 990))) };
            no_smaller_peak(&record, &budget, &one)
        };
        let begins = "no arena within 1000: 1 schedule does not fit with addresses (1 not packed in time), and ";
        for (termination, words) in [
            (Termination::Infeasible, "it is proved that no schedule of this class has a peak within 990"),
            (Termination::TimeLimit, "time ran out before a schedule with a peak within 990 was found; allow more"),
            (Termination::MemoryLimit, "the search for a peak within 990 ended: memory limit"),
        ] {
            assert_eq!(ended(termination), format!("{begins}{words}"));
        }
        assert!(ended(Termination::NotFound).contains("which proves nothing"));
    }
}
