//! Cases (an instance at a budget), contestants (a method with its parameters), and what came of each pair.
//!
//! Of several seeds the median counts, those without a schedule as the slowest. A method that ignores budgets stands at
//! each budget with the fastest of its points that meets it, and has spent the seconds of all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use remat_formulations::{Claim, Class, Termination};

use crate::harness::records::select::{
    AtBudget, at_budget, by_instance, claims, middle, rank, series_label, written_budgets,
};
use crate::harness::records::{Ending, Record};
use crate::views::trajectory::Trajectory;

/// A method with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contestant {
    /// What is claimed of all its rows; tables group by it.
    pub claim: Claim,
    /// Place in the registry.
    pub rank: usize,
    /// Id and parameters that are not at their defaults.
    pub label: String,
    /// Id.
    pub method: String,
}

/// An instance at a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name of the instance.
    pub instance: String,
    /// The budget as written; empty where no method of the results takes one.
    pub budget: String,
    /// Store-all's time.
    pub store_all: u64,
    /// The least simulated time of any contestant: the virtual best.
    pub best: Option<u64>,
}

/// What became of a contestant in a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Simulated time of its schedule, if it has one.
    pub time: Option<u64>,
    /// The wall limit of its run, in seconds.
    pub limit: Option<f64>,
    /// What was known when.
    pub trajectory: Trajectory,
    /// The class that its schedule is in.
    pub class: Option<Class>,
    /// The class that its bounds are about.
    pub bounded: Class,
}

/// All pairs.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// Grouped by claim.
    pub contestants: Vec<Contestant>,
    /// By instance, then budget.
    pub cases: Vec<Case>,
    /// By contestant, then case; none where there is no row, or the method does not support the instance.
    pub outcomes: Vec<Vec<Option<Outcome>>>,
    /// Labels of the methods that are not here because they support none of the instances.
    pub unsupported: Vec<String>,
    /// The longest that any run was allowed, or else took: where primal integrals end. In seconds.
    pub horizon: f64,
}

/// What was known when, by the address of the row.
type Trajectories<'a> = HashMap<*const Record, &'a Trajectory>;

impl Outcome {
    /// Seconds until the method came to its own end with a schedule, a bound or a proof that there is none.
    pub fn answered(&self) -> Option<f64> {
        use Termination::{BoundOnly, Feasible, GapReached, Infeasible, Optimal};
        let ended = matches!(self.ending, Ending::Ran(Optimal | GapReached | Feasible | BoundOnly | Infeasible));
        ended.then_some(self.trajectory.end)
    }

    /// Whether something was proved: an optimum, a gap, or that there is no schedule.
    pub fn is_proved(&self) -> bool {
        use Termination::{GapReached, Infeasible, Optimal};
        matches!(self.ending, Ending::Ran(Optimal | GapReached | Infeasible))
    }
}

impl Arena {
    /// Pairs up rows; `trajectories` are theirs, in their order.
    pub fn new(records: &[Record], trajectories: &[Trajectory]) -> Self {
        let budgets = written_budgets(records);
        let claims = claims(records);
        let trajectories: Trajectories<'_> = records.iter().map(std::ptr::from_ref).zip(trajectories).collect();
        let mut table: BTreeMap<Contestant, BTreeMap<usize, Outcome>> = BTreeMap::new();
        let mut cases = Vec::new();
        for (instance, rows) in by_instance(records) {
            let first = cases.len();
            cases.extend(cases_of(&instance, &rows, &budgets));
            for (contestant, rows) in by_contestant(&rows, &claims) {
                let outcomes = table.entry(contestant).or_default();
                let of_case = |at: usize| Some((at, outcome(&rows, &cases[at].budget, &trajectories)?));
                outcomes.extend((first..cases.len()).filter_map(of_case));
            }
        }
        let (contestants, sparse): (Vec<_>, Vec<_>) = table.into_iter().unzip();
        let dense = |mut row: BTreeMap<usize, Outcome>| (0..cases.len()).map(|at| row.remove(&at)).collect();
        let outcomes: Vec<Vec<Option<Outcome>>> = sparse.into_iter().map(dense).collect();
        for (at, case) in cases.iter_mut().enumerate() {
            case.best = outcomes.iter().filter_map(|row| row[at].as_ref()?.time).min();
        }
        let all = || outcomes.iter().flatten().flatten();
        let longest = |seconds: &mut dyn Iterator<Item = f64>| seconds.fold(0.0, f64::max);
        let limit = longest(&mut all().filter_map(|outcome| outcome.limit));
        let horizon = if limit > 0.0 { limit } else { longest(&mut all().map(|outcome| outcome.trajectory.end)) };
        let unsupported = unsupported(records, &contestants);
        Self { contestants, cases, outcomes, unsupported, horizon }
    }

    /// What became of a contestant, by case, in those that have a known schedule.
    pub fn known(&self, contestant: usize) -> impl Iterator<Item = (&Case, u64, &Outcome)> {
        let pairs = self.cases.iter().zip(&self.outcomes[contestant]);
        pairs.filter_map(|(case, outcome)| Some((case, case.best?, outcome.as_ref()?)))
    }

    /// What became of a contestant, in all cases in which it took part.
    pub fn outcomes_of(&self, contestant: usize) -> impl Iterator<Item = &Outcome> {
        self.outcomes[contestant].iter().flatten()
    }
}

/// The budgets at which some method ran; one without a name where none takes a budget.
fn cases_of(instance: &str, rows: &[&Record], budgets: &[&str]) -> Vec<Case> {
    let there = budgets.iter().filter(|budget| rows.iter().any(|row| row.budget == **budget));
    let mut names: Vec<&str> = there.copied().collect();
    if names.is_empty() {
        names.push("");
    }
    let store_all = rows.first().map_or(0, |row| row.store_all_time);
    let case = |budget: &str| Case { instance: instance.into(), budget: budget.into(), store_all, best: None };
    names.into_iter().map(case).collect()
}

fn by_contestant<'a>(rows: &[&'a Record], claims: &BTreeMap<String, Claim>) -> BTreeMap<Contestant, Vec<&'a Record>> {
    let mut contestants: BTreeMap<Contestant, Vec<&'a Record>> = BTreeMap::new();
    for &row in rows.iter().filter(|row| !matches!(row.termination, Ending::Skipped(_))) {
        let (rank, label, method) = (rank(&row.method), series_label(row), row.method.clone());
        let contestant = Contestant { claim: claims[&label], rank, label, method };
        contestants.entry(contestant).or_default().push(row);
    }
    contestants
}

/// The labels of rows that are no contestants'.
fn unsupported(records: &[Record], contestants: &[Contestant]) -> Vec<String> {
    let labels: BTreeSet<(usize, String)> = records.iter().map(|row| (rank(&row.method), series_label(row))).collect();
    let is_there = |label: &String| contestants.iter().any(|contestant| contestant.label == *label);
    labels.into_iter().map(|(_, label)| label).filter(|label| !is_there(label)).collect()
}

fn outcome(rows: &[&Record], budget: &str, trajectories: &Trajectories<'_>) -> Option<Outcome> {
    let trajectory_of = |row: &Record| trajectories[&std::ptr::from_ref(row)];
    Some(match at_budget(rows, budget)? {
        AtBudget::Seeds(seeds) => {
            let chosen = middle(&seeds)?;
            Outcome {
                ending: chosen.termination,
                time: chosen.simulated_time.filter(|_| chosen.is_solved()),
                limit: chosen.time_limit_seconds,
                trajectory: trajectory_of(chosen).clone(),
                class: chosen.schedule_class.filter(|_| chosen.is_solved()),
                bounded: chosen.claim.class,
            }
        }
        AtBudget::Points { all, best } => {
            let solved = all.iter().any(|row| row.is_solved());
            let nothing = if solved { Ending::Ran(Termination::NotFound) } else { all[0].termination };
            let seconds: f64 = all.iter().map(|row| trajectory_of(row).end).sum();
            let time = best.and_then(|row| row.simulated_time);
            Outcome {
                ending: best.map_or(nothing, |row| row.termination),
                time,
                limit: all[0].time_limit_seconds,
                trajectory: Trajectory {
                    incumbents: time.map(|time| (seconds, time)).into_iter().collect(),
                    bounds: vec![],
                    end: seconds,
                },
                class: best.and_then(|row| row.schedule_class),
                bounded: all[0].claim.class,
            }
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]
pub mod tests {
    use remat_formulations::Class;

    use super::*;
    use crate::harness::records::Skipped;
    use crate::harness::records::tests::example;

    /// Rows of two budgets: a solver that proves one and runs out of time at the other, a heuristic that has
    /// both, and a method of two points, one of which meets the larger budget only.
    pub fn rows() -> Vec<Record> {
        let [low, high] = [("0.5x", 1 << 29), ("1x", 1 << 30)];
        let limited = |method: &str, budget, time: Option<u64>, ending, seconds| Record {
            simulated_time: time,
            overhead: time.map(|time| time as f64 / 1e6 - 1.0),
            termination: Ending::Ran(ending),
            time_limit_seconds: Some(10.0),
            build_seconds: seconds,
            solve_seconds: seconds,
            wall_seconds: 11.0,
            claim: if method == "checkmate-ilp" { Claim::optimum(Class::STAGES) } else { Claim::heuristic(Class::ALL) },
            ..example(method, Some(budget))
        };
        let point = |parameters: &str, peak, time| Record {
            parameters: parameters.into(),
            simulated_peak: Some(peak),
            simulated_time: Some(time),
            build_seconds: Some(0.25),
            solve_seconds: Some(0.25),
            wall_seconds: 1.0 + time as f64,
            ..example("sequential", None)
        };
        vec![
            limited("checkmate-ilp", high, Some(1_000_000), Termination::Optimal, Some(1.0)),
            limited("checkmate-ilp", low, None, Termination::TimeLimit, None),
            limited("revolve", high, Some(1_250_000), Termination::Feasible, Some(0.5)),
            limited("revolve", low, Some(2_000_000), Termination::Feasible, Some(0.5)),
            point("segments=2", 1 << 30, 1_100_000),
            point("segments=4", 1 << 31, 1_050_000),
        ]
    }

    /// The arena of [`rows`], whose methods reported nothing on the way.
    pub fn arena() -> Arena {
        let rows = rows();
        let seconds = [Some(2.0), None, Some(1.0), Some(2.0), Some(0.5), Some(0.5)];
        let trajectories: Vec<_> =
            rows.iter().zip(seconds).map(|(row, seconds)| Trajectory::new(row, seconds, &[])).collect();
        Arena::new(&rows, &trajectories)
    }

    /// The arena of the rows of [`on_four`] at one budget.
    pub fn table(methods: &[(&str, [Option<u64>; 4])]) -> Arena {
        of_rows(&on_four(methods, "0.5x"))
    }

    pub fn of_rows(rows: &[Record]) -> Arena {
        let trajectories: Vec<_> = rows.iter().map(|row| Trajectory::new(row, Some(1.0), &[])).collect();
        Arena::new(rows, &trajectories)
    }

    /// The rows of methods on four instances a to d at a budget, by their times; store-all takes 100.
    pub fn on_four(methods: &[(&str, [Option<u64>; 4])], budget: &str) -> Vec<Record> {
        let row = |instance: &str, method: &str, time: Option<u64>| Record {
            instance: instance.into(),
            store_all_time: 100,
            simulated_time: time,
            termination: Ending::Ran(if time.is_some() { Termination::Feasible } else { Termination::NotFound }),
            claim: Claim::heuristic(if method == "revolve" { Class::CHAIN } else { Class::ALL }),
            schedule_class: time.map(|_| if method == "fastsa" { Class::ALL } else { Class::STAGES }),
            ..example(method, Some((budget, 1 << 29)))
        };
        let of = |instance: usize| methods.iter().map(move |(method, times)| (instance, *method, times[instance]));
        let names = ["a", "b", "c", "d"];
        (0..4).flat_map(of).map(|(at, method, time)| row(names[at], method, time)).collect()
    }

    #[test]
    fn methods_that_support_no_instance_are_no_contestants_and_not_forgotten() {
        let row = |instance: &str, method: &str, skipped: bool| Record {
            instance: instance.into(),
            termination: if skipped { Ending::Skipped(Skipped::Skipped) } else { Ending::Ran(Termination::Feasible) },
            ..example(method, Some(("0.5x", 1 << 29)))
        };
        let rows =
            [row("a", "revolve", false), row("a", "dtr", true), row("b", "revolve", true), row("b", "dtr", true)];
        let arena = Arena::new(&rows, &vec![Trajectory::default(); rows.len()]);
        assert_eq!(arena.contestants.len(), 1);
        assert_eq!(arena.unsupported, ["dtr"]);
    }

    #[test]
    fn every_contestant_meets_every_case() {
        let arena = arena();
        let labels: Vec<_> = arena.contestants.iter().map(|contestant| contestant.label.as_str()).collect();
        assert_eq!(labels, ["sequential", "checkmate-ilp", "revolve"]);
        let cases: Vec<_> = arena.cases.iter().map(|case| (case.budget.as_str(), case.best)).collect();
        assert_eq!(cases, [("0.5x", Some(2_000_000)), ("1x", Some(1_000_000))]);
        let times: Vec<Vec<_>> = arena
            .outcomes
            .iter()
            .map(|row| row.iter().map(|outcome| outcome.as_ref().unwrap().time).collect())
            .collect();
        assert_eq!(times, [[None, Some(1_100_000)], [None, Some(1_000_000)], [Some(2_000_000), Some(1_250_000)]]);
        assert_eq!(arena.horizon, 10.0);
    }

    #[test]
    fn a_sweep_costs_the_seconds_of_all_its_points() {
        let arena = arena();
        let sequential = arena.outcomes[0][1].as_ref().unwrap();
        assert_eq!(sequential.answered(), Some(1.0));
        assert_eq!(arena.outcomes[0][0].as_ref().unwrap().answered(), None);
    }

    #[test]
    fn a_seed_without_a_schedule_is_slower_than_all_others() {
        let of = |seed: u64, time: Option<u64>| Record {
            seed,
            simulated_time: time,
            termination: Ending::Ran(if time.is_some() { Termination::Feasible } else { Termination::TimeLimit }),
            ..example("fastsa", Some(("0.5x", 1 << 29)))
        };
        let time = |times: &[Option<u64>]| {
            let rows: Vec<_> = (0..).zip(times).map(|(seed, &time)| of(seed, time)).collect();
            Arena::new(&rows, &vec![Trajectory::default(); rows.len()]).outcomes[0][0].as_ref().unwrap().time
        };
        assert_eq!(time(&[Some(7), None, Some(5)]), Some(7));
        assert_eq!(time(&[Some(7), None, None]), None);
    }

    #[test]
    fn a_method_that_does_not_support_an_instance_takes_no_part() {
        use crate::harness::records::Skipped;
        let mut rows = rows();
        rows[0].termination = Ending::Skipped(Skipped::Skipped);
        rows[1].termination = Ending::Skipped(Skipped::Skipped);
        let trajectories = vec![Trajectory::default(); rows.len()];
        assert_eq!(Arena::new(&rows, &trajectories).contestants.len(), 2);
    }
}
