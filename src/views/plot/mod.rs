//! Figures of recorded results, one per instance: throughput against peak memory, as in Figure 6 of
//! rotor-toms-2024, or overhead against budget, as in Checkmate's; and incumbents and bounds over time. The files choose
//! what is drawn; `figure.rs` draws it and knows no record.

pub mod addresses;
mod axis;
mod bars;
mod batches;
pub mod drawn;
pub mod executed;
mod figure;
mod legend;
pub mod library;
mod marks;
mod overall;
mod progress;
pub mod style;

use std::collections::BTreeMap;
use std::path::Path;

use remat_core::format::{MemoryUnit, TimeUnit};

use crate::ground::failure::Failure;
use crate::ground::names::figure_name;
use crate::harness::records::Record;
use crate::harness::records::select::{by_instance, median, rank, series_label};
use crate::harness::run::job::Point;
use crate::harness::suite::{Curves, Suite, SuiteDevice};
use crate::views::aggregate::Arena;
use crate::views::trajectory;
use axis::Axis;
pub use axis::tick;
use figure::{Device, Figure, Joined, Series};

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
    for (name, rows) in by_instance(records) {
        if let Some(figure) = figure_of(&name, &rows, curves, device) {
            figures.push(Named { file: figure_name(&name), instance: name.clone(), figure });
        }
        let of = |row: &Record| records.iter().position(|other| std::ptr::eq(other, row)).map(|at| &trajectories[at]);
        let known: Vec<_> = rows.iter().filter_map(|&row| Some((row, of(row)?))).collect();
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
    let figure = |(name, rows): (String, Vec<&Record>)| {
        let figure = figure_of(&name, &rows, curves, device)?;
        Some(Named { file: figure_name(&name), instance: name, figure })
    };
    by_instance(records).into_iter().filter_map(figure).collect()
}

/// Quality over the seconds of one run, as SVG; none where no schedule and no bound is known.
///
/// # Errors
/// What the drawing library says.
pub fn progress_of(row: &Record, trace: &[Point]) -> Option<Result<String, String>> {
    let figure = progress::of_run(row, &trajectory::of_row(row, trace), trace)?;
    Some(figure.svg())
}

/// Writes every figure as SVG and PNG; returns how many.
///
/// # Errors
/// As [`figures`]; the folder or a file cannot be written.
pub fn write_all(records: &[Record], suite: Option<&Suite>, results: &Path, folder: &Path) -> Result<usize, Failure> {
    write(&figures(records, suite, results)?, folder)
}

/// Writes figures into a folder; returns how many.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write(figures: &[Named], folder: &Path) -> Result<usize, Failure> {
    let failed = |error: String| Failure::failed(format!("{}: cannot write the plots: {error}", folder.display()));
    for named in figures {
        let path = folder.join(&named.file);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| failed(error.to_string()))?;
        named.figure.write(&path).map_err(&failed)?;
    }
    Ok(figures.len())
}

const GIB: u64 = 1 << 30;

/// Points this many times slower than the fastest are left out of the figure, which says so.
const SLOW: f64 = 3.0;
/// The same of throughputs, where slow schedules take little of the axis.
const SLOW_THROUGHPUT: f64 = 2.0;

/// What one unit of the vertical axis is.
#[derive(Clone, Copy, PartialEq)]
enum Vertical {
    /// Images per second.
    Throughput(f64),
    /// Time over store-all's.
    RelativeTime(f64),
    /// Time beyond store-all's, in per cent of it.
    Overhead(f64),
}

impl Vertical {
    fn of(row: &Record, curves: Curves) -> Self {
        if curves != Curves::ThroughputAgainstPeak {
            return Self::Overhead(row.store_all_time as f64);
        }
        match (row.batch_size, row.time_unit) {
            (Some(batch), TimeUnit::Ns) => Self::Throughput(batch as f64 * 1e9),
            _ => Self::RelativeTime(row.store_all_time as f64),
        }
    }
    fn value(self, time: u64) -> Option<f64> {
        let time = time as f64;
        let value = match self {
            Self::Throughput(images) => images / time,
            Self::RelativeTime(reference) => time / reference,
            Self::Overhead(reference) => 100.0 * (time / reference - 1.0),
        };
        value.is_finite().then_some(value)
    }
    /// Drops points so slow that the differences between all others would be lost; returns how many.
    fn hide_outliers(self, series: &mut [Series]) -> usize {
        let values = series.iter().flat_map(|series| &series.points).map(|point| point.1);
        let (low, high) = values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)));
        let too_slow = |value: f64| match self {
            Self::Throughput(_) => value * SLOW_THROUGHPUT < high,
            Self::RelativeTime(_) => value > low * SLOW,
            Self::Overhead(_) => value > 100.0 * (SLOW - 1.0),
        };
        let count = |series: &[Series]| series.iter().map(|series| series.points.len()).sum::<usize>();
        let before = count(series);
        for series in series.iter_mut() {
            series.points.retain(|point| !too_slow(point.1));
        }
        before - count(series)
    }
    fn label(self) -> &'static str {
        match self {
            Self::Throughput(_) => "Throughput (images/s)",
            Self::RelativeTime(_) => "Time (relative to store-all)",
            Self::Overhead(_) => "Overhead over store-all (%)",
        }
    }
}

fn figure_of(name: &str, rows: &[&Record], curves: Curves, device: Option<&SuiteDevice>) -> Option<Figure> {
    let first = rows.first()?;
    let vertical = Vertical::of(first, curves);
    let (scale, unit) = match first.memory_unit {
        MemoryUnit::Abstract => (1.0, "unit of the instance"),
        MemoryUnit::Bytes if first.store_all_peak < GIB => ((1u64 << 20) as f64, "MiB"),
        MemoryUnit::Bytes => (GIB as f64, "GiB"),
    };
    // A device says nothing about abstract bytes.
    let device = device.filter(|_| first.memory_unit == MemoryUnit::Bytes);
    let fits =
        |row: &Record| row.method != "store-all" || device.is_none_or(|d| row.simulated_peak <= Some(d.memory.0));
    let points: Vec<&Record> = medians(rows).into_iter().filter(|row| fits(row)).collect();
    let mut series = curves_of(&points, curves, vertical, scale);
    let hidden = vertical.hide_outliers(&mut series);
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.points.dedup();
    }
    // The shorter label is the one with fewer parameters that are not at their defaults.
    series.sort_by_key(|series| (series.order, series.label.len()));
    set_apart(&mut series);
    let series = merge_equal(series);
    if series.is_empty() {
        return None;
    }
    Some(Figure {
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
    })
}

/// The points of each setting, in the units of the axes.
fn curves_of(rows: &[&Record], curves: Curves, vertical: Vertical, scale: f64) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let memory = row.budget_size.filter(|_| curves != Curves::ThroughputAgainstPeak).or(row.simulated_peak);
        let (Some(time), Some(memory)) = (row.simulated_time, memory) else { continue };
        let Some(value) = vertical.value(time) else { continue };
        let label = series_label(row);
        let at = series.iter().position(|series| series.label == label).unwrap_or_else(|| {
            let style = style::of(&row.method, series.len());
            // A method that ignores budgets is a set of points.
            let joined = if row.budget_size.is_some() { Joined::Lines } else { Joined::No };
            series.push(Series::new(label, rank(&row.method), style, joined));
            series.len() - 1
        });
        series[at].points.push((memory as f64 / scale, value));
    }
    series
}

/// Of the settings of one method, which stand together, the first has the full look.
fn set_apart(series: &mut [Series]) {
    let mut others = 0;
    for index in 1..series.len() {
        let same = series[index].order == series[index - 1].order;
        others = if same { others + 1 } else { 0 };
        series[index].secondary |= same;
        series[index].style = series[index].style.of_setting(others);
    }
}

fn points_of(series: &[Series]) -> impl Iterator<Item = (f64, f64)> {
    series.iter().flat_map(|series| series.points.iter().copied())
}

/// Series with the very same points become one, for the last drawn would hide the others.
fn merge_equal(series: Vec<Series>) -> Vec<Series> {
    let mut merged: Vec<Series> = Vec::with_capacity(series.len());
    for one in series {
        match merged.iter_mut().find(|other| same_points(other, &one)) {
            Some(equal) => equal.also.push(one.label),
            None => merged.push(one),
        }
    }
    merged
}

fn same_points(one: &Series, other: &Series) -> bool {
    !one.points.is_empty() && (&one.points, one.joined) == (&other.points, other.joined)
}

/// One row per setting and budget that has a schedule: of several seeds the median.
fn medians<'a>(rows: &[&'a Record]) -> Vec<&'a Record> {
    let mut settings: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for row in rows {
        settings.entry((&row.method, &row.parameters, &row.budget)).or_default().push(row);
    }
    settings.values().filter_map(|rows| median(rows)).collect()
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
