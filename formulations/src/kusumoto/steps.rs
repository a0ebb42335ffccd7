//! What a step from a lower set to a larger one costs, and which steps there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::family::{self, Stop, by_bytes};
use super::graph::Graph;
use super::program::{Goal, evaluate};
use super::reach::check;
use super::scan::{Keys, Scan, Wanted};
use crate::search::clock::Clock;
use crate::setting;

setting! {
    /// larger: by equation (2), or by what the instance needs where that is more; instance: the latter alone
    pub enum Memory("memory") = Larger { Larger = "larger", Instance = "instance" }
}

setting! {
    /// recompute: the last group is discarded and recomputed like all others, as equation (1) says; keep: its backward follows at once
    pub enum LastGroup("last-group") = Recompute { Recompute = "recompute", Keep = "keep" }
}

/// Sums over a lower set and what crosses its border.
#[derive(Clone, Debug)]
struct Profile {
    /// M(L).
    bytes: u64,
    /// T(L).
    time: u64,
    /// M(boundary(L)), which any sequence that reaches L has cached.
    boundary_bytes: u64,
    /// T(boundary(L)).
    boundary_time: u64,
    /// M(delta+(L) \ L) + M(delta-(delta+(L)) \ L).
    beyond: u64,
    /// Gradients made once only L is left to do.
    gradients: u64,
    /// Those of them, and the forward tensors from outside of L, that are still read.
    crossing: u64,
    /// Results made by then.
    results: u64,
}

/// Budgets beyond this are as good as this: graphs whose sums come near it are not supported.
pub const MOST: u64 = 1 << 60;

/// A family with its steps.
pub struct Steps<'a> {
    graph: &'a Graph,
    /// The lower sets, each before those that contain it; first the empty one, last V.
    pub sets: Vec<FixedBitSet>,
    profiles: Vec<Profile>,
    scan: Scan,
    bits: Bits,
    /// Workspaces that count, largest first, each with the nodes that have it; none of no bytes.
    workspaces: Vec<(u64, FixedBitSet)>,
    /// By node: M_v and T_v, side by side.
    weights: Vec<(u64, u64)>,
    memory: Memory,
    last_group: LastGroup,
    /// No budget is larger.
    most: u64,
}

impl<'a> Steps<'a> {
    /// The steps of a family that has the empty set and V, for budgets of up to `most`.
    ///
    /// # Errors
    /// The time is over.
    pub fn new(
        graph: &'a Graph,
        mut sets: Vec<FixedBitSet>,
        times: &[u64],
        (memory, last_group): (Memory, LastGroup),
        most: u64,
        clock: Clock,
    ) -> Result<Self, Stop> {
        check(clock)?;
        by_bytes(graph, &mut sets);
        let (mut boundaries, mut profiles) = (Vec::with_capacity(sets.len()), Vec::with_capacity(sets.len()));
        for set in &sets {
            check(clock)?;
            let boundary = graph.boundary(set);
            profiles.push(Profile::new(graph, times, set, &boundary));
            boundaries.push(boundary);
        }
        let bits = Bits { sets: Rows::new(&sets), boundaries: Rows::new(&boundaries) };
        let scan = Scan::new(&sets, |set| profiles[set].terms(memory));
        let weights = graph.nodes.iter().zip(times).map(|(node, &time)| (node.bytes, time)).collect();
        Ok(Self {
            graph,
            sets,
            profiles,
            scan,
            bits,
            workspaces: workspaces(graph),
            weights,
            memory,
            last_group,
            most: most.min(MOST),
        })
    }

    /// No budget is larger.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The same for the pruned family; none where this is it.
    ///
    /// # Errors
    /// The time is over.
    pub fn pruned(&self, clock: Clock) -> Result<Option<Self>, Stop> {
        let sets = family::pruned(self.graph);
        let times: Vec<u64> = self.weights.iter().map(|weight| weight.1).collect();
        let settings = (self.memory, self.last_group);
        let fewer = sets.len() < self.sets.len();
        fewer.then(|| Self::new(self.graph, sets, &times, settings, self.most, clock)).transpose()
    }

    /// The same sets with times rounded up to a hundredth of the whole.
    ///
    /// # Errors
    /// The time is over.
    pub fn rounded(&self, clock: Clock) -> Result<Self, Stop> {
        let all: u64 = self.weights.iter().map(|weight| weight.1).sum();
        let times: Vec<u64> = self.weights.iter().map(|weight| weight.1.next_multiple_of((all / 100).max(1))).collect();
        let settings = (self.memory, self.last_group);
        Self::new(self.graph, self.sets.clone(), &times, settings, self.most, clock)
    }

    /// What a sequence costs: its overhead, or T(V) less that where it is to be great.
    pub fn cost(&self, goal: Goal, sequence: &[usize]) -> u64 {
        let (overhead, _) = evaluate(self, sequence);
        match goal {
            Goal::TimeCentric => overhead,
            Goal::MemoryCentric => self.profiles[self.sets.len() - 1].time - overhead,
        }
    }

    /// By node: M_v and T_v.
    pub fn weights(&self) -> &[(u64, u64)] {
        &self.weights
    }

    /// T(L) and T(boundary(L)).
    pub fn times(&self, set: usize) -> (u64, u64) {
        (self.profiles[set].time, self.profiles[set].boundary_time)
    }

    /// Whether the last group costs nothing.
    pub fn keeps_last(&self) -> bool {
        self.last_group == LastGroup::Keep
    }

    /// Whether some sequence does not pay for a node: it has a successor, or may be in a last group that is kept.
    pub fn may_be_saved(&self, node: usize) -> bool {
        self.keeps_last() || !self.graph.nodes[node].successors.is_empty()
    }

    /// What is there at least while the last group is, beside all that is cached or, if that group is kept, saved by it.
    pub fn least_beside_cache(&self) -> u64 {
        let last = self.sets.len() - 1;
        if self.keeps_last() {
            return self.graph.base_bytes;
        }
        (0..last).map(|from| self.need(from, last)).min().unwrap_or(0)
    }

    /// M(boundary(L)): what any sequence that reaches a set has cached there.
    pub fn boundary_bytes(&self, set: usize) -> u64 {
        self.profiles[set].boundary_bytes
    }

    /// Adds the sets that a step from a set may lead to when so much is cached and the budget is so large; some
    /// too many, for workspaces are left out. Only sets whose key is above a threshold.
    pub fn find(&self, from: usize, cached: u64, budget: u64, (keys, above): (&Keys, i64), found: &mut Vec<u32>) {
        let low = &self.profiles[from];
        let Some(left) = budget.min(MOST).checked_sub(self.graph.base_bytes + low.results + cached) else { return };
        // The window in which the group itself fits: sets are in order of size.
        let group = if self.memory == Memory::Instance { left } else { left / 2 };
        let end = self.profiles.partition_point(|high| high.bytes - low.bytes.min(high.bytes) <= group);
        let tensors = (left + low.bytes).cast_signed() - low.gradients.cast_signed();
        let limits = [(left + 2 * low.bytes).cast_signed(), tensors];
        self.scan.find(&Wanted { from, first: from + 1, end, limits, keys, above }, found);
    }

    /// What a step from one set to another caches, M(boundary(L') \ L), and what time it costs, T(V' \ boundary(L')). What
    /// both boundaries have is cached already; what the larger set's boundary has of the smaller set is in the smaller
    /// one's as well.
    pub fn price(&self, from: usize, to: usize) -> (u64, u64) {
        let (low, high) = (&self.profiles[from], &self.profiles[to]);
        let (mut cached, mut kept) = (high.boundary_bytes, high.boundary_time);
        let both = self.bits.boundaries.row(from).iter().zip(self.bits.boundaries.row(to)).enumerate();
        for (index, (&low, &high)) in both {
            let mut both = low & high;
            while both != 0 {
                let (bytes, time) = self.weights[usize::BITS as usize * index + both.trailing_zeros() as usize];
                cached -= bytes;
                kept -= time;
                both &= both - 1;
            }
        }
        let ends = to + 1 == self.sets.len() && self.last_group == LastGroup::Keep;
        (cached, if ends { 0 } else { high.time - low.time - kept })
    }

    /// Memory of a step's group beside what earlier groups cached: (2) without its first term.
    pub fn need(&self, from: usize, to: usize) -> u64 {
        let (equation, tensors) = self.sums(from, to);
        match self.workspaces.first() {
            Some(&(largest, _)) if tensors + largest > equation => equation.max(tensors + self.workspace(from, to)),
            _ => equation.max(tensors),
        }
    }

    /// No less than [`Self::need`], and found sooner.
    pub fn need_at_most(&self, from: usize, to: usize) -> u64 {
        let (equation, tensors) = self.sums(from, to);
        equation.max(tensors + self.workspaces.first().map_or(0, |(largest, _)| *largest))
    }

    /// Equation (2) without its first term, and what the instance needs without workspace; zero where it does not count.
    fn sums(&self, from: usize, to: usize) -> (u64, u64) {
        let (low, high) = (&self.profiles[from], &self.profiles[to]);
        let group = high.bytes - low.bytes;
        let always = self.graph.base_bytes + low.results;
        let equation = 2 * group + high.beyond + always;
        let tensors = group + low.gradients - high.gradients + high.crossing + always;
        match self.memory {
            Memory::Larger => (equation, tensors),
            Memory::Instance => (0, tensors),
        }
    }

    /// Largest workspace of a group.
    fn workspace(&self, from: usize, to: usize) -> u64 {
        let (low, high) = (self.bits.sets.row(from), self.bits.sets.row(to));
        let inside = |(_, nodes): &&(u64, FixedBitSet)| {
            nodes.as_slice().iter().zip(low).zip(high).any(|((nodes, low), high)| nodes & high & !low != 0)
        };
        self.workspaces.iter().find(inside).map_or(0, |(bytes, _)| *bytes)
    }
}

/// Sets side by side in memory.
struct Rows {
    width: usize,
    words: Vec<usize>,
}

impl Rows {
    fn new(sets: &[FixedBitSet]) -> Self {
        let width = sets.first().map_or(0, |set| set.as_slice().len());
        Self { width, words: sets.iter().flat_map(FixedBitSet::as_slice).copied().collect() }
    }

    fn row(&self, set: usize) -> &[usize] {
        &self.words[set * self.width..(set + 1) * self.width]
    }
}

/// A family's sets and their boundaries.
struct Bits {
    sets: Rows,
    boundaries: Rows,
}

fn workspaces(graph: &Graph) -> Vec<(u64, FixedBitSet)> {
    let mut nodes_of: BTreeMap<Reverse<u64>, FixedBitSet> = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.workspace > 0) {
        nodes_of
            .entry(Reverse(node.workspace))
            .or_insert_with(|| FixedBitSet::with_capacity(graph.nodes.len()))
            .insert(index);
    }
    nodes_of.into_iter().map(|(Reverse(bytes), nodes)| (bytes, nodes)).collect()
}

impl Profile {
    fn new(graph: &Graph, times: &[u64], set: &FixedBitSet, boundary: &FixedBitSet) -> Self {
        let bytes_of = |nodes: &FixedBitSet| nodes.ones().map(|node| graph.nodes[node].bytes).sum::<u64>();
        let beyond = graph.beyond(set);
        let mut needed_there = FixedBitSet::with_capacity(graph.nodes.len());
        let inputs = beyond.ones().flat_map(|node| &graph.nodes[node].predecessors);
        inputs.filter(|&&node| !set.contains(node)).for_each(|&node| needed_there.insert(node));
        let done: Vec<bool> = (0..graph.backward.len()).map(|backward| graph.is_done(backward, set)).collect();
        let made = || graph.gradients.iter().filter(|tensor| done[tensor.maker]);
        let read = |readers: &[usize]| readers.iter().any(|&reader| !done[reader]);
        let late = graph.late.iter().filter(|tensor| !set.contains(tensor.maker) && read(&tensor.readers));
        let carried = made().filter(|tensor| read(&tensor.readers));
        Self {
            bytes: bytes_of(set),
            time: set.ones().map(|node| times[node]).sum(),
            boundary_bytes: bytes_of(boundary),
            boundary_time: boundary.ones().map(|node| times[node]).sum(),
            beyond: bytes_of(&beyond) + bytes_of(&needed_there),
            gradients: made().map(|tensor| tensor.bytes).sum(),
            crossing: carried.chain(late).map(|tensor| tensor.bytes).sum(),
            results: graph.results.iter().filter(|result| done[result.maker]).map(|result| result.bytes).sum(),
        }
    }
    /// What [`Scan`] compares: the parts of the two sums of [`Steps::need`] that come from the larger set.
    fn terms(&self, memory: Memory) -> [i64; 2] {
        let equation = (2 * self.bytes + self.beyond).cast_signed();
        let tensors = (self.bytes + self.crossing).cast_signed() - self.gradients.cast_signed();
        match memory {
            Memory::Larger => [equation, tensors],
            Memory::Instance => [i64::MIN, tensors],
        }
    }
}
