//! The table of best-known values, and what it comes to by class.

use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::ground::size::Budget;
use crate::harness::best::{CLASSES, Entry, Status};

/// Least budget, as a part of store-all's peak in per cent, of the gaps that [`digest`] gives apart.
const ROOMY: u64 = 40;

/// The table.
pub fn render(entries: &[Entry], format: Format) -> String {
    let header = ["instance", "class", "budget", "bytes", "time", "bound", "gap %", "status", "found by", "proved by"];
    let mut grid = Grid::new(header);
    for entry in entries {
        let time = |value: Option<u64>| value.map_or("-".into(), |value| format::time(value, entry.time_unit));
        grid.row([
            entry.instance.clone(),
            entry.class_name(),
            entry.budget.clone(),
            format::bytes(entry.budget_size, entry.memory_unit),
            time(entry.time),
            time(entry.bound),
            entry.gap.map_or("-".into(), |gap| format!("{gap:.2}")),
            entry.status.label().into(),
            entry.found_by.clone(),
            entry.bound_by.clone(),
        ]);
    }
    grid.render(format)
}

/// Whether a budget is at least 0.4 of store-all's peak, where it is written as such a part.
pub fn is_roomy(entry: &Entry) -> bool {
    let budget = entry.budget.parse::<Budget>().ok();
    budget.and_then(|budget| budget.resolve(1000)).is_some_and(|part| part >= 10 * ROOMY && entry.budget.ends_with('x'))
}

/// What the entries of a class come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Entries.
    pub cases: usize,
    /// Of these, solved.
    pub solved: usize,
    /// Proved to have no schedule.
    pub infeasible: usize,
    /// Open with a time and a bound.
    pub gaps: usize,
    /// Widest of their gaps, in per cent.
    pub widest: Option<f64>,
    /// Widest at 0.4x and above.
    pub widest_roomy: Option<f64>,
}

impl Tally {
    /// Of some entries.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut tally = Self::default();
        for entry in entries {
            tally.cases += 1;
            tally.solved += usize::from(entry.status == Status::Solved);
            tally.infeasible += usize::from(entry.status == Status::Infeasible);
            if let Some(gap) = entry.gap.filter(|_| entry.status == Status::Open) {
                tally.gaps += 1;
                tally.widest = Some(tally.widest.map_or(gap, |widest| widest.max(gap)));
                if is_roomy(entry) {
                    tally.widest_roomy = Some(tally.widest_roomy.map_or(gap, |widest| widest.max(gap)));
                }
            }
        }
        tally
    }

    /// Entries that are neither solved nor infeasible.
    pub fn open(&self) -> usize {
        self.cases - self.solved - self.infeasible
    }
}

/// A line for each class: how many cases are solved, infeasible and open, and how wide the gaps are.
pub fn digest(entries: &[Entry], format: Format) -> String {
    let header =
        ["class", "cases", "solved", "infeasible", "open", "no gap known", "widest gap %", "at 0.4x and above %"];
    let mut grid = Grid::new(header).numeric_from(1);
    for (name, class) in CLASSES {
        let tally = Tally::of(entries.iter().filter(|entry| entry.class == class));
        let percent = |gap: Option<f64>| gap.map_or("-".into(), |gap| format!("{gap:.2}"));
        grid.row([
            name.to_owned(),
            tally.cases.to_string(),
            tally.solved.to_string(),
            tally.infeasible.to_string(),
            tally.open().to_string(),
            (tally.open() - tally.gaps).to_string(),
            percent(tally.widest),
            percent(tally.widest_roomy),
        ]);
    }
    grid.render(format)
}
