//! Time of an iteration against the batch, one figure per network and memory, as in Figure 3 of
//! kusumoto-neurips-2019: what store-all needs more memory for than there is goes on as a curve of its own.

use std::collections::BTreeSet;

use remat_core::format::TimeUnit;

use super::axis::Axis;
use super::figure::{Figure, Joined, Series};
use super::{Named, medians, points_of, set_apart, style};
use crate::ground::names::file_name;
use crate::harness::records::Record;
use crate::harness::records::select::{by_instance, rank, series_label};

/// The rows of one network, at all its batches.
struct Network<'a> {
    name: String,
    rows: Vec<&'a Record>,
}

/// A figure for each network and budget at which some method has a schedule.
pub fn figures(records: &[Record]) -> Vec<Named> {
    let mut networks: Vec<Network<'_>> = Vec::new();
    for (instance, rows) in by_instance(records) {
        let name = network(&instance);
        let rows = medians(&rows).into_iter().filter(|row| row.simulated_time.is_some() && row.batch_size.is_some());
        match networks.iter_mut().find(|network| network.name == name) {
            Some(network) => network.rows.extend(rows),
            None => networks.push(Network { name: name.into(), rows: rows.collect() }),
        }
    }
    networks.iter().flat_map(of_network).collect()
}

/// An instance's name without its batch: `resnet50-224` of `resnet50-224-b96`.
fn network(instance: &str) -> &str {
    match instance.rsplit_once("-b") {
        Some((network, batch)) if batch.parse::<u64>().is_ok() => network,
        _ => instance,
    }
}

fn of_network(network: &Network<'_>) -> Vec<Named> {
    let budgets: BTreeSet<(&str, u64)> =
        network.rows.iter().filter_map(|row| Some((row.budget.as_str(), row.budget_size?))).collect();
    let several = budgets.len() > 1;
    budgets.into_iter().map(|budget| at_budget(network, budget, several)).collect()
}

fn at_budget(network: &Network<'_>, (budget, bytes): (&str, u64), several: bool) -> Named {
    let mut series: Vec<Series> = Vec::new();
    let in_seconds = network.rows.iter().all(|row| row.time_unit == TimeUnit::Ns);
    let (unit, name_of_unit) = if in_seconds { (1e9, "s") } else { (1.0, "abstract units") };
    for row in network.rows.iter().filter(|row| row.budget_size.is_none_or(|other| other == bytes)) {
        let (Some(time), Some(batch)) = (row.simulated_time, row.batch_size) else { continue };
        // A method that knows no budget shows how long it would take if there were more.
        let beyond = row.simulated_peak.is_some_and(|peak| peak > bytes);
        let label = series_label(row) + if beyond { ", more memory" } else { "" };
        let at = series.iter().position(|series| series.label == label).unwrap_or_else(|| {
            let style = style::of(&row.method, series.len());
            let order = rank(&row.method);
            series.push(Series { secondary: beyond, ..Series::new(label, order, style, Joined::Lines) });
            series.len() - 1
        });
        series[at].points.push((batch as f64, time as f64 / unit));
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series.sort_by_key(|series| (series.order, series.secondary, series.label.len()));
    set_apart(&mut series);
    let name = &network.name;
    // An instance of the same name has the plain file.
    let several = several || network.rows.iter().any(|row| row.instance == *name);
    Named {
        instance: String::new(),
        file: file_name(&if several { format!("{name}@{budget}") } else { name.clone() }),
        figure: Figure {
            title: name.clone(),
            subtitle: format!("within {budget}; what needs more memory has a curve of its own"),
            horizontal: Axis::from_zero("Batch (images)", points_of(&series).map(|point| point.0)),
            vertical: Axis::from_zero(
                format!("Time of an iteration ({name_of_unit})"),
                points_of(&series).map(|point| point.1),
            ),
            device: None,
            series,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    fn row(batch: u64, method: &str, budget: Option<(&'static str, u64)>, time: u64, peak: u64) -> Record {
        Record {
            instance: format!("net-224-b{batch}"),
            batch_size: Some(batch),
            simulated_time: Some(time),
            simulated_peak: Some(peak),
            ..example(method, budget)
        }
    }

    #[test]
    fn batches_of_a_network_share_a_figure_in_which_what_needs_more_memory_is_a_curve_of_its_own() {
        let memory = Some(("10B", 10));
        let rows = [
            row(16, "rotor-persistent", memory, 3_000_000_000, 9),
            row(4, "store-all", None, 500_000_000, 5),
            row(8, "store-all", None, 1_000_000_000, 10),
            row(16, "store-all", None, 2_000_000_000, 20),
            row(8, "rotor-persistent", memory, 1_000_000_000, 10),
        ];
        let figures = figures(&rows);
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].file, "net-224");
        let curves: Vec<_> = figures[0].figure.series.iter().map(|s| (s.label.as_str(), s.points.clone())).collect();
        assert_eq!(
            curves,
            [
                ("store-all", vec![(4.0, 0.5), (8.0, 1.0)]),
                ("store-all, more memory", vec![(16.0, 2.0)]),
                ("rotor-persistent", vec![(8.0, 1.0), (16.0, 3.0)])
            ]
        );
        assert_eq!(network("unet-416x608-b11"), "unet-416x608");
        assert_eq!(network("layered-n250"), "layered-n250");
    }
}
