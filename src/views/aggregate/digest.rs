//! The digest of some results: what fits a screen. Per method the mean overhead at each budget, what it solved and
//! proved and what planning took; and the findings that follow from the rows.
//!
//! Instances on which the same methods took part form a group. A mean at a budget is over the instances of the group on
//! which all methods that are averaged there have a schedule, and these are more than half of those on which anyone has
//! one: a method without a schedule on some of these is not averaged, and shows on how many instances it has one.

use std::collections::BTreeSet;

use super::arena::{Arena, Outcome};
use super::measures::{SHIFT_SECONDS, shifted_geometric_mean};
use crate::ground::format::decimals;
use crate::ground::names::braced;
use crate::ground::text::count;

/// Names of instances that take more characters than this are counted instead.
const MOST_NAMES: usize = 150;

/// The digest of an arena.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// The budgets as written: the columns.
    pub budgets: Vec<String>,
    /// The groups, the largest first.
    pub groups: Vec<Group>,
}

/// Instances on which the same methods took part.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Names of the instances.
    pub instances: Vec<String>,
    /// By budget: the cases over which means are taken.
    pub counted: Vec<Vec<usize>>,
    /// The methods.
    pub rows: Vec<Row>,
}

impl Group {
    /// The names of the instances in one line, or how many there are.
    pub fn names(&self) -> String {
        let names = braced(&self.instances);
        if names.len() > MOST_NAMES { count(self.instances.len(), "instance") } else { names }
    }
}

/// What came of a method on the instances of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Place in the arena.
    pub contestant: usize,
    /// By budget.
    pub cells: Vec<Cell>,
    /// Cases with a schedule.
    pub solved: usize,
    /// Cases with a proof of an optimum, a gap, or that there is no schedule.
    pub proved: usize,
    /// Cases stopped by a limit.
    pub cut: usize,
    /// Cases in which the method took part.
    pub cases: usize,
    /// Shifted geometric mean of the seconds of planning of a case.
    pub planning: f64,
}

/// A method at a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// Geometric mean over the counted instances of time over store-all's, and whether a limit stopped any of these.
    Mean {
        /// The mean ratio.
        ratio: f64,
        /// Whether a limit stopped the method on any counted instance.
        cut: bool,
    },
    /// It has a schedule on so many of the group's instances, too few to be averaged with the others.
    Few(usize),
    /// It has none.
    Nothing,
}

impl Cell {
    /// The mean ratio.
    pub fn ratio(self) -> Option<f64> {
        if let Self::Mean { ratio, .. } = self { Some(ratio) } else { None }
    }

    /// As in tables: the overhead in %, with a star where a limit stopped the method.
    pub fn text(self, instances: usize) -> String {
        match self {
            Self::Mean { ratio, cut } => decimals(100.0 * (ratio - 1.0), 1) + if cut { "*" } else { "" },
            Self::Few(count) => format!("({count}/{instances})"),
            Self::Nothing => "-".into(),
        }
    }
}

impl Digest {
    /// Makes the digest.
    pub fn new(arena: &Arena) -> Self {
        let mut budgets: Vec<String> = Vec::new();
        for case in arena.cases.iter().filter(|case| !case.budget.is_empty()) {
            if !budgets.contains(&case.budget) {
                budgets.push(case.budget.clone());
            }
        }
        let mut groups: Vec<(BTreeSet<usize>, Vec<String>)> = Vec::new();
        for instance in instances(arena) {
            let there = cases(arena, &instance, None);
            let takes_part = |&at: &usize| there.iter().any(|&case| arena.outcomes[at][case].is_some());
            let who: BTreeSet<usize> = (0..arena.contestants.len()).filter(takes_part).collect();
            match groups.iter_mut().find(|(same, _)| *same == who) {
                Some((_, members)) => members.push(instance),
                None => groups.push((who, vec![instance])),
            }
        }
        groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
        let groups = groups.into_iter().map(|(who, members)| Group::new(arena, &budgets, &who, members)).collect();
        Self { budgets, groups }
    }
}

impl Group {
    fn new(arena: &Arena, budgets: &[String], who: &BTreeSet<usize>, instances: Vec<String>) -> Self {
        let of = |budget: &str| -> Vec<usize> {
            instances.iter().flat_map(|instance| cases(arena, instance, Some(budget))).collect()
        };
        let (mut counted, mut averaged) = (Vec::new(), Vec::new());
        for budget in budgets {
            let (cases, methods) = common(arena, who, &of(budget));
            counted.push(cases);
            averaged.push(methods);
        }
        let row = |&contestant: &usize| {
            let outcomes = || {
                instances
                    .iter()
                    .flat_map(|name| cases(arena, name, None))
                    .filter_map(|case| arena.outcomes[contestant][case].as_ref())
            };
            let count = |has: &dyn Fn(&Outcome) -> bool| outcomes().filter(|outcome| has(outcome)).count();
            let seconds: Vec<f64> = outcomes().map(|outcome| outcome.trajectory.end).collect();
            let cell = |at: usize| {
                let few = of(&budgets[at]).into_iter().filter(|&case| solved(arena, contestant, case)).count();
                match few {
                    0 => Cell::Nothing,
                    _ if averaged[at].contains(&contestant) => mean_of(arena, contestant, &counted[at]),
                    few => Cell::Few(few),
                }
            };
            Row {
                contestant,
                cells: (0..budgets.len()).map(cell).collect(),
                solved: count(&|outcome| outcome.time.is_some()),
                proved: count(&Outcome::is_proved),
                cut: count(&|outcome| outcome.ending.is_limit()),
                cases: outcomes().count(),
                planning: shifted_geometric_mean(&seconds, SHIFT_SECONDS).unwrap_or(0.0),
            }
        };
        let mut rows: Vec<Row> = who.iter().map(row).collect();
        rows.sort_by_key(|row| {
            let who = &arena.contestants[row.contestant];
            (who.claim.strength, who.rank, who.label.len())
        });
        Self { instances, counted, rows }
    }

    /// Cases of the group stopped by a limit, and all.
    pub fn cut(&self) -> (usize, usize) {
        (self.rows.iter().map(|row| row.cut).sum(), self.rows.iter().map(|row| row.cases).sum())
    }
}

fn instances(arena: &Arena) -> Vec<String> {
    let mut names: Vec<String> = arena.cases.iter().map(|case| case.instance.clone()).collect();
    names.dedup();
    names
}

fn cases(arena: &Arena, instance: &str, budget: Option<&str>) -> Vec<usize> {
    let of =
        |at: &usize| arena.cases[*at].instance == instance && budget.is_none_or(|text| arena.cases[*at].budget == text);
    (0..arena.cases.len()).filter(of).collect()
}

fn solved(arena: &Arena, contestant: usize, case: usize) -> bool {
    arena.outcomes[contestant][case].as_ref().is_some_and(|outcome| outcome.time.is_some())
}

/// The cases over which a mean is taken, and the contestants that have a schedule on all of them: of the sets of cases
/// that one or two contestants solve, and that are more than half of the known ones, the set that the most contestants
/// solve, and of such the largest.
fn common(arena: &Arena, who: &BTreeSet<usize>, cases: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let of = |&contestant: &usize| -> (usize, BTreeSet<usize>) {
        (contestant, cases.iter().copied().filter(|&case| solved(arena, contestant, case)).collect())
    };
    let sets: Vec<(usize, BTreeSet<usize>)> = who.iter().map(of).filter(|(_, set)| !set.is_empty()).collect();
    let known = sets.iter().flat_map(|(_, set)| set).collect::<BTreeSet<_>>().len();
    let pairs = sets.iter().flat_map(|(_, one)| sets.iter().map(move |(_, other)| one & other));
    let candidates = pairs.filter(|set| 2 * set.len() > known);
    let within = |set: &BTreeSet<usize>| -> Vec<usize> {
        sets.iter().filter(|(_, solved)| set.is_subset(solved)).map(|&(contestant, _)| contestant).collect()
    };
    // Of equals the first: `max_by_key` takes the last.
    let candidates: Vec<_> = candidates.collect();
    let chosen = candidates.into_iter().rev().max_by_key(|set| (within(set).len(), set.len())).unwrap_or_default();
    let averaged = if chosen.is_empty() { vec![] } else { within(&chosen) };
    (chosen.into_iter().collect(), averaged)
}

fn mean_of(arena: &Arena, contestant: usize, cases: &[usize]) -> Cell {
    let outcomes: Vec<_> =
        cases.iter().filter_map(|&case| Some((case, arena.outcomes[contestant][case].as_ref()?))).collect();
    let ratio = |&(case, outcome): &(usize, &Outcome)| over_store_all(arena, case, outcome.time?);
    let ratios: Vec<f64> = outcomes.iter().filter_map(ratio).collect();
    let cut = outcomes.iter().any(|(_, outcome)| outcome.ending.is_limit());
    shifted_geometric_mean(&ratios, 0.0).map_or(Cell::Nothing, |ratio| Cell::Mean { ratio, cut })
}

fn over_store_all(arena: &Arena, case: usize, time: u64) -> Option<f64> {
    let store_all = arena.cases[case].store_all;
    (store_all > 0 && time > 0).then(|| time as f64 / store_all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::aggregate::arena::tests::table;

    #[test]
    fn a_mean_is_over_instances_on_which_all_averaged_methods_have_a_schedule() {
        // The third method has too few schedules, the fourth none; the second lacks one, which costs all a network.
        let arena = table(&[
            ("revolve", [Some(110), Some(110), Some(110), Some(121)]),
            ("rotor-persistent", [Some(100), Some(110), Some(121), None]),
            ("fastsa", [Some(100), None, None, None]),
            ("oracle", [None, None, None, None]),
        ]);
        let digest = Digest::new(&arena);
        assert_eq!(digest.groups.len(), 1);
        let group = &digest.groups[0];
        assert_eq!(group.counted[0].len(), 3);
        let cells: Vec<String> = group.rows.iter().map(|row| row.cells[0].text(group.instances.len())).collect();
        assert_eq!(cells, ["10.0", "10.0", "-", "(1/4)"]);
        assert_eq!(group.rows.iter().map(|row| row.solved).collect::<Vec<_>>(), [4, 3, 0, 1]);
    }

    #[test]
    fn instances_with_other_methods_are_another_group() {
        let mut arena = table(&[
            ("revolve", [Some(110), Some(110), Some(110), Some(110)]),
            ("rotor-persistent", [Some(105), Some(105), Some(105), Some(105)]),
        ]);
        arena.outcomes[1][3] = None;
        let digest = Digest::new(&arena);
        let sizes: Vec<_> = digest.groups.iter().map(|group| (group.instances.len(), group.rows.len())).collect();
        assert_eq!(sizes, [(3, 2), (1, 1)]);
    }
}
