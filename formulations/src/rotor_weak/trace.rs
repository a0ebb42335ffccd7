//! From the table back to a sequence (Algorithm 2): each decision is found again.

use remat_core::chain::ChainStep;

use super::table::WeakTable;
use crate::rotor::kernel::Cost;

enum Task {
    /// Stages s, t, l and memory.
    State(usize, usize, usize, usize),
    Backward(usize),
}

/// How a state goes on without saving its first stage.
struct Split {
    /// Where the floating activation moves.
    r: usize,
    /// The stage whose input is checkpointed besides.
    s2: usize,
    /// The last backward that this checkpoint serves.
    t2: usize,
}

impl<C: Cost> WeakTable<'_, C> {
    /// A best sequence within `mu` slots, the chain's input included; none where there is none.
    pub fn sequence(&self, mu: usize) -> Option<Vec<ChainStep>> {
        self.makespan(mu)?;
        let mut sequence = Vec::new();
        let mut pending = vec![Task::State(0, 0, self.chain.len() - 1, mu)];
        while let Some(task) = pending.pop() {
            match task {
                Task::Backward(stage) => sequence.push(ChainStep::Backward { stage }),
                Task::State(s, t, l, mu) => self.decide(s, t, l, mu, &mut sequence, &mut pending)?,
            }
        }
        Some(sequence)
    }

    fn decide(
        &self,
        s: usize,
        t: usize,
        l: usize,
        mu: usize,
        sequence: &mut Vec<ChainStep>,
        pending: &mut Vec<Task>,
    ) -> Option<()> {
        let target = self.entries.row(s, t, l)[mu];
        target.get()?;
        if let Some(saving) = self.saving(s, t, l, mu, target) {
            sequence.push(ChainStep::Save { stage: s, saving });
            pending.push(Task::Backward(s));
            if s < l {
                let shift = self.chain.saved_shift(s, &self.chain.savings[s][saving]);
                pending.push(Task::State(s + 1, s + 1, l, mu - shift));
            }
            return Some(());
        }
        if t == l {
            sequence.extend((s..l).map(|stage| ChainStep::Pass { stage }));
            pending.push(Task::State(l, l, l, mu));
            return Some(());
        }
        let Split { r, s2, t2 } = self.split(s, t, l, mu, target)?;
        sequence.extend((s..r).map(|stage| ChainStep::Pass { stage }));
        sequence.push(ChainStep::Checkpoint { stage: r });
        sequence.extend((r + 1..s2).map(|stage| ChainStep::Pass { stage }));
        pending.push(Task::State(r, t, t2 - 1, mu));
        pending.push(Task::State(s2, t2, l, mu - self.chain.input[r]));
        Some(())
    }

    fn saving(&self, s: usize, t: usize, l: usize, mu: usize, target: C) -> Option<usize> {
        if s != t {
            return None;
        }
        self.chain.savings[s].iter().position(|saving| {
            let limit = self.chain.all_limit(l, saving) + self.chain.input[s];
            let (Some(time), Some(forward)) = (C::new(saving.time), C::new(self.chain.forward_time[s])) else {
                return false;
            };
            let value = if s == l {
                Some(self.before[s].plus(time))
            } else {
                let left = mu.checked_sub(self.chain.saved_shift(s, saving));
                left.map(|left| self.entries.row(s + 1, s + 1, l)[left].plus(time.minus(forward)))
            };
            mu >= limit && value == Some(target)
        })
    }

    fn split(&self, s: usize, t: usize, l: usize, mu: usize, target: C) -> Option<Split> {
        for (r, limit) in self.limits.moves(s, t, l) {
            if mu < limit || mu < self.limits.kept(r, l) {
                continue;
            }
            let Some(left) = mu.checked_sub(self.chain.input[r]) else { continue };
            for t2 in t + 1..=l {
                let second = self.entries.row(r, t, t2 - 1)[mu];
                let reaches = |&s2: &usize| {
                    let first = self.entries.row(s2, t2, l)[left];
                    first.plus(second).minus(self.before[r]) == target
                };
                if let Some(s2) = (r + 1..=t2).find(reaches) {
                    return Some(Split { r, s2, t2 });
                }
            }
        }
        None
    }
}
