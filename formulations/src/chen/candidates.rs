//! Which forward operators may become checkpoints: those of a linear network, the articulation points
//! of the forward graph, or all of them in the instance's order. Builds on the joint graph and on
//! petgraph; knows no rule that chooses among candidates.

use petgraph::Direction;
use petgraph::algo::articulation_points::articulation_points;
use petgraph::graph::{DiGraph, NodeIndex, UnGraph};
use petgraph::visit::{Dfs, Reversed};
use remat_core::Instance;
use remat_core::format::TensorKind;

use crate::checkmate::joint::Joint;
use crate::method::SkipReason;

/// Which operators are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Every operator of a network without branches; no other network.
    Linear,
    /// Articulation points of the forward graph.
    ArticulationPoints,
    /// Every operator, in the instance's order.
    Linearized,
}

/// The forward operators that lie on a path from the network's input to its last operator.
///
/// What hangs on the network without being on such a path (constants, counters, masks made of
/// constants) would make its neighbours articulation points that cut nothing.
#[derive(Clone, Debug)]
pub struct ForwardGraph {
    /// Positions in the instance's order, ascending; the last one is the loss.
    pub operators: Vec<usize>,
    /// Those of `operators`, the last one excepted, through which every path leads; ascending.
    pub articulation: Vec<usize>,
}

impl ForwardGraph {
    /// The forward graph of an instance.
    ///
    /// # Errors
    /// There is no forward operator.
    pub fn new(instance: &Instance, joint: &Joint) -> Result<Self, SkipReason> {
        let forward = forward_positions(instance, joint);
        let &last = forward.last().ok_or_else(|| SkipReason("the instance has no forward operator".into()))?;
        let (graph, root) = directed(instance, joint, &forward);
        let operators = on_paths(&graph, root, last);
        let articulation = separators(&graph, root, &operators, last);
        Ok(Self { operators, articulation })
    }

    /// Whether every path from the input to the loss is the same.
    pub fn is_linear(&self) -> bool {
        self.articulation.len() + 1 == self.operators.len()
    }
}

impl Candidates {
    /// The candidates, by position in the instance's order, ascending.
    ///
    /// # Errors
    /// The network has none of this kind.
    pub fn of(self, graph: &ForwardGraph) -> Result<Vec<usize>, SkipReason> {
        let below_the_loss = &graph.operators[..graph.operators.len().saturating_sub(1)];
        let found = match self {
            Self::Linear if !graph.is_linear() => {
                let branches = graph.operators.len() - 1 - graph.articulation.len();
                return Err(SkipReason(format!(
                    "the network is not linear: {branches} of its {} operators below the loss lie beside other paths",
                    below_the_loss.len()
                )));
            }
            Self::Linear | Self::Linearized => below_the_loss.to_vec(),
            Self::ArticulationPoints => graph.articulation.clone(),
        };
        if found.is_empty() {
            return Err(SkipReason("no forward operator below the loss can be a checkpoint".into()));
        }
        Ok(found)
    }
}

fn forward_positions(instance: &Instance, joint: &Joint) -> Vec<usize> {
    let is_forward = |&position: &usize| instance.operator(joint.operators[position].id).phase.is_forward();
    (0..joint.len()).filter(is_forward).collect()
}

/// Forward operators by position, and a root above those that read the network's input.
fn directed(instance: &Instance, joint: &Joint, forward: &[usize]) -> (DiGraph<(), ()>, NodeIndex) {
    let mut graph = DiGraph::new();
    for _ in 0..joint.len() {
        graph.add_node(());
    }
    let root = graph.add_node(());
    for &position in forward {
        for &value in &joint.operators[position].first.reads {
            let producer = joint.values[value].producer;
            graph.update_edge(NodeIndex::new(producer), NodeIndex::new(position), ());
        }
    }
    let reads_input = |position: usize| {
        let operator = instance.operator(joint.operators[position].id);
        let mut reads = operator.implementations[joint.operators[position].first.implementation].reads.iter();
        reads.any(|&tensor| instance.tensor(tensor).kind == TensorKind::Input)
    };
    let sources: Vec<_> =
        forward.iter().copied().filter(|&position| joint.operators[position].first.reads.is_empty()).collect();
    let mut roots: Vec<_> = sources.iter().copied().filter(|&position| reads_input(position)).collect();
    if roots.is_empty() {
        // Published graphs leave the input out.
        roots = sources;
    }
    for position in roots {
        graph.add_edge(root, NodeIndex::new(position), ());
    }
    (graph, root)
}

/// The positions on a path from the root to the last operator.
fn on_paths(graph: &DiGraph<(), ()>, root: NodeIndex, last: usize) -> Vec<usize> {
    let mut below = vec![false; graph.node_count()];
    let mut search = Dfs::new(graph, root);
    while let Some(node) = search.next(graph) {
        below[node.index()] = true;
    }
    let mut operators = Vec::new();
    let mut search = Dfs::new(Reversed(graph), NodeIndex::new(last));
    while let Some(node) = search.next(Reversed(graph)) {
        if below[node.index()] && node != root {
            operators.push(node.index());
        }
    }
    operators.sort_unstable();
    operators
}

/// The articulation points among some operators, joined with the root; on paths from root to last each
/// of them separates the two.
fn separators(graph: &DiGraph<(), ()>, root: NodeIndex, operators: &[usize], last: usize) -> Vec<usize> {
    let mut undirected = UnGraph::<(), ()>::with_capacity(operators.len() + 1, operators.len());
    let mut node_of = vec![None; graph.node_count()];
    for &position in operators.iter().chain([&root.index()]) {
        node_of[position] = Some(undirected.add_node(()));
    }
    for &position in operators {
        for before in graph.neighbors_directed(NodeIndex::new(position), Direction::Incoming) {
            if let (Some(from), Some(to)) = (node_of[before.index()], node_of[position]) {
                undirected.update_edge(from, to, ());
            }
        }
    }
    let points = articulation_points(&undirected);
    let is_point = |position: &&usize| node_of[**position].is_some_and(|node| points.contains(&node));
    operators.iter().filter(is_point).copied().filter(|&position| position != last).collect()
}
