//! The checkpointing baselines on networks worked out by hand, against a slow twin, and against each other.

use std::collections::BTreeMap;

use crate::common::{dice, empty, network, operator, tensor};
use crate::networks::{self, Early, ONE};
use proptest::prelude::*;
use remat_core::format::{InstanceDocument, Phase, TensorKind};
use remat_core::{Instance, Simulation, simulate};
use remat_formulations::chen::candidates::{Candidates, ForwardGraph};
use remat_formulations::chen::segments::Segments;
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::{Answer, Context, Parameters, Registered, Termination, find};

const ALL: [&str; 6] = ["chen-sqrt", "chen-greedy", "ap-sqrt", "ap-greedy", "linearized-sqrt", "linearized-greedy"];

fn solve(method: &str, instance: &Instance, budget: Option<u64>, given: &[(&str, &str)]) -> Answer {
    networks::answers(method, instance, &[budget], given, &Registered, ONE).remove(0)
}

fn simulated(instance: &Instance, answer: &Answer) -> Simulation {
    let simulation = simulate(instance, answer.schedule.as_ref().expect("a schedule")).expect("legal");
    let claimed = answer.claimed.expect("claims");
    assert_eq!((simulation.time, simulation.peak_bytes), (claimed.time, claimed.peak_bytes));
    simulation
}

/// Forward operators with what each reads (0 is the input, i + 1 what operator i makes), all of time and
/// size 1 but for the loss, which makes nothing; the backward of each reads what it read and takes 1.
fn forward_and_back(reads: &[&[u32]]) -> InstanceDocument {
    let mut document = empty("by hand");
    let n = u32::try_from(reads.len()).expect("small");
    document.tensors.push(tensor(0, 1, TensorKind::Input));
    for (id, reads) in (0..n).zip(reads) {
        let last = id + 1 == n;
        let (kind, phase) =
            if last { (TensorKind::Output, Phase::Loss) } else { (TensorKind::Activation, Phase::Forward) };
        document.tensors.push(tensor(id + 1, u64::from(!last), kind));
        document.operators.push(operator(id, phase, reads.to_vec(), vec![id + 1]));
    }
    for (id, reads) in (0..n).zip(reads).rev() {
        let mut inputs = reads.to_vec();
        if id + 1 < n {
            inputs.push(n + id + 2);
        }
        let kind = if id == 0 { TensorKind::ParamGradient } else { TensorKind::Gradient };
        document.tensors.push(tensor(n + id + 1, 1, kind));
        let mut backward = operator(2 * n - 1 - id, Phase::Backward, inputs, vec![n + id + 1]);
        backward.differentiates = Some(id);
        document.operators.push(backward);
    }
    document.order = (0..2 * n).collect();
    document
}

fn chain(n: u32) -> Instance {
    let reads: Vec<Vec<u32>> = (0..n).map(|id| vec![id]).collect();
    let reads: Vec<&[u32]> = reads.iter().map(Vec::as_slice).collect();
    Instance::new(&forward_and_back(&reads)).expect("valid")
}

/// a -> (b, c) -> d -> loss.
fn residual() -> InstanceDocument {
    forward_and_back(&[&[0], &[1], &[1], &[2, 3], &[4]])
}

fn graph(instance: &Instance) -> ForwardGraph {
    ForwardGraph::new(instance, &Joint::new(instance).expect("supported")).expect("has a forward pass")
}

#[test]
fn sqrt_of_ten_unit_layers_keeps_three_and_runs_six_again() {
    let instance = chain(10);
    for method in ["chen-sqrt", "ap-sqrt", "linearized-sqrt"] {
        let simulation = simulated(&instance, &solve(method, &instance, None, &[]));
        // Of a0..a8 it keeps a2, a5 and a8; the segments (0, 1), (3, 4), (6, 7) run again.
        assert_eq!(simulation.time, 20 + 6, "{method}");
        // Backward 8: the input, a2, a5, the segment's a6 and a7, and two gradients.
        assert_eq!(simulation.peak_bytes, 7, "{method}");
        let again: Vec<u64> = simulation.runs.iter().take(10).map(|&runs| u64::from(runs) - 1).collect();
        assert_eq!(again, [1, 1, 0, 1, 1, 0, 1, 1, 0, 0], "{method}");
    }
}

#[test]
fn sqrt_needs_about_two_roots_of_memory_and_less_than_one_more_forward_on_unit_chains() {
    for n in [2_u32, 5, 17, 64, 100, 257] {
        let instance = chain(n);
        let simulation = simulated(&instance, &solve("chen-sqrt", &instance, None, &[]));
        let root = u64::from(n).isqrt();
        assert!(simulation.peak_bytes <= 2 * root + 5, "n = {n}: {}", simulation.peak_bytes);
        assert!(simulation.recomputations() < u64::from(n), "n = {n}");
        assert!(simulation.runs.iter().all(|&runs| runs <= 2), "n = {n}");
    }
}

#[test]
fn greedy_has_the_schedule_of_sqrt_among_its_own_on_unit_chains() {
    for n in [5, 10, 26, 37] {
        let instance = chain(n);
        let sqrt = simulated(&instance, &solve("linearized-sqrt", &instance, None, &[]));
        for method in ["chen-greedy", "ap-greedy", "linearized-greedy"] {
            let greedy = simulated(&instance, &solve(method, &instance, Some(sqrt.peak_bytes), &[]));
            assert!(greedy.time <= sqrt.time, "{method}, n = {n}");
        }
        let b = (u64::from(n) - 1).isqrt() - 1;
        let same = simulated(&instance, &solve("chen-greedy", &instance, None, &[("segment-bytes", &b.to_string())]));
        assert_eq!((same.time, same.peak_bytes), (sqrt.time, sqrt.peak_bytes), "n = {n}");
    }
}

#[test]
fn the_sweep_over_b_finds_the_best_of_every_b() {
    let instance = chain(12);
    let each: Vec<Simulation> = (0..20)
        .map(|b: u64| simulated(&instance, &solve("ap-greedy", &instance, None, &[("segment-bytes", &b.to_string())])))
        .collect();
    for budget in 4..16 {
        let best = each.iter().filter(|s| s.peak_bytes <= budget).map(|s| s.time).min();
        let swept = solve("ap-greedy", &instance, Some(budget), &[]);
        assert_eq!(swept.claimed.map(|claimed| claimed.time), best, "budget {budget}");
        let expected = if best.is_some() { Termination::Feasible } else { Termination::NotFound };
        assert_eq!(swept.termination, expected);
    }
}

#[test]
fn a_search_over_stages_knows_the_better_of_both_sweeps_before_it_asks_a_solver() {
    let method = find("checkmate-ilp").expect("registered");
    let parameters = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("the defaults");
    for instance in [chain(12), Instance::new(&residual()).expect("valid")] {
        for budget in 4..16 {
            let early = Early::default();
            let budgets = [Some(budget)];
            let context = Context::new(&instance, &parameters, &budgets, ONE);
            let context = Context { starts: &Registered, reporter: &early, ..context };
            method.answers(&context).expect("supported");
            let known = early.times().last().copied();
            let best = better_greedy(&instance, budget);
            let store_all = simulated(&instance, &solve("store-all", &instance, None, &[])).peak_bytes <= budget;
            assert!(store_all || best.is_none_or(|best| known.is_some_and(|known| known <= best)), "budget {budget}");
        }
    }
}

#[test]
fn a_branch_is_no_articulation_point_and_what_hangs_beside_makes_none() {
    let mut document = residual();
    let instance = Instance::new(&document).expect("valid");
    assert_eq!(graph(&instance).articulation, [0, 3]);
    assert!(!graph(&instance).is_linear());
    let refused = Candidates::Linear.of(&graph(&instance)).expect_err("it branches").to_string();
    assert_eq!(refused, "the network is not linear: 2 of its 4 operators below the loss lie beside other paths");
    assert!(find("chen-sqrt").expect("registered").supports(&instance).is_err());

    // A counter that reads b, and a constant that c reads, both made in the forward pass.
    document.tensors.extend([tensor(90, 1, TensorKind::Output), tensor(91, 1, TensorKind::Activation)]);
    document.operators.push(operator(90, Phase::Forward, vec![2], vec![90]));
    document.operators.push(operator(91, Phase::Forward, vec![], vec![91]));
    document.operators[2].inputs.push(91);
    document.order.insert(0, 91);
    document.order.insert(4, 90);
    let instance = Instance::new(&document).expect("valid");
    let found = graph(&instance);
    assert_eq!(found.operators.len(), 5);
    assert_eq!(found.articulation.len(), 2);
}

#[test]
fn a_skip_connection_runs_again_with_the_segment_that_reads_it() {
    // f3 reads what f2 and f0 make; kept are f1 and f3.
    let instance = Instance::new(&forward_and_back(&[&[0], &[1], &[2], &[3, 1], &[4]])).expect("valid");
    assert_eq!(graph(&instance).articulation, [0, 3]);
    let linearized = simulated(&instance, &solve("linearized-sqrt", &instance, None, &[]));
    let runs: Vec<_> = linearized.runs.iter().take(5).copied().collect();
    assert_eq!(runs, [2, 1, 2, 1, 1]);
    let points = simulated(&instance, &solve("ap-sqrt", &instance, None, &[]));
    // f0 and f3 are kept: only f1 and f2 run again.
    assert_eq!(points.runs.iter().take(5).copied().collect::<Vec<_>>(), [1, 2, 2, 1, 1]);
}

#[test]
fn unlimited_memory_leaves_nothing_to_recompute() {
    for instance in [chain(7), Instance::new(&residual()).expect("valid")] {
        for method in ["ap-greedy", "linearized-greedy"] {
            assert_eq!(simulated(&instance, &solve(method, &instance, None, &[])).recomputations(), 0, "{method}");
        }
    }
}

/// Positions through which every path leads, by leaving each one out.
fn by_removal(instance: &Instance) -> Vec<usize> {
    let joint = Joint::new(instance).expect("supported");
    let forward: Vec<usize> =
        (0..joint.len()).filter(|&p| instance.operator(joint.operators[p].id).phase.is_forward()).collect();
    let last = *forward.last().expect("has a forward pass");
    let reachable = |without: Option<usize>| {
        let mut reached = vec![false; joint.len()];
        for &position in forward.iter().filter(|&&p| Some(p) != without) {
            let operator = &joint.operators[position];
            let source = instance.operator(operator.id).implementations[operator.first[0].implementation]
                .reads
                .iter()
                .any(|&t| instance.tensor(t).kind == TensorKind::Input);
            let fed = operator.first[0].reads.iter().any(|&value| reached[joint.values[value].producer]);
            reached[position] = source || fed;
        }
        reached[last]
    };
    let below = graph(instance).operators;
    below.into_iter().filter(|&p| p != last && !reachable(Some(p))).collect()
}

#[test]
fn the_optimum_is_no_slower_than_its_start_and_the_same_as_without() {
    for (instance, budget) in [(chain(5), 7), (chain(6), 7), (Instance::new(&residual()).expect("valid"), 8)] {
        let solve = |start| solve("checkmate-ilp", &instance, Some(budget), &[("start", start)]);
        let (without, with) = (solve("none"), solve("auto"));
        assert_eq!(with.termination, Termination::Optimal);
        assert_eq!(simulated(&instance, &without).time, simulated(&instance, &with).time);
        let greedy = better_greedy(&instance, budget);
        assert!(greedy.is_none_or(|time| simulated(&instance, &with).time <= time));
    }
}

/// The better of both sweeps over b.
fn better_greedy(instance: &Instance, budget: u64) -> Option<u64> {
    let time = |method| solve(method, instance, Some(budget), &[]).claimed.map(|claimed| claimed.time);
    [time("ap-greedy"), time("linearized-greedy")].into_iter().flatten().min()
}

proptest! {
    #[test]
    fn articulation_points_are_the_operators_without_which_no_path_is_left(dice in dice(2..12)) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        prop_assert_eq!(graph(&instance).articulation, by_removal(&instance));
    }

    #[test]
    fn stages_are_those_of_the_second_phase_of_the_rounding(
        dice in dice(2..12),
        chosen in any::<u16>(),
        again in any::<bool>(),
        fixed in any::<u16>(),
    ) {
        let mut document = network(&dice);
        for (at, operator) in document.operators.iter_mut().enumerate() {
            operator.recomputable = match operator.phase {
                Phase::Backward => Some(again),
                _ => Some(operator.updates_state || fixed >> (at % 16) & 3 != 3),
            };
        }
        let instance = Instance::new(&document).expect("valid");
        let joint = Joint::new(&instance).expect("supported");
        let checkpoints: Vec<usize> = (0..dice.layers.len() - 1).filter(|at| chosen >> at & 1 == 1).collect();
        let segments = Segments::new(&instance, &joint, &checkpoints);
        let stages = segments.stages(&joint);
        prop_assert_eq!(&stages, &Stages::complete(&joint, |stage, value| segments.kept(stage, value)));
        prop_assert!(simulate(&instance, &stages.schedule(&instance, &joint)).is_ok());
    }

    #[test]
    fn schedules_are_legal_within_the_budget_and_no_faster_than_store_all(dice in dice(2..14), tenths in 3..11u64) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        let store_all = simulated(&instance, &solve("store-all", &instance, None, &[]));
        let budget = store_all.peak_bytes * tenths / 10;
        for method in ALL.into_iter().filter(|id| find(id).expect("registered").supports(&instance).is_ok()) {
            let answer = solve(method, &instance, Some(budget), &[]);
            if answer.schedule.is_none() {
                prop_assert_eq!(answer.termination, Termination::NotFound);
                continue;
            }
            let simulation = simulated(&instance, &answer);
            prop_assert!(simulation.time >= store_all.time, "{}", method);
            prop_assert!(method.ends_with("sqrt") || simulation.peak_bytes <= budget, "{}", method);
        }
    }
}
