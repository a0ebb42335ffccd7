//! Bars over all instances at one budget: what time a method takes beyond store-all's, and what memory of it, as in
//! Figures 4, 10 and 11 of fastsa-2023 and Figure 4 of monet-iclr-2021.

use std::collections::BTreeSet;

use super::axis::Axis;
use super::figure::{Figure, Joined};
use super::gather::{Gathered, as_bars, by_series, points_of, row_at_budget};
use super::{Named, OVERHEAD};
use crate::ground::names::file_name;
use crate::harness::baseline::overhead_percent;
use crate::harness::records::Record;
use crate::harness::records::select::by_instance;

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

    fn title(self) -> &'static str {
        match self {
            Self::Overhead => "Overhead",
            Self::Memory => "Peak memory",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Overhead => OVERHEAD,
            Self::Memory => "Peak memory (% of store-all's)",
        }
    }

    fn value(self, row: &Record) -> Option<f64> {
        match self {
            Self::Overhead => overhead_percent(row.simulated_time?, row.store_all_time),
            Self::Memory => overhead_percent(row.simulated_peak?, row.store_all_peak).map(|beyond| beyond + 100.0),
        }
    }
}

/// Two figures for each budget at which some method has a schedule.
pub fn figures(records: &[Record]) -> Vec<Named> {
    let instances = by_instance(records);
    let solved = records.iter().filter(|row| row.is_solved() && !row.budget.is_empty());
    let budgets: BTreeSet<&str> = solved.map(|row| row.budget.as_str()).collect();
    let at = |budget| [Length::Overhead, Length::Memory].map(|length| figure(&instances, budget, length));
    budgets.into_iter().flat_map(at).collect()
}

fn figure(instances: &[(String, Vec<&Record>)], budget: &str, length: Length) -> Named {
    let (mut names, mut gathered) = (Vec::new(), Gathered::default());
    for (name, rows) in instances {
        let series = by_series(rows);
        let found = series.iter().filter_map(|(label, rows)| Some((label, row_at_budget(rows, budget)?)));
        let found: Vec<_> = found.filter_map(|(label, row)| Some((label, row, length.value(row)?))).collect();
        for (label, row, value) in &found {
            let series = gathered.of(&row.method, (*label).clone(), Joined::No);
            series.points.push((*value, -(names.len() as f64)));
        }
        names.extend((!found.is_empty()).then(|| name.clone()));
    }
    let series = as_bars(gathered.finish());
    Named {
        instance: String::new(),
        file: file_name(&format!("{}@{budget}", length.name())),
        figure: Figure {
            title: format!("{} at budget {budget}", length.title()),
            subtitle:
                "a bar is missing where the method has no schedule within the budget; of several seeds the median"
                    .into(),
            horizontal: Axis::from_zero(length.label(), points_of(&series).map(|point| point.0)),
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
    fn a_method_that_ignores_budgets_has_the_bar_of_its_fastest_schedule_within_them() {
        let point = |parameters: &str, time, peak| {
            let row = row("a", "sequential", ("", 0), Some(time));
            let (budget, budget_size) = (String::new(), None);
            let (store_all_peak, simulated_peak) = (100, Some(peak));
            Record { parameters: parameters.into(), budget, budget_size, store_all_peak, simulated_peak, ..row }
        };
        let rows = [
            point("segments=1", 120, 50),
            point("segments=2", 150, 30),
            point("segments=3", 105, 90),
            row("a", "revolve", ("0.5x", 50), Some(130)),
        ];
        let figures = figures(&rows);
        let bars: Vec<_> = figures[0].figure.series.iter().map(|s| (s.label.as_str(), s.points[0].0.round())).collect();
        assert_eq!(bars, [("sequential", 20.0), ("revolve", 30.0)]);
        let titles: Vec<_> = figures.iter().map(|named| named.figure.title.as_str()).collect();
        assert_eq!(titles, ["Overhead at budget 0.5x", "Peak memory at budget 0.5x"]);
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
