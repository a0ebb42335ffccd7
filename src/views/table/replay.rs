//! The table of what replays found: per device and method, how far the simulator's time and peak are from the
//! framework's.
//!
//! Errors are percentages of the measured value: the mean of their magnitudes, and with their signs (above 0: the
//! simulator says more than was measured). Executions that failed or differ are counted, and have no errors.

use crate::ground::grid::Grid;
use crate::harness::baseline::{overhead_percent, ratio};
use crate::harness::records::Record;
use crate::harness::records::select::{label, rank};
use crate::harness::replay::Execution;
use crate::views::aggregate::Table;
use crate::views::aggregate::measures::mean;

const CAPTION: &str = "Simulated against executed, in % of executed: mean of the magnitudes, and mean with sign \
(above 0: the simulator says more). equal: gradients, loss and buffers are those of the framework's own iteration. \
The framework's peak contains scratch memory, \
which an instance whose workspaces are not measured does not. Times of instances whose times are modelled for another \
device say nothing here: their ratio to store-all does (relative time: each over store-all's, both sides; on a CPU, whose \
speed changes within minutes, the two run in turn).";

/// What the executions of one method on one device add up to.
#[derive(Debug, PartialEq)]
struct Line {
    device: String,
    label: String,
    rank: usize,
    executions: usize,
    equal: usize,
    time: Vec<f64>,
    relative_time: Vec<f64>,
    peak: Vec<f64>,
}

/// What a line of the table is about, on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// A method.
    Method,
    /// An instance, over all methods.
    Instance,
}

/// The table.
pub fn table(records: &[Record], executed: &[Execution], group: Group) -> Table {
    let (title, head) = match group {
        Group::Method => ("Simulated against executed, by method", "method"),
        Group::Instance => ("Simulated against executed, by network", "network"),
    };
    Table { title, caption: CAPTION.into(), grid: grid(&lines(records, executed, group), head) }
}

fn lines(records: &[Record], executed: &[Execution], group: Group) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for execution in executed {
        let Some(row) = records.iter().rfind(|row| execution.is_of(row)) else { continue };
        let label = if group == Group::Method { label(&row.method, "") } else { row.instance.clone() };
        let at = lines.iter().position(|line| line.label == label && line.device == execution.device);
        let at = at.unwrap_or_else(|| {
            lines.push(Line {
                device: execution.device.clone(),
                label,
                rank: if group == Group::Method { rank(&row.method) } else { 0 },
                executions: 0,
                equal: 0,
                time: vec![],
                relative_time: vec![],
                peak: vec![],
            });
            lines.len() - 1
        });
        lines[at].count(execution, row, over_store_all(execution, row, executed));
    }
    lines.sort_by(|a, b| (&a.device, a.rank).cmp(&(&b.device, b.rank)));
    lines
}

/// Times over store-all's on the same instance and device, simulated and measured.
fn over_store_all(execution: &Execution, row: &Record, executed: &[Execution]) -> Option<(f64, f64)> {
    let same = |other: &&Execution| {
        other.method == "store-all"
            && (&other.instance_hash, &other.device) == (&execution.instance_hash, &execution.device)
    };
    let store_all = executed.iter().find(same).and_then(|other| other.executed_time_ns);
    let simulated = || ratio(row.simulated_time?, row.store_all_time);
    execution.simulated_over_store_all.or_else(simulated).zip(execution.over_store_all(store_all))
}

impl Line {
    fn count(&mut self, execution: &Execution, row: &Record, over_store_all: Option<(f64, f64)>) {
        self.executions += 1;
        if execution.executed_equal == Some(false) {
            return;
        }
        self.equal += usize::from(execution.executed_equal == Some(true));
        self.time.extend(error(row.simulated_time, execution.executed_time_ns));
        self.peak.extend(error(row.simulated_peak, execution.executed_peak_bytes));
        let pair = over_store_all.filter(|(_, measured)| *measured > 0.0);
        self.relative_time.extend(pair.map(|(simulated, measured)| 100.0 * (simulated / measured - 1.0)));
    }
}

/// Per cent by which the simulated value is above the measured one.
fn error(simulated: Option<u64>, measured: Option<u64>) -> Option<f64> {
    overhead_percent(simulated?, measured?)
}

fn grid(lines: &[Line], head: &str) -> Grid {
    let header = [
        "device",
        head,
        "executions",
        "equal",
        "time MAPE",
        "time",
        "relative time MAPE",
        "relative time",
        "peak MAPE",
        "peak",
    ];
    let mut grid = Grid::new(header).numeric_from(2);
    for line in lines {
        let mut cells = vec![line.device.clone(), line.label.clone()];
        cells.extend([line.executions, line.equal].map(|number| number.to_string()));
        for errors in [&line.time, &line.relative_time, &line.peak] {
            let magnitudes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
            let means = [mean(&magnitudes), mean(errors)];
            cells.extend(means.map(|mean| mean.map_or(String::new(), |mean| format!("{mean:.1}"))));
        }
        grid.row(cells);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::format::Format;
    use crate::harness::records::tests::example;
    use crate::harness::replay::tests::execution;

    #[test]
    fn errors_are_per_cent_of_what_was_measured() {
        let mut rows = vec![
            example("store-all", None),
            example("revolve", Some(("0.5x", 7))),
            example("revolve", Some(("0.6x", 8))),
        ];
        rows[1].simulated_time = Some(1_500_000);
        rows[2].simulated_time = Some(1_200_000);
        let peak = 1 << 30;
        let executed = [
            execution("store-all", "", 2_000_000, peak),
            execution("revolve", "0.5x", 2_000_000, 2 * peak),
            execution("revolve", "0.6x", 1_000_000, peak),
            execution("pytorch:plain", "", 1, 1),
        ];
        let lines = lines(&rows, &executed, Group::Method);
        assert_eq!(lines.iter().map(|line| line.label.as_str()).collect::<Vec<_>>(), ["store-all", "revolve"]);
        let expected = "device,method,executions,equal,time MAPE,time,relative time MAPE,relative time,peak MAPE,peak\n\
                        cpu,store-all,1,1,50.0,-50.0,0.0,0.0,0.0,0.0\n\
                        cpu,revolve,2,2,22.5,-2.5,95.0,95.0,25.0,-25.0\n";
        assert_eq!(table(&rows, &executed, Group::Method).render(Format::Csv), expected);
        assert_eq!(table(&rows, &executed, Group::Instance).grid.rows()[0][1..3], ["net", "3"]);
    }

    #[test]
    fn a_time_taken_in_turn_with_store_alls_goes_before_one_of_another_minute() {
        let rows = [example("store-all", None), example("revolve", Some(("0.5x", 7)))];
        let mut executed = [execution("store-all", "", 1_000_000, 1), execution("revolve", "0.5x", 2_000_000, 1)];
        let relative = |executed: &[Execution]| lines(&rows, executed, Group::Method)[1].relative_time.clone();
        assert_eq!(relative(&executed), [-50.0]);
        (executed[1].simulated_over_store_all, executed[1].executed_over_store_all) = (Some(1.5), Some(1.25));
        assert!((relative(&executed)[0] - 20.0).abs() < 1e-9);
    }

    #[test]
    fn where_store_all_takes_no_time_no_error_is_relative_to_it() {
        let row = Record { store_all_time: 0, ..example("store-all", None) };
        let lines = lines(&[row], &[execution("store-all", "", 1_000_000, 1)], Group::Method);
        assert_eq!((lines[0].time.len(), lines[0].relative_time.len()), (1, 0));
    }

    #[test]
    fn executions_that_differ_or_failed_are_counted_without_errors() {
        let rows = [example("store-all", None)];
        let mut different = execution("store-all", "", 1, 1);
        different.executed_equal = Some(false);
        let lines = lines(&rows, &[different], Group::Method);
        assert_eq!((lines[0].executions, lines[0].equal, lines[0].time.len(), lines[0].peak.len()), (1, 0, 0, 0));
    }
}
