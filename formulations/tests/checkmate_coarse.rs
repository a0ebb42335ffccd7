//! The coarse relaxation is one: every schedule in stages is a solution of it that costs no more, over
//! any blocks. And with it the answer is that of the exact model alone.

mod networks;

use std::collections::BTreeMap;
use std::sync::Arc;

use networks::{Random, instance};
use remat_core::format::{Origin, Phase};
use remat_core::node_link::{Attributes, Link, Node, NodeLinkFile, instance_of};
use remat_core::{Instance, simulate};
use remat_formulations::checkmate::coarse::{Block, Coarse};
use remat_formulations::checkmate::joint::Joint;
use remat_formulations::checkmate::primal::Primal;
use remat_formulations::checkmate::stages::Stages;
use remat_formulations::{Context, Limits, Parameters, Termination, find};

/// A random training graph: a forward chain with skips, and a backward pass that reads it in reverse.
fn graph(seed: u64) -> Instance {
    let mut random = Random(seed);
    let layers = u32::try_from(6 + random.below(5)).expect("small");
    let mut links: Vec<(u32, u32)> = (1..layers).map(|at| (at - 1, at)).collect();
    links.extend((2..layers).filter(|_| random.below(3) == 0).map(|at| (at - 2, at)));
    for at in 0..layers {
        let backward = 2 * layers - 1 - at;
        links.push((backward - 1, backward));
        links.extend((at > 0).then(|| (at - 1, backward)));
        links.extend((random.below(2) == 0).then_some((at, backward)));
    }
    links.sort_unstable();
    links.dedup();
    let nodes = (0..2 * layers).map(|id| Node {
        id,
        name: None,
        backward: id >= layers,
        cost_cpu: random.below(30) as f64,
        cost_ram: (1 + random.below(20)) as f64,
    });
    let nodes = nodes.collect();
    let file = NodeLinkFile {
        graph: Attributes::default(),
        nodes,
        links: links.into_iter().map(|(from, to)| Link::Pair(from, to)).collect(),
    };
    let mut document = instance_of("graph", &file, &Origin::Exact).expect("a graph");
    if seed.is_multiple_of(2) {
        for operator in document.operators.iter_mut().filter(|operator| operator.phase == Phase::Backward) {
            operator.recomputable = Some(false);
        }
    }
    Instance::new(&document).expect("valid")
}

/// Blocks cut at random.
fn blocks(random: &mut Random, stages: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut first = 0;
    for last in 0..stages {
        if last + 1 == stages || random.below(3) == 0 {
            blocks.push(Block { first, last });
            first = last + 1;
        }
    }
    blocks
}

#[test]
fn every_schedule_in_stages_is_a_solution_over_any_blocks() {
    let mut again = 0;
    for seed in 0..300 {
        let instance = if seed % 2 == 0 { instance(seed) } else { graph(seed) };
        let joint = Arc::new(Joint::new(&instance).expect("supported"));
        let mut random = Random(seed);
        let share = random.below(4);
        let draw = |stage: usize, value: usize| Random(seed ^ (stage * 64 + value) as u64).below(4) < share;
        let stages = Stages::complete(&joint, draw);
        // What is kept or made for nothing is left out.
        let kept = stages.kept(&joint);
        let stages = Stages::complete(&joint, |stage, value| kept[stage][value]);
        let claim = stages.claim(&joint, true);
        for _ in 0..3 {
            let coarse = Coarse::new(&joint, claim.peak_bytes, true, blocks(&mut random, joint.len()));
            let vector = coarse.vector(&stages);
            let violation = coarse.model.violation(&vector).max();
            assert!(violation < 1e-9, "seed {seed}: violated by {violation} over {:?}", coarse.blocks);
            assert!(coarse.violated(&vector).is_empty(), "seed {seed}: a memory row over {:?}", coarse.blocks);
            let fixed: u64 = joint.operators.iter().map(|operator| operator.first.time).sum();
            let cost = fixed as f64 + coarse.model.objective(&vector) * coarse.time_unit();
            assert!(cost <= claim.time as f64 + 1e-6, "seed {seed}: {cost} > {}", claim.time);
        }
        again += usize::from(stages.runs.iter().any(|runs| runs.len() > 1));
    }
    assert!(again > 150, "only {again} schedules run something again");
}

#[test]
fn the_coarse_strategy_finds_the_optimum_of_the_exact_one_on_training_graphs() {
    let mut forced = 0;
    for seed in 0..40 {
        let instance = graph(seed);
        let joint = Joint::new(&instance).expect("supported");
        let (least, most) = (joint.least_peak(true), Stages::store_all(&joint).claim(&joint, true).peak_bytes);
        let budgets: Vec<_> = (0..4).map(|at| Some(least + (most - least) * at / 4)).collect();
        let method = find("checkmate-ilp").expect("registered");
        let solve = |strategy: &str| {
            let given: BTreeMap<_, _> = [("strategy".to_owned(), strategy.to_owned())].into();
            let parameters = Parameters::new(method.about().parameters, &given).expect("its parameters");
            let limits = Limits { time: None, threads: 1, seed: 0 };
            method.answers(&Context::new(&instance, &parameters, &budgets, limits)).expect("solves")
        };
        for (coarse, exact) in solve("coarse").iter().zip(solve("lazy")) {
            let context = format!("seed {seed}, budget {:?}: {}", coarse.budget, coarse.note);
            let time = |claimed: Option<remat_formulations::Claimed>| claimed.map(|claimed| claimed.time);
            assert_eq!(time(coarse.claimed), time(exact.claimed), "{context}");
            assert_eq!(coarse.termination, exact.termination, "{context}");
            assert!(matches!(coarse.termination, Termination::Optimal | Termination::Infeasible), "{context}");
            if let (Some(schedule), Some(budget)) = (&coarse.schedule, coarse.budget) {
                assert!(simulate(&instance, schedule).expect("legal").peak_bytes <= budget, "{context}");
            }
            forced += usize::from(time(coarse.claimed) > Some(Stages::store_all(&joint).claim(&joint, true).time));
        }
    }
    assert!(forced > 60, "only {forced} of 160 budgets force something to run again");
}

#[test]
fn what_is_repaired_fits_the_budget_and_runs_no_faster_than_store_all() {
    let mut found = 0;
    for seed in 0..60 {
        let instance = graph(seed);
        let joint = Joint::new(&instance).expect("supported");
        let store_all = Stages::store_all(&joint);
        let (least, claim) = (joint.least_peak(true), store_all.claim(&joint, true));
        let budget = (least + 2 * claim.peak_bytes) / 3;
        let primal = Primal { joint: &joint, budget, workspace: true, deadline: None };
        let Some(stages) = primal.improve(&store_all) else { continue };
        let simulation = simulate(&instance, &stages.schedule(&instance, &joint)).expect("legal");
        assert!(simulation.peak_bytes <= budget && simulation.time >= claim.time, "seed {seed}");
        found += 1;
    }
    assert!(found > 40, "only {found} of 60 were repaired");
}
