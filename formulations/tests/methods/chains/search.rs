//! A search over all sequences of a class, written from Table 1 and Definitions 3.1 to 4.3 of
//! rotor-toms-2024 and sharing nothing with the programs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use remat_core::chain::{Chain, ChainStep};

/// Which sequences are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All, and deleting the input of a stage that is saved.
    Deleting,
    /// All: REMAT(L, M) itself.
    Any,
    /// Weakly persistent ones (Definition 4.3): while what `F_ck` or `F_all` of a stage keeps is there, nothing
    /// before that stage runs; `F_none` and `B` of the stage end that.
    WeaklyPersistent,
    /// Memory-persistent ones (Definition 4.1): only `B` ends it.
    Persistent,
    /// Of these, the ones with `F_all` right before each backward.
    SaveLast,
}

impl Class {
    fn locks(self) -> bool {
        !matches!(self, Self::Deleting | Self::Any)
    }
}

/// Chains have no more stages than this.
const MOST: usize = 10;

/// What is in memory, and what persistence forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    /// Bit l: a^l is materialised on its own (a^0 is the input).
    activations: u16,
    /// Bit l: the class forbids to run anything before stage l.
    locked: u16,
    /// Per stage, the saving it was run with, plus one; zero where abar is not there.
    saved: [u8; MOST],
    /// Backwards to come.
    remaining: u8,
}

/// An operation from a state: its time, the memory while it runs, and the state after it.
type Move = (ChainStep, u64, i64, State);

/// A chain within some class of sequences.
struct Search<'a> {
    chain: &'a Chain,
    class: Class,
    /// Bytes of a^l.
    sizes: Vec<i64>,
    /// Bytes that are there whatever is kept, by backwards to come.
    base: Vec<i64>,
}

impl<'a> Search<'a> {
    fn new(chain: &'a Chain, class: Class) -> Self {
        let n = chain.len();
        assert!(n <= MOST, "chains of up to {MOST} stages");
        let kept = |from: usize| chain.stages[from..].iter().map(|stage| stage.kept_bytes).sum::<u64>();
        let base = |left: usize| chain.fixed_bytes + chain.gradient_out_of(left) + kept(left);
        Self {
            chain,
            class,
            sizes: (0..=n).map(|l| chain.input_of(l).cast_signed()).collect(),
            base: (0..=n).map(|left| base(left).cast_signed()).collect(),
        }
    }

    fn bytes(&self, state: &State) -> i64 {
        let alone: i64 = (0..self.sizes.len()).filter(|l| state.activations >> l & 1 == 1).map(|l| self.sizes[l]).sum();
        let saved = |(stage, &way): (&remat_core::chain::Stage, &u8)| match way {
            0 => 0,
            way => stage.savings[usize::from(way) - 1].saved_bytes.cast_signed(),
        };
        alone + self.chain.stages.iter().zip(&state.saved).map(saved).sum::<i64>()
    }

    /// All operations from a state.
    fn moves(&self, state: &State) -> Vec<Move> {
        let mut found = Vec::new();
        let left = usize::from(state.remaining);
        let lowest = (0..left).rev().find(|l| state.locked >> l & 1 == 1).unwrap_or(0);
        for l in lowest..left {
            let from_saved = l > 0 && state.saved[l - 1] > 0;
            let from_alone = state.activations >> l & 1 == 1;
            if from_alone && l > 0 && !from_saved && self.may_drop(state, l) {
                found.push(self.pass(state, l));
            }
            if from_alone || from_saved {
                found.push(self.checkpoint(state, l));
                found.extend((0..self.chain.stages[l].savings.len()).filter_map(|way| self.save(state, l, way)));
            }
            if (from_alone || from_saved) && l + 1 == left && state.saved[l] > 0 {
                found.push(self.backward(state, l));
            }
        }
        found
    }

    /// Whether `F_none` of stage `l` is in the class. After `F_all` of the same stage it would only delete the
    /// input: see "An operation is missing from Table 1" in docs/errata.md.
    fn may_drop(&self, state: &State, l: usize) -> bool {
        let locked = state.locked >> l & 1 == 1;
        let allowed = !locked || self.class == Class::WeaklyPersistent;
        allowed && (state.saved[l] == 0 || self.class == Class::Deleting)
    }

    fn made(state: &State, l: usize) -> State {
        let output = if state.saved[l] == 0 { 1 << (l + 1) } else { 0 };
        State { activations: state.activations | output, ..*state }
    }

    fn locked(&self, state: State, l: usize) -> State {
        State { locked: state.locked | if self.class.locks() { 1 << l } else { 0 }, ..state }
    }

    /// `F_none`: the input goes when the output is there.
    fn pass(&self, state: &State, l: usize) -> Move {
        let mut during = Self::made(state, l);
        let memory = self.base[usize::from(state.remaining)] + self.bytes(&during);
        during.activations &= !(1 << l);
        during.locked &= !(1 << l);
        let stage = &self.chain.stages[l];
        (ChainStep::Pass { stage: l }, stage.forward_time, memory + stage.passing_overhead, during)
    }

    /// `F_ck`.
    fn checkpoint(&self, state: &State, l: usize) -> Move {
        let after = self.locked(Self::made(state, l), l);
        let stage = &self.chain.stages[l];
        let memory = self.base[usize::from(state.remaining)] + self.bytes(&after) + stage.passing_overhead;
        (ChainStep::Checkpoint { stage: l }, stage.forward_time, memory, after)
    }

    /// `F_all`.
    fn save(&self, state: &State, l: usize, way: usize) -> Option<Move> {
        let mut after = self.locked(*state, l);
        after.saved[l] = u8::try_from(way + 1).expect("few ways");
        after.activations &= !(1 << (l + 1));
        let saving = &self.chain.stages[l].savings[way];
        let memory = self.base[usize::from(state.remaining)] + self.bytes(&after) + saving.forward_overhead;
        let allowed = self.class != Class::SaveLast || l + 1 == usize::from(state.remaining);
        allowed.then_some((ChainStep::Save { stage: l, saving: way }, saving.forward_time, memory, after))
    }

    /// `B`.
    fn backward(&self, state: &State, l: usize) -> Move {
        let stage = &self.chain.stages[l];
        let saving = &stage.savings[usize::from(state.saved[l]) - 1];
        let made = self.chain.gradient_out_of(l).cast_signed() + stage.kept_bytes.cast_signed();
        let memory = self.base[usize::from(state.remaining)] + self.bytes(state) + made + saving.backward_overhead;
        let mut after = *state;
        after.saved[l] = 0;
        if l > 0 {
            after.activations &= !(1 << l);
        }
        after.locked &= !(1 << l);
        after.remaining -= 1;
        (ChainStep::Backward { stage: l }, saving.backward_time, memory, after)
    }
}

/// Time and peak on the way to a state, and the state and step before it.
type Reached = (u64, i64, Option<(State, ChainStep)>);

/// A fastest sequence within a budget, of these one with the least peak: its time, peak and steps. By
/// Dijkstra's algorithm over all states.
pub fn best(chain: &Chain, budget: u64, class: Class) -> Option<(u64, u64, Vec<ChainStep>)> {
    let search = Search::new(chain, class);
    let remaining = u8::try_from(chain.len()).expect("few stages");
    let start = State { activations: 1, locked: 0, saved: [0; MOST], remaining };
    let mut known: HashMap<State, Reached> = HashMap::from([(start, (0, 0, None))]);
    let mut queue = BinaryHeap::from([Reverse((0_u64, 0_i64, start))]);
    while let Some(Reverse((time, peak, state))) = queue.pop() {
        if state.remaining == 0 {
            let mut steps = Vec::new();
            let mut at = state;
            while let Some((before, step)) = known[&at].2 {
                steps.push(step);
                at = before;
            }
            steps.reverse();
            return Some((time, peak.unsigned_abs(), steps));
        }
        if (time, peak) > (known[&state].0, known[&state].1) {
            continue;
        }
        for (step, duration, memory, after) in search.moves(&state) {
            let (time, peak) = (time + duration, peak.max(memory));
            let better = known.get(&after).is_none_or(|known| (time, peak) < (known.0, known.1));
            if memory <= budget.cast_signed() && better {
                known.insert(after, (time, peak, Some((state, step))));
                queue.push(Reverse((time, peak, after)));
            }
        }
    }
    None
}

/// The least makespan within every budget from 0 to `most`.
pub fn makespans(chain: &Chain, most: u64, class: Class) -> Vec<Option<u64>> {
    let mut makespans = vec![None; usize::try_from(most).expect("small") + 1];
    let mut end = makespans.len();
    while end > 0 {
        // What is the fastest within `end - 1` is so within every budget down to its peak.
        let Some((time, peak, _)) = best(chain, end as u64 - 1, class) else { break };
        let from = usize::try_from(peak).expect("small");
        makespans[from..end].fill(Some(time));
        end = from;
    }
    makespans
}
