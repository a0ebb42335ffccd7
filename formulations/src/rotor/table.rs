//! The table C_MP(s, t, m) of Theorem 4.8, all memory limits at once.
//!
//! Stored as X(s, e, m) = C(s, e - 1, m) + (passing forwards before s), for the half-open subchain
//! s..e: the sum over a split's forwards disappears, and X(s, e, m) is the least X(s, c, m) +
//! X(c, e, m - w_c) over the cuts c, as in a min-plus matrix product. The triangle of subchains is
//! cut into square blocks; blocks on the same diagonal are independent (rayon). Within a block the
//! memory axis is cut into tiles, and the cuts in the blocks between come first, so that the rows of
//! a tile are used many times while they are in the nearest cache. Only slots inside of [`Ranges`]
//! are computed.

use std::marker::PhantomData;
use std::ops::Range;

use memmap2::MmapMut;
use rayon::prelude::*;
use thiserror::Error;

use super::kernel::{Best, Cost, Cuts, GROUP, Lanes, MAX_TILE, Rows, infinite, minimise, tile_width, unpack};
use super::ranges::{Ranges, Rule};
use super::slots::{SlottedChain, SlottedSaving};

/// Cuts along the side of a block.
const SIDE: usize = 32;
/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

/// The table of one chain.
pub struct Table<'a, C> {
    frame: Frame<'a, C>,
    storage: Storage<C>,
}

/// Why there is no table.
#[derive(Debug, Error)]
pub enum TableError {
    /// Times do not fit the cost type.
    #[error("times do not fit the table's cells")]
    Times,
    /// The memory for it is not to be had.
    #[error("no memory for a table of {bytes} bytes: {source}")]
    Memory {
        /// Its size.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

impl<'a, C: Cost> Table<'a, C> {
    /// Computes the table for memory limits 0 to `capacity` slots.
    ///
    /// # Errors
    /// Times do not fit the cost type, or there is too little memory.
    pub fn new(chain: &'a SlottedChain, ranges: &'a Ranges, rule: Rule, capacity: usize) -> Result<Self, TableError> {
        let frame = Frame::new(chain, ranges, rule, capacity).ok_or(TableError::Times)?;
        let layout = frame.layout;
        let mut storage = Storage::new(layout.blocks() * layout.block_length())?;
        let mut finished = 0;
        for diagonal in 0..layout.side {
            let length = (layout.side - diagonal) * layout.block_length();
            let (done, rest) = storage.entries_mut().split_at_mut(finished);
            let blocks = rest[..length].par_chunks_mut(layout.block_length()).enumerate();
            blocks.for_each(|(row, values)| frame.compute(done, values, row, row + diagonal));
            finished += length;
        }
        Ok(Self { frame, storage })
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        size_of_val(self.storage.entries())
    }

    /// C(s, t, m), if finite and below the cost type's infinity.
    pub fn get(&self, s: usize, t: usize, m: usize) -> Option<u64> {
        debug_assert!(m <= self.frame.capacity);
        let layout = self.frame.layout;
        let end = t + 1;
        let block = layout.block(s / SIDE, end / SIDE) * layout.block_length();
        let value = self.storage.entries()[block + layout.row(s, end) + MAX_TILE + m].get()?;
        Some(value - self.frame.before[s].get()?)
    }
}

/// One region of memory for all rows, on huge pages where the system has them: a tile of all the rows
/// that a block reads touches more small pages than a processor remembers.
struct Storage<C> {
    map: MmapMut,
    cells: PhantomData<C>,
}

impl<C: Cost> Storage<C> {
    fn new(length: usize) -> Result<Self, TableError> {
        let bytes = length * size_of::<C>();
        let map = MmapMut::map_anon(bytes).map_err(|source| TableError::Memory { bytes, source })?;
        #[cfg(target_os = "linux")]
        {
            // Advice: without huge pages the table is slower and otherwise the same.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map, cells: PhantomData })
    }

    fn entries(&self) -> &[C] {
        bytemuck::cast_slice(&self.map)
    }

    fn entries_mut(&mut self) -> &mut [C] {
        bytemuck::cast_slice_mut(&mut self.map)
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
}

impl Layout {
    fn blocks(self) -> usize {
        self.side * (self.side + 1) / 2
    }
    fn block_length(self) -> usize {
        SIDE * self.stride
    }
    fn block(self, row: usize, column: usize) -> usize {
        let diagonal = column - row;
        diagonal * self.side - diagonal * diagonal.saturating_sub(1) / 2 + row
    }
    /// Offset within its block of the row of subchain `start..end`.
    fn row(self, start: usize, end: usize) -> usize {
        (start % SIDE) * self.stride + (end % SIDE) * self.pitch
    }
}

/// Everything about a table but its entries.
struct Frame<'a, C> {
    chain: &'a SlottedChain,
    ranges: &'a Ranges,
    rule: Rule,
    capacity: usize,
    /// Passing forward times before each stage.
    before: Vec<C>,
    layout: Layout,
}

impl<'a, C: Cost> Frame<'a, C> {
    /// None when a time does not fit the cost type.
    fn new(chain: &'a SlottedChain, ranges: &'a Ranges, rule: Rule, capacity: usize) -> Option<Self> {
        let mut sum = 0;
        let mut before = Vec::with_capacity(chain.len());
        for (time, savings) in chain.forward_time.iter().zip(&chain.savings) {
            before.push(C::new(sum)?);
            sum += time;
            C::new(savings.iter().map(|saving| saving.time).max().unwrap_or(0).max(*time))?;
        }
        C::new(sum)?;
        let side = (chain.len() + 1).div_ceil(SIDE);
        // Distances of an odd number of cache lines keep the rows of a block out of each other's way in
        // caches that are indexed by address.
        let line = LINE / size_of::<C>();
        let odd = |entries: usize| (entries.div_ceil(line) | 1) * line;
        let pitch = odd(MAX_TILE + (capacity + 1).next_multiple_of(MAX_TILE));
        let layout = Layout { stages: chain.len(), pitch, stride: odd(SIDE * pitch), side };
        Some(Self { chain, ranges, rule, capacity, before, layout })
    }

    /// Computes a block with the widest vectors at hand, from those on the diagonals before.
    fn compute(&self, done: &[C], values: &mut [C], row: usize, column: usize) {
        // Nothing fits into less than no slots: the padding in front of each row. All else is written
        // before it is read, or read for subchains that do not exist.
        for row in values.chunks_exact_mut(self.layout.stride) {
            for row in row.chunks_exact_mut(self.layout.pitch) {
                row[..MAX_TILE].fill(C::INFINITE);
            }
        }
        let block = Block { frame: self, done, values, row, column };
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has the instructions that the function is compiled for.
                return unsafe { block.compute_avx512() };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                return unsafe { block.compute_avx2() };
            }
        }
        block.compute_with::<[C; 4]>();
    }
}

/// A block while it is computed.
struct Block<'t, 'a, C> {
    frame: &'t Frame<'a, C>,
    done: &'t [C],
    values: &'t mut [C],
    row: usize,
    column: usize,
}

impl<C: Cost> Block<'_, '_, C> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn compute_avx512(self) {
        self.compute_with::<C::Wide>();
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn compute_avx2(self) {
        self.compute_with::<C::Medium>();
    }

    /// A tile of slots at a time.
    #[inline(always)]
    fn compute_with<V: Lanes<C>>(mut self) {
        let nothing: Best<V, GROUP> = infinite();
        let mut between = vec![nothing; SIDE * SIDE / GROUP];
        for first in (0..=self.frame.capacity).step_by(tile_width::<C, V>()) {
            between.fill(nothing);
            // One block of cuts at a time: what it is read from is used for the whole block while it is near.
            for cuts in self.row + 1..self.column {
                self.cuts_between(&mut between, cuts, first);
            }
            for start in self.starts().rev() {
                for group in 0..SIDE / GROUP {
                    self.complete(between[self.slot(start, group)], start, group, first);
                }
            }
        }
    }

    /// Where the block's subchains start.
    fn starts(&self) -> Range<usize> {
        self.row * SIDE..((self.row + 1) * SIDE).min(self.frame.layout.stages)
    }

    /// Where those of a group end, for one start.
    fn ends(&self, start: usize, group: usize) -> Range<usize> {
        let first = self.column * SIDE + group * GROUP;
        first.max(start + 1)..(first + GROUP).min(self.frame.layout.stages + 1)
    }

    fn slot(&self, start: usize, group: usize) -> usize {
        (start - self.row * SIDE) * (SIDE / GROUP) + group
    }

    /// Whether a tile of a subchain has slots that neither nothing nor everything fits.
    #[inline(always)]
    fn is_open<V: Lanes<C>>(&self, start: usize, end: usize, first: usize) -> bool {
        let subchain = (start, end - 1);
        let ranges = self.frame.ranges;
        ranges.least[subchain] < first + tile_width::<C, V>() && first < ranges.enough[subchain]
    }

    /// Cuts in a block between the rows' and the columns': the bulk of the work.
    #[inline(always)]
    fn cuts_between<V: Lanes<C>>(&self, best: &mut [Best<V, GROUP>], block: usize, first: usize) {
        for group in 0..SIDE / GROUP {
            for start in self.starts() {
                if self.ends(start, group).any(|end| self.is_open::<V>(start, end, first)) {
                    let best = &mut best[self.slot(start, group)];
                    let end = self.column * SIDE + group * GROUP;
                    self.cuts(best, start, block * SIDE..(block + 1) * SIDE, end, first);
                }
            }
        }
    }

    /// The remaining cuts of a group of subchains, and everything that is not a cut.
    #[inline(always)]
    fn complete<V: Lanes<C>>(&mut self, mut best: Best<V, GROUP>, start: usize, group: usize, first: usize) {
        let ends = self.ends(start, group);
        let group_end = self.column * SIDE + group * GROUP;
        if ends.clone().any(|end| self.is_open::<V>(start, end, first)) {
            // Cuts among the starts of this block, whose right parts are done because they start later;
            // then cuts among the ends before the group, whose left parts are.
            let row_cuts = start + 1..((self.row + 1) * SIDE).min(group_end);
            self.cuts(&mut best, start, row_cuts, group_end, first);
            if self.row < self.column {
                self.cuts(&mut best, start, self.column * SIDE..group_end, group_end, first);
            }
        }
        for end in ends {
            let mut best: Best<V, 1> = [best[end % GROUP]];
            if self.is_open::<V>(start, end, first) {
                self.cuts(&mut best, start, group_end.max(start + 1)..end, end, first);
            }
            let mut values = [C::INFINITE; MAX_TILE];
            unpack::<C, V>(&best[0], &mut values);
            self.finish(&mut values[..tile_width::<C, V>()], start, end, first);
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
        let block = cuts.start / SIDE;
        let left = &self.rows(self.row, block)[layout.row(start, cuts.start)..];
        let right = &self.rows(block, self.column)[layout.row(cuts.start, end)..];
        let operands = Cuts {
            left: Rows { values: left, step: layout.pitch },
            right: Rows { values: right, step: layout.stride },
            column_step: layout.pitch,
            shift: &self.frame.chain.input[cuts],
            start: first + MAX_TILE,
        };
        minimise(best, &operands);
    }

    /// From the best cuts to the entries: the limit, the saving alternatives, and what lies outside
    /// of the computed range.
    #[inline(always)]
    fn finish(&mut self, best: &mut [C], start: usize, end: usize, first: usize) {
        let frame = self.frame;
        let subchain = (start, end - 1);
        let before = frame.before[start];
        let single = start + 1 == end;
        let passing = if single { usize::MAX } else { frame.ranges.passing[subchain] };
        let forbidden = passing.saturating_sub(first).min(best.len());
        best[..forbidden].fill(C::INFINITE);
        for value in &mut best[forbidden..] {
            *value = if *value < C::INFINITE { *value - before } else { C::INFINITE };
        }
        let enough = frame.ranges.enough[subchain];
        if frame.rule == Rule::Persistent || single {
            for (position, saving) in frame.chain.savings[start].iter().enumerate() {
                // Beyond `enough` the fastest alternative alone decides.
                if first < enough || position == frame.ranges.fastest[start] {
                    self.save(best, saving, start, end, first);
                }
            }
        }
        let at = frame.layout.row(start, end) + MAX_TILE + first;
        self.values[at..at + best.len()].copy_from_slice(best);
    }

    /// Equation (6) for a single stage, else C_all of Theorem 4.8.
    #[inline(always)]
    fn save(&self, best: &mut [C], saving: &SlottedSaving, start: usize, end: usize, first: usize) {
        let frame = self.frame;
        let (Some(time), Some(forward)) = (C::new(saving.time), C::new(frame.chain.forward_time[start])) else {
            return; // `Frame::new` has checked that times fit.
        };
        let forbidden = frame.chain.all_limit(end - 1, saving).saturating_sub(first).min(best.len());
        if start + 1 == end {
            for value in &mut best[forbidden..] {
                *value = (*value).min(frame.before[start] + time);
            }
            return;
        }
        let from = first + MAX_TILE;
        if saving.saved >= from {
            return;
        }
        let rows = &self.rows((start + 1) / SIDE, self.column)[frame.layout.row(start + 1, end)..];
        let rest = &rows[from - saving.saved..][..best.len()];
        for (value, &rest) in best[forbidden..].iter_mut().zip(&rest[forbidden..]) {
            let with = if rest < C::INFINITE { rest + time - forward } else { C::INFINITE };
            *value = (*value).min(with);
        }
    }
}
