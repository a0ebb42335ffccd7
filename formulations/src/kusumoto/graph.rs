//! The forward graph as the paper sees it: nodes with a size and a time, and what the backward pass of
//! a traced instance adds to that picture.

use fixedbitset::FixedBitSet;
use remat_core::format::TensorKind;
use remat_core::instance::{Instance, OperatorId, TensorId};
use remat_core::plan::Plan;

use crate::method::SkipReason;
use crate::staged::graph::ascending;
use crate::store_all::out_of_place;

/// Most forward operators: each has a set of others, a bit for each.
const MOST_NODES: usize = 20_000;

/// A forward operator.
#[derive(Clone, Debug)]
pub struct Node {
    /// The operator.
    pub operator: OperatorId,
    /// M_v: bytes of all that it makes, results of the iteration left out.
    pub bytes: u64,
    /// T_v from the instance: what running it twice takes longer than running it once.
    pub time: u64,
    /// Whether all that it makes stays for the whole iteration, so that nothing is left to recompute.
    pub only_results: bool,
    /// Largest workspace of its runs and of the backward operators that may run with it.
    pub workspace: u64,
    /// delta+({v}), ascending.
    pub successors: Vec<usize>,
    /// delta-({v}), ascending.
    pub predecessors: Vec<usize>,
}

/// A backward operator.
#[derive(Clone, Debug)]
pub struct Backward {
    /// The operator.
    pub operator: OperatorId,
    /// It runs in the first group (groups go backwards) that holds one of these nodes: the one that it
    /// differentiates, or for a sum of gradients those whose gradients it sums.
    pub after: Vec<usize>,
}

/// A tensor that is there at the end, or that backward operators read and that outlives, or may outlive, a group.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Size.
    pub bytes: u64,
    /// Maker, a position in [`Graph::backward`] for gradients, in [`Graph::nodes`] for forward tensors.
    pub maker: usize,
    /// Readers, positions in [`Graph::backward`].
    pub readers: Vec<usize>,
}

/// An instance as nodes.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Forward operators in the instance's order.
    pub nodes: Vec<Node>,
    /// Backward operators in the instance's order.
    pub backward: Vec<Backward>,
    /// Gradients that are no results.
    pub gradients: Vec<Carried>,
    /// Forward tensors that a backward operator reads whose node comes before the tensor's.
    pub late: Vec<Carried>,
    /// Results made by backward operators.
    pub results: Vec<Carried>,
    /// Fixed bytes, inputs, and results made by forward operators.
    pub base_bytes: u64,
    /// The nodes from which each node is reachable, itself included: L^v.
    pub reaching: Vec<FixedBitSet>,
    /// Implementations.
    pub plan: Plan,
}

impl Graph {
    /// Reads an instance.
    ///
    /// # Errors
    /// An operator may not be recomputed, or runs in place only, or the backward pass does not follow the forward graph.
    pub fn new(instance: &Instance) -> Result<Self, SkipReason> {
        Builder::new(instance)?.build()
    }

    /// Whether a backward operator has run once all groups outside of a lower set are done.
    pub fn is_done(&self, backward: usize, set: &FixedBitSet) -> bool {
        self.backward[backward].after.iter().all(|&node| !set.contains(node))
    }

    /// delta+(L) \ L, as members of a set.
    pub fn beyond(&self, set: &FixedBitSet) -> FixedBitSet {
        let mut beyond = FixedBitSet::with_capacity(self.nodes.len());
        for successor in set.ones().flat_map(|node| &self.nodes[node].successors) {
            if !set.contains(*successor) {
                beyond.insert(*successor);
            }
        }
        beyond
    }

    /// The boundary of a lower set: its nodes with an edge out of it.
    pub fn boundary(&self, set: &FixedBitSet) -> FixedBitSet {
        let leaves = |&node: &usize| self.nodes[node].successors.iter().any(|&next| !set.contains(next));
        let mut boundary = FixedBitSet::with_capacity(self.nodes.len());
        set.ones().filter(leaves).for_each(|node| boundary.insert(node));
        boundary
    }
}

struct Builder<'a> {
    instance: &'a Instance,
    graph: Graph,
    /// Node of each forward operator.
    node_of: Vec<Option<usize>>,
    /// Position of each backward operator.
    backward_of: Vec<Option<usize>>,
}

impl<'a> Builder<'a> {
    fn new(instance: &'a Instance) -> Result<Self, SkipReason> {
        let plan = Plan::fastest(instance);
        out_of_place(instance, &plan)?;
        let mut node_of = vec![None; instance.operators().len()];
        let mut backward_of = vec![None; instance.operators().len()];
        let mut nodes = Vec::new();
        let mut backward = Vec::new();
        for &id in instance.order() {
            if instance.operator(id).phase.is_forward() {
                node_of[id.index()] = Some(nodes.len());
                nodes.push(node(instance, &plan, id)?);
            } else {
                backward_of[id.index()] = Some(backward.len());
                backward.push(Backward { operator: id, after: Vec::new() });
            }
        }
        if nodes.is_empty() {
            return Err(SkipReason("the instance has no forward operator".into()));
        }
        if nodes.len() > MOST_NODES {
            let count = nodes.len();
            return Err(SkipReason(format!("{count} forward operators are more than the {MOST_NODES} that it takes")));
        }
        let graph = Graph {
            nodes,
            backward,
            gradients: Vec::new(),
            late: Vec::new(),
            results: Vec::new(),
            base_bytes: instance.base_bytes(),
            reaching: Vec::new(),
            plan,
        };
        Ok(Self { instance, graph, node_of, backward_of })
    }

    fn build(mut self) -> Result<Graph, SkipReason> {
        for node in 0..self.graph.nodes.len() {
            self.forward_edges(node)?;
        }
        for index in 0..self.graph.backward.len() {
            self.attach(index)?;
        }
        self.graph.reaching = reaching(&self.graph.nodes);
        self.tensors();
        self.check()?;
        Ok(self.graph)
    }

    fn maker_node(&self, tensor: TensorId) -> Option<usize> {
        self.node_of[self.instance.tensor(tensor).producer?.index()]
    }

    fn maker_backward(&self, tensor: TensorId) -> Option<usize> {
        self.backward_of[self.instance.tensor(tensor).producer?.index()]
    }

    fn reads(&self, index: usize) -> &'a [TensorId] {
        let id = self.graph.backward[index].operator;
        &self.instance.operator(id).implementations[self.graph.plan.saving[id.index()]].reads
    }

    fn name(&self, index: usize) -> &'a str {
        &self.instance.operator(self.graph.backward[index].operator).name
    }

    fn edge(&mut self, from: usize, to: usize) {
        let nodes = &mut self.graph.nodes;
        if let Err(position) = nodes[from].successors.binary_search(&to) {
            nodes[from].successors.insert(position, to);
        }
        if let Err(position) = nodes[to].predecessors.binary_search(&from) {
            nodes[to].predecessors.insert(position, from);
        }
    }

    fn forward_edges(&mut self, node: usize) -> Result<(), SkipReason> {
        let instance = self.instance;
        let id = self.graph.nodes[node].operator;
        let plan = &self.graph.plan;
        let firsts = [plan.passing[id.index()], plan.saving[id.index()]];
        for variant in variants(plan, id) {
            for &read in &instance.operator(id).implementations[variant].reads {
                let Some(maker) = self.maker_node(read) else { continue };
                let made_by = self.graph.nodes[maker].operator;
                let passing = self.graph.plan.passing[made_by.index()];
                if firsts.contains(&variant) && !instance.operator(made_by).makes(passing).any(|made| made == read) {
                    return Err(SkipReason(format!(
                        "forward operator {} reads what {} makes only where it saves, and a group that is recomputed does not",
                        instance.operator(id).name,
                        instance.operator(made_by).name
                    )));
                }
                self.edge(maker, node);
            }
        }
        Ok(())
    }

    /// Where a backward operator runs, and the edges that what it reads asks for.
    fn attach(&mut self, index: usize) -> Result<(), SkipReason> {
        let id = self.graph.backward[index].operator;
        let reads = self.reads(index);
        let forward: Vec<usize> = reads.iter().filter_map(|&t| self.maker_node(t)).collect();
        let gradients: Vec<usize> = reads.iter().filter_map(|&t| self.maker_backward(t)).collect();
        let differentiated = self.instance.operator(id).differentiates.and_then(|f| self.node_of[f.index()]);
        let after = match (differentiated, gradients.is_empty()) {
            (Some(node), _) => vec![node],
            (None, true) => vec![forward.iter().copied().max().unwrap_or(self.graph.nodes.len() - 1)],
            (None, false) if forward.is_empty() => {
                ascending(gradients.iter().flat_map(|&maker| &self.graph.backward[maker].after).copied())
            }
            (None, false) => {
                return Err(SkipReason(format!(
                    "backward operator {} reads activations and gradients but differentiates no operator",
                    self.name(index)
                )));
            }
        };
        let workspace = self.instance.operator(id).implementations[self.graph.plan.saving[id.index()]].workspace_bytes;
        for &node in &after {
            let node = &mut self.graph.nodes[node];
            node.workspace = node.workspace.max(workspace);
        }
        // What is read must be cached where the reader's group does not recompute it.
        for &maker in forward.iter().filter(|&&maker| maker < after[0]) {
            self.edge(maker, after[0]);
        }
        self.graph.backward[index].after = after;
        Ok(())
    }

    fn tensors(&mut self) {
        let instance = self.instance;
        let mut readers = vec![Vec::new(); instance.tensors().len()];
        for index in 0..self.graph.backward.len() {
            for read in self.reads(index) {
                readers[read.index()].push(index);
            }
        }
        for id in instance.tensor_ids() {
            let bytes = instance.tensor(id).bytes;
            let readers = std::mem::take(&mut readers[id.index()]);
            match (self.maker_backward(id), self.maker_node(id)) {
                (Some(maker), _) => {
                    let result = instance.is_result(id);
                    let list = if result { &mut self.graph.results } else { &mut self.graph.gradients };
                    list.push(Carried { bytes, maker, readers });
                }
                (_, Some(_)) if instance.is_result(id) => self.graph.base_bytes += bytes,
                (_, Some(maker)) => {
                    let before = |&reader: &usize| self.graph.backward[reader].after[0] < maker;
                    let readers: Vec<_> = readers.into_iter().filter(before).collect();
                    if !readers.is_empty() {
                        self.graph.late.push(Carried { bytes, maker, readers });
                    }
                }
                (None, None) => debug_assert_eq!(instance.tensor(id).kind, TensorKind::Input),
            }
        }
    }

    /// Gradients flow against the forward edges, whatever the groups, and sums of sizes stay in range.
    fn check(&self) -> Result<(), SkipReason> {
        let graph = &self.graph;
        let tensors = self.instance.tensors().iter().map(|tensor| u128::from(tensor.bytes));
        let workspace = graph.nodes.iter().map(|node| u128::from(node.workspace)).max().unwrap_or(0);
        let all = tensors.sum::<u128>() + workspace + u128::from(self.instance.fixed_bytes());
        if 8 * all > u128::from(super::steps::MOST) {
            return Err(SkipReason(format!("{all} bytes are more than the program's sums hold")));
        }
        let follows = |reader: usize, node: usize| {
            // A sum runs in the same group as the last of what it sums, or a later one.
            let after = &graph.backward[reader].after;
            after.contains(&node) || after.iter().any(|&reader| graph.reaching[node].contains(reader))
        };
        let gradients = graph.gradients.iter().chain(&graph.results);
        let carried = gradients.map(|t| (graph.backward[t.maker].after.clone(), &t.readers));
        for (makers, readers) in carried.chain(graph.late.iter().map(|t| (vec![t.maker], &t.readers))) {
            for &reader in readers {
                if !makers.iter().all(|&maker| follows(reader, maker)) {
                    return Err(SkipReason(format!(
                        "backward operator {} reads what does not come after its own operator in the forward graph",
                        self.name(reader)
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Implementations of a forward operator that a strategy may use.
fn variants(plan: &Plan, id: OperatorId) -> Vec<usize> {
    let at = id.index();
    [Some(plan.saving[at]), Some(plan.passing[at]), plan.saving_again[at]].into_iter().flatten().collect()
}

fn node(instance: &Instance, plan: &Plan, id: OperatorId) -> Result<Node, SkipReason> {
    let operator = instance.operator(id);
    let variants = variants(plan, id);
    let made = ascending(variants.iter().flat_map(|&v| operator.makes(v)));
    let transient: Vec<_> = made.into_iter().filter(|&t| !instance.is_result(t)).collect();
    let time = |v: usize| operator.implementations[v].time;
    let Some(again) = plan.saving_again[id.index()] else {
        let name = &operator.name;
        return Err(SkipReason(format!("operator {name} cannot be recomputed, and the method recomputes any node")));
    };
    let first = time(plan.passing[id.index()]) + time(again);
    let time = if transient.is_empty() { 0 } else { first.saturating_sub(time(plan.saving[id.index()])) };
    Ok(Node {
        operator: id,
        only_results: transient.is_empty(),
        bytes: transient.iter().map(|&t| instance.tensor(t).bytes).sum(),
        time,
        workspace: variants.iter().map(|&v| operator.implementations[v].workspace_bytes).max().unwrap_or(0),
        successors: Vec::new(),
        predecessors: Vec::new(),
    })
}

fn reaching(nodes: &[Node]) -> Vec<FixedBitSet> {
    let mut sets: Vec<FixedBitSet> = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let mut set = FixedBitSet::with_capacity(nodes.len());
        set.insert(index);
        for &predecessor in &node.predecessors {
            set.union_with(&sets[predecessor]);
        }
        sets.push(set);
    }
    sets
}
