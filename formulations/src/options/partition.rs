//! Blocks of a joint graph that need not be a chain: forward operators in a row, each with the backward operators that go
//! with it. Equal parts of a network are merged alike. Knows no method.

use std::collections::{BTreeSet, HashSet};

use remat_core::chain_view::{Boundary, StageOperators};
use remat_core::{Instance, OperatorId, TensorId};

/// Blocks, and which one each operator is in.
pub struct Partition {
    /// The blocks, in the order of their forward operators.
    pub blocks: Vec<StageOperators>,
    /// By operator.
    pub block_of: Vec<usize>,
}

impl Partition {
    /// Merges neighbouring blocks, from single forward operators on, until no more nodes are left than asked for: a block
    /// of several forward operators counts as two, its forward and its backward. First go those of the least boundary
    /// times the square root of the number of operators (`HiRemate`'s rule); no block gets more operators than allowed.
    pub fn new(instance: &Instance, most_operators: usize, most_nodes: usize) -> Self {
        let mut block_of = anchors(instance);
        let merged = merge(instance, &block_of, most_operators, most_nodes);
        for anchor in &mut block_of {
            *anchor = merged.partition_point(|merged| merged.last <= *anchor);
        }
        Self { blocks: StageOperators::of_groups(instance, &block_of, merged.len()), block_of }
    }

    /// What each block has in common with the rest of the network. Forwards run from the first block to the last, then
    /// backwards from the last to the first.
    pub fn boundaries(&self, instance: &Instance) -> Vec<Boundary> {
        let mut boundaries = vec![Boundary::default(); self.blocks.len()];
        for id in instance.operator_ids() {
            let reader = self.block_of[id.index()];
            for read in instance.operator(id).reads() {
                let Some(maker) = instance.tensor(read).producer else { continue };
                let home = self.block_of[maker.index()];
                if home == reader {
                    continue;
                }
                if is_forward(instance, maker) {
                    boundaries[reader].inputs.insert(read);
                    boundaries[home].outputs.insert(read);
                } else {
                    boundaries[reader].gradients.insert(read);
                    boundaries[home].leaves.insert(read);
                }
            }
        }
        // A gradient that an earlier block reads too is there after this one.
        let mut later: HashSet<TensorId> = HashSet::new();
        for boundary in &mut boundaries {
            boundary.leaves.extend(boundary.gradients.intersection(&later));
            later.extend(&boundary.gradients);
        }
        boundaries
    }
}

/// By tensor, the first and the last block whose operators make or read it; an inverted pair where none does.
pub fn spans(instance: &Instance, home: &[usize]) -> Vec<(usize, usize)> {
    let mut spans = vec![(usize::MAX, 0); instance.tensors().len()];
    for id in instance.operator_ids() {
        for tensor in instance.operator(id).touches() {
            let (first, last) = &mut spans[tensor.index()];
            (*first, *last) = ((*first).min(home[id.index()]), (*last).max(home[id.index()]));
        }
    }
    spans
}

fn is_forward(instance: &Instance, id: OperatorId) -> bool {
    instance.operator(id).phase.is_forward()
}

/// By operator, the position among the forward operators of the one that it goes with: a backward operator with the one
/// that it differentiates, but with none behind those whose gradients it reads.
fn anchors(instance: &Instance) -> Vec<usize> {
    let (forward, backward): (Vec<OperatorId>, _) = instance.order().iter().partition(|id| is_forward(instance, **id));
    let mut anchors = vec![0; instance.operators().len()];
    for (position, id) in forward.iter().enumerate() {
        anchors[id.index()] = position;
    }
    for id in backward {
        let operator = instance.operator(id);
        let makers = || operator.reads().filter_map(|read| instance.tensor(read).producer);
        let gradients = makers().filter(|&maker| !is_forward(instance, maker));
        let least = gradients.chain(operator.differentiates).map(|other| anchors[other.index()]).min();
        let most = || makers().map(|maker| anchors[maker.index()]).max();
        anchors[id.index()] = least.or_else(most).unwrap_or(forward.len().saturating_sub(1));
    }
    anchors
}

/// Forward operators from one position to before another.
#[derive(Clone, Copy)]
struct Merged {
    first: usize,
    last: usize,
    /// Both passes.
    operators: usize,
}

impl Merged {
    fn with(self, next: Self) -> Self {
        Self { first: self.first, last: next.last, operators: self.operators + next.operators }
    }

    fn nodes(self) -> usize {
        if self.last - self.first == 1 { self.operators } else { 2 }
    }
}

fn merge(instance: &Instance, anchors: &[usize], most_operators: usize, most_nodes: usize) -> Vec<Merged> {
    let spans = spans(instance, anchors);
    let mut at_position = vec![Vec::new(); anchors.iter().max().map_or(0, |last| last + 1)];
    for id in instance.operator_ids() {
        at_position[anchors[id.index()]].push(instance.operator(id));
    }
    // The boundary of two neighbours in bytes, weighed by the operators in both.
    let cost = |pair: &[Merged]| {
        let Merged { first, last, operators } = pair[0].with(pair[1]);
        if operators > most_operators {
            return f64::INFINITY;
        }
        let is_crossing = |&id: &TensorId| {
            let (least, most) = spans[id.index()];
            let by_forward = |maker| is_forward(instance, maker);
            (least < first || most >= last) && instance.tensor(id).producer.is_some_and(by_forward)
        };
        let touched = at_position[first..last].iter().flatten().flat_map(|one| one.touches());
        let boundary: BTreeSet<TensorId> = touched.filter(is_crossing).collect();
        boundary.iter().map(|&id| instance.tensor(id).bytes).sum::<u64>() as f64 * (operators as f64).sqrt()
    };
    let single = |(first, operators): (usize, &Vec<_>)| Merged { first, last: first + 1, operators: operators.len() };
    let mut merged: Vec<Merged> = at_position.iter().enumerate().map(single).collect();
    let mut nodes: usize = merged.iter().map(|block| block.nodes()).sum();
    // Of each block, the cost of merging it with the next.
    let mut costs: Vec<f64> = merged.windows(2).map(cost).collect();
    while nodes > most_nodes {
        let least = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
        let Some(at) = least.filter(|&at| costs[at].is_finite()) else { break };
        costs.remove(at);
        let (one, next) = (merged[at], merged.remove(at + 1));
        merged[at] = one.with(next);
        nodes = nodes + merged[at].nodes() - one.nodes() - next.nodes();
        for pair in at.saturating_sub(1)..(at + 1).min(costs.len()) {
            costs[pair] = cost(&merged[pair..pair + 2]);
        }
    }
    merged
}
