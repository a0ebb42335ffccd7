//! What intervals have to do with paths of tensors (`search/paths.rs`).

use super::Intervals;
use crate::free_order::graph::Graph;
use crate::search::paths::{Paths, Section, common, needs};
use crate::search::term::{Sum, Term};

impl Intervals<'_> {
    /// An interval, as rows of paths see it.
    pub(super) fn section(&self, paths: &Paths, interval: usize) -> Section {
        let graph = self.graph;
        let before = interval.checked_sub(1).map(|before| &self.there[before]);
        let home = (0..graph.nodes.len()).filter(|&at| self.homes[at] == Some(interval));
        let reads = home.flat_map(|at| graph.nodes[at].reads.iter().map(move |&tensor| (at, tensor)));
        let reads = reads.map(|(at, tensor)| {
            let ways = self.first_ways(at).filter(|(way, _)| way.basic.reads(tensor));
            (tensor, Sum::of(ways.map(|(_, &own)| (1.0, own))))
        });
        let made = (0..graph.tensors.len()).map(|tensor| (tensor, self.made(interval, tensor)));
        Section {
            before: paths.order.len(),
            kept: before.map_or_else(|| vec![Term::Zero; graph.tensors.len()], Clone::clone),
            remade: made.filter(|(_, made)| !made.is_nothing()).collect(),
            needs: needs(reads, &self.there[interval]),
        }
    }
}

/// The tensors of a graph.
pub(super) fn paths(graph: &Graph) -> Paths {
    let mut order: Vec<usize> = (0..graph.tensors.len()).collect();
    order.sort_by_key(|&tensor| graph.tensors[tensor].producer);
    let reads = |tensor: usize| {
        let ways = graph.nodes[graph.tensors[tensor].producer].ways.iter();
        common(ways.filter(|way| way.basic.makes(tensor)).map(|way| &way.basic.reads[..]))
    };
    Paths { order, reads: (0..graph.tensors.len()).map(reads).collect() }
}
