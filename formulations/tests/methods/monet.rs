//! `monet` against an exhaustive search of its class, `checkmate-ilp`, and itself, on seeded random networks with random
//! alternatives; a failure prints the seed. `monet_released.rs` has the published model.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::classes::steps;
use crate::networks::{Early, Random, budgets, checked, part, solve, some_of};
use remat_core::format::{ImplementationDocument, InstanceDocument};
use remat_core::generate::layered::{Layered, layered};
use remat_core::generate::random::random;
use remat_core::{Instance, Schedule, Step};
use remat_formulations::monet::anneal::anneal;
use remat_formulations::monet::plan::Plan;
use remat_formulations::monet::settings::Modes;
use remat_formulations::monet::task::Task;
use remat_formulations::random::Random as SplitMix;
use remat_formulations::search::blocks::Block;
use remat_formulations::search::clock::Clock;
use remat_formulations::search::neighbourhoods::{Extent, Shape, draw};
use remat_formulations::search::problem::{Effort, Staged};
use remat_formulations::search::separation::{Pass, Relaxation, Solving, separate};
use remat_formulations::staged::graph::Graph;
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::model::{Linear, Run};
use remat_formulations::{Answer, Context, Limits, Parameters, Starts, Termination, find};
use remat_solvers::backend;

const ALL: Modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };

/// A random network with several ways to run most operators.
fn document(seed: u64) -> InstanceDocument {
    let mut document = random("random", 2 + u32::try_from(seed % 3).expect("small"), seed);
    for operator in document.operators.iter_mut().filter(|operator| operator.implementations.len() == 1) {
        // A second algorithm: slower, without workspace.
        let only = operator.implementations[0].clone();
        operator.implementations[0].workspace_bytes += 3;
        let slower = ImplementationDocument { name: "slower".into(), time: only.time + 1, ..only };
        operator.implementations.push(ImplementationDocument { workspace_bytes: 0, ..slower });
    }
    document
}

fn instance(seed: u64) -> Instance {
    Instance::new(&document(seed)).expect("the generator makes valid instances")
}

/// Budgets around which something changes.
fn some_budgets(instance: &Instance, graph: &Graph) -> Vec<u64> {
    let most = Plan::store_all(graph, u64::MAX).map_or(0, |plan| plan.peak());
    let least = instance.base_bytes();
    (3..=8).map(|part| least + most.saturating_sub(least) * part / 8).collect()
}

#[test]
fn what_the_search_starts_from_is_reported_as_it_comes() {
    let method = find("monet").expect("registered");
    let parameters = Parameters::defaults(method.about().parameters);
    let limits = Limits { time: None, threads: 1, seed: 0 };
    let mut improved = 0;
    for seed in 1..5 {
        let instance = Instance::new(&layered("layered", &Layered::moccasin(30, 0.4), seed)).expect("valid");
        let most = Plan::store_all(&Graph::new(&instance, ALL), u64::MAX).expect("legal").peak();
        let early = Early::default();
        let budgets = [Some(most * 9 / 10)];
        let context = Context { reporter: &early, ..Context::new(&instance, &parameters, &budgets, limits) };
        method.answers(&context).expect("supported");
        let times = early.times();
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0]), "seed {seed}: {times:?}");
        improved += times.windows(2).filter(|pair| pair[1] < pair[0]).count();
    }
    assert!(improved > 0, "of no start more than one schedule was heard");
}

/// Another method has found a schedule before.
struct Known(Schedule);

impl Starts for Known {
    fn known(&self) -> Option<Schedule> {
        Some(self.0.clone())
    }
}

#[test]
fn it_goes_on_from_what_others_have_found_with_the_implementations_of_that() {
    let method = find("monet").expect("registered");
    let parameters = Parameters::defaults(method.about().parameters);
    // No time for anything but starts.
    let limits = Limits { time: Some(Duration::ZERO), threads: 1, seed: 0 };
    let mut better = 0;
    for seed in 0..12 {
        let instance = instance(seed);
        let budgets: Vec<_> = some_budgets(&instance, &Graph::new(&instance, ALL)).into_iter().map(Some).collect();
        for best in solve("monet", &instance, &budgets, &[]) {
            let Some(schedule) = best.schedule else { continue };
            let budget = [best.budget];
            let context = Context::new(&instance, &parameters, &budget, limits);
            let time = |context: &Context<'_>| {
                let answers = method.answers(context).expect("supported");
                answers[0].claimed.map_or(u64::MAX, |claimed| claimed.time)
            };
            let alone = time(&context);
            let after = time(&Context { starts: &Known(schedule), ..context });
            assert_eq!(Some(after), best.claimed.map(|claimed| claimed.time), "seed {seed}, budget {:?}", best.budget);
            better += usize::from(after < alone);
        }
    }
    assert!(better > 10, "starts alone were as good but for {better}");
}

#[test]
fn all_strategies_and_modes_find_the_optimum_of_an_exhaustive_search_over_steps() {
    let (mut compared, mut infeasible) = (0, 0);
    for seed in some_of(0..30) {
        let instance = instance(seed);
        if instance.operators().len() > 9 || instance.tensors().len() > 18 {
            continue;
        }
        let budgets: Vec<_> = some_budgets(&instance, &Graph::new(&instance, ALL)).into_iter().map(Some).collect();
        let modes =
            ["noop", "conv", "output-activated", "intermediate-activated"][usize::try_from(seed % 4).expect("small")];
        let settings: [&[(&str, &str)]; 5] = [
            &[],
            &[("strategy", "plain")],
            &[("recompute", "off")],
            &[("modes", modes)],
            &[("modes", modes), ("in-place", "off")],
        ];
        for given in settings {
            let words = given.iter().map(|&(name, word)| (name.to_owned(), word.to_owned())).collect();
            let method = find("monet").expect("registered");
            let parameters = Parameters::new(method.about().parameters, &words).expect("parameters of monet");
            let class = method.claim(&parameters).class;
            for answer in solve("monet", &instance, &budgets, given) {
                let context = format!("seed {seed}, {given:?}, budget {:?}: {}", answer.budget, answer.note);
                let expected = steps::least_time(&instance, &class, answer.budget.expect("a budget"));
                assert_eq!(checked(&instance, &answer, &context), expected, "{context}");
                let termination = if expected.is_some() { Termination::Optimal } else { Termination::Infeasible };
                assert_eq!(answer.termination, termination, "{context}");
                compared += 1;
                infeasible += u32::from(expected.is_none());
            }
        }
    }
    assert!(compared > part(165) && infeasible > part(15), "{compared} {infeasible}");
}

#[test]
fn without_alternatives_it_finds_what_checkmate_finds_and_with_them_nothing_worse() {
    let (mut compared, mut better) = (0, 0);
    for seed in 0..24 {
        let mut document = random("random", 3, seed);
        let alone = seed % 2 == 0;
        if alone {
            // What some implementation saves besides has no producer without it.
            for operator in &mut document.operators {
                operator.implementations.retain(|way| way.in_place.is_none());
                operator.implementations.truncate(1 + usize::from(operator.updates_state));
            }
        }
        let Ok(instance) = Instance::new(&document) else { continue };
        let Ok(joint) = Joint::new(&instance) else { continue };
        let budgets = budgets(&joint, 4);
        let time = |answer: &Answer| answer.claimed.map_or(u64::MAX, |claimed| claimed.time);
        let checkmate = solve("checkmate-ilp", &instance, &budgets, &[]);
        for (monet, checkmate) in solve("monet", &instance, &budgets, &[]).iter().zip(&checkmate) {
            let context = format!("seed {seed}, budget {:?}: {}", monet.budget, monet.note);
            let graph = Graph::new(&instance, ALL);
            let one = graph.operators.iter().all(|operator| operator.first.len() < 2 && operator.again.len() < 2);
            if one {
                assert_eq!(time(monet), time(checkmate), "{context}");
            }
            assert!(time(monet) <= time(checkmate), "{context}");
            compared += 1;
            better += usize::from(time(monet) < time(checkmate));
        }
    }
    assert!(compared > 60 && better > 5, "{compared} {better}");
}

/// Blocks of random lengths.
fn random_blocks(stages: usize, random: &mut Random) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    while let Some(first) = Some(blocks.last().map_or(0, |block| block.last + 1)).filter(|&first| first < stages) {
        let length = usize::try_from(random.below(5)).expect("below 5");
        blocks.push(Block { first, last: (first + length).min(stages - 1) });
    }
    blocks
}

fn task<'a>(instance: &'a Instance, graph: &'a Graph, budget: u64) -> Task<'a> {
    Task { instance, graph, budget: Some(budget), one: None }
}

/// A schedule in stages with ways of the graph.
fn plan_of(graph: &Graph, schedule: &Schedule) -> Option<Plan> {
    let position_of = |id| graph.operators.iter().position(|operator| operator.id == id);
    let (mut runs, mut current): (Vec<Vec<Run>>, Vec<Run>) = (Vec::new(), Vec::new());
    for step in &schedule.steps {
        let Step::Compute { operator, implementation } = *step else { continue };
        let position = position_of(operator)?;
        let ways = graph.ways(runs.len(), position);
        assert!(current.last().is_none_or(|last| last.0 < position), "runs of a stage are in order");
        current.push((position, ways.iter().position(|way| way.implementation == implementation)?));
        if position == runs.len() {
            runs.push(std::mem::take(&mut current));
        }
    }
    (runs.len() == graph.len() && current.is_empty()).then(|| Plan::of_runs(graph, runs)).flatten()
}

/// What a few steps make of keeping everything.
fn found(task: &Task<'_>, seed: u64, steps: usize) -> Option<Plan> {
    let store_all = Plan::store_all(task.graph, u64::MAX)?;
    let kept = anneal(task, store_all.kept, steps, Effort::alone(Clock::start(None), seed))?;
    task.complete(kept).filter(|plan| task.fits(plan))
}

#[test]
fn every_schedule_is_a_solution_of_the_model_over_any_blocks_that_costs_no_more() {
    let (mut compared, mut less, mut paths) = (0, 0, 0);
    for seed in 100..180 {
        let instance = instance(seed);
        let graph = Graph::new(&instance, ALL);
        let mut random = Random(seed);
        for budget in some_budgets(&instance, &graph) {
            let task = task(&instance, &graph, budget);
            let Some(plan) = found(&task, seed, 600) else { continue };
            let (schedule, claimed) = match remat_formulations::search::incumbent::Judge::admit(&task, &plan) {
                Ok(Ok(admitted)) => admitted,
                other => panic!("seed {seed}, budget {budget}: {other:?}"),
            };
            assert_eq!((claimed.time, claimed.peak_bytes), (plan.time(), plan.peak()), "seed {seed}, budget {budget}");
            assert_eq!(plan_of(&graph, &schedule).as_ref(), Some(&plan), "seed {seed}, budget {budget}");
            let blocks = random_blocks(graph.len(), &mut random);
            let context = format!("seed {seed}, budget {budget}, {blocks:?}");
            let mut linear = Linear::new(&graph, task.budget, blocks);
            let point = task.point(&linear, &plan);
            assert!(linear.model.violation(&point).max() < 1e-6, "{context}: {:?}", linear.model.violation(&point));
            assert!(linear.separate(&point, Pass::Whole, 1).is_empty(), "{context}");
            // Rows of memory and of paths that points between schedules violate.
            for _ in 0..3 {
                let between: Vec<f64> = point.iter().map(|value| value * random.below(5) as f64 / 4.0).collect();
                let memory = linear.violated(&between, 1).0.len();
                paths += linear.separate(&between, Pass::Relaxed, 1).len() - memory;
            }
            assert!(linear.model.violation(&point).max() < 1e-6, "{context}: {:?}", linear.model.violation(&point));
            let time = linear.fixed_time() as f64 + linear.model.objective(&point) * linear.scale().time;
            assert!(time <= plan.time() as f64 + 1e-6, "{context}: {time} for {}", plan.time());
            let costs: f64 = linear.costs.iter().map(|costs| costs.value(&point)).sum();
            assert!(
                (costs + graph.least_time() as f64 - time).abs() < 1e-6 * time.max(1.0),
                "{context}: {costs}, {time}"
            );
            compared += 1;
            less += usize::from(time < plan.time() as f64 - 1e-6);
        }
    }
    assert!(compared > 100 && less > 0 && paths > 100, "{compared} {less} {paths}");
}

const SHAPES: [Shape; 6] = [Shape::Stages, Shape::Columns, Shape::Both, Shape::Pair, Shape::Near, Shape::Towards];

/// Keeps the last solution.
struct Last(Option<Vec<f64>>);

impl remat_formulations::search::separation::Follower<Linear<'_>> for Last {
    fn gap(&self) -> f64 {
        0.0
    }
    fn start(&self, _: &Linear<'_>) -> Option<Vec<f64>> {
        None
    }
    fn hear(&mut self, _: &Linear<'_>, _: &remat_solvers::Progress<'_>) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }
    fn solved(
        &mut self,
        _: &Linear<'_>,
        outcome: &remat_solvers::Outcome,
        _: Pass,
    ) -> Result<std::ops::ControlFlow<()>, remat_formulations::MethodError> {
        self.0.clone_from(&outcome.incumbent);
        Ok(std::ops::ControlFlow::Continue(()))
    }
}

/// The schedule that the solution of a model comes to, memory rows as they are violated.
fn solved(task: &Task<'_>, mut linear: Linear<'_>) -> Plan {
    let solving = Solving { solver: backend("highs").expect("built in"), threads: 1, seed: 0 };
    let terms = remat_formulations::search::separation::Terms {
        clock: Clock::start(None),
        nodes: None,
        from: Pass::Whole,
        until: Pass::Whole,
        interrupt: None,
    };
    let mut last = Last(None);
    // Solvers have no vector of a model without columns.
    if linear.model.columns() > 0 {
        separate(&solving, &mut linear, terms, &mut last).expect("solves");
    }
    let point = if linear.model.columns() == 0 { vec![] } else { last.0.expect("what is around it is a solution") };
    task.expand(&linear, &point).expect("a schedule")
}

#[test]
fn neighbourhoods_hold_what_is_around_them_and_lead_to_nothing_invalid_and_to_the_optimum_where_all_is_open() {
    let (mut compared, mut better) = (0, 0);
    for seed in 200..240 {
        let instance = instance(seed);
        let graph = Graph::new(&instance, ALL);
        let task = task(&instance, &graph, some_budgets(&instance, &graph)[3]);
        let Some(around) = found(&task, seed, 20) else { continue };
        let best = solved(&task, task.exact());
        let mut random = SplitMix::new(seed);
        for (shape, heads, cells) in SHAPES.into_iter().flat_map(|s| [(s, 0.0, 4), (s, 1.0, 8), (s, 1.0, 1000)]) {
            let context = format!("seed {seed}, {shape:?}, {heads}, {cells}");
            let open = draw(&task, &around, Some(&best.kept), Extent { shape, heads, cells }, &mut random);
            let linear = task.within(&around, &open);
            let point = task.point(&linear, &around);
            assert!(linear.model.violation(&point).max() < 1e-6, "{context}: {:?}", linear.model.violation(&point));
            let time = linear.fixed_time() as f64 + linear.model.objective(&point) * linear.scale().time;
            assert!((time - around.time() as f64).abs() < 1e-6 * time, "{context}: {time}");
            let found = solved(&task, linear);
            assert!(task.fits(&found) && found.time() <= around.time(), "{context}");
            assert!(found.time() >= best.time(), "{context}: {} where {} is least", found.time(), best.time());
            if heads > 0.0 && cells == 1000 && shape != Shape::Both && shape != Shape::Towards {
                assert_eq!(found.time(), best.time(), "{context}");
            }
            compared += 1;
            better += usize::from(found.time() < around.time());
        }
    }
    assert!(compared > 200 && better > 20, "{compared} {better}");
}

#[test]
fn threads_that_search_beside_the_one_that_bounds_end_with_the_same_optimum() {
    let (mut compared, method) = (0, find("monet").expect("registered"));
    for seed in 240..252 {
        let instance = instance(seed);
        let budgets: Vec<_> = some_budgets(&instance, &Graph::new(&instance, ALL)).into_iter().map(Some).collect();
        let parameters = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("the defaults");
        let limits = Limits { time: Some(Duration::from_secs(600)), threads: 3, seed };
        let together = method.answers(&Context::new(&instance, &parameters, &budgets, limits)).expect("solves");
        for (alone, together) in solve("monet", &instance, &budgets, &[]).iter().zip(&together) {
            let context = format!("seed {seed}, budget {:?}: {}", alone.budget, together.note);
            let time = checked(&instance, together, &context);
            assert_eq!(checked(&instance, alone, &context), time, "{context}");
            assert_eq!(alone.termination, together.termination, "{context}");
            compared += usize::from(time.is_some());
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn the_relaxation_is_a_bound_and_more_memory_never_costs_more() {
    let mut compared = 0;
    for seed in 20..44 {
        let instance = instance(seed);
        let budgets: Vec<_> = some_budgets(&instance, &Graph::new(&instance, ALL)).into_iter().map(Some).collect();
        let relaxed = solve("monet-lp", &instance, &budgets, &[]);
        let mut before = u64::MAX;
        for (answer, relaxed) in solve("monet", &instance, &budgets, &[]).iter().zip(&relaxed) {
            let context = format!("seed {seed}, budget {:?}: {}", answer.budget, answer.note);
            let Some(time) = checked(&instance, answer, &context) else { continue };
            assert!(time <= before, "more memory cost more: {context}");
            assert!(relaxed.lower_bound.is_some_and(|bound| bound <= time), "{context}");
            before = time;
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
}
