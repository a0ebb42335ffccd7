//! From which slot on a state of a rule's program has a sequence, and from which on its fastest: the recurrence of
//! `weak/table.rs` with "how much memory" in place of "how much time", without a memory dimension. The tables skip every
//! slot outside, and feasibility can be decided in exact bytes.
//!
//! The persistent programs are the weak one with no states but (t, t).

use super::rule::Rule;
use super::slots::{SlottedChain, SlottedSaving};
use super::states::{State, States};
use super::storage::{Execution, TableError};

/// Slots of every state; `NEVER` where none suffices.
pub struct Ranges {
    /// By row: below this there is no sequence.
    pub least: Vec<usize>,
    /// By row: from here on the first stage is saved by its fastest saving, and nothing is gained; never where it may not be.
    pub enough: Vec<usize>,
    /// m_none^{s,l}, by s and l.
    passing: Vec<usize>,
    /// The states, and where their rows are.
    pub states: States,
    /// Whose they are.
    pub rule: Rule,
}

/// No number of slots.
pub const NEVER: usize = usize::MAX;

impl Ranges {
    /// The limits of all states.
    ///
    /// # Errors
    /// There is too little time.
    pub fn new(chain: &SlottedChain, rule: Rule, execution: Execution) -> Result<Self, TableError> {
        let n = chain.len();
        let states = match rule {
            Rule::Weak => States::weak(chain),
            Rule::Persistent | Rule::SaveLast => States::persistent(n),
        };
        let mut passing = vec![0; n * n];
        for s in 0..n {
            for (l, limit) in chain.passing_limits(s) {
                passing[s * n + l] = limit;
            }
        }
        let mut ranges =
            Self { least: vec![NEVER; states.rows()], enough: vec![NEVER; states.rows()], passing, states, rule };
        for s in (0..n).rev() {
            let shifts: Vec<i64> = (0..n).map(|cut| chain.cut_shift(s, cut)).collect();
            for t in ranges.states.served(s) {
                // O(L^3) for the persistent programs is no time to speak of; O(L^4) may be.
                if rule == Rule::Weak {
                    execution.check()?;
                }
                for l in t..n {
                    let row = ranges.states.row(s, t, l);
                    ranges.least[row] = ranges.least_of(chain, (s, t, l), &shifts);
                    ranges.enough[row] = ranges.enough_of(chain, (s, t, l));
                }
            }
            for t in ranges.states.served(s) {
                for l in t..n {
                    let (own, best) = (ranges.states.row(s, t, l), ranges.states.best_row(t, l));
                    let here = after(ranges.least[own], chain.slots_between(t, s, 0));
                    ranges.least[best] = if s == t { here } else { ranges.least[best].min(here) };
                }
            }
        }
        Ok(ranges)
    }

    /// The row of the whole chain.
    pub fn root(&self) -> usize {
        self.states.row(0, 0, self.states.stages() - 1)
    }

    /// From how many slots on nothing is gained for the whole chain. Where only the last stage is saved every input is kept then, and
    /// no stage passed twice.
    pub fn enough_for_all(&self, chain: &SlottedChain) -> usize {
        let last = self.states.stages() - 1;
        if self.rule != Rule::SaveLast {
            return self.enough[self.root()];
        }
        (0..last).rev().fold(self.enough[self.states.row(last, last, last)], |right, s| {
            let alone = self.enough[self.states.row(s, s, s)];
            after(right, chain.cut_shift(s, s + 1)).max(alone).max(self.kept(s, last))
        })
    }

    /// Whether the first stage of a state may be saved.
    pub fn may_save(&self, (s, t, l): State) -> bool {
        s == t && (self.rule != Rule::SaveLast || s == l)
    }

    /// Least slots to keep the input of stage `s` while running forwards from there to stage `l`.
    pub fn kept(&self, s: usize, l: usize) -> usize {
        self.passing[s * self.states.stages() + l]
    }

    fn least_of(&self, chain: &SlottedChain, (s, t, l): State, shifts: &[i64]) -> usize {
        let states = &self.states;
        let left = states.row(s, t, t);
        let split = |t2: usize| {
            let right = after(self.least[states.best_row(t2, l)], shifts[t2]);
            right.max(self.least[left + t2 - 1 - t])
        };
        let best = (t + 1..=l).map(split).min().map_or(NEVER, |least| least.max(self.kept(s, l)));
        if s < t {
            return best.min(moved(chain, states, (s, t, l), &self.least));
        }
        if !self.may_save((s, t, l)) {
            return best;
        }
        let with = |saving| saved(chain, states, (s, l), saving, &self.least);
        chain.savings[s].iter().map(with).min().unwrap_or(NEVER).min(best)
    }

    fn enough_of(&self, chain: &SlottedChain, (s, t, l): State) -> usize {
        if s < t {
            moved(chain, &self.states, (s, t, l), &self.enough)
        } else if self.may_save((s, t, l)) {
            saved(chain, &self.states, (s, l), chain.fastest(s), &self.enough)
        } else {
            NEVER
        }
    }
}

/// Slots of a state whose floating activation moves, by those of the states that it may move to.
fn moved(chain: &SlottedChain, states: &States, (s, t, l): State, of: &[usize]) -> usize {
    let r = states.next(s, t);
    after(of[states.row(r, t, l)], chain.slots_between(s, r, 0)).max(chain.through_limit(s, s..r, l))
}

/// Slots of the state (s, s, l) whose stage is saved, by those of the next stage's.
fn saved(chain: &SlottedChain, states: &States, (s, l): (usize, usize), saving: &SlottedSaving, of: &[usize]) -> usize {
    let limit = chain.all_limit(s, l, saving);
    if s == l {
        return limit;
    }
    limit.max(after(of[states.row(s + 1, s + 1, l)], chain.save_shift(s, saving)))
}

/// The first slot from which an account goes on, `shift` slots down, at `slot` or later.
fn after(slot: usize, shift: i64) -> usize {
    if slot == NEVER { NEVER } else { slot.saturating_add_signed(shift.try_into().unwrap_or(isize::MAX)) }
}
