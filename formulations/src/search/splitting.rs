//! Where blocks of stages are split: not always at the stage of greatest need, but where the relaxation without integrality then
//! has the higher bound, as far as there is time to look.

use remat_solvers::Stop;

use crate::method::MethodError;
use crate::search::blocks::{Block, Place, split};
use crate::search::clock::{Clock, Pace};
use crate::search::incumbent::Incumbent;
use crate::search::problem::Staged;
use crate::search::refinement::{Round, size};
use crate::search::separation::{Pass, Relaxation, Solving, Terms, separate};

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

/// Looks for places to split blocks at. What that may cost depends on what it gained.
pub struct Splitter<'i, 'p, P: Staged> {
    incumbent: &'i Incumbent<'p, P>,
    solving: Solving,
    /// Parts of the time that is left, of which one may be spent on looking.
    parts: u32,
}

impl<'i, 'p, P: Staged> Splitter<'i, 'p, P> {
    /// One for an incumbent.
    pub fn new(incumbent: &'i Incumbent<'p, P>, solving: Solving) -> Self {
        Self { incumbent, solving, parts: PARTS[0] }
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
        let clock = clock.share(self.parts);
        let pays = self.incumbent.judge.stages() >= MANY && self.parts <= PARTS[2];
        if pays && pace.allows(size(self.incumbent.judge, blocks.len() + 1), &clock) {
            self.look(relaxation, blocks, &mut places, &clock)?;
        }
        Ok(split(blocks, &places))
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
        let incumbent = self.incumbent;
        let mut finer = incumbent.judge.over(&split(blocks, &[place]), Some(relaxation));
        let interrupt = Some(incumbent.interrupt());
        let terms = Terms { clock: *clock, nodes: None, from: Pass::Relaxed, until: Pass::Relaxed, interrupt };
        let mut follower = Round::of_bounds(incumbent);
        let outcome = separate(&self.solving, &mut finer, terms, &mut follower)?.outcome;
        Ok(match outcome.stop {
            // Found again by the round that follows.
            Stop::Infeasible => Some(u64::MAX),
            Stop::Optimal | Stop::GapReached => outcome.dual_bound.map(|bound| finer.bound(bound)),
            _ => None,
        })
    }
}
