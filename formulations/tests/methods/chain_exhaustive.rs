//! The chain programs against a search over all sequences of their class.

use crate::chains::Numbers;
use crate::chains::search::{Class, makespans};
use proptest::prelude::*;
use remat_core::chain::{Chain, ChainStep};
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::solve::{Fit, Outcome, Settings, least_bytes, solve};
use remat_formulations::chain::storage::Execution;

fn chain(stages: std::ops::Range<usize>, alternatives: usize) -> impl Strategy<Value = Chain> {
    Numbers::small().chain(stages, alternatives)
}

/// The outcomes for some budgets.
fn outcomes(chain: &Chain, budgets: &[u64], settings: Settings) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let answer = |index, outcome| {
        assert_eq!(index, outcomes.len());
        outcomes.push(outcome);
    };
    solve(chain, budgets, settings, Execution::default(), answer).expect("there is memory");
    outcomes
}

/// Every budget up to beyond what saving everything takes; more slots than bytes, hence exact.
fn agrees_with_the_search(chain: &Chain, rule: Rule) -> Result<(), TestCaseError> {
    let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 8;
    let budgets: Vec<u64> = (0..=most).collect();
    let outcomes = outcomes(chain, &budgets, Settings { slots: most + 1, rule, fit: Fit::Exact });
    let class = if rule == Rule::Persistent { Class::Persistent } else { Class::SaveLast };
    let expected = makespans(chain, most, class);
    let least = least_bytes(chain, rule, Execution::default()).expect("no deadline");
    let mut previous = None;
    for ((&budget, outcome), &expected) in budgets.iter().zip(&outcomes).zip(&expected) {
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
        prop_assert_eq!(found.is_some(), budget >= least);
    }
    Ok(())
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
    fn a_budget_has_the_same_answer_alone_and_among_others(chain in chain(2..9, 2), slots in 1..60u64) {
        let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 4;
        let budgets: Vec<u64> = (0..=most).collect();
        for rule in [Rule::Persistent, Rule::SaveLast, Rule::Weak] {
            for fit in [Fit::Exact, Fit::Rounded] {
                let settings = Settings { slots, rule, fit };
                for (&budget, among_others) in budgets.iter().zip(outcomes(&chain, &budgets, settings)) {
                    prop_assert_eq!(&outcomes(&chain, &[budget], settings), &[among_others], "budget {}", budget);
                }
            }
        }
    }

    #[test]
    fn fewer_slots_never_break_the_budget_and_never_help(chain in chain(2..7, 2), slots in 1..40u64) {
        let most = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes + 4;
        let budgets: Vec<u64> = (0..=most).step_by(3).collect();
        let with = |slots, fit| {
            outcomes(&chain, &budgets, Settings { slots, rule: Rule::Persistent, fit })
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
