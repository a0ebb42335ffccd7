//! Figures of recorded results, one per instance: throughput against peak memory, as in Figure 6 of
//! rotor-toms-2024, or overhead against budget, as in Checkmate's; and incumbents and bounds over time. The files choose
//! what is drawn; `figure.rs` draws it and knows no record.

pub mod addresses;
mod axis;
mod bars;
mod batches;
pub mod drawn;
mod executed;
mod figure;
mod gather;
mod legend;
pub mod library;
mod marks;
mod overall;
mod progress;
pub mod style;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use remat_core::format::{MemoryUnit, TimeUnit};

use crate::ground::failure::Failure;
use crate::ground::format::tick;
use crate::ground::names::figure_name;
use crate::harness::baseline::{overhead_percent, ratio};
use crate::harness::records::Record;
use crate::harness::records::select::{by_instance, median, series_label};
use crate::harness::replay;
use crate::harness::run::job::Point;
use crate::harness::suite::{Curves, Suite, SuiteDevice};
use crate::views::aggregate::Arena;
use crate::views::trajectory;
use axis::{Axis, memory_unit};
use figure::{Device, Figure, Joined, Series};
use gather::{Gathered, merge_equal, points_of};

/// A figure and where it belongs.
pub struct Named {
    /// The instance that it is about; empty for one about all of them.
    pub instance: String,
    /// Path of the files, without the ending.
    pub file: String,
    /// The figure.
    pub figure: Figure,
}

/// The figures of some rows: over all cases, then per instance the curves that the suite asks for, and
/// progress per budget.
///
/// # Errors
/// A trace in `results`, the folder of the rows, cannot be read.
pub fn figures(records: &[Record], suite: Option<&Suite>, results: &Path) -> Result<Vec<Named>, Failure> {
    let curves = suite.map(|suite| suite.curves).unwrap_or_default();
    let device = suite.and_then(|suite| suite.device.as_ref());
    let trajectories = trajectory::read_all(records, results)?;
    let mut figures = overall::figures(&Arena::new(records, &trajectories));
    figures.extend(over_instances(records, curves).unwrap_or_default());
    let of: HashMap<_, _> = records.iter().map(std::ptr::from_ref).zip(&trajectories).collect();
    for (name, rows) in by_instance(records) {
        figures.extend(figure_of(&name, &rows, curves, device));
        let known: Vec<_> = rows.iter().map(|&row| (row, of[&std::ptr::from_ref(row)])).collect();
        figures.extend(progress::figures(&name, &known));
    }
    Ok(figures)
}

/// Figures over several instances, where such are asked for: by budget, or by network.
fn over_instances(records: &[Record], curves: Curves) -> Option<Vec<Named>> {
    match curves {
        Curves::BarsAtBudgets => Some(bars::figures(records)),
        Curves::TimeAgainstBatch => Some(batches::figures(records)),
        Curves::ThroughputAgainstPeak | Curves::OverheadAgainstBudget => None,
    }
}

/// The curves alone: a figure per instance that has a point, or those over several instances.
pub fn curves(records: &[Record], curves: Curves, device: Option<&SuiteDevice>) -> Vec<Named> {
    if let Some(figures) = over_instances(records, curves) {
        return figures;
    }
    by_instance(records).iter().filter_map(|(name, rows)| figure_of(name, rows, curves, device)).collect()
}

/// Quality over the seconds of one run, as SVG; none where no schedule and no bound is known.
///
/// # Errors
/// What the drawing library says.
pub fn progress_of(row: &Record, trace: &[Point]) -> Option<Result<String, String>> {
    let figure = progress::of_run(row, &trajectory::of_row(row, trace), trace)?;
    Some(figure.svg())
}

/// Writes every figure as SVG and PNG, and those of what was executed; returns how many.
///
/// # Errors
/// As [`figures`]; executions cannot be read, or the folder or a file cannot be written.
pub fn write_all(records: &[Record], suite: Option<&Suite>, results: &Path, folder: &Path) -> Result<usize, Failure> {
    let executed = replay::read(results)?;
    let mut figures = figures(records, suite, results)?;
    figures.extend(executed::figures(records, &executed));
    write(&figures, folder)
}

/// Writes figures into a folder; returns how many.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write(figures: &[Named], folder: &Path) -> Result<usize, Failure> {
    for named in figures {
        let path = folder.join(&named.file);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(Failure::cannot("write the plots", folder))?;
        named.figure.write(&path).map_err(Failure::cannot("write the plots", folder))?;
    }
    Ok(figures.len())
}

const GIB: u64 = 1 << 30;

/// Points this many times slower than the fastest are left out of the figure, which says so.
const SLOW: f64 = 3.0;
/// The same of throughputs, where slow schedules take little of the axis.
const SLOW_THROUGHPUT: f64 = 2.0;

/// Label of an axis of [`overhead_percent`].
const OVERHEAD: &str = "Overhead over store-all (%)";

/// What one unit of the vertical axis is.
#[derive(Clone, Copy, PartialEq)]
enum Vertical {
    /// Images per second.
    Throughput(f64),
    /// Time over store-all's.
    RelativeTime(u64),
    /// Time beyond store-all's, in per cent of it.
    Overhead(u64),
}

impl Vertical {
    fn of(row: &Record, curves: Curves) -> Self {
        if curves != Curves::ThroughputAgainstPeak {
            return Self::Overhead(row.store_all_time);
        }
        match (row.batch_size, row.time_unit) {
            (Some(batch), TimeUnit::Ns) => Self::Throughput(batch as f64 * 1e9),
            _ => Self::RelativeTime(row.store_all_time),
        }
    }
    fn value(self, time: u64) -> Option<f64> {
        match self {
            Self::Throughput(images) => Some(images / time as f64).filter(|value| value.is_finite()),
            Self::RelativeTime(reference) => ratio(time, reference),
            Self::Overhead(reference) => overhead_percent(time, reference),
        }
    }
    /// Drops points so slow that the differences between all others would be lost; returns how many.
    fn hide_outliers(self, series: &mut [Series]) -> usize {
        let (low, high) = points_of(series)
            .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), point| (low.min(point.1), high.max(point.1)));
        let too_slow = |value: f64| match self {
            Self::Throughput(_) => value * SLOW_THROUGHPUT < high,
            Self::RelativeTime(_) => value > low * SLOW,
            Self::Overhead(_) => value + 100.0 > (low + 100.0) * SLOW,
        };
        let before = points_of(series).count();
        for series in series.iter_mut() {
            series.points.retain(|point| !too_slow(point.1));
        }
        before - points_of(series).count()
    }
    fn label(self) -> &'static str {
        match self {
            Self::Throughput(_) => "Throughput (images/s)",
            Self::RelativeTime(_) => "Time (relative to store-all)",
            Self::Overhead(_) => OVERHEAD,
        }
    }
}

/// The curves of an instance; none where it has no point.
fn figure_of(name: &str, rows: &[&Record], curves: Curves, device: Option<&SuiteDevice>) -> Option<Named> {
    let first = rows.first()?;
    let vertical = Vertical::of(first, curves);
    let (scale, unit) = memory_unit(first.memory_unit, first.store_all_peak);
    // A device says nothing about abstract bytes.
    let device = device.filter(|_| first.memory_unit == MemoryUnit::Bytes);
    let fits =
        |row: &&Record| row.method != "store-all" || device.is_none_or(|d| row.simulated_peak <= Some(d.memory.0));
    let rows: Vec<&Record> = rows.iter().copied().filter(fits).collect();
    let mut gathered = curves_of(&rows, curves, vertical, scale);
    let hidden = vertical.hide_outliers(gathered.series());
    for series in gathered.series() {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.points.dedup();
    }
    let series = merge_equal(gathered.finish());
    if series.is_empty() {
        return None;
    }
    let figure = Figure {
        title: name.into(),
        subtitle: subtitle(first, device, hidden),
        // From zero: memory is compared by ratio. Times are not: the differences are what the figure is about.
        horizontal: Axis::from_zero(curves.horizontal(unit), points_of(&series).map(|point| point.0)),
        vertical: Axis::around(vertical.label(), points_of(&series).map(|point| point.1)),
        device: device.map(|device| Device {
            name: device.name.clone(),
            size: format!("{} GiB", tick(device.memory.0 as f64 / GIB as f64)),
            memory: device.memory.0 as f64 / scale,
        }),
        series,
    };
    Some(Named { file: figure_name(name), instance: name.into(), figure })
}

/// The points of each setting in the units of the axes, of several seeds the median, and the budgets at which it has none.
fn curves_of(rows: &[&Record], curves: Curves, vertical: Vertical, scale: f64) -> Gathered {
    let mut settings: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for row in rows {
        settings.entry((&row.method, &row.parameters, &row.budget)).or_default().push(row);
    }
    let mut gathered = Gathered::default();
    for rows in settings.into_values() {
        let middle = median(&rows);
        let row = middle.unwrap_or(rows[0]);
        // A method that ignores budgets is a set of points.
        let joined = if row.budget_size.is_some() { Joined::Lines } else { Joined::No };
        let series = gathered.of(&row.method, series_label(row), joined);
        let memory = row.budget_size.filter(|_| curves != Curves::ThroughputAgainstPeak).or(row.simulated_peak);
        match middle.and_then(|row| vertical.value(row.simulated_time?)).zip(memory) {
            Some((value, memory)) => series.points.push((memory as f64 / scale, value)),
            None => series.gaps.extend(row.budget_size.map(|size| size as f64 / scale)),
        }
    }
    gathered
}

/// What the reader must know about store-all.
fn subtitle(row: &Record, device: Option<&SuiteDevice>, hidden: usize) -> String {
    let peak = crate::ground::format::bytes(row.store_all_peak, row.memory_unit);
    let hidden = match hidden {
        0 => String::new(),
        1 => "; 1 point is off the scale".into(),
        count => format!("; {count} points are off the scale"),
    };
    match device {
        Some(device) if row.store_all_peak > device.memory.0 => {
            format!("{} times; store-all needs {peak}: too much for the {}, not drawn{hidden}", row.times, device.name)
        }
        _ => format!("{} times; store-all needs {peak}{hidden}", row.times),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    fn row(method: &str, budget: (&'static str, u64), time: Option<u64>) -> Record {
        let record = example(method, Some(budget));
        Record { simulated_time: time, store_all_time: 1000, simulated_peak: Some(budget.1), ..record }
    }

    fn drawn(rows: &[Record]) -> Figure {
        let rows: Vec<&Record> = rows.iter().collect();
        figure_of("net", &rows, Curves::OverheadAgainstBudget, None).unwrap().figure
    }

    #[test]
    fn slow_points_are_left_out_beside_fast_ones_but_never_all() {
        let slow = [row("revolve", ("0.1x", 1), Some(4000)), row("fastsa", ("0.1x", 1), Some(3500))];
        let figure = drawn(&slow);
        assert_eq!(figure.series.len(), 2);
        assert!(figure.vertical.range.contains(&300.0) && !figure.subtitle.contains("scale"), "{}", figure.subtitle);
        let [one, other] = slow;
        let figure = drawn(&[one, other, row("monet", ("0.5x", 5), Some(1100))]);
        assert_eq!(figure.series.iter().map(|series| series.label.as_str()).collect::<Vec<_>>(), ["monet"]);
        assert!(figure.subtitle.ends_with("; 2 points are off the scale"), "{}", figure.subtitle);
    }

    #[test]
    fn a_line_is_broken_at_a_budget_without_a_schedule() {
        let budgets = [("0.4x", 4), ("0.5x", 5), ("0.6x", 6), ("0.7x", 7)];
        let rows = budgets.map(|budget| row("revolve", budget, (budget.1 != 6).then_some(1200)));
        let pieces: Vec<usize> = drawn(&rows).series[0].pieces().map(<[_]>::len).collect();
        assert_eq!(pieces, [2, 1]);
    }

    #[test]
    fn figures_replace_files_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.svg"), "old").unwrap();
        let old = std::fs::File::open(folder.path().join("net.svg")).unwrap();
        drawn(&[row("revolve", ("0.5x", 5), Some(1200))]).write(&folder.path().join("net")).unwrap();
        // Whoever reads the old file still has it.
        assert_eq!(std::io::read_to_string(old).unwrap(), "old");
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.count(), 2);
    }
}
