//! The table C_MP(s, t, m) of Theorem 4.8, all memory limits at once.
//!
//! Stored as X(s, t, m) = C(s, t, m) + (passing forwards before s), which makes the sum over a
//! split's forwards disappear from the inner loop. The upper triangle of subchains is cut into square
//! blocks; blocks on the same diagonal are independent (rayon), and within a block the memory axis is
//! cut into tiles, so that a tile of every row that a block reads stays in the second-level cache.
//! Only slots inside of [`Ranges`] are computed.

use std::ops::Range;

use rayon::prelude::*;

use super::kernel::{Best, Cost, GROUP, Lanes, MAX_TILE, Rows, Splits, infinite, minimise, tile_width, unpack};
use super::ranges::{Ranges, Rule};
use super::slots::{SlottedChain, SlottedSaving};

/// Stages along the side of a block.
const SIDE: usize = 16;

/// The table of one chain.
pub struct Table<'a, C> {
    chain: &'a SlottedChain,
    ranges: &'a Ranges,
    rule: Rule,
    capacity: usize,
    /// Passing forward times before each stage.
    before: Vec<C>,
    layout: Layout,
    blocks: Vec<Box<[C]>>,
}

/// Where rows are.
#[derive(Clone, Copy)]
struct Layout {
    stages: usize,
    /// Entries of a row: padding, slots 0 to capacity, padding to a whole tile.
    pitch: usize,
    /// Blocks along a side of the triangle.
    side: usize,
}

impl Layout {
    fn block(self, row: usize, column: usize) -> usize {
        row * self.side - row * row.saturating_sub(1) / 2 + column - row
    }
    /// Offset within its block of the row of subchain `s..=t`.
    fn row(self, s: usize, t: usize) -> usize {
        ((s % SIDE) * SIDE + t % SIDE) * self.pitch
    }
}

impl<'a, C: Cost> Table<'a, C> {
    /// Computes the table for memory limits 0 to `capacity` slots.
    ///
    /// None when a time does not fit the cost type.
    pub fn new(chain: &'a SlottedChain, ranges: &'a Ranges, rule: Rule, capacity: usize) -> Option<Self> {
        let mut sum = 0;
        let mut before = Vec::with_capacity(chain.len());
        for (time, savings) in chain.forward_time.iter().zip(&chain.savings) {
            before.push(C::new(sum)?);
            sum += time;
            C::new(savings.iter().map(|saving| saving.time).max().unwrap_or(0).max(*time))?;
        }
        C::new(sum)?;
        let side = chain.len().div_ceil(SIDE);
        let layout =
            Layout { stages: chain.len(), pitch: MAX_TILE + (capacity + 1).next_multiple_of(MAX_TILE), side };
        let mut table = Self { chain, ranges, rule, capacity, before, layout, blocks: Vec::new() };
        table.blocks.resize_with(side * (side + 1) / 2, Box::default);
        for diagonal in 0..side {
            let compute = |row: usize| (layout.block(row, row + diagonal), table.block(row, row + diagonal));
            let blocks: Vec<_> = (0..side - diagonal).into_par_iter().map(compute).collect();
            for (position, block) in blocks {
                table.blocks[position] = block;
            }
        }
        Some(table)
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| size_of_val::<[C]>(block)).sum()
    }

    /// C(s, t, m), if finite and below the cost type's infinity.
    pub fn get(&self, s: usize, t: usize, m: usize) -> Option<u64> {
        debug_assert!(m <= self.capacity);
        let block = &self.blocks[self.layout.block(s / SIDE, t / SIDE)];
        let value = block[self.layout.row(s, t) + MAX_TILE + m].get()?;
        Some(value - self.before[s].get()?)
    }

    /// Computes a block with the widest vectors at hand.
    fn block(&self, row: usize, column: usize) -> Box<[C]> {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has the instructions that the function is compiled for.
                return unsafe { self.block_avx512(row, column) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: as above.
                return unsafe { self.block_avx2(row, column) };
            }
        }
        self.block_with::<[C; 4]>(row, column)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn block_avx512(&self, row: usize, column: usize) -> Box<[C]> {
        self.block_with::<C::Wide>(row, column)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn block_avx2(&self, row: usize, column: usize) -> Box<[C]> {
        self.block_with::<C::Medium>(row, column)
    }

    /// Computes a block, a tile of slots at a time.
    #[inline(always)]
    fn block_with<V: Lanes<C>>(&self, row: usize, column: usize) -> Box<[C]> {
        let mut block = Block {
            table: self,
            row,
            column,
            values: vec![C::INFINITE; SIDE * SIDE * self.layout.pitch].into_boxed_slice(),
        };
        let last = ((row + 1) * SIDE).min(self.layout.stages);
        for start in (0..=self.capacity).step_by(tile_width::<C, V>()) {
            for s in (row * SIDE..last).rev() {
                block.row::<V>(s, start);
            }
        }
        block.values
    }
}

/// A block while it is computed.
struct Block<'t, 'a, C> {
    table: &'t Table<'a, C>,
    row: usize,
    column: usize,
    values: Box<[C]>,
}

impl<C: Cost> Block<'_, '_, C> {
    /// One tile of every subchain of the block that starts at `s`.
    #[inline(always)]
    fn row<V: Lanes<C>>(&mut self, s: usize, start: usize) {
        let width = tile_width::<C, V>();
        let last = ((self.column + 1) * SIDE).min(self.table.layout.stages);
        let first = (self.column * SIDE).max(s / GROUP * GROUP);
        for t in (first..last).step_by(GROUP) {
            let columns = t.max(s)..(t + GROUP).min(last);
            let ranges = self.table.ranges;
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
            return &self.values;
        }
        &self.table.blocks[self.table.layout.block(row, column)]
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
        let layout = self.table.layout;
        let k = splits.start;
        let left = &self.rows(self.row, k / SIDE)[layout.row(s, k)..];
        let right = &self.rows((k + 1) / SIDE, self.column)[layout.row(k + 1, t)..];
        let operands = Splits {
            left: Rows { values: left, step: layout.pitch },
            right: Rows { values: right, step: SIDE * layout.pitch },
            column_step: layout.pitch,
            shift: &self.table.chain.input[k + 1..=splits.end],
            start: start + MAX_TILE,
        };
        minimise(best, &operands);
    }

    /// From the best splits to the entries: the limit, the saving alternatives, and what lies outside
    /// of the computed range.
    #[inline(always)]
    fn finish(&mut self, best: &mut [C], s: usize, t: usize, start: usize) {
        let table = self.table;
        let before = table.before[s];
        let passing = if s == t { usize::MAX } else { table.ranges.passing[(s, t)] };
        let forbidden = passing.saturating_sub(start).min(best.len());
        best[..forbidden].fill(C::INFINITE);
        for value in &mut best[forbidden..] {
            *value = if *value < C::INFINITE { *value - before } else { C::INFINITE };
        }
        let enough = table.ranges.enough[(s, t)];
        if table.rule == Rule::Persistent || s == t {
            for (position, saving) in table.chain.savings[s].iter().enumerate() {
                // Beyond `enough` the fastest alternative alone decides.
                if start < enough || position == table.ranges.fastest[s] {
                    self.save(best, saving, s, t, start);
                }
            }
        }
        let at = table.layout.row(s, t) + MAX_TILE + start;
        self.values[at..at + best.len()].copy_from_slice(best);
    }

    /// Equation (6) where s = t, else C_all of Theorem 4.8.
    #[inline(always)]
    fn save(&self, best: &mut [C], saving: &SlottedSaving, s: usize, t: usize, start: usize) {
        let table = self.table;
        let (Some(time), Some(forward)) = (C::new(saving.time), C::new(table.chain.forward_time[s])) else {
            return; // `Table::new` has checked that times fit.
        };
        let forbidden = table.chain.all_limit(t, saving).saturating_sub(start).min(best.len());
        if s == t {
            for value in &mut best[forbidden..] {
                *value = (*value).min(table.before[s] + time);
            }
            return;
        }
        let from = start + MAX_TILE;
        if saving.saved >= from {
            return;
        }
        let rows = &self.rows((s + 1) / SIDE, self.column)[table.layout.row(s + 1, t)..];
        let rest = &rows[from - saving.saved..][..best.len()];
        for (value, &rest) in best[forbidden..].iter_mut().zip(&rest[forbidden..]) {
            let with = if rest < C::INFINITE { rest + time - forward } else { C::INFINITE };
            *value = (*value).min(with);
        }
    }
}
