//! Checkmate's methods against an exhaustive search, each other, and the simulator, on seeded random
//! networks; a failure prints the seed.

use std::sync::Arc;
use std::time::Duration;

use crate::networks::{Random, budgets, checked, instance, solve, some_of};
use remat_core::{Instance, simulate};
use remat_formulations::checkmate::relaxation::Linear;
use remat_formulations::search::clock::Clock;
use remat_formulations::search::driver::{answer, exactly};
use remat_formulations::search::incumbent::Incumbent;
use remat_formulations::search::problem::Staged;
use remat_formulations::search::separation::{Pass, Solving};
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::staged::starts::follow;
use remat_formulations::staged::task::Task;
use remat_formulations::{Answer, Silent, Termination};
use remat_solvers::backend;

/// The least time of any schedule in stages: a table over stages, positions and resident sets.
fn oracle(joint: &Joint, budget: u64) -> Option<u64> {
    let (n, count) = (joint.len(), joint.values.len());
    let bytes = |set: usize| (0..count).filter(|&v| set >> v & 1 == 1).map(|v| joint.values[v].bytes).sum::<u64>();
    let sizes: Vec<u64> = (0..1 << count).map(bytes).collect();
    let mut cost: Vec<Option<u64>> = vec![None; 1 << count];
    cost[0] = Some(0);
    let better = |slot: &mut Option<u64>, value: u64| *slot = Some(slot.map_or(value, |old| old.min(value)));
    for stage in 0..n {
        for position in 0..=stage {
            let mut next = if position == stage { vec![None; 1 << count] } else { cost.clone() };
            if let Some(way) = joint.run(stage, position) {
                let made: usize = joint.operators[position].makes.iter().map(|v| 1 << v).sum();
                for set in 0..1 << count {
                    let Some(time) = cost[set] else { continue };
                    let readable = way.reads.iter().all(|v| set >> v & 1 == 1);
                    if readable && joint.base_bytes + sizes[set | made] + way.transient <= budget {
                        better(&mut next[set | made], time + way.time);
                    }
                }
            }
            // Anything may be dropped: smaller sets have smaller numbers.
            for set in (0..1 << count).rev() {
                if let Some(time) = next[set] {
                    for value in (0..count).filter(|value| set >> value & 1 == 1) {
                        better(&mut next[set & !(1 << value)], time);
                    }
                }
            }
            cost = next;
        }
    }
    let results: usize = (0..count).filter(|&v| joint.values[v].result).map(|v| 1 << v).sum();
    cost[results]
}

/// Whether a way to answer finds the oracle's optimum for every budget.
fn agrees(seed: u64, way: &str, number: u64, answers: impl Fn(&Instance, &[Option<u64>]) -> Vec<Answer>) {
    let instance = instance(seed);
    let joint = Joint::new(&instance).expect("supported");
    let budgets = budgets(&joint, number);
    for answer in answers(&instance, &budgets) {
        let context = format!("seed {seed}, {way}, budget {:?} ({})", answer.budget, answer.note);
        let expected = oracle(&joint, answer.budget.expect("given"));
        let found = checked(&instance, &answer, &context);
        assert_eq!(found, expected, "{context}");
        let termination = if expected.is_some() { Termination::Optimal } else { Termination::Infeasible };
        assert_eq!(answer.termination, termination, "{context}");
        let bound = answer.lower_bound;
        assert!(
            bound.is_none_or(|bound| expected.is_none_or(|best| bound <= best)),
            "{context}: {bound:?} > {expected:?}"
        );
    }
}

/// The answer of the reduced model alone, with all of its memory rows or, from relaxed solutions on, with those that are
/// violated.
pub fn by_reduced_model(instance: &Instance, budget: Option<u64>, from: Pass) -> Answer {
    let task = Task::new(instance, Arc::new(Joint::new(instance).expect("supported")), budget);
    if let Some(answer) = task.at_once() {
        return answer;
    }
    let linear = if from == Pass::Whole { Linear::Staged(Box::new(task.whole())) } else { task.exact() };
    let solving = Solving { solver: backend("highs").expect("built in"), threads: 1, seed: 0 };
    let incumbent = Incumbent::new(&task, &Silent, 0, 0.0);
    let ended = exactly(&incumbent, linear, from, solving, Clock::start(None)).expect("HiGHS takes the model");
    answer(&incumbent, budget, ended, Duration::ZERO, Duration::ZERO).expect("the simulator takes the schedule")
}

#[test]
fn the_published_program_finds_the_optimum_of_the_exhaustive_search() {
    let plain =
        |instance: &Instance, budgets: &[_]| solve("checkmate-ilp", instance, budgets, &[("strategy", "plain")]);
    some_of(0..60).for_each(|seed| agrees(seed, "plain", 4, plain));
}

#[test]
fn the_reduced_programs_find_the_same_optimum() {
    for seed in some_of(0..200) {
        agrees(seed, "coarse", 3, |instance, budgets| solve("checkmate-ilp", instance, budgets, &[]));
        for from in [Pass::Whole, Pass::Relaxed] {
            agrees(seed, &format!("reduced, {from:?}"), 3, |instance, budgets| {
                budgets.iter().map(|&budget| by_reduced_model(instance, budget, from)).collect()
            });
        }
    }
}

#[test]
fn relaxation_optimum_and_rounding_are_in_order() {
    for seed in 200..260 {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let budgets = budgets(&joint, 3);
        let optima: Vec<Option<u64>> = budgets.iter().map(|budget| oracle(&joint, budget.expect("given"))).collect();
        for formulation in ["published", "blocks"] {
            let bounds = solve("checkmate-lp", &instance, &budgets, &[("formulation", formulation)]);
            for (answer, &best) in bounds.iter().zip(&optima) {
                assert!(answer.schedule.is_none());
                match (answer.termination, answer.lower_bound, best) {
                    (Termination::Infeasible, _, best) => assert_eq!(best, None, "seed {seed}"),
                    (_, Some(bound), Some(best)) => assert!(bound <= best, "seed {seed}: {bound} > {best}"),
                    _ => {}
                }
            }
        }
        for rounding in ["deterministic", "thresholds", "random"] {
            for eps in ["0", "10"] {
                let given = [("rounding", rounding), ("eps-percent", eps), ("samples", "20")];
                let answers = solve("checkmate-rounding", &instance, &budgets, &given);
                for (answer, &best) in answers.iter().zip(&optima) {
                    let context = format!("seed {seed}, {rounding}, budget {:?}", answer.budget);
                    let found = checked(&instance, answer, &context);
                    assert!(found.is_none_or(|time| best.is_some_and(|best| best <= time)), "{context}");
                }
            }
        }
    }
}

#[test]
fn without_workspace_the_optimum_is_that_of_the_search_without_workspace() {
    for seed in some_of(260..290) {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let plain = joint.clone().without_workspaces(&instance);
        for strategy in ["plain", "coarse"] {
            let given = [("strategy", strategy), ("workspace", "off")];
            for answer in solve("checkmate-ilp", &instance, &budgets(&joint, 2), &given) {
                let expected = oracle(&plain, answer.budget.expect("given"));
                assert_eq!(
                    answer.claimed.map(|claimed| claimed.time),
                    expected,
                    "seed {seed}, {strategy}: {}",
                    answer.note
                );
                assert!(answer.claimed.is_none_or(|claimed| claimed.peak_bytes <= answer.budget.expect("given")));
            }
        }
    }
}

#[test]
fn more_budget_never_costs_more_and_unlimited_is_store_all() {
    for seed in 290..310 {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let mut budgets = budgets(&joint, 6);
        budgets.push(None);
        let answers = solve("checkmate-ilp", &instance, &budgets, &[]);
        let times: Vec<u64> = answers.iter().filter_map(|answer| answer.claimed).map(|claimed| claimed.time).collect();
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0]), "seed {seed}: {times:?}");
        let store_all = Stages::store_all(&joint).claim(&joint).time;
        assert_eq!(times.last(), Some(&store_all), "seed {seed}");
    }
}

#[test]
fn the_bridge_to_other_solvers_finds_the_same_optimum() {
    for seed in 330..340 {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let budgets = budgets(&joint, 2);
        let highs = solve("checkmate-ilp", &instance, &budgets, &[]);
        let others = solve("checkmate-ilp", &instance, &budgets, &[("solver", "microlp")]);
        for (highs, other) in highs.iter().zip(&others) {
            let time = |answer: &Answer| answer.claimed.map(|claimed| claimed.time);
            assert_eq!(time(highs), time(other), "seed {seed}, budget {:?}: {}", highs.budget, other.note);
        }
    }
}

#[test]
fn a_chain_start_changes_nothing_but_the_way() {
    for seed in 310..330 {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let budgets = budgets(&joint, 3);
        let without = solve("checkmate-ilp", &instance, &budgets, &[]);
        let with = solve("checkmate-ilp", &instance, &budgets, &[("start", "rotor-persistent")]);
        for (without, with) in without.iter().zip(&with) {
            let time = |answer: &Answer| answer.claimed.map(|claimed| claimed.time);
            assert_eq!(time(without), time(with), "seed {seed}, budget {:?}: {}", with.budget, with.note);
        }
    }
}

#[test]
fn stages_survive_the_way_through_a_schedule() {
    for seed in 0..50 {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let draw = |stage: usize, value: usize| Random(seed ^ (stage * 64 + value) as u64).below(3) > 0;
        let stages = Stages::complete(&joint, draw);
        let schedule = stages.schedule(&instance, &joint);
        let simulation = simulate(&instance, &schedule).expect("legal");
        let claim = stages.claim(&joint);
        assert_eq!((simulation.time, simulation.peak_bytes), (claim.time, claim.peak_bytes), "seed {seed}");
        assert_eq!(follow(&instance, &joint, &schedule, u64::MAX), stages, "seed {seed}");
    }
}

#[test]
fn the_random_networks_have_budgets_that_force_recomputation() {
    let forced = (0..60).filter(|&seed| {
        let instance = instance(seed);
        let joint = Joint::new(&instance).expect("supported");
        let store_all = Stages::store_all(&joint).claim(&joint).time;
        let optima = budgets(&joint, 4).into_iter().filter_map(|budget| oracle(&joint, budget.expect("given")));
        optima.max().is_some_and(|time| time > store_all)
    });
    let forced = forced.count();
    assert!(forced > 20, "only {forced} of 60");
}
