//! `fastsa`: its incremental state against everything computed anew, its claims against the simulator,
//! its schedules against the oracle's optimum.

mod offload;

use crate::common;
use crate::common::{Dice, network};
use crate::networks::{self, ONE, part};
use remat_core::format::{InstanceDocument, Phase, TensorKind};
use remat_core::generate::layered::{Layered, layered};
use remat_core::{Instance, Step as ScheduleStep, TransferRates, simulate};
use remat_formulations::fastsa::graph::{Graph, Operators};
use remat_formulations::fastsa::group::{decompose, group};
use remat_formulations::fastsa::mutate::Outcome;
use remat_formulations::fastsa::objective::{Goal, Objective};
use remat_formulations::fastsa::profile::{Peak, Profile, Soft};
use remat_formulations::fastsa::propose::{Aim, Proposer};
use remat_formulations::fastsa::state::{State, Step};
use remat_formulations::random::Random;
use remat_formulations::{Answer, Limits, NoStarts, Registered, Termination, find};

/// A random network of one of the shapes that the simulator's own tests use: masks, state, in-place.
fn random_network(random: &mut Random, most: u32) -> Instance {
    let layers = 1 + random.below(most);
    let same = random.below(2) == 0;
    let layer = |random: &mut Random| {
        let bytes = if same { 7 } else { u64::from(random.below(20)) };
        (bytes, u64::from(random.below(10)), u64::from(random.below(8)), random.below(u32::MAX))
    };
    let dice = Dice { layers: (0..layers).map(|_| layer(random)).collect() };
    Instance::new(&network(&dice)).expect("the generator makes valid instances")
}

fn random_layered(random: &mut Random, most: u32) -> Instance {
    let nodes = 3 + random.below(most);
    let document = layered("layered", &Layered::moccasin(nodes, 0.4), random.bits());
    Instance::new(&document).expect("valid")
}

/// Time and peak of a sequence, by the simulator; nothing if it is illegal.
fn simulated(instance: &Instance, graph: &Graph, variants: &[u32]) -> Result<(u64, u64), String> {
    simulated_with(instance, graph, variants, None)
}

fn simulated_with(
    instance: &Instance,
    graph: &Graph,
    variants: &[u32],
    rates: Option<TransferRates>,
) -> Result<(u64, u64), String> {
    let schedule = graph.schedule(instance, variants, rates);
    let simulation = simulate(instance, &schedule).map_err(|error| error.to_string())?;
    Ok((simulation.time, simulation.peak_bytes))
}

fn variants(steps: &[Step]) -> Vec<u32> {
    steps.iter().map(|step| step.variant).collect()
}

/// A state with the same steps at the same times, built step by step.
fn rebuilt<'a>(state: &State<'a, Peak>) -> State<'a, Peak> {
    let mut fresh = State::<Peak>::new(state.graph, &[], state.length());
    for step in state.steps() {
        fresh.edit(Some(step), None);
        fresh.apply();
        fresh.commit(Some(step), None);
    }
    fresh
}

fn assert_same(state: &State<'_, Peak>, fresh: &State<'_, Peak>) {
    for value in 0..state.graph.values.len() {
        assert_eq!(state.produced.of(value), fresh.produced.of(value), "productions of value {value}");
        assert_eq!(state.used.of(value), fresh.used.of(value), "readings of value {value}");
    }
    for time in 0..state.length() {
        assert_eq!(state.profile.at(time), fresh.profile.at(time), "memory at {time}");
    }
    assert_eq!((state.cost, state.profile.peak()), (fresh.cost, fresh.profile.peak()));
}

/// Mutates at a high temperature and compares with everything computed anew after every proposal; returns the
/// numbers of outcomes of each kind, and of fetches seen.
fn walk(instance: &Instance, steps: usize, rates: Option<TransferRates>, random: &mut Random) -> ([usize; 3], usize) {
    let operators = Operators::new(instance, true, rates).expect("supported");
    let length = if random.below(2) == 0 { 64 } else { 128 };
    let mut state = State::<Peak>::new(&operators.graph, &operators.start, length);
    let proposer = Proposer::new(&state, Aim::default());
    let budget = simulated(instance, &operators.graph, &operators.start).expect("legal").1 / 2;
    let goal = Goal::new(if random.below(2) == 0 { Objective::Product } else { Objective::Elu }, budget);
    let (mut outcomes, mut fetches) = ([0; 3], 0);
    for _ in 0..steps {
        let Some(mutation) = proposer.propose(&state, random) else { continue };
        let memory = (state.graph.base as f64) + state.profile.felt();
        let limit = goal.value(memory, state.cost) * (1.0 + 0.1 * random.exponential());
        match state.attempt(mutation, &goal, || limit) {
            Outcome::Invalid => outcomes[0] += 1,
            Outcome::Rejected => outcomes[1] += 1,
            Outcome::Accepted { cost } => {
                outcomes[2] += 1;
                state.commit(mutation.add, mutation.remove);
                assert_eq!(state.cost, cost);
            }
        }
        assert_same(&state, &rebuilt(&state));
        let sequence = variants(&state.steps());
        let expected = simulated_with(instance, state.graph, &sequence, rates);
        let peak = state.graph.base + state.profile.peak().unsigned_abs();
        assert_eq!(expected, Ok((state.cost, peak)), "{}", instance.name());
        fetches += sequence.iter().filter(|&&variant| state.graph.transfer(variant).is_some()).count();
        if random.below(40) == 0 {
            state.respace(length);
            assert_same(&state, &rebuilt(&state));
        }
    }
    (outcomes, fetches)
}

#[test]
fn the_incremental_state_is_the_one_computed_anew_after_every_mutation() {
    let mut random = Random::new(1);
    let mut outcomes = [0; 3];
    for round in 0..2_000 {
        let instance = if round % 4 == 0 { random_layered(&mut random, 10) } else { random_network(&mut random, 6) };
        let (more, _) = walk(&instance, 40, None, &mut random);
        outcomes = [0, 1, 2].map(|which| outcomes[which] + more[which]);
    }
    assert!(outcomes.iter().all(|&count| count > 3_000), "a kind of outcome is hardly tested: {outcomes:?}");
}

/// The checks before the lists change must not refuse what the simulator allows.
#[test]
fn no_legal_mutation_is_called_invalid() {
    let mut random = Random::new(5);
    let (mut legal, mut invalid) = (0, 0);
    for _ in 0..600 {
        let instance = random_network(&mut random, 5);
        let operators = Operators::new(&instance, true, None).expect("supported");
        let mut state = State::<Peak>::new(&operators.graph, &operators.start, 64);
        let proposer = Proposer::new(&state, Aim::default());
        let goal = Goal::new(Objective::Product, 1);
        for _ in 0..40 {
            let Some(mutation) = proposer.propose(&state, &mut random) else { continue };
            let mut steps = state.steps();
            steps.retain(|&step| Some(step) != mutation.remove);
            steps.extend(mutation.add);
            steps.sort_unstable();
            let expected = simulated(&instance, state.graph, &variants(&steps));
            let outcome = state.attempt(mutation, &goal, || f64::INFINITY);
            match outcome {
                Outcome::Accepted { .. } => {
                    legal += 1;
                    assert!(expected.is_ok(), "{expected:?}");
                    state.commit(mutation.add, mutation.remove);
                }
                Outcome::Rejected => panic!("rejected without a limit"),
                Outcome::Invalid => {
                    invalid += 1;
                    // One restriction: which run updates state is not exchanged by a single mutation, and what
                    // never runs again once it is gone stays.
                    let touched = mutation.add.or(mutation.remove).expect("one of them");
                    let node = state.graph.node(touched.variant);
                    assert!(expected.is_err() || node.state || !node.recomputable, "{mutation:?} is legal");
                }
            }
        }
    }
    assert!(legal > 3_000 && invalid > 3_000, "{legal} legal, {invalid} not");
}

#[test]
fn groups_need_no_less_than_their_operators() {
    let mut random = Random::new(3);
    let mut fused = 0;
    for round in 0..400 {
        let instance = if round % 2 == 0 { random_layered(&mut random, 30) } else { random_network(&mut random, 8) };
        let operators = Operators::new(&instance, true, None).expect("supported");
        let groups = group(&operators, |_| 0);
        fused += operators.start.len() - groups.start.len();
        let mut state = State::<Peak>::new(&groups.graph, &groups.start, 1024);
        let proposer = Proposer::new(&state, Aim::default());
        let goal = Goal::new(Objective::Product, 1);
        for _ in 0..60 {
            let sequence = variants(&state.steps());
            let single = decompose(&operators, &groups.graph, &sequence);
            let (time, peak) = simulated(&instance, &operators.graph, &single).expect("a decomposed sequence is legal");
            assert!(time <= state.cost || operators.graph.nodes.iter().any(|node| node.state), "time of groups");
            assert!(peak <= groups.graph.base + state.profile.peak().unsigned_abs(), "peak of groups");
            let Some(mutation) = proposer.propose(&state, &mut random) else { continue };
            if let Outcome::Accepted { .. } = state.attempt(mutation, &goal, || f64::INFINITY) {
                state.commit(mutation.add, mutation.remove);
            }
        }
    }
    assert!(fused > 1_000, "{fused}");
}

#[test]
fn the_peak_under_logaddexp_is_the_peak() {
    let mut random = Random::new(4);
    for _ in 0..100 {
        let instance = random_layered(&mut random, 20);
        let operators = Operators::new(&instance, true, None).expect("supported");
        let mut state = State::<Soft>::new(&operators.graph, &operators.start, 256);
        let proposer = Proposer::new(&state, Aim::default());
        let goal = Goal::new(Objective::Product, 1);
        for _ in 0..60 {
            let Some(mutation) = proposer.propose(&state, &mut random) else { continue };
            if let Outcome::Accepted { .. } = state.attempt(mutation, &goal, || f64::INFINITY) {
                state.commit(mutation.add, mutation.remove);
            }
            let (time, peak) = simulated(&instance, state.graph, &variants(&state.steps())).expect("legal");
            assert_eq!((state.cost, state.graph.base + state.profile.peak().unsigned_abs()), (time, peak));
            assert!(state.profile.felt() >= state.profile.peak() as f64 * (1.0 - 1e-9), "it exceeds the maximum");
            let steps = state.occupied.len() as f64;
            let unit = state.graph.values.iter().map(|value| value.bytes).max().unwrap_or(0).max(1) as f64 / 10.0;
            let most = state.profile.peak() as f64 + unit * steps.log2();
            assert!(state.profile.felt() <= most * (1.0 + 1e-9) + 1e-3, "by at most the logarithm of the steps");
        }
    }
}

fn solve(instance: &Instance, budgets: &[Option<u64>], given: &[(&str, &str)], limits: Limits) -> Vec<Answer> {
    networks::answers("fastsa", instance, budgets, given, &Registered, limits)
}

const SHORT: [(&str, &str); 3] = [("preset", "paper"), ("iterations", "20000"), ("second-iterations", "20000")];
const BEST: [(&str, &str); 1] = [("iterations", "40000")];

fn store_all(instance: &Instance) -> (u64, u64) {
    let claimed = solve(instance, &[None], &SHORT, ONE)[0].claimed.expect("store-all is an answer");
    (claimed.time, claimed.peak_bytes)
}

fn budgets(instance: &Instance) -> Vec<Option<u64>> {
    let (least, most) = (instance.base_bytes(), store_all(instance).1);
    (0..=6).map(|k| Some(least + (most - least) * k / 6)).chain([None]).collect()
}

fn check(instance: &Instance, answers: &[Answer], budgets: &[Option<u64>]) {
    for (answer, &budget) in answers.iter().zip(budgets) {
        assert_eq!(answer.budget, budget);
        let Some(schedule) = &answer.schedule else { continue };
        let simulation = simulate(instance, schedule).expect("legal");
        let claimed = answer.claimed.expect("a schedule comes with a claim");
        assert_eq!((claimed.time, claimed.peak_bytes), (simulation.time, simulation.peak_bytes));
        assert!(budget.is_none_or(|budget| claimed.peak_bytes <= budget));
    }
}

/// How many optima there are below what store-all needs, and how many of them are reached.
fn optima(instances: &[Instance]) -> (usize, usize) {
    // Warm, for costs of a few units each; operators only, for all implementations from the start.
    let given = [("grouping", "off"), ("early-stop", "off"), ("initial-ppm", "300000")];
    let given: Vec<_> = given.iter().chain(&SHORT).copied().collect();
    let (mut reached, mut possible) = (0, 0);
    for instance in instances {
        let budgets = budgets(instance);
        let best = networks::answers("oracle", instance, &budgets, &[], &NoStarts, ONE);
        let ours = solve(instance, &budgets, &given, Limits { threads: 2, ..ONE });
        check(instance, &ours, &budgets);
        for (ours, optimum) in ours.iter().zip(&best) {
            let Some(best) = optimum.claimed else {
                assert!(ours.schedule.is_none(), "a schedule within an impossible budget");
                continue;
            };
            // What store-all meets is answered without annealing.
            let tried = ours.budget.is_some_and(|budget| budget < store_all(instance).1);
            possible += usize::from(tried);
            let Some(claimed) = ours.claimed else { continue };
            assert!(claimed.time >= best.time, "the optimum is beaten");
            reached += usize::from(tried && claimed.time == best.time);
        }
    }
    (reached, possible)
}

#[test]
fn the_optimum_of_tiny_graphs_is_never_beaten_and_mostly_reached() {
    let mut random = Random::new(6);
    let instances: Vec<_> = (0..part(120)).map(|_| random_layered(&mut random, 11)).collect();
    let (reached, possible) = optima(&instances);
    assert!(possible > part(30) && reached * 5 >= possible * 4, "{reached} of {possible} optima reached");
}

/// Masks and buffers that are taken over pay only where several steps change together, which no mutation does.
#[test]
fn the_optimum_over_all_implementations_is_never_beaten_and_mostly_reached() {
    let mut random = Random::new(6);
    let instances: Vec<_> = (0..60).map(|_| random_network(&mut random, 5)).collect();
    let (reached, possible) = optima(&instances);
    assert!(possible > 40 && reached * 3 >= possible * 2, "{reached} of {possible} optima reached");
}

#[test]
fn every_schedule_costs_what_is_claimed_under_every_parameter() {
    let mut random = Random::new(7);
    let settings: [&[(&str, &str)]; 10] = [
        &[],
        &[("objective", "elu"), ("early-stop", "off")],
        &[("tree", "logaddexp")],
        &[("grouping", "off")],
        &[("implementations", "fastest")],
        &[("mutations", "order")],
        &[("proposals", "aimed"), ("initial-ppm", "100000")],
        &[("offload", "30000"), ("reheats", "2"), ("reheat-iterations", "5000")],
        &[("preset", "best")],
        &[("preset", "best"), ("grouping", "on"), ("offload", "30000")],
    ];
    for round in 0..6 {
        let instance = if round % 2 == 0 { random_layered(&mut random, 60) } else { random_network(&mut random, 12) };
        let budgets = budgets(&instance);
        for given in settings {
            let given: Vec<_> = SHORT.iter().chain(given).copied().collect();
            check(&instance, &solve(&instance, &budgets, &given, ONE), &budgets);
        }
    }
}

#[test]
fn reordering_alone_recomputes_nothing_and_lowers_the_peak() {
    let document = layered("layered", &Layered::moccasin(100, 0.27), 3);
    let instance = Instance::new(&document).expect("valid");
    let (time, peak) = store_all(&instance);
    let given = [("mutations", "order"), SHORT[0], SHORT[1], SHORT[2]];
    let answer = &solve(&instance, &[Some(peak * 9 / 10)], &given, ONE)[0];
    let simulation = simulate(&instance, answer.schedule.as_ref().expect("a better order")).expect("legal");
    assert_eq!((simulation.recomputations(), simulation.time), (0, time));
    assert!(simulation.peak_bytes <= peak * 9 / 10);
}

/// A chain of forward operators of equal sizes and their backwards, which read the forwards' inputs.
fn chain(length: u32) -> Instance {
    chain_of(length, 1)
}

/// The same, with a duration of every operator.
fn chain_of(length: u32, time: u64) -> Instance {
    let mut document = common::empty("chain");
    document.tensors.push(common::tensor(0, 1, TensorKind::Input));
    for layer in 1..=length {
        document.tensors.push(common::tensor(layer, 10, TensorKind::Activation));
        document.operators.push(common::operator(layer - 1, Phase::Forward, vec![layer - 1], vec![layer]));
    }
    for layer in (1..=length).rev() {
        let gradient = length + layer;
        let kind = if layer == 1 { TensorKind::ParamGradient } else { TensorKind::Gradient };
        document.tensors.push(common::tensor(gradient, 10, kind));
        let inputs = if layer == length { vec![layer, layer - 1] } else { vec![gradient + 1, layer - 1] };
        document.operators.push(common::operator(2 * length - layer, Phase::Backward, inputs, vec![gradient]));
    }
    document.order = (0..2 * length).collect();
    document.operators.iter_mut().for_each(|operator| operator.implementations[0].time = time);
    Instance::new(&document).expect("valid")
}

#[test]
fn a_schedule_to_start_from_is_never_made_worse() {
    let mut random = Random::new(8);
    let mut started = 0;
    for (method, instance) in [
        ("rotor-persistent", chain(12)),
        ("checkmate-ilp", chain(12)),
        ("checkmate-ilp", random_layered(&mut random, 14)),
        ("moccasin", random_layered(&mut random, 14)),
    ] {
        let (least, most) = (instance.base_bytes(), store_all(&instance).1);
        let budgets: Vec<_> = [7, 8, 9].map(|k| Some(least + (most - least) * k / 10)).to_vec();
        let given = [("start", method), BEST[0]];
        let answers = solve(&instance, &budgets, &given, ONE);
        check(&instance, &answers, &budgets);
        let limits = Limits { time: Some(std::time::Duration::from_secs(60)), ..ONE };
        let theirs = networks::answers(method, &instance, &budgets, &[], &NoStarts, limits);
        for (ours, theirs) in answers.iter().zip(&theirs) {
            let Some(claimed) = theirs.claimed else { continue };
            started += 1;
            assert!(ours.claimed.is_some_and(|ours| ours.time <= claimed.time), "{method}: {ours:?}");
            assert!(ours.note.contains(method), "{}", ours.note);
        }
    }
    assert!(started >= 4, "{started} schedules to start from");
}

#[test]
fn where_the_budget_is_missed_the_annealing_goes_on_from_what_a_search_with_prices_finds() {
    let instance = Instance::new(&layered("layered", &Layered::moccasin(1000, 0.31), 1)).expect("valid");
    let budget = [Some(store_all(&instance).1 * 8 / 10)];
    for given in [&[][..], &[("start", "prices")], &[("implementations", "fastest")]] {
        let answers = solve(&instance, &budget, &[&BEST[..], given].concat(), ONE);
        check(&instance, &answers, &budget);
        assert!(answers[0].note.starts_with("started from prices; "), "{}", answers[0].note);
        assert!(answers[0].schedule.is_some());
    }
    for given in [("start", "order"), ("mutations", "order")] {
        let answers = solve(&instance, &budget, &[BEST[0], given], ONE);
        assert!(answers[0].schedule.is_none() && !answers[0].note.contains("prices"), "{}", answers[0].note);
    }
}

#[test]
fn where_there_is_no_schedule_to_start_from_the_note_says_so() {
    let mut random = Random::new(9);
    let instance = random_layered(&mut random, 12);
    let budget = [Some(store_all(&instance).1 * 9 / 10)];
    let given = [("start", "rotor-persistent"), BEST[0]];
    let answer = &solve(&instance, &budget, &given, ONE)[0];
    assert!(answer.note.starts_with("without a schedule of rotor-persistent; "), "{}", answer.note);
    assert!(answer.schedule.is_some(), "the instance's order is what remains to start from");
}

#[test]
fn grouping_alone_brings_a_chain_of_equal_sizes_to_constant_memory() {
    let peak = |length| {
        let instance = chain(length);
        let operators = Operators::new(&instance, true, None).expect("supported");
        let groups = group(&operators, |_| 0);
        let single = decompose(&operators, &groups.graph, &groups.start);
        simulated(&instance, &operators.graph, &single).expect("legal").1
    };
    assert_eq!((peak(6), peak(12), peak(24)), (peak(24), peak(24), peak(24)));
    assert!(store_all(&chain(24)).1 > 5 * peak(24));
}

#[test]
fn seed_and_threads_decide_the_answer() {
    let document = layered("layered", &Layered::moccasin(60, 0.3), 1);
    let instance = Instance::new(&document).expect("valid");
    let budget = [Some(store_all(&instance).1 * 7 / 10)];
    for (threads, given) in [(1, &SHORT[..]), (3, &SHORT), (1, &BEST), (3, &BEST)] {
        let answer = |seed| {
            let answers = solve(&instance, &budget, given, Limits { threads, seed, ..ONE });
            (answers[0].schedule.clone(), answers[0].note.clone())
        };
        assert_eq!(answer(4), answer(4));
        assert_ne!(answer(4), answer(5));
    }
}

#[test]
fn a_budget_is_answered_as_if_it_were_the_only_one() {
    let mut random = Random::new(11);
    for given in [&SHORT[..], &BEST] {
        let instance = random_layered(&mut random, 40);
        let budgets = budgets(&instance);
        for (answer, &budget) in solve(&instance, &budgets, given, ONE).iter().zip(&budgets) {
            let alone = &solve(&instance, &[budget], given, ONE)[0];
            assert_eq!(
                (&alone.schedule, alone.termination, &alone.note),
                (&answer.schedule, answer.termination, &answer.note)
            );
        }
    }
}

#[test]
fn a_time_limit_is_used_and_kept() {
    let document = layered("layered", &Layered::moccasin(60, 0.3), 1);
    let instance = Instance::new(&document).expect("valid");
    let budget = [Some(store_all(&instance).1 * 7 / 10), None];
    for millis in [0, 400] {
        let limits = Limits { time: Some(std::time::Duration::from_millis(millis)), ..ONE };
        let answers = solve(&instance, &budget, &[], limits);
        assert_eq!(answers[0].termination, Termination::TimeLimit);
        assert!(answers[0].solve >= limits.time.expect("set").mul_f64(0.9), "{:?}", answers[0].solve);
        assert!(millis == 0 || answers[0].schedule.is_some());
        assert_eq!(answers[1].termination, Termination::Feasible, "store-all needs no annealing");
        // Mutations that are counted need no more time than they need.
        let counted =
            &solve(&instance, &budget, &BEST, Limits { time: Some(std::time::Duration::from_secs(600)), ..ONE })[0];
        assert_eq!(counted.termination, Termination::Feasible);
    }
}

#[test]
fn the_default_meets_budgets_that_the_paper_s_settings_miss() {
    let instance = Instance::new(&layered("layered", &Layered::moccasin(250, 0.43), 5)).expect("valid");
    let budget = [Some(store_all(&instance).1 * 7 / 10)];
    let time =
        |given: &[(&str, &str)]| solve(&instance, &budget, given, ONE)[0].claimed.map_or(u64::MAX, |found| found.time);
    let mutations = [("preset", "paper"), ("iterations", "400000"), ("second-iterations", "100000")];
    assert!(time(&[("iterations", "500000")]) < time(&mutations));
}

/// Operators without edges between them, with results of some size.
fn islands(count: u32, bytes: u64) -> InstanceDocument {
    let mut document = common::empty("islands");
    for id in 0..count {
        document.tensors.push(common::tensor(id, bytes, TensorKind::Output));
        document.operators.push(common::operator(id, Phase::Forward, vec![], vec![id]));
    }
    document.order = (0..count).collect();
    document
}

#[test]
fn one_operator_no_edges_and_no_sizes_are_no_trouble() {
    for (count, bytes) in [(1, 0), (1, 5), (4, 0), (4, 5)] {
        let instance = Instance::new(&islands(count, bytes)).expect("valid");
        let budgets = [Some(0), Some(u64::from(count) * bytes), None];
        let answers = solve(&instance, &budgets, &SHORT, ONE);
        check(&instance, &answers, &budgets);
        assert!(answers[1].schedule.is_some());
        let impossible = if bytes > 0 { Termination::Infeasible } else { Termination::Feasible };
        assert_eq!(answers[0].termination, impossible);
    }
    let mut nothing = layered("layered", &Layered::moccasin(20, 0.3), 1);
    nothing.tensors.iter_mut().for_each(|tensor| tensor.bytes = 0);
    nothing.operators.iter_mut().for_each(|operator| operator.implementations[0].time = 0);
    let instance = Instance::new(&nothing).expect("valid");
    check(&instance, &solve(&instance, &[Some(0), None], &SHORT, ONE), &[Some(0), None]);
}

#[test]
fn sums_of_more_than_the_annealer_counts_are_refused() {
    let mut large = layered("layered", &Layered::moccasin(20, 0.3), 1);
    large.tensors.iter_mut().for_each(|tensor| tensor.bytes <<= 32);
    let instance = Instance::new(&large).expect("valid");
    let budgets = budgets(&instance);
    check(&instance, &solve(&instance, &budgets, &SHORT, ONE), &budgets);
    let mut workspaces = islands(256, 0);
    workspaces.operators.iter_mut().for_each(|operator| operator.implementations[0].workspace_bytes = (1 << 53) - 1);
    let instance = Instance::new(&workspaces).expect("valid");
    let reason = find("fastsa").expect("registered").supports(&instance).expect_err("too large").to_string();
    assert!(reason.starts_with("sizes and workspaces sum to 2305843009213693696"), "{reason}");
}

#[test]
fn nothing_runs_that_nobody_needs() {
    let mut document = islands(1, 5);
    document.tensors.push(common::tensor(1, 9, TensorKind::Activation));
    document.operators.push(common::operator(1, Phase::Forward, vec![0], vec![1]));
    document.order.push(1);
    let instance = Instance::new(&document).expect("valid");
    let answers = solve(&instance, &[Some(5)], &SHORT, ONE);
    let steps = &answers[0].schedule.as_ref().expect("one operator fits").steps;
    assert!(matches!(steps[..], [ScheduleStep::Compute { .. }]));
}
