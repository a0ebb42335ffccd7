//! Which forward operators may become checkpoints: those of a linear network, the articulation points
//! of the forward graph, or all of them in the instance's order. Builds on the joint graph and on
//! petgraph; knows no rule that chooses among candidates.

use std::collections::HashSet;

use petgraph::graph::{NodeIndex, UnGraph};
use remat_core::Instance;
use remat_core::format::TensorKind;

use crate::method::SkipReason;
use crate::staged::graph::ascending;
use crate::staged::joint::Joint;

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
        let forward: Vec<usize> = (0..joint.len())
            .filter(|&position| instance.operator(joint.operators[position].id).phase.is_forward())
            .collect();
        let &last = forward.last().ok_or_else(|| SkipReason("the instance has no forward operator".into()))?;
        let before = predecessors(joint, &forward);
        let roots = roots(instance, joint, &forward);
        let operators = on_paths(&before, &roots, &forward, last);
        let articulation = separators(&before, &roots, &operators, last);
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
                let branches = below_the_loss.len().saturating_sub(graph.articulation.len());
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

/// By position: those of the operators that make what a forward operator reads, each once.
fn predecessors(joint: &Joint, forward: &[usize]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); joint.len()];
    for &position in forward {
        let reads = joint.first(position).reads.iter();
        before[position] = ascending(reads.map(|&value| joint.values[value].producer));
    }
    before
}

/// By position: whether a forward operator reads the network's input and nothing else.
fn roots(instance: &Instance, joint: &Joint, forward: &[usize]) -> Vec<bool> {
    let reads_input = |position: usize| {
        let operator = instance.operator(joint.operators[position].id);
        let mut reads = operator.implementations[joint.first(position).implementation].reads.iter();
        reads.any(|&tensor| instance.tensor(tensor).kind == TensorKind::Input)
    };
    let sources: Vec<_> = forward.iter().copied().filter(|&position| joint.first(position).reads.is_empty()).collect();
    // Published graphs leave the input out.
    let any = sources.iter().any(|&position| reads_input(position));
    let mut roots = vec![false; joint.len()];
    sources.into_iter().filter(|&position| !any || reads_input(position)).for_each(|position| roots[position] = true);
    roots
}

/// The positions on a path from a root to the last operator, ascending: the order is topological.
fn on_paths(before: &[Vec<usize>], roots: &[bool], forward: &[usize], last: usize) -> Vec<usize> {
    let mut below = roots.to_vec();
    for &position in forward {
        below[position] |= before[position].iter().any(|&before| below[before]);
    }
    let mut above = vec![false; before.len()];
    above[last] = true;
    for &position in forward.iter().rev().filter(|&&position| position <= last) {
        if above[position] {
            before[position].iter().for_each(|&before| above[before] = true);
        }
    }
    forward.iter().copied().filter(|&position| below[position] && above[position]).collect()
}

/// The articulation points among some operators, joined with a node above the roots; on paths from there to
/// the last one each of them separates the two.
fn separators(before: &[Vec<usize>], roots: &[bool], operators: &[usize], last: usize) -> Vec<usize> {
    let top = before.len();
    let leads_to = |&position: &usize| {
        let made = before[position].iter().copied().filter(|from| operators.binary_search(from).is_ok());
        made.chain(roots[position].then_some(top)).map(move |from| (from, position))
    };
    let points = articulation_points(operators.iter().flat_map(leads_to));
    operators.iter().copied().filter(|position| points.contains(position) && *position != last).collect()
}

/// The nodes without which a graph, its edges taken both ways, has more parts.
pub fn articulation_points(edges: impl IntoIterator<Item = (usize, usize)>) -> HashSet<usize> {
    let graph = UnGraph::<(), (), usize>::from_edges(edges);
    let points = petgraph::algo::articulation_points::articulation_points(&graph);
    points.into_iter().map(NodeIndex::index).collect()
}
