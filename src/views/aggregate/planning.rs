//! The tables over planning time: quality after a while, and the time to a gap.

use super::arena::Arena;
use super::measures::{
    SHIFT_SECONDS, mean, primal_gap, primal_integral, seconds_to_primal_gap, shifted_geometric_mean,
};
use super::overview::Grouped;
use super::{Table, number, seconds};

/// Seconds of planning after which quality is read.
const MOMENTS: [f64; 3] = [1.0, 10.0, 100.0];
/// Gaps to which planning is timed.
const GAPS: [f64; 3] = [0.05, 0.02, 0.01];

/// The mean primal gap of a contestant after so many seconds, over the cases at which anyone has a schedule.
pub fn gap_at(arena: &Arena, contestant: usize, moment: f64) -> Option<f64> {
    let gaps: Vec<_> = arena
        .known(contestant)
        .map(|(_, best, outcome)| primal_gap(outcome.trajectory.incumbent_at(moment), best))
        .collect();
    mean(&gaps)
}

/// Quality after a while, and the primal integral.
pub fn quality(arena: &Arena) -> Table {
    let moments = MOMENTS.map(|moment| format!("after {moment} s"));
    let behind = ["at the end", "primal integral s"].map(str::to_owned);
    let mut grid = Grouped::new(std::iter::once("cases".into()).chain(moments).chain(behind));
    for (at, contestant) in arena.contestants.iter().enumerate() {
        let percent = |moment: f64| number(gap_at(arena, at, moment).map(|gap| 100.0 * gap), 1);
        let integrals: Vec<_> = arena
            .known(at)
            .map(|(_, best, outcome)| primal_integral(&outcome.trajectory.incumbents, best, arena.horizon))
            .collect();
        let mut cells = vec![integrals.len().to_string()];
        cells.extend(MOMENTS.map(percent));
        cells.push(percent(f64::INFINITY));
        cells.push(seconds(mean(&integrals)));
        grid.contestant(contestant, cells);
    }
    Table {
        title: "Quality against planning time",
        caption: format!(
            "Mean primal gap in % after so much planning: the time saved by the virtual best's schedule as a part of the method's \
             own (Berthold), 100 without a schedule. primal integral: mean over cases of its integral from 0 to {:.0} s, the \
             longest limit of these rows. Planning time counts from when the method turns to a budget. cases: those that the method supports and at which anyone has a schedule.",
            arena.horizon.ceil()
        ),
        grid: grid.finish(),
    }
}

/// Planning time to a gap.
pub fn gaps(arena: &Arena) -> Table {
    let names = |to: &str| GAPS.map(|gap| format!("{:.0} % of {to}", 100.0 * gap));
    let mut grid = Grouped::new(std::iter::once("cases".into()).chain(names("best")).chain(names("bound")));
    for (at, contestant) in arena.contestants.iter().enumerate() {
        let cases = arena.known(at).count();
        let cell = |times: Vec<f64>| match shifted_geometric_mean(&times, SHIFT_SECONDS) {
            None => "-".into(),
            mean => format!("{} ({})", seconds(mean), times.len()),
        };
        let to_best = |gap: f64| {
            let known = arena.known(at);
            cell(known.filter_map(|(_, best, o)| seconds_to_primal_gap(&o.trajectory.incumbents, best, gap)).collect())
        };
        let to_bound = |gap: f64| {
            cell(arena.known(at).filter_map(|(.., outcome)| outcome.trajectory.seconds_to_gap(gap)).collect())
        };
        let cells = std::iter::once(cases.to_string()).chain(GAPS.map(to_best)).chain(GAPS.map(to_bound));
        grid.contestant(contestant, cells.collect::<Vec<_>>());
    }
    Table {
        title: "Planning time to a gap",
        caption: format!(
            "Shifted geometric mean (shift {SHIFT_SECONDS} s) of the seconds of planning until at most so much of the schedule's \
             time is beyond the virtual best's, or beyond the bound that the method itself has proved, over the cases at which it \
             comes to that (their number in brackets, of those in column cases)."
        ),
        grid: grid.finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::tests::arena;
    use super::*;
    use crate::ground::format::Format;

    #[test]
    fn quality_is_the_primal_gap_over_time() {
        insta::assert_snapshot!(quality(&arena()).grid.render(Format::Csv), @r#"
        claim,method,cases,after 1 s,after 10 s,after 100 s,at the end,primal integral s
        baseline: all schedules,sequential,2,54.5,54.5,54.5,54.5,5.91
        "optimum: stages, one implementation",checkmate-ilp,2,100.0,50.0,50.0,50.0,6.00
        heuristic: all schedules,revolve,2,60.0,10.0,10.0,10.0,2.40
        "#);
    }

    #[test]
    fn gaps_are_timed_where_they_are_reached() {
        insta::assert_snapshot!(gaps(&arena()).grid.render(Format::Csv), @r#"
        claim,method,cases,5 % of best,2 % of best,1 % of best,5 % of bound,2 % of bound,1 % of bound
        baseline: all schedules,sequential,2,-,-,-,-,-,-
        "optimum: stages, one implementation",checkmate-ilp,2,2.00 (1),2.00 (1),2.00 (1),-,-,-
        heuristic: all schedules,revolve,2,2.00 (1),2.00 (1),2.00 (1),-,-,-
        "#);
    }
}
