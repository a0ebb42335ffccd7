//! Running what an entry needs: `bench run` in a child process, one call for each of its parts, which
//! resumes where an earlier call stopped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use remat_formulations::Spec;
use serde::{Deserialize, Serialize};

use super::catalogue::{Cells, Entry, Part};
use super::measure::{Evidence, is_of};
use crate::ground::failure::Failure;
use crate::ground::library::{Library, glob};
use crate::ground::output;
use crate::harness::records::batches;
use crate::harness::records::{self, Record};
use crate::harness::suite;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// What takes minutes.
    Quick,
    /// Everything.
    Full,
}

impl Pass {
    /// As people write it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// A pass, and the wall seconds that each of its runs has at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// How much is run.
    pub pass: Pass,
    /// Where suite and entry would give a run more.
    pub most_seconds: Option<f64>,
}

/// The folder of the reference data, where there is one.
pub fn reference_data() -> Option<PathBuf> {
    std::env::var_os("BENCH_REFERENCE_DATA").map(PathBuf::from).filter(|folder| folder.is_dir())
}

/// Where the rows of a suite are: those of a full pass are those of `bench run --suite`, unless its runs are cut short.
pub fn folder(library: &Library, suite: &str, extent: Extent) -> PathBuf {
    let results = library.root.join("results");
    match (extent.pass, extent.most_seconds) {
        (Pass::Full, None) => results.join(suite),
        (pass, None) => results.join(format!("reproduce-{}", pass.label())).join(suite),
        (pass, Some(most)) => results.join(format!("reproduce-{}-{most}s", pass.label())).join(suite),
    }
}

/// Runs what an entry needs and has no row yet; returns whether a row ended in an error.
///
/// # Errors
/// `bench run` refuses its arguments or is interrupted, or a profile cannot be imported.
pub fn run(library: &Library, entry: &Entry, extent: Extent, stop: &AtomicBool) -> Result<bool, Failure> {
    let mut failed = false;
    for cells in &entry.runs {
        let Some(mut part) = cells.part(extent.pass) else { continue };
        let Some(place) = Place::of(library, cells)? else { continue };
        if let Some(most) = extent.most_seconds {
            let suite = suite::read(library, &cells.suite_argument(library).to_string_lossy())?.suite;
            let given = part.time_seconds.or(suite.limits.time_seconds);
            part.time_seconds = Some(given.map_or(most, |seconds| seconds.min(most)));
        }
        let arguments = arguments(cells, &part, &place, &folder(library, &cells.suite, extent))?;
        let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        output::info(&format!("{}: bench {}", entry.id, words.join(" ")));
        failed |= call(&place.root, &arguments, stop)?;
    }
    Ok(failed)
}

/// Rows that the cells of an entry left.
///
/// # Errors
/// A file of rows is none of ours.
pub fn evidence(library: &Library, entry: &Entry, extent: Extent) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::new(library.clone());
    for cells in &entry.runs {
        let Some(part) = cells.part(extent.pass) else { continue };
        let folder = folder(library, &cells.suite, extent);
        if !folder.join("records.csv").is_file() {
            continue;
        }
        let globs = part.instances.iter().map(|pattern| glob(last_part(pattern))).collect::<Result<Vec<_>, _>>()?;
        let wanted = |name: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches_name(name));
        // Other entries run other methods, at other budgets, of the same suite.
        let methods = part.methods.iter().map(|words| spec(words)).collect::<Result<Vec<_>, _>>()?;
        let chosen = |row: &Record| methods.is_empty() || methods.iter().any(|method| is_of(row, method));
        let budgets = if part.budgets.is_empty() { budgets_of(library, cells)? } else { part.budgets.clone() };
        let asked = |budget: &str| budget.is_empty() || budgets.iter().any(|other| other == budget);
        let rows = records::read(&folder)?.into_iter();
        evidence.records.extend(rows.filter(|row| wanted(&row.instance) && chosen(row) && asked(&row.budget)));
        evidence.batches.extend(batches::read(&folder)?);
    }
    Ok(evidence)
}

fn spec(words: &str) -> Result<Spec, Failure> {
    words.parse().map_err(|error| Failure::input(format!("method {words:?}: {error}")))
}

/// The budgets of a suite, as rows have them.
fn budgets_of(library: &Library, cells: &Cells) -> Result<Vec<String>, Failure> {
    let suite = suite::read(library, &cells.suite_argument(library).to_string_lossy())?.suite;
    Ok(suite.budgets.iter().map(ToString::to_string).collect())
}

/// A pattern without folders, for rows have the instance's name alone.
pub fn last_part(pattern: &str) -> &str {
    pattern.rsplit('/').next().unwrap_or(pattern)
}

/// The checkout in which `bench run` works: this one, or one with imported instances.
struct Place {
    root: PathBuf,
    suite: PathBuf,
}

impl Place {
    /// None where the reference data are not at hand, which is said aloud.
    fn of(library: &Library, cells: &Cells) -> Result<Option<Self>, Failure> {
        let suite = cells.suite_argument(library);
        if cells.imports.is_empty() {
            return Ok(Some(Self { root: library.root.clone(), suite }));
        }
        let Some(data) = reference_data() else {
            output::info(&format!(
                "{}: left out: it needs files of the reference data, whose folder BENCH_REFERENCE_DATA does not name",
                cells.suite
            ));
            return Ok(None);
        };
        let root = absolute(&library.root.join("results/reproduce-quick/imports"))?;
        let instances = root.join("instances/data");
        for folder in [&instances, &root.join("instances/suites")] {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::failed(format!("{}: cannot make the folder: {error}", folder.display())))?;
        }
        for (name, file) in &cells.imports {
            let target = instances.join(format!("{name}.json.zst"));
            if !target.is_file() {
                import(&data.join(file), &target)?;
            }
        }
        Ok(Some(Self { root, suite: absolute(&suite)? }))
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// Profiles of MONeT's authors lie in a folder of their own; everything else is a graph or a chain.
fn import(file: &Path, target: &Path) -> Result<(), Failure> {
    let profile = file.parent().is_some_and(|folder| folder.ends_with("monet-p100"));
    let command = if profile { "import-monet" } else { "import" };
    let words: [OsString; 5] = ["instances".into(), command.into(), file.into(), "--output".into(), target.into()];
    match program()?.args(&words).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::input(format!("{}: cannot be imported; the line above says why", file.display()))),
    }
}

fn program() -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find the running program: {error}")))?;
    Ok(Command::new(program))
}

fn arguments(cells: &Cells, part: &Part, place: &Place, out: &Path) -> Result<Vec<OsString>, Failure> {
    let mut words: Vec<OsString> = vec!["run".into(), "--suite".into(), place.suite.clone().into()];
    let seeds: Vec<_> = part.seeds.iter().map(u64::to_string).collect();
    let lists: [(&str, &[String]); 4] = [
        ("--instances", &part.instances),
        ("--methods", &part.methods),
        ("--budgets", &part.budgets),
        ("--seeds", &seeds),
    ];
    for (flag, values) in lists {
        if !values.is_empty() {
            words.push(flag.into());
            words.extend(values.iter().map(OsString::from));
        }
    }
    if let Some(seconds) = part.time_seconds {
        words.extend(["--time-limit".into(), seconds.to_string().into()]);
    }
    if !cells.batches {
        words.push("--no-batches".into());
    }
    // The child may work in another folder.
    let out = if cells.imports.is_empty() { out.to_owned() } else { absolute(out)? };
    words.extend(["--no-plots".into(), "--resume".into(), "--out".into(), out.into()]);
    Ok(words)
}

/// Runs `bench`; returns whether rows ended in errors.
fn call(root: &Path, arguments: &[OsString], stop: &AtomicBool) -> Result<bool, Failure> {
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    // An interrupt reaches the child as well, which keeps what it has.
    let status = program()?.args(arguments).current_dir(root).stdout(Stdio::null()).status();
    let status = status.map_err(|error| Failure::failed(format!("cannot start `bench run`: {error}")))?;
    match status.code() {
        _ if stop.load(Ordering::Relaxed) => Err(Failure::Interrupted("interrupted; the same command goes on".into())),
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(2) => Err(Failure::input("`bench run` refused what the catalogue asks; the line above says why")),
        _ => Err(Failure::Interrupted("`bench run` was stopped; the same command goes on".into())),
    }
}
