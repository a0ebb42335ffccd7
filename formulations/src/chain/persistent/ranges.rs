//! Between which memory limits the makespan of a subchain is worth computing.
//!
//! Below `least` a subchain cannot run at all; from `enough` on everything can be saved and nothing
//! is recomputed. Both are O(L^3) or less without a memory dimension, so the table (`table.rs`) skips
//! every slot outside, and feasibility can be decided in exact bytes.

use super::triangle::Triangle;
use crate::chain::rule::Rule;
use crate::chain::slots::{SlottedChain, SlottedSaving};

/// Limits of every subchain `s..=t`.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// m_none^{s,t}; meaningless where s = t.
    pub passing: Triangle<usize>,
    /// Least memory with which the subchain can run.
    pub least: Triangle<usize>,
    /// Memory from which on nothing is recomputed; `usize::MAX` where the rule always recomputes.
    pub enough: Triangle<usize>,
    /// For each stage, the alternative that takes the least time (of these, the one that saves least).
    pub fastest: Vec<usize>,
}

impl Ranges {
    /// Limits of all subchains.
    pub fn new(chain: &SlottedChain, rule: Rule) -> Self {
        let n = chain.len();
        let mut ranges = Self {
            passing: Triangle::new(n, 0),
            least: Triangle::new(n, usize::MAX),
            enough: Triangle::new(n, usize::MAX),
            fastest: (0..n).map(|stage| chain.fastest_position(stage)).collect(),
        };
        for s in (0..n).rev() {
            for (t, limit) in chain.passing_limits(s) {
                ranges.passing[(s, t)] = limit;
            }
            for t in s..n {
                ranges.least[(s, t)] = ranges.least_of(chain, rule, s, t);
                ranges.enough[(s, t)] = ranges.enough_of(chain, rule, s, t);
            }
        }
        ranges
    }

    fn least_of(&self, chain: &SlottedChain, rule: Rule, s: usize, t: usize) -> usize {
        let by_saving = |saving: &SlottedSaving| {
            let limit = chain.all_limit(s, t, saving);
            let beside = || self.least[(s + 1, t)].saturating_add(chain.saved_slots(s, saving));
            if s == t { limit } else { limit.max(beside()) }
        };
        let saving = chain.savings[s].iter().map(by_saving).min().unwrap_or(usize::MAX);
        if s == t {
            return saving;
        }
        let cuts = chain.cut_shifts(s);
        let split = |k| self.least[(s, k)].max(self.least[(k + 1, t)].saturating_add(cuts[k + 1]));
        let passing = (s..t).map(split).min().unwrap_or(usize::MAX).max(self.passing[(s, t)]);
        match rule {
            Rule::Persistent | Rule::Weak => passing.min(saving),
            Rule::SaveLast => passing,
        }
    }

    fn enough_of(&self, chain: &SlottedChain, rule: Rule, s: usize, t: usize) -> usize {
        let saving = &chain.savings[s][self.fastest[s]];
        let limit = chain.all_limit(s, t, saving);
        let beside = || self.enough[(s + 1, t)].saturating_add(chain.saved_slots(s, saving));
        match rule {
            _ if s == t => limit,
            Rule::Persistent | Rule::Weak => limit.max(beside()),
            Rule::SaveLast => usize::MAX,
        }
    }
}
