//! From a table back to a sequence (Algorithms 2 and 4): no back-pointers are kept, each decision is found again.

use remat_core::chain::ChainStep;

use super::ranges::Ranges;
use super::slots::{SlottedChain, down};
use super::states::State;

enum Task {
    /// A state and a slot of its first stage.
    State(State, usize),
    Backward(usize),
}

/// A table that sequences can be read off.
pub trait Sequenced {
    /// What it is of, and where it is worth computing.
    fn limits(&self) -> (&SlottedChain, &Ranges);

    /// The makespan of a state `shift` slots before a slot, with the forwards before its first stage; none where it is
    /// infinite, or beyond the table's cells.
    fn entry(&self, state: State, slot: usize, shift: i64) -> Option<u64>;

    /// The makespan of the whole chain, where the table's cells can tell it from none.
    fn makespan(&self, slot: usize) -> Option<u64> {
        self.entry((0, 0, self.limits().0.len() - 1), slot, 0)
    }

    /// A best sequence within a slot; none where there is none.
    fn sequence(&self, slot: usize) -> Option<Vec<ChainStep>> {
        self.makespan(slot)?;
        let mut sequence = Vec::new();
        // Backward operations wait below what has to happen before them.
        let mut pending = vec![Task::State((0, 0, self.limits().0.len() - 1), slot)];
        while let Some(task) = pending.pop() {
            match task {
                Task::Backward(stage) => sequence.push(ChainStep::Backward { stage }),
                Task::State(state, slot) => decide(self, state, slot, &mut sequence, &mut pending)?,
            }
        }
        Some(sequence)
    }
}

fn decide<T: Sequenced + ?Sized>(
    table: &T,
    (s, t, l): State,
    slot: usize,
    sequence: &mut Vec<ChainStep>,
    pending: &mut Vec<Task>,
) -> Option<()> {
    let target = table.entry((s, t, l), slot, 0)?;
    if let Some((saving, rest)) = saving(table, (s, t, l), slot, target) {
        sequence.push(ChainStep::Save { stage: s, saving });
        pending.push(Task::Backward(s));
        pending.extend(rest.map(|slot| Task::State((s + 1, s + 1, l), slot)));
        return Some(());
    }
    if let Some((r, slot)) = moved(table, (s, t, l), slot, target) {
        sequence.extend((s..r).map(|stage| ChainStep::Pass { stage }));
        pending.push(Task::State((r, t, l), slot));
        return Some(());
    }
    let split = split(table, (s, t, l), slot, target)?;
    sequence.push(ChainStep::Checkpoint { stage: s });
    sequence.extend((s + 1..split.s2).map(|stage| ChainStep::Pass { stage }));
    pending.push(Task::State((s, t, split.t2 - 1), slot));
    pending.push(Task::State((split.s2, split.t2, l), split.slot));
    Some(())
}

/// The alternative with which saving the first stage reaches the makespan, and the slot after it.
fn saving<T: Sequenced + ?Sized>(
    table: &T,
    (s, t, l): State,
    slot: usize,
    target: u64,
) -> Option<(usize, Option<usize>)> {
    let (chain, ranges) = table.limits();
    if !ranges.may_save((s, t, l)) {
        return None;
    }
    chain.savings[s].iter().enumerate().find_map(|(position, saving)| {
        if slot < chain.all_limit(s, l, saving) {
            return None;
        }
        if s == l {
            return (before(chain, s) + saving.time == target).then_some((position, None));
        }
        let shift = chain.save_shift(s, saving);
        let rest = table.entry((s + 1, s + 1, l), slot, shift)?;
        (rest + saving.time == target + chain.forward_time[s]).then_some((position, down(slot, shift)))
    })
}

/// Where the floating activation moves with the makespan, and the slot there.
fn moved<T: Sequenced + ?Sized>(table: &T, (s, t, l): State, slot: usize, target: u64) -> Option<(usize, usize)> {
    if s == t {
        return None;
    }
    let (chain, ranges) = table.limits();
    let r = ranges.states.next(s, t);
    let shift = chain.slots_between(s, r, 0);
    let reaches = slot >= chain.through_limit(s, s..r, l) && table.entry((r, t, l), slot, shift) == Some(target);
    reaches.then(|| down(slot, shift)).flatten().map(|slot| (r, slot))
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

fn split<T: Sequenced + ?Sized>(table: &T, (s, t, l): State, slot: usize, target: u64) -> Option<Split> {
    let (chain, ranges) = table.limits();
    // Entries of both parts have the forwards before them.
    let both = target + before(chain, s);
    for t2 in t + 1..=l {
        let wanted = table.entry((s, t, t2 - 1), slot, 0).and_then(|left| both.checked_sub(left));
        let Some((wanted, at)) = wanted.zip(down(slot, chain.cut_shift(s, t2))) else { continue };
        for s2 in ranges.states.serving(t2, s) {
            let shift = chain.slots_between(t2, s2, 0);
            if table.entry((s2, t2, l), at, shift) == Some(wanted) {
                return Some(Split { s2, t2, slot: down(at, shift)? });
            }
        }
    }
    None
}

/// Passing forward times before a stage.
fn before(chain: &SlottedChain, stage: usize) -> u64 {
    chain.forward_time[..stage].iter().sum()
}
