//! The summary table: per instance, grouped by claim, one row per method and one column per budget.
//!
//! A method that ignores budgets is a set of points; at each budget the fastest point counts whose
//! simulated peak meets it. Rows that failed are counted and shown, never left out.

pub mod digest;
pub mod ratios;
pub mod replay;
pub mod rows;

use remat_formulations::{Claim, Termination};
use serde_json::{Map, Value, json};

use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::ground::output;
use crate::ground::text::wrap;
use crate::harness::records::select::{AtBudget, at_budget, by_instance, by_method, median, written_budgets};
use crate::harness::records::{Ending, Record};
use crate::harness::suite::Suite;
use crate::views::aggregate::captioned;

/// What the reader of the summary table must know.
pub const CAPTION: &str = "Overhead in % of simulated time over store-all with the fastest implementations and unlimited memory. \
Methods that ignore budgets: the fastest point whose simulated peak meets the budget. \
*: stopped by a limit; of several seeds the median, and how many have a schedule where not all do. Budgets with an x: times store-all's simulated peak.";

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct Overheads {
    budgets: Vec<String>,
    instances: Vec<InstanceRows>,
}

#[derive(Clone, Debug, PartialEq)]
struct InstanceRows {
    name: String,
    heading: String,
    methods: Vec<MethodRow>,
}

#[derive(Clone, Debug, PartialEq)]
struct MethodRow {
    claim: Claim,
    label: String,
    /// Id of the method.
    method: String,
    cells: Vec<Cell>,
    solved: usize,
    limit: usize,
    error: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    /// Overhead (of several seeds the median), whether a limit stopped the method, and how many of how
    /// many seeds have a schedule.
    Overhead {
        overhead: f64,
        stopped: bool,
        solved: usize,
        seeds: usize,
    },
    Reason(&'static str),
    /// No row.
    Blank,
}

impl Cell {
    fn text(self) -> String {
        match self {
            Self::Overhead { overhead, stopped, solved, seeds } => {
                let star = if stopped { "*" } else { "" };
                let part = if solved < seeds { format!(" ({solved}/{seeds})") } else { String::new() };
                format!("{}{star}{part}", format::decimals(100.0 * overhead, 1))
            }
            Self::Reason(reason) => reason.into(),
            Self::Blank => String::new(),
        }
    }
}

/// Summarises rows.
pub fn summarise(records: &[Record]) -> Overheads {
    let budgets = written_budgets(records);
    let instances = by_instance(records).into_iter().map(|(name, rows)| instance_rows(name, &rows, &budgets)).collect();
    Overheads { budgets: budgets.into_iter().map(str::to_owned).collect(), instances }
}

fn instance_rows(name: String, rows: &[&Record], budgets: &[&str]) -> InstanceRows {
    let methods = by_method(rows.iter().copied()).into_iter().map(|((claim, _, label), rows)| MethodRow {
        claim,
        label,
        method: rows.first().map(|row| row.method.clone()).unwrap_or_default(),
        cells: budgets.iter().map(|budget| cell(&rows, budget)).collect(),
        solved: rows.iter().filter(|row| row.is_solved()).count(),
        limit: rows.iter().filter(|row| row.termination.is_limit()).count(),
        error: rows.iter().filter(|row| row.is_error()).count(),
    });
    let heading = rows.first().map(|row| heading(row)).unwrap_or_default();
    InstanceRows { name, heading, methods: methods.collect() }
}

fn heading(row: &Record) -> String {
    let batch = row.batch_size.map_or(String::new(), |batch| format!(", batch {batch}"));
    format!(
        "{}: store-all takes {} and {}{batch}; {} times",
        row.instance,
        format::time(row.store_all_time, row.time_unit),
        format::bytes(row.store_all_peak, row.memory_unit),
        row.times
    )
}

fn cell(rows: &[&Record], budget: &str) -> Cell {
    match at_budget(rows, budget) {
        None => Cell::Blank,
        Some(AtBudget::Seeds(seeds)) => {
            let median = median(&seeds);
            let overhead = |row: &Record| {
                Some(Cell::Overhead {
                    overhead: row.overhead?,
                    stopped: row.termination.is_limit(),
                    solved: seeds.iter().filter(|row| row.is_solved()).count(),
                    seeds: seeds.len(),
                })
            };
            median.and_then(overhead).unwrap_or_else(|| {
                let is_solved = seeds.iter().any(|row| row.is_solved());
                Cell::Reason(if is_solved { NO_RATIO } else { reason(seeds[0].termination) })
            })
        }
        Some(AtBudget::Points { all, best }) => match best.map(|row| row.overhead) {
            Some(Some(overhead)) => Cell::Overhead { overhead, stopped: false, solved: 1, seeds: 1 },
            Some(None) => Cell::Reason(NO_RATIO),
            None if all.iter().any(|row| row.is_solved()) => Cell::Reason("none fits"),
            None => Cell::Reason(reason(all[0].termination)),
        },
    }
}

/// There is a schedule, but store-all takes no time, and nothing can be said of a multiple of it.
const NO_RATIO: &str = "store-all takes 0";

/// Why there is no number.
pub fn reason(ending: Ending) -> &'static str {
    match ending {
        Ending::Skipped(_) => "skipped",
        Ending::Ran(Termination::Infeasible) => "infeasible",
        Ending::Ran(Termination::BoundOnly) => "bound only",
        Ending::Ran(Termination::TimeLimit | Termination::CpuLimit) => "timeout",
        Ending::Ran(Termination::MemoryLimit) => "memory",
        Ending::Ran(Termination::NodeLimit) => "node limit",
        Ending::Ran(Termination::Interrupted) => "interrupted",
        Ending::Ran(Termination::Error) => "error",
        Ending::Ran(_) => "not found",
    }
}

/// The text of the table; the formats for people end with what the suite says about itself.
pub fn render(table: &Overheads, format: Format, suite: Option<&Suite>) -> String {
    let analysis = suite.map_or(String::new(), |suite| format!("\n{}\n", suite.analysis.trim()));
    match format {
        Format::Text => text(table, output::width()) + &analysis,
        Format::Json => serde_json::to_string_pretty(&json_rows(table)).expect("numbers and texts always serialise"),
        Format::Md => captioned(&grid(table), CAPTION, format) + &analysis,
        Format::Latex | Format::Csv => captioned(&grid(table), CAPTION, format),
    }
}

fn text(table: &Overheads, width: usize) -> String {
    let mut text = Vec::new();
    for instance in &table.instances {
        let mut grid = empty(table, &["claim", "method"]);
        let mut previous = None;
        for row in &instance.methods {
            let claim = if previous == Some(row.claim) { String::new() } else { row.claim.to_string() };
            previous = Some(row.claim);
            grid.row([claim, row.label.clone()].into_iter().chain(tail(row)));
        }
        text.push(format!("{}\n{}\n", instance.heading, grid.folded(width)));
    }
    text.concat() + &wrap(CAPTION, width)
}

/// A grid with columns of words before those of [`tail`].
fn empty(table: &Overheads, words: &[&str]) -> Grid {
    let budgets = table.budgets.iter().map(String::as_str);
    let header = words.iter().copied().chain(budgets).chain(["solved", "limit", "error"]);
    Grid::new(header).numeric_from(words.len())
}

/// The columns after the method.
fn tail(row: &MethodRow) -> impl Iterator<Item = String> {
    let counts = [row.solved, row.limit, row.error].map(|count| count.to_string());
    row.cells.iter().map(|cell| cell.text()).chain(counts)
}

/// All instances in one grid.
pub fn grid(table: &Overheads) -> Grid {
    let mut grid = empty(table, &["instance", "claim", "method"]);
    for instance in &table.instances {
        grid.rule();
        for row in &instance.methods {
            let head = [instance.name.clone(), row.claim.to_string(), row.label.clone()];
            grid.row(head.into_iter().chain(tail(row)));
        }
    }
    grid
}

/// Like the grid, with numbers as numbers: `"overhead": {"0.5x": 0.123, "0.1x": "infeasible"}`. At which budgets a limit stopped
/// the method, and where not all seeds have a schedule how many of them do, stands beside them.
fn json_rows(table: &Overheads) -> Vec<Value> {
    let mut rows = Vec::new();
    for instance in &table.instances {
        for row in &instance.methods {
            let cell = |cell: &Cell| match cell {
                Cell::Overhead { overhead, .. } => json!(overhead),
                Cell::Reason(reason) => json!(reason),
                Cell::Blank => Value::Null,
            };
            let cells = || table.budgets.iter().cloned().zip(&row.cells);
            let overhead: Map<_, _> = cells().map(|(budget, one)| (budget, cell(one))).collect();
            let stopped = cells().filter(|(_, cell)| matches!(cell, Cell::Overhead { stopped: true, .. }));
            let stopped: Vec<String> = stopped.map(|(budget, _)| budget).collect();
            let few = |cell: &Cell| match *cell {
                Cell::Overhead { solved, seeds, .. } if solved < seeds => Some(json!({"solved": solved, "of": seeds})),
                _ => None,
            };
            let seeds: Map<_, _> = cells().filter_map(|(budget, cell)| Some((budget, few(cell)?))).collect();
            rows.push(json!({
                "instance": instance.name, "claim": row.claim, "method": row.label, "overhead": overhead,
                "stopped": stopped, "seeds": seeds,
                "solved": row.solved, "limit": row.limit, "error": row.error,
            }));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    #[test]
    fn programs_are_told_of_limits_and_seeds_as_people_are() {
        let row = |seed: u64, time: Option<u64>| Record {
            seed,
            simulated_time: time,
            overhead: time.map(|time| time as f64 / 1e6 - 1.0),
            termination: Ending::Ran(if time.is_some() { Termination::TimeLimit } else { Termination::NotFound }),
            ..example("fastsa", Some(("0.5x", 1 << 29)))
        };
        let table = summarise(&[row(1, Some(1_250_000)), row(2, None), row(3, None)]);
        assert_eq!(table.instances[0].methods[0].cells[0].text(), "25.0* (1/3)");
        let rows = json_rows(&table);
        assert_eq!(rows[0]["overhead"], json!({"0.5x": 0.25}));
        assert_eq!(
            (&rows[0]["stopped"], &rows[0]["seeds"]),
            (&json!(["0.5x"]), &json!({"0.5x": {"solved": 1, "of": 3}}))
        );
    }
}
