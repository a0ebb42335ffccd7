//! Blocks of stages, over which relaxations are stated, and how they are split.

/// A stretch of stages, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First stage.
    pub first: usize,
    /// Last stage.
    pub last: usize,
}

impl Block {
    /// In two, so that the need of a stage is stated exactly: the row of a block's last stage is. Of two stages or more.
    pub fn split_at(self, worst: usize) -> [Self; 2] {
        let last = if worst < self.last { worst } else { worst - 1 };
        [Self { last, ..self }, Self { first: last + 1, ..self }]
    }
}

/// A block for every stage.
pub fn singles(stages: usize) -> Vec<Block> {
    (0..stages).map(|stage| Block { first: stage, last: stage }).collect()
}

/// A block in so many pieces that are about equal, or in single stages where it has no more.
pub fn pieces(block: Block, most: usize) -> impl Iterator<Item = Block> {
    let stages = block.last - block.first + 1;
    let count = most.min(stages);
    let start = move |piece: usize| block.first + stages * piece / count;
    (0..count).map(move |piece| Block { first: start(piece), last: start(piece + 1) - 1 })
}

/// Two blocks that meet at the stage of greatest need, the first of these where needs are known, or else the first of all;
/// one where it is the last stage. At least one stage.
pub fn two(stages: usize, needs: &[u64]) -> Vec<Block> {
    let worst = (0..needs.len()).max_by_key(|&stage| (needs[stage], std::cmp::Reverse(stage))).unwrap_or(0);
    let whole = Block { first: 0, last: stages - 1 };
    if worst < whole.last {
        vec![Block { last: worst, ..whole }, Block { first: worst + 1, ..whole }]
    } else {
        vec![whole]
    }
}

/// Where a block is to be split.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The block's position.
    pub block: usize,
    /// A stage of it.
    pub stage: usize,
}

/// The stages of greatest need of the blocks of several stages of whose position and that need `wanted` says so.
pub fn places(blocks: &[Block], needs: &[u64], wanted: impl Fn(usize, u64) -> bool) -> Vec<Place> {
    let place = |(at, block): (usize, &Block)| {
        let stage = (block.first..=block.last).max_by_key(|&stage| needs[stage])?;
        (block.first < block.last && wanted(at, needs[stage])).then_some(Place { block: at, stage })
    };
    blocks.iter().enumerate().filter_map(place).collect()
}

/// Blocks split at places in their order, one of a block at most.
pub fn split(blocks: &[Block], places: &[Place]) -> Vec<Block> {
    let mut finer = blocks.to_vec();
    for &Place { block, stage } in places.iter().rev() {
        finer.splice(block..=block, blocks[block].split_at(stage));
    }
    finer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_block_and_hold_a_stage_at_least() {
        for (stages, most) in [(1, 8), (5, 2), (7, 3), (8, 8), (9, 20)] {
            let pieces: Vec<Block> = pieces(Block { first: 10, last: 9 + stages }, most).collect();
            assert_eq!(pieces.len(), stages.min(most));
            assert_eq!((pieces[0].first, pieces[pieces.len() - 1].last), (10, 9 + stages));
            assert!(pieces.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
            assert!(pieces.iter().all(|piece| piece.first <= piece.last));
        }
    }

    #[test]
    fn two_blocks_cover_all_stages_whether_needs_are_known_or_not() {
        let block = |first, last| Block { first, last };
        assert_eq!(two(4, &[1, 3, 3, 2]), [block(0, 1), block(2, 3)]);
        assert_eq!(two(4, &[]), [block(0, 0), block(1, 3)]);
        assert_eq!(two(4, &[1, 2, 3, 4]), [block(0, 3)]);
        assert_eq!(two(1, &[]), [block(0, 0)]);
    }
}
