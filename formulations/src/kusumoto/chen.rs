//! `kusumoto-chen`: Chen's algorithm as Kusumoto et al. configured it for their comparison.

use std::collections::HashSet;

use remat_core::Instance;

use super::PlanFor;
use super::graph::Graph;
use super::steps::LastGroup;
use super::strategy::{self, Liveness};
use crate::chen::{candidates, rules};
use crate::method::claim::Runs;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use crate::search::sweep::Sweep;
use crate::settings;

/// Segments between articulation points, each recomputed once.
///
/// # Problem
/// Chen et al.'s memory planning (Algorithm 3 there): along a topological order, a segment ends at the first
/// candidate splitting point after more than b bytes; what the splitting points make is kept, the rest is
/// recomputed, segment by segment. b decides between memory and the number of splits.
///
/// # Variables
/// b; every value that leads to another segmentation is tried.
///
/// # Constraints
/// Appendix B of kusumoto-neurips-2019: the order is that of a depth-first search of the forward graph, the
/// candidates are its articulation points: nodes without which it falls apart.
///
/// # Size
/// O(V + E) for the articulation points, then one simulation per segmentation.
///
/// # Departures from the paper
/// Nodes, edges and sizes are those of `kusumoto-2019`, and so is the execution: forward, what crosses the
/// end of a segment is kept (the splitting point, and what else the order leads across); backward, each
/// segment, the last one too, is recomputed once. The text does not say which b was
/// taken; here, for a budget, that of the fastest schedule whose simulated peak meets it (`budget=given`),
/// or of the one with the least peak (`budget=least`).
///
/// # Claim
/// Heuristic.
///
/// # Reference
/// Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, Algorithm 3;
/// kusumoto-neurips-2019, Appendix B.
pub struct KusumotoChen;

/// Where b leads to more segmentations, so many of them are tried, evenly spread.
const MOST_SEGMENTATIONS: usize = 1000;

impl Method for KusumotoChen {
    fn about(&self) -> About {
        About {
            id: "kusumoto-chen",
            title: "Chen's segments between articulation points, as Kusumoto et al. ran them",
            reference: "kusumoto-neurips-2019, Appendix B; Chen et al. 2016, Algorithm 3",
            parameters: settings![Liveness, PlanFor, LastGroup],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(Class { runs: Runs::AtMost(2), ..Class::ALL })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Graph::new(instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let (instance, parameters) = (context.instance, context.parameters);
        let mut sweep = Sweep::new(context).by(match parameters.get::<PlanFor>() {
            PlanFor::Least => |cost| (cost.peak_bytes, cost.time),
            PlanFor::Given => |cost| (cost.time, cost.peak_bytes),
        });
        let graph = Graph::new(instance)?;
        let segmentations = segmentations(&graph);
        sweep.end_building();
        let (liveness, last_group) = (parameters.get::<Liveness>(), parameters.get::<LastGroup>());
        for Segmentation { group_of, segments } in segmentations {
            if sweep.is_over() {
                break;
            }
            let schedule = strategy::schedule(instance, &graph, &group_of, last_group, liveness);
            sweep.offer(&schedule, &format!("{segments} segments"))?;
        }
        let words = format!("{} segmentations", sweep.tried());
        sweep.answer(&words);
        Ok(())
    }
}

/// Which segment each node is in, ascending along the order of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// By node.
    pub group_of: Vec<usize>,
    /// How many segments there are.
    pub segments: usize,
}

/// Those of every b that leads to other segments, where there are very many some of them, from coarse to fine.
pub fn segmentations(graph: &Graph) -> Vec<Segmentation> {
    let order = depth_first_order(graph);
    let points = articulation_points(graph);
    let last = order.len() - 1;
    let candidates: Vec<usize> = (0..last).filter(|&position| points.contains(&order[position])).collect();
    let sizes: Vec<u64> = order.iter().map(|&node| graph.nodes[node].bytes).collect();
    let segmentation = |bytes: u64| {
        let ends = rules::greedy(&candidates, &sizes, bytes);
        let mut group_of = vec![0; order.len()];
        for (position, &node) in order.iter().enumerate() {
            group_of[node] = ends.partition_point(|&end| end < position);
        }
        Segmentation { group_of, segments: ends.len() + 1 }
    };
    rules::spread(rules::thresholds(&candidates, &sizes), MOST_SEGMENTATIONS).into_iter().map(segmentation).collect()
}

/// A topological order: the reverse of the order in which a depth-first search leaves the nodes.
pub fn depth_first_order(graph: &Graph) -> Vec<usize> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut left = Vec::with_capacity(seen.len());
    for root in (0..seen.len()).filter(|&node| graph.nodes[node].predecessors.is_empty()) {
        let mut path = vec![(root, 0)];
        seen[root] = true;
        while let Some((node, position)) = path.pop() {
            let Some(&next) = graph.nodes[node].successors.get(position) else {
                left.push(node);
                continue;
            };
            path.push((node, position + 1));
            if !std::mem::replace(&mut seen[next], true) {
                path.push((next, 0));
            }
        }
    }
    left.reverse();
    left
}

/// The nodes without which the graph, its edges taken both ways, has more parts.
pub fn articulation_points(graph: &Graph) -> HashSet<usize> {
    let nodes = graph.nodes.iter().enumerate();
    candidates::articulation_points(nodes.flat_map(|(from, node)| node.successors.iter().map(move |&to| (from, to))))
}
