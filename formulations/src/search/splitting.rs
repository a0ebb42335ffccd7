//! Where blocks of stages are split: not always at the stage of greatest need. Relaxations without integrality say where. In small
//! networks it is where memory holds up the bound over pieces of the blocks. In large ones it is where the bound with one block
//! split is higher, as far as there is time to look.

use remat_solvers::{Outcome, Stop};

use crate::method::MethodError;
use crate::search::blocks::{Block, Place, pieces, split};
use crate::search::clock::{Clock, Pace};
use crate::search::incumbent::Incumbent;
use crate::search::problem::Staged;
use crate::search::refinement::{Round, size};
use crate::search::separation::{Pass, Relaxation, Solving, Terms, separate};

/// Pieces of a block, at least and at most: the relaxation over fewer says no better than the need where to split.
const PIECES: [usize; 2] = [5, 8];
/// Pieces times columns up to which the relaxation over them is solved within a second or so.
const FEW: usize = 1_500;
/// Pieces are of use as long as they raise their bound by one of so many parts of the gap.
const RAISES: u64 = 50;
/// A block stays whole for now where memory at another stage holds up more than so many times as much of the bound.
const HEAVIER: f64 = 8.0;

/// Stages from which on looking is worth its time: with fewer, all blocks that exceed the budget can be split at once.
const MANY: usize = 500;
/// Places that are looked at after those of greatest need, in eighths of a block of so many stages or more.
const EIGHTHS: [usize; 5] = [7, 6, 4, 2, 1];
/// A block stays whole for now where another one's place raises the bound by more than so many times as much.
const TIMES: u64 = 5;
/// Parts of the time that is left, of which one may be spent on looking: at first, at least, and beyond which it has no use.
const PARTS: [u32; 3] = [12, 8, 48];
/// Looking pays where it raises the bound by one of so many parts of the gap.
const PAYS: u64 = 100;

/// Looks for places to split blocks at.
pub struct Splitter<'i, 'p, P: Staged> {
    incumbent: &'i Incumbent<'p, P>,
    solving: Solving,
    /// The bound over the last pieces; none once they are of no more use.
    pieces: Option<u64>,
    /// Parts of the time that is left, of which one may be spent on looking; the fewer, the more that gained.
    parts: u32,
}

impl<'i, 'p, P: Staged> Splitter<'i, 'p, P> {
    /// One for an incumbent.
    pub fn new(incumbent: &'i Incumbent<'p, P>, solving: Solving) -> Self {
        Self { incumbent, solving, pieces: Some(0), parts: PARTS[0] }
    }

    /// The blocks of a relaxation split at some places, or better ones of the same blocks; without a block where that would gain
    /// little beside another one.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn split(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        blocks: &[Block],
        mut places: Vec<Place>,
        clock: &Clock,
        pace: &Pace,
    ) -> Result<Vec<Block>, MethodError> {
        let problem = self.incumbent.judge;
        if problem.stages() >= MANY {
            let clock = clock.share(self.parts);
            if self.parts <= PARTS[2] && pace.allows(size(problem, blocks.len() + 1), &clock) {
                self.look(relaxation, blocks, &mut places, &clock)?;
            }
            return Ok(split(blocks, &places));
        }
        let [least, most] = PIECES;
        let count = most.min(FEW / problem.columns().max(1) / blocks.len());
        if count >= least {
            let pieces: Vec<Block> = blocks.iter().flat_map(|&block| pieces(block, count)).collect();
            let weights = self.weights(relaxation, &pieces, &clock.share(PARTS[0]))?;
            places = heaviest(blocks, places, &weights);
        }
        Ok(split(blocks, &places))
    }

    /// By stage, how much of the bound over pieces memory there holds up; nothing where they are of no more use.
    fn weights(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        pieces: &[Block],
        clock: &Clock,
    ) -> Result<Vec<f64>, MethodError> {
        let incumbent = self.incumbent;
        let Some(before) = self.pieces.take() else { return Ok(Vec::new()) };
        let mut finer = incumbent.judge.over(pieces, Some(relaxation));
        let outcome = self.relaxed(&mut finer, clock)?;
        let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
        let bound = outcome.dual_bound.filter(|_| solved).map(|bound| finer.bound(bound));
        // That nothing is within the budget is found again by the round that follows.
        let (Some(bound), Some(linear)) = (bound, outcome.linear) else { return Ok(Vec::new()) };
        if incumbent.open().is_some_and(|open| bound.saturating_sub(before) < open / RAISES) {
            return Ok(Vec::new());
        }
        self.pieces = Some(bound);
        let mut weights = vec![0.0; incumbent.judge.stages()];
        for &(row, stage) in finer.memory_rows() {
            weights[stage] += linear.multipliers[row].abs();
        }
        Ok(weights)
    }

    /// Moves places to where the bound is higher.
    fn look(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        blocks: &[Block],
        places: &mut Vec<Place>,
        clock: &Clock,
    ) -> Result<(), MethodError> {
        // By place, the bound there.
        let mut bounds = Vec::with_capacity(places.len());
        for &place in places.iter() {
            let Some(bound) = self.bound(relaxation, blocks, place, clock)? else { break };
            bounds.push(bound);
        }
        // Where there was no time for all the others wait: too many blocks at once are worse than few.
        if !bounds.is_empty() {
            places.truncate(bounds.len());
        }
        let (mut least, before) = (bounds.iter().copied().min().unwrap_or(0), bounds.clone());
        'looking: for eighths in EIGHTHS {
            for (place, best) in places.iter_mut().zip(&mut bounds) {
                let Block { first, last } = blocks[place.block];
                if last - first < EIGHTHS.len() {
                    continue;
                }
                let other = Place { stage: first + (last - first) * eighths / 8, ..*place };
                let Some(bound) = self.bound(relaxation, blocks, other, clock)? else { break 'looking };
                least = least.min(bound);
                if bound > *best {
                    (*place, *best) = (other, bound);
                }
            }
        }
        let gained = bounds.iter().zip(&before).fold(0, |sum: u64, (now, before)| sum.saturating_add(now - before));
        let pays = self.incumbent.open().is_none_or(|open| gained >= open / PAYS);
        self.parts = if pays { (self.parts / 2).max(PARTS[1]) } else { 2 * self.parts };
        let most = bounds.iter().max().map_or(0, |most| most - least);
        let mut bounds = bounds.into_iter();
        places.retain(|_| bounds.next().is_none_or(|bound| (bound - least).saturating_mul(TIMES) >= most));
        Ok(())
    }

    /// The bound of the relaxation without integrality with one block split; none where there is no time for it.
    fn bound(
        &self,
        relaxation: &P::Relaxation<'p>,
        blocks: &[Block],
        place: Place,
        clock: &Clock,
    ) -> Result<Option<u64>, MethodError> {
        if clock.is_over() {
            return Ok(None);
        }
        let mut finer = self.incumbent.judge.over(&split(blocks, &[place]), Some(relaxation));
        let outcome = self.relaxed(&mut finer, clock)?;
        Ok(match outcome.stop {
            // Found again by the round that follows.
            Stop::Infeasible => Some(u64::MAX),
            Stop::Optimal | Stop::GapReached => outcome.dual_bound.map(|bound| finer.bound(bound)),
            _ => None,
        })
    }

    /// Solves a relaxation without integrality.
    fn relaxed(&self, relaxation: &mut P::Relaxation<'p>, clock: &Clock) -> Result<Outcome, MethodError> {
        let interrupt = Some(self.incumbent.interrupt());
        let terms = Terms { clock: *clock, nodes: None, from: Pass::Relaxed, until: Pass::Relaxed, interrupt };
        let mut follower = Round::of_bounds(self.incumbent);
        Ok(separate(&self.solving, relaxation, terms, &mut follower)?.outcome)
    }
}

/// Places moved to the stages of greatest weight, but for the last ones of blocks, whose needs are stated exactly already; without
/// those where that is little beside another stage's. The same places where none is left.
fn heaviest(blocks: &[Block], places: Vec<Place>, weights: &[f64]) -> Vec<Place> {
    let most = weights.iter().copied().fold(0.0, f64::max);
    let moved = |place: &Place| {
        let Block { first, last } = blocks[place.block];
        let stages = weights.get(first..last)?.iter().zip(first..);
        let (&weight, stage) = stages.max_by(|left, right| left.0.total_cmp(right.0))?;
        (weight > 0.0 && weight * HEAVIER >= most).then_some(Place { stage, ..*place })
    };
    let heavy: Vec<Place> = places.iter().filter_map(moved).collect();
    if heavy.is_empty() { places } else { heavy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_where_weights_are_greatest_and_light_blocks_stay_whole() {
        let blocks = [Block { first: 0, last: 3 }, Block { first: 4, last: 5 }, Block { first: 6, last: 9 }];
        let places = |stages: [usize; 3]| stages.into_iter().enumerate().map(|(block, stage)| Place { block, stage });
        let moved = |weights: &[f64]| {
            let places = heaviest(&blocks, places([2, 5, 7]).collect(), weights);
            places.into_iter().map(|place| (place.block, place.stage)).collect::<Vec<_>>()
        };
        let by_need = [(0, 2), (1, 5), (2, 7)];
        assert_eq!(moved(&[]), by_need);
        assert_eq!(moved(&[0.0; 10]), by_need);
        // Stage 3 is the last one of its block.
        assert_eq!(moved(&[0.0, 7.0, 3.0, 16.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0]), [(0, 1), (2, 8)]);
        assert_eq!(moved(&[0.0, 7.0, 3.0, 90.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0]), by_need);
    }
}
