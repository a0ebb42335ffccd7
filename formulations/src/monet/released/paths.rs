//! What the blocks of MONeT's program have to do with paths of values (`search/paths.rs`). All nodes first run in stage 0.

use crate::monet::released::coarse::reads;
use crate::monet::released::layout::Layout;
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
use crate::search::paths::{Paths, Section, needs};
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
    let stages = block.first..=block.last;
    let next: Vec<Term> = (0..problem.nodes.len()).map(|node| layout.next_kept(block.last, node)).collect();
    Section {
        before: if block.first == 0 { 0 } else { problem.nodes.len() },
        kept: terms.kept.clone(),
        remade: runs.map(|(node, &run)| (node, Sum::of([(1.0, run)]))).collect(),
        needs: needs(stages.flat_map(|stage| reads(problem, layout, stage)), &next),
    }
}
