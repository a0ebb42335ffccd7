//! Where an instance is cut into stages, and which operators belong to which.

use petgraph::algo::dominators::{Dominators, simple_fast};
use petgraph::graph::{DiGraph, NodeIndex};

use super::{NoChain, StageOperators};
use crate::format::Phase;
use crate::instance::{Instance, OperatorId, TensorId};
use crate::plan::Plan;

/// The stages of an instance, first to last.
pub fn stages(instance: &Instance, plan: &Plan) -> Result<Vec<StageOperators>, NoChain> {
    let trunk = Trunk::new(instance)?;
    Ok(Levels::new(instance, plan, &trunk).stages(instance))
}

/// Whether an operator that reads nothing computed starts a path through the network. Constants do
/// not, nor does what the loss makes of the labels: both follow their readers.
fn starts_a_path(instance: &Instance, id: OperatorId) -> bool {
    instance.operator(id).phase == Phase::Forward && reads(instance, id).next().is_some()
}

fn producer(instance: &Instance, tensor: TensorId) -> Option<OperatorId> {
    instance.tensor(tensor).producer
}

fn reads(instance: &Instance, id: OperatorId) -> impl Iterator<Item = TensorId> + '_ {
    instance.operator(id).implementations.iter().flat_map(|v| v.reads.iter().copied())
}

/// The cut tensors, and where the forward operators stand between them.
struct Trunk {
    is_cut: Vec<bool>,
    /// The number of cut tensors through which every path to an operator passes; none for backward ones.
    levels: Vec<Option<usize>>,
}

impl Trunk {
    fn new(instance: &Instance) -> Result<Self, NoChain> {
        let order = instance.order().iter().copied();
        let forward: Vec<_> = order.filter(|&id| instance.operator(id).phase.is_forward()).collect();
        let last = *forward.last().ok_or(NoChain::NoForward)?;
        let graph = Bipartite::new(instance, &forward);
        let dominators = simple_fast(&graph.graph, graph.root);
        let numbers = graph.cut_tensors(&dominators, last);
        let number = |node: NodeIndex| numbers[node.index()];
        let mut levels = vec![None; instance.operators().len()];
        for &id in &forward {
            // Dominators come nearest first; the nearest cut tensor tells the level.
            let above = dominators.dominators(graph.operators[id.index()]);
            levels[id.index()] = above.map(|mut above| above.find_map(number).unwrap_or(0));
        }
        for &id in forward.iter().rev() {
            if levels[id.index()].is_none() {
                levels[id.index()] = Some(level_of_readers(instance, &forward, &levels, id));
            }
        }
        let is_cut = graph.tensors.iter().map(|node| node.and_then(number).is_some()).collect();
        Ok(Self { is_cut, levels })
    }
}

fn level_of_readers(instance: &Instance, forward: &[OperatorId], levels: &[Option<usize>], id: OperatorId) -> usize {
    let reads_it = |&&reader: &&OperatorId| reads(instance, reader).any(|t| producer(instance, t) == Some(id));
    forward.iter().filter(reads_it).filter_map(|reader| levels[reader.index()]).min().unwrap_or(0)
}

/// Forward operators and the tensors that they make, with a root above everything that reads the input.
struct Bipartite {
    graph: DiGraph<(), ()>,
    root: NodeIndex,
    operators: Vec<NodeIndex>,
    /// Only of forward tensors.
    tensors: Vec<Option<NodeIndex>>,
}

impl Bipartite {
    fn new(instance: &Instance, forward: &[OperatorId]) -> Self {
        let mut graph = DiGraph::new();
        let root = graph.add_node(());
        let operators: Vec<_> = instance.operators().iter().map(|_| graph.add_node(())).collect();
        let mut tensors = vec![None; instance.tensors().len()];
        for &id in forward {
            let operator = instance.operator(id);
            for variant in 0..operator.implementations.len() {
                for made in operator.makes(variant) {
                    let node = *tensors[made.index()].get_or_insert_with(|| graph.add_node(()));
                    graph.update_edge(operators[id.index()], node, ());
                }
            }
            let mut computed = reads(instance, id).filter_map(|t| tensors[t.index()]).peekable();
            if computed.peek().is_none() && starts_a_path(instance, id) {
                graph.add_edge(root, operators[id.index()], ());
            }
            for node in computed.collect::<Vec<_>>() {
                graph.update_edge(node, operators[id.index()], ());
            }
        }
        Self { graph, root, operators, tensors }
    }

    /// For each node that is a cut tensor, its number from 1 along the way to the last operator.
    fn cut_tensors(&self, dominators: &Dominators<NodeIndex>, last: OperatorId) -> Vec<Option<usize>> {
        let mut is_tensor = vec![false; self.graph.node_count()];
        for node in self.tensors.iter().flatten() {
            is_tensor[node.index()] = true;
        }
        let mut trunk: Vec<_> = dominators
            .strict_dominators(self.operators[last.index()])
            .into_iter()
            .flatten()
            .filter(|node| is_tensor[node.index()])
            .collect();
        trunk.reverse();
        let mut numbers = vec![None; self.graph.node_count()];
        for (index, node) in trunk.into_iter().enumerate() {
            numbers[node.index()] = Some(index + 1);
        }
        numbers
    }
}

/// The stage of every operator, with boundaries given up where the backward pass does not respect them.
struct Levels {
    of: Vec<usize>,
    /// `open[l]`: the boundary between levels l and l + 1 is given up.
    open: Vec<bool>,
}

impl Levels {
    fn new(instance: &Instance, plan: &Plan, trunk: &Trunk) -> Self {
        let top = trunk.levels.iter().flatten().copied().max().unwrap_or(0);
        let of = trunk.levels.iter().map(|level| level.unwrap_or(top)).collect();
        let mut levels = Self { of, open: vec![false; top] };
        let is_backward = |id: OperatorId| !instance.operator(id).phase.is_forward();
        for &id in instance.order().iter().filter(|&&id| is_backward(id)) {
            levels.of[id.index()] = levels.backward_level(instance, id, top);
        }
        levels.give_up_unread_cuts(instance, plan, trunk);
        for &id in instance.order() {
            let operator = instance.operator(id);
            let variants = [plan.saving[id.index()], plan.passing[id.index()]];
            for read in variants.into_iter().flat_map(|v| &operator.implementations[v].reads) {
                if let Some(maker) = producer(instance, *read) {
                    let gradient = is_backward(id) && is_backward(maker);
                    levels.respect(id, maker, gradient, trunk.is_cut[read.index()]);
                }
            }
        }
        levels
    }

    /// A saving forward keeps its stage's output. Where no backward reads that tensor (the sum before
    /// a rectifier, say), a boundary there would keep it in vain.
    fn give_up_unread_cuts(&mut self, instance: &Instance, plan: &Plan, trunk: &Trunk) {
        let mut unread = trunk.is_cut.clone();
        for &id in instance.order().iter().filter(|&&id| !instance.operator(id).phase.is_forward()) {
            for read in &instance.operator(id).implementations[plan.saving[id.index()]].reads {
                unread[read.index()] = false;
            }
        }
        for tensor in instance.tensor_ids().filter(|id| unread[id.index()]) {
            if let Some(maker) = producer(instance, tensor) {
                self.open[self.of[maker.index()]] = true;
            }
        }
    }

    /// A backward operator runs with the forward operator that it differentiates, or as early as it can.
    fn backward_level(&self, instance: &Instance, id: OperatorId, top: usize) -> usize {
        if let Some(forward) = instance.operator(id).differentiates {
            return self.of[forward.index()];
        }
        let makers: Vec<_> = reads(instance, id).filter_map(|t| producer(instance, t)).collect();
        let backward = makers.iter().filter(|m| !instance.operator(**m).phase.is_forward());
        let earliest = backward.map(|m| self.of[m.index()]).min();
        earliest.or_else(|| makers.iter().map(|m| self.of[m.index()]).max()).unwrap_or(top)
    }

    /// Gives up the boundaries between a reader and the maker of what it reads, where the chain model
    /// does not hand such a tensor across.
    fn respect(&mut self, reader: OperatorId, maker: OperatorId, gradient: bool, cut: bool) {
        let (reader, maker) = (self.of[reader.index()], self.of[maker.index()]);
        let (low, high) = match (gradient, cut) {
            // Gradients flow from later stages to earlier ones, across any number of boundaries.
            (true, _) if maker >= reader => return,
            // A stage reads the cut tensor below it, in both passes.
            (false, true) if maker < reader => (maker + 1, reader),
            _ => (maker.min(reader), maker.max(reader)),
        };
        self.open[low..high].fill(true);
    }

    fn stages(&self, instance: &Instance) -> Vec<StageOperators> {
        let mut stage_of_level = vec![0];
        for open in &self.open {
            let stage: usize = stage_of_level.last().copied().unwrap_or(0);
            stage_of_level.push(stage + usize::from(!open));
        }
        let count = stage_of_level.last().map_or(1, |last| last + 1);
        let mut stages = vec![StageOperators::default(); count];
        for &id in instance.order() {
            let stage = &mut stages[stage_of_level[self.of[id.index()]]];
            let forward = instance.operator(id).phase.is_forward();
            if forward { stage.forward.push(id) } else { stage.backward.push(id) }
        }
        stages
    }
}
