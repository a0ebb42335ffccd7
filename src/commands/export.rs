//! `bench export`: the model behind a method's answer, for users of solvers that are not built in and
//! for those who develop solvers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use remat_formulations::{Format, Spec};

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::Budget;
use crate::harness::model::{Model, is_compressed};
use crate::harness::run::plan::Subject;

const AFTER_HELP: &str = "\
The file begins with comments that say what it is; `bench lift` reads them, so keep the file for the way back.

Examples:
  bench export resnet18-224-b32 --method checkmate-ilp --budget 0.7x --format mps -o model.mps
  bench export instance.json --method 'checkmate-ilp[strategy=plain]' --budget 8GiB --format lp -o model.lp
  highs --solution_file model.sol model.mps && bench lift model.sol -o schedule.json
  bench export resnet18-224-b32 --method moccasin --budget 0.8x --format cp-model -o model.cp-model";

/// Arguments of `bench export`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Instance file, or a name under instances/
    instance: String,
    /// Method: ID, or ID[name=value,...]
    #[arg(long, short, value_name = "METHOD")]
    method: Spec,
    /// Memory budget: a size (8GiB, 500MB) or a fraction of store-all's peak (0.5x, 50%) [default: unlimited]
    #[arg(long, short, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<Budget>,
    /// Format of the model
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Kind::Mps)]
    format: Kind,
    /// Write the model to this file, compressed where its name ends in .gz [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The formats, as the command line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Free MPS
    Mps,
    /// LP, the dialect of CPLEX
    Lp,
    /// CP-SAT's CpModelProto as text
    CpModel,
}

impl Kind {
    fn format(self) -> Format {
        match self {
            Self::Mps => Format::Mps,
            Self::Lp => Format::Lp,
            Self::CpModel => Format::CpModel,
        }
    }
}

/// Writes the model.
///
/// # Errors
/// Arguments do not fit, there is no model, or it cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let format = arguments.format.format();
    if let Some(path) = &arguments.output {
        agree(path, format)?;
        output::could_write(path)?;
    }
    let instance = Library::locate().find(&arguments.instance)?;
    output::keep_apart(&[&instance], &[arguments.output.as_ref()])?;
    let subject = Subject::read(instance)?;
    let bytes = arguments.budget.as_ref().map(|budget| subject.bytes(budget)).transpose()?;
    let model = Model::new(&subject.instance, &arguments.method, bytes)?;
    let formats = model.encoding.formats();
    if !formats.contains(&format) {
        let forms: Vec<_> = formats.iter().map(|format| format.ending()).collect();
        return Err(Failure::input(format!(
            "{} has no text in the form {}; name another with --format: {}",
            arguments.method.id,
            format.ending(),
            forms.join(", ")
        )));
    }
    let budget = arguments.budget.as_ref().map_or("unlimited".into(), ToString::to_string);
    let Some(path) = &arguments.output else {
        let mut text = Vec::new();
        model.write(format, &arguments.instance, &budget, &mut text).map_err(Failure::failed)?;
        return output::result(&String::from_utf8(text).map_err(Failure::failed)?);
    };
    model.save(format, &arguments.instance, &budget, path).map_err(Failure::cannot("write", path))
}

/// Refuses a file whose name says another format, or a compression that solvers do not read.
fn agree(path: &Path, format: Format) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ["zst", "xz", "bz2"].map(OsStr::new).contains(&ending)) {
        return Err(Failure::input(format!(
            "{}: models are compressed by gzip alone; end its name in .gz",
            path.display()
        )));
    }
    let plain = if is_compressed(path) { path.with_extension("") } else { path.to_owned() };
    match Format::of(&plain) {
        Some(named) if named != format => Err(Failure::input(format!(
            "{}: the model is written as {}; give --format {}, or another name",
            path.display(),
            format.ending(),
            named.ending()
        ))),
        _ => Ok(()),
    }
}
