//! What the blocks of the linear model have to do with paths of values (`search/paths.rs`).

use super::{Linear, some};
use crate::search::paths::{Paths, Section, common};
use crate::search::term::{Sum, Term};
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
    pub(super) fn section(&self, block: usize) -> Section {
        let first = self.blocks[block].first;
        let producer = |value: &usize| self.graph.values[*value].producer;
        Section {
            before: self.paths.order.partition_point(|value| producer(value) < first),
            kept: self.keep[block].clone(),
            remade: self.remade_in(block),
            needs: self.needed(block),
        }
    }

    fn remade_in(&self, block: usize) -> Vec<(usize, Sum)> {
        let runs = self.again[block].iter().zip(&self.graph.operators).filter(|(terms, _)| !terms.is_empty());
        runs.flat_map(|(_, operator)| &operator.makes).map(|&value| (value, self.remade(block, value))).collect()
    }

    /// What first runs of a block read, and else what is kept beyond it.
    fn needed(&self, block: usize) -> Vec<(usize, Sum)> {
        let stages = self.blocks[block].first..=self.blocks[block].last;
        let mut certain = vec![false; self.graph.values.len()];
        let mut needs = Vec::new();
        for stage in stages {
            for &value in &self.graph.operators[stage].reads {
                let reads = some(self.firsts(stage), true, |way| way.reads(value));
                if !certain[value] && !reads.is_nothing() {
                    certain[value] = reads.is_certain();
                    needs.push((value, reads));
                }
            }
        }
        let kept = (0..certain.len()).filter(|&value| !certain[value] && self.keep[block + 1][value] != Term::Zero);
        needs.extend(kept.map(|value| (value, Sum::of([(1.0, self.keep[block + 1][value])]))));
        needs
    }
}
