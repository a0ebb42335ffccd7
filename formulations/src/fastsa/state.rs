//! The sequence (n_1, ..., n_T) with everything that follows from it, kept up to date by edits.
//!
//! For each value the times at which it is produced and read, ascending; from them its life intervals;
//! from those the memory at every time. An edit changes a few list entries and collects what it changes
//! in memory as ranges, so that a mutation can be judged before, or without, touching the tree.
//!
//! An entry of a reading is 2t, or 2t + 1 where the value is overwritten in place: then it is gone at t.
//! A value lives from its production to its last reading before it is produced again, both included
//! (the simulator's rule; the L_S of section 2.1 as printed leaves the production out).

use super::graph::{Graph, Read, index};
use super::profile::Profile;
use super::times::{Times, position};

/// No node: `nop`.
pub const NOP: u32 = u32::MAX;

/// A step of a sequence: a variant at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// When.
    pub time: u32,
    /// What.
    pub variant: u32,
}

/// Bytes that an edit adds to a range of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// First time.
    pub from: u32,
    /// Behind the last time.
    pub to: u32,
    /// Bytes.
    pub bytes: i64,
}

/// A sequence, its cost and its memory.
#[derive(Clone, Debug)]
pub struct State<'a, P> {
    /// The graph.
    pub graph: &'a Graph,
    /// Variant at each time, or [`NOP`].
    pub sequence: Vec<u32>,
    /// Times at which a node runs, in no order.
    pub occupied: Vec<u32>,
    place: Vec<u32>,
    /// When each value is produced.
    pub produced: Times,
    /// When each value is read.
    pub used: Times,
    /// Memory over time, without the graph's base.
    pub profile: P,
    /// C(S).
    pub cost: u64,
    /// How often each transfer of the graph is fetched.
    fetches: Vec<u32>,
    /// What the last edit changes in memory.
    pub deltas: Vec<Delta>,
    /// A time of the peak, where known.
    pub witness: Option<u32>,
}

impl<'a, P: Profile> State<'a, P> {
    /// The state of a sequence of variants, spread evenly over `length` times.
    pub fn new(graph: &'a Graph, variants: &[u32], length: u32) -> Self {
        assert!(variants.len() < length as usize, "the sequence is longer than there are steps");
        let largest = graph.values.iter().map(|value| value.bytes).max().unwrap_or(0);
        let mut state = Self {
            graph,
            sequence: vec![NOP; length as usize],
            occupied: Vec::with_capacity(length as usize),
            place: vec![0; length as usize],
            produced: Times::new(graph.values.len()),
            used: Times::new(graph.values.len()),
            profile: P::new(length, largest),
            cost: 0,
            fetches: vec![0; graph.transfers.len()],
            deltas: Vec::with_capacity(256),
            witness: None,
        };
        state.fill(variants);
        state
    }

    /// T.
    #[inline]
    pub fn length(&self) -> u32 {
        index(self.sequence.len())
    }

    /// The steps by time.
    pub fn steps(&self) -> Vec<Step> {
        let step = |&time: &u32| Step { time, variant: self.sequence[time as usize] };
        let mut steps: Vec<Step> = self.occupied.iter().map(step).collect();
        steps.sort_unstable();
        steps
    }

    /// Spreads the steps evenly again, over `length` times.
    pub fn respace(&mut self, length: u32) {
        let variants: Vec<u32> = self.steps().iter().map(|step| step.variant).collect();
        self.produced.clear();
        self.used.clear();
        self.occupied.clear();
        self.sequence.clear();
        self.sequence.resize(length as usize, NOP);
        self.place.resize(length as usize, 0);
        self.profile = P::new(length, self.graph.values.iter().map(|value| value.bytes).max().unwrap_or(0));
        self.fill(&variants);
    }

    /// Puts variants at t = i T / (k + 1) into an empty sequence (appendix D.4).
    fn fill(&mut self, variants: &[u32]) {
        self.cost = 0;
        self.fetches.fill(0);
        for value in 0..self.graph.values.len() {
            if self.graph.values[value].result {
                self.used.insert(value, 2 * self.length());
            }
        }
        let (length, count) = (u64::from(self.length()), variants.len() as u64 + 1);
        for (rank, &variant) in (1_u64..).zip(variants) {
            let time = u32::try_from(rank * length / count).expect("below the length");
            self.edit(Some(Step { time, variant }), None);
            self.commit(Some(Step { time, variant }), None);
            self.profile.occupy(time, true);
            self.apply();
        }
        self.witness = self.profile.witness();
    }

    /// Changes the lists as if `remove` left and `add` came, and collects the change of memory.
    ///
    /// Coming first: then nothing is unproduced in between.
    #[inline]
    pub fn edit(&mut self, add: Option<Step>, remove: Option<Step>) {
        self.deltas.clear();
        let graph = self.graph;
        let same = same_time(add, remove);
        if let Some(Step { time, variant }) = add {
            for &read in graph.reads(variant) {
                if !same.is_some_and(|other| graph.reads(other).contains(&read)) {
                    self.change_use(read, time, true);
                }
            }
            for &value in graph.makes(variant) {
                if !same.is_some_and(|other| graph.makes(other).contains(&value)) {
                    self.change_production(value as usize, time, true);
                }
            }
            self.extra(variant, time, 1);
        }
        if let Some(Step { time, variant }) = remove {
            let same = same.and(add).map(|step| step.variant);
            for &value in graph.makes(variant) {
                if !same.is_some_and(|other| graph.makes(other).contains(&value)) {
                    self.change_production(value as usize, time, false);
                }
            }
            for &read in graph.reads(variant) {
                if !same.is_some_and(|other| graph.reads(other).contains(&read)) {
                    self.change_use(read, time, false);
                }
            }
            self.extra(variant, time, -1);
        }
    }

    /// Takes an edit of the lists back; the tree must not have it.
    #[inline]
    pub fn revert(&mut self, add: Option<Step>, remove: Option<Step>) {
        self.edit(remove, add);
        self.deltas.clear();
    }

    /// Adds the last edit's change to the tree.
    #[inline]
    pub fn apply(&mut self) {
        self.deltas.iter().for_each(|delta| self.profile.add(delta.from, delta.to, delta.bytes));
    }

    /// Takes the last edit's change out of the tree.
    #[inline]
    pub fn unapply(&mut self) {
        self.deltas.iter().for_each(|delta| self.profile.add(delta.from, delta.to, -delta.bytes));
    }

    /// Changes the sequence and its cost; the lists have changed already.
    #[inline]
    pub fn commit(&mut self, add: Option<Step>, remove: Option<Step>) {
        if let Some(Step { time, variant }) = remove {
            self.cost -= self.graph.variants[variant as usize].time;
            if let Some(transfer) = self.graph.transfer(variant) {
                let fetches = &mut self.fetches[self.graph.variants[variant as usize].transfer as usize];
                *fetches -= 1;
                self.cost -= if *fetches == 0 { transfer.offload } else { 0 };
            }
            self.sequence[time as usize] = NOP;
            let place = self.place[time as usize];
            self.occupied.swap_remove(place as usize);
            if let Some(&moved) = self.occupied.get(place as usize) {
                self.place[moved as usize] = place;
            }
        }
        if let Some(Step { time, variant }) = add {
            self.cost += self.graph.variants[variant as usize].time;
            if let Some(transfer) = self.graph.transfer(variant) {
                let fetches = &mut self.fetches[self.graph.variants[variant as usize].transfer as usize];
                self.cost += if *fetches == 0 { transfer.offload } else { 0 };
                *fetches += 1;
            }
            self.sequence[time as usize] = variant;
            self.place[time as usize] = index(self.occupied.len());
            self.occupied.push(time);
        }
    }

    /// The cost if `remove` left and `add` came; none beyond 64 bits.
    #[inline]
    pub fn cost_after(&self, add: Option<Step>, remove: Option<Step>) -> Option<u64> {
        let time = |step: Option<Step>| step.map_or(0, |step| self.graph.variants[step.variant as usize].time);
        let cost = self.cost.checked_add(time(add))? - time(remove);
        if self.fetches.is_empty() || add.map(|step| step.variant) == remove.map(|step| step.variant) {
            return Some(cost);
        }
        // The offload, if this is the first fetch, or the last one that leaves.
        let offload = |step: Option<Step>, fetches: u32| {
            let variant = step?.variant;
            let transfer = self.graph.transfer(variant)?;
            let known = self.fetches[self.graph.variants[variant as usize].transfer as usize];
            (known == fetches).then_some(transfer.offload)
        };
        Some(cost.checked_add(offload(add, 0).unwrap_or(0))? - offload(remove, 1).unwrap_or(0))
    }

    /// Memory that is there during a run only.
    #[inline]
    fn extra(&mut self, variant: u32, time: u32, sign: i64) {
        let bytes = sign * self.graph.variants[variant as usize].extra;
        if bytes != 0 {
            self.deltas.push(Delta { from: time, to: time + 1, bytes });
        }
    }

    /// A value is read at a time, or no longer.
    #[inline]
    fn change_use(&mut self, read: Read, time: u32, comes: bool) {
        let value = read.value();
        let entry = 2 * time + read.overwrites();
        if self.graph.values[value].overwritable {
            return self.change_slowly(value, |state| {
                if comes { state.used.insert(value, entry) } else { state.used.remove(value, entry) }
            });
        }
        let (uses, made) = (self.used.of(value), self.produced.of(value));
        let before = position(uses, entry);
        let made_before = position(made, time);
        let next = made.get(made_before).map_or(u32::MAX, |&time| 2 * time);
        let last = uses.get(before + usize::from(!comes)).is_none_or(|&later| later > next);
        if last {
            // The last reading of this copy: the copy lives from here back to the reading before.
            let produced = made_before.checked_sub(1).map_or(0, |at| made[at]);
            let end = before.checked_sub(1).map_or(produced, |at| (uses[at] / 2).max(produced));
            self.push(value, end + 1, time + 1, comes);
        }
        if comes { self.used.insert(value, entry) } else { self.used.remove(value, entry) }
    }

    /// A value is produced at a time, or no longer.
    #[inline]
    fn change_production(&mut self, value: usize, time: u32, comes: bool) {
        if self.graph.values[value].overwritable {
            return self.change_slowly(value, |state| {
                if comes { state.produced.insert(value, time) } else { state.produced.remove(value, time) }
            });
        }
        let (uses, made) = (self.used.of(value), self.produced.of(value));
        let before = position(uses, 2 * time);
        let made_before = position(made, time);
        let next = made.get(made_before + usize::from(!comes)).map_or(u32::MAX, |&time| 2 * time);
        let read_later = uses.get(before).is_some_and(|&later| later < next);
        if read_later && made_before > 0 {
            // An older copy is cut short by this one, or would have to live on instead of it.
            let produced = made[made_before - 1];
            let end = before.checked_sub(1).map_or(produced, |at| (uses[at] / 2).max(produced));
            self.push(value, end + 1, time, !comes);
        } else if read_later {
            let end = last_before(uses, next) / 2;
            self.push(value, time, end + 1, comes);
        } else {
            self.push(value, time, time + 1, comes);
        }
        if comes { self.produced.insert(value, time) } else { self.produced.remove(value, time) }
    }

    #[inline]
    fn push(&mut self, value: usize, from: u32, to: u32, comes: bool) {
        let to = to.min(self.length());
        let bytes = self.graph.values[value].bytes;
        if from < to && bytes != 0 {
            self.deltas.push(Delta { from, to, bytes: if comes { bytes } else { -bytes } });
        }
    }

    /// The same for values that are overwritten in place: all intervals before, all intervals after.
    #[cold]
    fn change_slowly(&mut self, value: usize, change: impl FnOnce(&mut Self)) {
        self.intervals(value, -1);
        change(self);
        self.intervals(value, 1);
    }

    fn intervals(&mut self, value: usize, sign: i64) {
        let bytes = sign * self.graph.values[value].bytes;
        let made = self.produced.of(value);
        for (at, &from) in made.iter().enumerate() {
            let next = made.get(at + 1).map_or(u32::MAX, |&time| 2 * time);
            let uses = self.used.of(value);
            let uses = &uses[position(uses, 2 * from)..position(uses, next)];
            let to = uses.last().map_or(from + 1, |&last| last / 2 + 1 - last % 2).min(self.length());
            if from < to && bytes != 0 {
                self.deltas.push(Delta { from, to, bytes });
            }
        }
    }

    /// Whether every reading of a value finds a copy that is not overwritten.
    pub fn intact(&self, value: usize) -> bool {
        let (uses, made) = (self.used.of(value), self.produced.of(value));
        if uses.first().is_some_and(|&first| made.first().is_none_or(|&made| first < 2 * made)) {
            return false;
        }
        uses.windows(2).all(|pair| {
            let renewed = position(made, pair[0] / 2 + 1) < position(made, pair[1] / 2);
            pair[0] % 2 == 0 || renewed
        })
    }
}

/// The variant that leaves, where another comes at the same time.
#[inline]
fn same_time(add: Option<Step>, remove: Option<Step>) -> Option<u32> {
    let (add, remove) = add.zip(remove)?;
    (add.time == remove.time).then_some(remove.variant)
}

/// The last entry below a bound, of which there is one.
fn last_before(uses: &[u32], bound: u32) -> u32 {
    uses[position(uses, bound) - 1]
}
