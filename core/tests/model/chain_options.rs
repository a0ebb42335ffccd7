//! Options of stages: what sequences with them claim, and what the simulator says of them.

use proptest::prelude::*;
use remat_core::chain::ChainStep;
use remat_core::chain_view::{ChainView, StageOption};
use remat_core::generate::random::random;
use remat_core::{Instance, OperatorId, simulate};

/// Numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit.max(1)
    }
}

/// Any way to run an operator for the first time, or again.
fn way(instance: &Instance, id: OperatorId, again: bool, dice: &mut Dice) -> (OperatorId, usize) {
    let operator = instance.operator(id);
    let suits = |v: &usize| operator.implementations[*v].recompute == (again && operator.updates_state);
    let ways: Vec<usize> = (0..operator.implementations.len()).filter(suits).collect();
    (id, ways.get(dice.below(ways.len())).copied().unwrap_or(0))
}

/// A forward and a backward of a stage, between whose operators some of the forward ones run again, in any way: few are
/// legal.
fn option(instance: &Instance, view: &ChainView, stage: usize, dice: &mut Dice) -> StageOption {
    let operators = &view.stages[stage];
    let forward = operators.forward.iter().map(|&id| way(instance, id, false, dice)).collect();
    let mut backward = Vec::new();
    let whole = dice.below(3) == 0;
    if whole {
        backward.extend(operators.forward.iter().map(|&id| way(instance, id, true, dice)));
    }
    for &id in &operators.backward {
        if !whole && dice.below(2) == 0 {
            for &id in &operators.forward {
                if dice.below(2) == 0 {
                    backward.push(way(instance, id, true, dice));
                }
            }
        }
        backward.push(way(instance, id, false, dice));
    }
    StageOption { name: "drawn".into(), forward, backward }
}

/// A random persistent sequence.
fn sequence(view: &ChainView, dice: &mut Dice) -> Vec<ChainStep> {
    let mut steps = Vec::new();
    let mut tasks = vec![(0, view.chain.len() - 1, false)];
    while let Some((s, t, backward)) = tasks.pop() {
        if backward {
            steps.push(ChainStep::Backward { stage: s });
        } else if s == t || dice.below(2) == 0 {
            steps.push(ChainStep::Save { stage: s, saving: dice.below(view.chain.stages[s].savings.len()) });
            tasks.push((s, s, true));
            if s < t {
                tasks.push((s + 1, t, false));
            }
        } else {
            let k = s + dice.below(t - s);
            steps.push(ChainStep::Checkpoint { stage: s });
            steps.extend((s + 1..=k).map(|stage| ChainStep::Pass { stage }));
            tasks.push((s, k, false));
            tasks.push((k + 1, t, false));
        }
    }
    steps
}

/// A random network as a chain, its stages in groups, with what is legal of many drawn options.
fn with_options(seed: u64, layers: u32, group: usize, dice: &mut Dice) -> Option<(Instance, ChainView, usize)> {
    let instance = Instance::new(&random("random", layers, seed)).expect("valid");
    let view = ChainView::new(&instance).ok()?;
    let count = view.stages.len();
    let sizes: Vec<usize> = (0..count).step_by(group).map(|first| group.min(count - first)).collect();
    let view = view.grouped(&instance, &sizes);
    let drawn = (0..view.stages.len()).map(|stage| (0..60).map(|_| option(&instance, &view, stage, dice)).collect());
    let (with, refused) = view.with_options(&instance, drawn.collect());
    Some((instance, with, 60 * view.stages.len() - refused.len()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn sequences_with_options_simulate_to_at_most_their_claim(
        seed in 0..10_000u64,
        layers in 2..8u32,
        group in 1..4usize,
        drawn in any::<u64>(),
    ) {
        let dice = &mut Dice(drawn);
        let Some((instance, view, _)) = with_options(seed, layers, group, dice) else { return Ok(()) };
        // Where saving everything in the plan's implementations is not legal, sequences of it are none either.
        let plain = view.expand(&instance, &view.chain.store_all(|_| 0));
        if simulate(&instance, &plain).is_err() {
            return Ok(());
        }
        for _ in 0..10 {
            let sequence = sequence(&view, dice);
            let claimed = view.chain.evaluate(&sequence).expect("valid");
            let simulated = simulate(&instance, &view.expand(&instance, &sequence));
            let simulated = simulated.map_err(|error| TestCaseError::fail(format!("{error}: {sequence:?}")))?;
            prop_assert!(simulated.time <= claimed.time);
            prop_assert!(simulated.peak_bytes <= claimed.peak_bytes, "{} > {}", simulated.peak_bytes, claimed.peak_bytes);
        }
    }
}

#[test]
fn many_drawn_options_are_legal_and_stages_keep_several() {
    let (mut legal, mut several) = (0, 0);
    for seed in 0..300 {
        let Some((_, view, accepted)) = with_options(seed, 4, 2, &mut Dice(seed)) else { continue };
        legal += accepted;
        several += view.options.iter().filter(|options| options.len() > 1).count();
        for (options, stage) in view.options.iter().zip(&view.chain.stages) {
            assert_eq!(options.len(), stage.savings.len());
        }
    }
    assert!(legal > 2000 && several > 100, "{legal} legal, {several} stages with several");
}

#[test]
fn an_option_that_reads_what_is_gone_is_refused_with_the_operator() {
    let instance = Instance::new(&random("random", 4, 0)).expect("valid");
    let view = ChainView::new(&instance).expect("a chain");
    let empty = StageOption { name: "empty".into(), ..StageOption::default() };
    let mut options = vec![vec![]; view.stages.len()];
    options[0].push(empty);
    let (same, refused) = view.with_options(&instance, options);
    assert_eq!(same.chain, view.chain);
    assert!(refused[0].to_string().starts_with("stage 0, option empty: operator"), "{}", refused[0]);
}
