//! The table C_MP(s, t, m) of Theorem 4.8, all memory limits at once.
//!
//! Stored as X(s, e, m) = C(s, e - 1, m) + (passing forwards before s), for the half-open subchain
//! s..e: the sum over a split's forwards disappears, and X(s, e, m) is the least X(s, c, m) +
//! X(c, e, m - w_c) over the cuts c, as in a min-plus matrix product. The triangle of subchains is
//! cut into square blocks; blocks on the same diagonal are independent (rayon). Within a block the
//! memory axis is cut into tiles, and the cuts in the blocks between come first, so that the rows of
//! a tile are used many times while they are in the nearest cache. Only slots inside of [`Ranges`]
//! are computed.

use std::ops::Range;

use rayon::prelude::*;

use crate::chain::kernel::{
    Best, Cuts, GROUP, MAX_TILE, Rows, Tile, forbid, infinite, least, load, minimise, shifted, store, tile_width,
};
use crate::chain::ranges::Ranges;
use crate::chain::slots::{SlottedChain, SlottedSaving, down};
use crate::chain::states::State;
use crate::chain::storage::{Execution, Storage, TableError, passing_before};
use crate::chain::trace::Sequenced;
use crate::vectors::{Cost, Job, Lanes};

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

/// The table of one chain.
pub struct Table<'a, C> {
    frame: Frame<'a, C>,
    storage: Storage<C>,
}

impl<'a, C: Cost> Table<'a, C> {
    /// Computes the table for memory limits 0 to `capacity` slots.
    ///
    /// # Errors
    /// Times do not fit the cost type, or there is too little memory or time.
    pub fn new(
        chain: &'a SlottedChain,
        ranges: &'a Ranges,
        capacity: usize,
        execution: Execution,
    ) -> Result<Self, TableError> {
        let frame = Frame::new(chain, ranges, capacity).ok_or(TableError::Times)?;
        let layout = frame.layout;
        let mut storage = Storage::new(layout.blocks() * layout.block_length())?;
        let mut finished = 0;
        for diagonal in 0..layout.side {
            let length = (layout.side - diagonal) * layout.block_length();
            let (done, rest) = storage.entries_mut().split_at_mut(finished);
            let blocks = rest[..length].par_chunks_mut(layout.block_length()).enumerate();
            blocks.for_each(|(row, values)| frame.compute(done, values, (row, row + diagonal), execution));
            execution.check()?;
            finished += length;
        }
        Ok(Self { frame, storage })
    }
}

impl<C: Cost> Sequenced for Table<'_, C> {
    fn limits(&self) -> (&SlottedChain, &Ranges) {
        (self.frame.chain, self.frame.ranges)
    }

    fn entry(&self, (s, _, l): State, slot: usize, shift: i64) -> Option<u64> {
        debug_assert!(slot <= self.frame.capacity);
        let (layout, end) = (self.frame.layout, l + 1);
        let block = layout.block(layout.block_of(s), layout.block_of(end)) * layout.block_length();
        self.storage.entries()[block + layout.row(s, end) + MAX_TILE + down(slot, shift)?].get()
    }
}

/// Where rows are: block by block, diagonal by diagonal.
#[derive(Clone, Copy)]
struct Layout {
    stages: usize,
    /// Entries of a row: padding, slots 0 to capacity, padding to a whole tile.
    pitch: usize,
    /// Entries from a row to that of the next start.
    stride: usize,
    /// Blocks along a side of the triangle.
    side: usize,
    /// Logarithm to base 2 of the cuts along the side of a block.
    bits: u32,
}

impl Layout {
    fn new<C>(stages: usize, capacity: usize) -> Self {
        // Large blocks reuse more of what they read; small ones leave less to their edges, and more to a second thread.
        let bits = if stages > 256 { 5 } else { 4 };
        // Distances of an odd number of cache lines keep the rows of a block out of each other's way in
        // caches that are indexed by address.
        let line = LINE / size_of::<C>();
        let odd = |entries: usize| (entries.div_ceil(line) | 1) * line;
        let pitch = odd(MAX_TILE + (capacity + 1).next_multiple_of(MAX_TILE));
        let side = (stages + 1).div_ceil(1 << bits);
        Self { stages, pitch, stride: odd(pitch << bits), side, bits }
    }
    /// The block of a cut, in either direction.
    #[inline(always)]
    fn block_of(self, cut: usize) -> usize {
        cut >> self.bits
    }
    /// The cuts of a block.
    #[inline(always)]
    fn cuts_of(self, block: usize) -> Range<usize> {
        block << self.bits..(block + 1) << self.bits
    }
    /// Groups of cuts along the side of a block.
    fn groups(self) -> Range<usize> {
        0..(1 << self.bits) / GROUP
    }
    fn blocks(self) -> usize {
        self.side * (self.side + 1) / 2
    }
    fn block_length(self) -> usize {
        self.cuts_of(0).len() * self.stride
    }
    fn block(self, row: usize, column: usize) -> usize {
        let diagonal = column - row;
        diagonal * self.side - diagonal * diagonal.saturating_sub(1) / 2 + row
    }
    /// Offset within its block of the row of subchain `start..end`.
    fn row(self, start: usize, end: usize) -> usize {
        let within = |cut: usize| cut & ((1 << self.bits) - 1);
        within(start) * self.stride + within(end) * self.pitch
    }
}

/// Bytes of the table of a chain.
pub fn bytes<C: Cost>(stages: usize, capacity: usize) -> usize {
    let layout = Layout::new::<C>(stages, capacity);
    layout.blocks() * layout.block_length() * size_of::<C>()
}

/// Min-plus operations for a slot of the table of a chain.
pub fn operations(stages: usize) -> u64 {
    (stages as u64).pow(3) / 6
}

/// Everything about a table but its entries.
struct Frame<'a, C> {
    chain: &'a SlottedChain,
    ranges: &'a Ranges,
    capacity: usize,
    /// Passing forward times before each stage.
    before: Vec<C>,
    layout: Layout,
}

impl<'a, C: Cost> Frame<'a, C> {
    /// None when a time does not fit the cost type.
    fn new(chain: &'a SlottedChain, ranges: &'a Ranges, capacity: usize) -> Option<Self> {
        let before = passing_before(chain)?;
        let layout = Layout::new::<C>(chain.len(), capacity);
        Some(Self { chain, ranges, capacity, before, layout })
    }

    /// Computes a block from those on the diagonals before.
    fn compute(&self, done: &[C], values: &mut [C], (row, column): (usize, usize), execution: Execution) {
        // Nothing fits into less than no slots: the padding in front of each row. All else is written
        // before it is read, or read for subchains that do not exist.
        for row in values.chunks_exact_mut(self.layout.stride) {
            for row in row.chunks_exact_mut(self.layout.pitch) {
                row[..MAX_TILE].fill(C::INFINITE);
            }
        }
        execution.vectors.run(Block { frame: self, done, values, row, column, execution });
    }
}

/// A block while it is computed.
struct Block<'t, 'a, C> {
    frame: &'t Frame<'a, C>,
    done: &'t [C],
    values: &'t mut [C],
    row: usize,
    column: usize,
    execution: Execution,
}

impl<C: Cost> Job<C> for Block<'_, '_, C> {
    type Out = ();

    /// A tile of slots at a time.
    #[inline(always)]
    fn run<V: Lanes<C>>(mut self) {
        let nothing: Best<V, GROUP> = infinite();
        let layout = self.frame.layout;
        let mut between = vec![nothing; layout.groups().len() << layout.bits];
        for first in (0..=self.frame.capacity).step_by(tile_width::<C, V>()) {
            if self.execution.clock.is_over() {
                return; // The table is given up.
            }
            between.fill(nothing);
            // One block of cuts at a time: what it is read from is used for the whole block while it is near.
            for cuts in self.row + 1..self.column {
                self.cuts_between(&mut between, cuts, first);
            }
            for start in self.starts().rev() {
                for group in layout.groups() {
                    self.complete(between[self.slot(start, group)], start, group, first);
                }
            }
        }
    }
}

impl<C: Cost> Block<'_, '_, C> {
    /// Where the block's subchains start.
    fn starts(&self) -> Range<usize> {
        let cuts = self.frame.layout.cuts_of(self.row);
        cuts.start..cuts.end.min(self.frame.layout.stages)
    }

    /// Where those of a group end, for one start.
    fn ends(&self, start: usize, group: usize) -> Range<usize> {
        let first = self.first_end(group);
        first.max(start + 1)..(first + GROUP).min(self.frame.layout.stages + 1)
    }

    fn first_end(&self, group: usize) -> usize {
        self.frame.layout.cuts_of(self.column).start + group * GROUP
    }

    fn slot(&self, start: usize, group: usize) -> usize {
        let layout = self.frame.layout;
        (start - layout.cuts_of(self.row).start) * layout.groups().len() + group
    }

    /// Whether a tile of a subchain has slots that neither nothing nor everything fits.
    #[inline(always)]
    fn is_open<V: Lanes<C>>(&self, start: usize, end: usize, first: usize) -> bool {
        let ranges = self.frame.ranges;
        let subchain = ranges.states.best_row(start, end - 1);
        ranges.least[subchain] < first + tile_width::<C, V>() && first < ranges.enough[subchain]
    }

    /// Cuts in a block between the rows' and the columns': the bulk of the work.
    #[inline(always)]
    fn cuts_between<V: Lanes<C>>(&self, best: &mut [Best<V, GROUP>], block: usize, first: usize) {
        for group in self.frame.layout.groups() {
            for start in self.starts() {
                if self.ends(start, group).any(|end| self.is_open::<V>(start, end, first)) {
                    let best = &mut best[self.slot(start, group)];
                    self.cuts(best, start, self.frame.layout.cuts_of(block), self.first_end(group), first);
                }
            }
        }
    }

    /// The remaining cuts of a group of subchains, and everything that is not a cut.
    #[inline(always)]
    fn complete<V: Lanes<C>>(&mut self, mut best: Best<V, GROUP>, start: usize, group: usize, first: usize) {
        let ends = self.ends(start, group);
        let group_end = self.first_end(group);
        if ends.clone().any(|end| self.is_open::<V>(start, end, first)) {
            // Cuts among the starts of this block, whose right parts are done because they start later;
            // then cuts among the ends before the group, whose left parts are.
            let layout = self.frame.layout;
            let row_cuts = start + 1..layout.cuts_of(self.row).end.min(group_end);
            self.cuts(&mut best, start, row_cuts, group_end, first);
            if self.row < self.column {
                self.cuts(&mut best, start, layout.cuts_of(self.column).start..group_end, group_end, first);
            }
        }
        for end in ends {
            let mut best: Best<V, 1> = [best[end % GROUP]];
            if self.is_open::<V>(start, end, first) {
                self.cuts(&mut best, start, group_end.max(start + 1)..end, end, first);
            }
            self.finish(best[0], start, end, first);
        }
    }

    /// The rows of a block: this one, or one computed before.
    #[inline(always)]
    fn rows(&self, row: usize, column: usize) -> &[C] {
        if (row, column) == (self.row, self.column) {
            return self.values;
        }
        let length = self.frame.layout.block_length();
        &self.done[self.frame.layout.block(row, column) * length..][..length]
    }

    /// Some cuts, all in one block, of subchains with a common start and consecutive ends.
    #[inline(always)]
    fn cuts<V: Lanes<C>, const COLUMNS: usize>(
        &self,
        best: &mut Best<V, COLUMNS>,
        start: usize,
        cuts: Range<usize>,
        end: usize,
        first: usize,
    ) {
        if cuts.is_empty() {
            return;
        }
        let layout = self.frame.layout;
        let block = layout.block_of(cuts.start);
        let left = &self.rows(self.row, block)[layout.row(start, cuts.start)..];
        let right = &self.rows(block, self.column)[layout.row(cuts.start, end)..];
        let operands = Cuts {
            left: Rows { values: left, step: layout.pitch, at: first + MAX_TILE },
            right: Rows { values: right, step: layout.stride, at: first + MAX_TILE },
            column_step: layout.pitch,
            shift: &self.frame.chain.cut_shifts(start)[cuts],
        };
        minimise(best, &operands);
    }

    /// From the best cuts to the entries: the limit, and the saving alternatives.
    #[inline(always)]
    fn finish<V: Lanes<C>>(&mut self, best: Tile<V>, start: usize, end: usize, first: usize) {
        let frame = self.frame;
        let last = end - 1;
        let passing = if start == last { usize::MAX } else { frame.ranges.kept(start, last) };
        let zero = C::zeroed();
        let best = shifted(best, zero.minus(frame.before[start]));
        let mut best = forbid(best, passing.saturating_sub(first));
        let enough = frame.ranges.enough[frame.ranges.states.best_row(start, last)];
        if frame.ranges.may_save((start, start, last)) {
            let fastest = frame.chain.fastest_position(start);
            for (position, saving) in frame.chain.savings[start].iter().enumerate() {
                // Beyond `enough` the fastest alternative alone decides.
                if first < enough || position == fastest {
                    best = least(best, self.save(saving, start, end, first));
                }
            }
        }
        let at = frame.layout.row(start, end) + MAX_TILE + first;
        store(best, &mut self.values[at..]);
    }

    /// Equation (6) for a single stage, else C_all of Theorem 4.8.
    #[inline(always)]
    fn save<V: Lanes<C>>(&self, saving: &SlottedSaving, start: usize, end: usize, first: usize) -> Tile<V> {
        let frame = self.frame;
        let forbidden = frame.chain.all_limit(start, end - 1, saving).saturating_sub(first);
        let from = first + MAX_TILE;
        let nothing = [V::splat(C::INFINITE); _];
        let (Some(time), Some(forward)) = (C::new(saving.time), C::new(frame.chain.forward_time[start])) else {
            return nothing; // `Frame::new` has checked that times fit.
        };
        let with = if start + 1 == end {
            [V::splat(frame.before[start].plus(time)); _]
        } else {
            let saved = frame.chain.saved_slots(start, saving);
            if saved >= from {
                return nothing;
            }
            let rows = &self.rows(frame.layout.block_of(start + 1), self.column)[frame.layout.row(start + 1, end)..];
            shifted(load(rows, from - saved), time.minus(forward))
        };
        forbid(with, forbidden)
    }
}
