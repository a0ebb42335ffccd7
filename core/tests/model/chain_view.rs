//! The chain view: what its sequences claim, and what the simulator says of them.

use crate::common::{dice, network};
use proptest::prelude::*;
use remat_core::chain::{Chain, ChainStep, Saving, Stage};
use remat_core::chain_file::instance_of;
use remat_core::chain_view::ChainView;
use remat_core::format::{Origin, Units};
use remat_core::{Instance, simulate};

fn stage() -> impl Strategy<Value = Stage> {
    let numbers = (0..9u64, 0..9u64, 0..9u64, 0..12u64, 0..5i64, 0..9i64);
    numbers.prop_map(|(forward, backward, activation, extra, forward_overhead, backward_overhead)| Stage {
        name: String::new(),
        forward_time: forward,
        activation_bytes: activation,
        gradient_bytes: activation,
        kept_bytes: 0,
        passing_overhead: forward_overhead,
        savings: vec![Saving {
            name: "default".into(),
            forward_time: forward,
            backward_time: backward,
            saved_bytes: activation + extra,
            forward_overhead,
            backward_overhead,
        }],
    })
}

/// A random chain as a file would give it: the loss makes nothing.
fn chain() -> impl Strategy<Value = Chain> {
    (prop::collection::vec(stage(), 1..7), 0..6u64).prop_map(|(mut stages, input)| {
        if let Some(loss) = stages.last_mut() {
            (loss.activation_bytes, loss.gradient_bytes) = (0, 0);
            loss.savings[0].saved_bytes = 0;
        }
        Chain { fixed_bytes: 0, input_bytes: input, input_gradient_bytes: input, stages }
    })
}

/// A random persistent sequence: subchains split, saved or checkpointed as the choices say.
fn sequence(length: usize, choices: &[usize]) -> Vec<ChainStep> {
    let mut choices = choices.iter().copied().cycle();
    let mut steps = Vec::new();
    let mut tasks = vec![(0, length - 1, false)];
    while let Some((s, t, backward)) = tasks.pop() {
        if backward {
            steps.push(ChainStep::Backward { stage: s });
            continue;
        }
        let choice = choices.next().unwrap_or(0);
        if s == t || choice % 2 == 0 {
            steps.push(ChainStep::Save { stage: s, saving: 0 });
            tasks.push((s, s, true));
            if s < t {
                tasks.push((s + 1, t, false));
            }
        } else {
            let k = s + choice / 2 % (t - s);
            steps.push(ChainStep::Checkpoint { stage: s });
            steps.extend((s + 1..=k).map(|stage| ChainStep::Pass { stage }));
            tasks.push((s, k, false));
            tasks.push((k + 1, t, false));
        }
    }
    steps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_published_chain_comes_back_from_its_instance(chain in chain()) {
        let document = instance_of("chain", &chain, Units::default(), &Origin::Exact {});
        let instance = Instance::new(&document).expect("valid");
        let view = ChainView::new(&instance).expect("a chain");
        // Names are the operators'; everything else is the chain's.
        let mut found = view.chain;
        for (stage, original) in found.stages.iter_mut().zip(&chain.stages) {
            stage.name.clone_from(&original.name);
        }
        prop_assert_eq!(found, chain);
    }

    #[test]
    fn sequences_of_a_published_chain_simulate_to_at_most_their_claim(
        chain in chain(),
        choices in prop::collection::vec(0..100usize, 1..12),
    ) {
        let document = instance_of("chain", &chain, Units::default(), &Origin::Exact {});
        let instance = Instance::new(&document).expect("valid");
        let view = ChainView::new(&instance).expect("a chain");
        let sequence = sequence(view.chain.len(), &choices);
        let claimed = view.chain.evaluate(&sequence).expect("valid");
        let simulated = simulate(&instance, &view.expand(&instance, &sequence)).expect("legal");
        prop_assert_eq!(simulated.time, claimed.time);
        prop_assert!(simulated.peak_bytes <= claimed.peak_bytes);
    }

    #[test]
    fn sequences_of_any_network_simulate_to_at_most_their_claim(
        dice in dice(2..10),
        choices in prop::collection::vec(0..100usize, 1..12),
    ) {
        let instance = Instance::new(&network(&dice)).expect("valid");
        let view = ChainView::new(&instance).expect("every operator is recomputable");
        let sequence = sequence(view.chain.len(), &choices);
        let claimed = view.chain.evaluate(&sequence).expect("valid");
        let simulated = simulate(&instance, &view.expand(&instance, &sequence)).expect("legal");
        prop_assert!(simulated.time <= claimed.time);
        prop_assert!(simulated.peak_bytes <= claimed.peak_bytes, "{} > {}", simulated.peak_bytes, claimed.peak_bytes);
    }

    #[test]
    fn saving_everything_simulates_to_exactly_its_claim_on_a_published_chain(chain in chain()) {
        let document = instance_of("chain", &chain, Units::default(), &Origin::Exact {});
        let instance = Instance::new(&document).expect("valid");
        let view = ChainView::new(&instance).expect("a chain");
        let sequence = view.chain.store_all(|_| 0);
        let claimed = view.chain.evaluate(&sequence).expect("valid");
        let simulated = simulate(&instance, &view.expand(&instance, &sequence)).expect("legal");
        prop_assert_eq!((simulated.time, simulated.peak_bytes), (claimed.time, claimed.peak_bytes));
    }
}

/// With a pass over all tensors per stage this takes hours.
#[test]
fn a_chain_of_a_hundred_thousand_stages_is_viewed_in_seconds() {
    let saving = Saving {
        name: "default".into(),
        forward_time: 1,
        backward_time: 2,
        saved_bytes: 3,
        forward_overhead: 0,
        backward_overhead: 0,
    };
    let stage = |index: usize| Stage {
        name: format!("s{index}"),
        forward_time: 1,
        activation_bytes: 1,
        gradient_bytes: 1,
        kept_bytes: 0,
        passing_overhead: 0,
        savings: vec![saving.clone()],
    };
    let stages: Vec<_> = (0..100_000).map(stage).collect();
    let chain = Chain { fixed_bytes: 0, input_bytes: 1, input_gradient_bytes: 1, stages };
    let instance = Instance::new(&instance_of("chain", &chain, Units::default(), &Origin::Exact {})).expect("valid");
    assert_eq!(ChainView::new(&instance).expect("a chain").chain.len(), 100_000);
}
