//! From the table back to a sequence (Algorithm 4).

use remat_core::chain::ChainStep;

use super::kernel::Cost;
use super::ranges::{Ranges, Rule};
use super::slots::SlottedChain;
use super::table::Table;

/// Follows the table from its root; no back-pointers are kept, each decision is found again.
pub struct Trace<'a, C> {
    /// The chain.
    pub chain: &'a SlottedChain,
    /// Limits of its subchains.
    pub ranges: &'a Ranges,
    /// The rule that the table was computed with.
    pub rule: Rule,
    /// The table.
    pub table: &'a Table<'a, C>,
}

impl<C: Cost> Trace<'_, C> {
    /// Whether the table has a makespan for `m` slots beside the chain's input.
    pub fn is_finite(&self, m: usize) -> bool {
        self.table.get(0, self.chain.len() - 1, m).is_some()
    }

    /// An optimal sequence with `m` slots beside the chain's input; none where there is none.
    pub fn sequence(&self, m: usize) -> Option<Vec<ChainStep>> {
        let last = self.chain.len() - 1;
        self.table.get(0, last, m)?;
        let mut sequence = Vec::new();
        // Backward operations wait below what has to happen before them.
        let mut pending = vec![Task::Subchain(0, last, m)];
        while let Some(task) = pending.pop() {
            match task {
                Task::Subchain(s, t, m) => self.decide(s, t, m, &mut sequence, &mut pending)?,
                Task::Backward(stage) => sequence.push(ChainStep::Backward { stage }),
            }
        }
        Some(sequence)
    }

    fn decide(
        &self,
        s: usize,
        t: usize,
        m: usize,
        sequence: &mut Vec<ChainStep>,
        pending: &mut Vec<Task>,
    ) -> Option<()> {
        let target = self.table.get(s, t, m)?;
        if let Some(saving) = self.saving(s, t, m, target) {
            sequence.push(ChainStep::Save { stage: s, saving });
            pending.push(Task::Backward(s));
            if s < t {
                pending.push(Task::Subchain(s + 1, t, m - self.chain.savings[s][saving].saved));
            }
            return Some(());
        }
        let split = (s..t).find(|&k| self.split_time(s, k, t, m) == Some(target))?;
        sequence.push(ChainStep::Checkpoint { stage: s });
        sequence.extend((s + 1..=split).map(|stage| ChainStep::Pass { stage }));
        pending.push(Task::Subchain(s, split, m));
        pending.push(Task::Subchain(split + 1, t, m - self.chain.input[split + 1]));
        Some(())
    }

    /// The alternative with which saving stage `s` reaches the makespan, if any.
    fn saving(&self, s: usize, t: usize, m: usize, target: u64) -> Option<usize> {
        if s < t && self.rule == Rule::SaveLast {
            return None;
        }
        self.chain.savings[s].iter().position(|saving| {
            let rest = match m.checked_sub(saving.saved) {
                _ if s == t => Some(0),
                Some(left) => self.table.get(s + 1, t, left),
                None => None,
            };
            m >= self.chain.all_limit(t, saving) && rest.map(|rest| rest + saving.time) == Some(target)
        })
    }

    /// C_ck(s, k + 1, t, m).
    fn split_time(&self, s: usize, k: usize, t: usize, m: usize) -> Option<u64> {
        if m < self.ranges.passing[(s, t)] {
            return None;
        }
        let right = self.table.get(k + 1, t, m.checked_sub(self.chain.input[k + 1])?)?;
        let left = self.table.get(s, k, m)?;
        Some(self.chain.forward_time[s..=k].iter().sum::<u64>() + right + left)
    }
}

enum Task {
    Subchain(usize, usize, usize),
    Backward(usize),
}
