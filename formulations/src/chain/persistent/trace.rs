//! From the table back to a sequence (Algorithm 4): no back-pointers are kept, each decision is found
//! again.

use remat_core::chain::ChainStep;

use super::table::Table;
use crate::chain::kernel::Cost;
use crate::chain::rule::Rule;

impl<C: Cost> Table<'_, C> {
    /// The makespan of the whole chain with `m` slots beside its input, if finite.
    pub fn makespan(&self, m: usize) -> Option<u64> {
        self.get(0, self.frame.chain.len() - 1, m)
    }

    /// An optimal sequence with `m` slots beside the chain's input; none where there is none.
    pub fn sequence(&self, m: usize) -> Option<Vec<ChainStep>> {
        let last = self.frame.chain.len() - 1;
        self.get(0, last, m)?;
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
        let target = self.get(s, t, m)?;
        let chain = self.frame.chain;
        if let Some(saving) = self.saving(s, t, m, target) {
            sequence.push(ChainStep::Save { stage: s, saving });
            pending.push(Task::Backward(s));
            if s < t {
                pending.push(Task::Subchain(s + 1, t, m - chain.saved_slots(s, &chain.savings[s][saving])));
            }
            return Some(());
        }
        let split = (s..t).find(|&k| self.split_time(s, k, t, m) == Some(target))?;
        sequence.push(ChainStep::Checkpoint { stage: s });
        sequence.extend((s + 1..=split).map(|stage| ChainStep::Pass { stage }));
        pending.push(Task::Subchain(s, split, m));
        pending.push(Task::Subchain(split + 1, t, m - chain.cut_shifts(s)[split + 1]));
        Some(())
    }

    /// The alternative with which saving stage `s` reaches the makespan, if any.
    fn saving(&self, s: usize, t: usize, m: usize, target: u64) -> Option<usize> {
        if s < t && self.frame.rule == Rule::SaveLast {
            return None;
        }
        self.frame.chain.savings[s].iter().position(|saving| {
            let rest = match m.checked_sub(self.frame.chain.saved_slots(s, saving)) {
                _ if s == t => Some(0),
                Some(left) => self.get(s + 1, t, left),
                None => None,
            };
            m >= self.frame.chain.all_limit(s, t, saving) && rest.map(|rest| rest + saving.time) == Some(target)
        })
    }

    /// C_ck(s, k + 1, t, m).
    fn split_time(&self, s: usize, k: usize, t: usize, m: usize) -> Option<u64> {
        if m < self.frame.ranges.passing[(s, t)] {
            return None;
        }
        let right = self.get(k + 1, t, m.checked_sub(self.frame.chain.cut_shifts(s)[k + 1])?)?;
        let left = self.get(s, k, m)?;
        // k comes before t: there is a stage after it.
        let passing = self.frame.before[k + 1].minus(self.frame.before[s]).get()?;
        Some(passing + right + left)
    }
}

enum Task {
    Subchain(usize, usize, usize),
    Backward(usize),
}
