//! Figures of what was executed: claimed, simulated and executed time and peak of the same schedules, one
//! figure per instance and device. Times are relative to store-all's, each to its own kind's: an instance whose
//! times are modelled for another device has the right shape at most.

use std::collections::BTreeSet;

use remat_core::format::MemoryUnit;

use super::Named;
use super::axis::{Axis, memory_unit};
use super::figure::{Figure, Joined, Series};
use super::gather::points_of;
use super::style::{self, Marker, Style};
use crate::ground::names::file_name;
use crate::harness::baseline::ratio;
use crate::harness::records::Record;
use crate::harness::records::select::{by_instance, rank, series_label};
use crate::harness::replay::Execution;

/// NAME-executed-DEVICE for every instance and device with an execution.
pub fn figures(records: &[Record], executed: &[Execution]) -> Vec<Named> {
    let devices: BTreeSet<&str> = executed.iter().map(|execution| execution.device.as_str()).collect();
    let mut figures = Vec::new();
    for (name, rows) in by_instance(records) {
        for device in &devices {
            let Some(figure) = figure_of(&name, &rows, executed, device) else { continue };
            let file = file_name(&format!("{name}-executed-{device}"));
            figures.push(Named { instance: name.clone(), file, figure });
        }
    }
    figures
}

/// The three points of a row's schedule.
struct Triple<'a> {
    row: &'a Record,
    claimed: Option<(f64, f64)>,
    simulated: (f64, f64),
    executed: (f64, f64),
}

fn figure_of(name: &str, rows: &[&Record], executed: &[Execution], device: &str) -> Option<Figure> {
    let first = rows.first()?;
    if first.memory_unit == MemoryUnit::Abstract {
        return None;
    }
    let (scale, unit) = memory_unit(first.memory_unit, first.store_all_peak);
    let here: Vec<&Execution> = executed.iter().filter(|execution| execution.device == device).collect();
    let find = |row: &Record| here.iter().find(|execution| execution.is_of(row)).copied();
    let store_all = rows.iter().filter(|row| row.method == "store-all").find_map(|row| find(row)?.executed_time_ns)?;
    let triples: Vec<_> = rows.iter().filter_map(|row| triple(row, find(row)?, store_all, scale)).collect();
    let series = series(&triples);
    let device_name = here.iter().map(|execution| execution.device_name.as_str()).find(|name| !name.is_empty())?;
    (!series.is_empty()).then(|| Figure {
        title: name.into(),
        subtitle: format!("executed on {device_name}; simulated with {} times", first.times),
        horizontal: Axis::around(format!("Peak memory ({unit})"), points_of(&series).map(|point| point.0)),
        vertical: Axis::around(
            "Time (relative to store-all, of the same kind)",
            points_of(&series).map(|point| point.1),
        ),
        device: None,
        series,
    })
}

fn triple<'a>(row: &'a Record, execution: &Execution, store_all: u64, scale: f64) -> Option<Triple<'a>> {
    let bytes = |bytes: u64| bytes as f64 / scale;
    let simulated = |peak: u64, time: u64| Some((bytes(peak), ratio(time, row.store_all_time)?));
    Some(Triple {
        row,
        claimed: row.claimed_peak.zip(row.claimed_time).and_then(|(peak, time)| simulated(peak, time)),
        simulated: simulated(row.simulated_peak?, row.simulated_time?)?,
        executed: (bytes(execution.executed_peak_bytes?), execution.over_store_all(Some(store_all))?),
    })
}

/// Three series for each label: claimed as crosses, simulated in the method's look, executed hollow and dashed.
fn series(triples: &[Triple<'_>]) -> Vec<Series> {
    let mut labels: Vec<(String, &Record)> = Vec::new();
    for Triple { row, .. } in triples {
        let label = series_label(row);
        if !labels.iter().any(|(known, _)| *known == label) {
            labels.push((label, row));
        }
    }
    labels.sort_by_key(|(_, first)| rank(&first.method));
    let mut all = Vec::new();
    for (label, first) in labels {
        let own = || triples.iter().filter(|triple| series_label(triple.row) == label);
        let claimed = own().filter_map(|triple| triple.claimed.filter(|&point| point != triple.simulated));
        let (order, style) = (rank(&first.method), style::of(&first.method));
        let cross = Style { marker: Marker::Cross, ..style };
        let joined = if first.budget_size.is_some() { Joined::Lines } else { Joined::No };
        let kinds = [
            ("", style, false, joined, own().map(|triple| triple.simulated).collect()),
            (" claimed", cross, false, Joined::No, claimed.collect::<Vec<_>>()),
            (" executed", style, true, joined, own().map(|triple| triple.executed).collect()),
        ];
        for (words, style, secondary, joined, mut points) in kinds {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup();
            if !points.is_empty() {
                let label = format!("{label}{words}");
                all.push(Series { secondary, points, ..Series::new(label, order, style, joined) });
            }
        }
    }
    all
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::write;
    use super::*;
    use crate::harness::records::tests::example;
    use crate::harness::replay::tests::execution;

    #[test]
    fn a_schedule_has_its_claimed_simulated_and_executed_point() {
        let mut rows = vec![example("store-all", None), example("revolve", Some(("0.5x", 1 << 29)))];
        rows[1].simulated_time = Some(1_500_000);
        rows[1].claimed_time = Some(1_600_000);
        let executed =
            [execution("store-all", "", 4_000_000, 3 << 30), execution("revolve", "0.5x", 8_000_000, 2 << 30)];
        let all: Vec<&Record> = rows.iter().collect();
        let figure = figure_of("net", &all, &executed, "cpu");
        assert!(figure.is_none(), "no device has a name");
        let named = executed.map(|execution| Execution { device_name: "A".into(), ..execution });
        let figure = figure_of("net", &all, &named, "cpu").unwrap();
        let points: Vec<_> =
            figure.series.iter().map(|series| (series.label.as_str(), series.points.clone())).collect();
        let expected = [
            ("store-all", vec![(1.0, 1.0)]),
            ("store-all executed", vec![(3.0, 1.0)]),
            ("revolve", vec![(1.0, 1.5)]),
            ("revolve claimed", vec![(1.0, 1.6)]),
            ("revolve executed", vec![(2.0, 2.0)]),
        ];
        assert_eq!(points, expected);
        assert!(figure_of("net", &all, &named, "cuda").is_none());
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write(&figures(&rows, &named), folder.path()).unwrap(), 1);
        assert!(folder.path().join("net-executed-cpu.svg").is_file());
    }

    #[test]
    fn where_store_all_takes_no_time_nothing_is_relative_to_it() {
        let row = Record { store_all_time: 0, ..example("store-all", None) };
        let executed = Execution { device_name: "A".into(), ..execution("store-all", "", 4_000_000, 3 << 30) };
        assert!(figure_of("net", &[&row], &[executed], "cpu").is_none());
    }
}
