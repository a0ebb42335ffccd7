//! `bench reproduce`: the tables and figures of the papers, each beside what comes out here.
//!
//! [`catalogue`] says what there is and how it is compared (`instances/reproduce/*.toml`), [`cells`] finds the
//! rows that an entry needs, [`measure`] reads our figure off the records, [`verdict`] compares it with
//! the printed one, [`outcome`] keeps the comparison under `results/reproduce/`, and [`list`] prints
//! catalogue and verdicts. Nothing here knows a method, or what a network is.

pub mod catalogue;
pub mod cells;
pub mod list;
pub mod measure;
pub mod outcome;
pub mod quantity;
pub mod reasons;
pub mod verdict;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::views::published::{PrintedFigure, Published};
use catalogue::Entry;
use cells::Extent;
use measure::{Evidence, Ours};
use outcome::Row;
use quantity::Quantity;
use verdict::judge;

/// The printed figures of an entry, in order.
///
/// # Errors
/// A file of figures cannot be read.
pub fn figures(library: &Library, entry: &Entry) -> Result<Vec<PrintedFigure>, Failure> {
    let mut figures = Vec::new();
    for source in &entry.figures {
        let published = Published::read(&library.root.join("results/published").join(&source.file))?;
        figures.extend(published.at(&source.location).cloned());
    }
    Ok(figures)
}

/// Every printed figure of an entry beside ours, with the verdict.
///
/// # Errors
/// The printed figures cannot be read, or one of them is of no known quantity.
pub fn compare(library: &Library, entry: &Entry, extent: Extent, evidence: &Evidence) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let reasons = reasons::read(library)?;
    for figure in figures(library, entry)? {
        let quantity: Quantity = figure
            .quantity
            .parse()
            .map_err(|error| Failure::input(format!("{}, {}: {error}", figure.paper, figure.location)))?;
        for (instance, ours) in measure::ours(&figure, &quantity, evidence)? {
            let mut row = row(entry, extent, &figure, &quantity, instance, &ours)?;
            if let Some(reason) = reasons.iter().find(|reason| reasons::asks(row.verdict) && reason.fits(&row)) {
                row.note = [row.note.as_str(), &reason.why]
                    .into_iter()
                    .filter(|note| !note.is_empty())
                    .collect::<Vec<_>>()
                    .join("; ");
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

fn row(
    entry: &Entry,
    extent: Extent,
    figure: &PrintedFigure,
    quantity: &Quantity,
    instance: String,
    ours: &Ours,
) -> Result<Row, Failure> {
    let place = || format!("{}, {}: {:?}", figure.paper, figure.location, figure.printed);
    let printed = figure.printed.parse().map_err(|error| Failure::input(format!("{}: {error}", place())))?;
    let rule = entry.rule_for(quantity, &figure.method);
    let judgement = judge(printed, ours, &rule);
    let notes = [judgement.why.as_str(), ours.note(), figure.remark.as_str()];
    let notes: Vec<_> = notes.into_iter().filter(|note| !note.is_empty()).collect();
    Ok(Row {
        entry: entry.id.clone(),
        pass: extent.pass,
        most_seconds: extent.most_seconds,
        source: format!("{}, {}", figure.paper, figure.location),
        instance,
        method: figure.method.clone(),
        budget: figure.budget.clone(),
        quantity: figure.quantity.clone(),
        unit: figure.unit.clone(),
        printed: figure.printed.clone(),
        ours: ours.text(),
        deviation_percent: judgement.deviation.map(|share| (share * 1e4).round() / 1e2),
        verdict: judgement.verdict,
        note: notes.join("; "),
    })
}
