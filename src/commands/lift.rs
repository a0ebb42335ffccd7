//! `bench lift`: another solver's solution of an exported model, as a schedule that the simulator has
//! checked.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use remat_core::io::{read_text, write_json};
use remat_core::schedule::ScheduleDocument;
use remat_core::simulate;
use remat_formulations::{Format, Spec};

use crate::ground::failure::Failure;
use crate::ground::format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::model::{COMPRESSED, Head, Model, open};
use crate::harness::run::plan::Subject;

const AFTER_HELP: &str = "\
Understood are the solution files of HiGHS (raw style), SCIP, CBC, Gurobi, COPT and CPLEX (XML), lines of a \
name and a value, and for cp-model CP-SAT's CpSolverResponse as text. Variables that are not listed are zero. The exit code is 0 only if the schedule is legal and \
within the budget of the model.

Examples:
  bench lift model.sol
  bench lift answer.txt --model model.lp -o schedule.json";

/// Arguments of `bench lift`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Solution file
    solution: PathBuf,
    /// The model that was solved, as `bench export` wrote it [default: the solution's name with .mps, .lp or .cp-model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Instance file, or a name under instances/ [default: what the model says]
    #[arg(long, value_name = "INSTANCE")]
    instance: Option<String>,
    /// Write the schedule to this file (.json, .json.zst or .json.gz)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Lifts a solution.
///
/// # Errors
/// A file does not fit, the solution says no schedule, or the schedule is illegal or over budget.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file_of_model = model(arguments)?;
    let head = head(&file_of_model)?;
    let subject = subject(arguments, &head, &file_of_model)?;
    output::keep_apart(&[&arguments.solution, &file_of_model, &subject.path], &[arguments.output.as_ref()])?;
    let instance = &subject.instance;
    let spec: Spec = head.method.parse().map_err(Failure::at(&file_of_model))?;
    let Model { encoding, setting, .. } = Model::new(instance, &spec, head.budget)?;
    let file = arguments.solution.display();
    let text = read_text(&arguments.solution)?;
    let decoded = encoding.decode(&text).map_err(Failure::at(&arguments.solution))?;
    let simulation = simulate(instance, &decoded.schedule)
        .map_err(|error| Failure::failed(format!("{file}: says an illegal schedule: {error}")))?;
    let (units, baseline) = (instance.units(), subject.baseline.time);
    let (time, peak) = (simulation.time, simulation.peak_bytes);
    let bytes = |bytes: Option<u64>| bytes.map_or("unlimited".into(), |bytes| format::bytes(bytes, units.memory));
    let overhead = 100.0 * (time as f64 / baseline.max(1) as f64 - 1.0);
    let lines = [
        ("instance", format!("{} ({})", instance.name(), instance.hash())),
        ("method", setting.clone()),
        ("solver says", decoded.status.unwrap_or_else(|| "nothing".into())),
        ("budget", bytes(head.budget)),
        (
            "time",
            format!(
                "{} (claimed {}), {overhead:.1} % over store-all",
                format::time(time, units.time),
                format::time(decoded.claimed.time, units.time)
            ),
        ),
        ("peak", format!("{} (claimed {})", bytes(Some(peak)), bytes(Some(decoded.claimed.peak_bytes)))),
        ("recomputations", simulation.recomputations().to_string()),
    ];
    output::result(&lines.map(|(name, value)| format!("{name:<15}{value}\n")).concat())?;
    if let Some(budget) = head.budget.filter(|&budget| peak > budget) {
        return Err(Failure::failed(format!("{file}: the budget is {budget}, but the simulated peak is {peak}")));
    }
    let claimed = &decoded.claimed;
    for (what, claimed, simulated) in [("time", claimed.time, time), ("peak", claimed.peak_bytes, peak)] {
        if simulated > claimed {
            return Err(Failure::failed(format!(
                "{file}: the model counts a {what} of {claimed}, but the simulator says {simulated}"
            )));
        }
    }
    let Some(path) = &arguments.output else { return Ok(()) };
    let document = ScheduleDocument {
        method: Some(setting),
        budget_bytes: head.budget,
        claimed_time: Some(decoded.claimed.time),
        claimed_peak_bytes: Some(decoded.claimed.peak_bytes),
        ..ScheduleDocument::new(instance, &decoded.schedule)
    };
    write_json(path, &document).map_err(Failure::writing)
}

/// The exported model that the solution is of.
fn model(arguments: &Arguments) -> Result<PathBuf, Failure> {
    if let Some(path) = &arguments.model {
        return Ok(path.clone());
    }
    let uncompressed = PathBuf::from(arguments.solution.to_string_lossy().trim_end_matches(".gz"));
    let is_model = |format: &Format| uncompressed.extension().is_some_and(|ending| ending == format.ending());
    if Format::ALL.iter().any(is_model) {
        let file = arguments.solution.display();
        return Err(Failure::input(format!(
            "{file}: is named as a model; expected the file of a solution, such as model.sol"
        )));
    }
    let plain = Format::ALL.map(|format| arguments.solution.with_extension(format.ending()));
    let compressed = plain.clone().map(|path| PathBuf::from(format!("{}.{COMPRESSED}", path.display())));
    let names = |paths: &[PathBuf], between| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(between)
    };
    let found: Vec<PathBuf> = plain.iter().chain(&compressed).filter(|path| path.is_file()).cloned().collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::input(format!(
            "none of {} is there; name the exported model with --model",
            names(&plain, ", ")
        ))),
        several => Err(Failure::input(format!(
            "the solution could be of {}; say of which with --model",
            names(several, " or of ")
        ))),
    }
}

/// Bytes in which a model's comments are looked for.
const LONGEST_HEAD: u64 = 1 << 20;

/// The comments at the head of the model; the rest, which may be large, is not read.
fn head(model: &Path) -> Result<Head, Failure> {
    let unreadable = Failure::unreadable(model);
    let mut text = String::new();
    let file = open(model).map_err(unreadable)?;
    for line in BufReader::new(file.take(LONGEST_HEAD)).lines() {
        let line = line.map_err(unreadable)?;
        if !Format::ALL.iter().any(|format| line.starts_with(format.comment())) {
            break;
        }
        text = text + &line + "\n";
    }
    Head::read(&text).map_err(Failure::at(model))
}

/// The instance, which must be the one that was exported.
fn subject(arguments: &Arguments, head: &Head, model: &Path) -> Result<Subject, Failure> {
    let subject = Subject::read(Library::locate().find(arguments.instance.as_ref().unwrap_or(&head.instance))?)?;
    let found = subject.instance.hash().to_string();
    if found == head.hash {
        return Ok(subject);
    }
    Err(Failure::input(format!(
        "{} was made from an instance with hash {}, but {} has {found}; name the right one with --instance",
        model.display(),
        head.hash,
        subject.path.display()
    )))
}
