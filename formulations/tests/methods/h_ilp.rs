//! `h-ilp` and `hiremate`: the level above blocks against the level below, its schedules against the simulator and the optimum.

use crate::networks::{self, ONE, shipped, store_all_peak};

use std::time::Duration;

use remat_core::chain_view::StageOption;
use remat_core::format::Phase;
use remat_core::generate::random::random;
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::{Instance, Operator, Simulation, simulate};
use remat_formulations::contradiction::budgets;
use remat_formulations::options::block::Block;
use remat_formulations::options::frontier::{Goal, Search};
use remat_formulations::options::partition::Partition;
use remat_formulations::options::upper::Upper;
use remat_formulations::search::clock::Clock;
use remat_formulations::{Context, Limits, Parameters, Registered, Termination, find};

/// Blocks for small networks.
const SMALL: &[(&str, &str)] = &[("nodes", "5"), ("operators", "6")];

/// A chain of twelve layers, and what is before and after them.
fn vit() -> Instance {
    shipped("fastsa/vit-small-patch16-224-b512.json.zst")
}

/// A network of so many layers with skips, in-place operators, alternatives and all else that the format knows.
fn anything(layers: u32, seed: u64) -> Instance {
    Instance::new(&random("random", layers, seed)).expect("valid")
}

/// A network whose operators have one implementation each, and one for further runs where they update state. Backward
/// operators run once, as blocks do above.
fn plain(seed: u64, layers: u64) -> Option<Instance> {
    let instance = networks::instance_of(seed, layers);
    let again = |operator: &Operator| operator.phase == Phase::Backward && operator.recomputable;
    let more = instance.operators().iter().any(|operator| operator.has_choice() || again(operator));
    (!more).then_some(instance)
}

/// The options of every block of a partition, by at most so many questions.
fn options(instance: &Instance, partition: &Partition, questions: usize) -> Vec<Vec<StageOption>> {
    let parameters = Parameters::default();
    let context = Context { starts: &Registered, ..Context::new(instance, &parameters, &[], ONE) };
    let goal = Goal::Frontier { tolerance: 0, questions };
    let blocks = partition.blocks.iter().zip(partition.boundaries(instance));
    let options = blocks.map(|(block, boundary)| {
        let Ok(block) = Block::new(instance, block, &boundary) else { return Vec::new() };
        let found = Search::options(&block, &context, goal, Clock::start(None)).expect("small");
        found.known.iter().map(|known| block.option("", &known.computes)).collect()
    });
    options.collect()
}

#[test]
fn with_blocks_of_one_operator_the_level_above_is_the_network() {
    let (mut compared, mut recomputed) = (0, 0);
    for instance in networks::some_of(0..90).filter_map(|seed| plain(seed, 5)) {
        let partition = Partition::new(&instance, 1, usize::MAX);
        assert!(partition.blocks.iter().all(|block| block.forward.len() == 1));
        let upper = Upper::new(&instance, &partition, &options(&instance, &partition, 100)).expect("small");
        assert_eq!(upper.instance.operators().len(), 2 * partition.blocks.len());
        let budgets: Vec<Option<u64>> = budgets(&instance).into_iter().map(Some).collect();
        let below = networks::solve("monet", &instance, &budgets, &[]);
        let above = networks::solve("monet", &upper.instance, &budgets, &[]);
        for (below, above) in below.iter().zip(&above) {
            let time = |claimed: Option<remat_formulations::Claimed>| claimed.map(|claimed| claimed.time);
            assert_eq!(time(below.claimed), time(above.claimed));
            compared += 1;
            recomputed += u32::from(below.claimed.is_some_and(|claimed| {
                let least: u64 = instance.operators().iter().map(|operator| operator.implementations[0].time).sum();
                claimed.time > least
            }));
        }
    }
    assert!(compared > networks::part(40) && recomputed > networks::part(8), "{compared} {recomputed}");
}

#[test]
fn what_runs_above_runs_below_as_fast_and_in_no_more_memory() {
    let (mut ran, mut again, mut less, mut with_options, mut single) = (0, 0, 0, 0, 0);
    for seed in networks::some_of(0..30) {
        let instance = anything(9, seed);
        let partition = Partition::new(&instance, 5, 1);
        let mut options = options(&instance, &partition, 6);
        // A block without options stays single operators.
        let without = usize::try_from(seed).expect("small") % (2 * options.len());
        if let Some(options) = options.get_mut(without) {
            options.clear();
        }
        let upper = Upper::new(&instance, &partition, &options).expect("small");
        with_options += options.iter().filter(|options| options.len() > 1).count();
        single += options.iter().filter(|options| options.is_empty()).count();
        let store_all = with_liveness(&upper.instance, &Plan::fastest(&upper.instance).store_all(&upper.instance));
        let Ok(Simulation { peak_bytes: all, .. }) = simulate(&upper.instance, &store_all) else { continue };
        let budgets: Vec<Option<u64>> = (3..=7).map(|part| Some(all * part / 8)).collect();
        let short = [("iterations", "300"), ("second-iterations", "300"), ("reheat-iterations", "300")];
        for (method, given) in [("monet", &[][..]), ("fastsa", &short)] {
            for answer in networks::solve(method, &upper.instance, &budgets, given) {
                let Some(schedule) = answer.schedule else { continue };
                let above = simulate(&upper.instance, &schedule).expect("legal");
                let schedule = with_liveness(&instance, &upper.expand(&schedule.runs().collect::<Vec<_>>()));
                let below = simulate(&instance, &schedule).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert_eq!(below.time, above.time, "seed {seed}");
                assert!(below.peak_bytes <= above.peak_bytes, "seed {seed}: {below:?} {above:?}");
                ran += 1;
                less += usize::from(below.peak_bytes < above.peak_bytes);
                again += usize::from(above.runs.iter().any(|&runs| runs > 1));
            }
        }
    }
    assert!(ran > networks::part(60) && again > networks::part(5) && less > 0, "ran {ran}, again {again}, less {less}");
    assert!(
        with_options > networks::part(15) && single > networks::part(3),
        "with options {with_options}, without {single}"
    );
}

#[test]
fn schedules_are_within_the_budget_and_none_is_faster_than_the_optimum() {
    let (mut found, mut optimal, mut missed) = (0, 0, 0);
    for seed in networks::some_of(0..30) {
        let instance = anything(4, seed);
        let budgets: Vec<Option<u64>> = budgets(&instance).into_iter().map(Some).collect();
        let optima = networks::solve("oracle", &instance, &budgets, &[]);
        let h_ilp = networks::solve("h-ilp", &instance, &budgets, &[SMALL, &[("questions", "8")]].concat());
        let hiremate = networks::solve("hiremate", &instance, &budgets, &[SMALL, &[("peaks", "2")]].concat());
        for (answer, optimum) in h_ilp.iter().chain(&hiremate).zip(optima.iter().cycle()) {
            let Some(schedule) = &answer.schedule else {
                assert_eq!(answer.termination, Termination::NotFound, "seed {seed}: {}", answer.note);
                missed += usize::from(optimum.schedule.is_some());
                continue;
            };
            let simulated = simulate(&instance, schedule).expect("legal");
            assert!(answer.budget.is_some_and(|budget| simulated.peak_bytes <= budget), "seed {seed}");
            let least = optimum.claimed.expect("a schedule exists").time;
            assert!(simulated.time >= least, "seed {seed}");
            found += 1;
            optimal += usize::from(simulated.time == least);
        }
    }
    assert!(found > networks::part(80) && optimal > networks::part(40) && missed < found, "{found} {optimal} {missed}");
}

#[test]
fn chains_of_layers_go_to_the_chain_program_and_nothing_is_claimed_of_its_answers() {
    let instance = vit();
    let budgets = [2, 3].map(|parts| Some(store_all_peak(&instance) * parts / 4));
    let given = [("questions", "6")];
    let chain = networks::solve("rotor-options", &instance, &budgets, &given);
    let h_ilp = networks::solve("h-ilp", &instance, &budgets, &given);
    for (answer, chain) in h_ilp.iter().zip(&chain) {
        assert!(answer.schedule.is_some() && answer.schedule == chain.schedule);
        assert_eq!((answer.termination, answer.lower_bound), (Termination::Feasible, None), "{}", answer.note);
        assert!(answer.note.starts_with("layers in a chain"), "{}", answer.note);
    }
}

#[test]
fn levels_stand_above_levels_and_equal_layers_are_planned_once() {
    let instance = vit();
    let partition = Partition::new(&instance, 60, 40);
    let keys: Vec<String> = partition
        .blocks
        .iter()
        .zip(partition.boundaries(&instance))
        .filter_map(|(block, boundary)| Some(Block::new(&instance, block, &boundary).ok()?.key))
        .collect();
    let mut different = keys.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() * 2 < keys.len(), "{} of {}", different.len(), keys.len());
    let given = [("nodes", "12"), ("operators", "40"), ("options", "3"), ("questions", "4")];
    let answer = networks::solve("h-ilp", &instance, &[Some(store_all_peak(&instance) / 2)], &given).remove(0);
    // No layer has so few operators.
    assert!(!answer.note.starts_with("layers in a chain"), "{}", answer.note);
    assert!(answer.note.matches(" different").count() > 1, "{}", answer.note);
    assert!(answer.schedule.is_some(), "{}", answer.note);
}

#[test]
fn a_linear_program_without_a_result_is_solved_from_the_beginning() {
    // HiGHS 1.15 calls the program of one of these blocks "Unknown" from the basis that it had before some rows.
    let instance = shipped("large/llama2-70b-2048-b16.json.zst");
    let method = find("hiremate").expect("registered");
    let parameters = Parameters::defaults(method.about().parameters);
    let limits = Limits { time: Some(Duration::from_secs(5)), ..ONE };
    let budgets = [Some(store_all_peak(&instance) / 2)];
    let context = Context { starts: &Registered, ..Context::new(&instance, &parameters, &budgets, limits) };
    let answer = method.answers(&context).expect("no block without an answer").remove(0);
    assert_ne!(answer.termination, Termination::Error, "{}", answer.note);
}
