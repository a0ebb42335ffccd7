//! How backward stages lie together in blocks: two at the beginning, short ones where schedules are looked for, and
//! blocks split where a solution says so.

use crate::checkmate::coarse::Block;
use crate::monet::decisions::Decisions;
use crate::monet::problem::Problem;

/// The forward pass, and all the rest.
pub fn first_blocks(problem: &Problem) -> Vec<Block> {
    let mut blocks = vec![Block { first: 0, last: 0 }];
    if problem.stages.len() > 1 {
        blocks.push(Block { first: 1, last: problem.stages.len() - 1 });
    }
    blocks
}

/// Stages together as long as what they read is no more than a part of the capacity.
pub fn short_blocks(problem: &Problem, capacity: i64, share: f64) -> Vec<Block> {
    let mut blocks = vec![Block { first: 0, last: 0 }];
    let mut union: Vec<usize> = Vec::new();
    for stage in 1..problem.stages.len() {
        let reads = problem.stages[stage].reads();
        union.extend(reads.iter().filter(|read| !union.contains(read)).copied().collect::<Vec<_>>());
        let bytes: i64 = union.iter().map(|&node| problem.nodes[node].bytes).sum();
        let block = blocks.last_mut().filter(|block| block.first > 0 && bytes as f64 <= share * capacity as f64);
        if let Some(block) = block {
            block.last = stage;
        } else {
            blocks.push(Block { first: stage, last: stage });
            union = reads;
        }
    }
    blocks
}

/// Blocks split at their stage of greatest need, where `wanted` says so of block and need; none if nothing was
/// split.
pub fn split(blocks: &[Block], said: &Decisions, wanted: impl Fn(usize, i64) -> bool) -> Option<Vec<Block>> {
    let mut finer = Vec::with_capacity(blocks.len() + 1);
    for (at, &block) in blocks.iter().enumerate() {
        let worst = (block.first..=block.last).max_by_key(|&stage| said.stages[stage].peak).unwrap_or(block.first);
        if block.first == block.last || !wanted(at, said.stages[worst].peak) {
            finer.push(block);
            continue;
        }
        finer.extend(block.split_at(worst));
    }
    (finer.len() > blocks.len()).then_some(finer)
}
