//! Bars over all instances at one budget: what time a method takes beyond store-all's, and what memory of it, as in
//! Figures 4, 10 and 11 of fastsa-2023 and Figure 4 of monet-iclr-2021.

use std::collections::BTreeSet;

use super::axis::Axis;
use super::figure::{Figure, Joined, Series};
use super::{Named, medians, set_apart, style};
use crate::ground::names::file_name;
use crate::harness::records::Record;
use crate::harness::records::select::{by_instance, rank, series_label};

/// What a bar is as long as.
#[derive(Clone, Copy)]
enum Length {
    Overhead,
    Memory,
}

impl Length {
    fn name(self) -> &'static str {
        match self {
            Self::Overhead => "overhead",
            Self::Memory => "memory",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Overhead => "Overhead over store-all (%)",
            Self::Memory => "Peak memory (% of store-all's)",
        }
    }

    fn value(self, row: &Record) -> Option<f64> {
        let (ours, of_store_all) = match self {
            Self::Overhead => (row.simulated_time?, row.store_all_time),
            Self::Memory => (row.simulated_peak?, row.store_all_peak),
        };
        let beyond = if matches!(self, Self::Overhead) { 1.0 } else { 0.0 };
        Some(100.0 * (ours as f64 / of_store_all as f64 - beyond)).filter(|value| value.is_finite())
    }
}

/// The rows of each instance that have a schedule.
type OfInstances<'a> = [(String, Vec<&'a Record>)];

/// Two figures for each budget at which some method has a schedule.
pub fn figures(records: &[Record]) -> Vec<Named> {
    let mut all = by_instance(records);
    for (_, rows) in &mut all {
        rows.retain(|row| row.simulated_time.is_some() && !row.budget.is_empty());
    }
    let budgets: BTreeSet<&str> = all.iter().flat_map(|(_, rows)| rows.iter().map(|row| row.budget.as_str())).collect();
    let at = |budget| [Length::Overhead, Length::Memory].map(|length| figure(&all, budget, length));
    budgets.into_iter().flat_map(at).collect()
}

fn at_budget<'a>(rows: &[&'a Record], budget: &str) -> Vec<&'a Record> {
    medians(&rows.iter().copied().filter(|row| row.budget == budget).collect::<Vec<_>>())
}

fn figure(all: &OfInstances<'_>, budget: &str, length: Length) -> Named {
    let rows: Vec<&Record> = all.iter().flat_map(|(_, rows)| at_budget(rows, budget)).collect();
    let with_row = |name: &String| rows.iter().any(|row| row.instance == *name);
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).filter(with_row).collect();
    let labels: BTreeSet<(usize, String)> = rows.iter().map(|row| (rank(&row.method), series_label(row))).collect();
    let width = 0.84 / labels.len().max(1) as f64;
    let mut series: Vec<Series> = Vec::new();
    for (order, label) in labels {
        let of: Vec<&Record> = rows.iter().copied().filter(|row| series_label(row) == label).collect();
        let Some(first) = of.first() else { continue };
        let style = style::of(&first.method, series.len());
        let up = 0.42 - width * (series.len() as f64 + 0.5);
        let place = |row: &Record| names.iter().position(|name| *name == row.instance).map(|at| up - at as f64);
        let points = of.iter().filter_map(|&row| Some((length.value(row)?, place(row)?))).collect();
        series.push(Series { points, ..Series::new(label, order, style, Joined::Bars { width }) });
    }
    set_apart(&mut series);
    let values = series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
    let horizontal = Axis::from_zero(length.label(), values);
    Named {
        instance: String::new(),
        file: file_name(&format!("{}@{budget}", length.name())),
        figure: Figure {
            title: format!("Budget {budget}"),
            subtitle: "a bar is missing where the method has no schedule; of several seeds the median".into(),
            horizontal,
            vertical: Axis::of_names(names),
            device: None,
            series,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    fn row(instance: &str, method: &str, budget: (&'static str, u64), time: Option<u64>) -> Record {
        Record { instance: instance.into(), simulated_time: time, store_all_time: 100, ..example(method, Some(budget)) }
    }

    #[test]
    fn a_figure_for_each_budget_has_a_bar_for_each_schedule() {
        let half = ("0.5x", 5);
        let rows = [
            row("a", "revolve", half, Some(130)),
            row("a", "rotor-persistent", half, Some(110)),
            row("b", "revolve", half, Some(120)),
            row("b", "rotor-persistent", half, None),
            row("b", "revolve", ("1x", 10), None),
        ];
        let figures = figures(&rows);
        let files: Vec<_> = figures.iter().map(|named| named.file.as_str()).collect();
        assert_eq!(files, ["overhead@0.5x", "memory@0.5x"]);
        let figure = &figures[0].figure;
        assert_eq!(figure.vertical.names, ["a", "b"]);
        let lengths = |at: usize| figure.series[at].points.iter().map(|point| point.0.round()).collect::<Vec<f64>>();
        assert_eq!((lengths(0), lengths(1)), (vec![30.0, 20.0], vec![10.0]));
        // The bars of a name are around its place, those of different methods apart.
        let places: Vec<f64> = figure.series.iter().map(|series| series.points[0].1).collect();
        assert!(places[0] > 0.0 && places[1] < 0.0 && places.iter().all(|place| place.abs() < 0.5));
        assert!(figure.series[0].points[1].1 < -0.5);
    }
}
