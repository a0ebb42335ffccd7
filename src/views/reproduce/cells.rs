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
use crate::views::trajectory;

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
/// `bench run` refuses its arguments or is interrupted, or a suite cannot be read.
pub fn run(library: &Library, entry: &Entry, extent: Extent, stop: &AtomicBool) -> Result<bool, Failure> {
    let mut failed = false;
    for cells in &entry.runs {
        let Some(mut part) = cells.part(extent.pass) else { continue };
        if let Some(most) = extent.most_seconds {
            let suite = suite::read(library, &cells.suite)?.suite;
            let given = part.time_seconds.or(suite.limits.time_seconds);
            part.time_seconds = Some(given.map_or(most, |seconds| seconds.min(most)));
        }
        let arguments = arguments(cells, &part, &folder(library, &cells.suite, extent));
        let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        output::info(&format!("{}: bench {}", entry.id, words.join(" ")));
        failed |= call(&library.root, &arguments, stop)?;
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
        let mut rows = records::read(&folder)?;
        rows.retain(|row| wanted(&row.instance) && chosen(row) && asked(&row.budget));
        let trajectories = trajectory::read_all(&rows, &folder)?;
        evidence.trajectories.extend(rows.iter().map(Record::key).zip(trajectories));
        evidence.records.extend(rows);
        evidence.batches.extend(batches::read(&folder)?);
    }
    Ok(evidence)
}

fn spec(words: &str) -> Result<Spec, Failure> {
    words.parse().map_err(|error| Failure::input(format!("method {words:?}: {error}")))
}

/// The budgets of a suite, as rows have them.
fn budgets_of(library: &Library, cells: &Cells) -> Result<Vec<String>, Failure> {
    let suite = suite::read(library, &cells.suite)?.suite;
    Ok(suite.budgets.iter().map(ToString::to_string).collect())
}

/// A pattern without folders, for rows have the instance's name alone.
pub fn last_part(pattern: &str) -> &str {
    pattern.rsplit('/').next().unwrap_or(pattern)
}

fn program() -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find the running program: {error}")))?;
    Ok(Command::new(program))
}

fn arguments(cells: &Cells, part: &Part, out: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["run".into(), "--suite".into(), cells.suite.clone().into()];
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
    words.extend(["--no-plots".into(), "--resume".into(), "--out".into(), out.into()]);
    words
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
