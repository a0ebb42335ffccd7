//! Figures over all cases: the digest's overheads, performance profiles, and quality against planning time.

use remat_formulations::Termination;

use super::axis::{Axis, Scale};
use super::figure::{Figure, Joined, Series};
use super::gather::{Gathered, merge_equal, points_of};
use super::progress::FIRST_SECOND;
use super::{Named, OVERHEAD};
use crate::ground::size::Budget;
use crate::harness::records::Ending;
use crate::views::aggregate::Arena;
use crate::views::aggregate::digest::{Cell, Digest};
use crate::views::aggregate::measures::profile;
use crate::views::aggregate::overview::ratios;
use crate::views::aggregate::planning::gap_at;

/// A profile is drawn up to this factor of the virtual best.
const FARTHEST: f64 = 4.0;
/// Moments at which quality is read, evenly spaced on a logarithmic axis.
const MOMENTS: u32 = 80;

/// The figures; none where fewer than two contestants have anything to compare.
pub fn figures(arena: &Arena) -> Vec<Named> {
    let named = |file: &str, figure| Named { instance: String::new(), file: file.into(), figure };
    let profile = profile_figure(arena).map(|figure| named("performance-profile", figure));
    let quality = quality_figure(arena).map(|figure| named("quality-against-planning-time", figure));
    let overhead = overhead_figure(arena).map(|figure| named("overhead-against-budget", figure));
    overhead.into_iter().chain(profile).chain(quality).collect()
}

/// A series of each contestant for which there is a line, broken where one of the places is left out.
fn series(
    arena: &Arena,
    joined: Joined,
    places: &[f64],
    line: impl Fn(usize) -> Option<Vec<(f64, f64)>>,
) -> Option<Vec<Series>> {
    let mut gathered = Gathered::default();
    for (at, contestant) in arena.contestants.iter().enumerate() {
        let series = gathered.of(&contestant.method, contestant.label.clone(), joined);
        series.points = line(at).unwrap_or_default();
        series.behind = arena.outcomes[at].iter().map(|outcome| outcome.as_ref()?.time).collect();
        let is_there = |place: f64| series.points.iter().any(|point| point.0.total_cmp(&place).is_eq());
        series.gaps = places.iter().copied().filter(|&place| !is_there(place)).collect();
    }
    Some(gathered.finish()).filter(|series| series.len() > 1).map(merge_equal)
}

fn cases(arena: &Arena) -> String {
    let known = arena.cases.iter().filter(|case| case.best.is_some()).count();
    format!("{known} of {} cases (instance and budget) have a schedule", arena.cases.len())
}

/// `; no schedule: a, b`: the contestants that are not drawn, those that give bounds alone aside.
fn left_out(arena: &Arena, series: &[Series]) -> String {
    let is_drawn = |label: &String| series.iter().any(|one| one.label == *label || one.also.contains(label));
    let names = arena.contestants.iter().zip(&arena.outcomes).filter(|(contestant, outcomes)| {
        let mut ran = outcomes.iter().flatten();
        ran.any(|outcome| outcome.ending != Ending::Ran(Termination::BoundOnly)) && !is_drawn(&contestant.label)
    });
    let names: Vec<&str> = names.map(|(contestant, _)| contestant.label.as_str()).collect();
    if names.is_empty() { String::new() } else { format!("; no schedule: {}", names.join(", ")) }
}

/// The means of the digest's first group against the budget, where budgets are fractions of store-all's peak.
fn overhead_figure(arena: &Arena) -> Option<Figure> {
    let digest = Digest::new(arena);
    let group = digest.groups.first()?;
    let fraction = |text: &String| text.parse::<Budget>().ok()?.fraction().map(|part| 100.0 * part);
    let budgets: Vec<f64> = digest.budgets.iter().map(fraction).collect::<Option<_>>()?;
    if budgets.len() < 2 {
        return None;
    }
    let line = |at: usize| {
        let row = group.rows.iter().find(|row| row.contestant == at)?;
        let point = |(&budget, cell): (&f64, &Cell)| Some((budget, 100.0 * (cell.ratio()? - 1.0)));
        Some(budgets.iter().zip(&row.cells).filter_map(point).collect())
    };
    let series = series(arena, Joined::Lines, &budgets, line)?;
    let mut counted: Vec<String> = group.counted.iter().map(|cases| cases.len().to_string()).collect();
    if counted.iter().all(|count| *count == counted[0]) {
        counted.truncate(1);
    }
    let (low, high) = (budgets[0], budgets[budgets.len() - 1]);
    let margin = 0.04 * (high - low);
    Some(Figure {
        title: "Overhead against memory".into(),
        subtitle: format!("geometric mean over {} of {}", counted.join(", "), group.names()),
        horizontal: Axis::fixed("Memory budget (% of store-all's peak)", low - margin..high + margin, Scale::Linear),
        vertical: Axis::from_zero(OVERHEAD, points_of(&series).map(|point| point.1)),
        device: None,
        series,
    })
}

/// Dolan and Moré's performance profile of simulated times.
fn profile_figure(arena: &Arena) -> Option<Figure> {
    let farthest = |points: &[(f64, f64)]| points.iter().map(|point| point.0).fold(1.0, f64::max);
    let steps = |at: usize| Some(profile(&ratios(arena, at))).filter(|steps| steps.iter().any(|step| step.1 > 0.0));
    let all = (0..arena.contestants.len()).filter_map(steps);
    let end = all.map(|steps| farthest(&steps)).fold(1.0, f64::max).clamp(1.05, FARTHEST) * 1.03;
    let series = series(arena, Joined::Steps, &[], |at| {
        let inside: Vec<_> = steps(at)?.into_iter().filter(|step| step.0 <= end).collect();
        let last = inside.last()?.1;
        Some(inside.into_iter().chain([(end, last)]).map(|(ratio, share)| (ratio, 100.0 * share)).collect())
    })?;
    Some(Figure {
        title: "Performance profile".into(),
        subtitle: format!("{}; of those that a method supports{}", cases(arena), left_out(arena, &series)),
        horizontal: Axis::fixed("Time over the virtual best's (ratio)", 1.0..end, Scale::Logarithmic),
        vertical: Axis::fixed("Cases within that ratio (%)", 0.0..103.0, Scale::Linear),
        device: None,
        series,
    })
}

/// The mean primal gap over planning time.
fn quality_figure(arena: &Arena) -> Option<Figure> {
    let ends = arena.outcomes.iter().flatten().flatten().map(|outcome| outcome.trajectory.end);
    let (first, last) = (FIRST_SECOND, ends.fold(10.0 * FIRST_SECOND, f64::max) * 1.25);
    let moment = |index: u32| first * (last / first).powf(f64::from(index) / f64::from(MOMENTS));
    let series = series(arena, Joined::Steps, &[], |at| {
        let gaps = (0..=MOMENTS).map(|index| Some((moment(index), 100.0 * gap_at(arena, at, moment(index))?)));
        let gaps: Vec<_> = gaps.collect::<Option<_>>()?;
        gaps.iter().any(|gap| gap.1 < 100.0).then(|| changes(&gaps))
    })?;
    Some(Figure {
        title: "Quality against planning time".into(),
        subtitle: format!("{}; 100 % without a schedule{}", cases(arena), left_out(arena, &series)),
        horizontal: Axis::fixed("Planning time (s)", first..last, Scale::Logarithmic),
        vertical: Axis::fixed("Mean primal gap to the virtual best (%)", -2.0..103.0, Scale::Linear),
        device: None,
        series,
    })
}

/// The points at which the value changes, and both ends.
fn changes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let last = points.len() - 1;
    let differs = |at: usize| at == 0 || at == last || points[at].1.to_bits() != points[at - 1].1.to_bits();
    (0..points.len()).filter(|&at| differs(at)).map(|at| points[at]).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::Record;
    use crate::harness::records::tests::example;
    use crate::views::aggregate::arena::tests::arena;
    use crate::views::trajectory::Trajectory;

    #[test]
    fn profiles_begin_at_the_share_of_wins_and_end_at_the_edge() {
        let figure = profile_figure(&arena()).unwrap();
        let of = |label: &str| figure.series.iter().find(|series| series.label == label).unwrap();
        assert_eq!(of("checkmate-ilp").points, [(1.0, 50.0), (figure.horizontal.range.end, 50.0)]);
        assert_eq!(of("revolve").points[..2], [(1.0, 50.0), (1.25, 100.0)]);
        assert_eq!(of("sequential").points[..2], [(1.0, 0.0), (1.1, 50.0)]);
    }

    #[test]
    fn quality_starts_with_nothing() {
        let figure = quality_figure(&arena()).unwrap();
        assert!(figure.series.iter().all(|series| series.points[0] == (FIRST_SECOND, 100.0)));
        let last = figure.series.iter().find(|series| series.label == "revolve").unwrap().points.last().unwrap().1;
        // Nothing to gain at one budget, a fifth of its own time at the other.
        assert!((last - 10.0).abs() < 1e-9, "{last}");
    }

    #[test]
    fn methods_without_a_schedule_are_named() {
        let row = |method: &str, time| Record { simulated_time: time, ..example(method, Some(("4", 4))) };
        let rows = [row("revolve", Some(1)), row("rotor-persistent", Some(2)), row("fastsa", None)];
        let arena = Arena::new(&rows, &vec![Trajectory::default(); rows.len()]);
        let figure = profile_figure(&arena).unwrap();
        assert!(figure.subtitle.ends_with("; no schedule: fastsa"), "{}", figure.subtitle);
    }

    #[test]
    fn methods_of_equal_means_are_one_only_where_all_their_times_are_equal() {
        let row = |method: &str, network: &str, budget, time| Record {
            instance: network.into(),
            simulated_time: Some(time),
            ..example(method, Some(budget))
        };
        let rows_of = |method, times: [u64; 2]| {
            [("0.4x", 4), ("0.5x", 5)]
                .into_iter()
                .flat_map(move |budget| [row(method, "a", budget, times[0]), row(method, "b", budget, times[1])])
        };
        let times = [("revolve", [2_000_000, 4_000_000]), ("fastsa", [4_000_000, 2_000_000])];
        let same = ("auto", [2_000_000, 4_000_000]);
        let rows: Vec<_> = times.into_iter().chain([same]).flat_map(|(method, times)| rows_of(method, times)).collect();
        let figure = overhead_figure(&Arena::new(&rows, &vec![Trajectory::default(); rows.len()])).unwrap();
        let labels: Vec<_> = figure.series.iter().map(|one| (one.label.as_str(), one.also.clone())).collect();
        assert_eq!(labels, [("revolve", vec!["auto".to_owned()]), ("fastsa", vec![])]);
    }

    #[test]
    fn no_line_leads_across_a_budget_at_which_a_method_has_nothing() {
        let row = |method: &str, budget: (&'static str, u64), solved: bool| Record {
            simulated_time: solved.then_some(1_200_000),
            ..example(method, Some(budget))
        };
        let budgets = [("0.4x", 4), ("0.5x", 5), ("0.6x", 6)];
        let rows: Vec<_> = budgets
            .into_iter()
            .flat_map(|budget| [row("revolve", budget, true), row("fastsa", budget, budget.1 != 5)])
            .collect();
        let figure = overhead_figure(&Arena::new(&rows, &vec![Trajectory::default(); rows.len()])).unwrap();
        let pieces: Vec<usize> = figure.series.iter().map(|series| series.pieces().count()).collect();
        assert_eq!(pieces, [1, 2], "{:?}", figure.series.iter().map(|series| &series.points).collect::<Vec<_>>());
    }
}
