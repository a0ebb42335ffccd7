//! What a step from a lower set to a larger one costs, and which steps there are.

use super::family::by_bytes;
use super::graph::Graph;
use super::scan::{Keys, Scan, Wanted};
use super::set::Set;

/// Which of the terms of [`Steps`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Equation (2) with the nodes' sizes, and nothing else.
    Equation,
    /// What the instance's own gradients and workspaces need.
    Instance,
    /// The larger of the two.
    Larger,
}

/// What the last group does after the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastGroup {
    /// It is discarded and recomputed like all others: equation (1).
    Recompute,
    /// Its backward follows at once.
    Keep,
}

/// Sums over a lower set and what crosses its border.
#[derive(Clone, Debug)]
struct Profile {
    /// M(L).
    bytes: u64,
    /// T(L).
    time: u64,
    size: usize,
    boundary: Set,
    /// M(boundary(L)), which any sequence that reaches L has cached.
    boundary_bytes: u64,
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

/// A step L to L' of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Position of L'.
    pub to: u32,
    /// Memory of the group beside what earlier groups cached: (2) without its first term.
    pub need: u64,
    /// M(boundary(L') \ L).
    pub cached: u64,
    /// T(V' \ boundary(L')).
    pub time: u64,
}

/// A family with its steps.
pub struct Steps<'a> {
    graph: &'a Graph,
    /// The lower sets, each before those that contain it; first the empty one, last V.
    pub sets: Vec<Set>,
    profiles: Vec<Profile>,
    scan: Scan,
    /// Nodes by workspace, largest first, those without left out.
    by_workspace: Vec<usize>,
    /// By node: M_v and T_v, side by side.
    weights: Vec<(u64, u64)>,
    memory: Memory,
    last_group: LastGroup,
    /// No budget is larger.
    most: u64,
}

impl<'a> Steps<'a> {
    /// The steps of a family that has the empty set and V, for budgets of up to `most`.
    pub fn new(
        graph: &'a Graph,
        mut sets: Vec<Set>,
        times: &[u64],
        (memory, last_group): (Memory, LastGroup),
        most: u64,
    ) -> Self {
        by_bytes(graph, &mut sets);
        let profiles: Vec<_> = sets.iter().map(|set| Profile::new(graph, times, set)).collect();
        let mut by_workspace: Vec<_> = (0..graph.nodes.len()).filter(|&n| graph.nodes[n].workspace > 0).collect();
        by_workspace.sort_by_key(|&node| std::cmp::Reverse(graph.nodes[node].workspace));
        let scan = Scan::new(&sets, |set| profiles[set].terms(memory));
        let weights = graph.nodes.iter().zip(times).map(|(node, &time)| (node.bytes, time)).collect();
        Self { graph, sets, profiles, scan, by_workspace, weights, memory, last_group, most: most.min(MOST) }
    }

    /// No budget is larger.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// M(boundary(L)): what any sequence that reaches a set has cached there.
    pub fn boundary_bytes(&self, set: usize) -> u64 {
        self.profiles[set].boundary_bytes
    }

    /// Number of steps of the family that some budget of up to `most` allows, as far as one can tell from the two sets.
    pub fn count(&self) -> usize {
        let keys = Keys::new(self.sets.len(), 0);
        let mut found = Vec::new();
        let count = |from| {
            let boundary = self.boundary_bytes(from);
            found.clear();
            self.find(from, boundary, self.most, (&keys, -1), &mut found);
            let fits = |&&to: &&u32| self.need(from, to as usize) + boundary <= self.most;
            found.iter().filter(fits).count()
        };
        (0..self.sets.len()).map(count).sum()
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

    /// One step, whether or not it is one.
    pub fn step(&self, from: usize, to: usize) -> Step {
        let (low, high) = (&self.profiles[from], &self.profiles[to]);
        let fresh = high.boundary.without(&self.sets[from]);
        let (cached, kept) = fresh.fold((0, 0), |(bytes, time), node| {
            let (more, longer) = self.weights[node];
            (bytes + more, time + longer)
        });
        let ends = to + 1 == self.sets.len() && self.last_group == LastGroup::Keep;
        let time = high.time - low.time - kept;
        Step {
            to: u32::try_from(to).expect("families are bounded far below 2^32"),
            need: self.need(from, to),
            cached,
            time: if ends { 0 } else { time },
        }
    }

    /// [`Step::cached`].
    pub fn cached(&self, from: usize, to: usize) -> u64 {
        self.profiles[to].boundary.without(&self.sets[from]).map(|node| self.weights[node].0).sum()
    }

    /// [`Step::need`].
    pub fn need(&self, from: usize, to: usize) -> u64 {
        let (low, high) = (&self.profiles[from], &self.profiles[to]);
        let group = high.bytes - low.bytes;
        let equation = 2 * group + high.beyond;
        let tensors = group + low.gradients - high.gradients + high.crossing;
        let largest = self.by_workspace.first().map_or(0, |&node| self.graph.nodes[node].workspace);
        let need = match self.memory {
            Memory::Equation => equation,
            Memory::Larger if tensors + largest <= equation => equation,
            Memory::Larger => equation.max(tensors + self.workspace(from, to)),
            Memory::Instance => tensors + self.workspace(from, to),
        };
        need + self.graph.base_bytes + low.results
    }

    /// Largest workspace of a group: from the list of workspaces where the group is large.
    fn workspace(&self, from: usize, to: usize) -> u64 {
        let (low, high) = (&self.sets[from], &self.sets[to]);
        let nodes = &self.graph.nodes;
        let size = self.profiles[to].size - self.profiles[from].size;
        if size * size < nodes.len() {
            return high.without(low).map(|node| nodes[node].workspace).max().unwrap_or(0);
        }
        let inside = |&&node: &&usize| high.contains(node) && !low.contains(node);
        self.by_workspace.iter().find(inside).map_or(0, |&node| nodes[node].workspace)
    }
}

impl Profile {
    fn new(graph: &Graph, times: &[u64], set: &Set) -> Self {
        let mut boundary = Set::empty(graph.nodes.len());
        graph.boundary(set).into_iter().for_each(|node| boundary.insert(node));
        let bytes_of = |nodes: &Set| nodes.members().map(|node| graph.nodes[node].bytes).sum::<u64>();
        let beyond = graph.beyond(set);
        let mut needed_there = Set::empty(graph.nodes.len());
        let inputs = beyond.members().flat_map(|node| &graph.nodes[node].predecessors);
        inputs.filter(|&&node| !set.contains(node)).for_each(|&node| needed_there.insert(node));
        let done: Vec<bool> = (0..graph.backward.len()).map(|backward| graph.is_done(backward, set)).collect();
        let made = || graph.gradients.iter().filter(|tensor| done[tensor.maker]);
        let read = |readers: &[usize]| readers.iter().any(|&reader| !done[reader]);
        let late = graph.late.iter().filter(|tensor| !set.contains(tensor.maker) && read(&tensor.readers));
        let carried = made().filter(|tensor| read(&tensor.readers));
        Self {
            bytes: bytes_of(set),
            time: set.members().map(|node| times[node]).sum(),
            size: set.len(),
            boundary_bytes: bytes_of(&boundary),
            boundary,
            beyond: bytes_of(&beyond) + bytes_of(&needed_there),
            gradients: made().map(|tensor| tensor.bytes).sum(),
            crossing: carried.chain(late).map(|tensor| tensor.bytes).sum(),
            results: graph.results.iter().filter(|(_, maker)| done[*maker]).map(|(bytes, _)| bytes).sum(),
        }
    }
    /// What [`Scan`] compares: the parts of the two sums of [`Steps::need`] that come from the larger set.
    fn terms(&self, memory: Memory) -> [i64; 2] {
        let equation = (2 * self.bytes + self.beyond).cast_signed();
        let tensors = (self.bytes + self.crossing).cast_signed() - self.gradients.cast_signed();
        match memory {
            Memory::Equation => [equation, i64::MIN],
            Memory::Larger => [equation, tensors],
            Memory::Instance => [i64::MIN, tensors],
        }
    }
}
