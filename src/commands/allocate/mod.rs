//! `bench allocate`: addresses for the tensors of a schedule.

mod picture;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use remat_allocation::model::write;
use remat_allocation::plan::PlanDocument;
use remat_allocation::{Answer, METHODS, Method, Problem, find};
use remat_core::format::MemoryUnit;
use remat_core::io::{could_write_json, read_instance, read_schedule, read_text, replace, write_json};
use remat_formulations::Format;
use serde::Serialize;

use picture::Drawing;

use crate::commands::values::{positive, seconds, svg};
use crate::ground::failure::Failure;
use crate::ground::format::{self, ReportFormat};
use crate::ground::host::{VERSION, cores};
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::rows;
use crate::ground::size::Size;
use crate::ground::text::count;
use crate::harness::arena::{Arena, Row, Terms, of_best_known};
use crate::harness::best;
use crate::harness::plans;
use crate::harness::records;
use crate::views::plot::addresses::Colour;

/// From here on a floating-point number may be no whole one of its own.
const EXACT: u64 = 1 << 53;

const AFTER_HELP: &str = "\
Each copy of a tensor, and each workspace, has one place from the step that makes it to the step that frees it. An \
output that takes over an input's buffer stays in that buffer. Fixed bytes lie outside of the arena; --capacity counts \
them. With a capacity the search ends at the first packing within it, and the exit code is 1 if none was found.

A CSV file has the columns id, lower, upper and size, and none or a fifth, offset: a buffer is alive at the moments \
lower to upper - 1.

Examples:
  bench allocate resnet18-224-b32 schedule.json --capacity 600MB -o plan.json
  bench verify resnet18-224-b32 schedule.json --plan plan.json
  bench allocate buffers.csv --method best-fit-size -o packed.csv
  bench allocate resnet18-224-b32 schedule.json --plot addresses.svg
  bench allocate resnet18-224-b32 schedule.json --export model.cp-model
  bench allocate --results results/resnet";

/// Arguments of `bench allocate`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Instance file, or a name under instances/; or a CSV file of buffers; with --best-known, a pattern over instances
    #[arg(required_unless_present_any = ["best_known", "results"])]
    problem: Option<String>,
    /// Schedule file (.json, .json.zst or .json.gz); none with a CSV file
    schedule: Option<PathBuf>,
    /// Memory that is enough, fixed bytes included [default: as little as possible]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,
    /// Method: best-fit-size, best-fit-lifetime, best-fit-start, or minimalloc, which proves
    #[arg(long, short, value_name = "METHOD", default_value = "minimalloc")]
    method: String,
    /// What offsets and sizes are multiples of [default: 512 bytes; 1 for CSV files and abstract units]
    #[arg(long, value_name = "SIZE")]
    alignment: Option<Size>,
    /// Wall limit in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    time_limit: Duration,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Write the plan: .json (for schedules) or .csv
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the problem as a model for another solver: .mps, .lp or .cp-model
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Draw addresses against time: a rectangle for each buffer, and the lines of capacity and height
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// What colours of --plot mean [default: operator; size for CSV files]
    #[arg(long, value_enum, value_name = "WHAT", requires = "plot")]
    colour: Option<Colour>,
    /// Pack every best-known schedule of this folder instead; --output is a table (.csv)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["schedule", "export", "capacity", "plot", "format"])]
    best_known: Option<PathBuf>,
    /// Keep the rows that --output has, and pack only schedules that it lacks
    #[arg(long, requires_all = ["best_known", "output"])]
    only_new: bool,
    /// Pack every schedule of the results in this folder instead: plans go to DIR/plans, and `bench table --show rows` has
    /// the height of each
    #[arg(long, value_name = "DIR", conflicts_with_all = ["problem", "schedule", "export", "capacity", "plot", "best_known", "output", "format"])]
    results: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
}

/// What is reported.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_hash: Option<String>,
    buffers: usize,
    alignment: u64,
    memory_unit: MemoryUnit,
    /// The simulator's, where there is a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<u64>,
    fixed: u64,
    /// Fixed bytes and arena, as of the next.
    bound: u64,
    memory: u64,
    optimal: bool,
    /// Whether it fits the capacity; null where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    fits: Option<bool>,
    method: String,
    seconds: f64,
    /// Fixed bytes and what PyTorch's caching allocator would reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    caching: Option<CachingReport>,
}

impl Report {
    /// The packing of buffers that belong to no schedule.
    fn of(problem: &Problem, answer: &Answer, terms: &Terms, start: Instant) -> Self {
        Self {
            instance: None,
            instance_hash: None,
            buffers: problem.count(),
            alignment: problem.alignment(),
            memory_unit: MemoryUnit::Abstract,
            peak: None,
            fixed: 0,
            bound: answer.bound,
            memory: answer.height,
            optimal: answer.is_optimal(),
            capacity: terms.capacity,
            fits: terms.capacity.and_then(|capacity| answer.fits(capacity)),
            method: terms.method.id().into(),
            seconds: start.elapsed().as_secs_f64(),
            caching: None,
        }
    }
}

/// The model of the caching allocator.
#[derive(Debug, Serialize)]
struct CachingReport {
    reserved: u64,
    segments: usize,
    out_of_memory: Option<u64>,
}

/// Packs buffers.
///
/// # Errors
/// Arguments or files do not fit, or the buffers do not fit the capacity.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let method = method(&arguments.method)?;
    let terms = Terms {
        method,
        alignment: arguments.alignment.map(|size| size.0),
        capacity: arguments.capacity.map(|size| size.0),
        time: arguments.time_limit,
        threads: arguments.threads.unwrap_or_else(cores),
    };
    if terms.alignment == Some(0) {
        return Err(Failure::input("an alignment of 0; give at least 1"));
    }
    prepare(arguments)?;
    if let Some(folder) = &arguments.best_known {
        return best_known(arguments, folder, &terms);
    }
    if let Some(folder) = &arguments.results {
        return results(folder, &terms);
    }
    let drawing = arguments.plot.as_ref().map(|path| Drawing { path, colour: arguments.colour });
    drawing.as_ref().map_or(Ok(()), |drawing| svg("--plot", drawing.path))?;
    let name = arguments.problem.as_deref().unwrap_or_default();
    if is_list(name) {
        if arguments.schedule.is_some() {
            return Err(Failure::input(format!("{name} is a list of buffers, which needs no schedule; name only one")));
        }
        return of_csv(arguments, Path::new(name), &terms, drawing.as_ref());
    }
    let Some(schedule) = &arguments.schedule else {
        return Err(Failure::input(format!(
            "no schedule of {name}; give INSTANCE SCHEDULE, or a .csv file of buffers"
        )));
    };
    of_schedule(arguments, name, schedule, &terms, drawing.as_ref())
}

/// Whether a problem is a list of buffers.
fn is_list(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"))
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "csv")
}

/// Refuses outputs that could not be written, before anything is packed.
fn prepare(arguments: &Arguments) -> Result<(), Failure> {
    let outputs = [arguments.output.as_ref(), arguments.export.as_ref(), arguments.plot.as_ref()];
    let named = |name: &String| if is_list(name) { Some(name.into()) } else { Library::locate().find(name).ok() };
    let problem: Option<PathBuf> = arguments.problem.as_ref().and_then(named);
    let library = arguments.best_known.as_deref().map(best::path_in);
    let inputs = [problem.as_deref(), arguments.schedule.as_deref(), library.as_deref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().collect();
    output::keep_apart(&inputs, &outputs)?;
    arguments.export.as_deref().map(form).transpose()?;
    if let Some(path) = arguments.output.as_ref().filter(|path| !is_csv(path)) {
        let refused = |words: &str| Err(Failure::at(path)(words));
        if arguments.best_known.is_some() {
            return refused("the table of --best-known is CSV; name a file that ends in .csv");
        }
        if arguments.problem.as_deref().is_some_and(is_list) {
            return refused("the packing of a .csv file is written as .csv; name it so");
        }
        could_write_json(path).map_err(Failure::writing)?;
    }
    // The folder of a table is made.
    let files = outputs.into_iter().flatten().filter(|_| arguments.best_known.is_none());
    files.map(PathBuf::as_path).try_for_each(output::could_write)
}

/// The method with an id.
///
/// # Errors
/// There is none.
pub fn method(id: &str) -> Result<&'static dyn Method, Failure> {
    find(id).ok_or_else(|| {
        let known: Vec<_> = METHODS.iter().map(|method| method.id()).collect();
        Failure::input(format!("no allocation method {id:?}; there are {}", known.join(", ")))
    })
}

fn of_schedule(
    arguments: &Arguments,
    name: &str,
    path: &Path,
    terms: &Terms,
    drawing: Option<&Drawing<'_>>,
) -> Result<(), Failure> {
    let instance = read_instance(&Library::locate().find(name)?)?;
    let (_, schedule) = read_schedule(path, &instance)?;
    let start = Instant::now();
    let arena = Arena::new(&instance, &schedule, terms)?;
    let report = Report {
        instance: Some(instance.name().into()),
        instance_hash: Some(instance.hash().to_string()),
        memory_unit: instance.units().memory,
        peak: Some(arena.lifetimes.simulation.peak_bytes),
        fixed: arena.lifetimes.fixed_bytes,
        bound: arena.bound(),
        memory: arena.memory(),
        fits: terms.capacity.and_then(|capacity| arena.fits(capacity)),
        caching: arena.reservation.map(|seen| CachingReport {
            reserved: arena.lifetimes.fixed_bytes + seen.reserved,
            segments: seen.segments,
            out_of_memory: seen.out_of_memory,
        }),
        ..Report::of(&arena.problem, &arena.answer, terms, start)
    };
    if let Some(drawing) = drawing {
        drawing.draw(&arena.problem, &arena.answer, &report, Some((&instance, &arena.lifetimes)))?;
    }
    let plan = || arena.plan(&instance, terms.method.id());
    finish(arguments, &arena.problem, &arena.answer, &report, Some(&plan))
}

fn of_csv(arguments: &Arguments, path: &Path, terms: &Terms, drawing: Option<&Drawing<'_>>) -> Result<(), Failure> {
    let problem = read_csv(path, terms.alignment.unwrap_or(1))?.0;
    let start = Instant::now();
    let answer = terms.solve(&problem, 0);
    let report = Report::of(&problem, &answer, terms, start);
    if let Some(drawing) = drawing {
        drawing.draw(&problem, &answer, &report, None)?;
    }
    finish(arguments, &problem, &answer, &report, None)
}

/// Reads a CSV file of buffers, with offsets where it has them.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn read_csv(path: &Path, alignment: u64) -> Result<(Problem, Option<Vec<u64>>), Failure> {
    Problem::read(read_text(path)?.as_bytes(), alignment).map_err(Failure::at(path))
}

/// Prints the report and writes what is asked for.
fn finish(
    arguments: &Arguments,
    problem: &Problem,
    answer: &Answer,
    report: &Report,
    plan: Option<&dyn Fn() -> PlanDocument>,
) -> Result<(), Failure> {
    let shown = output::result(&arguments.format.render(report, text)?);
    let exported = arguments.export.as_ref().map_or(Ok(()), |path| export(path, problem, answer));
    if let Some(capacity) = report.capacity.filter(|&capacity| report.memory > capacity) {
        exported?;
        let words = match report.fits {
            Some(_) => format!("no addresses need less than {}, proved", report.bound),
            None => format!("the addresses found need {}; more --time-limit may find better ones", report.memory),
        };
        return Err(Failure::failed(format!("does not fit the capacity of {capacity}: {words}")));
    }
    let written = match (&arguments.output, plan) {
        (Some(path), Some(plan)) if !is_csv(path) => write_json(path, &plan()).map_err(Failure::writing),
        (Some(path), _) => write_text(path, |out| problem.write(out, Some(&answer.offsets)).map_err(io::Error::from)),
        (None, _) => Ok(()),
    };
    written.and(exported).and(shown)
}

/// The form of a model that a file's name says.
fn form(path: &Path) -> Result<Format, Failure> {
    let unknown = || format!("{}: unknown form of a model; end the name in .mps, .lp or .cp-model", path.display());
    Format::of(path).ok_or_else(|| Failure::input(unknown()))
}

fn export(path: &Path, problem: &Problem, answer: &Answer) -> Result<(), Failure> {
    let form = form(path)?;
    if form != Format::CpModel && answer.height >= EXACT {
        return Err(Failure::failed(format!(
            "{}: addresses of 2^53 or more are not exact in such a file; write a .cp-model",
            path.display()
        )));
    }
    let head = [("bench", VERSION.to_owned()), ("buffers", problem.buffers().len().to_string())];
    write_text(path, |out| write(problem, answer.height, form, out, &head))
}

fn write_text(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    replace(path, fill).map_err(Failure::cannot("write", path))
}

fn text(report: &Report) -> String {
    let bytes = |value: u64| match format::bytes(value, report.memory_unit) {
        shown if shown == value.to_string() => shown,
        shown => format!("{shown} ({value})"),
    };
    let above = |value: u64, base: u64| {
        if value == base {
            "equal to".into()
        } else {
            format!("{:.2} % above", 100.0 * (value as f64 / base as f64 - 1.0))
        }
    };
    let of = match (&report.instance, &report.instance_hash) {
        (Some(name), Some(hash)) => format!(" of a schedule on {name} ({hash})"),
        _ => String::new(),
    };
    let mut lines = vec![format!("{}{of}, aligned to {}", count(report.buffers, "buffer"), report.alignment)];
    let mut line = |name: &str, value: String| lines.push(format!("{name:<16}{value}"));
    if let Some(peak) = report.peak {
        line(
            "peak",
            format!("{}, simulated; {} of it fixed", bytes(peak), format::bytes(report.fixed, report.memory_unit)),
        );
    }
    line("bound", format!("{}: no addresses need less", bytes(report.bound)));
    let proof = if report.optimal { ", proved least" } else { "" };
    line("memory", format!("{}, {} the bound{proof}", bytes(report.memory), above(report.memory, report.bound)));
    if let Some(CachingReport { reserved, segments, out_of_memory }) = &report.caching {
        let segments = count(*segments, "segment");
        let ending = match out_of_memory {
            Some(step) => format!(", then out of memory at step {step}"),
            None => report.peak.map_or(String::new(), |peak| format!(", {} the peak", above(*reserved, peak))),
        };
        line(
            "caching",
            format!("{} reserved by PyTorch's allocator (modelled) in {segments}{ending}", bytes(*reserved)),
        );
    }
    line("found by", format!("{} in {:.2} s", report.method, report.seconds));
    lines.join("\n") + "\n"
}

/// Packs every best-known schedule.
fn best_known(arguments: &Arguments, folder: &Path, terms: &Terms) -> Result<(), Failure> {
    let there = arguments.output.as_deref().filter(|_| arguments.only_new);
    let known = there.map_or(Ok(Vec::new()), |path| rows::read(path, "pack all of them anew, without --only-new"))?;
    let rows = of_best_known(folder, arguments.problem.as_deref().unwrap_or("*"), terms, known)?;
    let of = |holds: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| holds(row)).count();
    let (least, exact) = (of(&|row| row.memory == row.bound), of(&|row| row.memory == row.peak));
    let within = of(&|row| row.memory <= row.budget);
    let (real, held) = (of(&|row| row.caching_fits.is_some()), of(&|row| row.caching_fits == Some(true)));
    let all = rows.len();
    if let Some(path) = &arguments.output {
        rows::write(path, &rows)?;
    }
    output::result(&format!(
        "{all} schedules: {least} packed at their bound, {exact} at their peak to the byte, {within} within their budget.\n\
         PyTorch's allocator (modelled) serves {held} of {real} within their budget."
    ))
}

/// Packs every schedule of recorded results.
fn results(path: &Path, terms: &Terms) -> Result<(), Failure> {
    let (rows, folder) = (records::read(path)?, records::folder_of(path));
    let made = plans::make(&rows, &folder, terms)?;
    let least = made.iter().filter(|row| row.height == row.bound).count();
    let exact = made.iter().filter(|row| row.fixed + row.height == row.peak).count();
    let worst = made.iter().filter_map(plans::Planned::above_peak).fold(0.0, f64::max);
    output::result(&format!(
        "{} in {}: {least} at the least height, proved; {exact} at their peak to the byte; at most {:.4} % above it.",
        count(made.len(), "plan"),
        folder.join("plans").display(),
        100.0 * worst
    ))
}
