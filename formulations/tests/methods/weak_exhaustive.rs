//! `rotor-weak` against a search over all weakly persistent sequences, over memory-persistent ones, and
//! over all sequences whatever.

use crate::chains::search::{Class, best, makespans};
use crate::chains::{Numbers, plain};
use crate::networks::part;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use remat_core::chain::{Chain, ChainStep, Stage};
use remat_core::chain_view::ChainView;
use remat_core::{Instance, generate};
use remat_formulations::chain::ranges::Ranges;
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::slots::{Account, SlottedChain};
use remat_formulations::chain::solve::least_bytes;
use remat_formulations::chain::storage::Execution;
use remat_formulations::chain::trace::Sequenced;
use remat_formulations::chain::weak::table::WeakTable;

/// At every budget the program finds exactly the best weakly persistent sequence, one byte a slot. At how many
/// budgets memory-persistent ones are slower.
fn compare(chain: &Chain) -> usize {
    let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 3;
    let [weak, persistent] = [Class::WeaklyPersistent, Class::Persistent].map(|class| makespans(chain, most, class));
    let slotted = SlottedChain::rounded(chain, 1, Account::WithInput);
    let ranges = Ranges::new(&slotted, Rule::Weak, Execution::default()).expect("no deadline");
    let table = WeakTable::<u32>::new(&slotted, &ranges, weak.len(), Execution::default()).expect("times fit");
    let least = least_bytes(chain, Rule::Weak, Execution::default()).expect("no deadline");
    let mut slower = 0;
    for (budget, (&expected, persistent)) in weak.iter().zip(persistent).enumerate() {
        let mu = (budget as u64).checked_sub(chain.fixed_bytes).map(|mu| usize::try_from(mu).expect("small"));
        let found = mu.and_then(|mu| table.makespan(mu));
        assert_eq!(found, expected, "budget {budget}: {chain:?}");
        assert_eq!(found.is_some(), budget as u64 >= least, "budget {budget}: {chain:?}");
        if let (Some(time), Some(mu)) = (found, mu) {
            let cost = chain.evaluate(&table.sequence(mu).expect("finite")).expect("valid");
            assert_eq!(cost.time, time);
            assert!(cost.peak_bytes <= budget as u64, "budget {budget}: {chain:?}");
            assert!(persistent.is_none_or(|persistent| time <= persistent), "budget {budget}: {chain:?}");
            slower += usize::from(persistent != Some(time));
        }
    }
    slower
}

/// At how many budgets the best weakly persistent sequence is not the best of all. On these chains it exists wherever any does.
fn beaten(chain: &Chain) -> usize {
    let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 3;
    let [weak, any] = [Class::WeaklyPersistent, Class::Any].map(|class| makespans(chain, most, class));
    let mut beaten = 0;
    for (budget, (weak, any)) in weak.into_iter().zip(any).enumerate() {
        assert_eq!(weak.is_some(), any.is_some(), "budget {budget}: {chain:?}");
        assert!(any <= weak, "budget {budget}: {chain:?}");
        beaten += usize::from(any < weak);
    }
    beaten
}

/// The sum over chains (a part of so many), the same every time.
fn sum(chains: u32, strategy: &impl Strategy<Value = Chain>, of: impl Fn(&Chain) -> usize) -> usize {
    let mut runner = TestRunner::deterministic();
    (0..part(chains)).map(|_| of(&strategy.new_tree(&mut runner).expect("any chain will do").current())).sum()
}

/// Sizes of activations only matter relative to each other where they float: small ones, many of them equal.
fn tight() -> Numbers {
    Numbers {
        forward_time: 1..4,
        slower: 0..1,
        backward_time: 1..2,
        activation: 0..4,
        extra: 0..3,
        gradient: 0..2,
        kept: 0..1,
        forward_overhead: 0..1,
        backward_overhead: 0..1,
        input: 0..3,
        input_gradient: 0..1,
        fixed: 0..1,
    }
}

/// Chains whose gradients are as large as the activations, as in the paper's figures.
fn with_gradients_of_their_activations(numbers: Numbers) -> impl Strategy<Value = Chain> {
    numbers.chain(4..8, 1).prop_map(|chain| {
        let stage = |stage: Stage| Stage { gradient_bytes: stage.activation_bytes, ..stage };
        Chain { stages: chain.stages.into_iter().map(stage).collect(), ..chain }
    })
}

#[test]
fn the_program_finds_the_best_weakly_persistent_sequence() {
    sum(400, &Numbers::small().chain(1..7, 1), compare);
}

#[test]
fn the_program_chooses_the_best_alternatives() {
    sum(150, &Numbers::small().chain(1..5, 2), compare);
}

#[test]
fn the_program_finds_the_best_weakly_persistent_sequence_of_tight_chains_and_persistence_costs_there() {
    assert!(sum(250, &tight().chain(4..8, 1), compare) > 0);
}

#[test]
fn the_program_finds_the_best_weakly_persistent_sequence_where_gradients_are_large_or_equal() {
    sum(60, &Numbers { gradient: 0..9, kept: 0..3, ..tight() }.chain(4..8, 1), compare);
    sum(60, &Numbers { gradient: 4..5, ..tight() }.chain(4..8, 1), compare);
}

#[test]
fn where_activations_shrink_nothing_is_gained_by_giving_persistence_up() {
    let shrinking = tight().chain(4..8, 1).prop_map(|mut chain| {
        let mut least = chain.input_bytes;
        for stage in &mut chain.stages {
            least = least.min(stage.activation_bytes);
            stage.activation_bytes = least;
        }
        chain
    });
    assert_eq!(sum(100, &shrinking, compare), 0);
}

#[test]
fn on_small_chains_a_budget_that_no_weakly_persistent_sequence_meets_is_met_by_none() {
    sum(60, &Numbers::small().chain(1..7, 1), beaten);
    sum(60, &tight().chain(4..7, 1), beaten);
}

/// Lemma 4.4 of the paper holds there, as far as one can see.
#[test]
fn without_overheads_and_large_gradients_the_best_sequence_is_weakly_persistent() {
    assert_eq!(sum(60, &with_gradients_of_their_activations(tight()), beaten), 0);
    assert_eq!(sum(60, &Numbers { gradient: 0..1, ..tight() }.chain(4..8, 1), beaten), 0);
}

/// Figure 4 of the paper: 2n + 2 against 3n - 2.
#[test]
fn the_papers_counterexample_for_every_length_that_can_be_searched() {
    for n in 4..8 {
        let instance = Instance::new(&generate::figure4("figure4", n, n - 2)).expect("generated instances are valid");
        let chain = ChainView::new(&instance).expect("a chain").chain;
        let time = |class| best(&chain, 15, class).map(|(time, ..)| time);
        let expected = [Some(2 * n + 2), Some(3 * n - 2)];
        assert_eq!([Class::WeaklyPersistent, Class::Persistent].map(time), expected, "n = {n}");
        let slotted = SlottedChain::rounded(&chain, 1, Account::WithInput);
        let ranges = Ranges::new(&slotted, Rule::Weak, Execution::default()).expect("no deadline");
        let table = WeakTable::<u32>::new(&slotted, &ranges, 15, Execution::default()).expect("times fit");
        assert_eq!(table.makespan(15), expected[0], "n = {n}");
    }
}

/// Lemma 4.4 of the paper says that there is always an optimal sequence that is weakly persistent. Here a^2 is
/// made anew before B^4, while a^3 is there: afterwards w_delta^3 leaves no room for it (docs/errata.md).
#[test]
fn a_chain_whose_best_sequence_is_not_weakly_persistent() {
    use ChainStep::{Backward, Checkpoint, Pass, Save};
    let times = [1, 1];
    let stages = vec![
        plain(times, 3, 3, 0),
        plain(times, 1, 1, 0),
        plain(times, 0, 1, 1),
        plain(times, 1, 2, 0),
        plain(times, 1, 3, 0),
    ];
    let chain = Chain { fixed_bytes: 0, input_bytes: 0, input_gradient_bytes: 0, stages };
    let time = |class| best(&chain, 4, class).map(|(time, ..)| time);
    assert_eq!([Class::Any, Class::WeaklyPersistent, Class::Persistent].map(time), [Some(16), Some(17), Some(17)]);
    compare(&chain);
    let save = |stage| Save { stage, saving: 0 };
    let backward = |stage| Backward { stage };
    let sequence = [
        vec![Checkpoint { stage: 0 }, Pass { stage: 1 }, Pass { stage: 2 }, Checkpoint { stage: 3 }],
        vec![save(4), backward(4), Checkpoint { stage: 0 }, Pass { stage: 1 }],
        vec![save(3), backward(3), save(2), backward(2), save(0), save(1), backward(1), backward(0)],
    ];
    let cost = chain.evaluate(&sequence.concat()).expect("valid");
    assert_eq!((cost.time, cost.peak_bytes), (16, 4));
}

/// The same where gradients are as large as activations: abar^4 is made before B^5, where w_delta^5 + o_f^4 leaves
/// room for it and w_delta^4 + o_f^4 would not.
#[test]
fn a_chain_with_gradients_like_its_activations_whose_best_sequence_is_not_weakly_persistent() {
    let stage = |forward_time, activation_bytes, saved_bytes, overhead, backward_overhead| {
        let mut stage = plain([forward_time, 1], activation_bytes, saved_bytes, activation_bytes);
        stage.passing_overhead = overhead;
        stage.savings[0].forward_overhead = overhead;
        stage.savings[0].backward_overhead = backward_overhead;
        stage
    };
    let stages = vec![
        stage(2, 0, 0, 0, 1),
        stage(2, 0, 0, 0, 2),
        stage(1, 1, 3, 2, 2),
        stage(3, 1, 3, 2, -1),
        stage(2, 0, 0, 0, -1),
        stage(3, 1, 2, 0, 2),
    ];
    let chain = Chain { fixed_bytes: 0, input_bytes: 0, input_gradient_bytes: 0, stages };
    let time = |class| best(&chain, 6, class).map(|(time, ..)| time);
    assert_eq!([Class::Any, Class::WeaklyPersistent].map(time), [Some(24), Some(25)]);
    compare(&chain);
}

/// docs/errata.md, "An operation is missing from Table 1".
#[test]
fn deleting_the_input_of_a_saved_stage_may_pay() {
    let mut stages = vec![plain([1, 0], 3, 5, 0), plain([0, 0], 0, 1, 0), plain([0, 0], 1, 4, 0)];
    stages[1].passing_overhead = 2;
    stages[1].savings[0].forward_overhead = 2;
    stages[2].savings[0].backward_overhead = 1;
    let chain = Chain { fixed_bytes: 0, input_bytes: 0, input_gradient_bytes: 0, stages };
    let found = [Class::Deleting, Class::Any, Class::Persistent].map(|class| best(&chain, 6, class).map(|best| best.0));
    assert_eq!(found, [Some(2), Some(3), Some(3)]);
}
