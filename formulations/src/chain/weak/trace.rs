//! From the table back to a sequence (Algorithm 2): each decision is found again.

use remat_core::chain::ChainStep;

use super::table::{WeakTable, down};
use crate::chain::kernel::Cost;

enum Task {
    /// Stages s, t, l and a slot of stage s.
    State(usize, usize, usize, usize),
    Backward(usize),
}

/// How a state goes on with the input of its first stage kept.
struct Split {
    /// The stage whose input is checkpointed besides.
    s2: usize,
    /// The last backward that this checkpoint serves.
    t2: usize,
    /// The slot of stage s2.
    slot: usize,
}

impl<C: Cost> WeakTable<'_, C> {
    /// A best sequence within a slot, the chain's input included; none where there is none.
    pub fn sequence(&self, slot: usize) -> Option<Vec<ChainStep>> {
        self.makespan(slot)?;
        let mut sequence = Vec::new();
        let mut pending = vec![Task::State(0, 0, self.chain.len() - 1, slot)];
        while let Some(task) = pending.pop() {
            match task {
                Task::Backward(stage) => sequence.push(ChainStep::Backward { stage }),
                Task::State(s, t, l, slot) => self.decide((s, t, l), slot, &mut sequence, &mut pending)?,
            }
        }
        Some(sequence)
    }

    fn decide(
        &self,
        (s, t, l): (usize, usize, usize),
        slot: usize,
        sequence: &mut Vec<ChainStep>,
        pending: &mut Vec<Task>,
    ) -> Option<()> {
        let target = self.entry(self.states.row(s, t, l), slot, 0);
        target.get()?;
        if let Some((saving, rest)) = self.saving((s, t, l), slot, target) {
            sequence.push(ChainStep::Save { stage: s, saving });
            pending.push(Task::Backward(s));
            pending.extend(rest.map(|slot| Task::State(s + 1, s + 1, l, slot)));
            return Some(());
        }
        if let Some((r, slot)) = self.moved((s, t, l), slot, target) {
            sequence.extend((s..r).map(|stage| ChainStep::Pass { stage }));
            pending.push(Task::State(r, t, l, slot));
            return Some(());
        }
        let split = self.split((s, t, l), slot, target)?;
        sequence.push(ChainStep::Checkpoint { stage: s });
        sequence.extend((s + 1..split.s2).map(|stage| ChainStep::Pass { stage }));
        pending.push(Task::State(s, t, split.t2 - 1, slot));
        pending.push(Task::State(split.s2, split.t2, l, split.slot));
        Some(())
    }

    /// The alternative with which saving the first stage reaches the makespan, and the slot after it.
    fn saving(&self, (s, t, l): (usize, usize, usize), slot: usize, target: C) -> Option<(usize, Option<usize>)> {
        if s != t {
            return None;
        }
        self.chain.savings[s].iter().enumerate().find_map(|(position, saving)| {
            let (time, forward) = (C::new(saving.time)?, C::new(self.chain.forward_time[s])?);
            if slot < self.chain.all_limit(s, l, saving) {
                return None;
            }
            if s == l {
                return (self.before[s].plus(time) == target).then_some((position, None));
            }
            let shift = self.chain.save_shift(s, saving);
            let rest = self.entry(self.states.row(s + 1, s + 1, l), slot, shift);
            (rest.plus(time.minus(forward)) == target).then_some((position, down(slot, shift)))
        })
    }

    /// Where the floating activation moves with the makespan, and the slot there.
    fn moved(&self, (s, t, l): (usize, usize, usize), slot: usize, target: C) -> Option<(usize, usize)> {
        if s == t {
            return None;
        }
        let r = self.states.next(s, t);
        let shift = self.chain.slots_between(s, r, 0);
        let reaches =
            slot >= self.chain.through_limit(s, s..r, l) && self.entry(self.states.row(r, t, l), slot, shift) == target;
        reaches.then(|| down(slot, shift)).flatten().map(|slot| (r, slot))
    }

    fn split(&self, (s, t, l): (usize, usize, usize), slot: usize, target: C) -> Option<Split> {
        for t2 in t + 1..=l {
            let left = self.entry(self.states.row(s, t, t2 - 1), slot, 0);
            let wanted = target.plus(self.before[s]).minus(left);
            let shift = self.chain.slots_between(s, t2, self.chain.input(s));
            let Some(at) = down(slot, shift) else { continue };
            for s2 in self.states.serving(t2, s) {
                let shift = self.chain.slots_between(t2, s2, 0);
                if self.entry(self.states.row(s2, t2, l), at, shift) == wanted {
                    return Some(Split { s2, t2, slot: down(at, shift)? });
                }
            }
        }
        None
    }
}
