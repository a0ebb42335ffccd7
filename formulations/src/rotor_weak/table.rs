//! The table of Theorem 4.7, its inner minimum separated: O(M L^4) instead of O(M L^6).
//!
//! Memory counts the floating activation: D(s, t, l, mu) = C_FL(s, t, l, mu - w_s), w_s the input of
//! stage s. Then a move of the floating activation from s to r leaves mu alone, and the minimum over
//! (r, s', t') falls into three, each over one index:
//!
//! * E(r, t', l, nu) = min over r < s' <= t' of D(s', t', l, nu), grown as r goes down;
//! * H(r, t, l, mu) = min over t < t' <= l of E(r, t', l, mu - w_r) + D(r, t, t' - 1, mu);
//! * D(s, t, l, mu) = min over s <= r <= t with w_r >= w_s of H(r, t, l, mu).
//!
//! The printed recurrence leaves out one case: s < t = l, where the floating activation is used for
//! the last time on the way to backward l. Then it is simply dropped, whatever its size:
//!
//! * D(s, l, l, mu) = D(l, l, l, mu), plus the forwards from s to l, which keep nothing.
//!
//! Without it the program misses optima (METHODOLOGY.md).
//!
//! As in `rotor/table.rs`, entries carry the passing forwards before their start, so that the sums
//! over forwards disappear.

use rayon::prelude::*;

use super::Tetrahedron;
use super::least::{Limits, least};
use crate::rotor::kernel::{Cost, Vectors, min_plus, min_with};
use crate::rotor::slots::SlottedChain;
use crate::rotor::table::{TableError, passing_before};

/// Tables beyond this are refused: 339 stages in 500 slots take 13 GB.
const MOST_BYTES: usize = 16 << 30;

/// The table of one chain.
pub struct WeakTable<'a, C> {
    pub(super) chain: &'a SlottedChain,
    pub(super) limits: Limits<'a>,
    pub(super) before: Vec<C>,
    pub(super) entries: Tetrahedron<C>,
    least: Tetrahedron<usize>,
    capacity: usize,
    vectors: Vectors,
}

/// Whether a table of so many stages and slots may be computed.
///
/// # Errors
/// It would be too large.
pub fn fits<C: Cost>(stages: usize, slots: usize) -> Result<(), TableError> {
    let bytes = Tetrahedron::<C>::bytes(stages, slots);
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let source = std::io::Error::new(std::io::ErrorKind::OutOfMemory, format!("at most {MOST_BYTES} are taken"));
    Err(TableError::Memory { bytes, source })
}

impl<'a, C: Cost> WeakTable<'a, C> {
    /// Computes the table for `capacity` slots and fewer, beside the chain's input.
    ///
    /// # Errors
    /// Times do not fit the cost type, or there is too little memory.
    pub fn new(chain: &'a SlottedChain, capacity: usize) -> Result<Self, TableError> {
        let before = passing_before(chain).ok_or(TableError::Times)?;
        let capacity = capacity + chain.input[0];
        fits::<C>(chain.len(), capacity + 1)?;
        let mut table = Self {
            chain,
            limits: Limits::new(chain),
            before,
            entries: Tetrahedron::new(chain.len(), capacity + 1, C::INFINITE),
            least: least(chain),
            capacity,
            vectors: Vectors::best(),
        };
        for l in 0..chain.len() {
            table.phase(l);
        }
        Ok(table)
    }

    /// Slots of the chain's input, which the table's memory axis includes.
    pub fn input(&self) -> usize {
        self.chain.input[0]
    }

    /// The makespan of the whole chain, if finite.
    pub fn makespan(&self, mu: usize) -> Option<u64> {
        self.entries.row(0, 0, self.chain.len() - 1)[mu].get()
    }

    /// All states whose first backward is that of stage `l`.
    fn phase(&mut self, l: usize) {
        let width = self.capacity + 1;
        let mut e = vec![C::INFINITE; (l + 1) * width];
        // H by (r, t), for this l.
        let mut moved = vec![Vec::new(); l + 1];
        for s in (0..=l).rev() {
            let mut kept = vec![C::INFINITE; (l - s) * width];
            kept.par_chunks_exact_mut(width).enumerate().for_each(|(index, row)| self.kept(row, &e, s, s + index, l));
            moved[s] = kept;
            let mut rows = vec![C::INFINITE; (l + 1 - s) * width];
            rows.par_chunks_exact_mut(width)
                .enumerate()
                .for_each(|(index, row)| self.entry(row, &moved, s, s + index, l));
            for (index, row) in rows.chunks_exact(width).enumerate() {
                let t = s + index;
                self.entries.row_mut(s, t, l).copy_from_slice(row);
                min_with(self.vectors, &mut e[t * width..][..width], row);
            }
        }
    }

    /// H(r, t, l, .).
    fn kept(&self, row: &mut [C], e: &[C], r: usize, t: usize, l: usize) {
        let input = self.chain.input[r];
        let from = self.limits.kept(r, l).max(input).max(self.least.row(r, t, l)[0].min(self.capacity + 1));
        if from > self.capacity {
            return;
        }
        for t2 in t + 1..=l {
            let rest = &e[t2 * row.len()..][..row.len()];
            let left = &self.entries.row(r, t, t2 - 1)[from..];
            min_plus(self.vectors, &mut row[from..], left, &rest[from - input..][..left.len()]);
        }
        for value in &mut row[from..] {
            // Infinite entries stay beyond what counts as finite: see `Cost`.
            *value = value.minus(self.before[r]);
        }
    }

    /// D(s, t, l, .).
    fn entry(&self, row: &mut [C], moved: &[Vec<C>], s: usize, t: usize, l: usize) {
        for (r, limit) in self.limits.moves(s, t, l) {
            let candidate = &moved[r][(t - r) * row.len()..][..row.len()];
            if let Some(row) = row.get_mut(limit..) {
                min_with(self.vectors, row, &candidate[limit..]);
            }
        }
        if s < t && t == l {
            let limit = self.limits.last(s, l);
            if let Some(row) = row.get_mut(limit..) {
                min_with(self.vectors, row, &self.entries.row(l, l, l)[limit..]);
            }
        }
        if s != t {
            return;
        }
        for saving in &self.chain.savings[s] {
            let (Some(time), Some(forward)) = (C::new(saving.time), C::new(self.chain.forward_time[s])) else {
                return; // `new` has checked that times fit.
            };
            let shift = self.chain.saved_shift(s, saving);
            let from = (self.chain.all_limit(l, saving) + self.chain.input[s]).max(if s == l { 0 } else { shift });
            let Some(row) = row.get_mut(from..) else { continue };
            if s == l {
                for value in row {
                    *value = (*value).min(self.before[s].plus(time));
                }
            } else {
                let rest = &self.entries.row(s + 1, s + 1, l)[from - shift..];
                for (value, &rest) in row.iter_mut().zip(rest) {
                    *value = (*value).min(rest.plus(time.minus(forward)));
                }
            }
        }
    }
}
