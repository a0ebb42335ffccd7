//! Time of an iteration against the batch, one figure per network and memory, as in Figure 3 of
//! kusumoto-neurips-2019: what store-all needs more memory for than there is goes on as a curve of its own.

use std::collections::BTreeSet;

use remat_core::format::TimeUnit;

use super::Named;
use super::axis::Axis;
use super::figure::{Figure, Joined};
use super::gather::{Gathered, by_series, merge_equal, points_of, row_at_budget};
use crate::ground::names::{figure_name, file_name};
use crate::harness::records::Record;
use crate::harness::records::select::{self, AtBudget, by_instance};

/// The rows of one network, by batch.
struct Network<'a> {
    name: String,
    batches: Vec<Vec<&'a Record>>,
}

/// A figure for each network and budget at which some method has a schedule.
pub fn figures(records: &[Record]) -> Vec<Named> {
    let mut networks: Vec<Network<'_>> = Vec::new();
    for (instance, rows) in by_instance(records) {
        let name = network(&instance);
        match networks.iter_mut().find(|network| network.name == name) {
            Some(network) => network.batches.push(rows),
            None => networks.push(Network { name: name.into(), batches: vec![rows] }),
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
    let solved = network.batches.iter().flatten().filter(|row| row.is_solved() && row.batch_size.is_some());
    let budgets: BTreeSet<&str> = solved.map(|row| row.budget.as_str()).filter(|budget| !budget.is_empty()).collect();
    // An instance of the same name has the plain file.
    let several = budgets.len() > 1 || network.batches.iter().flatten().any(|row| row.instance == network.name);
    budgets.into_iter().map(|budget| figure(network, budget, several)).collect()
}

/// The time of a series at a batch, and whether it needs more memory than there is: a method that knows no budget shows
/// how long it would take if there were more.
fn time_of(rows: &[&Record], budget: &str) -> Option<(u64, bool)> {
    if let Some(row) = row_at_budget(rows, budget) {
        return Some((row.simulated_time?, false));
    }
    let AtBudget::Points { all, .. } = select::at_budget(rows, budget)? else { return None };
    let solved = all.into_iter().filter(|row| row.is_solved());
    Some((solved.filter_map(|row| row.simulated_time).min()?, true))
}

fn figure(network: &Network<'_>, budget: &str, several: bool) -> Named {
    let in_seconds = network.batches.iter().flatten().all(|row| row.time_unit == TimeUnit::Ns);
    let (unit, name_of_unit) = if in_seconds { (1e9, "s") } else { (1.0, "abstract units") };
    let mut gathered = Gathered::default();
    for (label, rows) in network.batches.iter().flat_map(|rows| by_series(rows)) {
        let (method, Some(batch)) = (&rows[0].method, rows[0].batch_size) else { continue };
        let batch = batch as f64;
        let Some((time, beyond)) = time_of(&rows, budget) else {
            gathered.of(method, label, Joined::Lines).gaps.push(batch);
            continue;
        };
        let series = gathered.of(method, label + if beyond { ", more memory" } else { "" }, Joined::Lines);
        series.secondary = beyond;
        series.points.push((batch, time as f64 / unit));
    }
    let mut series = gathered.finish();
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let series = merge_equal(series);
    let name = &network.name;
    Named {
        instance: String::new(),
        file: if several { file_name(&format!("{name}@{budget}")) } else { figure_name(name) },
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

    #[test]
    fn a_fraction_of_store_alls_peak_is_another_size_at_each_batch() {
        let rows: Vec<_> = [8, 16, 32]
            .into_iter()
            .flat_map(|batch| {
                let store_all_peak = 10 * batch;
                let own = row(batch, "revolve", Some(("0.5x", 5 * batch)), 3_000_000_000, 5 * batch);
                let same = Record { method: "monet".into(), ..own.clone() };
                let mut failed = Record { method: "fastsa".into(), ..own.clone() };
                failed.simulated_time = failed.simulated_time.filter(|_| batch != 16);
                let ignorant = row(batch, "store-all", None, 1_000_000_000, if batch == 8 { 40 } else { 10 * batch });
                [own, same, failed, ignorant].map(|row| Record { store_all_peak, ..row })
            })
            .collect();
        let figures = figures(&rows);
        assert_eq!(figures.iter().map(|named| named.file.as_str()).collect::<Vec<_>>(), ["net-224"]);
        let series = &figures[0].figure.series;
        let curves: Vec<_> = series.iter().map(|s| (s.label.as_str(), s.points.len(), s.also.clone())).collect();
        let also = vec!["monet".to_owned()];
        assert_eq!(
            curves,
            [
                ("store-all", 1, vec![]),
                ("store-all, more memory", 2, vec![]),
                ("revolve", 3, also),
                ("fastsa", 2, vec![])
            ]
        );
        assert_eq!(series[3].pieces().count(), 2, "no line leads across a batch without a schedule");
    }

    #[test]
    fn no_network_takes_the_name_of_another_kind_of_figure() {
        let rows = [8, 16].map(|batch| Record {
            instance: format!("performance-profile-b{batch}"),
            ..row(batch, "revolve", Some(("10B", 10)), 1, 5)
        });
        assert_ne!(figures(&rows)[0].file, "performance-profile");
    }
}
