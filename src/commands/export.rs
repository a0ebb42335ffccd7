//! `bench export`: the model behind a method's answer, for users of solvers that are not built in and
//! for those who develop solvers.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use remat_formulations::{Encoding, Format, Formulation, METHODS, Spec};

use crate::ground::failure::Failure;
use crate::ground::host::VERSION;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::Budget;
use crate::harness::run::plan::{Subject, method, parameters};

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
    /// Memory budget: a size (8GiB, 500MB) or a fraction of store-all's peak (0.5x) [default: unlimited]
    #[arg(long, short, value_name = "SIZE")]
    budget: Option<Budget>,
    /// Format of the model
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Kind::Mps)]
    format: Kind,
    /// Write the model to this file [default: standard output]
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

/// The formulation of a method.
///
/// # Errors
/// The method is unknown, or is no model.
pub fn formulation(spec: &Spec) -> Result<&'static dyn Formulation, Failure> {
    let method = method(&spec.id)?;
    method.formulation().ok_or_else(|| {
        let with = METHODS.iter().filter(|method| method.formulation().is_some()).map(|method| method.id());
        let with = with.collect::<Vec<_>>().join(", ");
        Failure::input(format!("{} is not one model that a solver could be given; these are: {with}", spec.id))
    })
}

/// The model of an instance, a setting and a budget in bytes.
///
/// # Errors
/// The parameters do not fit, or there is no model.
pub fn encoding<'a>(
    subject: &'a Subject,
    spec: &Spec,
    budget: Option<u64>,
) -> Result<(Box<dyn Encoding + 'a>, String), Failure> {
    let formulation = formulation(spec)?;
    let parameters = parameters(formulation, &spec.parameters)?;
    let impossible =
        |error: &dyn std::fmt::Display| Failure::failed(format!("{} on {}: {error}", spec.id, subject.instance.name()));
    formulation.supports(&subject.instance).map_err(|reason| impossible(&reason))?;
    let encoding = formulation.encode(&subject.instance, &parameters, budget).map_err(|error| impossible(&error))?;
    Ok((encoding, format!("{}[{parameters}]", spec.id)))
}

/// Writes the model.
///
/// # Errors
/// Arguments do not fit, there is no model, or it cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = Subject::read(Library::locate().find(&arguments.instance)?)?;
    let bytes = match &arguments.budget {
        None => None,
        Some(budget) => Some(
            budget
                .resolve(subject.baseline.peak_bytes)
                .ok_or_else(|| Failure::input(format!("budget {budget} overflows 64 bits; name a smaller one")))?,
        ),
    };
    let (encoding, setting) = encoding(&subject, &arguments.method, bytes)?;
    let format = arguments.format.format();
    if !encoding.formats().contains(&format) {
        let forms: Vec<_> = encoding.formats().iter().map(|format| format.ending()).collect();
        return Err(Failure::input(format!(
            "{} has no text in the form {}; name another with --format: {}",
            arguments.method.id,
            format.ending(),
            forms.join(", ")
        )));
    }
    let mut head = vec![
        ("bench", VERSION.to_owned()),
        ("instance", arguments.instance.clone()),
        ("instance-name", subject.instance.name().to_owned()),
        ("instance-hash", subject.instance.hash().to_string()),
        ("method", setting),
        ("budget", arguments.budget.as_ref().map_or("unlimited".into(), ToString::to_string)),
        ("budget-bytes", bytes.map_or("unlimited".into(), |bytes| bytes.to_string())),
    ];
    head.extend(encoding.facts());
    let Some(path) = &arguments.output else {
        let mut text = Vec::new();
        encoding.write(format, &mut text, &head).map_err(Failure::failed)?;
        return output::result(&String::from_utf8(text).map_err(Failure::failed)?);
    };
    write(path, encoding.as_ref(), format, &head)
        .map_err(|error| Failure::failed(format!("{}: cannot write: {error}", path.display())))
}

fn write(path: &Path, encoding: &dyn Encoding, format: Format, head: &[(&str, String)]) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    encoding.write(format, &mut out, head)?;
    out.flush()
}

/// What the head of an exported model says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The instance, as the one who exported named it.
    pub instance: String,
    /// Its hash.
    pub hash: String,
    /// Method and parameters.
    pub method: String,
    /// Budget in bytes.
    pub budget: Option<u64>,
}

impl Head {
    /// Reads the comments at the head of a model.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let comment = |line: &str| {
            let line = Format::ALL.iter().find_map(|format| line.strip_prefix(format.comment()));
            line.and_then(|line| line.trim().split_once(": ")).map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let pairs: Vec<(String, String)> = text.lines().map_while(comment).collect();
        let value = |key: &str| {
            let found = pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            found.ok_or_else(|| {
                let mut message = String::from("is no model that `bench export` wrote: its head has no line ");
                let _ = write!(message, "\"{key}: ...\"");
                message
            })
        };
        let budget = value("budget-bytes")?;
        let bytes = budget.parse().ok();
        if bytes.is_none() && budget != "unlimited" {
            return Err(format!("its head says \"budget-bytes: {budget}\"; expected a whole number or unlimited"));
        }
        Ok(Self {
            instance: value("instance")?,
            hash: value("instance-hash")?,
            method: value("method")?,
            budget: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_from_both_formats_and_refused_where_they_say_too_little() {
        let text = |mark: &str| {
            format!(
                "{mark} bench: 0.1.0\n{mark} instance: a/b.json\n{mark} instance-hash: h\n{mark} method: m[a=1,b=2]\n{mark} budget-bytes: 7\nNAME x\n"
            )
        };
        let expected =
            Head { instance: "a/b.json".into(), hash: "h".into(), method: "m[a=1,b=2]".into(), budget: Some(7) };
        assert_eq!(Head::read(&text("*")), Ok(expected.clone()));
        assert_eq!(Head::read(&text("\\")), Ok(expected));
        assert!(Head::read("NAME x\n").is_err_and(|error| error.contains("no line \"budget-bytes: ...\"")));
        assert!(Head::read("* budget-bytes: 7.5\n").is_err_and(|error| error.contains("7.5")));
    }
}
