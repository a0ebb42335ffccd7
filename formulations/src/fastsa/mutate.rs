//! The mutations: which keep the sequence valid, which are accepted. `propose.rs` draws them.
//!
//! A proposal passes from the cheap checks to the dear ones: the node's own rules; a valid sequence, from
//! the first entries of sorted lists; the cost alone, against the limit that the draw of the acceptance
//! allows; the lists, from which the change of memory follows; a known time of the peak, if the peak has
//! to come down; and only then the tree.

use super::objective::Goal;
use super::profile::Profile;
use super::state::{State, Step};

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It would break a rule.
    Invalid,
    /// It is legal, and too bad.
    Rejected,
    /// It is accepted: lists and tree have it, the sequence has not yet.
    Accepted {
        /// The cost afterwards.
        cost: u64,
    },
}

/// A change of at most one step into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The step that comes.
    pub add: Option<Step>,
    /// The step that leaves.
    pub remove: Option<Step>,
}

impl<P: Profile> State<'_, P> {
    /// Does a mutation, but for the sequence itself (see [`State::commit`]), if the result is valid and its
    /// objective within `limit`.
    #[inline]
    pub fn attempt(&mut self, mutation: Mutation, goal: &Goal, limit: impl FnOnce() -> f64) -> Outcome {
        let Mutation { add, remove } = mutation;
        if !self.valid(mutation) {
            return Outcome::Invalid;
        }
        let Some(cost) = self.cost_after(add, remove) else { return Outcome::Invalid };
        let Some(memory) = goal.allowed(cost, limit()) else { return Outcome::Rejected };
        // A little more, so that a mutation that changes nothing is not lost to rounding.
        let allowed = memory * (1.0 + 1e-12) - self.graph.base as f64;
        self.edit(add, remove);
        if !self.still_intact(mutation) {
            self.revert(add, remove);
            return Outcome::Invalid;
        }
        if self.peak_stays_above(allowed) {
            self.revert(add, remove);
            return Outcome::Rejected;
        }
        // A step is there while memory of it is counted: what comes, comes first, and what leaves, leaves last.
        self.occupy(add, true);
        self.apply();
        self.occupy(remove, false);
        if self.profile.felt() > allowed {
            self.occupy(remove, true);
            self.unapply();
            self.occupy(add, false);
            self.revert(add, remove);
            return Outcome::Rejected;
        }
        self.witness = self.profile.witness();
        Outcome::Accepted { cost }
    }

    /// Whether the known time of the peak keeps too much memory.
    #[inline]
    fn peak_stays_above(&self, allowed: f64) -> bool {
        let Some(witness) = self.witness else { return false };
        let peak = self.profile.peak();
        if peak as f64 <= allowed {
            return false;
        }
        let covering = self.deltas.iter().filter(|delta| delta.from <= witness && witness < delta.to);
        (peak + covering.map(|delta| delta.bytes).sum::<i64>()) as f64 > allowed
    }

    #[inline]
    fn occupy(&mut self, step: Option<Step>, runs: bool) {
        if let Some(step) = step {
            self.profile.occupy(step.time, runs);
        }
    }

    /// Whether a mutation keeps the rules, those about overwriting in place left out.
    #[inline]
    pub fn valid(&self, Mutation { add, remove }: Mutation) -> bool {
        let graph = self.graph;
        if let Some(Step { time, variant }) = add {
            // An input is produced before.
            if graph.reads(variant).iter().any(|read| self.produced.first(read.value()) >= time) {
                return false;
            }
        }
        match (add, remove) {
            (Some(add), None) => self.may_come(add),
            (None, Some(remove)) => self.may_leave(remove),
            (Some(add), Some(remove)) if add.variant == remove.variant => self.may_move(remove, add.time),
            (Some(add), Some(remove)) => self.may_change(remove, add.variant),
            (None, None) => false,
        }
    }

    /// The rules of the node for one more run.
    #[inline]
    fn may_come(&self, Step { time, variant }: Step) -> bool {
        let graph = self.graph;
        let node = graph.node(variant);
        if !node.recomputable {
            return false;
        }
        // One that updates state does so in its first run and in no other.
        !node.state || graph.variants[variant as usize].again && self.first_run(variant) < time
    }

    /// The rules of the node for one run less, and that of the values that it makes.
    #[inline]
    fn may_leave(&self, Step { time, variant }: Step) -> bool {
        let graph = self.graph;
        let node = graph.node(variant);
        if !node.recomputable || node.state && !graph.variants[variant as usize].again {
            return false;
        }
        let makes = graph.makes(variant);
        if node.must && makes.first().is_some_and(|&value| self.produced.of(value as usize).len() == 1) {
            return false;
        }
        makes.iter().all(|&value| self.served_without(value as usize, time, u32::MAX))
    }

    /// Whether all readers of a value find it if it is produced at `other` instead of `time`.
    #[inline]
    fn served_without(&self, value: usize, time: u32, other: u32) -> bool {
        let made = self.produced.of(value);
        let first = if made[0] == time { made.get(1).copied().unwrap_or(u32::MAX) } else { made[0] };
        let first_use = self.used.first(value);
        first_use == u32::MAX || first.min(other) < first_use / 2
    }

    #[inline]
    fn may_move(&self, Step { time, variant }: Step, to: u32) -> bool {
        let graph = self.graph;
        if graph.node(variant).state && !graph.makes(variant).is_empty() {
            let runs = self.produced.of(graph.makes(variant)[0] as usize);
            let stays_first = runs.get(1).is_none_or(|&second| to < second);
            let first = runs[0] == time;
            if first && !stays_first || !first && to < runs[0] {
                return false;
            }
        }
        graph.makes(variant).iter().all(|&value| self.served_without(value as usize, time, to))
    }

    #[inline]
    fn may_change(&self, Step { time, variant }: Step, other: u32) -> bool {
        let graph = self.graph;
        if graph.variants[variant as usize].again != graph.variants[other as usize].again {
            return false;
        }
        let lost = |value: &&u32| !graph.makes(other).contains(value);
        graph.makes(variant).iter().filter(lost).all(|&value| self.served_without(value as usize, time, u32::MAX))
    }

    #[inline]
    fn first_run(&self, variant: u32) -> u32 {
        self.graph.makes(variant).first().map_or(u32::MAX, |&value| self.produced.first(value as usize))
    }

    /// The rules about overwriting in place, after an edit of the lists.
    #[inline]
    fn still_intact(&self, Mutation { add, remove }: Mutation) -> bool {
        let graph = self.graph;
        let intact = |value: usize| !graph.values[value].overwritable || self.intact(value);
        [add, remove].into_iter().flatten().all(|Step { variant, .. }| {
            graph.reads(variant).iter().all(|read| intact(read.value()))
                && graph.makes(variant).iter().all(|&value| intact(value as usize))
        })
    }
}
