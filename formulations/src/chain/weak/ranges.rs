//! From which slot on a state of the weakly persistent program has a sequence, and from which on its
//! fastest: the recurrence of `table.rs` with "how much memory" in place of "how much time", without a
//! memory dimension.

use super::states::States;
use crate::chain::slots::{SlottedChain, SlottedSaving};
use crate::chain::storage::{Execution, TableError};

/// Slots of every state; `NEVER` where none suffices.
pub struct Ranges {
    /// By row: below this there is no sequence.
    pub least: Vec<usize>,
    /// By row: from here on nothing is gained.
    pub enough: Vec<usize>,
    /// m_none^{s,l}, by s and l.
    passing: Vec<usize>,
    /// The states, and where their rows are.
    pub states: States,
    n: usize,
}

/// No number of slots.
pub const NEVER: usize = usize::MAX;

impl Ranges {
    /// The limits of all states.
    ///
    /// # Errors
    /// There is too little time.
    pub fn new(chain: &SlottedChain, execution: Execution) -> Result<Self, TableError> {
        let n = chain.len();
        let states = &States::new(chain);
        let mut passing = vec![0; n * n];
        for s in 0..n {
            for (l, limit) in chain.passing_limits(s) {
                passing[s * n + l] = limit;
            }
        }
        let mut ranges = Self {
            least: vec![NEVER; states.rows()],
            enough: vec![NEVER; states.rows()],
            passing,
            states: states.clone(),
            n,
        };
        for s in (0..n).rev() {
            // By cut, what the input of stage s takes from the account there.
            let taken: Vec<i64> = (0..n).map(|cut| chain.slots_between(s, cut, chain.input(s))).collect();
            for t in states.served(s) {
                execution.check()?;
                for l in t..n {
                    let row = states.row(s, t, l);
                    ranges.least[row] = ranges.least_of(chain, states, (s, t, l), &taken);
                    ranges.enough[row] = ranges.enough_of(chain, states, (s, t, l));
                }
            }
            for t in states.served(s) {
                for l in t..n {
                    let (own, best) = (states.row(s, t, l), states.best_row(t, l));
                    let here = after(ranges.least[own], chain.slots_between(t, s, 0));
                    ranges.least[best] = if s == t { here } else { ranges.least[best].min(here) };
                }
            }
        }
        Ok(ranges)
    }

    /// Least slots to keep the input of stage `s` while running forwards from there to stage `l`.
    pub fn kept(&self, s: usize, l: usize) -> usize {
        self.passing[s * self.n + l]
    }

    fn least_of(
        &self,
        chain: &SlottedChain,
        states: &States,
        (s, t, l): (usize, usize, usize),
        taken: &[i64],
    ) -> usize {
        let split = |t2: usize| {
            let right = after(self.least[states.best_row(t2, l)], taken[t2]);
            right.max(self.least[states.row(s, t, t2 - 1)])
        };
        let mut best = (t + 1..=l).map(split).min().map_or(NEVER, |least| least.max(self.kept(s, l)));
        if s == t {
            let with = |saving| saved(chain, states, (s, l), saving, &self.least);
            return chain.savings[s].iter().map(with).min().unwrap_or(NEVER).min(best);
        }
        best = best.min(moved(chain, states, (s, t, l), &self.least));
        best
    }

    fn enough_of(&self, chain: &SlottedChain, states: &States, (s, t, l): (usize, usize, usize)) -> usize {
        if s == t {
            return saved(chain, states, (s, l), chain.fastest(s), &self.enough);
        }
        moved(chain, states, (s, t, l), &self.enough)
    }
}

/// Slots of a state whose floating activation moves, by those of the states that it may move to.
fn moved(chain: &SlottedChain, states: &States, (s, t, l): (usize, usize, usize), of: &[usize]) -> usize {
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
