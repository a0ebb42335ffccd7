//! Aligned grids and their refinement against an exact program without slots: per subchain the staircase
//! of makespan against memory, cut to its corners. It is slow, and obviously Theorem 4.8.

use std::time::{Duration, Instant};

use crate::chains::{Numbers, plain};
use crate::networks::part;
use proptest::prelude::*;
use remat_core::chain::Chain;
use remat_formulations::chain::refine::{End, Goal, Refined, Refinement};
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::solve::{Outcome, least_bytes};
use remat_formulations::chain::storage::{Execution, TableError};

/// Corners (memory, makespan) of a staircase, memory ascending, makespan descending.
type Staircase = Vec<(i64, u64)>;

/// The makespan of a staircase within some memory.
fn at(staircase: &Staircase, memory: i64) -> Option<u64> {
    let position = staircase.partition_point(|corner| corner.0 <= memory);
    position.checked_sub(1).map(|position| staircase[position].1)
}

/// Adds what two parts need and take together, the second beside `shift` bytes.
fn sums(left: &Staircase, right: &Staircase, shift: i64, time: u64, limit: i64, found: &mut Staircase) {
    let candidates = left.iter().map(|c| c.0).chain(right.iter().map(|c| c.0 + shift)).chain([limit]);
    for memory in candidates.filter(|&memory| memory >= limit) {
        if let (Some(left), Some(right)) = (at(left, memory), at(right, memory - shift)) {
            found.push((memory, left + right + time));
        }
    }
}

fn corners(mut points: Staircase) -> Staircase {
    points.sort_unstable();
    let mut kept: Staircase = Vec::new();
    for (memory, time) in points {
        if kept.last().is_none_or(|last| time < last.1) {
            kept.push((memory, time));
        }
    }
    kept
}

/// The whole chain's staircase; memory beside its input.
fn staircase(chain: &Chain) -> Staircase {
    let n = chain.len();
    let kept = chain.kept_after();
    let bytes = |value: u64| value.cast_signed();
    let phase = |t: usize| bytes(chain.stages[t].gradient_bytes + kept[t]);
    let mut table: Vec<Vec<Staircase>> = vec![vec![Vec::new(); n]; n];
    for s in (0..n).rev() {
        for t in s..n {
            let mut found = Vec::new();
            for saving in &chain.stages[s].savings {
                let saved = bytes(saving.saved_bytes);
                let own = phase(s) + bytes(chain.gradient_out_of(s) + chain.stages[s].kept_bytes);
                let limit =
                    (saved + phase(t) + saving.forward_overhead).max(saved + own + saving.backward_overhead).max(0);
                let time = saving.forward_time + saving.backward_time;
                if s == t {
                    found.push((limit, time));
                } else {
                    sums(&vec![(0, 0)], &table[s + 1][t], saved, time, limit, &mut found);
                }
            }
            let passing = |j: usize| {
                let stage = &chain.stages[j];
                let input = if j > s { bytes(chain.input_of(j)) } else { 0 };
                phase(t) + input + bytes(stage.activation_bytes) + stage.passing_overhead
            };
            let limit = (s..t).map(passing).max().unwrap_or(0).max(0);
            for cut in s + 1..=t {
                let time = chain.stages[s..cut].iter().map(|stage| stage.forward_time).sum();
                let shift = bytes(chain.input_of(cut));
                sums(&table[s][cut - 1], &table[cut][t], shift, time, limit, &mut found);
            }
            table[s][t] = corners(found);
        }
    }
    table[0][n - 1].clone()
}

fn chain() -> impl Strategy<Value = Chain> {
    let numbers = Numbers {
        forward_time: 0..60,
        slower: 0..40,
        backward_time: 0..60,
        activation: 0..500,
        extra: 0..700,
        gradient: 0..500,
        kept: 0..20,
        forward_overhead: -20..300,
        backward_overhead: -20..400,
        input: 0..500,
        input_gradient: 0..400,
        fixed: 0..40,
    };
    numbers.chain(2..12, 2)
}

/// From nothing to more than everything needs.
fn budgets(chain: &Chain) -> Vec<u64> {
    let peak = chain.evaluate(&chain.store_all(|_| 0)).expect("valid").peak_bytes;
    let least = least_bytes(chain, Rule::Persistent, Execution::default()).expect("no deadline");
    (0..8).map(|k| least + peak.saturating_sub(least) * k / 7).chain([least.saturating_sub(1), peak + 1]).collect()
}

fn time(chain: &Chain, answer: &Refined, budget: u64) -> Option<u64> {
    let Outcome::Sequence(sequence) = &answer.outcome else { return None };
    let cost = chain.evaluate(sequence).expect("valid");
    assert!(cost.peak_bytes <= budget);
    Some(cost.time)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: part(200), ..ProptestConfig::default() })]

    #[test]
    fn bounds_and_sequences_bracket_the_optimum_whatever_the_slots(chain in chain(), slots in 1..400u64) {
        let exact = staircase(&chain);
        let budgets = budgets(&chain);
        let goal = Goal { loss: 0.0, bytes: 1 << 28, time: None };
        let once = |rule| -> Vec<Refined> {
            let refinement = Refinement::new(&chain, rule, goal).expect("there is memory");
            budgets.iter().map(|&budget| refinement.once(budget, slots).expect("there is memory")).collect()
        };
        let (weak, persistent) = (once(Rule::Weak), once(Rule::Persistent));
        for ((&budget, answer), weak) in budgets.iter().zip(&persistent).zip(&weak) {
            let memory = budget.cast_signed() - (chain.fixed_bytes + chain.input_bytes).cast_signed();
            let optimum = at(&exact, memory);
            prop_assert_eq!(answer.outcome == Outcome::Infeasible, optimum.is_none());
            let Some(optimum) = optimum else { continue };
            prop_assert!(answer.lower_bound.is_some_and(|bound| bound <= optimum), "{:?} {}", answer, optimum);
            prop_assert!(time(&chain, answer, budget).is_none_or(|time| time >= optimum));
            prop_assert!(weak.lower_bound.is_some_and(|bound| bound <= optimum));
        }
    }

    #[test]
    fn refinement_ends_at_the_optimum(chain in chain()) {
        let exact = staircase(&chain);
        let budgets = budgets(&chain);
        let goal = Goal { loss: 0.0, bytes: 1 << 28, time: None };
        let solved = |rule| -> Vec<Refined> {
            let refinement = Refinement::new(&chain, rule, goal).expect("there is memory");
            budgets.iter().map(|&budget| refinement.refine(budget).expect("there is memory")).collect()
        };
        for ((&budget, persistent), weak) in budgets.iter().zip(solved(Rule::Persistent)).zip(solved(Rule::Weak)) {
            let memory = budget.cast_signed() - (chain.fixed_bytes + chain.input_bytes).cast_signed();
            let optimum = at(&exact, memory);
            prop_assert_eq!(time(&chain, &persistent, budget), optimum);
            prop_assert_eq!(persistent.lower_bound, optimum);
            let weak_time = time(&chain, &weak, budget);
            prop_assert_eq!(weak.lower_bound, weak_time);
            prop_assert!(optimum.is_none_or(|optimum| weak_time.is_some_and(|time| time <= optimum)));
        }
    }
}

/// Stages whose sizes have nothing in common.
fn long(stages: u64) -> Chain {
    let stage = |k| {
        let size = 10_000 + 7919 * k % 5000;
        plain([100 + k % 7, 200], size, 3 * size, size)
    };
    let stages = (0..stages).map(stage).collect();
    Chain { fixed_bytes: 0, input_bytes: 10_000, input_gradient_bytes: 0, stages }
}

#[test]
fn small_and_large_budgets_are_proved_as_well() {
    let chain = long(60);
    let goal = Goal { loss: 0.001, bytes: 1 << 28, time: None };
    let refinement = Refinement::new(&chain, Rule::Persistent, goal).expect("there is memory");
    for budget in [200_000, 2_000_000] {
        let answer = refinement.refine(budget).expect("there is memory");
        assert!(answer.end == End::Done && answer.loss(&chain) <= 0.001, "{answer:?}");
    }
}

#[test]
fn a_deadline_ends_the_refinement_with_what_there_is() {
    let chain = long(300);
    for rule in [Rule::Persistent, Rule::SaveLast, Rule::Weak] {
        for milliseconds in [0, 50, 1000] {
            let time = Some(Duration::from_millis(milliseconds));
            let goal = Goal { loss: 0.0, bytes: 8 << 30, time };
            let started = Instant::now();
            let answer = Refinement::new(&chain, rule, goal).and_then(|refinement| refinement.refine(6_000_000));
            let took = started.elapsed();
            match answer {
                // A fast machine may be done before.
                Ok(answer) => {
                    let early = time.is_some_and(|time| took < time);
                    assert!(answer.end == End::Time || early, "{rule:?}, {milliseconds} ms: {:?}", answer.end);
                }
                Err(error) => assert!(matches!(error, TableError::Deadline), "{rule:?}, {milliseconds} ms: {error}"),
            }
            // Without the deadline it takes minutes; a slow machine may take seconds.
            assert!(took <= Duration::from_secs(30), "{rule:?}, {milliseconds} ms: {took:?}");
        }
    }
}

#[test]
fn a_chain_that_is_too_long_is_refused_at_once() {
    let chain = long(10_000);
    let goal = Goal { loss: 0.001, bytes: 4 << 30, time: None };
    for rule in [Rule::Persistent, Rule::SaveLast, Rule::Weak] {
        let started = Instant::now();
        let error = Refinement::new(&chain, rule, goal).err().expect("too long").to_string();
        assert!(error.contains("a chain of 10000 stages in 100 slots"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}
