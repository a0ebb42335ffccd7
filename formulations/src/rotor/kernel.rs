//! The inner loop of the table: min-plus over the memory slots of a tile, for several subchains at
//! once, in the widest vectors that the processor has.

/// A makespan in the table. Sums of two finite or infinite values must not overflow.
pub trait Cost: Copy + Ord + Send + Sync + std::ops::Add<Output = Self> + std::ops::Sub<Output = Self> + 'static {
    /// No schedule; also every makespan beyond what the type holds.
    const INFINITE: Self;
    /// A makespan, if it is below [`Cost::INFINITE`].
    fn new(time: u64) -> Option<Self>;
    /// The makespan, unless infinite.
    fn get(self) -> Option<u64>;
}

impl Cost for u32 {
    const INFINITE: Self = Self::MAX / 2;
    fn new(time: u64) -> Option<Self> {
        Self::try_from(time).ok().filter(|&time| time < Self::INFINITE)
    }
    fn get(self) -> Option<u64> {
        (self < Self::INFINITE).then_some(self.into())
    }
}

/// Signed, because 64-bit vector comparisons are; makespans are not negative.
impl Cost for i64 {
    const INFINITE: Self = Self::MAX / 2;
    fn new(time: u64) -> Option<Self> {
        Self::try_from(time).ok().filter(|&time| time < Self::INFINITE)
    }
    fn get(self) -> Option<u64> {
        u64::try_from(self).ok().filter(|_| self < Self::INFINITE)
    }
}

/// Subchains with a common start that are computed together, so that what they share is loaded once.
pub const GROUP: usize = 4;
/// Most memory slots in a tile; rows are padded by as many infinite entries in front.
pub const MAX_TILE: usize = 32;

/// `W` slots of makespans of [`GROUP`] subchains.
pub type Tiles<C, const W: usize> = [[C; W]; GROUP];

/// Operands of a run of splits `s..=k | k+1..=t`, k increasing.
pub struct Splits<'a, C> {
    /// The rows of the left parts.
    pub left: Rows<'a, C>,
    /// The rows of the right parts, of the first subchain of the group.
    pub right: Rows<'a, C>,
    /// Distance between the right rows of two neighbours in the group.
    pub column_step: usize,
    /// Per split, the slots that the checkpoint takes from the right part.
    pub shift: &'a [usize],
    /// The tile's first slot, the padding in front included.
    pub start: usize,
}

/// Rows of a table at equal distances.
#[derive(Clone, Copy)]
pub struct Rows<'a, C> {
    /// From the first row on.
    pub values: &'a [C],
    /// Distance.
    pub step: usize,
}

/// `best = min(best, left + right)` over all splits and slots, for the first `columns` of the group.
#[inline(always)]
pub fn minimise<C: Cost, const W: usize, const COLUMNS: usize>(best: &mut [[C; W]; COLUMNS], splits: &Splits<'_, C>) {
    for (index, &shift) in splits.shift.iter().enumerate() {
        if shift >= splits.start {
            continue; // The checkpoint alone takes more than the whole tile has.
        }
        let left: &[C; W] = tile(splits.left.values, index * splits.left.step + splits.start);
        let right = index * splits.right.step + splits.start - shift;
        for (column, best) in best.iter_mut().enumerate() {
            let right: &[C; W] = tile(splits.right.values, right + column * splits.column_step);
            for slot in 0..W {
                best[slot] = best[slot].min(left[slot] + right[slot]);
            }
        }
    }
}

/// `W` entries of a row.
#[inline(always)]
pub fn tile<C, const W: usize>(row: &[C], start: usize) -> &[C; W] {
    row[start..].first_chunk().expect("rows are padded to whole tiles")
}
