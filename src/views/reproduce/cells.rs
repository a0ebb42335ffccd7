//! What of a suite an entry needs, and the rows that are there of it.

use std::path::PathBuf;

use remat_formulations::Spec;
use serde::{Deserialize, Serialize};

use super::catalogue::{Cells, Entry};
use super::measure::{Evidence, is_of};
use crate::ground::failure::Failure;
use crate::ground::library::{Globs, Library};
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

/// A pass, and the wall seconds that each of its rows has at most.
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
        let wanted = Globs::of(part.instances.iter().map(|pattern| last_part(pattern)))?;
        // Other entries run other methods, at other budgets, of the same suite.
        let methods = part.methods.iter().map(|words| spec(words)).collect::<Result<Vec<_>, _>>()?;
        let chosen = |row: &Record| methods.is_empty() || methods.iter().any(|method| is_of(row, method));
        let budgets = if part.budgets.is_empty() { budgets_of(library, cells)? } else { part.budgets.clone() };
        let asked = |budget: &str| budget.is_empty() || budgets.iter().any(|other| other == budget);
        let mut rows = records::read(&folder)?;
        rows.retain(|row| wanted.matches_name(&row.instance) && chosen(row) && asked(&row.budget));
        let trajectories = trajectory::read_all(&rows, &folder)?;
        evidence.trajectories.extend(rows.iter().map(Record::key).zip(trajectories));
        evidence.records.extend(rows);
        evidence.batches.extend(batches::read(&folder)?);
    }
    Ok(evidence)
}

/// A method as the catalogue writes it.
///
/// # Errors
/// It is no spec.
pub fn spec(words: &str) -> Result<Spec, Failure> {
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
