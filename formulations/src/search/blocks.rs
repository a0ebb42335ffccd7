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

/// Blocks split at their stage of greatest need, where `wanted` says so of a block's position and that need;
/// none if nothing was split.
pub fn split<N: Copy + Ord>(blocks: &[Block], needs: &[N], wanted: impl Fn(usize, N) -> bool) -> Option<Vec<Block>> {
    let mut finer = Vec::with_capacity(blocks.len() + 1);
    for (at, &block) in blocks.iter().enumerate() {
        let worst = (block.first..=block.last).max_by_key(|&stage| needs[stage]).unwrap_or(block.first);
        if block.first < block.last && wanted(at, needs[worst]) {
            finer.extend(block.split_at(worst));
        } else {
            finer.push(block);
        }
    }
    (finer.len() > blocks.len()).then_some(finer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_cover_all_stages_whether_needs_are_known_or_not() {
        let block = |first, last| Block { first, last };
        assert_eq!(two(4, &[1, 3, 3, 2]), [block(0, 1), block(2, 3)]);
        assert_eq!(two(4, &[]), [block(0, 0), block(1, 3)]);
        assert_eq!(two(4, &[1, 2, 3, 4]), [block(0, 3)]);
        assert_eq!(two(1, &[]), [block(0, 0)]);
    }
}
