//! Families of lower sets. What a step from one to a larger one costs is in [`super::steps`].

use std::collections::HashSet;

use fixedbitset::FixedBitSet;

use super::graph::Graph;
use crate::search::clock::Clock;

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
/// There are more than `most` of them, or the time is over.
pub fn all(graph: &Graph, most: usize, clock: Clock) -> Result<Vec<FixedBitSet>, Stop> {
    let count = graph.nodes.len();
    let mut sets = vec![FixedBitSet::with_capacity(count)];
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
        if clock.is_over() {
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
fn ready<'a>(graph: &'a Graph, set: &'a FixedBitSet) -> impl Iterator<Item = (usize, &'a super::graph::Node)> {
    let nodes = graph.nodes.iter().enumerate();
    nodes.filter(|(index, node)| !set.contains(*index) && node.predecessors.iter().all(|&p| set.contains(p)))
}

/// L_G^Pruned with the empty set and V: for each node, the nodes from which it is reachable.
pub fn pruned(graph: &Graph) -> Vec<FixedBitSet> {
    let count = graph.nodes.len();
    let mut all = FixedBitSet::with_capacity(count);
    all.insert_range(..);
    let mut sets = graph.reaching.clone();
    sets.extend([FixedBitSet::with_capacity(count), all]);
    sort(&mut sets);
    sets
}

/// Ascending order of size, each set once.
pub fn sort(sets: &mut Vec<FixedBitSet>) {
    sets.sort_by_cached_key(|set| (set.count_ones(..), set.clone()));
    sets.dedup();
}

/// Ascending order of M(L), each set after those that it contains.
pub fn by_bytes(graph: &Graph, sets: &mut [FixedBitSet]) {
    let bytes = |set: &FixedBitSet| set.ones().map(|node| graph.nodes[node].bytes).sum::<u64>();
    sets.sort_by_cached_key(|set| (bytes(set), set.count_ones(..), set.clone()));
}
