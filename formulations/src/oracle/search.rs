//! Uniform-cost search with a bound: one budget, the least time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Instant;

use remat_core::liveness::Compute;

use super::problem::{Problem, Progress, Purpose, Run, Set, members};

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The moment.
    pub deadline: Option<Instant>,
    /// States reached.
    pub states: u64,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a fastest sequence of runs.
    Optimal(Vec<Compute>),
    /// Having seen everything that the budget allows.
    Infeasible,
    /// At the time limit.
    TimeLimit,
    /// At the limit of states.
    StateLimit,
}

/// What a search leaves.
#[derive(Clone, Debug)]
pub struct Search {
    /// How it ended.
    pub end: End,
    /// No schedule within the budget takes less; the least time itself where one was found.
    pub bound: u64,
    /// States reached.
    pub states: usize,
}

/// Searches for the least time within a budget.
pub fn search(problem: &Problem<'_>, budget: u64, bounds: Bounds) -> Search {
    let mut frontier = Frontier {
        problem,
        budget,
        nodes: Vec::new(),
        queue: BinaryHeap::new(),
        best: HashMap::new(),
        closed: HashMap::new(),
        purposes: HashMap::new(),
    };
    let (end, bound) = frontier.run(bounds);
    Search { end, bound, states: frontier.nodes.len() }
}

/// A state, and how it was reached first.
#[derive(Clone, Copy)]
struct Node {
    resident: Set,
    progress: Progress,
    time: u64,
    /// The state before, and the run that led here.
    from: Option<(usize, Compute)>,
}

struct Frontier<'a> {
    problem: &'a Problem<'a>,
    budget: u64,
    nodes: Vec<Node>,
    /// By bound on the total; among equals the most advanced first.
    queue: BinaryHeap<(Reverse<u64>, u64, Reverse<usize>)>,
    best: HashMap<(Progress, Set), u64>,
    /// By operators that have run: what was resident, how far and when, of the states dealt with.
    closed: HashMap<Set, Vec<(Set, Progress, u64)>>,
    purposes: HashMap<Set, Purpose>,
}

impl Frontier<'_> {
    fn run(&mut self, bounds: Bounds) -> (End, u64) {
        if self.problem.base > self.budget {
            return (End::Infeasible, 0);
        }
        self.reach(Node { resident: 0, progress: Progress::default(), time: 0, from: None });
        let mut popped = 0_u64;
        while let Some((Reverse(bound), _, Reverse(index))) = self.queue.pop() {
            popped += 1;
            if self.nodes.len() as u64 > bounds.states {
                return (End::StateLimit, bound);
            }
            if popped.is_multiple_of(256) && bounds.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return (End::TimeLimit, bound);
            }
            let node = self.nodes[index];
            if self.problem.due(node.progress.ran) == 0 && self.problem.results & !node.resident == 0 {
                return (End::Optimal(self.path(index)), node.time);
            }
            if self.is_dominated(&node) {
                continue;
            }
            let Node { resident, progress, time, .. } = node;
            self.closed.entry(progress.ran).or_default().push((resident, progress, time));
            self.expand(index);
        }
        (End::Infeasible, 0)
    }

    /// Whether a state from which as much may follow had at least as much, no later.
    fn is_dominated(&self, node: &Node) -> bool {
        let closed = self.closed.get(&node.progress.ran);
        closed.is_some_and(|closed| {
            closed.iter().any(|&(resident, progress, time)| {
                node.resident & !resident == 0 && time <= node.time && progress.is_as_free_as(node.progress)
            })
        })
    }

    fn reach(&mut self, node: Node) {
        let Some(bound) = self.problem.bound(node.resident, node.progress.ran) else { return };
        let best = self.best.entry((node.progress, node.resident)).or_insert(u64::MAX);
        if node.time >= *best {
            return;
        }
        *best = node.time;
        self.queue.push((Reverse(node.time + bound), node.time, Reverse(self.nodes.len())));
        self.nodes.push(node);
    }

    fn path(&self, mut index: usize) -> Vec<Compute> {
        let mut computes = Vec::new();
        while let Some((before, compute)) = self.nodes[index].from {
            computes.push(compute);
            index = before;
        }
        computes.reverse();
        computes
    }

    fn purpose(&mut self, ran: Set) -> Purpose {
        let problem = self.problem;
        *self.purposes.entry(ran).or_insert_with(|| problem.purpose(ran))
    }

    fn expand(&mut self, index: usize) {
        let node = self.nodes[index];
        let problem = self.problem;
        let before = node.progress;
        let purpose = self.purpose(before.ran);
        for operator in members(purpose.operators).filter(|&operator| problem.may_run(operator, before)) {
            let after = problem.after(before, operator);
            let later = self.purpose(after.ran);
            for run in problem.ways(operator, before.ran) {
                let serves = after.ran != before.ran || run.makes & later.tensors & !node.resident != 0;
                if serves && run.reads & !node.resident == 0 {
                    self.apply(index, run, after, later.tensors);
                }
            }
        }
    }

    /// Reaches every state that a run leads to: one for each way of making room that drops no more than it must.
    fn apply(&mut self, index: usize, run: &Run, progress: Progress, wanted: Set) {
        let node = self.nodes[index];
        let held = (run.reads & !run.overwrites) | run.makes;
        let Some(room) = self.room(held, run.workspace) else { return };
        let others = node.resident & !run.reads & !run.makes & wanted;
        let problem = self.problem;
        let mut tensors: Vec<_> = members(others).map(|bit| (problem.size(bit), bit)).collect();
        tensors.sort_unstable_by_key(|&(size, _)| Reverse(size));
        for kept in largest_subsets(&tensors, room) {
            let resident = (held | kept) & wanted;
            self.reach(Node { resident, progress, time: node.time + run.time, from: Some((index, run.compute)) });
        }
    }

    /// Bytes left beside what a run holds.
    fn room(&self, held: Set, workspace: u64) -> Option<u64> {
        let taken = self.problem.base.checked_add(self.problem.bytes(held))?.checked_add(workspace)?;
        self.budget.checked_sub(taken)
    }
}

/// The subsets that fit and to which nothing can be added; sizes descending.
fn largest_subsets(tensors: &[(u64, usize)], room: u64) -> Vec<Set> {
    let mut subsets = Vec::new();
    let rest: u64 = tensors.iter().map(|&(size, _)| size).sum();
    choose(tensors, room, rest, (0, None), &mut subsets);
    subsets
}

/// Decides on the tensors one by one; `kept` is what was kept so far and the smallest left out.
fn choose(
    tensors: &[(u64, usize)],
    room: u64,
    rest: u64,
    (kept, smallest_out): (Set, Option<u64>),
    subsets: &mut Vec<Set>,
) {
    if rest <= room {
        // All the others fit; something left out must not fit beside them.
        if smallest_out.is_none_or(|size| size > room - rest) {
            subsets.push(tensors.iter().fold(kept, |set, &(_, bit)| set | 1 << bit));
        }
        return;
    }
    let Some((&(size, bit), others)) = tensors.split_first() else { return };
    if size <= room {
        choose(others, room - size, rest - size, (kept | 1 << bit, smallest_out), subsets);
    }
    choose(others, room, rest - size, (kept, Some(size)), subsets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_subsets_are_those_that_nothing_can_be_added_to() {
        let sizes = [7, 5, 5, 3, 1, 0];
        let tensors: Vec<_> = sizes.iter().copied().zip(0..).collect();
        for room in (0..25).chain([u64::MAX]) {
            let bytes = |set: Set| members(set).map(|bit| sizes[bit]).sum::<u64>();
            let maximal = |&set: &Set| bytes(set) <= room && members(!set & 63).all(|bit| bytes(set | 1 << bit) > room);
            let mut found = largest_subsets(&tensors, room);
            found.sort_unstable();
            assert_eq!(found, (0..64).filter(maximal).collect::<Vec<_>>(), "room {room}");
        }
    }
}
