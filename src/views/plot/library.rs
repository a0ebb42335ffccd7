//! Figures of the library: best-known times and bounds of a network, and how much is proved.

use remat_core::format::MemoryUnit;

use super::axis::{Axis, Scale};
use super::figure::{Figure, Joined, Series};
use super::{GIB, Named, merge_equal, points_of, style};
use crate::ground::names::figure_name;
use crate::ground::size::Budget;
use crate::harness::baseline::{Baseline, overhead};
use crate::harness::best::{CLASSES, Entry, Status};

/// Overhead against memory of one network: the best-known schedules of each class, and below them the bounds.
pub fn network(entries: &[&Entry], baseline: &Baseline) -> Option<Named> {
    let first = entries.first()?;
    let (scale, unit) = match first.memory_unit {
        MemoryUnit::Abstract => (1.0, "unit of the instance"),
        MemoryUnit::Bytes if baseline.peak_bytes < GIB => ((1u64 << 20) as f64, "MiB"),
        MemoryUnit::Bytes => (GIB as f64, "GiB"),
    };
    let mut series = Vec::new();
    for (order, (name, class)) in CLASSES.into_iter().enumerate() {
        let points = |value: fn(&Entry) -> Option<u64>| {
            let of_class = entries.iter().filter(|entry| entry.class == class);
            let point = |entry: &&Entry| {
                let part = overhead(value(entry)?, baseline.time)?;
                Some((entry.budget_size as f64 / scale, 100.0 * part))
            };
            of_class.filter_map(point).collect::<Vec<_>>()
        };
        let look = style::turn(order);
        let best = Series::new(name.into(), 2 * order, look, Joined::Lines);
        let bound = Series::new(format!("{name}, bound"), 2 * order + 1, look, Joined::Lines);
        series.push(Series { points: points(|entry| entry.time), ..best });
        series.push(Series { points: points(|entry| entry.bound), secondary: true, ..bound });
    }
    series.retain(|series| !series.points.is_empty());
    let series = merge_equal(series);
    if series.is_empty() {
        return None;
    }
    Some(Named {
        instance: first.instance.clone(),
        file: figure_name(&first.instance),
        figure: Figure {
            title: first.instance.clone(),
            subtitle: "best-known schedules, and bounds below which there is none".into(),
            horizontal: Axis::from_zero(format!("Memory budget ({unit})"), points_of(&series).map(|point| point.0)),
            vertical: Axis::around("Overhead over store-all (%)", points_of(&series).map(|point| point.1)),
            device: None,
            series,
        },
    })
}

/// The share of cases that are proved, against the budget as a part of store-all's peak.
pub fn proved(entries: &[Entry]) -> Option<Named> {
    let percent = |entry: &Entry| Some(100.0 * entry.budget.parse::<Budget>().ok()?.fraction()?);
    let mut budgets: Vec<f64> = entries.iter().filter_map(percent).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    let mut series = Vec::new();
    for (order, (name, class)) in CLASSES.into_iter().enumerate() {
        let point = |&budget: &f64| {
            let here = |entry: &&Entry| entry.class == class && percent(entry) == Some(budget);
            let all = entries.iter().filter(here).count();
            let open = entries.iter().filter(here).filter(|entry| entry.status == Status::Open).count();
            (all > 0).then(|| (budget, 100.0 * (all - open) as f64 / all as f64))
        };
        let points: Vec<_> = budgets.iter().filter_map(point).collect();
        if !points.is_empty() {
            series.push(Series { points, ..Series::new(name.into(), order, style::turn(order), Joined::Lines) });
        }
    }
    let (&low, &high) = (budgets.first()?, budgets.last()?);
    Some(Named {
        instance: String::new(),
        file: "proved".into(),
        figure: Figure {
            title: "What is proved".into(),
            subtitle: "cases solved or infeasible, of all with that budget".into(),
            horizontal: Axis::fixed("Memory budget (% of store-all's peak)", low - 3.0..high + 3.0, Scale::Linear),
            vertical: Axis::fixed("Cases proved (%)", 0.0..103.0, Scale::Linear),
            device: None,
            series: merge_equal(series),
        },
    })
}
