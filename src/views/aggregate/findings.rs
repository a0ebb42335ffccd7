//! What follows from a digest, in a sentence each, computed from the rows: who is best at which budgets, what leaving the
//! chain and choosing implementations bring, what planning costs.
//!
//! All three are about the digest's first group. Where the rows do not say (no method on the chain, no schedule that
//! chooses, a single method) the sentence is missing.

use remat_formulations::method::claim::{Implementations, Order};
use remat_formulations::search::incumbent::proves;

use super::arena::{Arena, Contestant, Outcome};
use super::digest::{Cell, Digest, Group, Row};
use super::measures::shifted_geometric_mean;
use super::seconds;
use crate::ground::format;
use crate::harness::baseline::overhead;

/// How near to the best known schedules planning is priced: within these parts of their time.
const WITHIN: [f64; 3] = [0.1, 0.03, 0.01];

/// The sentences.
pub fn sentences(arena: &Arena, digest: &Digest) -> Vec<String> {
    let Some(group) = digest.groups.first() else { return vec![] };
    let all = [best(arena, digest, group), brings(arena, digest, group), planning(arena, group)];
    all.into_iter().flatten().chain(together(arena)).collect()
}

/// Who has the least mean at which budgets; who is as good to the digit that is printed is named too.
fn best(arena: &Arena, digest: &Digest, group: &Group) -> Option<String> {
    let mut parts: Vec<(Vec<&str>, Vec<&str>, Vec<String>)> = Vec::new();
    for (at, budget) in digest.budgets.iter().enumerate() {
        let means = || group.rows.iter().filter_map(|row| Some((row, row.cells[at].ratio()?)));
        if means().count() < 2 {
            continue;
        }
        let Some(least) = means().map(|(_, ratio)| ratio).min_by(f64::total_cmp) else { continue };
        let equal = means().filter(|(_, ratio)| percent(*ratio) == percent(least));
        let names: Vec<&str> = equal.map(|(row, _)| label(arena, row)).collect();
        match parts.last_mut().filter(|(same, ..)| *same == names) {
            Some((_, budgets, figures)) => {
                budgets.push(budget);
                figures.push(percent(least));
            }
            None => parts.push((names, vec![budget], vec![percent(least)])),
        }
    }
    let clause = |(names, budgets, figures): &(Vec<&str>, Vec<&str>, Vec<String>)| {
        format!("{} at {} ({} %)", list(names), list(budgets), figures.join(", "))
    };
    let clauses: Vec<String> = parts.iter().map(clause).collect();
    (!clauses.is_empty()).then(|| format!("Least overhead: {}.", clauses.join("; ")))
}

/// The method that lets others search.
const TOGETHER: &str = "auto";

/// In how many cases the method that is made of others is at least as good as the best of these, within the millionth that
/// counts as proved, and by how much it is behind where it is most; a sentence for each of its settings.
fn together(arena: &Arena) -> Vec<String> {
    let settings = (0..arena.contestants.len()).filter(|&at| arena.contestants[at].method == TOGETHER);
    settings.filter_map(|at| beside_single(arena, at)).collect()
}

fn beside_single(arena: &Arena, at: usize) -> Option<String> {
    let (mut cases, mut good, mut none, mut worst) = (0, 0, 0, None::<(f64, String)>);
    for (place, case) in arena.cases.iter().enumerate() {
        let Some(own) = &arena.outcomes[at][place] else { continue };
        let single = arena.contestants.iter().zip(&arena.outcomes).filter(|(who, _)| who.method != TOGETHER);
        let best = single.filter_map(|(who, row)| Some((row[place].as_ref()?.time?, &who.label))).min();
        cases += usize::from(own.time.is_some() || best.is_some());
        match (own.time, best) {
            (Some(time), Some((least, who))) if !proves(least, time) => {
                let loss = overhead(time, least).unwrap_or_default();
                if loss > 0.0 && worst.as_ref().is_none_or(|(most, _)| loss > *most) {
                    worst = Some((loss, format!("{} at {}, to {who}", case.instance, case.budget)));
                }
            }
            (Some(_), _) => good += 1,
            (None, Some(_)) => none += 1,
            (None, None) => {}
        }
    }
    if cases == 0 || arena.contestants.iter().all(|who| who.method == TOGETHER) {
        return None;
    }
    let loss = worst.map(|(loss, whose)| format!("; its worst loss is {} % ({whose})", format::percent(100.0 * loss)));
    let none = if none > 0 { format!("; in {none} it has no schedule where another has") } else { String::new() };
    let loss = loss.unwrap_or_default();
    Some(format!(
        "{} is as good as the best single method (within a millionth) in {good} of {cases} cases{loss}{none}.",
        name(arena, at)
    ))
}

/// Whether the outcome of a contestant is in a set.
type Is<'a> = dyn Fn(usize, &Outcome) -> bool + 'a;

/// The best schedules of three nested sets of rows: methods on the chain, one implementation per operator, all.
fn brings(arena: &Arena, digest: &Digest, group: &Group) -> Option<String> {
    let chain = |at: usize, _: &Outcome| on_the_chain(&arena.contestants[at]);
    let one = |at: usize, outcome: &Outcome| with_one_implementation(&arena.contestants[at], outcome);
    let leaves = |at: usize, outcome: &Outcome| one(at, outcome) && !chain(at, outcome);
    let chooses = |at: usize, outcome: &Outcome| !one(at, outcome) && outcome.class.is_some();
    // Where a set brings no schedule of its own to a case, nothing follows for that case.
    let has = |case: usize, is: &Is<'_>| fastest(arena, group, case, is).is_some();
    let saved = |fewer: &Is<'_>, more: &Is<'_>, own: &[&Is<'_>]| {
        let at_budget = |cases: &Vec<usize>| {
            let pair = |&case: &usize| Some((fastest(arena, group, case, fewer)?, fastest(arena, group, case, more)?));
            let cases = cases.iter().filter(|&&case| own.iter().all(|is| has(case, is)));
            let pairs = cases.filter_map(pair).filter(|&(from, _)| from > 0);
            let ratios: Vec<f64> = pairs.map(|(from, to)| to as f64 / from as f64).collect();
            let mean = shifted_geometric_mean(&ratios, 0.0)?;
            Some(format!("{:.1}", 100.0 * (1.0 - mean)))
        };
        let known =
            digest.budgets.iter().zip(&group.counted).filter_map(|(budget, cases)| Some((budget, at_budget(cases)?)));
        let (budgets, figures): (Vec<&String>, Vec<String>) = known.unzip();
        (!figures.is_empty()).then(|| (list(&budgets), figures.join(", ")))
    };
    // Older records do not say what a schedule is.
    let everything = |at: usize, outcome: &Outcome| one(at, outcome) || outcome.class.is_some();
    let leaving = saved(&chain, &one, &[&leaves]);
    match (leaving, saved(&one, &everything, &[&leaves, &chooses])) {
        (None, None) => {
            let (budgets, both) = saved(&chain, &everything, &[&chooses])?;
            Some(format!(
                "At {budgets} leaving the chain and choosing implementations saves {both} % of the best chain schedule's time."
            ))
        }
        (leaving, choosing) => {
            let chooses = choosing.map(|(budgets, choosing)| {
                let same = leaving.as_ref().is_some_and(|(others, _)| *others == budgets);
                let begins = if same { "Choosing".into() } else { format!("At {budgets} choosing") };
                format!(
                    "{begins} implementations saves {choosing} % of the time of the best schedule with one implementation per operator."
                )
            });
            let leaves = leaving.map(|(budgets, leaving)| {
                format!("At {budgets} leaving the chain saves {leaving} % of the best chain schedule's time.")
            });
            Some(leaves.into_iter().chain(chooses).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Whether the schedules of a method are sequences of the chain.
pub fn on_the_chain(who: &Contestant) -> bool {
    who.claim.class.order == Order::Chain
}

/// Whether a schedule is on the chain, or has one implementation per operator.
pub fn with_one_implementation(who: &Contestant, outcome: &Outcome) -> bool {
    let classes = [Some(who.claim.class), outcome.class];
    on_the_chain(who) || classes.iter().flatten().any(|class| class.implementations == Implementations::One)
}

/// The least simulated time in a case of the group's methods whose outcome is in a set.
fn fastest(arena: &Arena, group: &Group, case: usize, within: &Is<'_>) -> Option<u64> {
    let outcomes =
        group.rows.iter().filter_map(|row| Some((row.contestant, arena.outcomes[row.contestant][case].as_ref()?)));
    outcomes.filter(|(at, outcome)| within(*at, outcome)).filter_map(|(_, outcome)| outcome.time).min()
}

/// The quickest method that comes within some parts of the best, over all counted cases.
fn planning(arena: &Arena, group: &Group) -> Option<String> {
    let takes_time = |&case: &usize| fastest(arena, group, case, &|_, _| true) != Some(0);
    let cases: Vec<usize> = group.counted.iter().flatten().copied().filter(takes_time).collect();
    let loss = |row: &Row| {
        let ratio = |&case: &usize| {
            let time = arena.outcomes[row.contestant][case].as_ref()?.time?;
            Some(time as f64 / fastest(arena, group, case, &|_, _| true)? as f64)
        };
        let ratios: Vec<f64> = cases.iter().map(ratio).collect::<Option<_>>()?;
        Some(shifted_geometric_mean(&ratios, 0.0)? - 1.0)
    };
    let known: Vec<(&Row, f64)> = group.rows.iter().filter_map(|row| Some((row, loss(row)?))).collect();
    if known.len() < 2 {
        return None;
    }
    let mut clauses: Vec<String> = Vec::new();
    let mut previous = None;
    for within in WITHIN {
        let near = known.iter().filter(|(_, loss)| *loss <= within);
        let Some((row, loss)) = near.min_by(|a, b| a.0.planning.total_cmp(&b.0.planning)) else { continue };
        if previous != Some(row.contestant) {
            let time = seconds(Some(row.planning));
            let words = if previous.is_none() { " of planning a case for schedules" } else { " for" };
            let slower = if previous.is_none() { " slower than the best known" } else { "" };
            clauses.push(format!("{} takes {time} s{words} {:.1} %{slower}", label(arena, row), 100.0 * loss));
            previous = Some(row.contestant);
        }
    }
    let (cut, all) = group.cut();
    let cut = if cut > 0 { format!("; {cut} of {all} cases were stopped by a limit (*)") } else { String::new() };
    (!clauses.is_empty()).then(|| format!("{}{cut}.", clauses.join(", ")))
}

/// The name of a row's method.
pub fn label<'a>(arena: &'a Arena, row: &Row) -> &'a str {
    name(arena, row.contestant)
}

fn name(arena: &Arena, contestant: usize) -> &str {
    let who = &arena.contestants[contestant];
    let alone = arena.contestants.iter().filter(|other| other.method == who.method).count() == 1;
    if alone { &who.method } else { &who.label }
}

fn percent(ratio: f64) -> String {
    Cell::Mean { ratio, cut: false }.text(0)
}

/// `a`, `a and b`, `a, b and c`.
fn list<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::aggregate::arena::tests::{of_rows, on_four, table};

    #[test]
    fn sentences_follow_from_the_rows() {
        let arena = table(&[
            ("revolve", [Some(130); 4]),
            ("checkmate-ilp", [Some(117); 4]),
            ("fastsa", [Some(110), Some(110), Some(110), Some(117)]),
        ]);
        let sentences = sentences(&arena, &Digest::new(&arena));
        insta::assert_snapshot!(sentences.join("\n"), @"
        Least overhead: fastsa at 0.5x (11.7 %).
        At 0.5x leaving the chain saves 10.0 % of the best chain schedule's time. Choosing implementations saves 4.5 % of the time of the best schedule with one implementation per operator.
        checkmate-ilp takes 1.00 s of planning a case for schedules 4.7 % slower than the best known, fastsa takes 1.00 s for 0.0 %.
        ");
    }

    #[test]
    fn sentences_name_the_budgets_that_they_are_about() {
        let at = |budget, checkmate: Option<u64>| {
            let rows = [("revolve", [Some(130); 4]), ("checkmate-ilp", [checkmate; 4]), ("fastsa", [Some(110); 4])];
            on_four(&rows, budget)
        };
        let arena = of_rows(&[at("0.5x", Some(117)), at("0.3x", None)].concat());
        let said = sentences(&arena, &Digest::new(&arena)).join("\n");
        assert!(said.contains("At 0.5x leaving the chain saves 10.0 % of") && !said.contains('-'), "{said}");
    }

    #[test]
    fn a_method_made_of_others_is_held_to_the_best_of_them() {
        let arena = table(&[
            ("revolve", [Some(130), Some(130), None, Some(130)]),
            ("fastsa", [Some(110), Some(120), Some(110), None]),
            ("auto", [Some(110), Some(121), None, Some(117)]),
        ]);
        assert_eq!(
            together(&arena),
            [
                "auto is as good as the best single method (within a millionth) in 2 of 4 cases; its worst loss is 0.83 % (b at \
                 0.5x, to fastsa); in 1 it has no schedule where another has."
            ]
        );
        assert_eq!(together(&table(&[("auto", [Some(110); 4])])), [""; 0]);
    }

    #[test]
    fn choosing_implementations_saves_nothing_beside_schedules_of_the_chain_alone() {
        let rows = [("revolve", [Some(130); 4]), ("fastsa", [Some(117); 4])];
        let said = |rows: &[(&str, [Option<u64>; 4])]| {
            let arena = table(rows);
            sentences(&arena, &Digest::new(&arena)).join("\n")
        };
        let both = "At 0.5x leaving the chain and choosing implementations saves 10.0 %";
        assert!(said(&rows).contains(both), "{}", said(&rows));
        let nowhere = [rows[0], rows[1], ("checkmate-ilp", [None; 4])];
        assert!(said(&nowhere).contains(both), "{}", said(&nowhere));
    }

    #[test]
    fn of_networks_that_take_no_time_no_part_is_said() {
        let arena = table(&[("revolve", [Some(0); 4]), ("checkmate-ilp", [Some(0); 4]), ("auto", [Some(0); 4])]);
        let text = sentences(&arena, &Digest::new(&arena)).join("\n");
        assert!(!text.contains("NaN") && !text.contains("-100") && !text.contains("saves"), "{text}");
    }

    #[test]
    fn nothing_follows_from_a_single_method() {
        let arena = table(&[("fastsa", [Some(110); 4])]);
        assert_eq!(sentences(&arena, &Digest::new(&arena)), Vec::<String>::new());
    }

    #[test]
    fn lists_are_written_out() {
        assert_eq!(
            [list::<&str>(&[]), list(&["a"]), list(&["a", "b"]), list(&["a", "b", "c"])],
            ["", "a", "a and b", "a, b and c"]
        );
    }
}
