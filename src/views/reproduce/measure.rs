//! Our figure for a printed one, read off the records of runs.

use std::collections::{BTreeMap, HashMap};

use remat_core::Operator;
use remat_core::format::Phase;
use remat_core::io::read_instance;
use remat_formulations::{Spec, Termination};

use super::cells::last_part;
use super::quantity::Quantity;
use crate::ground::failure::Failure;
use crate::ground::format::three_digits;
use crate::ground::library::{Library, glob};
use crate::harness::baseline::{overhead_percent, ratio};
use crate::harness::records::batches::BatchRow;
use crate::harness::records::select::{AtBudget, at_budget, middle, series_label};
use crate::harness::records::{Ending, Key, Record};
use crate::views::aggregate::measures::{mean, shifted_geometric_mean};
use crate::views::published::PrintedFigure;
use crate::views::table::{ratios, reason};
use crate::views::trajectory::Trajectory;

/// What ours is.
#[derive(Clone, Debug, PartialEq)]
pub enum Ours {
    /// A number in the unit of the printed figure, and what to know about it.
    Value {
        /// The number.
        value: f64,
        /// What to know.
        note: String,
    },
    /// A method ran and has no schedule; why.
    None(String),
    /// What says it was not run in this pass.
    NotRun,
    /// It cannot be had; why.
    Missing(String),
}

impl Ours {
    fn plain(value: f64) -> Self {
        Self::Value { value, note: String::new() }
    }

    /// For a table.
    pub fn text(&self) -> String {
        match self {
            Self::Value { value, .. } if value.abs() >= 1000.0 => format!("{value:.0}"),
            Self::Value { value, .. } => three_digits(*value),
            Self::None(_) => "none".into(),
            Self::NotRun | Self::Missing(_) => String::new(),
        }
    }

    /// What to know about the number.
    pub fn note(&self) -> &str {
        if let Self::Value { note, .. } = self { note } else { "" }
    }
}

/// What runs left.
pub struct Evidence {
    library: Library,
    /// Rows.
    pub records: Vec<Record>,
    /// What was known when, of each row.
    pub trajectories: HashMap<Key, Trajectory>,
    /// Largest batches.
    pub batches: Vec<BatchRow>,
}

/// What the profiler calls the statistics of a batch norm that it splits.
const STATISTICS: &str = "remat_profiler.batch_norm_statistics";

impl Evidence {
    /// Nothing yet.
    pub fn new(library: Library) -> Self {
        Self { library, records: vec![], trajectories: HashMap::new(), batches: vec![] }
    }

    /// The rows of a method at its setting, by instance: of the settings that agree with what is given the one
    /// closest to the defaults.
    fn rows(&self, figure: &PrintedFigure) -> Result<BTreeMap<&str, Vec<&Record>>, Failure> {
        let spec: Spec = figure.method.parse().map_err(|error| {
            Failure::input(format!("{}, {}: method {:?}: {error}", figure.paper, figure.location, figure.method))
        })?;
        let pattern = glob(last_part(&figure.instance))?;
        let mut instances: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        for row in self.records.iter().filter(|row| pattern.matches_name(&row.instance)) {
            if is_of(row, &spec) {
                instances.entry(&row.instance).or_default().push(row);
            }
        }
        for rows in instances.values_mut() {
            let plainest = rows.iter().map(|row| series_label(row)).min_by_key(String::len);
            rows.retain(|row| Some(series_label(row)) == plainest);
        }
        Ok(instances)
    }
}

/// Whether a row is of a method with the parameters that are named.
pub fn is_of(row: &Record, spec: &Spec) -> bool {
    let pairs: Vec<_> = row.parameters.split(',').filter_map(|pair| pair.split_once('=')).collect();
    row.method == spec.id
        && spec.parameters.iter().all(|(name, value)| pairs.contains(&(name.as_str(), value.as_str())))
}

/// Our figures for a printed one, by instance: one, or one for each instance that its pattern matches.
///
/// # Errors
/// The figure names a method, an instance, a budget or a unit that is none.
pub fn ours(figure: &PrintedFigure, quantity: &Quantity, evidence: &Evidence) -> Result<Vec<(String, Ours)>, Failure> {
    match quantity {
        Quantity::Nodes | Quantity::Values | Quantity::ForwardOperators => {
            return Ok(vec![(figure.instance.clone(), of_graph(figure, quantity, evidence)?)]);
        }
        Quantity::Batch => return Ok(vec![(figure.instance.clone(), batch(figure, evidence)?)]),
        Quantity::Ratio => return mean_ratio(figure, evidence),
        _ => {}
    }
    let instances = evidence.rows(figure)?;
    if instances.is_empty() {
        return Ok(vec![(figure.instance.clone(), Ours::NotRun)]);
    }
    let over_all = match quantity {
        Quantity::MeanOverhead => Some(mean_change(figure, &instances, |row| Some(1.0 + row.overhead?), 1.0)),
        Quantity::MeanReduction => {
            let share = |row: &Record| ratio(row.simulated_peak?, row.store_all_peak);
            Some(mean_change(figure, &instances, share, -1.0))
        }
        Quantity::GainOver(other) => Some(mean_beside(figure, other, &instances, evidence, gain)?),
        Quantity::SpeedupOver(other) => Some(mean_beside(figure, other, &instances, evidence, speedup)?),
        _ => None,
    };
    if let Some(ours) = over_all {
        return Ok(vec![(figure.instance.clone(), ours)]);
    }
    let each =
        instances.into_iter().map(|(name, rows)| Ok((name.to_owned(), of_rows(figure, quantity, &rows, evidence)?)));
    each.collect()
}

/// A figure of one instance.
fn of_rows(
    figure: &PrintedFigure,
    quantity: &Quantity,
    rows: &[&Record],
    evidence: &Evidence,
) -> Result<Ours, Failure> {
    // A method that does not take the instance says nothing of how good it is.
    if let Some(row) = rows.first().filter(|_| rows.iter().all(|row| matches!(row.termination, Ending::Skipped(_)))) {
        return Ok(Ours::Missing(format!("skipped: {}", row.note)));
    }
    match quantity {
        Quantity::LeastPeakWithin(percent) => {
            let limit = f64::from(*percent) / 100.0;
            let cheap = rows.iter().filter(|row| row.is_solved() && row.overhead_default.is_some_and(|o| o <= limit));
            let least = cheap.filter_map(|row| row.simulated_peak).min();
            let none = || Ours::None(format!("no budget tried is met within {percent} %"));
            least.map_or_else(|| Ok(none()), |peak| Ok(Ours::plain(in_bytes(peak, &figure.unit)?)))
        }
        Quantity::LeastPeakRatio | Quantity::OverheadAtLeastPeak => Ok(at_least_peak(quantity, rows, evidence)),
        Quantity::CpuSeconds => {
            let seconds = cpu_seconds(rows);
            Ok(Ours::Value { value: seconds, note: "all budgets together".into() })
        }
        _ => match cell(rows, &figure.budget) {
            Cell::Row(row) => of_row(figure, quantity, row, evidence),
            Cell::None(why) => Ok(Ours::None(why)),
            Cell::Missing => Ok(Ours::NotRun),
        },
    }
}

/// What all processes used that some rows are from, in the order of their answers. A row has what its process had used until
/// then, so where it is less than the row before has, another process begins.
fn cpu_seconds(rows: &[&Record]) -> f64 {
    let is_last = |at: usize| rows.get(at + 1).is_none_or(|next| next.cpu_seconds < rows[at].cpu_seconds);
    (0..rows.len()).filter(|&at| is_last(at)).map(|at| rows[at].cpu_seconds).sum()
}

/// A figure of one row.
fn of_row(figure: &PrintedFigure, quantity: &Quantity, row: &Record, evidence: &Evidence) -> Result<Ours, Failure> {
    let time = row.simulated_time.unwrap_or(0) as f64;
    let peak = row.simulated_peak.unwrap_or(0);
    let percent = |share: Option<f64>| share.map_or(Ours::Missing("no such share".into()), |o| Ours::plain(100.0 * o));
    Ok(match quantity {
        Quantity::Time => Ours::plain(time / time_unit(&figure.unit)?),
        Quantity::Peak => Ours::plain(in_bytes(peak, &figure.unit)?),
        Quantity::PeakPercent => percent(ratio(peak, row.store_all_peak)),
        Quantity::Overhead => percent(row.overhead),
        Quantity::OverheadDefault => percent(row.overhead_default),
        Quantity::Throughput => match row.batch_size {
            Some(batch) if time > 0.0 => Ours::plain(batch as f64 * 1e9 / time),
            _ => Ours::Missing("the instance does not say how many samples it has".into()),
        },
        Quantity::HoursToGap(percent) => hours(row, evidence.trajectories.get(&row.key()), f64::from(*percent) / 100.0),
        _ => Ours::Missing("no figure of one row".into()),
    })
}

/// Planning time until schedule and bound were so close, from the trace of the run. A run that was asked for such a gap
/// under rules of its own has no bound for others to see: then the time at which it said that it was there.
fn hours(row: &Record, trajectory: Option<&Trajectory>, gap: f64) -> Ours {
    let planned = row.build_seconds.unwrap_or(0.0) + row.solve_seconds.unwrap_or(0.0);
    let asked = row.parameters.split(',').find_map(|pair| pair.strip_prefix("gap-ppm=")?.parse::<f64>().ok());
    let there = match row.termination {
        Ending::Ran(Termination::Optimal) => true,
        Ending::Ran(Termination::GapReached) => asked.is_some_and(|asked| asked <= 1e6 * gap),
        _ => false,
    };
    if let Some(seconds) = trajectory.and_then(|known| known.seconds_to_gap(gap)).or(there.then_some(planned)) {
        return Ours::Value { value: seconds / 3600.0, note: format!("{} s", three_digits(seconds)) };
    }
    let left = row.simulated_time.zip(row.lower_bound).map(|(time, bound)| 1.0 - bound as f64 / time.max(1) as f64);
    Ours::None(left.map_or_else(
        || format!("no schedule or no bound after {} s", three_digits(planned)),
        |left| format!("a gap of {} % is left after {} s", three_digits(100.0 * left), three_digits(planned)),
    ))
}

/// What a method has at a budget.
enum Cell<'a> {
    Row(&'a Record),
    None(String),
    Missing,
}

fn cell<'a>(rows: &[&'a Record], budget: &str) -> Cell<'a> {
    match at_budget(rows, budget) {
        None => Cell::Missing,
        Some(AtBudget::Seeds(seeds)) => match middle(&seeds) {
            Some(row) if row.is_solved() => Cell::Row(row),
            row => row.map_or(Cell::Missing, |row| Cell::None(why_none(row))),
        },
        Some(AtBudget::Points { all, best }) => best.map_or_else(
            || Cell::None(if all.iter().any(|row| row.is_solved()) { "none fits".into() } else { why_none(all[0]) }),
            Cell::Row,
        ),
    }
}

fn why_none(row: &Record) -> String {
    match row.termination {
        Ending::Ran(Termination::Error) => format!("error: {}", row.error),
        Ending::Skipped(_) => format!("skipped: {}", row.note),
        ending @ Ending::Ran(_) => reason(ending).into(),
    }
}

/// A figure of the schedule with the least peak, which is a share of store-all's with the framework's implementations.
fn at_least_peak(quantity: &Quantity, rows: &[&Record], evidence: &Evidence) -> Ours {
    let solved = rows.iter().filter(|row| row.is_solved() && row.simulated_peak.is_some());
    let Some(row) = solved.min_by_key(|row| (row.simulated_peak, row.simulated_time)) else {
        return Ours::None("no schedule at any budget tried".into());
    };
    let is_default = |other: &&Record| {
        (other.instance_hash == row.instance_hash && other.method == "store-all")
            && other.parameters == "implementations=default"
    };
    let default = evidence.records.iter().find(is_default).and_then(|row| row.simulated_peak);
    let Some(share) = row.simulated_peak.zip(default).and_then(|(peak, default)| ratio(peak, default)) else {
        return Ours::Missing(
            "its share is of the peak of store-all[implementations=default], which has no row or is 0".into(),
        );
    };
    match (quantity, row.overhead_default) {
        (Quantity::OverheadAtLeastPeak, Some(overhead)) => Ours::Value {
            value: 100.0 * overhead,
            note: format!("at {} of the peak of store-all with the framework's implementations", three_digits(share)),
        },
        _ => Ours::plain(share),
    }
}

/// The change of a geometric mean over instances, in per cent: `sign` 1 for more, -1 for less.
fn mean_change(
    figure: &PrintedFigure,
    instances: &BTreeMap<&str, Vec<&Record>>,
    share: impl Fn(&Record) -> Option<f64>,
    sign: f64,
) -> Ours {
    let of = |rows: &Vec<&Record>| match cell(rows, &figure.budget) {
        Cell::Row(row) => share(row),
        Cell::None(_) | Cell::Missing => None,
    };
    let shares: Vec<f64> = instances.values().filter_map(of).collect();
    let Some(mean) = shifted_geometric_mean(&shares, 0.0) else {
        return Ours::None("no instance has a schedule".into());
    };
    let note = format!("{} of {} instances have a schedule", shares.len(), instances.len());
    Ours::Value { value: 100.0 * sign * (mean - 1.0), note }
}

/// Throughput beyond another method's best at its memory, in per cent.
fn gain(rows: &[&Record], best: &Record, _budget: &str) -> Option<f64> {
    let fits = |row: &&&Record| row.is_solved() && row.simulated_peak <= best.simulated_peak;
    let fastest = rows.iter().filter(fits).filter_map(|row| row.simulated_time).min()?;
    overhead_percent(best.simulated_time?, fastest)
}

/// Another method's time over ours within the same budget.
fn speedup(rows: &[&Record], best: &Record, budget: &str) -> Option<f64> {
    let Cell::Row(ours) = cell(rows, budget) else { return None };
    ratio(best.simulated_time?, ours.simulated_time?)
}

/// The mean over instances of what our rows come to beside another method's at the budget.
fn mean_beside(
    figure: &PrintedFigure,
    other: &str,
    instances: &BTreeMap<&str, Vec<&Record>>,
    evidence: &Evidence,
    value: impl Fn(&[&Record], &Record, &str) -> Option<f64>,
) -> Result<Ours, Failure> {
    let others = evidence.rows(&PrintedFigure { method: other.to_owned(), ..figure.clone() })?;
    let mut values = Vec::new();
    for (name, rows) in instances {
        let Some(points) = others.get(name) else { continue };
        let Cell::Row(best) = cell(points, &figure.budget) else { continue };
        values.extend(value(rows, best, &figure.budget));
    }
    let Some(mean) = mean(&values) else {
        return Ok(Ours::Missing(format!("{} or {other} has no schedule to compare", figure.method)));
    };
    let note = if values.len() == 1 { String::new() } else { format!("mean of {} networks", values.len()) };
    Ok(Ours::Value { value: mean, note })
}

fn batch(figure: &PrintedFigure, evidence: &Evidence) -> Result<Ours, Failure> {
    let pattern = glob(last_part(&figure.instance))?;
    let asked = |row: &&BatchRow| row.method == figure.method && pattern.matches_name(last_part(&row.network));
    Ok(match evidence.batches.iter().find(asked) {
        None => Ours::NotRun,
        Some(BatchRow { largest: Some(largest), .. }) => Ours::plain(*largest as f64),
        Some(row) => Ours::None(row.note.clone()),
    })
}

fn mean_ratio(figure: &PrintedFigure, evidence: &Evidence) -> Result<Vec<(String, Ours)>, Failure> {
    let pattern = glob(last_part(&figure.instance))?;
    let rows: Vec<_> = evidence.records.iter().filter(|row| pattern.matches_name(&row.instance)).cloned().collect();
    let found = ratios::means(&rows, &figure.method).into_iter().map(|mean| {
        let between = mean.to_bound.filter(|bound| *bound > mean.to_best * 1.0005);
        let between =
            between.map_or(String::new(), |bound| format!("; at most {bound:.3}, for not all optima are proved"));
        let note = format!("{} of {} budgets{between}", mean.solved, mean.budgets);
        (mean.instance, Ours::Value { value: mean.to_best, note })
    });
    let mut found: Vec<_> = found.collect();
    if found.is_empty() {
        found.push((figure.instance.clone(), Ours::NotRun));
    }
    Ok(found)
}

/// Sizes of graphs, which need no run.
fn of_graph(figure: &PrintedFigure, quantity: &Quantity, evidence: &Evidence) -> Result<Ours, Failure> {
    let instance = read_instance(&evidence.library.find(&figure.instance)?)?;
    if *quantity == Quantity::ForwardOperators {
        // The statistics of a batch norm are an operator of their own where the profiler splits them off, and
        // a part of it in the paper.
        let counts = |operator: &&Operator| operator.phase == Phase::Forward && operator.op_type != STATISTICS;
        return Ok(Ours::plain(instance.operators().iter().filter(counts).count() as f64));
    }
    let word = if *quantity == Quantity::Nodes { "nodes" } else { "values" };
    let counted = instance.provenance().notes.iter().find_map(|note| number_before(note, word));
    Ok(counted.map_or_else(|| Ours::Missing("the instance has no note with the count".into()), Ours::plain))
}

/// `69` of "joint graph before folding: 69 nodes, 119 values (...)".
fn number_before(note: &str, word: &str) -> Option<f64> {
    let words: Vec<_> = note.strip_prefix("joint graph before folding:")?.split_whitespace().collect();
    let at = words.iter().position(|part| part.trim_end_matches(',') == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

fn in_bytes(bytes: u64, unit: &str) -> Result<f64, Failure> {
    let scale: u64 = match unit {
        "" => 1,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(Failure::input(format!("unit {unit:?} is no size; expected MB, GB, MiB, GiB or nothing"))),
    };
    Ok(bytes as f64 / scale as f64)
}

/// Nanoseconds in a unit of time.
fn time_unit(unit: &str) -> Result<f64, Failure> {
    match unit {
        "" | "ns" => Ok(1.0),
        "ms" => Ok(1e6),
        "s" => Ok(1e9),
        _ => Err(Failure::input(format!("unit {unit:?} is no time; expected ns, ms, s or nothing"))),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    /// Ours for a figure of the method `m` on the instance `net`.
    fn of_m(quantity: &Quantity, records: Vec<Record>) -> Ours {
        let figure = PrintedFigure {
            paper: "paper".into(),
            location: "Table 1".into(),
            instance: "net".into(),
            method: "m".into(),
            budget: String::new(),
            quantity: quantity.to_string(),
            printed: "1".into(),
            unit: String::new(),
            remark: String::new(),
        };
        let evidence = Evidence { records, ..Evidence::new(Library { root: "nowhere".into() }) };
        ours(&figure, quantity, &evidence).unwrap().remove(0).1
    }

    #[test]
    fn the_seconds_of_all_processes_count() {
        let rows = [0.5, 1.5, 2.75, 1.0].map(|cpu_seconds| Record { cpu_seconds, ..example("m", None) });
        assert!((cpu_seconds(&rows.each_ref()) - 3.75).abs() < 1e-9);
    }

    #[test]
    fn the_least_peak_is_a_share_of_what_store_all_needs_with_the_frameworks_implementations() {
        let store_all = |implementations: &str, peak| Record {
            parameters: format!("implementations={implementations}"),
            simulated_peak: Some(peak),
            store_all_peak: 100,
            ..example("store-all", None)
        };
        let at = |budget: &str, peak| Record {
            simulated_peak: Some(peak),
            store_all_peak: 100,
            overhead_default: Some(0.25),
            ..example("m", Some((budget, peak)))
        };
        let rows = vec![store_all("fastest", 100), store_all("default", 80), at("0.6x", 60), at("0.4x", 40)];
        assert_eq!(of_m(&Quantity::LeastPeakRatio, rows.clone()), Ours::plain(0.5));
        let overhead = of_m(&Quantity::OverheadAtLeastPeak, rows);
        assert_eq!((overhead.text().as_str(), overhead.note().starts_with("at 0.50 of the peak")), ("25.0", true));
        let without = of_m(&Quantity::LeastPeakRatio, vec![store_all("fastest", 100), at("0.4x", 40)]);
        assert!(matches!(&without, Ours::Missing(why) if why.contains("store-all[implementations=default]")));
    }

    #[test]
    fn where_store_all_has_no_peak_there_is_no_share_of_it() {
        let rows = vec![Record { store_all_peak: 0, ..example("m", None) }];
        assert_eq!(of_m(&Quantity::PeakPercent, rows.clone()), Ours::Missing("no such share".into()));
        assert!(matches!(of_m(&Quantity::MeanReduction, rows), Ours::None(_)));
    }
}
