//! `oracle` against a search that knows nothing but single steps, and every other method against it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::common;
use crate::common::{dice, network};
use crate::networks::{self, ONE, part, store_all_peak};
use proptest::prelude::*;
use remat_core::format::{Phase, TensorKind};
use remat_core::{Instance, Step, simulate};
use remat_formulations::{
    Answer, BudgetUse, Limits, METHODS, Method, NoStarts, Parameters, Registered, Starts, Termination, find,
};

fn parameters(method: &dyn Method, given: &[(&str, &str)]) -> Parameters {
    let given: BTreeMap<String, String> = given.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    Parameters::new(method.about().parameters, &given).expect("known parameters")
}

#[test]
fn the_claim_is_that_of_the_rules_asked_for() {
    let oracle = find("oracle").expect("registered");
    let claim = |given: &[(&str, &str)]| oracle.claim(&parameters(oracle, given)).to_string();
    assert_eq!(claim(&[]), "optimum: all schedules");
    assert_eq!(claim(&[("order", "fixed")]), "optimum: given order");
    assert_eq!(claim(&[("order", "stages")]), "optimum: stages");
    assert_eq!(claim(&[("order", "stages"), ("copies", "2")]), "optimum: stages, at most 2 runs each");
    let one = [("order", "stages"), ("implementations", "one")];
    assert_eq!(claim(&one), find("checkmate-ilp").expect("registered").usual_claim().to_string());
}

fn answers(method: &str, instance: &Instance, budgets: &[Option<u64>], given: &[(&str, &str)]) -> Vec<Answer> {
    // Those that plan blocks need a method that does; the others would be given schedules to start from.
    let asks = ["rotor-options", "rockmate", "h-ilp", "hiremate"].contains(&method);
    let starts: &dyn Starts = if asks { &Registered } else { &NoStarts };
    networks::answers(method, instance, budgets, given, starts, ONE)
}

fn oracle(instance: &Instance, budgets: &[Option<u64>], order: &str) -> Vec<Answer> {
    answers("oracle", instance, budgets, &[("order", order)])
}

/// The slow twin: Dijkstra over sets of resident tensors and of operators that ran, one compute or one
/// free at a time, each rule of docs/reference/model.md where it is needed. `None`: no schedule.
fn least_time(instance: &Instance, budget: u64, fixed_order: bool) -> Option<u64> {
    let inputs: BTreeSet<usize> =
        (0..instance.tensors().len()).filter(|&t| instance.tensors()[t].kind == TensorKind::Input).collect();
    let bytes =
        |set: &BTreeSet<usize>| instance.fixed_bytes() + set.iter().map(|&t| instance.tensors()[t].bytes).sum::<u64>();
    let mut queue = BinaryHeap::from([(Reverse(0), inputs.clone(), BTreeSet::<usize>::new())]);
    let mut seen = BTreeSet::new();
    if bytes(&inputs) > budget {
        return None;
    }
    while let Some((Reverse(time), resident, ran)) = queue.pop() {
        if !seen.insert((resident.clone(), ran.clone())) {
            continue;
        }
        let all_ran = instance.operators().iter().enumerate().all(|(index, operator)| {
            let must = operator.phase == Phase::Backward || operator.updates_state || fixed_order;
            !must || ran.contains(&index)
        });
        if all_ran && instance.tensor_ids().all(|t| !instance.is_result(t) || resident.contains(&t.index())) {
            return Some(time);
        }
        for &free in resident.difference(&inputs) {
            let mut after = resident.clone();
            after.remove(&free);
            queue.push((Reverse(time), after, ran.clone()));
        }
        let next = instance.order().iter().find(|id| !ran.contains(&id.index()));
        for (index, operator) in instance.operators().iter().enumerate() {
            let again = ran.contains(&index);
            let in_turn = !fixed_order || again || next.is_some_and(|id| id.index() == index);
            if again && !operator.recomputable || !in_turn {
                continue;
            }
            for (variant, way) in operator.implementations.iter().enumerate() {
                if operator.updates_state && way.recompute != again
                    || way.reads.iter().any(|read| !resident.contains(&read.index()))
                {
                    continue;
                }
                let mut after = resident.clone();
                if let Some(pair) = way.in_place {
                    after.remove(&pair.input.index());
                }
                after.extend(operator.makes(variant).map(remat_core::TensorId::index));
                if bytes(&after) + way.workspace_bytes <= budget {
                    let mut ran = ran.clone();
                    ran.insert(index);
                    queue.push((Reverse(time + way.time), after, ran));
                }
            }
        }
    }
    None
}

/// Budgets from what the inputs take to what store-all needs.
fn budgets(instance: &Instance, count: u64) -> Vec<Option<u64>> {
    let (least, most) = (instance.base_bytes(), store_all_peak(instance));
    (0..=count).map(|k| Some(least + (most - least) * k / count)).chain([None]).collect()
}

fn check(instance: &Instance, budgets: &[Option<u64>], answers: &[Answer]) -> Result<(), TestCaseError> {
    let mut fastest = u64::MAX;
    for (answer, &budget) in answers.iter().zip(budgets) {
        prop_assert_eq!(answer.budget, budget);
        match &answer.schedule {
            None => {
                prop_assert_eq!(answer.termination, Termination::Infeasible);
                prop_assert_eq!(fastest, u64::MAX, "more memory made it infeasible");
            }
            Some(schedule) => {
                let simulation = simulate(instance, schedule).map_err(|e| TestCaseError::fail(e.to_string()))?;
                let claimed = answer.claimed.expect("a schedule comes with a claim");
                prop_assert_eq!((simulation.time, simulation.peak_bytes), (claimed.time, claimed.peak_bytes));
                prop_assert_eq!(answer.lower_bound, Some(claimed.time));
                prop_assert!(budget.is_none_or(|budget| simulation.peak_bytes <= budget));
                prop_assert!(simulation.time <= fastest, "more memory cost more time");
                fastest = simulation.time;
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: part(200), ..ProptestConfig::default() })]

    #[test]
    fn the_optimum_is_that_of_a_search_step_by_step(dice in dice(2..4), fixed in any::<bool>()) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        let budgets = budgets(&instance, 6);
        let answers = oracle(&instance, &budgets, if fixed { "fixed" } else { "free" });
        check(&instance, &budgets, &answers)?;
        for (answer, budget) in answers.iter().zip(budgets) {
            let expected = least_time(&instance, budget.unwrap_or(u64::MAX), fixed);
            prop_assert_eq!(answer.claimed.map(|claimed| claimed.time), expected, "budget {:?}", budget);
        }
    }

    #[test]
    fn keeping_the_order_never_helps_and_costs_nothing_with_all_memory(dice in dice(2..6)) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        let budgets = budgets(&instance, 5);
        let free = oracle(&instance, &budgets, "free");
        let fixed = oracle(&instance, &budgets, "fixed");
        check(&instance, &budgets, &fixed)?;
        let time = |answer: &Answer| answer.claimed.map_or(u64::MAX, |claimed| claimed.time);
        for (free, fixed) in free.iter().zip(&fixed) {
            prop_assert!(time(free) <= time(fixed));
        }
        prop_assert_eq!(free.last().map(time), fixed.last().map(time));
    }

    #[test]
    fn the_order_of_the_best_schedule_of_all_has_none_that_is_better(dice in dice(2..5)) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        let budgets = budgets(&instance, 4);
        for free in oracle(&instance, &budgets, "free") {
            let Some(schedule) = &free.schedule else { continue };
            let mut first_runs = vec![];
            for step in &schedule.steps {
                let Step::Compute { operator, .. } = *step else { continue };
                if !first_runs.contains(&operator) {
                    first_runs.push(operator);
                }
            }
            let ordered = instance.in_order_of(schedule);
            let fixed = oracle(&ordered, &[free.budget], "fixed");
            check(&instance, &[free.budget], &fixed)?;
            let time = |answer: &Answer| answer.claimed.map(|claimed| claimed.time);
            // In a given order everything runs, and what some implementation reads is made before.
            if first_runs == ordered.order() {
                prop_assert_eq!(time(&fixed[0]), time(&free));
            } else {
                prop_assert!(time(&fixed[0]).is_none_or(|fixed| time(&free).is_some_and(|free| fixed >= free)));
            }
        }
    }
}

proptest! {
    // Every method, half of them with a solver; `just fuzz` goes on where this ends.
    #![proptest_config(ProptestConfig { cases: part(80), ..ProptestConfig::default() })]

    #[test]
    fn no_method_beats_the_oracle(dice in dice(2..7)) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        let budgets = budgets(&instance, 5);
        let free = oracle(&instance, &budgets, "free");
        check(&instance, &budgets, &free)?;
        for method in METHODS.iter().filter(|m| m.id() != "oracle" && m.supports(&instance).is_ok()) {
            if method.about().budgets == BudgetUse::Ignored {
                continue;
            }
            let given: &[_] = match method.id() {
                "fastsa" => &[("iterations", "2000"), ("second-iterations", "2000")],
                "rotor-options" => &[("questions", "6")],
                "rockmate" => &[("peaks", "2"), ("saves", "2")],
                "h-ilp" => &[("nodes", "4"), ("operators", "6"), ("questions", "6")],
                "hiremate" => &[("nodes", "4"), ("operators", "6"), ("peaks", "2"), ("saves", "2")],
                _ => &[],
            };
            for (answer, bound) in answers(method.id(), &instance, &budgets, given).iter().zip(&free) {
                let Some(schedule) = &answer.schedule else { continue };
                let time = simulate(&instance, schedule).map_err(|e| TestCaseError::fail(e.to_string()))?.time;
                let best = bound.claimed.map(|claimed| claimed.time);
                prop_assert!(best.is_some_and(|best| best <= time), "{}: {} against {:?}", method.id(), time, best);
            }
        }
    }
}

#[test]
fn limits_leave_a_lower_bound_and_say_why() {
    let dice = common::Dice { layers: (0..8).map(|k| (5 + k, 3, 1, 1)).collect() };
    let instance = Instance::new(&network(&dice)).expect("valid");
    let budget = [Some(store_all_peak(&instance) * 3 / 4)];
    let few = answers("oracle", &instance, &budget, &[("max-states", "10")]);
    assert_eq!(few[0].termination, Termination::NodeLimit);
    assert!(few[0].lower_bound.is_some_and(|bound| bound > 0) && few[0].schedule.is_none());
    let limits = Limits { time: Some(std::time::Duration::ZERO), ..ONE };
    let stopped = networks::answers("oracle", &instance, &budget, &[], &NoStarts, limits);
    assert_eq!(stopped[0].termination, Termination::TimeLimit);
}

#[test]
fn large_instances_are_refused_with_their_size() {
    let dice = common::Dice { layers: vec![(1, 1, 0, 0); 14] };
    let instance = Instance::new(&network(&dice)).expect("valid");
    let reason = find("oracle").expect("registered").supports(&instance).expect_err("too large").to_string();
    assert!(reason.starts_with("has 28 operators"), "{reason}");
}

#[test]
#[ignore = "prints how the search grows"]
#[allow(clippy::print_stderr, reason = "a measurement, run by hand")]
fn growth() {
    for layers in [4, 6, 8, 10] {
        let layer =
            |k: u64| (1 + k * 7 % 19, 1 + k * 5 % 9, k % 4, u32::try_from(k * 2_654_435_761 % 16).expect("small"));
        let instance =
            Instance::new(&network(&common::Dice { layers: (0..layers).map(layer).collect() })).expect("valid");
        let budgets = budgets(&instance, 10);
        for order in ["free", "fixed"] {
            let answers = oracle(&instance, &budgets, order);
            let times = answers.iter().map(|a| format!("{:?} {} {:.3}s", a.termination, a.note, a.solve.as_secs_f64()));
            eprintln!("{} operators, {order}: {}", 2 * layers, times.collect::<Vec<_>>().join("; "));
        }
    }
}
