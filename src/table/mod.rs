//! The summary table: per instance, grouped by claim, one row per method and one column per budget.
//!
//! A method that ignores budgets is a set of points; at each budget the fastest point counts whose
//! simulated peak meets it. Rows that failed are counted and shown, never left out.

pub mod digest;
pub mod grid;
pub mod ratios;
pub mod replay;
pub mod sections;

use std::collections::BTreeMap;

use remat_formulations::{Claim, METHODS, Termination, find};
use serde_json::{Map, Value, json};

use crate::format::{self, Format};
use crate::output;
use crate::records::{Ending, Record};
use crate::size::Budget;
use crate::suite::Suite;
use grid::Grid;

/// What the reader of the summary table must know.
pub const CAPTION: &str = "Overhead in % of simulated time over store-all with the fastest implementations and unlimited memory. \
Methods that ignore budgets: the fastest point whose simulated peak meets the budget. \
*: stopped by a limit; of several seeds the median, and how many have a schedule where not all do. Budgets with an x: times store-all's simulated peak.";

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
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
                format!("{:.1}{star}{part}", 100.0 * overhead)
            }
            Self::Reason(reason) => reason.into(),
            Self::Blank => String::new(),
        }
    }
}

/// The setting of a row as people write it: parameters at their defaults are left out.
pub fn label(method: &str, parameters: &str) -> String {
    let specs = find(method).map_or(&[][..], |method| method.about().parameters);
    let shown: Vec<_> = pairs(parameters)
        .filter(|(name, value)| !specs.iter().any(|spec| spec.name == *name && spec.default == *value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if shown.is_empty() { method.into() } else { format!("{method}[{}]", shown.join(",")) }
}

/// The label that the points of one sweep share: whole-number parameters vary within it.
pub fn series_label(record: &Record) -> String {
    if record.budget_size.is_some() {
        return label(&record.method, &record.parameters);
    }
    let fixed: Vec<_> = pairs(&record.parameters)
        .filter(|(_, value)| value.parse::<u64>().is_err())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    label(&record.method, &fixed.join(","))
}

fn pairs(parameters: &str) -> impl Iterator<Item = (&str, &str)> {
    parameters.split(',').filter_map(|pair| pair.split_once('='))
}

/// Position of a method in the registry: the order of tables and legends.
pub fn rank(method: &str) -> usize {
    METHODS.iter().position(|known| known.id() == method).unwrap_or(usize::MAX)
}

/// Rows by instance, in order of first appearance; of rows with the same identity the last counts.
pub fn by_instance(records: &[Record]) -> Vec<(String, Vec<&Record>)> {
    let mut instances: Vec<(String, Vec<&Record>)> = Vec::new();
    for record in records {
        let at = instances.iter().position(|(name, _)| *name == record.instance).unwrap_or_else(|| {
            instances.push((record.instance.clone(), vec![]));
            instances.len() - 1
        });
        let rows = &mut instances[at].1;
        let same = |other: &&Record| {
            let key = |row: &Record| (row.method.clone(), row.parameters.clone(), row.budget.clone(), row.seed);
            key(other) == key(record)
        };
        rows.retain(|other| !same(other));
        rows.push(record);
    }
    instances
}

/// Summarises rows.
pub fn summarise(records: &[Record]) -> Table {
    let budgets = written_budgets(records);
    let instances = by_instance(records).into_iter().map(|(name, rows)| instance_rows(name, &rows, &budgets)).collect();
    Table { budgets: budgets.into_iter().map(str::to_owned).collect(), instances }
}

/// The budgets of some rows as written, fractions before sizes, each ascending.
pub fn written_budgets(records: &[Record]) -> Vec<&str> {
    let mut budgets: Vec<&str> = Vec::new();
    for record in records.iter().filter(|record| !record.budget.is_empty()) {
        if !budgets.contains(&record.budget.as_str()) {
            budgets.push(&record.budget);
        }
    }
    budgets.sort_by_key(|text| text.parse::<Budget>().map(|budget| budget.sort_key()).ok());
    budgets
}

fn instance_rows(name: String, rows: &[&Record], budgets: &[&str]) -> InstanceRows {
    let mut series: BTreeMap<(Claim, usize, String), Vec<&Record>> = BTreeMap::new();
    for row in rows {
        series.entry((row.claim, rank(&row.method), series_label(row))).or_default().push(row);
    }
    let methods = series.into_iter().map(|((claim, _, label), rows)| MethodRow {
        claim,
        label,
        method: rows.first().map(|row| row.method.clone()).unwrap_or_default(),
        cells: budgets.iter().map(|budget| cell(&rows, budget)).collect(),
        solved: rows.iter().filter(|row| row.is_solved()).count(),
        limit: rows.iter().filter(|row| row.is_limited()).count(),
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

/// What a series comes to at a budget.
fn cell(rows: &[&Record], budget: &str) -> Cell {
    let of_budget: Vec<_> = rows.iter().copied().filter(|row| row.budget == budget).collect();
    if let Some(first) = of_budget.first() {
        let median = median(&of_budget);
        return match median.and_then(|row| row.overhead) {
            Some(overhead) => Cell::Overhead {
                overhead,
                stopped: median.is_some_and(stopped),
                solved: of_budget.iter().filter(|row| row.is_solved()).count(),
                seeds: of_budget.len(),
            },
            None => Cell::Reason(reason(first.termination)),
        };
    }
    let points: Vec<_> = rows.iter().filter(|row| row.budget.is_empty()).collect();
    let Some(first) = points.first() else { return Cell::Blank };
    let Some(limit) = budget.parse::<Budget>().ok().and_then(|budget| budget.resolve(first.store_all_peak)) else {
        return Cell::Blank;
    };
    let solved: Vec<_> = points.iter().filter(|row| row.is_solved()).collect();
    let within = solved.iter().filter(|row| row.simulated_peak.is_some_and(|peak| peak <= limit));
    let best = within.filter_map(|row| row.overhead).min_by(f64::total_cmp);
    match best {
        Some(overhead) => Cell::Overhead { overhead, stopped: false, solved: 1, seeds: 1 },
        None if solved.is_empty() => Cell::Reason(reason(first.termination)),
        None => Cell::Reason("none fits"),
    }
}

/// The lower median by simulated time of the rows with a schedule: those of several seeds, say.
pub fn median<'a>(rows: &[&'a Record]) -> Option<&'a Record> {
    let mut solved: Vec<_> = rows.iter().copied().filter(|row| row.is_solved()).collect();
    solved.sort_by_key(|row| row.simulated_time);
    solved.get(solved.len().saturating_sub(1) / 2).copied()
}

fn stopped(row: &Record) -> bool {
    matches!(
        row.termination,
        Ending::Ran(Termination::TimeLimit | Termination::CpuLimit | Termination::MemoryLimit | Termination::NodeLimit)
    )
}

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
pub fn render(table: &Table, format: Format, suite: Option<&Suite>) -> String {
    let analysis = suite.map_or(String::new(), |suite| format!("\n{}\n", suite.analysis.trim()));
    match format {
        Format::Text => text(table, output::width()) + &analysis,
        Format::Json => serde_json::to_string_pretty(&json_rows(table)).expect("numbers and texts always serialise"),
        Format::Md => format!("{CAPTION}\n\n{}{analysis}", grid(table).render(format)),
        Format::Latex => format!("% {CAPTION}\n{}", grid(table).render(format)),
        Format::Csv => grid(table).render(format),
    }
}

fn text(table: &Table, width: usize) -> String {
    let mut text = Vec::new();
    for instance in &table.instances {
        let mut header = vec!["claim", "method"];
        header.extend(table.budgets.iter().map(String::as_str));
        header.extend(["solved", "limit", "error"]);
        let mut grid = Grid::new(&header).numeric_from(2);
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

/// The columns after the method.
fn tail(row: &MethodRow) -> impl Iterator<Item = String> {
    let counts = [row.solved, row.limit, row.error].map(|count| count.to_string());
    row.cells.iter().map(|cell| cell.text()).chain(counts)
}

/// All instances in one grid.
pub fn grid(table: &Table) -> Grid {
    let mut header = vec!["instance", "claim", "method"];
    header.extend(table.budgets.iter().map(String::as_str));
    header.extend(["solved", "limit", "error"]);
    let mut grid = Grid::new(&header).numeric_from(3);
    for instance in &table.instances {
        grid.rule();
        for row in &instance.methods {
            let head = [instance.name.clone(), row.claim.to_string(), row.label.clone()];
            grid.row(head.into_iter().chain(tail(row)));
        }
    }
    grid
}

/// Like the grid, with numbers as numbers: `"overhead": {"0.5x": 0.123, "0.1x": "infeasible"}`.
fn json_rows(table: &Table) -> Vec<Value> {
    let mut rows = Vec::new();
    for instance in &table.instances {
        for row in &instance.methods {
            let cell = |cell: &Cell| match cell {
                Cell::Overhead { overhead, .. } => json!(overhead),
                Cell::Reason(reason) => json!(reason),
                Cell::Blank => Value::Null,
            };
            let overhead: Map<_, _> = table.budgets.iter().cloned().zip(row.cells.iter().map(cell)).collect();
            rows.push(json!({
                "instance": instance.name, "claim": row.claim, "method": row.label, "overhead": overhead,
                "solved": row.solved, "limit": row.limit, "error": row.error,
            }));
        }
    }
    rows
}

/// Breaks a text into lines.
pub fn wrap(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.len() + 1 + word.len() > width) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
