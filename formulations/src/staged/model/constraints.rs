//! The rows of the linear model other than memory: choices, dependencies, retention, what is overwritten.

use super::{Linear, some};
use crate::search::blocks::Block;
use crate::search::term::Sum;
use crate::staged::graph::ascending;

impl Linear<'_> {
    /// One way of each first run; one of each later run at most, where the block is one stage.
    pub(super) fn choices(&mut self, block: usize) {
        let Block { first, last } = self.blocks[block];
        for position in first..=last {
            if self.own[position].len() > 1 {
                let sum = Sum::of(self.own[position].iter().map(|&term| (1.0, term)));
                self.model.equal(1.0, sum.terms);
            }
        }
        if first == last {
            for position in 0..first {
                if self.again[block][position].len() > 1 {
                    self.row(Sum::of(self.again[block][position].iter().map(|&term| (1.0, term))), 1.0);
                }
            }
        }
    }

    /// Equation 1b of Checkmate: what runs finds what it reads, made in the block or kept into it.
    pub(super) fn dependencies(&mut self, block: usize) {
        let graph = self.graph;
        for position in 0..=self.blocks[block].last {
            for &value in &graph.operators[position].reads {
                let there = self.made(block, value).plus(1.0, &Sum::of([(1.0, self.keep[block][value])]));
                if there.is_certain() {
                    continue;
                }
                let own =
                    self.is_own(block, position).then(|| some(self.firsts(position), true, |way| way.reads(value)));
                let again = some(self.agains(block, position), false, |way| way.reads(value));
                for reads in own.into_iter().chain([again]).filter(|reads| !reads.is_nothing()) {
                    self.row(reads.plus(-1.0, &there), 0.0);
                }
            }
        }
    }

    /// Equation 1c: what is kept beyond the block was made in it or kept into it.
    pub(super) fn retention(&mut self, block: usize) {
        let last = self.blocks[block].last;
        for value in (0..self.graph.values.len()).filter(|&value| self.graph.values[value].producer <= last) {
            let next = Sum::of([(1.0, self.keep[block + 1][value])]);
            let there = self.made(block, value).plus(1.0, &Sum::of([(1.0, self.keep[block][value])]));
            if !next.is_nothing() && !there.is_certain() {
                self.row(next.plus(-1.0, &there), 0.0);
            }
        }
    }

    /// What is overwritten is read by nothing later in the stage, and not kept beyond it.
    pub(super) fn in_place(&mut self, block: usize) {
        let graph = self.graph;
        let stage = self.blocks[block].first;
        for position in 0..=stage {
            let ways = graph.ways(stage, position).iter();
            let targets = ascending(ways.filter_map(|way| way.over));
            for target in targets {
                let over = self.some_at(block, position, |way| way.over == Some(target));
                if over.is_nothing() {
                    continue;
                }
                self.row(over.clone().plus(1.0, &Sum::of([(1.0, self.keep[block + 1][target])])), 1.0);
                let readers = &graph.values[target].readers;
                for &reader in readers.iter().filter(|&&reader| reader > position && reader <= stage) {
                    let reads = self.some_at(block, reader, |way| way.reads(target));
                    if !reads.is_nothing() {
                        self.row(over.clone().plus(1.0, &reads), 1.0);
                    }
                }
            }
        }
    }
}
