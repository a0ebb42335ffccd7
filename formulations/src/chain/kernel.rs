//! The inner loop of the table: min-plus over the memory slots of a tile, for several subchains at
//! once, in vectors (`vectors.rs`).

use crate::vectors::{Cost, Lanes};

/// Subchains with a common start that are computed together, so that what they share is loaded once.
pub const GROUP: usize = 4;
/// Vectors of a tile.
const VECTORS: usize = 2;
/// Most memory slots in a tile; rows are padded by as many infinite entries in front.
pub const MAX_TILE: usize = 32;

/// Memory slots of a tile.
pub const fn tile_width<C, V: Lanes<C>>() -> usize {
    VECTORS * V::WIDTH
}

/// The slots of a tile.
pub type Tile<V> = [V; VECTORS];

/// Best makespans of some subchains in one tile.
pub type Best<V, const COLUMNS: usize> = [Tile<V>; COLUMNS];

/// Nothing found yet.
#[inline(always)]
pub fn infinite<C: Cost, V: Lanes<C>, const COLUMNS: usize>() -> Best<V, COLUMNS> {
    [[V::splat(C::INFINITE); VECTORS]; COLUMNS]
}

/// Operands of a run of cuts c, increasing: left parts s..c, right parts c..e.
pub struct Cuts<'a, C> {
    /// The rows of the left parts.
    pub left: Rows<'a, C>,
    /// The rows of the right parts, of the first subchain of the group.
    pub right: Rows<'a, C>,
    /// Distance between the right rows of two neighbours in the group.
    pub column_step: usize,
    /// Per cut, the slots that the checkpoint takes from the right part.
    pub shift: &'a [usize],
}

/// Rows of a table at equal distances.
#[derive(Clone, Copy)]
pub struct Rows<'a, C> {
    /// From the first row on.
    pub values: &'a [C],
    /// Distance.
    pub step: usize,
    /// Where in a row the tile is, the padding in front included.
    pub at: usize,
}

/// `best = min(best, left + right)` over all cuts and slots.
#[inline(always)]
pub fn minimise<C: Cost, V: Lanes<C>, const COLUMNS: usize>(best: &mut Best<V, COLUMNS>, cuts: &Cuts<'_, C>) {
    let mut registers = *best;
    for (index, &shift) in cuts.shift.iter().enumerate() {
        if shift >= cuts.right.at {
            continue; // The checkpoint alone takes more than the whole tile has.
        }
        let left = load::<C, V>(cuts.left.values, index * cuts.left.step + cuts.left.at);
        let right = index * cuts.right.step + cuts.right.at - shift;
        for (column, best) in registers.iter_mut().enumerate() {
            let right = load::<C, V>(cuts.right.values, right + column * cuts.column_step);
            for vector in 0..VECTORS {
                best[vector] = best[vector].min(left[vector].add(right[vector]));
            }
        }
    }
    *best = registers;
}

/// A tile of a row.
#[inline(always)]
pub fn load<C: Cost, V: Lanes<C>>(values: &[C], start: usize) -> Tile<V> {
    let tile = &values[start..start + tile_width::<C, V>()];
    std::array::from_fn(|vector| V::load(&tile[vector * V::WIDTH..]))
}

/// Adds the same to every slot, modulo the type's range.
#[inline(always)]
pub fn shifted<C: Cost, V: Lanes<C>>(tile: Tile<V>, by: C) -> Tile<V> {
    let by = V::splat(by);
    tile.map(|lanes| lanes.add(by))
}

/// Slot by slot.
#[inline(always)]
pub fn least<C: Cost, V: Lanes<C>>(a: Tile<V>, b: Tile<V>) -> Tile<V> {
    std::array::from_fn(|vector| a[vector].min(b[vector]))
}

/// The tile with its first slots infinite.
#[inline(always)]
pub fn forbid<C: Cost, V: Lanes<C>>(tile: Tile<V>, slots: usize) -> Tile<V> {
    if slots == 0 {
        return tile;
    }
    if slots >= tile_width::<C, V>() {
        return [V::splat(C::INFINITE); VECTORS];
    }
    let mut values = [C::INFINITE; MAX_TILE];
    store(tile, &mut values);
    values[..slots].fill(C::INFINITE);
    load(&values, 0)
}

/// Writes a tile to the beginning of a slice.
#[inline(always)]
pub fn store<C: Cost, V: Lanes<C>>(tile: Tile<V>, to: &mut [C]) {
    for (vector, lanes) in tile.into_iter().enumerate() {
        lanes.store(&mut to[vector * V::WIDTH..]);
    }
}
