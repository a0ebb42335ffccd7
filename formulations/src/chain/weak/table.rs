//! The table of Theorem 4.7, its inner minimum separated and its states thinned out (`states.rs`): O(S L^4)
//! at worst, O(S L^3 log L) on a random chain, instead of O(S L^6).
//!
//! Memory counts the floating activation: D(s, t, l, mu) = C_FL(s, t, l, mu - w_s), w_s the input of
//! stage s. Then a move of the floating activation from s to r leaves mu alone, and the minimum over
//! (r, s', t') falls into three, each over one index:
//!
//! * E(r, t', l, nu) = min over r < s' <= t' of D(s', t', l, nu), grown as r goes down;
//! * H(r, t, l, mu) = min over t < t' <= l of E(r, t', l, mu - w_r) + D(r, t, t' - 1, mu);
//! * D(s, t, l, mu) = min of H(s, t, l, mu) and, for s < t, D(r, t, l, mu), r the next of the stages
//!   where the floating activation may be; for s = t, of H and of saving stage s.
//!
//! That a floating activation may be given up altogether on the way to backward t (the move to r = t,
//! whatever stage t does then) is missing from the printed recurrence (docs/errata.md).
//!
//! As in `persistent/table.rs`, entries carry the passing forwards before their start, so that the sums over
//! forwards disappear. Starts go down; for one start the tiles of the memory axis are independent.

use rayon::prelude::*;

use crate::chain::kernel::{
    Best, Cuts, GROUP, MAX_TILE, Rows, Tile, forbid, infinite, least, load, minimise, shifted, store, tile_width,
};
use crate::chain::ranges::Ranges;
use crate::chain::slots::{SlottedChain, SlottedSaving, down};
use crate::chain::states::{State, States};
use crate::chain::storage::{Execution, Storage, TableError, passing_before};
use crate::chain::trace::Sequenced;
use crate::vectors::{Cost, Job, Lanes, Vectors};

/// The table of one chain.
pub struct WeakTable<'a, C> {
    chain: &'a SlottedChain,
    states: &'a States,
    ranges: &'a Ranges,
    before: Vec<C>,
    /// By t and l: the makespan from stage t on when memory is unlimited, with the forwards before it.
    unlimited: Vec<C>,
    storage: Storage<C>,
    /// Entries of a row: padding, slots, a tail.
    pitch: usize,
    /// Slots, whole tiles.
    slots: usize,
}

/// Entries of a row for so many slots.
fn pitch<C>(slots: usize) -> usize {
    // An odd number of cache lines: see `persistent/table.rs`. The tail serves accounts that gain a slot.
    let line = 64 / size_of::<C>();
    ((MAX_TILE + slots + line).div_ceil(line) | 1) * line
}

/// Min-plus operations for a slot of the table of a chain.
pub fn operations(states: &States) -> u64 {
    let cuts = |t: usize| ((states.stages() - t) as u64).pow(2) / 2;
    (0..states.stages()).flat_map(|s| states.served(s)).map(cuts).sum()
}

/// Bytes that the table of a chain takes in memory.
pub fn bytes<C: Cost>(chain: &SlottedChain, capacity: usize) -> usize {
    States::weak(chain).touched() * pitch::<C>((capacity + 1).next_multiple_of(MAX_TILE)) * size_of::<C>()
}

impl<'a, C: Cost> WeakTable<'a, C> {
    /// Computes the table for `capacity` slots and fewer, the chain's input included.
    ///
    /// # Errors
    /// Times do not fit the cost type, or there is too little memory or time.
    pub fn new(
        chain: &'a SlottedChain,
        ranges: &'a Ranges,
        capacity: usize,
        execution: Execution,
    ) -> Result<Self, TableError> {
        let before = passing_before(chain).ok_or(TableError::Times)?;
        let states = &ranges.states;
        let slots = (capacity + 1).next_multiple_of(MAX_TILE);
        let pitch = pitch::<C>(slots);
        let mut table = Self {
            chain,
            ranges,
            unlimited: unlimited(chain, &before),
            before,
            storage: Storage::new(states.rows() * pitch)?,
            states,
            pitch,
            slots,
        };
        for s in (0..chain.len()).rev() {
            for t in table.states.served(s) {
                execution.check()?;
                table.compute(s, t, execution.vectors);
            }
            for t in table.states.served(s) {
                table.offer(s, t);
            }
        }
        Ok(table)
    }

    fn row(&self, row: usize) -> &[C] {
        &self.storage.entries()[row * self.pitch..][..self.pitch]
    }

    fn row_mut(&mut self, row: usize) -> &mut [C] {
        &mut self.storage.entries_mut()[row * self.pitch..][..self.pitch]
    }

    /// All rows (s, t, .).
    fn compute(&mut self, s: usize, t: usize, vectors: Vectors) {
        let tile = vectors.run::<C, _>(Width);
        let work = Work::new(self, s, t);
        let tiles: Vec<usize> = (0..self.slots).step_by(tile).collect();
        let columns: Vec<Vec<C>> = tiles.par_iter().map(|&first| vectors.run((&work, first))).collect();
        for l in t..self.chain.len() {
            let unlimited = self.unlimited[t * self.chain.len() + l];
            let slots = self.slots;
            let row = self.row_mut(self.states.row(s, t, l));
            row[..MAX_TILE].fill(C::INFINITE);
            row[MAX_TILE + slots..].fill(unlimited);
            for (&first, column) in tiles.iter().zip(&columns) {
                row[MAX_TILE + first..][..tile].copy_from_slice(&column[(l - t) * tile..][..tile]);
            }
        }
    }

    /// Lets the states (s, t, .) be among the best of (., t, .).
    fn offer(&mut self, s: usize, t: usize) {
        let shift = self.chain.slots_between(t, s, 0);
        for l in t..self.chain.len() {
            let (own, best) = (self.states.row(s, t, l), self.states.best_row(t, l));
            if own == best {
                continue;
            }
            let pitch = self.pitch;
            let slots = self.slots;
            let entries = self.storage.entries_mut();
            // The rows of the best come before all that are apart.
            let (head, tail) = entries.split_at_mut(own * pitch);
            let (own, best) = (&tail[..pitch], &mut head[best * pitch..][..pitch]);
            if s == t {
                best.copy_from_slice(own);
                continue;
            }
            let from = down(MAX_TILE, shift).expect("rows for the same memory differ by a slot at most");
            for (best, own) in best[MAX_TILE..][..slots].iter_mut().zip(&own[from..]) {
                *best = (*best).min(*own);
            }
        }
    }
}

impl<C: Cost> Sequenced for WeakTable<'_, C> {
    fn limits(&self) -> (&SlottedChain, &Ranges) {
        (self.chain, self.ranges)
    }

    fn entry(&self, (s, t, l): State, slot: usize, shift: i64) -> Option<u64> {
        self.row(self.states.row(s, t, l))[MAX_TILE + down(slot, shift)?].get()
    }
}

/// The makespans from each stage on, by t and l, when nothing is recomputed.
fn unlimited<C: Cost>(chain: &SlottedChain, before: &[C]) -> Vec<C> {
    let n = chain.len();
    let mut makespans = vec![C::INFINITE; n * n];
    for t in 0..n {
        let mut sum = before[t];
        for l in t..n {
            sum = sum.plus(C::new(chain.fastest(l).time).unwrap_or(C::INFINITE)).min(C::INFINITE);
            makespans[t * n + l] = sum;
        }
    }
    makespans
}

/// Slots of a tile.
struct Width;

impl<C: Cost> Job<C> for Width {
    type Out = usize;

    #[inline(always)]
    fn run<V: Lanes<C>>(self) -> usize {
        tile_width::<C, V>()
    }
}

/// What a tile of the rows (s, t, .) is computed from.
struct Work<'t, 'a, C> {
    table: &'t WeakTable<'a, C>,
    s: usize,
    t: usize,
    /// Where the floating activation moves next.
    next: usize,
    /// By cut t': slots that the input of stage s takes from the account of t', plus one.
    shifts: Vec<usize>,
}

/// The tile of all rows (s, t, .) from a slot on, row by row.
impl<C: Cost> Job<C> for (&Work<'_, '_, C>, usize) {
    type Out = Vec<C>;

    #[inline(always)]
    fn run<V: Lanes<C>>(self) -> Vec<C> {
        let (work, first) = self;
        let (n, t) = (work.table.chain.len(), work.t);
        let width = tile_width::<C, V>();
        let mut rows = vec![C::INFINITE; (n - t) * width];
        for group in (t..n).step_by(GROUP) {
            let ends = group..(group + GROUP).min(n);
            let mut best: Best<V, GROUP> = infinite();
            if ends.len() == GROUP && ends.clone().any(|l| work.is_open::<V>(l, first)) {
                work.cuts(&mut best, &rows, t + 1..group + 1, group, first);
            }
            for l in ends {
                let mut tile: Best<V, 1> = [best[l - group]];
                if work.is_open::<V>(l, first) {
                    let from = if group + GROUP <= n { group + 1 } else { t + 1 };
                    work.cuts(&mut tile, &rows, from.max(t + 1)..l + 1, l, first);
                }
                store(work.finish(tile[0], l, first), &mut rows[(l - t) * width..]);
            }
        }
        rows
    }
}

impl<'t, 'a, C: Cost> Work<'t, 'a, C> {
    fn new(table: &'t WeakTable<'a, C>, s: usize, t: usize) -> Self {
        let chain = table.chain;
        let shift = |t2| chain.cut_shift(s, t2) + 1;
        let shifts = (0..chain.len()).map(|t2| usize::try_from(shift(t2)).expect("offsets differ by less than a slot"));
        Self { table, s, t, next: table.states.next(s, t), shifts: shifts.collect() }
    }

    /// Whether a tile has slots that neither nothing nor everything fits.
    #[inline(always)]
    fn is_open<V: Lanes<C>>(&self, l: usize, first: usize) -> bool {
        let row = self.table.states.row(self.s, self.t, l);
        let ranges = &self.table.ranges;
        ranges.least[row] < first + tile_width::<C, V>() && first < ranges.enough[row]
    }

    /// H by some cuts t', for consecutive l.
    #[inline(always)]
    fn cuts<V: Lanes<C>, const COLUMNS: usize>(
        &self,
        best: &mut Best<V, COLUMNS>,
        rows: &[C],
        cuts: std::ops::Range<usize>,
        l: usize,
        first: usize,
    ) {
        if cuts.is_empty() {
            return;
        }
        let table = self.table;
        let right = table.states.best_row(cuts.start, l.max(cuts.start));
        // Columns are consecutive l, from the first on that the first cut allows.
        let right = (right + l - l.max(cuts.start)) * table.pitch;
        let width = tile_width::<C, V>();
        let operands = Cuts {
            left: Rows { values: &rows[(cuts.start - 1 - self.t) * width..], step: width, at: 0 },
            right: Rows {
                values: &table.storage.entries()[right..],
                step: table.chain.len() * table.pitch,
                at: first + MAX_TILE + 1,
            },
            column_step: table.pitch,
            shift: &self.shifts[cuts],
        };
        minimise(best, &operands);
    }

    /// From the best cuts to the entries: the limit, moves, and the saving alternatives.
    #[inline(always)]
    fn finish<V: Lanes<C>>(&self, best: Tile<V>, l: usize, first: usize) -> Tile<V> {
        let Self { table, s, t, .. } = *self;
        let row = table.states.row(s, t, l);
        if table.ranges.least[row] >= first + tile_width::<C, V>() {
            return [V::splat(C::INFINITE); _];
        }
        if first >= table.ranges.enough[row] {
            return [V::splat(table.unlimited[t * table.chain.len() + l]); _];
        }
        let kept = if l == t { usize::MAX } else { table.ranges.kept(s, l) };
        let best = shifted(best, C::zeroed().minus(table.before[s]));
        let mut best = forbid(best, kept.saturating_sub(first));
        if s < t {
            let row = table.states.row(self.next, t, l);
            let moved = self.load(row, first, table.chain.slots_between(s, self.next, 0));
            let limit = table.chain.through_limit(s, s..self.next, l);
            return least(best, forbid(moved, limit.saturating_sub(first)));
        }
        for saving in &table.chain.savings[s] {
            best = least(best, self.save(saving, l, first));
        }
        best
    }

    /// C_2: saving stage s = t.
    #[inline(always)]
    fn save<V: Lanes<C>>(&self, saving: &SlottedSaving, l: usize, first: usize) -> Tile<V> {
        let Self { table, s, .. } = *self;
        let chain = table.chain;
        let (Some(time), Some(forward)) = (C::new(saving.time), C::new(chain.forward_time[s])) else {
            return [V::splat(C::INFINITE); _]; // `passing_before` has checked that times fit.
        };
        let with = if s == l {
            [V::splat(table.before[s].plus(time)); _]
        } else {
            let rest = self.load(table.states.row(s + 1, s + 1, l), first, chain.save_shift(s, saving));
            shifted(rest, time.minus(forward))
        };
        forbid(with, chain.all_limit(s, l, saving).saturating_sub(first))
    }

    /// A tile of a row, some slots down.
    #[inline(always)]
    fn load<V: Lanes<C>>(&self, row: usize, first: usize, shift: i64) -> Tile<V> {
        match down(first + MAX_TILE, shift) {
            Some(from) => load(&self.table.storage.entries()[row * self.table.pitch..], from),
            None => [V::splat(C::INFINITE); _],
        }
    }
}
