//! Short blocks of backward stages, where schedules are looked for.

use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;

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
