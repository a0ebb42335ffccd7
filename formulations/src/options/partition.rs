//! Blocks of a joint graph that need not be a chain: forward operators in a row, each with the backward operators that go
//! with it. Equal parts of a network are merged alike. Knows no method.

use std::collections::HashSet;

use remat_core::chain_view::{Boundary, StageOperators};
use remat_core::{Instance, OperatorId, TensorId};

/// Blocks, and which one each operator is in.
pub struct Partition {
    /// The blocks, in the order of their forward operators.
    pub blocks: Vec<StageOperators>,
    block_of: Vec<usize>,
}

impl Partition {
    /// Merges neighbouring blocks, from single forward operators on, until no more nodes are left than asked for: a block
    /// of several forward operators counts as two, its forward and its backward. First go those of the least boundary
    /// times the square root of the number of operators (`HiRemate`'s rule); no block gets more operators than allowed.
    pub fn new(instance: &Instance, most_operators: usize, most_nodes: usize) -> Self {
        let anchors = anchors(instance);
        let mut merger = Merger::new(instance, &anchors);
        merger.run(most_operators, most_nodes);
        let mut block_of_forward = Vec::new();
        for (block, merged) in merger.merged.iter().enumerate() {
            block_of_forward.resize(merged.last, block);
        }
        let block_of: Vec<usize> = anchors.into_iter().map(|anchor| block_of_forward[anchor]).collect();
        let mut blocks = vec![StageOperators::default(); merger.merged.len()];
        for &id in instance.order() {
            let block = &mut blocks[block_of[id.index()]];
            if instance.operator(id).phase.is_forward() { block.forward.push(id) } else { block.backward.push(id) }
        }
        Self { blocks, block_of }
    }

    /// What each block has in common with the rest of the network. Forwards run from the first block to the last, then
    /// backwards from the last to the first.
    pub fn boundaries(&self, instance: &Instance) -> Vec<Boundary> {
        let mut boundaries = vec![Boundary::default(); self.blocks.len()];
        let is_forward = |id: OperatorId| instance.operator(id).phase.is_forward();
        for id in instance.operator_ids() {
            let reader = self.block_of[id.index()];
            for read in reads(instance, id) {
                let Some(maker) = instance.tensor(read).producer else { continue };
                let home = self.block_of[maker.index()];
                if home == reader {
                    continue;
                }
                if is_forward(maker) {
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

/// What any implementation of an operator reads.
pub fn reads(instance: &Instance, id: OperatorId) -> impl Iterator<Item = TensorId> + '_ {
    instance.operator(id).implementations.iter().flat_map(|way| way.reads.iter().copied())
}

/// By operator, the position among the forward operators of the one that it goes with: a backward operator with the one
/// that it differentiates, but with none behind those whose gradients it reads.
fn anchors(instance: &Instance) -> Vec<usize> {
    let is_forward = |id: OperatorId| instance.operator(id).phase.is_forward();
    let (forward, backward): (Vec<OperatorId>, _) = instance.order().iter().partition(|id| is_forward(**id));
    let mut anchors = vec![0; instance.operators().len()];
    for (position, id) in forward.iter().enumerate() {
        anchors[id.index()] = position;
    }
    for id in backward {
        let makers = || reads(instance, id).filter_map(|read| instance.tensor(read).producer);
        let gradients = makers().filter(|&maker| !is_forward(maker));
        let home = instance.operator(id).differentiates;
        let least = gradients.chain(home).map(|other| anchors[other.index()]).min();
        let most = || makers().map(|maker| anchors[maker.index()]).max();
        anchors[id.index()] = least.or_else(most).unwrap_or(forward.len().saturating_sub(1));
    }
    anchors
}

/// Forward operators from one position to before another.
struct Merged {
    first: usize,
    last: usize,
    /// Both passes.
    operators: usize,
}

impl Merged {
    fn nodes(&self) -> usize {
        if self.last - self.first == 1 { self.operators } else { 2 }
    }
}

struct Merger<'a> {
    instance: &'a Instance,
    merged: Vec<Merged>,
    /// By position, what its operators make or read of what forward operators make.
    touched: Vec<Vec<TensorId>>,
    /// By tensor, the first and the last position that makes or reads it.
    spans: Vec<(usize, usize)>,
    /// By tensor, the count at hand that it is counted in.
    counted: Vec<usize>,
    count: usize,
}

impl<'a> Merger<'a> {
    fn new(instance: &'a Instance, anchors: &[usize]) -> Self {
        let forward = instance.operators().iter().filter(|operator| operator.phase.is_forward()).count();
        let mut merger = Self {
            instance,
            merged: (0..forward).map(|first| Merged { first, last: first + 1, operators: 0 }).collect(),
            touched: vec![Vec::new(); forward],
            spans: vec![(usize::MAX, 0); instance.tensors().len()],
            counted: vec![0; instance.tensors().len()],
            count: 0,
        };
        let by_forward =
            |id: &TensorId| instance.tensor(*id).producer.is_some_and(|id| instance.operator(id).phase.is_forward());
        for id in instance.operator_ids() {
            let anchor = anchors[id.index()];
            merger.merged[anchor].operators += 1;
            let operator = instance.operator(id);
            let made = (0..operator.implementations.len()).flat_map(|way| operator.makes(way));
            for tensor in made.chain(reads(instance, id)).filter(by_forward) {
                let span = &mut merger.spans[tensor.index()];
                *span = (span.0.min(anchor), span.1.max(anchor));
                merger.touched[anchor].push(tensor);
            }
        }
        merger
    }

    fn run(&mut self, most_operators: usize, most_nodes: usize) {
        let mut nodes: usize = self.merged.iter().map(Merged::nodes).sum();
        // Of each block, the cost of merging it with the next.
        let mut costs: Vec<f64> = (1..self.merged.len()).map(|next| self.cost(next - 1, most_operators)).collect();
        while nodes > most_nodes {
            let Some(at) = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])) else { break };
            if costs[at].is_infinite() {
                break;
            }
            let next = self.merged.remove(at + 1);
            costs.remove(at);
            let merged = &mut self.merged[at];
            nodes -= merged.nodes() + next.nodes();
            *merged = Merged { first: merged.first, last: next.last, operators: merged.operators + next.operators };
            nodes += merged.nodes();
            for pair in at.saturating_sub(1)..(at + 1).min(costs.len()) {
                costs[pair] = self.cost(pair, most_operators);
            }
        }
    }

    /// The boundary of a block and the next in bytes, weighed by the operators in both.
    fn cost(&mut self, at: usize, most_operators: usize) -> f64 {
        let [one, next] = [&self.merged[at], &self.merged[at + 1]];
        let operators = one.operators + next.operators;
        if operators > most_operators {
            return f64::INFINITY;
        }
        self.count += 1;
        let mut bytes = 0;
        for &tensor in self.touched[one.first..next.last].iter().flatten() {
            let (first, last) = self.spans[tensor.index()];
            let crosses = first < one.first || last >= next.last;
            if crosses && std::mem::replace(&mut self.counted[tensor.index()], self.count) != self.count {
                bytes += self.instance.tensor(tensor).bytes;
            }
        }
        bytes as f64 * (operators as f64).sqrt()
    }
}
