//! What the blocks of the linear model have to do with paths of values (`search/paths.rs`).

use super::{Linear, some};
use crate::search::blocks::Block;
use crate::search::paths::{Paths, Section, common, needs};
use crate::search::term::Sum;
use crate::staged::graph::Graph;

/// The values of a graph.
pub(super) fn paths(graph: &Graph) -> Paths {
    let mut order: Vec<usize> = (0..graph.values.len()).collect();
    order.sort_by_key(|&value| graph.values[value].producer);
    let reads = |value: usize| {
        let ways = graph.operators[graph.values[value].producer].again.iter();
        common(ways.filter(|way| way.makes(value)).map(|way| &way.reads[..]))
    };
    Paths { order, reads: (0..graph.values.len()).map(reads).collect() }
}

impl Linear<'_> {
    /// A block.
    pub(super) fn section(&self, paths: &Paths, block: usize) -> Section {
        let Block { first, last } = self.blocks[block];
        let producer = |value: &usize| self.graph.values[*value].producer;
        let reads = |stage: usize| {
            let values = self.graph.operators[stage].reads.iter();
            values.map(move |&value| (value, some(self.firsts(stage), true, |way| way.reads(value))))
        };
        Section {
            before: paths.order.partition_point(|value| producer(value) < first),
            kept: self.keep[block].clone(),
            remade: self.remade_in(block),
            needs: needs((first..=last).flat_map(reads), &self.keep[block + 1]),
        }
    }

    fn remade_in(&self, block: usize) -> Vec<(usize, Sum)> {
        let runs = self.again[block].iter().zip(&self.graph.operators).filter(|(terms, _)| !terms.is_empty());
        runs.flat_map(|(_, operator)| &operator.makes).map(|&value| (value, self.remade(block, value))).collect()
    }
}
