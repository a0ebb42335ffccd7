//! `free-order-bound` against the exhaustive search over all schedules, on random networks with everything that the format
//! knows.

use crate::networks::{self, ONE, shipped, some_of};
use remat_core::generate::random::random;
use remat_core::{Instance, simulate};
use remat_formulations::contradiction::{budgets, threads};
use remat_formulations::{Answer, Limits, NoStarts, Termination};

fn answers(id: &str, instance: &Instance, budgets: &[Option<u64>], threads: usize) -> Vec<Answer> {
    networks::answers(id, instance, budgets, &[], &NoStarts, Limits { threads, ..ONE })
}

#[test]
fn no_schedule_in_any_order_undercuts_the_bound_and_what_is_called_optimal_is() {
    let (mut cases, mut equal, mut solved, mut refuted, mut infeasible, mut short) = (0, 0, 0, 0, 0, 0.0);
    for seed in some_of(0..120) {
        let layers = 2 + u32::try_from(seed % 4).expect("small");
        let instance = Instance::new(&random("random", layers, 7_000 + seed)).expect("valid");
        if instance.operators().len() > 12 {
            continue;
        }
        let budgets: Vec<Option<u64>> = budgets(&instance).into_iter().map(Some).collect();
        let truth = answers("oracle", &instance, &budgets, 1);
        for (truth, bound) in truth.iter().zip(answers("free-order-bound", &instance, &budgets, threads(seed))) {
            let case = format!("seed {seed}, budget {:?}, {}", truth.budget, bound.note);
            if let Some(schedule) = &bound.schedule {
                let simulation = simulate(&instance, schedule).expect("legal");
                assert!(bound.budget.is_none_or(|budget| simulation.peak_bytes <= budget), "{case}");
                assert_eq!(bound.claimed.map(|claimed| claimed.time), Some(simulation.time), "{case}");
                if bound.termination == Termination::Optimal {
                    assert_eq!(truth.claimed.map(|claimed| claimed.time), Some(simulation.time), "{case}");
                    solved += 1;
                }
            }
            match (truth.claimed, bound.lower_bound) {
                (Some(optimum), Some(bound)) => {
                    assert!(bound <= optimum.time, "{case}: {bound} > {}", optimum.time);
                    cases += 1;
                    equal += usize::from(bound == optimum.time);
                    short += 1.0 - bound as f64 / optimum.time as f64;
                }
                (Some(optimum), None) => {
                    panic!("{case}: {:?}, and there is one of {}", bound.termination, optimum.time)
                }
                (None, known) => {
                    assert_eq!(truth.termination, Termination::Infeasible, "{case}");
                    infeasible += 1;
                    refuted += usize::from(known.is_none());
                }
            }
        }
    }
    let short = 100.0 * short / f64::from(u32::try_from(cases).expect("few"));
    let figures = format!(
        "{cases} cases, equal in {equal}, {short:.2} % short, {solved} solved; {refuted} of {infeasible} infeasible proved"
    );
    assert!(
        10 * equal > 8 * cases && 10 * solved > 7 * cases && 10 * refuted > 9 * infeasible && short < 2.0,
        "{figures}"
    );
}

/// HiGHS 1.15 calls a feasible relaxation of this network infeasible if its presolve enumerates the solutions of single rows.
#[test]
fn a_step_of_presolve_that_loses_solutions_is_left_out() {
    let instance = Instance::new(&random("random", 4, 21_918)).expect("valid");
    let budgets = [Some(46)];
    let optimum = answers("oracle", &instance, &budgets, 1)[0].claimed.expect("there is a schedule").time;
    assert_eq!(answers("free-order-bound", &instance, &budgets, 1)[0].lower_bound, Some(optimum));
}

/// Times of 10^12 units: a solution that a solver calls optimal within 10^-7 may lie further above its own bound than a proof allows.
#[test]
fn a_schedule_that_costs_what_the_bound_is_is_proved() {
    let instance = shipped("checkmate/mobilenet-224-b512-flops.json.zst");
    let store_all = answers("store-all", &instance, &[None], 1)[0].claimed.expect("legal");
    let answer = answers("free-order-bound", &instance, &[Some(store_all.peak_bytes / 2)], 1).remove(0);
    assert_eq!(answer.termination, Termination::Optimal, "{}", answer.note);
}
