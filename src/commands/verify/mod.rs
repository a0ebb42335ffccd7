//! `bench verify`: what the simulator says of a schedule file.

mod plan;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use remat_core::format::{MemoryUnit, TensorKind, TimeUnit};
use remat_core::io::{read_instance, read_schedule};
use remat_core::schedule::ScheduleDocument;
use remat_core::simulate::Transfers;
use remat_core::{Instance, Schedule, Simulation, Step, TransferRates, simulate};
use serde::Serialize;

use plan::PlanReport;

use crate::ground::failure::Failure;
use crate::ground::format::{self, ReportFormat};
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::rows;
use crate::ground::size::Budget;
use crate::ground::text;
use crate::harness::run::plan::Subject;

/// How many of the most recomputed operators are named.
const SHOWN_OPERATORS: usize = 5;

/// Arguments of `bench verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 1 if a step is illegal, the budget is exceeded, or the file's own claims are wrong.\n\nA plan that `bench allocate` wrote is checked by itself (no two buffers share an address at a moment, all are aligned and within the height that it claims and the budget) and, where a schedule is named, step by step against it. With --format json all violations are elements of `plan.violations`.\n\nExamples:\n  bench verify resnet50-224-b32 schedule.json --budget 8GiB\n  bench verify instance.json schedule.json.zst --timeline memory.csv --format json\n  bench verify resnet50-224-b32 schedule.json --plan plan.json\n  bench verify --plan plan.json --format json"
)]
pub struct Arguments {
    /// Instance file, or a name under instances/
    #[arg(required_unless_present = "plan", requires = "schedule")]
    instance: Option<String>,
    /// Schedule file (.json, .json.zst or .json.gz)
    #[arg(required_unless_present = "plan")]
    schedule: Option<PathBuf>,
    /// Check a plan of addresses (.json, or .csv with offsets)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Fail if the peak exceeds this: a size (8GiB) or a fraction of store-all's peak (0.5x, 50%)
    #[arg(long, short, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<Budget>,
    /// Write the memory during each step to this CSV file: columns step, action, element and memory_bytes
    #[arg(long, value_name = "FILE.csv", requires = "schedule")]
    timeline: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
}

/// The verdict as an object.
#[derive(Debug, Serialize)]
struct Report {
    instance: String,
    instance_hash: String,
    steps: usize,
    legal: bool,
    error: Option<String>,
    time_unit: TimeUnit,
    memory_unit: MemoryUnit,
    time: Option<u64>,
    peak: Option<u64>,
    peak_step: Option<usize>,
    peak_at: Option<String>,
    peak_by_kind: Option<Vec<(String, u64)>>,
    recomputations: Option<u64>,
    recomputed_operators: Option<usize>,
    most_recomputed: Option<Vec<(String, u32)>>,
    wasted_steps: Option<usize>,
    /// Claims of the file, and the budget, that the simulator exceeds.
    exceeded: Vec<Exceeded>,
    /// Copies between device and host, where the schedule has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    transfers: Option<TransferReport>,
    /// What is said of the plan of addresses, where one is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanReport>,
}

/// A figure that the simulator exceeds.
#[derive(Debug, Serialize)]
struct Exceeded {
    figure: &'static str,
    is: u64,
    simulated: u64,
}

/// Copies between device and host, at the rates that the schedule assumes.
#[derive(Debug, Serialize)]
struct TransferReport {
    offloads: usize,
    fetches: usize,
    time: u64,
    host: u64,
    /// Bytes per thousand units of time.
    rates: TransferRates,
}

/// Verifies a schedule.
///
/// # Errors
/// A file does not fit, a step is illegal, or a budget or claim is exceeded.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (Some(instance), Some(file)) = (&arguments.instance, &arguments.schedule) else {
        let budget = arguments.budget.as_ref();
        let plan = arguments.plan.as_ref().map(|path| plan_alone(path, budget)).transpose()?;
        if arguments.format == ReportFormat::Json {
            let alone = BTreeMap::from([("plan", &plan)]);
            output::result(&serde_json::to_string_pretty(&alone).map_err(Failure::failed)?)?;
        }
        return finish_plan(arguments, plan.as_ref());
    };
    let path = Library::locate().find(instance)?;
    let inputs = [Some(&path), Some(file), arguments.plan.as_ref()].map(|path| path.map(PathBuf::as_path));
    output::keep_apart(&inputs.into_iter().flatten().collect::<Vec<_>>(), &[arguments.timeline.as_ref()])?;
    let instance = read_instance(&path)?;
    let (document, schedule) = read_schedule(file, &instance)?;
    let simulation = simulate(&instance, &schedule);
    let error = simulation.as_ref().err().map(ToString::to_string);
    let mut report = report(&instance, &schedule, simulation.as_ref().ok(), error.clone());
    let budget = budget(arguments, path)?;
    let of = report.legal.then_some((&instance, &schedule));
    report.exceeded = simulation.as_ref().map_or(vec![], |simulation| exceeded(&document, budget, simulation));
    report.plan = arguments.plan.as_ref().map(|path| PlanReport::of(path, of, budget)).transpose()?;
    if arguments.format == ReportFormat::Json {
        output::result(&serde_json::to_string_pretty(&report).map_err(Failure::failed)?)?;
    } else if report.legal {
        output::result(&text(&instance, &report))?;
    }
    let file = file.display();
    let simulation = simulation.map_err(|error| Failure::failed(format!("{file}: illegal schedule: {error}")))?;
    if let Some(path) = &arguments.timeline {
        rows::write(path, moments(&instance, &schedule, &simulation))?;
    }
    if let Some(Exceeded { figure, is, simulated }) = report.exceeded.first() {
        return Err(Failure::failed(format!("{file}: {figure} is {is}, but the simulator says {simulated}")));
    }
    finish_plan(arguments, report.plan.as_ref())
}

/// Says that the plan is one, where that is not in the object; or fails with what is wrong first.
fn finish_plan(arguments: &Arguments, plan: Option<&PlanReport>) -> Result<(), Failure> {
    let Some(line) = plan.map(PlanReport::line).transpose()? else { return Ok(()) };
    if arguments.format == ReportFormat::Json { Ok(()) } else { output::result(&line) }
}

/// What is wrong with a plan that is checked without a schedule.
fn plan_alone(path: &Path, budget: Option<&Budget>) -> Result<PlanReport, Failure> {
    if let Some(budget) = budget.filter(|budget| budget.fraction().is_some()) {
        return Err(Failure::input(format!(
            "budget {budget} is a part of store-all's peak; name the instance and the schedule too"
        )));
    }
    PlanReport::of(path, None, budget.and_then(|budget| budget.resolve(0)))
}

/// What the simulator exceeds of what a file claims, its own budget included, and of the budget that is asked for.
fn exceeded(document: &ScheduleDocument, budget: Option<u64>, simulation: &Simulation) -> Vec<Exceeded> {
    let figures = [
        ("the claimed time", document.claimed_time, simulation.time),
        ("the claimed peak", document.claimed_peak_bytes, simulation.peak_bytes),
        ("the file's own budget", document.budget_bytes, simulation.peak_bytes),
        ("the budget", budget, simulation.peak_bytes),
    ];
    let over = |(figure, limit, simulated): (&'static str, Option<u64>, u64)| {
        limit.filter(|&is| simulated > is).map(|is| Exceeded { figure, is, simulated })
    };
    figures.into_iter().filter_map(over).collect()
}

fn budget(arguments: &Arguments, path: PathBuf) -> Result<Option<u64>, Failure> {
    arguments.budget.as_ref().map(|budget| Subject::read(path)?.bytes(budget)).transpose()
}

fn report(instance: &Instance, schedule: &Schedule, simulation: Option<&Simulation>, error: Option<String>) -> Report {
    Report {
        instance: instance.name().into(),
        instance_hash: instance.hash().to_string(),
        steps: schedule.steps.len(),
        legal: simulation.is_some(),
        error,
        time_unit: instance.units().time,
        memory_unit: instance.units().memory,
        time: simulation.map(|s| s.time),
        peak: simulation.map(|s| s.peak_bytes),
        peak_step: simulation.and_then(|s| s.peak_step),
        peak_at: simulation.map(|s| {
            s.peak_step.map_or("before the first step".into(), |step| {
                let (action, element) = words(instance, schedule.steps[step]);
                format!("{action} {element}")
            })
        }),
        peak_by_kind: simulation.map(by_kind),
        recomputations: simulation.map(Simulation::recomputations),
        recomputed_operators: simulation.map(Simulation::recomputed_operators),
        most_recomputed: simulation.map(|s| most_recomputed(instance, s)),
        wasted_steps: simulation.map(|s| s.wasted_steps),
        transfers: simulation.and_then(|s| transfers(schedule, s)),
        exceeded: vec![],
        plan: None,
    }
}

fn transfers(schedule: &Schedule, simulation: &Simulation) -> Option<TransferReport> {
    let Transfers { offloads, fetches, time, host_bytes } = simulation.transfers;
    let rates = schedule.rates.filter(|_| offloads > 0)?;
    Some(TransferReport { offloads, fetches, time, host: host_bytes, rates })
}

/// Everything that is in memory at the peak, by kind.
fn by_kind(simulation: &Simulation) -> Vec<(String, u64)> {
    let tensors =
        TensorKind::ALL.iter().zip(simulation.peak_bytes_by_kind).map(|(kind, bytes)| (kind.name().into(), bytes));
    let others = [("fixed", simulation.peak_fixed_bytes), ("workspace", simulation.peak_workspace_bytes)];
    tensors.chain(others.map(|(name, bytes)| (name.to_owned(), bytes))).collect()
}

fn most_recomputed(instance: &Instance, simulation: &Simulation) -> Vec<(String, u32)> {
    let mut counts: Vec<_> = instance
        .operator_ids()
        .map(|id| (instance.operator(id).name.clone(), simulation.runs[id.index()]))
        .filter(|(_, runs)| *runs > 1)
        .collect();
    counts.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
    counts.truncate(SHOWN_OPERATORS);
    counts
}

fn text(instance: &Instance, report: &Report) -> String {
    let units = instance.units();
    let bytes = |value: u64| format::bytes(value, units.memory);
    let exact =
        |shown: String, value: u64| if shown == value.to_string() { shown } else { format!("{shown} ({value})") };
    let (time, peak) = (report.time.unwrap_or_default(), report.peak.unwrap_or_default());
    let step = report.peak_step.map_or(String::new(), |step| format!("step {step}: "));
    let mut text = vec![format!("legal: {} steps on {} ({})\n", report.steps, report.instance, report.instance_hash)];
    text.push(format!("time            {}\n", exact(format::time(time, units.time), time)));
    text.push(format!("peak            {}\n", exact(bytes(peak), peak)));
    text.push(format!("peak at         {step}{}\n", report.peak_at.as_deref().unwrap_or_default()));
    for (kind, value) in report.peak_by_kind.iter().flatten().filter(|(_, value)| *value > 0) {
        let share = 100.0 * *value as f64 / peak as f64;
        text.push(format!("  {kind:<14}{:>12}  {share:5.1} %\n", bytes(*value)));
    }
    let (runs, operators) =
        (report.recomputations.unwrap_or_default(), report.recomputed_operators.unwrap_or_default());
    text.push(format!("recomputations  {runs}, of {operators} operators\n"));
    for (name, runs) in report.most_recomputed.iter().flatten() {
        text.push(format!("  {name} runs {runs} times\n"));
    }
    text.push(format!("wasted steps    {}\n", report.wasted_steps.unwrap_or_default()));
    if let Some(TransferReport { offloads, fetches, time, host, rates }) = &report.transfers {
        let duration = format::time(*time, units.time);
        text.push(format!("transfers       {offloads} offloads, {fetches} fetches: {duration} of the time\n"));
        let per = if units.time == TimeUnit::Ns { "MB/s" } else { "bytes per 1000 units of time" };
        let (offload, fetch) = (rates.offload, rates.fetch);
        text.push(format!("  host          {}, assuming {offload} and {fetch} {per}\n", bytes(*host)));
    }
    text.concat()
}

/// Action and element of a step.
fn words(instance: &Instance, step: Step) -> (&'static str, String) {
    match step {
        Step::Free(tensor) => ("free", instance.tensor(tensor).name.clone()),
        Step::Offload(tensor) => ("offload", instance.tensor(tensor).name.clone()),
        Step::Fetch(tensor) => ("fetch", instance.tensor(tensor).name.clone()),
        Step::Compute { operator, implementation } => {
            let operator = instance.operator(operator);
            ("compute", format!("{} ({})", operator.name, operator.implementations[implementation].name))
        }
    }
}

/// Memory during a step, in the CSV of `--timeline`.
#[derive(Serialize)]
struct Moment {
    step: usize,
    action: &'static str,
    element: String,
    memory_bytes: u64,
}

fn moments(instance: &Instance, schedule: &Schedule, simulation: &Simulation) -> impl Iterator<Item = Moment> {
    let moment = |(step, (&of, &memory_bytes)): (usize, (&Step, &u64))| {
        let (action, element) = words(instance, of);
        Moment { step, action, element: text::cell(&element).into_owned(), memory_bytes }
    };
    schedule.steps.iter().zip(&simulation.timeline).enumerate().map(moment)
}
