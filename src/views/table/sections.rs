//! What a suite shows of its results: overheads, ratios to the optimum, largest batches.

use std::path::Path;

use super::{digest, ratios, render, replay as replay_table, summarise};
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::records::Record;
use crate::harness::records::batches as searches;
use crate::harness::replay;
use crate::harness::suite::Suite;
use crate::views::aggregate::{self, Aggregate};
use crate::views::batches;
use crate::views::published::Published;

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Section {
    /// One screen: mean overheads, what was solved and proved, what planning took, and what follows.
    Digest,
    /// Overhead per budget.
    Overheads,
    /// Ratios to the optimum of the fixed order, beside published ones.
    Ratios,
    /// Largest batches, beside published ones.
    Batches,
    /// Over all cases: schedules, proofs, means with their shift, PAR2.
    Summary,
    /// Rows by status.
    Statuses,
    /// The fastest schedule of each case, and whose.
    VirtualBest,
    /// Performance profiles of Dolan and Moré.
    Profile,
    /// Quality after planning for 1, 10 and 100 s, and the primal integral.
    Quality,
    /// Planning time to 5, 2 and 1 % of the best, and of the bound.
    Gaps,
    /// Claimed against simulated (and executed) time and peak.
    Claims,
    /// Errors of simulated time and peak against executed ones.
    Replay,
}

/// All sections that a suite has, in the formats for people; the overheads alone in the others.
///
/// # Errors
/// A file of published figures, or of largest batches, cannot be read.
pub fn all(
    library: &Library,
    records: &[Record],
    folder: &Path,
    format: Format,
    suite: Option<&Suite>,
) -> Result<String, Failure> {
    let overheads = render(&summarise(records), format, suite);
    if !matches!(format, Format::Text | Format::Md) {
        return Ok(overheads);
    }
    let published = published(library, suite)?;
    let mut texts = Vec::new();
    let asked = suite.is_some_and(|suite| suite.ratios);
    texts.extend(ratios::render(records, &published, format).filter(|_| asked));
    let searches = searches::read(folder)?;
    if !searches.is_empty() {
        texts.push(batches::render(&searches, &published, format));
    }
    let executed = replay::read(folder)?;
    if !executed.is_empty() {
        texts.push(replay_table::render(records, &executed, format));
    }
    texts.push(overheads);
    Ok(texts.join("\n"))
}

/// One section, in any format.
///
/// # Errors
/// As [`all`]; or the results have no such section.
pub fn one(
    section: Section,
    library: &Library,
    records: &[Record],
    folder: &Path,
    format: Format,
    suite: Option<&Suite>,
) -> Result<String, Failure> {
    let published = published(library, suite)?;
    let aggregated = |which: Aggregate| {
        let arena = aggregate::arena(records, folder)?;
        Ok(which.table(&arena, records, &replay::read(folder)?).render(format))
    };
    match section {
        Section::Digest => Ok(digest::render(&aggregate::arena(records, folder)?, format, output::width())),
        Section::Overheads => Ok(render(&summarise(records), format, suite)),
        Section::Ratios => ratios::render(records, &published, format).ok_or_else(|| {
            Failure::input("no row claims the optimum of the fixed order; run checkmate-ilp on these instances")
        }),
        Section::Replay => {
            let executed = replay::read(folder)?;
            if executed.is_empty() {
                let path = replay::path_in(folder);
                return Err(Failure::input(format!("{}: nothing was executed; run bench replay", path.display())));
            }
            Ok(replay_table::render(records, &executed, format))
        }
        Section::Batches => {
            let rows = searches::read(folder)?;
            if rows.is_empty() {
                let path = searches::path_in(folder);
                return Err(Failure::input(format!(
                    "{}: holds no row; run a suite that has [max_batch]",
                    path.display()
                )));
            }
            Ok(batches::render(&rows, &published, format))
        }
        Section::Summary => aggregated(Aggregate::Summary),
        Section::Statuses => aggregated(Aggregate::Statuses),
        Section::VirtualBest => aggregated(Aggregate::VirtualBest),
        Section::Profile => aggregated(Aggregate::Profile),
        Section::Quality => aggregated(Aggregate::Quality),
        Section::Gaps => aggregated(Aggregate::Gaps),
        Section::Claims => aggregated(Aggregate::Claims),
    }
}

/// The published figures that a suite names; none where it names none.
///
/// # Errors
/// The file cannot be read.
pub fn published(library: &Library, suite: Option<&Suite>) -> Result<Published, Failure> {
    let path = suite.and_then(|suite| suite.published.as_ref());
    path.map(|path| Published::read(&library.root.join(path))).transpose().map(Option::unwrap_or_default)
}
