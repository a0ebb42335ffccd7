//! The chain programs against a search over all sequences of their class, written from Table 1 and
//! Definitions 3.1 to 4.1 of rotor-toms-2024 and sharing nothing with the programs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use remat_core::chain::{Chain, ChainStep, Saving, Stage};
use remat_formulations::rotor::ranges::Rule;
use remat_formulations::rotor::slots::{Account, SlottedChain};
use remat_formulations::rotor::solve::{Fit, Outcome, Settings, least_bytes, solve};
use remat_formulations::rotor_weak::table::WeakTable;

/// Which sequences are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// All, and deleting the input of a stage that is saved.
    Deleting,
    /// All: REMAT(L, M) itself.
    Any,
    /// Memory-persistent ones.
    Persistent,
    /// Of these, the ones with `F_all` right before each backward.
    SaveLast,
}

/// What is in memory, and what persistence forbids.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    /// Bit l: a^l is materialised on its own (a^0 is the input).
    activations: u32,
    /// Per stage, the saving it was run with, plus one; zero where abar is not there.
    saved: Vec<usize>,
    /// Bit l: stage l was checkpointed or saved, and its backward is to come.
    locked: u32,
    /// Backwards to come.
    remaining: usize,
}

/// Every operation from a state: its time, the memory while it runs, and the state after it.
fn operations(chain: &Chain, state: &State, class: Class) -> Vec<(u64, i64, State)> {
    let mut found = Vec::new();
    let n = chain.len();
    let bytes = |state: &State| {
        let alone = (0..=n).filter(|l| state.activations >> l & 1 == 1).map(|l| size(chain, l)).sum::<i64>();
        let saved = state.saved.iter().enumerate().filter(|(_, way)| **way > 0);
        alone + saved.map(|(l, way)| chain.stages[l].savings[way - 1].saved_bytes.cast_signed()).sum::<i64>()
    };
    let gradient = |l: usize| if l == 0 { chain.input_gradient_bytes } else { chain.stages[l - 1].gradient_bytes };
    let current = gradient(state.remaining).cast_signed();
    let kept = |from: usize| chain.stages[from..].iter().map(|s| s.kept_bytes.cast_signed()).sum::<i64>();
    let base = chain.fixed_bytes.cast_signed() + current + kept(state.remaining);
    // Nothing below the last locked stage may run before its backward.
    let lowest = (0..n).rev().find(|l| state.locked >> l & 1 == 1).unwrap_or(0);
    for l in lowest..state.remaining {
        let stage = &chain.stages[l];
        let from_saved = l > 0 && state.saved[l - 1] > 0;
        let from_alone = state.activations >> l & 1 == 1;
        if !from_saved && !from_alone {
            continue;
        }
        let lock = |state: &mut State| {
            if matches!(class, Class::Persistent | Class::SaveLast) {
                state.locked |= 1 << l;
            }
        };
        let makes = |state: &mut State| {
            if state.saved[l] == 0 {
                state.activations |= 1 << (l + 1);
            }
        };
        let unsaved = state.saved[l] == 0 || class == Class::Deleting;
        if from_alone && l > 0 && !from_saved && unsaved && state.locked >> l & 1 == 0 {
            // F_none: the input goes when the output is there. (Not after F_all of the same stage, where it
            // would only delete the input: see "What weak persistence misses" in METHODOLOGY.md.)
            let mut during = state.clone();
            makes(&mut during);
            let memory = base + bytes(&during) + stage.passing_overhead;
            during.activations &= !(1 << l);
            found.push((stage.forward_time, memory, during));
        }
        let mut after = state.clone();
        makes(&mut after);
        lock(&mut after);
        found.push((stage.forward_time, base + bytes(&after) + stage.passing_overhead, after));
        for (way, saving) in stage.savings.iter().enumerate() {
            let mut after = state.clone();
            after.saved[l] = way + 1;
            after.activations &= !(1 << (l + 1));
            lock(&mut after);
            let memory = base + bytes(&after) + saving.forward_overhead;
            if class != Class::SaveLast || l + 1 == state.remaining {
                found.push((saving.forward_time, memory, after));
            }
        }
        if l + 1 == state.remaining && state.saved[l] > 0 {
            let saving = &stage.savings[state.saved[l] - 1];
            let others = gradient(l).cast_signed() + stage.kept_bytes.cast_signed();
            let memory = base + bytes(state) + others + saving.backward_overhead;
            let mut after = state.clone();
            after.saved[l] = 0;
            if l > 0 {
                after.activations &= !(1 << l);
            }
            after.locked &= !(1 << l);
            after.remaining -= 1;
            found.push((saving.backward_time, memory, after));
        }
    }
    found
}

fn size(chain: &Chain, l: usize) -> i64 {
    if l == 0 { chain.input_bytes.cast_signed() } else { chain.stages[l - 1].activation_bytes.cast_signed() }
}

/// The least makespan within a budget, by Dijkstra's algorithm over all states.
fn exhaustive(chain: &Chain, budget: u64, class: Class) -> Option<u64> {
    let start = State { activations: 1, saved: vec![0; chain.len()], locked: 0, remaining: chain.len() };
    let mut best = HashMap::from([(start.clone(), 0)]);
    let mut queue = BinaryHeap::from([Reverse((0, start))]);
    while let Some(Reverse((time, state))) = queue.pop() {
        if state.remaining == 0 {
            return Some(time);
        }
        if best.get(&state).is_some_and(|&known| known < time) {
            continue;
        }
        for (duration, memory, after) in operations(chain, &state, class) {
            let total = time + duration;
            let better = best.get(&after).is_none_or(|&known| total < known);
            if memory <= budget.cast_signed() && better {
                best.insert(after.clone(), total);
                queue.push(Reverse((total, after)));
            }
        }
    }
    None
}

fn stage(alternatives: usize) -> impl Strategy<Value = Stage> {
    let numbers = (0..6u64, 0..5u64, 0..5u64, 0..2u64, 0..3i64);
    let saving = (0..4u64, 0..6u64, 0..7u64, -1..4i64);
    (numbers, prop::collection::vec(saving, 1..=alternatives)).prop_map(
        |((forward_time, activation, gradient, kept, overhead), savings)| Stage {
            name: String::new(),
            forward_time,
            activation_bytes: activation,
            gradient_bytes: gradient,
            kept_bytes: kept,
            passing_overhead: overhead,
            savings: savings
                .into_iter()
                .map(|(slower, backward, extra, backward_overhead)| Saving {
                    name: String::new(),
                    forward_time: forward_time + slower,
                    backward_time: backward,
                    saved_bytes: activation + extra,
                    forward_overhead: overhead,
                    backward_overhead,
                })
                .collect(),
        },
    )
}

fn chain(stages: std::ops::Range<usize>, alternatives: usize) -> impl Strategy<Value = Chain> {
    (prop::collection::vec(stage(alternatives), stages), 0..5u64, 0..4u64, 0..4u64).prop_map(
        |(stages, input_bytes, input_gradient_bytes, fixed_bytes)| Chain {
            fixed_bytes,
            input_bytes,
            input_gradient_bytes,
            stages,
        },
    )
}

/// Every budget up to beyond what saving everything takes; more slots than bytes, hence exact.
fn agrees_with_the_search(chain: &Chain, rule: Rule) -> Result<(), TestCaseError> {
    let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 8;
    let budgets: Vec<u64> = (0..=most).collect();
    let outcomes =
        solve(chain, &budgets, Settings { slots: most + 1, rule, fit: Fit::Exact }).expect("there is memory");
    let mut previous = None;
    for (&budget, outcome) in budgets.iter().zip(&outcomes) {
        let class = if rule == Rule::Persistent { Class::Persistent } else { Class::SaveLast };
        let expected = exhaustive(chain, budget, class);
        let found = match outcome {
            Outcome::Sequence(sequence) => {
                let cost = chain.evaluate(sequence).expect("valid");
                prop_assert!(cost.peak_bytes <= budget);
                Some(cost.time)
            }
            Outcome::Infeasible => None,
            Outcome::LostToRounding => return Err(TestCaseError::fail("slots of one byte lose nothing")),
        };
        prop_assert_eq!(found, expected, "budget {}", budget);
        prop_assert!(found.is_none() || previous.is_none_or(|earlier| found <= earlier), "more memory costs more");
        previous = if found.is_some() { Some(found) } else { None };
        prop_assert_eq!(found.is_some(), budget >= least_bytes(chain, rule));
    }
    Ok(())
}

/// Every budget, one byte a slot: never below the true optimum, and never above the persistent one. At how
/// many budgets it is above the true one.
fn weak_against_the_search(chain: &Chain) -> Result<usize, TestCaseError> {
    let mut missed = 0;
    let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 8;
    let slotted = SlottedChain::rounded(chain, 1, Account::WithInput);
    let least = least_bytes(chain, Rule::Weak);
    let capacity = usize::try_from(most).expect("small");
    let table = WeakTable::<u32>::new(&slotted, capacity).expect("times fit");
    for budget in chain.fixed_bytes..=most {
        let mu = usize::try_from(budget - chain.fixed_bytes).expect("small");
        let found = table.makespan(mu);
        let best = exhaustive(chain, budget, Class::Any);
        prop_assert_eq!(found.is_some(), best.is_some(), "budget {}", budget);
        prop_assert!(found >= best, "budget {}", budget);
        let persistent = exhaustive(chain, budget, Class::Persistent);
        prop_assert!(persistent.is_none_or(|time| found.is_some_and(|found| found <= time)), "budget {}", budget);
        missed += usize::from(found > best);
        prop_assert_eq!(found.is_some(), budget >= least);
        if let Some(time) = found {
            let cost = chain.evaluate(&table.sequence(mu).expect("finite")).expect("valid");
            prop_assert_eq!(cost.time, time);
            prop_assert!(cost.peak_bytes <= budget, "budget {}: peak {}", budget, cost.peak_bytes);
        }
    }
    Ok(missed)
}

/// METHODOLOGY.md, "What the weakly persistent program misses".
#[test]
fn deleting_the_input_of_a_saved_stage_may_pay() {
    let stage = |forward_time, activation_bytes, overhead, saved_bytes, backward_overhead| Stage {
        name: String::new(),
        forward_time,
        activation_bytes,
        gradient_bytes: 0,
        kept_bytes: 0,
        passing_overhead: overhead,
        savings: vec![Saving {
            name: String::new(),
            forward_time,
            backward_time: 0,
            saved_bytes,
            forward_overhead: overhead,
            backward_overhead,
        }],
    };
    let stages = vec![stage(1, 3, 0, 5, 0), stage(0, 0, 2, 1, 0), stage(0, 1, 0, 4, 1)];
    let chain = Chain { fixed_bytes: 0, input_bytes: 0, input_gradient_bytes: 0, stages };
    let found = [Class::Deleting, Class::Any, Class::Persistent].map(|class| exhaustive(&chain, 6, class));
    assert_eq!(found, [Some(2), Some(3), Some(3)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_program_finds_the_best_memory_persistent_sequence(chain in chain(1..5, 1)) {
        agrees_with_the_search(&chain, Rule::Persistent)?;
    }

    #[test]
    fn the_program_chooses_the_best_alternatives(chain in chain(1..4, 3)) {
        agrees_with_the_search(&chain, Rule::Persistent)?;
    }

    #[test]
    fn revolve_finds_the_best_sequence_that_keeps_activations_only(chain in chain(1..5, 1)) {
        agrees_with_the_search(&chain, Rule::SaveLast)?;
    }

    #[test]
    fn the_weakly_persistent_program_is_between_the_best_of_all_and_the_best_persistent_with_alternatives(chain in chain(1..4, 2)) {
        weak_against_the_search(&chain)?;
    }

    #[test]
    fn fewer_slots_never_break_the_budget_and_never_help(chain in chain(2..7, 2), slots in 1..40u64) {
        let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 4;
        let budgets: Vec<u64> = (0..=most).step_by(3).collect();
        let with = |slots, fit| {
            solve(&chain, &budgets, Settings { slots, rule: Rule::Persistent, fit }).expect("there is memory")
        };
        let exact = with(most + 1, Fit::Rounded);
        let (rounded, fitted) = (with(slots, Fit::Rounded), with(slots, Fit::Exact));
        for (rounded, fitted) in rounded.iter().zip(&fitted) {
            if let Outcome::Sequence(sequence) = rounded {
                let Outcome::Sequence(better) = fitted else {
                    return Err(TestCaseError::fail("fitting lost a sequence"));
                };
                let time = |sequence: &[ChainStep]| chain.evaluate(sequence).expect("valid").time;
                prop_assert!(time(better) <= time(sequence));
            }
        }
        for ((&budget, exact), rounded) in
            budgets.iter().zip(&exact).chain(budgets.iter().zip(&exact)).zip(rounded.iter().chain(&fitted))
        {
            if let Outcome::Sequence(sequence) = rounded {
                let cost = chain.evaluate(sequence).expect("valid");
                prop_assert!(cost.peak_bytes <= budget);
                let Outcome::Sequence(best) = exact else {
                    return Err(TestCaseError::fail("rounding up found what exact sizes do not"));
                };
                prop_assert!(chain.evaluate(best).expect("valid").time <= cost.time);
            }
            prop_assert_eq!(matches!(rounded, Outcome::Infeasible), matches!(exact, Outcome::Infeasible));
        }
    }
}

/// Sizes of activations only matter relative to each other where they float: small ones, many of them equal.
fn tight_chain() -> impl Strategy<Value = Chain> {
    let stage = (1..4u64, 0..4u64, 0..2u64, 0..3u64).prop_map(|(time, activation, gradient, extra)| Stage {
        name: String::new(),
        forward_time: time,
        activation_bytes: activation,
        gradient_bytes: gradient,
        kept_bytes: 0,
        passing_overhead: 0,
        savings: vec![Saving {
            name: String::new(),
            forward_time: time,
            backward_time: 1,
            saved_bytes: activation + extra,
            forward_overhead: 0,
            backward_overhead: 0,
        }],
    });
    let stages = prop::collection::vec(stage, 4..8);
    (stages, 0..3u64).prop_map(|(stages, input_bytes)| Chain {
        fixed_bytes: 0,
        input_bytes,
        input_gradient_bytes: 0,
        stages,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_weakly_persistent_program_is_between_the_best_of_all_and_the_best_persistent(chain in chain(1..7, 1)) {
        weak_against_the_search(&chain)?;
    }

    #[test]
    fn the_weakly_persistent_program_is_between_them_on_tight_chains(chain in tight_chain()) {
        weak_against_the_search(&chain)?;
    }
}

/// The same chains every time: the program misses next to nothing.
#[test]
fn the_weakly_persistent_program_nearly_always_finds_the_true_optimum() {
    let mut runner = TestRunner::deterministic();
    let mut missed = 0;
    for _ in 0..150 {
        for chain in [tight_chain().boxed(), chain(1..7, 1).boxed()] {
            let drawn = chain.new_tree(&mut runner).expect("any chain will do").current();
            missed += usize::from(weak_against_the_search(&drawn).expect("between the two") > 0);
        }
    }
    assert!(missed <= 3, "{missed} of 300 chains");
}

/// METHODOLOGY.md: five stages, every forward takes 1, within 4 bytes 16 is possible.
#[test]
fn a_chain_on_which_the_weakly_persistent_program_misses_the_optimum() {
    let stage = |activation_bytes, saved_bytes, gradient_bytes| Stage {
        name: String::new(),
        forward_time: 1,
        activation_bytes,
        gradient_bytes,
        kept_bytes: 0,
        passing_overhead: 0,
        savings: vec![Saving {
            name: String::new(),
            forward_time: 1,
            backward_time: 1,
            saved_bytes,
            forward_overhead: 0,
            backward_overhead: 0,
        }],
    };
    let stages = vec![stage(3, 3, 0), stage(1, 1, 0), stage(0, 1, 1), stage(1, 2, 0), stage(1, 3, 0)];
    let chain = Chain { fixed_bytes: 0, input_bytes: 0, input_gradient_bytes: 0, stages };
    let slotted = SlottedChain::rounded(&chain, 1, Account::WithInput);
    let table = WeakTable::<u32>::new(&slotted, 4).expect("times fit");
    assert_eq!((table.makespan(4), exhaustive(&chain, 4, Class::Any)), (Some(17), Some(16)));
}
