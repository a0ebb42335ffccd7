//! Which floating activations matter, and where the rows of their states are.
//!
//! A floating activation s that serves backward t next (s < t) is worth its memory only if it is smaller
//! than every activation on the way: with j the last of the smallest inputs of stages s to t, keeping a^j
//! wherever a sequence keeps any of them, and leaving out the forwards to it, makes a sequence that is no
//! slower and never needs more. So states (s, t, l) are needed only where the input of stage s is strictly
//! smaller than that of every stage in s + 1..=t. On a random chain of n stages that leaves about n ln n
//! of the n^2 / 2 pairs (s, t), on one whose activations shrink just the n pairs (t, t): the persistent
//! program, which has no others on any chain.

use std::ops::Range;

use crate::chain::slots::SlottedChain;

/// Stages s, t, l of the weakly persistent program; of the persistent ones s = t.
pub type State = (usize, usize, usize);

/// The states of a chain, each with a row.
#[derive(Clone, Debug)]
pub struct States {
    n: usize,
    /// For each s, the t with which it forms a state end before this one.
    ends: Vec<usize>,
    /// First row of each state (s, t), by s and t - s; none where s = t and the row is the shared one.
    apart: Vec<Vec<Option<usize>>>,
    rows: usize,
}

impl States {
    /// Those of the persistent programs: (t, t), all of whose rows are shared ones.
    pub fn persistent(stages: usize) -> Self {
        Self { n: stages, ends: (1..=stages).collect(), apart: vec![vec![None]; stages], rows: stages * stages }
    }

    /// Those of the weakly persistent program.
    pub fn weak(chain: &SlottedChain) -> Self {
        let n = chain.len();
        let end = |s: usize| (s + 1..n).find(|&j| chain.input(j) <= chain.input(s)).unwrap_or(n);
        // The chain's own input is always there: nothing is gained by dropping it.
        let ends: Vec<usize> = (0..n).map(|s| if s == 0 { 1 } else { end(s) }).collect();
        let mut rows = n * n;
        let mut apart = Vec::with_capacity(n);
        for s in 0..n {
            let row = |t: usize| {
                let shared = s == t && !(1..t).any(|other| ends[other] > t);
                let first = rows;
                rows += if shared { 0 } else { n - t };
                (!shared).then_some(first)
            };
            apart.push((s..ends[s]).map(row).collect());
        }
        Self { n, ends, apart, rows }
    }

    /// Stages of the chain.
    pub fn stages(&self) -> usize {
        self.n
    }

    /// Rows of all states, those that are never touched included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are touched.
    pub fn touched(&self) -> usize {
        self.rows - self.n * self.n + self.n * (self.n + 1) / 2
    }

    /// The backwards that a floating activation `s` may serve next.
    pub fn served(&self, s: usize) -> Range<usize> {
        s..self.ends[s]
    }

    /// Where the floating activation `s` < `t` moves next on its way to backward `t`.
    pub fn next(&self, s: usize, t: usize) -> usize {
        (s + 1..=t).find(|&r| self.ends[r] > t).unwrap_or(t)
    }

    /// The floating activations after `r` that may serve backward `t`.
    pub fn serving(&self, t: usize, r: usize) -> impl Iterator<Item = usize> + '_ {
        (r + 1..=t).filter(move |&s| self.ends[s] > t)
    }

    /// The row of state (s, t, l); those of consecutive l follow each other.
    pub fn row(&self, s: usize, t: usize, l: usize) -> usize {
        debug_assert!(s <= t && t < self.ends[s] && t <= l && l < self.n);
        self.apart[s][t - s].map_or_else(|| self.best_row(t, l), |first| first + l - t)
    }

    /// The row of the best of the states (s, t, l), s after the stage that is being worked on.
    pub fn best_row(&self, t: usize, l: usize) -> usize {
        debug_assert!(t <= l && l < self.n);
        t * self.n + l
    }
}
