//! Figures of the library: best-known times and bounds of a network, how much is proved, and how wide the gaps are.

use super::axis::{Axis, Scale, memory_unit};
use super::figure::{Figure, Joined, Series};
use super::gather::{merge_equal, points_of};
use super::{Named, OVERHEAD, style};
use crate::ground::names::figure_name;
use crate::ground::size::Budget;
use crate::harness::baseline::{Baseline, overhead_percent};
use crate::harness::best::{CLASSES, Entry, Status};

/// Overhead against memory of one network: the best-known schedules of each class, and below them the bounds. Both are
/// steps: a schedule holds at larger budgets, a bound at smaller ones, and nothing is known in between.
pub fn network(entries: &[&Entry], baseline: &Baseline) -> Option<Named> {
    let first = entries.first()?;
    let (scale, unit) = memory_unit(first.memory_unit, baseline.peak_bytes);
    let place = |entry: &&Entry| entry.budget_size as f64 / scale;
    let feasible = entries.iter().filter(|entry| entry.status != Status::Infeasible);
    let least = feasible.map(place).fold(f64::INFINITY, f64::min);
    let largest = entries.iter().map(place).fold(0.0, f64::max);
    let mut series = Vec::new();
    for (order, (name, class)) in CLASSES.into_iter().enumerate() {
        let points = |value: fn(&Entry) -> Option<u64>| {
            let of_class = entries.iter().filter(|entry| entry.class == class);
            let point = |entry: &&Entry| Some((place(entry), overhead_percent(value(entry)?, baseline.time)?));
            let mut points: Vec<_> = of_class.filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let mut best = points(|entry| entry.time);
        best.extend(best.last().map(|last| (largest, last.1)));
        for at in 1..best.len() {
            best[at].1 = best[at].1.min(best[at - 1].1);
        }
        let mut bound = points(|entry| entry.bound);
        bound.splice(0..0, bound.first().map(|first| (least, first.1)));
        for at in (1..bound.len()).rev() {
            bound[at - 1].1 = bound[at - 1].1.max(bound[at].1);
        }
        let look = style::turn(order);
        let schedules = Series::new(name.into(), 2 * order, look, Joined::Steps);
        let bounds = Series::new(format!("{name}, bound"), 2 * order + 1, look, Joined::StepsBack);
        series.push(Series { points: best, ..schedules });
        series.push(Series { points: bound, secondary: true, ..bounds });
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
            vertical: Axis::around(OVERHEAD, points_of(&series).map(|point| point.1)),
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

/// Gaps on the horizontal axis of [`gaps`], in per cent; what is nearer to its bound counts from the left end on.
const GAPS: (f64, f64) = (0.01, 100.0);

/// How many cases have a schedule within a gap of the best proved bound, for each class. Of the library as a whole it is
/// the share of the cases that are not infeasible; of a part of it, such as the schedules of one method, the number.
pub fn gaps(entries: &[&Entry], whole: bool) -> Option<Named> {
    let mut series = Vec::new();
    for (order, (name, class)) in CLASSES.into_iter().enumerate() {
        let here: Vec<&&Entry> = entries.iter().filter(|entry| entry.class == class).collect();
        let feasible = here.iter().filter(|entry| entry.status != Status::Infeasible).count();
        let mut gaps: Vec<f64> = here.iter().filter_map(|entry| entry.gap).filter(|&gap| gap <= GAPS.1).collect();
        gaps.sort_by(f64::total_cmp);
        if gaps.is_empty() {
            continue;
        }
        let height = |cases: usize| if whole { 100.0 * cases as f64 / feasible.max(1) as f64 } else { cases as f64 };
        let mut points = vec![(GAPS.0, height(gaps.iter().filter(|&&gap| gap <= GAPS.0).count()))];
        let beyond = gaps.iter().enumerate().filter(|&(_, &gap)| gap > GAPS.0);
        points.extend(beyond.map(|(at, &gap)| (gap, height(at + 1))));
        points.push((GAPS.1, height(gaps.len())));
        series.push(Series { points, ..Series::new(name.into(), order, style::turn(order), Joined::Steps) });
    }
    let highest = points_of(&series).map(|point| point.1).fold(0.0, f64::max);
    let (label, top) =
        if whole { ("Cases within the gap (%)", 103.0) } else { ("Cases within the gap", 1.05 * highest) };
    (highest > 0.0).then(|| Named {
        instance: String::new(),
        file: "gaps".into(),
        figure: Figure {
            title: "How near the bounds are".into(),
            subtitle: if whole { "of all cases that are not proved infeasible" } else { "best-known schedules" }.into(),
            horizontal: Axis::fixed("Gap to the best proved bound (%)", GAPS.0..GAPS.1, Scale::Logarithmic),
            vertical: Axis::fixed(label, 0.0..top, Scale::Linear),
            device: None,
            series: merge_equal(series),
        },
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::best::entry;

    fn with(gap: Option<f64>, status: Status) -> Entry {
        Entry { status, gap, ..entry(CLASSES[0].1, 1) }
    }

    #[test]
    fn gaps_count_cases_that_may_have_a_schedule() {
        let entries = [
            with(Some(0.0), Status::Solved),
            with(Some(2.0), Status::Open),
            with(None, Status::Open),
            with(None, Status::Infeasible),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        let points = |whole| gaps(&entries, whole).unwrap().figure.series.remove(0).points;
        assert_eq!(points(false), [(0.01, 1.0), (2.0, 2.0), (100.0, 2.0)]);
        let third = 100.0 / 3.0;
        assert_eq!(points(true), [(0.01, third), (2.0, 2.0 * third), (100.0, 2.0 * third)]);
        assert!(gaps(&entries[2..], true).is_none(), "nothing has a gap");
    }

    #[test]
    fn schedules_hold_at_larger_budgets_and_bounds_at_smaller_ones() {
        let at = |budget_size: u64, time: Option<u64>, bound: Option<u64>| Entry {
            budget_size,
            time,
            bound,
            ..entry(CLASSES[0].1, budget_size)
        };
        let entries = [at(20, Some(130), Some(105)), at(10, Some(120), None), at(30, None, Some(100))];
        let entries: Vec<&Entry> = entries.iter().collect();
        let baseline = Baseline { time: 100, peak_bytes: 40, default_time: 100, default_peak_bytes: 40 };
        let series = network(&entries, &baseline).unwrap().figure.series;
        let rounded = |at: usize| series[at].points.iter().map(|point| (point.0, point.1.round())).collect::<Vec<_>>();
        assert_eq!(rounded(0), [(10.0, 20.0), (20.0, 20.0), (30.0, 20.0)]);
        assert_eq!(rounded(1), [(10.0, 5.0), (20.0, 5.0), (30.0, 0.0)]);
        assert_eq!((series[0].joined, series[1].joined), (Joined::Steps, Joined::StepsBack));
    }
}
