//! MONeT's program as released against an exhaustive search over its own stages, and itself, on seeded random networks with
//! random alternatives; a failure prints the seed.

use std::sync::Arc;

use crate::common::{Dice, network};
use crate::networks::passes::Twin;
use crate::networks::{Random, solve};
use remat_core::Instance;
use remat_core::format::{ImplementationDocument, InstanceDocument, TensorKind};
use remat_formulations::Termination;
use remat_formulations::monet::anneal::anneal;
use remat_formulations::monet::released::decisions::Decisions;
use remat_formulations::monet::released::neighbourhood::Neighbourhood;
use remat_formulations::monet::released::problem::{BYTE_UNIT, Problem, TIME_UNIT};
use remat_formulations::monet::released::relaxation::Linear;
use remat_formulations::monet::released::task::Task;
use remat_formulations::monet::settings::Modes;
use remat_formulations::random::Random as SplitMix;
use remat_formulations::search::blocks::Block;
use remat_formulations::search::clock::Clock;
use remat_formulations::search::neighbourhoods::{Extent, Shape, carry, draw};
use remat_formulations::search::problem::{Effort, Staged};
use remat_formulations::search::separation::{Pass, Relaxation};
use remat_solvers::{Request, backend};

fn document(seed: u64) -> InstanceDocument {
    let mut random = Random(seed);
    // Masks double the nodes: a short network with them, or a longer one without.
    let masks = seed.is_multiple_of(2);
    let layers = if masks { 2 } else { 3 + random.below(2) };
    let mut draw = |bound| random.below(bound);
    let layers =
        (0..layers).map(|_| (draw(20), draw(10), draw(8), u32::try_from(draw(1 << 32)).expect("below 2^32"))).collect();
    let mut document = network(&Dice { layers });
    if !masks {
        document.tensors.retain(|tensor| tensor.kind != TensorKind::Saved);
        for operator in &mut document.operators {
            operator.implementations.retain(|way| !way.name.contains("mask"));
            // A second algorithm: slower, without workspace.
            let slower = ImplementationDocument::plain("slower", operator.implementations[0].time + 1, 0);
            let inputs = operator.implementations[0].inputs.clone();
            operator.implementations.push(ImplementationDocument { inputs, ..slower });
        }
    }
    // In the program's units, or nearly.
    let (bytes, time) = if seed.is_multiple_of(3) { (1000, 9_900) } else { (BYTE_UNIT, TIME_UNIT) };
    document.tensors.iter_mut().for_each(|tensor| tensor.bytes *= bytes);
    for way in document.operators.iter_mut().flat_map(|operator| &mut operator.implementations) {
        way.workspace_bytes *= bytes;
        way.time *= time;
    }
    document
}

fn instance(seed: u64) -> Instance {
    Instance::new(&document(seed)).expect("the generator makes valid instances")
}

const ALL: Modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };

fn problem(instance: &Instance) -> Option<Problem> {
    Problem::new(instance, ALL).ok()
}

/// Budgets around which something changes.
fn budgets(problem: &Problem) -> Vec<Option<u64>> {
    let most = Decisions::store_all(problem, i64::MAX / 4).expect("everything can be kept").peak().unsigned_abs();
    let least = problem.stages[0].before.unsigned_abs();
    (2..=8).map(|part| Some((least + (most - least) * part / 8) * BYTE_UNIT)).collect()
}

#[test]
fn all_strategies_find_the_optimum_of_an_exhaustive_search_over_stages() {
    let (mut compared, mut recomputed, mut infeasible) = (0, 0, 0);
    for (seed, recompute) in (0..12).flat_map(|seed| [(seed, "on"), (seed, "off")]) {
        let instance = instance(seed);
        let modes = Modes { recompute: recompute == "on", ..ALL };
        let Ok(problem) = Problem::new(&instance, modes) else { continue };
        if problem.nodes.len() > 5 {
            continue;
        }
        let budgets = budgets(&problem);
        let words = [("rules", "as-released"), ("recompute", recompute)];
        let twin = |capacity| Twin { problem: &problem, budget: capacity }.least_time();
        let capacity = |budget: &Option<u64>| (budget.expect("a budget") / BYTE_UNIT).cast_signed();
        let optima: Vec<_> = budgets.iter().map(|budget| twin(capacity(budget))).collect();
        for strategy in ["plain", "coarse"] {
            let given: Vec<_> = words.iter().copied().chain([("strategy", strategy)]).collect();
            for (answer, &expected) in solve("monet", &instance, &budgets, &given).iter().zip(&optima) {
                let context = format!(
                    "seed {seed}, {strategy}, recompute {recompute}, budget {:?}: {}",
                    answer.budget, answer.note
                );
                let time = answer.claimed.map(|claimed| (claimed.time / TIME_UNIT).cast_signed());
                if answer.note.contains("simulated, it is") {
                    continue;
                }
                assert_eq!(time, expected, "{context}");
                let termination = if expected.is_some() { Termination::Optimal } else { Termination::Infeasible };
                assert_eq!(answer.termination, termination, "{context}");
                compared += 1;
                infeasible += usize::from(expected.is_none());
                recomputed += usize::from(expected.is_some_and(|time| time > problem.least_time()));
            }
        }
    }
    assert!(compared > 75 && recomputed > 15 && infeasible > 3, "{compared} {recomputed} {infeasible}");
}

/// Blocks of random lengths; the forward pass is one of its own.
fn random_blocks(stages: usize, random: &mut Random) -> Vec<Block> {
    let mut blocks = vec![Block { first: 0, last: 0 }];
    while let Some(first) = blocks.last().map(|block| block.last + 1).filter(|&first| first < stages) {
        let length = usize::try_from(random.below(8)).expect("below 8");
        blocks.push(Block { first, last: (first + length).min(stages - 1) });
    }
    blocks
}

#[test]
fn every_schedule_is_a_solution_of_the_model_over_any_blocks_that_costs_no_more() {
    let (mut compared, mut less, mut paths) = (0, 0, 0);
    for seed in 100..160 {
        let instance = instance(seed);
        let Some(problem) = problem(&instance).map(Arc::new) else { continue };
        let mut random = Random(seed);
        for budget in budgets(&problem) {
            let task = Task::new(&instance, &problem, budget);
            let capacity = task.capacity;
            let Some(found) = hasty(&task, seed, 30) else { continue };
            let blocks = random_blocks(problem.stages.len(), &mut random);
            let context = format!("seed {seed}, budget {budget:?}, {blocks:?}");
            let mut formulation = Linear::coarse(&problem, capacity, blocks);
            formulation.add_all();
            let vector = formulation.vector(&found);
            assert!(formulation.separate(&vector, Pass::Whole, 1).is_empty(), "{context}");
            for _ in 0..3 {
                let between: Vec<f64> = vector.iter().map(|value| value * random.below(5) as f64 / 4.0).collect();
                paths += formulation.separate(&between, Pass::Relaxed, 1).len();
            }
            let violation = formulation.layout.model.violation(&vector);
            assert!(violation.max() < 1e-6, "{context}: {violation:?}");
            let objective = formulation.layout.model.objective(&vector) * formulation.layout.scale.time;
            assert!(objective <= found.time() as f64 + 1e-6, "{context}: {objective} for {}", found.time());
            let costs: f64 = formulation.layout.costs.iter().map(|costs| costs.value(&vector)).sum();
            assert!((costs - objective).abs() < 1e-6 * objective.max(1.0), "{context}: {costs} and {objective}");
            compared += 1;
            less += usize::from(objective < found.time() as f64 - 1e-6);
        }
    }
    assert!(compared > 100 && less > 0 && paths > 30, "{compared} {less} {paths}");
}

/// What a few steps make of keeping nothing.
fn hasty(task: &Task<'_>, seed: u64, steps: usize) -> Option<Decisions> {
    let problem = &task.problem;
    let mut kept = vec![vec![false; problem.nodes.len()]; problem.stages.len() + 1];
    task.settle(&mut kept);
    if task.complete(kept.clone()).is_none() {
        // What must not run again is kept as long as it can be of use.
        for (at, node) in problem.nodes.iter().enumerate() {
            if node.again.is_empty() && node.parent.is_none() {
                (1..=node.last).for_each(|stage| kept[stage][at] = true);
            }
        }
    }
    task.complete(anneal(task, kept, steps, Effort::alone(Clock::start(None), seed))?)
}

const SHAPES: [Shape; 6] = [Shape::Stages, Shape::Columns, Shape::Both, Shape::Pair, Shape::Near, Shape::Towards];

/// The time that the model of a neighbourhood says, and what its solution comes to.
fn solve_within(problem: &Problem, capacity: i64, open: &Neighbourhood<'_>) -> (f64, Decisions) {
    let mut formulation = Linear::within(problem, capacity, open);
    formulation.add_all();
    let outcome =
        backend("highs").expect("built in").solve(&formulation.layout.model, &Request::default()).expect("solved");
    // Solvers have no vector of a model without columns.
    let vector = if formulation.layout.model.columns() == 0 { Some(vec![]) } else { outcome.incumbent };
    let kept = formulation.kept(&vector.expect("what is around it is a solution"), 0.5);
    let time = outcome.objective.unwrap_or(formulation.layout.model.offset) * formulation.layout.scale.time;
    (time, Decisions::complete(problem, kept, capacity).expect("a completion"))
}

#[test]
fn neighbourhoods_hold_what_is_around_them_and_lead_to_nothing_invalid_and_to_the_optimum_where_all_is_open() {
    let (mut compared, mut better, mut settled) = (0, 0, 0);
    for seed in 200..270 {
        let instance = instance(seed);
        let Some(problem) = problem(&instance).map(Arc::new) else { continue };
        let task = Task::new(&instance, &problem, budgets(&problem)[4]);
        let capacity = task.capacity;
        let Some(around) = hasty(&task, seed, 5) else { continue };
        let best = solve_within(&problem, capacity, &Neighbourhood::everything()).1;
        let optimum = best.time();
        let mut random = SplitMix::new(seed);
        for (shape, heads, cells) in SHAPES.into_iter().flat_map(|s| [(s, 0.0, 4), (s, 1.0, 8), (s, 1.0, 1000)]) {
            let context = format!("seed {seed}, {shape:?}, {heads}, {cells}");
            let open = draw(&task, &around, Some(&best.kept), Extent { shape, heads, cells }, &mut random);
            let open = Neighbourhood::new(&problem, &around, &open);
            let mut formulation = Linear::within(&problem, capacity, &open);
            formulation.add_all();
            let vector = formulation.vector(&around);
            let model = &formulation.layout.model;
            assert!(model.violation(&vector).max() < 1e-6, "{context}: {:?}", model.violation(&vector));
            let objective = model.objective(&vector) * formulation.layout.scale.time;
            assert!((objective - around.time() as f64).abs() < 1e-6 * objective, "{context}: {objective}");
            settled += (0..problem.stages.len()).filter(|&stage| open.settled(stage).is_some()).count();
            let (time, found) = solve_within(&problem, capacity, &open);
            assert!(found.peak() <= capacity, "{context}");
            assert!(found.time() as f64 <= time + 1e-3 && found.time() <= around.time(), "{context}");
            assert!(found.time() >= optimum, "{context}: {} where {optimum} is least", found.time());
            if heads > 0.0 && cells == 1000 && shape != Shape::Both {
                assert_eq!(found.time(), optimum, "{context}");
            }
            compared += 1;
            better += usize::from(found.time() < around.time());
        }
    }
    assert!(compared > 200 && better > 50 && settled > 50, "{compared} {better} {settled}");
}

#[test]
fn what_one_search_changed_is_carried_over_to_what_another_found() {
    let (mut compared, mut carried) = (0, 0);
    for seed in 300..340 {
        let instance = instance(seed);
        let Some(problem) = problem(&instance).map(Arc::new) else { continue };
        let task = Task::new(&instance, &problem, budgets(&problem)[5]);
        let capacity = task.capacity;
        let (Some(from), Some(best)) = (hasty(&task, seed, 1), hasty(&task, seed, 40)) else {
            continue;
        };
        assert_eq!(carry(&task, &from, &from, &from), None, "seed {seed}: nothing changed");
        // What leads to the better solution is dealt to two: carried over, the changes of the one complete those of the other.
        let mut random = SplitMix::new(seed);
        let completed = |kept| Decisions::complete(&problem, kept, capacity);
        for _ in 0..8 {
            let (mut one, mut other) = (from.kept.clone(), from.kept.clone());
            for (stage, row) in best.kept.iter().enumerate() {
                for (column, &kept) in row.iter().enumerate() {
                    let half = if random.unit() < 0.5 { &mut one } else { &mut other };
                    half[stage][column] = kept;
                }
            }
            let (Some(one), Some(other)) = (completed(one), completed(other)) else { continue };
            compared += 1;
            if let Some(both) = carry(&task, &from, &one, &other).filter(|both| both.peak() <= capacity) {
                assert!(both.time() < other.time() && both.time() < one.time(), "seed {seed}");
                carried += 1;
            }
        }
    }
    assert!(compared > 50 && carried > 20, "{compared} {carried}");
}
