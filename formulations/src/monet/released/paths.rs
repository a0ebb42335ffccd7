//! What the blocks of MONeT's program have to do with paths of values (`search/paths.rs`). All nodes first run in stage 0.

use crate::monet::released::coarse::reads;
use crate::monet::released::layout::Layout;
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
use crate::search::paths::{Paths, Section};
use crate::search::term::{Sum, Term};

/// The nodes of a problem, by their values.
pub fn paths(problem: &Problem) -> Paths {
    let reads = problem.nodes.iter().map(|node| node.inputs.clone()).collect();
    Paths { order: (0..problem.nodes.len()).collect(), reads }
}

/// A block.
pub fn section(problem: &Problem, layout: &Layout, block: Block) -> Section {
    let terms = &layout.stages[block.first];
    let runs = terms.run.iter().enumerate().filter(|&(_, &run)| run != Term::Zero);
    Section {
        before: if block.first == 0 { 0 } else { problem.nodes.len() },
        kept: terms.kept.clone(),
        remade: runs.map(|(node, &run)| (node, Sum::of([(1.0, run)]))).collect(),
        needs: needs(problem, layout, block),
    }
}

/// What backward operators of a block read, and else what is kept beyond it.
fn needs(problem: &Problem, layout: &Layout, block: Block) -> Vec<(usize, Sum)> {
    let mut certain = vec![false; problem.nodes.len()];
    let mut needs = Vec::new();
    for stage in block.first..=block.last {
        for (node, read) in reads(problem, layout, stage) {
            if !certain[node] && !read.is_nothing() {
                certain[node] = read.is_certain();
                needs.push((node, read));
            }
        }
    }
    let next = |node: usize| layout.next_kept(block.last, node);
    let kept = (0..certain.len()).filter(|&node| !certain[node] && next(node) != Term::Zero);
    needs.extend(kept.map(|node| (node, Sum::of([(1.0, next(node))]))));
    needs
}
