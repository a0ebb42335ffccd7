//! The tables over all cases: means, statuses, the virtual best, performance profiles.

use remat_formulations::{Claim, Class};

use super::arena::{Arena, Contestant, Outcome};
use super::findings::{on_the_chain, with_one_implementation};
use super::measures::{SHIFT_SECONDS, mean, penalised, profile, share_at, shifted_geometric_mean};
use super::{Table, number, seconds};
use crate::ground::grid::Grid;
use crate::harness::baseline::overhead_percent;
use crate::harness::records::Record;
use crate::harness::records::select::by_method;

/// Ratios at which the table of performance profiles is read.
const RATIOS: [f64; 8] = [1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0];

/// A grid with the columns claim and method, and a rule between the claims.
pub struct Grouped {
    grid: Grid,
    previous: Option<Claim>,
}

impl Grouped {
    /// The columns after claim and method hold numbers.
    pub fn new(columns: impl IntoIterator<Item: Into<String>>) -> Self {
        let columns = columns.into_iter().map(Into::into);
        let header = ["claim", "method"].map(str::to_owned).into_iter().chain(columns);
        Self { grid: Grid::new(header).numeric_from(2), previous: None }
    }

    /// Adds the row of a method.
    pub fn row(&mut self, claim: &Claim, label: &str, cells: impl IntoIterator<Item = String>) {
        if self.previous.is_some_and(|previous| previous != *claim) {
            self.grid.rule();
        }
        self.previous = Some(*claim);
        self.grid.row([claim.to_string(), label.to_owned()].into_iter().chain(cells));
    }

    /// The row of a contestant.
    pub fn contestant(&mut self, contestant: &Contestant, cells: impl IntoIterator<Item = String>) {
        self.row(&contestant.claim, &contestant.label, cells);
    }

    /// The grid.
    pub fn finish(self) -> Grid {
        self.grid
    }
}

/// Means over all cases.
pub fn summary(arena: &Arena) -> Table {
    let columns =
        ["cases", "schedule", "answered", "proved", "best", "time/best", "overhead %", "planning s", "PAR2 s"];
    let mut grid = Grouped::new(columns);
    for (at, contestant) in arena.contestants.iter().enumerate() {
        grid.contestant(contestant, summary_row(arena, at));
    }
    Table {
        title: "Over all cases",
        caption: format!(
            "A case is an instance at a budget that the method supports. schedule: cases with a checked schedule within the \
             budget; answered: the method came to its own end with a schedule, a bound or a proof; proved: an optimum or a gap \
             within the method's claim, or that there is no schedule; best: nobody's schedule is faster. time/best and overhead: \
             geometric means over the method's own schedules of simulated time over the virtual best's and over store-all's, so \
             a method that meets only large budgets looks good: read the profile beside it. planning s: shifted geometric mean \
             (shift {SHIFT_SECONDS} s) of the wall seconds that the method took, to whatever end; PAR2: arithmetic mean of the \
             seconds to the answer, an unanswered case at twice its limit. A dash: nothing to count, or an unanswered case \
             without a limit."
        ),
        grid: grid.finish(),
    }
}

fn summary_row(arena: &Arena, at: usize) -> Vec<String> {
    let outcomes: Vec<&Outcome> = arena.outcomes_of(at).collect();
    let count = |has: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| has(outcome)).count().to_string();
    let times: Vec<_> =
        arena.known(at).filter_map(|(case, best, outcome)| Some((outcome.time?, best, case.store_all))).collect();
    let ratios = |reference: fn(&(u64, u64, u64)) -> u64| {
        let positive = times.iter().filter(|entry| reference(entry) > 0 && entry.0 > 0);
        positive.map(|entry| entry.0 as f64 / reference(entry) as f64).collect::<Vec<_>>()
    };
    let planning: Vec<f64> = outcomes.iter().map(|outcome| outcome.trajectory.end).collect();
    let penalised: Option<Vec<f64>> =
        outcomes.iter().map(|outcome| penalised(outcome.answered(), outcome.limit, 2.0)).collect();
    let wins = times.iter().filter(|(time, best, _)| time == best).count();
    let overhead = shifted_geometric_mean(&ratios(|entry| entry.2), 0.0).map(|ratio| 100.0 * (ratio - 1.0));
    vec![
        outcomes.len().to_string(),
        count(&|outcome| outcome.time.is_some()),
        count(&|outcome| outcome.answered().is_some()),
        count(&|outcome| outcome.is_proved()),
        wins.to_string(),
        number(shifted_geometric_mean(&ratios(|entry| entry.1), 0.0), 3),
        number(overhead, 1),
        seconds(shifted_geometric_mean(&planning, SHIFT_SECONDS)),
        seconds(penalised.and_then(|values| mean(&values))),
    ]
}

/// The words of the column `termination` in the order of the table; one that is not among them comes last.
const STATUSES: [&str; 13] = [
    "optimal",
    "gap_reached",
    "feasible",
    "bound_only",
    "not_found",
    "infeasible",
    "time_limit",
    "cpu_limit",
    "memory_limit",
    "node_limit",
    "interrupted",
    "error",
    "skipped",
];

/// Rows by status; statuses that nobody has are left out.
pub fn statuses(records: &[Record]) -> Table {
    let mut shown: Vec<String> = records.iter().map(|row| row.termination.to_string()).collect();
    shown.sort_by_key(|word| (STATUSES.iter().position(|known| known == word).unwrap_or(STATUSES.len()), word.clone()));
    shown.dedup();
    let names = shown.iter().map(|word| word.replace('_', " "));
    let mut grid = Grouped::new(std::iter::once("rows".into()).chain(names));
    for ((claim, _, label), rows) in by_method(records) {
        let counts =
            shown.iter().map(|status| rows.iter().filter(|row| row.termination.to_string() == *status).count());
        let cells: Vec<_> = std::iter::once(rows.len()).chain(counts).map(|count| count.to_string()).collect();
        grid.row(&claim, &label, cells);
    }
    Table {
        title: "Rows by status",
        caption:
            "One row per instance, parameters, budget and seed; a status that no row has has no column. optimal and \
                  infeasible are proved within the method's claim."
                .into(),
        grid: grid.finish(),
    }
}

/// The fastest schedule of each case over three nested classes of schedules, and whose the fastest of all is.
pub fn virtual_best(arena: &Arena) -> Table {
    let header = ["instance", "budget", "chain %", "one impl. %", "overhead %", "schedules", "bound %", "best"];
    let mut grid = Grid::new(header).numeric(2..7);
    let mut previous = "";
    for (at, case) in arena.cases.iter().enumerate() {
        if !previous.is_empty() && previous != case.instance {
            grid.rule();
        }
        previous = &case.instance;
        let there =
            || arena.outcomes.iter().zip(&arena.contestants).filter_map(|(row, who)| Some((row[at].as_ref()?, who)));
        let solved = there().filter(|(outcome, _)| outcome.time.is_some()).count();
        let best = there().filter(|(outcome, _)| case.best.is_some() && outcome.time == case.best);
        let mut winners: Vec<_> = best.map(|(_, who)| (who.rank, &who.label)).collect();
        winners.sort_unstable();
        let more = if winners.len() > 1 { format!(" and {} more", winners.len() - 1) } else { String::new() };
        let percent = |time: Option<u64>| number(time.and_then(|time| overhead_percent(time, case.store_all)), 1);
        let fastest = |within: &dyn Fn(&Contestant, &Outcome) -> bool| {
            percent(there().filter(|(outcome, who)| within(who, outcome)).filter_map(|(outcome, _)| outcome.time).min())
        };
        // Only a bound that holds for the schedules of all who took part says something about the best of them.
        let for_all = |class: Class| there().all(|(_, other)| class.contains(&other.claim.class));
        let bounds = there().filter(|(outcome, _)| for_all(outcome.bounded));
        let bounds = bounds.filter_map(|(outcome, _)| Some(outcome.trajectory.bounds.last()?.1));
        grid.row([
            case.instance.clone(),
            case.budget.clone(),
            fastest(&|who, _| on_the_chain(who)),
            fastest(&with_one_implementation),
            percent(case.best),
            format!("{solved}/{}", there().count()),
            percent(bounds.max()),
            winners.first().map_or("-".into(), |(_, first)| format!("{first}{more}")),
        ]);
    }
    Table {
        title: "Virtual best",
        caption: "The fastest checked schedule of each case and who has it (the first in the order of the registry, and how \
                  many are as fast). overhead over store-all; before it, the fastest of methods on the chain, and of schedules \
                  on the chain or with one implementation per operator; schedules: contestants with a schedule of those that took part; \
                  bound: what is proved for the classes of all who took part, in the same measure."
            .into(),
        grid,
    }
}

/// The ratios of a contestant to the virtual best, one per case that has a schedule; none where it has none itself.
pub fn ratios(arena: &Arena, contestant: usize) -> Vec<Option<f64>> {
    let ratio = |time: u64, best: u64| if best == 0 { 1.0 } else { time as f64 / best as f64 };
    arena.known(contestant).map(|(_, best, outcome)| outcome.time.map(|time| ratio(time, best))).collect()
}

/// Whole per cent: 0 is none and 100 is all.
fn share(part: f64) -> String {
    let rounded = (100.0 * part).round();
    let shown = if part > 0.0 && part < 1.0 { rounded.clamp(1.0, 99.0) } else { rounded };
    format!("{shown:.0}")
}

/// Performance profiles at round ratios.
pub fn profiles(arena: &Arena) -> Table {
    let names = RATIOS.map(|ratio| format!("<= {ratio}"));
    let mut grid = Grouped::new(std::iter::once("cases".into()).chain(names));
    for (at, contestant) in arena.contestants.iter().enumerate() {
        let ratios = ratios(arena, at);
        let steps = profile(&ratios);
        let shares = RATIOS.iter().map(|&ratio| share(share_at(&steps, ratio)));
        let cells = std::iter::once(ratios.len().to_string()).chain(shares);
        grid.contestant(contestant, cells.collect::<Vec<_>>());
    }
    Table {
        title: "Performance profiles",
        caption: "Dolan and Moré: per cent of the cases at which the method's simulated time is within a factor of the virtual \
                  best's. cases: those that it supports and at which anyone has a schedule; one at which it has none itself is \
                  never reached."
            .into(),
        grid: grid.finish(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_but_one_is_not_all() {
        assert_eq!([0.0, 1.0 / 300.0, 0.5, 299.0 / 300.0, 1.0].map(super::share), ["0", "1", "50", "99", "100"]);
    }

    use super::super::arena::tests::{arena, rows};
    use super::*;
    use crate::ground::format::Format;

    #[test]
    fn means_count_failures_at_their_limit() {
        insta::assert_snapshot!(summary(&arena()).grid.render(Format::Csv), @r#"
        claim,method,cases,schedule,answered,proved,best,time/best,overhead %,planning s,PAR2 s
        baseline: all schedules,sequential,2,1,1,0,0,1.100,10.0,1.00,-
        "optimum: stages, one implementation",checkmate-ilp,2,1,1,1,1,1.000,0.0,5.00,11.0
        heuristic: all schedules,revolve,2,2,2,0,1,1.118,58.1,1.45,1.50
        "#);
    }

    #[test]
    fn every_row_has_one_status() {
        insta::assert_snapshot!(statuses(&rows()).grid.render(Format::Csv), @r#"
        claim,method,rows,optimal,feasible,time limit
        baseline: all schedules,sequential,2,0,2,0
        "optimum: stages, one implementation",checkmate-ilp,2,1,0,1
        heuristic: all schedules,revolve,2,0,2,0
        "#);
    }

    #[test]
    fn the_virtual_best_names_its_owner() {
        insta::assert_snapshot!(virtual_best(&arena()).grid.render(Format::Csv), @"
        instance,budget,chain %,one impl. %,overhead %,schedules,bound %,best
        net,0.5x,-,-,100.0,1/3,-,revolve
        net,1x,-,0.0,0.0,3/3,-,checkmate-ilp
        ");
    }

    #[test]
    fn profiles_are_shares_of_cases() {
        insta::assert_snapshot!(profiles(&arena()).grid.render(Format::Latex), @r"
        \begin{tabular}{llrrrrrrrrr}
          \toprule
          claim & method & cases & $<$= 1 & $<$= 1.01 & $<$= 1.02 & $<$= 1.05 & $<$= 1.1 & $<$= 1.2 & $<$= 1.5 & $<$= 2 \\
          \midrule
          baseline: all schedules & sequential & 2 & 0 & 0 & 0 & 0 & 50 & 50 & 50 & 50 \\
          \midrule
          optimum: stages, one implementation & checkmate-ilp & 2 & 50 & 50 & 50 & 50 & 50 & 50 & 50 & 50 \\
          \midrule
          heuristic: all schedules & revolve & 2 & 50 & 50 & 50 & 50 & 50 & 50 & 100 & 100 \\
          \bottomrule
        \end{tabular}
        ");
    }
}
