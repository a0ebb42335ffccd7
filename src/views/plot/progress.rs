//! Incumbent and bound over planning time: one figure per instance and budget at which a method reported any progress.
//!
//! Lines hold until something better is known and end with their run. Dotted lines are proved lower bounds,
//! each within its method's own class of schedules, so a bound may lie above another method's incumbent.

use std::collections::BTreeMap;

use super::axis::{Axis, Scale};
use super::figure::{Figure, Joined, Series};
use super::gather::{Gathered, arranged};
use super::{Named, OVERHEAD, SLOW};
use crate::ground::names::file_name;
use crate::harness::baseline::overhead_percent;
use crate::harness::records::Record;
use crate::harness::records::select::{median, rank, series_label};
use crate::harness::run::job::Point;
use crate::views::trajectory::{Step, Trajectory};

/// Nothing on a logarithmic axis lies left of this many seconds.
pub const FIRST_SECOND: f64 = 1e-3;
/// Points of a line beyond which some are left out, close to their neighbours as they are.
const MOST_POINTS: usize = 400;

/// The figures of one instance: rows with their trajectories.
pub fn figures(name: &str, rows: &[(&Record, &Trajectory)]) -> Vec<Named> {
    let mut budgets: BTreeMap<(u64, &str), Vec<(&Record, &Trajectory)>> = BTreeMap::new();
    for &(row, trajectory) in rows {
        if let Some(bytes) = row.budget_size {
            budgets.entry((bytes, &row.budget)).or_default().push((row, trajectory));
        }
    }
    let figures = budgets.into_iter().filter_map(|((_, budget), rows)| {
        let file = format!("progress/{}", file_name(&format!("{name}@{budget}")));
        Some(Named { instance: name.into(), file, figure: figure(name, budget, &rows)? })
    });
    figures.collect()
}

/// The figure of one run, with the method that found each incumbent where it was another one; none where nothing is known.
pub fn of_run(row: &Record, trajectory: &Trajectory, trace: &[Point]) -> Option<Figure> {
    let mut figure = drawn(&row.instance, &row.budget, &[(row, trajectory)])?;
    let heights = figure.vertical.range.clone();
    let mut finders = Gathered::default();
    let mut best = u64::MAX;
    for point in trace {
        let (Some(finder), Some(time)) = (&point.found_by, point.claimed_time) else { continue };
        let height = overhead_percent(time, row.store_all_time)?;
        if time >= best || !heights.contains(&height) {
            continue;
        }
        best = time;
        let series = finders.of(finder, finder.clone(), Joined::No);
        series.points.push((point.seconds.max(FIRST_SECOND), height));
    }
    figure.series.extend(finders.finish());
    Some(figure)
}

fn figure(name: &str, budget: &str, rows: &[(&Record, &Trajectory)]) -> Option<Figure> {
    let progress = |t: &Trajectory| t.incumbents.len() > 1 || t.bounds.len() > 1;
    rows.iter().any(|(_, trajectory)| progress(trajectory)).then(|| drawn(name, budget, rows))?
}

fn drawn(name: &str, budget: &str, rows: &[(&Record, &Trajectory)]) -> Option<Figure> {
    let first = rows.first()?.0;
    let (series, low, high) = in_range(series(rows), first.store_all_time)?;
    let seconds = || series.iter().flat_map(|series| series.points.iter().chain(&series.bound)).map(|point| point.0);
    let begin = seconds().fold(f64::INFINITY, f64::min) * 0.8;
    let end = seconds().fold(FIRST_SECOND, f64::max) * 1.25;
    let bytes =
        first.budget_size.map(|bytes| format!("budget {}; ", crate::ground::format::bytes(bytes, first.memory_unit)));
    let bytes = bytes.unwrap_or_default();
    Some(Figure {
        title: if budget.is_empty() { name.into() } else { format!("{name} at {budget}") },
        subtitle: format!("{} times; {bytes}incumbents as claimed, the last as simulated", first.times),
        horizontal: Axis::fixed("Planning time (s)", begin..end, Scale::Logarithmic),
        vertical: Axis::fixed(OVERHEAD, low..high, Scale::Linear),
        device: None,
        series,
    })
}

/// One series per setting, in times; of several seeds the one with the median outcome.
fn series<'a>(rows: &[(&Record, &'a Trajectory)]) -> Vec<(Series, &'a Trajectory)> {
    let mut settings: BTreeMap<(usize, String), Vec<(&Record, &'a Trajectory)>> = BTreeMap::new();
    for &(row, trajectory) in rows {
        settings.entry((rank(&row.method), series_label(row))).or_default().push((row, trajectory));
    }
    let mut series = Vec::new();
    for ((_, label), rows) in settings {
        let records: Vec<_> = rows.iter().map(|(row, _)| *row).collect();
        let middle = median(&records).map_or(rows[0].0, |row| row);
        let chosen = rows.iter().find(|(row, _)| std::ptr::eq(*row, middle)).map_or(rows[0].1, |(_, t)| *t);
        if chosen.incumbents.is_empty() && chosen.bounds.is_empty() {
            continue;
        }
        series.push((Series::of(&middle.method, label, Joined::Steps), chosen));
    }
    series
}

/// The series in per cent above store-all, cut to a range that shows their differences, and that range.
fn in_range(series: Vec<(Series, &Trajectory)>, store_all: u64) -> Option<(Vec<Series>, f64, f64)> {
    if store_all == 0 {
        return None;
    }
    let percent = |time: u64| overhead_percent(time, store_all).unwrap_or_default();
    let all = |pick: fn(&Trajectory) -> &[Step]| {
        series.iter().flat_map(move |(_, t)| pick(t)).map(|step| percent(step.1)).collect::<Vec<_>>()
    };
    let incumbents = all(|t| &t.incumbents);
    let last_bounds = series.iter().filter_map(|(_, t)| t.bounds.last()).map(|step| percent(step.1));
    let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
    let last_bounds: Vec<_> = last_bounds.collect();
    let best = least(&incumbents).or(least(&last_bounds))?;
    // Far below what is worth seeing: half of the best time. Far above: SLOW times it.
    let bottom = least(&last_bounds).map_or(best, |bound| bound.min(best)).max(f64::midpoint(best, -100.0));
    let slow = (best + 100.0) * SLOW - 100.0;
    let top = incumbents.iter().chain(&last_bounds).copied().fold(best, f64::max).min(slow);
    let margin = ((top - bottom) * 0.08).max(0.5);
    let (low, high) = (bottom - margin, top + margin);
    let line = |steps: &[Step], end: f64| thinned(cut(steps, percent, (low, high), end));
    let drawn = series.into_iter().map(|(series, t)| Series {
        points: line(&t.incumbents, t.end),
        bound: line(&t.bounds, t.end),
        ..series
    });
    let drawn = drawn.filter(|series| !(series.points.is_empty() && series.bound.is_empty()));
    let drawn = arranged(drawn.collect());
    Some((drawn, low, high))
}

/// Steps in per cent up to the end of the run. One that comes into the range from outside enters at its edge.
fn cut(steps: &[Step], percent: impl Fn(u64) -> f64, (low, high): (f64, f64), end: f64) -> Vec<(f64, f64)> {
    let points: Vec<_> = steps.iter().map(|&(at, time)| (at.max(FIRST_SECOND), percent(time))).collect();
    let outside = points.iter().take_while(|point| !(low..=high).contains(&point.1)).count();
    let inside = &points[outside..];
    let (Some(first), Some(last)) = (inside.first(), inside.last()) else { return vec![] };
    let entry = outside.checked_sub(1).map(|before| (first.0, points[before].1.clamp(low, high)));
    entry.into_iter().chain(inside.iter().copied()).chain([(end.max(last.0), last.1)]).collect()
}

/// Of many points those that change something to the eye: evenly many, first and last among them.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points;
    }
    let last = points.len() - 1;
    (0..MOST_POINTS).map(|index| points[index * last / (MOST_POINTS - 1)]).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    fn trajectory(incumbents: &[Step], bounds: &[Step]) -> Trajectory {
        Trajectory { incumbents: incumbents.to_vec(), bounds: bounds.to_vec(), end: 20.0 }
    }

    #[test]
    fn lines_enter_at_the_edge_and_end_with_the_run() {
        let percent = |time: u64| time as f64;
        let line = cut(&[(0.0, 900), (2.0, 50), (3.0, 10)], percent, (0.0, 100.0), 5.0);
        assert_eq!(line, [(2.0, 100.0), (2.0, 50.0), (3.0, 10.0), (5.0, 10.0)]);
        assert!(cut(&[(0.0, 900)], percent, (0.0, 100.0), 5.0).is_empty());
        assert_eq!(cut(&[(0.0, 7)], percent, (0.0, 100.0), 5.0), [(FIRST_SECOND, 7.0), (5.0, 7.0)]);
    }

    #[test]
    fn a_figure_shows_incumbents_and_bounds_of_a_budget_with_progress() {
        let (row, quiet) = (example("moccasin", Some(("0.5x", 5))), example("revolve", Some(("0.5x", 5))));
        let moves = trajectory(&[(0.1, 2_000_000), (4.0, 1_200_000)], &[(0.1, 1_000_000), (9.0, 1_100_000)]);
        let still = trajectory(&[(0.2, 1_300_000)], &[]);
        let figures = figures("net", &[(&row, &moves), (&quiet, &still)]);
        assert_eq!(figures.iter().map(|named| named.file.as_str()).collect::<Vec<_>>(), ["progress/net@0.5x"]);
        let figure = &figures[0].figure;
        let labels: Vec<_> = figure.series.iter().map(|series| series.label.as_str()).collect();
        assert_eq!(labels, ["revolve", "moccasin"]);
        let moccasin = &figure.series[1];
        assert_eq!(moccasin.points.last().unwrap().0, 20.0);
        assert!((moccasin.points.last().unwrap().1 - 20.0).abs() < 1e-9);
        assert!((moccasin.bound.last().unwrap().1 - 10.0).abs() < 1e-9);
        let svg = figure.svg().unwrap();
        assert!(svg.contains("Planning time (s)") && svg.contains("proved lower bound"), "{svg}");
        let nothing_moves = super::figures("net", &[(&quiet, &still)]);
        assert!(nothing_moves.is_empty());
    }

    #[test]
    fn the_figure_of_one_run_names_who_found_what() {
        let row = example("auto", Some(("0.5x", 5)));
        let point = |seconds: f64, time: u64, finder: &str| Point {
            seconds,
            claimed_time: Some(time),
            found_by: Some(finder.into()),
            ..Point::default()
        };
        let trace =
            [point(0.1, 1_900_000, "revolve"), point(0.2, 1_900_000, "revolve"), point(3.0, 1_200_000, "fastsa")];
        let figure = of_run(&row, &trajectory(&[(0.1, 1_900_000), (3.0, 1_200_000)], &[]), &trace).unwrap();
        let found: Vec<_> = figure.series.iter().map(|series| (series.label.as_str(), series.points.len())).collect();
        assert_eq!(found, [("auto", 3), ("revolve", 1), ("fastsa", 1)]);
        assert!(of_run(&row, &trajectory(&[], &[]), &[]).is_none());
    }

    #[test]
    fn many_points_are_thinned_to_a_few_with_both_ends() {
        let points: Vec<_> = (0..5000).map(|at| (f64::from(at), 0.0)).collect();
        let few = thinned(points.clone());
        assert_eq!((few.len(), few[0], few[MOST_POINTS - 1]), (MOST_POINTS, points[0], points[4999]));
    }
}
