//! Where blocks of stages are split: not always at the stage of greatest need, but where memory holds up the bound of the
//! relaxation over their pieces, without integrality, as long as that raises it.

use remat_solvers::Stop;

use crate::method::MethodError;
use crate::search::blocks::{Block, Place, pieces, split};
use crate::search::clock::{Clock, Pace};
use crate::search::incumbent::Incumbent;
use crate::search::problem::Staged;
use crate::search::refinement::{Round, size};
use crate::search::separation::{Pass, Relaxation, Solving, Terms, separate};

/// Pieces of a block.
const PIECES: usize = 8;
/// A block stays whole for now where memory in another one holds up more than so many times as much of the bound.
const TIMES: f64 = 20.0;
/// Parts of the time that is left, of which one may be spent on pieces.
const PARTS: u32 = 12;
/// Pieces are of use as long as they raise their bound by one of so many parts of the gap.
const PAYS: u64 = 50;

/// Splits blocks.
pub struct Splitter<'i, 'p, P: Staged> {
    incumbent: &'i Incumbent<'p, P>,
    solving: Solving,
    /// The bound over the last pieces; none once they are of no more use.
    pieces: Option<u64>,
}

impl<'i, 'p, P: Staged> Splitter<'i, 'p, P> {
    /// One for an incumbent.
    pub fn new(incumbent: &'i Incumbent<'p, P>, solving: Solving) -> Self {
        Self { incumbent, solving, pieces: Some(0) }
    }

    /// The blocks of a relaxation split at some places, or at better ones of the same blocks; without a block where that would
    /// gain little beside another one.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn split(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        blocks: &[Block],
        places: Vec<Place>,
        clock: &Clock,
        pace: &Pace,
    ) -> Result<Vec<Block>, MethodError> {
        let weights = self.weights(relaxation, blocks, clock, pace)?;
        Ok(split(blocks, &weighed(blocks, places, &weights)))
    }

    /// By stage, how much of the bound over pieces memory there holds up; nothing where they are of no use.
    fn weights(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        blocks: &[Block],
        clock: &Clock,
        pace: &Pace,
    ) -> Result<Vec<f64>, MethodError> {
        let (incumbent, clock) = (self.incumbent, clock.share(PARTS));
        let pieces: Vec<Block> = blocks.iter().flat_map(|&block| pieces(block, PIECES)).collect();
        let Some(before) = self.pieces.take().filter(|_| pace.allows(size(incumbent.judge, pieces.len()), &clock)) else {
            return Ok(Vec::new());
        };
        let mut finer = incumbent.judge.over(&pieces, Some(relaxation));
        let interrupt = Some(incumbent.interrupt());
        let terms = Terms { clock, nodes: None, from: Pass::Relaxed, until: Pass::Relaxed, interrupt };
        let outcome = separate(&self.solving, &mut finer, terms, &mut Round::of_bounds(incumbent))?.outcome;
        // That nothing is within the budget is found again by the round that follows.
        let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
        let Some(bound) = outcome.dual_bound.filter(|_| solved).map(|bound| finer.bound(bound)) else {
            return Ok(Vec::new());
        };
        if incumbent.open().is_some_and(|open| bound.saturating_sub(before) < open / PAYS) {
            return Ok(Vec::new());
        }
        self.pieces = Some(bound);
        let mut weights = vec![0.0; incumbent.judge.stages()];
        let multipliers = outcome.linear.map_or_else(Vec::new, |linear| linear.multipliers);
        for &(row, stage) in finer.memory_rows() {
            weights[stage] += multipliers.get(row).map_or(0.0, |multiplier| multiplier.abs());
        }
        Ok(weights)
    }
}

/// Places moved to the stages of greatest weight, but for the last ones of blocks; without those where that is little beside
/// others. The same places where nothing has a weight.
fn weighed(blocks: &[Block], places: Vec<Place>, weights: &[f64]) -> Vec<Place> {
    let heaviest = |place: Place| {
        let Block { first, last } = blocks[place.block];
        let stages = weights.get(first..last)?.iter().zip(first..);
        let (&weight, stage) = stages.max_by(|left, right| left.0.total_cmp(right.0))?;
        (weight > 0.0).then_some((weight, Place { stage, ..place }))
    };
    let moved: Vec<(f64, Place)> = places.iter().filter_map(|&place| heaviest(place)).collect();
    let most = moved.iter().map(|place| place.0).fold(0.0, f64::max);
    if moved.is_empty() {
        return places;
    }
    moved.into_iter().filter(|place| place.0 * TIMES >= most).map(|place| place.1).collect()
}
