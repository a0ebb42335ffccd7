//! Offloading (appendix B.3): the state with fetches against everything computed anew, schedules against the
//! simulator, and against the optimum of an exhaustive search over what is resident and what is on the host.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::num::NonZeroU64;

use remat_core::TransferRates;

use super::*;

fn rates(offload: u64, fetch: u64) -> TransferRates {
    let rate = |rate| NonZeroU64::new(rate).expect("above 0");
    TransferRates { offload: rate(offload), fetch: rate(fetch) }
}

#[test]
fn the_incremental_state_with_fetches_is_the_one_computed_anew_after_every_mutation() {
    let mut random = Random::new(21);
    let (mut fetches, mut outcomes) = (0, [0; 3]);
    for round in 0..1_000 {
        let instance = if round % 2 == 0 { random_layered(&mut random, 10) } else { random_network(&mut random, 6) };
        let rates = rates(1000 + 1000 * u64::from(random.below(20)), 1000 + 1000 * u64::from(random.below(20)));
        let (more, seen) = walk(&instance, 40, Some(rates), &mut random);
        outcomes = [0, 1, 2].map(|which| outcomes[which] + more[which]);
        fetches += seen;
    }
    assert!(fetches > 10_000 && outcomes.iter().all(|&count| count > 1_500), "{fetches} fetches seen, {outcomes:?}");
}

#[test]
fn groups_with_fetches_decompose_into_legal_schedules() {
    let mut random = Random::new(22);
    let (mut fused, mut fetched) = (0, 0);
    for round in 0..150 {
        let instance = if round % 2 == 0 { random_layered(&mut random, 30) } else { random_network(&mut random, 8) };
        let rates = Some(rates(5000, 5000));
        let operators = Operators::new(&instance, true, rates).expect("supported");
        let groups = group(&operators, |_| 0);
        fused += operators.start.len() - groups.start.len();
        let mut state = State::<Peak>::new(&groups.graph, &groups.start, 1024);
        let proposer = Proposer::new(&state, Aim::default());
        let goal = Goal::new(Objective::Product, 1);
        for _ in 0..80 {
            let Some(mutation) = proposer.propose(&state, &mut random) else { continue };
            if let Outcome::Accepted { .. } = state.attempt(mutation, &goal, || f64::INFINITY) {
                state.commit(mutation.add, mutation.remove);
            }
        }
        let single = decompose(&operators, &groups.graph, &variants(&state.steps()));
        fetched += single.iter().filter(|&&variant| operators.graph.transfer(variant).is_some()).count();
        let schedule = operators.graph.schedule(&instance, &single, rates);
        let simulation = simulate(&instance, &schedule).expect("legal");
        assert!(simulation.peak_bytes <= groups.graph.base + state.profile.peak().unsigned_abs(), "peak of groups");
        let stateless = operators.graph.nodes.iter().all(|node| !node.state);
        assert!(!stateless || simulation.time <= state.cost, "time of groups");
    }
    assert!(fused > 200 && fetched > 200, "{fused} fused, {fetched} fetched");
}

/// Least time within a budget by Dijkstra's algorithm over all states; nothing where there is none.
fn optimum(instance: &Instance, budget: u64, rates: TransferRates) -> Option<u64> {
    type State = (u32, u32, u32);
    let bytes = |set: u32| -> u64 {
        let there = instance.tensor_ids().filter(|id| set >> id.index() & 1 == 1);
        instance.fixed_bytes() + there.map(|id| instance.tensor(id).bytes).sum::<u64>()
    };
    let bit = |index: usize| 1_u32 << index;
    let mask = |wanted: &dyn Fn(remat_core::TensorId) -> bool| {
        instance.tensor_ids().filter(|&id| wanted(id)).map(|id| bit(id.index())).sum::<u32>()
    };
    let inputs = mask(&|id| instance.tensor(id).kind == TensorKind::Input);
    let results = mask(&|id| instance.is_result(id));
    let operators = || instance.operator_ids().map(|id| (id.index(), instance.operator(id)));
    let counted = |op: &remat_core::Operator| op.phase == Phase::Backward || op.updates_state || !op.recomputable;
    let musts: u32 = operators()
        .filter(|(_, op)| op.phase == Phase::Backward || op.updates_state)
        .map(|(index, _)| bit(index))
        .sum();
    let mut known: HashMap<State, u64> = HashMap::new();
    let mut queue = BinaryHeap::from([Reverse((0_u64, (inputs, 0, 0)))]);
    while let Some(Reverse((time, state @ (resident, host, ran)))) = queue.pop() {
        if known.get(&state).is_some_and(|&known| known <= time) {
            continue;
        }
        known.insert(state, time);
        if results & !resident == 0 && musts & !ran == 0 {
            return Some(time);
        }
        let mut reach = |time: u64, state: State, workspace: u64| {
            if bytes(state.0) + workspace <= budget {
                queue.push(Reverse((time, state)));
            }
        };
        for (index, operator) in operators() {
            let again = ran & bit(index) != 0;
            for (way, implementation) in operator.implementations.iter().enumerate() {
                let there = implementation.reads.iter().all(|read| resident & bit(read.index()) != 0);
                let state_rule = operator.updates_state && implementation.recompute != again;
                if !there || state_rule || again && !operator.recomputable {
                    continue;
                }
                let gone = implementation.in_place.map_or(0, |pair| bit(pair.input.index()));
                let made = operator.makes(way).fold(0, |set, id| set | bit(id.index()));
                let ran = ran | if counted(operator) { bit(index) } else { 0 };
                reach(time + implementation.time, (resident & !gone | made, host, ran), implementation.workspace_bytes);
            }
        }
        for id in instance.tensor_ids() {
            let (this, size) = (bit(id.index()), instance.tensor(id).bytes);
            if resident & this & !inputs != 0 {
                reach(time, (resident & !this, host, ran), 0);
                reach(time + rates.offload_time(size).expect("small"), (resident, host | this, ran), 0);
            }
            if host & this != 0 {
                reach(time + rates.fetch_time(size).expect("small"), (resident | this, host, ran), 0);
            }
        }
    }
    None
}

#[test]
fn the_optimum_with_transfers_is_never_beaten_and_mostly_reached() {
    let mut random = Random::new(23);
    let (mut reached, mut possible, mut fetched) = (0, 0, 0);
    for round in 0..60 {
        let instance = if round % 4 == 0 { random_network(&mut random, 2) } else { random_layered(&mut random, 5) };
        let rates = rates(4000, 4000);
        let (least, most) = (instance.base_bytes(), store_all(&instance).1);
        let budgets: Vec<_> = (3..8).map(|k| Some(least + (most - least) * k / 8)).collect();
        let given = [("offload", "4000"), ("grouping", "off"), ("early-stop", "off")];
        let given: Vec<_> = given.into_iter().chain([("initial-ppm", "300000")]).chain(SHORT).collect();
        let answers = solve(&instance, &budgets, &given, Limits { threads: 2, ..ONE });
        check(&instance, &answers, &budgets);
        for (answer, budget) in answers.iter().zip(&budgets) {
            let best = optimum(&instance, budget.expect("given"), rates);
            let ours = answer.claimed.map(|claimed| claimed.time);
            assert!(best.is_some() || ours.is_none(), "a schedule within an impossible budget");
            assert!(ours.zip(best).is_none_or(|(ours, best)| ours >= best), "the optimum is beaten");
            possible += usize::from(best.is_some());
            reached += usize::from(best.is_some() && ours == best);
            let steps = answer.schedule.iter().flat_map(|schedule| &schedule.steps);
            fetched += steps.filter(|step| matches!(step, ScheduleStep::Fetch(_))).count();
        }
    }
    assert!(possible > 40 && reached * 4 >= possible * 3, "{reached} of {possible} optima reached");
    assert!(fetched > 20, "{fetched} fetches: hardly tested");
}

#[test]
fn a_fast_host_is_used_and_a_slow_one_is_not() {
    let instance = chain_of(12, 10);
    let (time, peak) = store_all(&instance);
    let budget = [Some(peak / 2)];
    let answer = |rate: &str, more: &[(&str, &str)]| {
        let given = [("preset", "paper"), ("offload", rate), ("iterations", "200000"), ("second-iterations", "50000")];
        let given: Vec<_> = given.into_iter().chain(more.iter().copied()).collect();
        let schedule = solve(&instance, &budget, &given, ONE)[0].schedule.clone().expect("found");
        simulate(&instance, &schedule).expect("legal")
    };
    let warm = [("grouping", "off"), ("early-stop", "off"), ("initial-ppm", "100000"), ("mutations", "all")];
    let only_moved = [warm[0], warm[1], warm[2], ("mutations", "order")];
    let slow = answer("1", &[]);
    assert!(slow.transfers.fetches == 0 && slow.time > time, "{:?}", slow.transfers);
    let fast = answer("1000000000000", &warm);
    assert!(fast.transfers.fetches > 0 && fast.time < slow.time, "{:?}, {time}", fast.transfers);
    let alone = answer("1000000000000", &only_moved);
    assert!(alone.transfers.fetches > 0 && alone.recomputations() == 0, "offloading alone: {:?}", alone.transfers);
}

#[test]
fn transfers_that_take_too_long_are_refused() {
    let mut large = layered("layered", &Layered::moccasin(20, 0.3), 1);
    large.tensors.iter_mut().for_each(|tensor| tensor.bytes <<= 36);
    let instance = Instance::new(&large).expect("valid");
    let reason = Operators::new(&instance, true, Some(rates(1, 1))).map(|_| ()).expect_err("too long").to_string();
    assert!(reason.starts_with("transfer times sum to ") && reason.ends_with("offload at a higher rate"), "{reason}");
}
