//! `rotor-options` and `rockmate`: options against an exhaustive search of each block, sequences over them against one of
//! all sequences.

use std::collections::BTreeMap;

use crate::chains::search;
use crate::networks::{ONE, part, shipped, some_of};
use remat_core::chain_view::ChainView;
use remat_core::generate::random::random;
use remat_core::{Instance, simulate};
use remat_formulations::contradiction::budgets;
use remat_formulations::options::block::Block;
use remat_formulations::options::frontier::{Goal, Search};
use remat_formulations::options::{OverOptions, ROCKMATE, ROTOR_OPTIONS};
use remat_formulations::search::clock::Clock;
use remat_formulations::{Context, Method, Parameters, Registered, Termination, find};

fn parameters(method: &dyn Method, given: &[(&str, &str)]) -> Parameters {
    let given: BTreeMap<String, String> = given.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    Parameters::new(method.about().parameters, &given).expect("known parameters")
}

/// Random networks that are chains.
fn networks(layers: u32, seeds: std::ops::Range<u64>) -> impl Iterator<Item = Instance> {
    let instances = some_of(seeds).map(move |seed| Instance::new(&random("random", layers, seed)).expect("valid"));
    instances.filter(|instance| ChainView::new(instance).is_ok())
}

#[test]
fn the_program_finds_the_best_persistent_sequence_over_its_options() {
    let cases: [(&OverOptions, &[(&str, &str)]); 4] = [
        (&ROTOR_OPTIONS, &[("tolerance", "0")]),
        (&ROTOR_OPTIONS, &[("blocks", "2"), ("tolerance", "0")]),
        (&ROTOR_OPTIONS, &[("blocks", "2"), ("questions", "4")]),
        (&ROCKMATE, &[("blocks", "2"), ("peaks", "3"), ("saves", "3")]),
    ];
    let (mut found, mut infeasible, mut several) = (0, 0, 0);
    for instance in networks(4, 0..12) {
        let budgets: Vec<Option<u64>> = budgets(&instance).into_iter().map(Some).collect();
        for (method, given) in cases {
            let parameters = parameters(method, given);
            let context = Context { starts: &Registered, ..Context::new(&instance, &parameters, &budgets, ONE) };
            let (view, _) = method.view(&context).expect("a chain");
            several += usize::from(view.options.iter().any(|options| options.len() > 1));
            for (answer, budget) in method.answers(&context).expect("answers").into_iter().zip(&budgets) {
                let best = search::best(&view.chain, budget.expect("given"), search::Class::Persistent);
                assert_eq!(answer.claimed.map(|claimed| claimed.time), best.map(|(time, ..)| time), "{}", answer.note);
                match answer.schedule {
                    None => infeasible += usize::from(answer.termination == Termination::Infeasible),
                    Some(schedule) => {
                        let simulated = simulate(&instance, &schedule).expect("legal");
                        assert!(simulated.peak_bytes <= budget.expect("given"));
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found > part(30) && infeasible > part(1) && several > part(10), "{found} {infeasible} {several}");
}

/// The optimum of a block within saved bytes and a peak, by the exhaustive search of stages.
fn exhaustive(block: &Block, saved: u64, peak: u64, chooses: bool) -> Option<u64> {
    let oracle = find("oracle").expect("registered");
    let implementations = if chooses { "chosen" } else { "one" };
    let parameters = parameters(oracle, &[("order", "stages"), ("implementations", implementations)]);
    let instance = block.with_rest(peak - saved).expect("valid");
    let budgets = [Some(peak)];
    let answer = oracle.answers(&Context::new(&instance, &parameters, &budgets, ONE)).expect("small").remove(0);
    answer.claimed.map(|claimed| claimed.time)
}

#[test]
fn no_option_of_a_block_is_missing() {
    let (mut compared, mut options) = (0, 0);
    for instance in networks(3, 0..20) {
        let view = ChainView::new(&instance).expect("filtered");
        let count = view.stages.len();
        let view = view.grouped(&instance, &[count]);
        let boundary = &view.boundaries(&instance)[0];
        let Ok(block) = Block::new(&instance, &view.stages[0], boundary) else { continue };
        if block.instance.operators().len() > 9 {
            continue;
        }
        let chooses = block.instance.operators().iter().any(|operator| operator.implementations.len() > 1);
        let parameters = Parameters::default();
        let context = Context { starts: &Registered, ..Context::new(&instance, &parameters, &[], ONE) };
        let goal = Goal::Frontier { tolerance: 0, questions: 1000 };
        let found = Search::options(&block, &context, goal, Clock::start(None)).expect("small");
        if found.known.is_empty() {
            continue;
        }
        assert!(!found.unfinished);
        options += found.known.len();
        let points: Vec<_> = found.known.iter().map(|known| known.point).collect();
        let most =
            points.iter().map(|point| (point.saved, point.peak)).fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let least = points.iter().map(|point| point.saved).min().expect("some");
        for peak in (least..=most.1).step_by(2) {
            for saved in (least..=most.0.min(peak)).step_by(2) {
                let known = points.iter().filter(|point| point.saved <= saved && point.peak <= peak);
                let known = known.map(|point| point.time).min();
                let best = exhaustive(&block, saved, peak, chooses);
                assert_eq!(known, best, "{} within {saved} and {peak}: {points:?}", block.key);
                compared += 1;
            }
        }
    }
    assert!(compared > part(80) && options > part(12), "{compared} {options}");
}

#[test]
fn equal_layers_are_planned_once() {
    let instance = shipped("fastsa/vit-small-patch16-224-b512.json.zst");
    let parameters = parameters(&ROTOR_OPTIONS, &[("questions", "2")]);
    let context = Context { starts: &Registered, ..Context::new(&instance, &parameters, &[], ONE) };
    let (view, remark) = ROTOR_OPTIONS.view(&context).expect("a chain");
    assert!(remark.contains("different"), "{remark}");
    let different: usize =
        remark.split(", ").nth(1).and_then(|text| text.split(' ').next()?.parse().ok()).expect("a number");
    assert!(different * 2 < view.stages.len(), "{remark}");
}
