//! Least memory of every state of the weakly persistent program: the recurrence of `table.rs` with
//! "how much memory" in place of "how much time", without a memory dimension.

use super::Tetrahedron;
use crate::rotor::slots::{SlottedChain, SlottedSaving};
use crate::rotor::triangle::Triangle;

/// Least memory, the floating activation included, of every state; `usize::MAX` where none suffices.
pub fn least(chain: &SlottedChain) -> Tetrahedron<usize> {
    let n = chain.len();
    let limits = Limits::new(chain);
    let mut least = Tetrahedron::new(n, 1, usize::MAX);
    for l in 0..n {
        // e[t']: least memory beside the floating activation to get from a checkpoint after it down to t'.
        let mut e = vec![usize::MAX; n];
        let mut moved = Triangle::new(n, usize::MAX);
        for s in (0..=l).rev() {
            for t in s..=l {
                if t < l {
                    let split = |t2: usize| e[t2].saturating_add(chain.input[s]).max(least.row(s, t, t2 - 1)[0]);
                    let best = (t + 1..=l).map(split).min().unwrap_or(usize::MAX);
                    moved[(s, t)] = best.max(limits.kept(s, l));
                }
                let mut best =
                    limits.moves(s, t, l).map(|(r, limit)| moved[(r, t)].max(limit)).min().unwrap_or(usize::MAX);
                if s < t && t == l {
                    best = best.min(least.row(l, l, l)[0].max(limits.last(s, l)));
                }
                if s == t {
                    best = best.min(saving(chain, &least, s, l));
                }
                least.row_mut(s, t, l)[0] = best;
            }
            for (t, e) in e.iter_mut().enumerate().take(l + 1).skip(s) {
                *e = (*e).min(least.row(s, t, l)[0]);
            }
        }
    }
    least
}

fn saving(chain: &SlottedChain, least: &Tetrahedron<usize>, s: usize, l: usize) -> usize {
    let with = |saving: &SlottedSaving| {
        let limit = chain.all_limit(l, saving) + chain.input[s];
        if s == l {
            return limit;
        }
        limit.max(least.row(s + 1, s + 1, l)[0].saturating_add(chain.saved_shift(s, saving)))
    };
    chain.savings[s].iter().map(with).min().unwrap_or(usize::MAX)
}

/// Limits of passing forwards, the floating activation included.
pub struct Limits<'a> {
    chain: &'a SlottedChain,
    /// m_none^{s,l} by start and phase.
    passing: Triangle<usize>,
}

impl<'a> Limits<'a> {
    /// Limits of all starts and phases.
    pub fn new(chain: &'a SlottedChain) -> Self {
        let mut passing = Triangle::new(chain.len(), 0);
        for s in 0..chain.len() {
            for (l, limit) in chain.passing_limits(s) {
                passing[(s, l)] = limit;
            }
        }
        Self { chain, passing }
    }

    /// To keep the input of stage `r` while running forwards from there to stage `l`.
    pub fn kept(&self, r: usize, l: usize) -> usize {
        self.passing[(r, l)].saturating_add(self.chain.input[r])
    }

    /// To run the forwards from stage `s` to below stage `l` and keep nothing.
    pub fn last(&self, s: usize, l: usize) -> usize {
        (s..l).map(|j| self.chain.through_limit(j, l)).max().unwrap_or(0)
    }

    /// Where the floating activation may move from stage `s` on the way to backward `t` in phase `l`
    /// (to inputs at least as large, Corollary 4.5), with what the forwards up to there need.
    pub fn moves(&self, s: usize, t: usize, l: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut limit = 0;
        let last = if l > t { t + 1 } else { s };
        (s..last).filter_map(move |r| {
            let here = limit;
            limit = limit.max(self.chain.through_limit(r, l));
            (self.chain.input[r] >= self.chain.input[s]).then_some((r, here))
        })
    }
}
