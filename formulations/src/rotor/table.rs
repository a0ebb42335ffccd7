//! The table C_MP(s, t, m) of Theorem 4.8, all memory limits at once.
//!
//! Stored as X(s, t, m) = C(s, t, m) + (passing forwards before s), which makes the sum over a
//! split's forwards disappear from the inner loop. The upper triangle of subchains is cut into square
//! blocks; blocks on the same diagonal are independent (rayon), and within a block the memory axis is
//! cut into tiles, so that a tile of every row that a block reads stays in the second-level cache.
//! Only slots inside of [`Ranges`] are computed.

use std::marker::PhantomData;
use std::ops::Range;

use memmap2::MmapMut;
use rayon::prelude::*;
use thiserror::Error;

use super::kernel::{Best, Cost, GROUP, Lanes, MAX_TILE, Rows, Splits, infinite, minimise, tile_width, unpack};
use super::ranges::{Ranges, Rule};
use super::slots::{SlottedChain, SlottedSaving};

/// Stages along the side of a block.
const SIDE: usize = 16;

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
        let block = layout.block(s / SIDE, t / SIDE) * layout.block_length();
        let value = self.storage.entries()[block + layout.row(s, t) + MAX_TILE + m].get()?;
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
    /// Blocks along a side of the triangle.
    side: usize,
}

impl Layout {
    fn blocks(self) -> usize {
        self.side * (self.side + 1) / 2
    }
    fn block_length(self) -> usize {
        SIDE * SIDE * self.pitch
    }
    fn block(self, row: usize, column: usize) -> usize {
        let diagonal = column - row;
        diagonal * self.side - diagonal * diagonal.saturating_sub(1) / 2 + row
    }
    /// Offset within its block of the row of subchain `s..=t`.
    fn row(self, s: usize, t: usize) -> usize {
        ((s % SIDE) * SIDE + t % SIDE) * self.pitch
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
        let side = chain.len().div_ceil(SIDE);
        let pitch = MAX_TILE + (capacity + 1).next_multiple_of(MAX_TILE);
        Some(Self { chain, ranges, rule, capacity, before, layout: Layout { stages: chain.len(), pitch, side } })
    }

    /// Computes a block with the widest vectors at hand, from those on the diagonals before.
    fn compute(&self, done: &[C], values: &mut [C], row: usize, column: usize) {
        values.fill(C::INFINITE);
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
        let last = ((self.row + 1) * SIDE).min(self.frame.layout.stages);
        for start in (0..=self.frame.capacity).step_by(tile_width::<C, V>()) {
            for s in (self.row * SIDE..last).rev() {
                self.row::<V>(s, start);
            }
        }
    }

    /// One tile of every subchain of the block that starts at `s`.
    #[inline(always)]
    fn row<V: Lanes<C>>(&mut self, s: usize, start: usize) {
        let width = tile_width::<C, V>();
        let last = ((self.column + 1) * SIDE).min(self.frame.layout.stages);
        let first = (self.column * SIDE).max(s / GROUP * GROUP);
        for t in (first..last).step_by(GROUP) {
            let columns = t.max(s)..(t + GROUP).min(last);
            let ranges = self.frame.ranges;
            let computed = |t: usize| ranges.least[(s, t)] < start + width && start < ranges.enough[(s, t)];
            let mut best: Best<V, GROUP> = infinite();
            if columns.clone().any(computed) {
                self.common_splits(&mut best, s, t, start);
            }
            for t in columns {
                let mut best: Best<V, 1> = [best[t % GROUP]];
                if computed(t) {
                    self.own_splits(&mut best, s, t, start);
                }
                let mut values = [C::INFINITE; MAX_TILE];
                unpack::<C, V>(&best[0], &mut values);
                self.finish(&mut values[..width], s, t, start);
            }
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

    /// Splits after `s..=k` with k below the group's first column `t`.
    #[inline(always)]
    fn common_splits<V: Lanes<C>>(&self, best: &mut Best<V, GROUP>, s: usize, t: usize, start: usize) {
        let mut k = s;
        while k < t {
            // Up to the end of a block the right parts k+1..=t are in the block of k itself.
            let end = if k % SIDE == SIDE - 1 { k + 1 } else { (k / SIDE * SIDE + SIDE - 1).min(t) };
            self.splits(best, s, k..end, t, start);
            k = end;
        }
    }

    /// Splits within the group, whose left parts are computed just before.
    #[inline(always)]
    fn own_splits<V: Lanes<C>>(&self, best: &mut Best<V, 1>, s: usize, t: usize, start: usize) {
        let group = t / GROUP * GROUP;
        for k in group.max(s)..t {
            self.splits(best, s, k..k + 1, t, start);
        }
    }

    /// Splits whose left rows are in one block, and whose right rows are in one block.
    #[inline(always)]
    fn splits<V: Lanes<C>, const COLUMNS: usize>(
        &self,
        best: &mut Best<V, COLUMNS>,
        s: usize,
        splits: Range<usize>,
        t: usize,
        start: usize,
    ) {
        let layout = self.frame.layout;
        let k = splits.start;
        let left = &self.rows(self.row, k / SIDE)[layout.row(s, k)..];
        let right = &self.rows((k + 1) / SIDE, self.column)[layout.row(k + 1, t)..];
        let operands = Splits {
            left: Rows { values: left, step: layout.pitch },
            right: Rows { values: right, step: SIDE * layout.pitch },
            column_step: layout.pitch,
            shift: &self.frame.chain.input[k + 1..=splits.end],
            start: start + MAX_TILE,
        };
        minimise(best, &operands);
    }

    /// From the best splits to the entries: the limit, the saving alternatives, and what lies outside
    /// of the computed range.
    #[inline(always)]
    fn finish(&mut self, best: &mut [C], s: usize, t: usize, start: usize) {
        let frame = self.frame;
        let before = frame.before[s];
        let passing = if s == t { usize::MAX } else { frame.ranges.passing[(s, t)] };
        let forbidden = passing.saturating_sub(start).min(best.len());
        best[..forbidden].fill(C::INFINITE);
        for value in &mut best[forbidden..] {
            *value = if *value < C::INFINITE { *value - before } else { C::INFINITE };
        }
        let enough = frame.ranges.enough[(s, t)];
        if frame.rule == Rule::Persistent || s == t {
            for (position, saving) in frame.chain.savings[s].iter().enumerate() {
                // Beyond `enough` the fastest alternative alone decides.
                if start < enough || position == frame.ranges.fastest[s] {
                    self.save(best, saving, s, t, start);
                }
            }
        }
        let at = frame.layout.row(s, t) + MAX_TILE + start;
        self.values[at..at + best.len()].copy_from_slice(best);
    }

    /// Equation (6) where s = t, else C_all of Theorem 4.8.
    #[inline(always)]
    fn save(&self, best: &mut [C], saving: &SlottedSaving, s: usize, t: usize, start: usize) {
        let frame = self.frame;
        let (Some(time), Some(forward)) = (C::new(saving.time), C::new(frame.chain.forward_time[s])) else {
            return; // `Table::new` has checked that times fit.
        };
        let forbidden = frame.chain.all_limit(t, saving).saturating_sub(start).min(best.len());
        if s == t {
            for value in &mut best[forbidden..] {
                *value = (*value).min(frame.before[s] + time);
            }
            return;
        }
        let from = start + MAX_TILE;
        if saving.saved >= from {
            return;
        }
        let rows = &self.rows((s + 1) / SIDE, self.column)[frame.layout.row(s + 1, t)..];
        let rest = &rows[from - saving.saved..][..best.len()];
        for (value, &rest) in best[forbidden..].iter_mut().zip(&rest[forbidden..]) {
            let with = if rest < C::INFINITE { rest + time - forward } else { C::INFINITE };
            *value = (*value).min(with);
        }
    }
}
