//! One attempt: depth-first search for a packing below a capacity.

use crate::method::Limits;
use crate::problem::Buffer;

/// What buffers are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Length of the lifetime.
    Width,
    /// Length of the lifetime times size.
    Area,
    /// The largest sum of sizes in a section of the lifetime.
    Total,
    /// How many others it overlaps.
    Overlaps,
    /// Sections of the lifetime.
    Sections,
    /// The first section of the lifetime.
    Start,
    /// The first section after the lifetime.
    End,
    /// Bytes.
    Size,
}

/// A buffer as the search sees it.
#[derive(Clone, Debug)]
struct Item {
    /// First section of its life.
    lo: usize,
    /// First section after it.
    hi: usize,
    /// Moments of its life.
    width: u64,
    size: u64,
    /// Those that overlap it.
    neighbours: Vec<u32>,
}

/// The buffers by sections: the stretches of time between two moments at which a lifetime begins or ends.
pub struct Shape {
    items: Vec<Item>,
    /// Sum of the sizes alive in each section.
    totals: Vec<u64>,
    /// Buffers in the order in which they begin.
    by_start: Vec<u32>,
}

/// A position among the buffers, which number fewer than 2^32.
fn short(at: usize) -> u32 {
    u32::try_from(at).expect("buffers are counted in 32 bits")
}

impl Shape {
    /// Sections and overlaps. O(n log n + pairs that overlap); none where time is up before.
    pub fn new(buffers: &[Buffer], limits: &Limits) -> Option<Self> {
        let mut moments: Vec<u64> = buffers.iter().flat_map(|buffer| [buffer.lower, buffer.upper]).collect();
        moments.sort_unstable();
        moments.dedup();
        let section = |moment: u64| moments.partition_point(|&other| other < moment);
        let item = |&Buffer { lower, upper, size, .. }: &Buffer| Item {
            lo: section(lower),
            hi: section(upper),
            width: upper - lower,
            size,
            neighbours: vec![],
        };
        let mut items: Vec<Item> = buffers.iter().map(item).collect();
        let mut totals = vec![0; moments.len().saturating_sub(1)];
        let mut by_start: Vec<u32> = (0..items.len()).map(short).collect();
        by_start.sort_by_key(|&at| items[at as usize].lo);
        let mut alive: Vec<u32> = vec![];
        for &at in &by_start {
            if limits.over() {
                return None;
            }
            let Item { lo, hi, size, .. } = items[at as usize];
            alive.retain(|&other| items[other as usize].hi > lo);
            for &other in &alive {
                items[other as usize].neighbours.push(at);
            }
            items[at as usize].neighbours.extend(&alive);
            alive.push(at);
            totals[lo..hi].iter_mut().for_each(|total| *total += size);
        }
        Some(Self { items, totals, by_start })
    }

    /// Number of buffers.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The first address above all buffers.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.items.iter().zip(offsets).map(|(item, offset)| offset + item.size).max().unwrap_or(0)
    }

    /// Rank of each buffer by three keys, descending.
    pub fn ranks(&self, keys: [Key; 3]) -> Vec<u32> {
        let value = |item: &Item, key| match key {
            Key::Width => u128::from(item.width),
            Key::Area => u128::from(item.width) * u128::from(item.size),
            Key::Total => self.totals[item.lo..item.hi].iter().copied().max().unwrap_or(0).into(),
            Key::Overlaps => item.neighbours.len() as u128,
            Key::Sections => (item.hi - item.lo) as u128,
            Key::Start => item.lo as u128,
            Key::End => item.hi as u128,
            Key::Size => item.size.into(),
        };
        let descending = |item: &Item| keys.map(|key| std::cmp::Reverse(value(item, key)));
        let mut ranked: Vec<_> = self.items.iter().enumerate().map(|(at, item)| (descending(item), at)).collect();
        ranked.sort_unstable();
        let mut ranks = vec![0; ranked.len()];
        for (rank, (_, at)) in ranked.into_iter().enumerate() {
            ranks[at] = short(rank);
        }
        ranks
    }
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All buffers are placed.
    Found,
    /// There is no packing below the capacity.
    Failed,
    /// The nodes are spent, or the attempt has become useless.
    Stopped,
}

/// Address and rank of the last placement: later ones are not less.
type Place = (u64, u32);

/// Nodes between two looks at whether to stop.
const LOOK: u64 = 256;

/// A search and its state.
pub struct Search<'a> {
    shape: &'a Shape,
    ranks: Vec<u32>,
    capacity: u64,
    /// Lowest address of each unplaced buffer above the placed ones that it overlaps; address of each placed one.
    least: Vec<u64>,
    placed: Vec<bool>,
    /// Sum of the unplaced sizes in each section.
    rest: Vec<u64>,
    /// Scratch: lowest address that an unplaced buffer of each section may have.
    floor: Vec<u64>,
    /// Former lowest addresses, to be restored.
    trail: Vec<(u32, u64)>,
    nodes: u64,
    limit: u64,
    useless: &'a dyn Fn() -> bool,
}

impl<'a> Search<'a> {
    /// A search for a packing that ends at most at `capacity`, of at most so many nodes.
    pub fn new(shape: &'a Shape, ranks: Vec<u32>, capacity: u64, limit: u64, useless: &'a dyn Fn() -> bool) -> Self {
        let count = shape.items.len();
        Self {
            shape,
            ranks,
            capacity,
            least: vec![0; count],
            placed: vec![false; count],
            rest: shape.totals.clone(),
            floor: vec![0; shape.totals.len()],
            trail: vec![],
            nodes: 0,
            limit,
            useless,
        }
    }

    /// Searches.
    pub fn run(&mut self) -> Verdict {
        let all = self.shape.by_start.clone();
        self.groups(&all, (0, 0))
    }

    /// The packing, after [`Verdict::Found`].
    pub fn offsets(self) -> Vec<u64> {
        self.least
    }

    /// Places unplaced buffers, given in the order in which they begin: each group that shares no moment with the
    /// others by itself.
    fn groups(&mut self, unplaced: &[u32], from: Place) -> Verdict {
        let (mut start, mut end) = (0, 0);
        for at in 0..unplaced.len() {
            let Item { lo, hi, .. } = self.shape.items[unplaced[at] as usize];
            if at > start && lo >= end {
                let verdict = self.node(&unplaced[start..at], from);
                if verdict != Verdict::Found {
                    return verdict;
                }
                start = at;
            }
            end = end.max(hi);
        }
        if start == unplaced.len() { Verdict::Found } else { self.node(&unplaced[start..], from) }
    }

    /// Places a group of unplaced buffers; where it fails, the state is as before.
    fn node(&mut self, group: &[u32], from: Place) -> Verdict {
        self.nodes += 1;
        if self.nodes > self.limit || (self.nodes.is_multiple_of(LOOK) && (self.useless)()) {
            return Verdict::Stopped;
        }
        if self.is_hopeless(group, from) {
            return Verdict::Failed;
        }
        for (offset, rank, buffer) in self.candidates(group, from) {
            let mark = self.trail.len();
            let (within, hatless) = self.place(buffer);
            let verdict = if within {
                let rest: Vec<u32> = group.iter().copied().filter(|&other| other != buffer).collect();
                self.groups(&rest, (offset, rank))
            } else {
                Verdict::Failed
            };
            if verdict == Verdict::Found {
                return verdict;
            }
            self.undo(group, mark);
            if verdict == Verdict::Stopped || hatless {
                return verdict;
            }
        }
        Verdict::Failed
    }

    /// Placements to try: in canonical order, and none above where another buffer could have ended.
    fn candidates(&self, group: &[u32], from: Place) -> Vec<(u64, u32, u32)> {
        let size = |at: u32| self.shape.items[at as usize].size;
        let ceiling = group.iter().map(|&at| self.least[at as usize] + size(at)).min().unwrap_or(0);
        let place = |&at: &u32| (self.least[at as usize], self.ranks[at as usize], at);
        let mut candidates: Vec<_> =
            group.iter().map(place).filter(|&(offset, rank, _)| offset < ceiling && (offset, rank) >= from).collect();
        candidates.sort_unstable();
        candidates
    }

    /// Places a buffer at its lowest address: whether all that overlap it may still end below the capacity, and
    /// whether none that overlaps it is unplaced.
    fn place(&mut self, at: u32) -> (bool, bool) {
        let item = &self.shape.items[at as usize];
        let top = self.least[at as usize] + item.size;
        self.placed[at as usize] = true;
        self.rest[item.lo..item.hi].iter_mut().for_each(|rest| *rest -= item.size);
        let (mut within, mut hatless) = (true, true);
        for &other in &item.neighbours {
            if self.placed[other as usize] {
                continue;
            }
            hatless = false;
            let least = &mut self.least[other as usize];
            if *least < top {
                self.trail.push((other, *least));
                *least = top;
                within &= top + self.shape.items[other as usize].size <= self.capacity;
            }
        }
        (within, hatless)
    }

    /// Takes every placed buffer of a group away again, and restores lowest addresses down to a mark of the trail.
    fn undo(&mut self, group: &[u32], mark: usize) {
        for &at in group {
            if std::mem::replace(&mut self.placed[at as usize], false) {
                let item = &self.shape.items[at as usize];
                self.rest[item.lo..item.hi].iter_mut().for_each(|rest| *rest += item.size);
            }
        }
        while self.trail.len() > mark {
            if let Some((at, least)) = self.trail.pop() {
                self.least[at as usize] = least;
            }
        }
    }

    /// Whether some buffer, or some section, cannot end below the capacity.
    fn is_hopeless(&mut self, group: &[u32], from: Place) -> bool {
        let items = &self.shape.items;
        let lo = group.first().map_or(0, |&at| items[at as usize].lo);
        let hi = group.iter().map(|&at| items[at as usize].hi).max().unwrap_or(lo);
        self.floor[lo..hi].fill(u64::MAX);
        for &at in group {
            let item = &items[at as usize];
            let mut least = self.least[at as usize];
            if (least, self.ranks[at as usize]) < from {
                // The order has passed it: it must lie on another unplaced buffer.
                let below = item.neighbours.iter().map(|&other| other as usize).filter(|&other| !self.placed[other]);
                let Some(top) = below.map(|other| self.least[other].max(from.0) + items[other].size).min() else {
                    return true;
                };
                least = least.max(top);
            }
            if least + item.size > self.capacity {
                return true;
            }
            self.floor[item.lo..item.hi].iter_mut().for_each(|floor| *floor = least.min(*floor));
        }
        let capacity = self.capacity;
        self.floor[lo..hi].iter().zip(&self.rest[lo..hi]).any(|(floor, &rest)| rest > 0 && rest + floor > capacity)
    }
}
