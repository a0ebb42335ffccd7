//! `moccasin` against an exhaustive search with at most C runs, the `oracle` in stages with as many copies,
//! `checkmate-ilp` and the simulator, on seeded random networks and layered graphs; a failure prints the seed. CP-SAT's part says aloud when it is not installed.
#![allow(clippy::print_stderr, reason = "what is skipped is said aloud")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::networks::{Brief, budgets, checked, instance_of, solve, some_of};
use remat_core::generate::layered::{Layered, layered};
use remat_core::{Instance, simulate};
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::staged::starts::follow;
use remat_formulations::staged::task::Task;
use remat_formulations::{Answer, Context, Format, Limits, ParameterKind, Parameters, Starts, Termination, find};
use remat_solvers::cp::cp_backend;

/// What is resident, and how often each operator has run.
type State = (u64, Vec<u8>);

/// The least time of any schedule in stages in which no operator runs more than C times: a table over
/// stages, positions, resident sets and numbers of runs. Shares nothing with the method but the graph.
fn oracle(joint: &Joint, budget: u64, copies: u8) -> Option<u64> {
    let (n, count) = (joint.len(), joint.values.len());
    let bytes = |set: u64| (0..count).filter(|&v| set >> v & 1 == 1).map(|v| joint.values[v].bytes).sum::<u64>();
    let mut states: HashMap<State, u64> = HashMap::from([((0, vec![0; n]), 0)]);
    for stage in 0..n {
        for position in 0..=stage {
            let mut next: HashMap<State, u64> = if position == stage { HashMap::new() } else { states.clone() };
            let Some(way) = joint.run(stage, position) else { continue };
            let made: u64 = joint.operators[position].makes.iter().map(|v| 1 << v).sum();
            for ((set, runs), time) in &states {
                let readable = way.reads.iter().all(|v| set >> v & 1 == 1);
                let fits = joint.base_bytes + bytes(set | made) + way.transient <= budget;
                if !readable || !fits || runs[position] >= copies {
                    continue;
                }
                let mut runs = runs.clone();
                runs[position] += 1;
                let slot = next.entry((set | made, runs)).or_insert(u64::MAX);
                *slot = (*slot).min(time + way.time);
            }
            states = drops(next, count);
        }
    }
    let results: u64 = (0..count).filter(|&v| joint.values[v].result).map(|v| 1 << v).sum();
    states.into_iter().filter(|((set, _), _)| set & results == results).map(|(_, time)| time).min()
}

/// Anything may be dropped at any time.
fn drops(mut states: HashMap<State, u64>, count: usize) -> HashMap<State, u64> {
    for value in 0..count {
        let with: Vec<(State, u64)> =
            states.iter().filter(|((set, _), _)| set >> value & 1 == 1).map(|(s, &t)| (s.clone(), t)).collect();
        for ((set, runs), time) in with {
            let slot = states.entry((set & !(1 << value), runs)).or_insert(u64::MAX);
            *slot = (*slot).min(time);
        }
    }
    states
}

/// Whether the method finds the search's optimum for every budget, and proves it.
fn agrees(seed: u64, layers: u64, copies: u8, number: u64, given: &[(&str, &str)]) {
    let instance = instance_of(seed, layers);
    let joint = Joint::new(&instance).expect("supported");
    let most = copies.to_string();
    let given: Vec<_> = given.iter().copied().chain([("copies", most.as_str())]).collect();
    for answer in solve("moccasin", &instance, &budgets(&joint, number), &given) {
        let context = format!("seed {seed}, {given:?}, budget {:?} ({})", answer.budget, answer.note);
        let expected = oracle(&joint, answer.budget.expect("given"), copies);
        assert_eq!(checked(&instance, &answer, &context), expected, "{context}");
        let termination = if expected.is_some() { Termination::Optimal } else { Termination::Infeasible };
        assert_eq!(answer.termination, termination, "{context}");
        assert!(answer.lower_bound.is_none_or(|bound| expected.is_none_or(|best| bound <= best)), "{context}");
    }
}

/// A random layered graph: everything may run again, in one way.
fn graph(nodes: u32, seed: u64) -> Instance {
    let parameters = Layered { width: 0.5, ..Layered::moccasin(nodes, 0.5) };
    Instance::new(&layered("layered", &parameters, seed)).expect("valid")
}

/// Compares the method with the oracle at every budget, from what store-all needs down to the infeasible:
/// below the peak of an optimal schedule the optimum may be another one, above it is the same.
/// Returns how many budgets that were.
fn agrees_at_every_budget(instance: &Instance, copies: &str, given: &[(&str, &str)]) -> usize {
    let joint = Joint::new(instance).expect("supported");
    let given: Vec<_> = given.iter().copied().chain([("copies", copies)]).collect();
    let mut budget = Stages::store_all(&joint).claim(&joint).peak_bytes;
    for count in 1.. {
        let asked = [Some(budget)];
        let truth = solve("oracle", instance, &asked, &[("order", "stages"), ("copies", copies)]).remove(0);
        let answer = solve("moccasin", instance, &asked, &given).remove(0);
        let context = format!("{}, {given:?}, budget {budget} ({})", instance.name(), answer.note);
        assert_eq!(answer.termination, truth.termination, "{context}");
        assert_eq!(checked(instance, &answer, &context), truth.claimed.map(|claimed| claimed.time), "{context}");
        assert!(answer.lower_bound.is_none_or(|bound| truth.claimed.is_some_and(|c| bound <= c.time)), "{context}");
        let copies = copies.parse().expect("a number");
        assert_eq!(truth.claimed.map(|c| c.time), oracle(&joint, budget, copies), "{context}: the twin");
        match truth.claimed {
            Some(claimed) => budget = claimed.peak_bytes - 1,
            None => return count,
        }
    }
    unreachable!("budgets end")
}

fn cp_sat() -> bool {
    let available = cp_backend("cp-sat").expect("listed").available();
    if let Err(why) = &available {
        eprintln!("skipped with cp-sat: {why}");
    }
    available.is_ok()
}

#[test]
fn the_embedded_solver_finds_the_optimum_of_the_exhaustive_search_for_every_number_of_copies() {
    for seed in some_of(0..40) {
        agrees(seed, 3, 1 + u8::try_from(seed % 3).expect("small"), 4, &[]);
    }
    (40..43).for_each(|seed| agrees(seed, 4, 2, 3, &[("start", "none")]));
}

#[test]
fn cp_sat_finds_the_optimum_of_the_exhaustive_search_in_both_strategies_and_memory_statements() {
    if !cp_sat() {
        return;
    }
    for seed in 0..40 {
        let copies = 1 + u8::try_from(seed % 3).expect("small");
        agrees(seed, 3, copies, 4, &[("solver", "cp-sat")]);
        let memory = if seed % 2 == 0 { "cumulative" } else { "reservoir" };
        agrees(seed, 3, copies, 3, &[("solver", "cp-sat"), ("strategy", "as-published"), ("memory", memory)]);
    }
}

#[test]
fn at_every_budget_of_a_layered_graph_it_is_the_oracle_with_as_many_copies() {
    let mut budgets = 0;
    for seed in 0..8 {
        let instance = graph(6, seed);
        // Six copies are as good as any number: there are six stages.
        for copies in ["1", "2", "6"] {
            budgets += agrees_at_every_budget(&instance, copies, &[]);
        }
    }
    assert!(budgets > 60, "only {budgets} budgets");
}

#[test]
fn at_every_budget_of_a_layered_graph_cp_sat_finds_the_oracle_s_optimum() {
    if !cp_sat() {
        return;
    }
    for seed in 10..16 {
        for copies in ["2", "3"] {
            agrees_at_every_budget(&graph(7, seed), copies, &[("solver", "cp-sat")]);
        }
    }
}

#[test]
fn the_published_model_needs_no_cp_sat_on_tiny_networks() {
    for seed in 0..4 {
        for memory in ["cumulative", "reservoir"] {
            agrees(seed, 2, 2, 2, &[("strategy", "as-published"), ("memory", memory)]);
        }
    }
}

#[test]
fn with_as_many_copies_as_operators_it_is_checkmate() {
    for seed in some_of(100..130) {
        let instance = instance_of(seed, 5);
        let joint = Joint::new(&instance).expect("supported");
        let budgets = budgets(&joint, 3);
        let checkmate = solve("checkmate-ilp", &instance, &budgets, &[]);
        let moccasin = solve("moccasin", &instance, &budgets, &[("copies", "100")]);
        for (checkmate, moccasin) in checkmate.iter().zip(&moccasin) {
            let context = format!("seed {seed}, budget {:?}: {}", moccasin.budget, moccasin.note);
            assert_eq!(moccasin.termination, checkmate.termination, "{context}");
            let time = checkmate.claimed.map(|claimed| claimed.time);
            assert_eq!(checked(&instance, moccasin, &context), time, "{context}");
        }
    }
}

/// Every start but none.
fn starts() -> impl Iterator<Item = &'static str> {
    let specs = remat_formulations::find("moccasin").expect("registered").about().parameters;
    let start = specs.iter().find(|spec| spec.name == "start").expect("it has one");
    let ParameterKind::Choice(words) = start.kind else { panic!("start is a choice") };
    words.iter().copied().filter(|&word| word != "none")
}

#[test]
fn starts_that_are_methods_are_registered() {
    for start in starts().filter(|start| !["auto", "prices"].contains(start)) {
        assert!(remat_formulations::find(start).is_some(), "{start}");
    }
}

#[test]
fn a_schedule_of_another_method_comes_back_as_the_stages_that_it_says() {
    let mut followed = 0;
    for seed in 160..175 {
        let instance = instance_of(seed, 4);
        let joint = Joint::new(&instance).expect("supported");
        for answer in solve("checkmate-ilp", &instance, &budgets(&joint, 3), &[]) {
            let Some(schedule) = &answer.schedule else { continue };
            let stages = follow(&instance, &joint, schedule, 100);
            assert_eq!(stages.schedule(&instance, &joint), *schedule, "seed {seed}: it is in stages");
            // With fewer copies runs are left out; what is left still simulates.
            let fewer = follow(&instance, &joint, schedule, 2);
            let simulation = remat_core::simulate(&instance, &fewer.schedule(&instance, &joint)).expect("legal");
            assert!(simulation.time <= answer.claimed.expect("it has a schedule").time);
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed}");
}

#[test]
fn in_another_order_it_is_at_least_as_good_as_the_schedule_that_the_order_comes_from() {
    let (mut answers, mut better) = (0, 0);
    for seed in 0..6 {
        let instance = graph(14, seed);
        let joint = Joint::new(&instance).expect("supported");
        let budgets = budgets(&joint, 4);
        let own = solve("moccasin", &instance, &budgets, &[]);
        let method = find("moccasin-reordered").expect("registered");
        let parameters = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("the defaults");
        let limits = Limits { time: None, threads: 1, seed: 0 };
        let context = Context::new(&instance, &parameters, &budgets, limits);
        let reordered = method.answers(&Context { starts: &Brief, ..context }).expect("supported");
        for (answer, own) in reordered.iter().zip(&own) {
            let fastsa = Brief.schedule("fastsa", &context, answer.budget, None).ok();
            let fastsa = fastsa.map(|schedule| simulate(&instance, &schedule).expect("legal"));
            let context = format!("seed {seed}, budget {:?}: {}", answer.budget, answer.note);
            assert_ne!(answer.termination, Termination::Optimal, "{context}");
            assert_eq!(answer.lower_bound, None, "{context}");
            let Some(time) = checked(&instance, answer, &context) else { continue };
            assert!(fastsa.is_some_and(|fastsa| time <= fastsa.time), "{context}");
            answers += 1;
            better += usize::from(own.claimed.is_none_or(|own| time < own.time));
        }
    }
    assert!(answers > 15 && better > 3, "{better} of {answers} better than the given order");
}

#[test]
fn starts_change_nothing_but_the_way() {
    for seed in 130..136 {
        let instance = instance_of(seed, 4);
        let joint = Joint::new(&instance).expect("supported");
        let budgets = budgets(&joint, 3);
        let expected = solve("moccasin", &instance, &budgets, &[("start", "none")]);
        // fastsa takes seconds per budget.
        for start in starts().filter(|&start| start != "fastsa" || seed == 130) {
            let answers = solve("moccasin", &instance, &budgets, &[("start", start)]);
            for (answer, expected) in answers.iter().zip(&expected) {
                let time = |answer: &Answer| answer.claimed.map(|claimed| claimed.time);
                assert_eq!(time(answer), time(expected), "seed {seed}, {start}: {}", answer.note);
            }
        }
    }
}

#[test]
fn without_workspace_the_optimum_is_that_of_the_search_without_workspace() {
    for seed in 140..150 {
        let instance = instance_of(seed, 3);
        let joint = Joint::new(&instance).expect("supported");
        let plain = joint.clone().without_workspaces(&instance);
        for answer in solve("moccasin", &instance, &budgets(&joint, 2), &[("workspace", "off")]) {
            let expected = oracle(&plain, answer.budget.expect("given"), 2);
            assert_eq!(answer.claimed.map(|claimed| claimed.time), expected, "seed {seed}: {}", answer.note);
        }
    }
}

#[test]
fn the_networks_have_budgets_at_which_the_number_of_copies_matters() {
    let differs = |seed: u64| {
        let instance = instance_of(seed, 3);
        let joint = Joint::new(&instance).expect("supported");
        let times = |copies| budgets(&joint, 4).into_iter().map(move |b| (b, copies));
        let solved = |(budget, copies): (Option<u64>, u8)| oracle(&joint, budget.expect("given"), copies);
        let by = |copies| times(copies).map(solved).collect::<Vec<_>>();
        by(1) != by(2)
    };
    let forced = (0..40).filter(|&seed| differs(seed)).count();
    assert!(forced > 12, "only {forced} of 40");
}

#[test]
fn an_exported_model_comes_back_as_the_schedule_that_solves_it() {
    use remat_formulations::moccasin::published::{Memory, Phase as Minimised, Published};
    let method = find("moccasin").expect("registered");
    let parameters = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("the defaults");
    let formulation = method.formulation().expect("is one model");
    let mut lifted = 0;
    for seed in 150..160 {
        let instance = instance_of(seed, 2);
        let joint = Arc::new(Joint::new(&instance).expect("supported"));
        for answer in solve("moccasin", &instance, &budgets(&joint, 2), &[]) {
            let Some(schedule) = &answer.schedule else { continue };
            let budget = answer.budget.expect("given");
            let stages = follow(&instance, &joint, schedule, 100);
            assert_eq!(stages.schedule(&instance, &joint), *schedule, "seed {seed}: it is in stages");
            let room = budget - joint.base_bytes;
            let task = Task { copies: Some(2), ..Task::new(&instance, Arc::clone(&joint), Some(budget)) };
            let model = Published::new(&task, (room, room), Memory::Cumulative, Minimised::Duration);
            // The hint leaves out what follows from it; a solver fills that in.
            let hint = model.hint(&stages);
            let request = remat_solvers::cp::CpRequest { hint: &hint, ..Default::default() };
            let solved = cp_backend("highs").expect("listed").solve(&model.model, &request).expect("solves");
            let encoding = formulation(&instance, &parameters, Some(budget)).expect("the inputs fit");
            let mut text = Vec::new();
            let head = [("instance", instance.name().into())];
            encoding.write(Format::CpModel, &mut text, &head).expect("memory takes everything");
            let text = String::from_utf8(text).expect("text");
            assert!(text.starts_with("# instance: ") && text.contains("cumulative {"), "{text}");
            let response = format!("status: OPTIMAL\nsolution: {:?}\n", solved.values.expect("feasible"));
            let back = encoding.decode(&response).expect("a solution");
            assert_eq!(Some(back.claimed.time), answer.claimed.map(|claimed| claimed.time), "seed {seed}");
            assert!(encoding.decode("status: UNKNOWN").is_err() && encoding.decode("solution: [1, 2]").is_err());
            lifted += 1;
        }
    }
    assert!(lifted >= 10, "{lifted}");
}
