//! The counterexamples of docs/errata.md: the shipped instances, the papers' recurrences as printed, and a
//! search over all sequences that shares nothing with either.

use std::collections::HashMap;

use crate::chains::search::{Class, best};
use crate::networks;
use remat_core::chain::{Chain, ChainStep};
use remat_core::chain_view::ChainView;
use remat_core::{Instance, generate};

/// The chain of a shipped instance.
fn shipped(name: &str) -> Chain {
    ChainView::new(&networks::shipped(name)).expect("a chain").chain
}

/// The least makespans within a limit among memory-persistent, weakly persistent and all sequences of Table 1.
fn makespans(chain: &Chain, limit: u64) -> [Option<u64>; 3] {
    [Class::Persistent, Class::WeaklyPersistent, Class::Any].map(|class| best(chain, limit, class).map(|best| best.0))
}

/// A chain in the papers' letters: stages from 1 to L + 1, sizes from 0.
struct Letters {
    stages: usize,
    u_f: Vec<u64>,
    u_b: Vec<u64>,
    w_a: Vec<i64>,
    w_abar: Vec<i64>,
    w_delta: Vec<i64>,
    o_f: Vec<i64>,
    o_b: Vec<i64>,
}

impl Letters {
    fn of(chain: &Chain) -> Self {
        let stages = &chain.stages;
        let from_one = |of: &dyn Fn(usize) -> i64| [0].into_iter().chain((0..stages.len()).map(of)).collect::<Vec<_>>();
        let times = |of: &dyn Fn(usize) -> u64| [0].into_iter().chain((0..stages.len()).map(of)).collect::<Vec<_>>();
        let mut letters = Self {
            stages: stages.len(),
            u_f: times(&|s| stages[s].forward_time),
            u_b: times(&|s| stages[s].savings[0].backward_time),
            w_a: from_one(&|s| stages[s].activation_bytes.cast_signed()),
            w_abar: from_one(&|s| stages[s].savings[0].saved_bytes.cast_signed()),
            w_delta: from_one(&|s| stages[s].gradient_bytes.cast_signed()),
            o_f: from_one(&|s| stages[s].savings[0].forward_overhead),
            o_b: from_one(&|s| stages[s].savings[0].backward_overhead),
        };
        letters.w_a[0] = chain.input_bytes.cast_signed();
        letters.w_delta[0] = chain.input_gradient_bytes.cast_signed();
        letters
    }

    /// `m_none` of a chain from s to l.
    fn m_none(&self, s: usize, l: usize) -> i64 {
        let pairs = (s + 1..l).map(|j| self.w_a[j - 1] + self.w_a[j] + self.o_f[j]);
        self.w_delta[l] + pairs.chain([self.w_a[s] + self.o_f[s]]).max().expect("not empty")
    }

    /// `m_all` of stage s while the gradient of l is there; RR-9302 leaves out the gradient that the backward makes.
    fn m_all(&self, s: usize, l: usize, made: bool) -> i64 {
        let gradient = if made { self.w_delta[s - 1] } else { 0 };
        let forward = self.w_delta[l] + self.w_abar[s] + self.o_f[s];
        forward.max(self.w_delta[s] + gradient + self.w_abar[s] + self.o_b[s])
    }

    fn forward(&self, from: usize, to: usize) -> u64 {
        self.u_f[from..to].iter().sum()
    }
}

/// Theorem 4.7 of rotor-toms-2024, word for word: the makespan that it gives for a limit on all memory.
fn theorem_4_7(chain: &Chain, limit: u64) -> Option<u64> {
    type Known = HashMap<(usize, usize, usize, i64), Option<u64>>;
    fn c_fl(x: &Letters, (s, t, l): (usize, usize, usize), m: i64, known: &mut Known) -> Option<u64> {
        if m < 0 {
            return None;
        }
        if s == t && t == l {
            return (m >= x.m_all(s, s, true)).then(|| x.u_f[s] + x.u_b[s]);
        }
        if let Some(&makespan) = known.get(&(s, t, l, m)) {
            return makespan;
        }
        let mut least: Option<u64> = None;
        let mut offer = |makespan: u64| least = Some(least.map_or(makespan, |least| least.min(makespan)));
        if t != l && m >= x.m_none(s, l) {
            for r in (s..=t).filter(|&r| x.w_a[s - 1] <= x.w_a[r - 1]) {
                let moved = x.w_a[r - 1] - x.w_a[s - 1];
                for s2 in r + 1..=l {
                    for t2 in s2.max(t + 1)..=l {
                        let first = c_fl(x, (s2, t2, l), m - x.w_a[s2 - 1] - moved, known);
                        let rest = first.and_then(|_| c_fl(x, (r, t, t2 - 1), m - moved, known));
                        if let (Some(first), Some(rest)) = (first, rest) {
                            offer(x.forward(s, s2) + first + rest);
                        }
                    }
                }
            }
        }
        if s == t
            && m >= x.m_all(s, l, true)
            && let Some(rest) = c_fl(x, (s + 1, s + 1, l), m - x.w_abar[s], known)
        {
            offer(x.u_f[s] + rest + x.u_b[s]);
        }
        known.insert((s, t, l, m), least);
        least
    }
    let x = Letters::of(chain);
    c_fl(&x, (1, 1, x.stages), limit.cast_signed() - x.w_a[0], &mut HashMap::new())
}

/// Theorem 4.8 of rotor-toms-2024 (`made`), or Theorem 1 of RR-9302, which leaves out a gradient: the makespan for a
/// limit on all memory, and the sequence.
fn persistent(chain: &Chain, limit: u64, made: bool) -> Option<(u64, Vec<ChainStep>)> {
    type Found = Option<(u64, Vec<ChainStep>)>;
    fn c(
        x: &Letters,
        (s, t): (usize, usize),
        m: i64,
        made: bool,
        known: &mut HashMap<(usize, usize, i64), Found>,
    ) -> Found {
        if let Some(found) = known.get(&(s, t, m)) {
            return found.clone();
        }
        let save = ChainStep::Save { stage: s - 1, saving: 0 };
        let backward = ChainStep::Backward { stage: s - 1 };
        let mut least: Found = None;
        let mut offer = |makespan: u64, steps: Vec<ChainStep>| {
            if least.as_ref().is_none_or(|least| makespan < least.0) {
                least = Some((makespan, steps));
            }
        };
        if s == t && m >= x.m_all(s, s, made) {
            offer(x.u_f[s] + x.u_b[s], vec![save, backward]);
        }
        if s < t && m >= x.m_none(s, t) {
            for s2 in s + 1..=t {
                let right = c(x, (s2, t), m - x.w_a[s2 - 1], made, known);
                let left = right.as_ref().and_then(|_| c(x, (s, s2 - 1), m, made, known));
                if let (Some(right), Some(left)) = (right, left) {
                    let mut steps = vec![ChainStep::Checkpoint { stage: s - 1 }];
                    steps.extend((s + 1..s2).map(|k| ChainStep::Pass { stage: k - 1 }));
                    offer(x.forward(s, s2) + right.0 + left.0, [steps, right.1, left.1].concat());
                }
            }
        }
        if s < t
            && m >= x.m_all(s, t, made)
            && let Some(rest) = c(x, (s + 1, t), m - x.w_abar[s], made, known)
        {
            offer(x.u_f[s] + rest.0 + x.u_b[s], [vec![save], rest.1, vec![backward]].concat());
        }
        known.insert((s, t, m), least.clone());
        least
    }
    let x = Letters::of(chain);
    c(&x, (1, x.stages), limit.cast_signed() - x.w_a[0], made, &mut HashMap::new())
}

#[test]
fn lemma_4_4_fails_on_a_chain_whose_gradients_are_not_as_large_as_its_activations() {
    assert_eq!(makespans(&shipped("errata/toms-lemma-4-4.json"), 4), [Some(17), Some(17), Some(16)]);
}

#[test]
fn lemma_4_4_fails_on_a_chain_whose_gradients_are_as_large_as_its_activations() {
    let chain = shipped("errata/toms-lemma-4-4-overheads.json");
    let letters = Letters::of(&chain);
    assert_eq!(letters.w_a, letters.w_delta);
    assert!(letters.o_f.iter().chain(&letters.o_b).all(|&overhead| overhead >= 0));
    assert_eq!(makespans(&chain, 9), [Some(17), Some(17), Some(16)]);
}

#[test]
fn theorem_4_7_as_printed_misses_the_best_weakly_persistent_sequence() {
    let chain = shipped("errata/toms-theorem-4-7.json");
    assert_eq!(theorem_4_7(&chain, 12), Some(25));
    assert_eq!(makespans(&chain, 12), [Some(25), Some(22), Some(22)]);
}

/// On `small_L10_seed17` of the reference chains the authors' program returns what the printed theorem does.
#[test]
fn theorem_4_7_as_printed_returns_what_the_authors_program_does() {
    let instance =
        Instance::new(&generate::random_chain("seed17", 10, 17, generate::RandomKind::Small)).expect("valid");
    let chain = ChainView::new(&instance).expect("a chain").chain;
    let printed = [33, 34, 43, 44].map(|limit| theorem_4_7(&chain, limit + chain.input_bytes));
    assert_eq!(printed, [2590, 2470, 2087, 2026].map(Some));
}

#[test]
fn theorem_1_of_rr_9302_returns_a_sequence_that_exceeds_its_limit() {
    let chain = shipped("small/rotor-toms-table2.json");
    let limit = 90 << 20;
    let [(optimistic, wrong), (makespan, right)] =
        [false, true].map(|made| persistent(&chain, limit, made).expect("feasible"));
    assert_eq!([optimistic, makespan], [41_180_000, 47_420_000]);
    let peaks = [wrong, right].map(|steps| chain.evaluate(&steps).expect("valid").peak_bytes);
    assert_eq!(peaks, [102_204_704, 90_984_941]);
}

/// n = 10 and k = 9: the paper has T1 = k + 2 (n + 1) = 31 for the best memory-persistent sequence.
#[test]
fn a_memory_persistent_sequence_of_figure_2_of_rr_9302_is_faster_than_printed() {
    let chain = shipped("small/rotor-rr9302-figure2-n10.json");
    assert_eq!(persistent(&chain, 8, true).expect("feasible").0, 15);
}

#[test]
fn deleting_the_input_of_a_saved_stage_pays_and_is_no_operation_of_table_1() {
    let chain = shipped("errata/toms-table-1.json");
    assert_eq!(makespans(&chain, 6), [Some(3), Some(3), Some(3)]);
    assert_eq!(best(&chain, 6, Class::Deleting).expect("feasible").0, 2);
}

/// The chain on which the authors' program returns 55, with a peak of 42.
#[test]
fn the_authors_persistent_program_may_exceed_its_limit() {
    assert_eq!(makespans(&shipped("errata/rotor-program.json"), 41)[0], Some(63));
}
