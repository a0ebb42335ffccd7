//! Families of lower sets, and what a step from one to a larger one costs.

use std::collections::HashSet;
use std::time::Instant;

use super::graph::Graph;
use super::set::Set;

/// Why there is no family, or no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There are more lower sets than allowed.
    LowerSets,
    /// The time limit was reached.
    Time,
}

/// All lower sets of a graph, the empty one first, in ascending order of size.
///
/// # Errors
/// There are more than `most` of them, or the moment has come.
pub fn all(graph: &Graph, most: usize, deadline: Option<Instant>) -> Result<Vec<Set>, Stop> {
    let count = graph.nodes.len();
    let mut sets = vec![Set::empty(count)];
    let mut level = 0..1;
    while !level.is_empty() {
        let mut next = HashSet::new();
        for index in level.clone() {
            for (node, _) in ready(graph, &sets[index]) {
                let mut larger = sets[index].clone();
                larger.insert(node);
                next.insert(larger);
            }
            if sets.len() + next.len() > most {
                return Err(Stop::LowerSets);
            }
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Stop::Time);
        }
        let mut next: Vec<_> = next.into_iter().collect();
        next.sort_unstable();
        level = sets.len()..sets.len() + next.len();
        sets.extend(next);
    }
    Ok(sets)
}

/// Nodes that may be added to a lower set.
fn ready<'a>(graph: &'a Graph, set: &'a Set) -> impl Iterator<Item = (usize, &'a super::graph::Node)> {
    let nodes = graph.nodes.iter().enumerate();
    nodes.filter(|(index, node)| !set.contains(*index) && node.predecessors.iter().all(|&p| set.contains(p)))
}

/// L_G^Pruned with the empty set and V: for each node, the nodes from which it is reachable.
pub fn pruned(graph: &Graph) -> Vec<Set> {
    let count = graph.nodes.len();
    let mut sets: Vec<_> = graph.reaching.clone();
    sets.extend([Set::empty(count), Set::full(count)]);
    sort(&mut sets);
    sets
}

/// Ascending order of size, each set once.
pub fn sort(sets: &mut Vec<Set>) {
    sets.sort_by_cached_key(|set| (set.len(), set.clone()));
    sets.dedup();
}

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
    /// The lower sets, ascending in size; first the empty one, last V.
    pub sets: Vec<Set>,
    profiles: Vec<Profile>,
    /// Nodes by workspace, largest first, those without left out.
    by_workspace: Vec<usize>,
    times: &'a [u64],
    memory: Memory,
    last_group: LastGroup,
    /// No budget is larger.
    most: u64,
    /// The steps themselves, where they are few enough to be kept.
    kept: Vec<Vec<Step>>,
}

/// Steps that are kept in memory (32 bytes each) rather than found anew for every budget.
const KEPT_STEPS: usize = 1 << 24;

impl<'a> Steps<'a> {
    /// The steps of a family whose first set is empty and whose last is V, for budgets of up to `most`.
    ///
    /// # Errors
    /// The moment has come.
    pub fn new(
        graph: &'a Graph,
        sets: Vec<Set>,
        times: &'a [u64],
        (memory, last_group): (Memory, LastGroup),
        most: u64,
        deadline: Option<Instant>,
    ) -> Result<Self, Stop> {
        let profiles = sets.iter().map(|set| Profile::new(graph, times, set)).collect();
        let mut by_workspace: Vec<_> = (0..graph.nodes.len()).filter(|&n| graph.nodes[n].workspace > 0).collect();
        by_workspace.sort_by_key(|&node| std::cmp::Reverse(graph.nodes[node].workspace));
        let mut steps = Self { graph, sets, profiles, by_workspace, times, memory, last_group, most, kept: Vec::new() };
        let mut count = 0;
        let mut kept = Vec::with_capacity(steps.sets.len());
        for from in 0..steps.sets.len() {
            let mut some = Vec::new();
            steps.find(from, &mut some);
            count += some.len();
            some.shrink_to_fit();
            kept.push(some);
            if count > KEPT_STEPS {
                return Ok(steps);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Stop::Time);
            }
        }
        steps.kept = kept;
        Ok(steps)
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
        if self.kept.is_empty() {
            let mut buffer = Vec::new();
            return (0..self.sets.len()).map(|set| self.from(set, &mut buffer).len()).sum();
        }
        self.kept.iter().map(Vec::len).sum()
    }

    /// The steps from a set; `buffer` is where they are put when they are not kept.
    pub fn from<'s>(&'s self, set: usize, buffer: &'s mut Vec<Step>) -> &'s [Step] {
        if let Some(kept) = self.kept.get(set) {
            return kept;
        }
        buffer.clear();
        self.find(set, buffer);
        buffer
    }

    fn find(&self, from: usize, steps: &mut Vec<Step>) {
        let low = &self.profiles[from];
        let Some(left) = self.most.checked_sub(self.graph.base_bytes + low.results + low.boundary_bytes) else {
            return;
        };
        let times = if self.memory == Memory::Instance { 1 } else { 2 };
        for to in from + 1..self.sets.len() {
            // The cheap part of `need` first: it rules out most pairs when memory is scarce.
            let high = &self.profiles[to];
            let group = high.bytes.saturating_sub(low.bytes);
            if group.saturating_mul(times) <= left && self.leads(from, to) {
                let step = self.step(from, to);
                if step.need.saturating_add(low.boundary_bytes) <= self.most {
                    steps.push(step);
                }
            }
        }
    }

    fn leads(&self, from: usize, to: usize) -> bool {
        self.profiles[from].size < self.profiles[to].size && self.sets[from].is_subset(&self.sets[to])
    }

    /// One step, whether or not both sets are in order.
    pub fn step(&self, from: usize, to: usize) -> Step {
        let (low, high) = (&self.profiles[from], &self.profiles[to]);
        let fresh = || high.boundary.without(&self.sets[from]);
        let cached = fresh().map(|node| self.graph.nodes[node].bytes).sum();
        let ends = to + 1 == self.sets.len() && self.last_group == LastGroup::Keep;
        let time = high.time - low.time - fresh().map(|node| self.times[node]).sum::<u64>();
        Step {
            to: u32::try_from(to).expect("families are bounded far below 2^32"),
            need: self.need(from, to),
            cached,
            time: if ends { 0 } else { time },
        }
    }

    fn need(&self, from: usize, to: usize) -> u64 {
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
        if self.profiles[to].size - self.profiles[from].size < 64 {
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
}
