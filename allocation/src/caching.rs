//! A model of the caching allocator of PyTorch's CUDA backend: how much memory it reserves for the buffers of a schedule.
//!
//! The rules are those of `c10/cuda/CUDACachingAllocator.cpp` with default settings and one stream: sizes are rounded up
//! to 512 B; requests of up to 1 MiB are served from segments of 2 MiB, others of less than 10 MiB from segments of
//! 20 MiB, larger ones from segments of their own, rounded up to 2 MiB. A request takes the smallest free block of its
//! pool that is large enough, the lowest address among equals. The rest of the block is split off where it is at least
//! 512 B (small pool) or more than 1 MiB (large pool). A freed block joins its free neighbours. Where the device is full,
//! segments that are wholly free are given back, and the request is tried again.
//!
//! Not modelled: expandable segments, several streams, rounding to powers of two, limits on splitting, and memory
//! outside of the allocator (the CUDA context, libraries). The driver's addresses are taken to ascend.

use std::collections::BTreeSet;

use crate::problem::Buffer;

/// Sizes are multiples of this.
const BLOCK: u64 = 512;
/// Largest request served from a small segment; in the large pool, a rest must exceed it to be split off.
const SMALL: u64 = 1 << 20;
/// Segment of the small pool.
const SMALL_SEGMENT: u64 = 2 << 20;
/// From here on, a request has a segment of its own.
const LARGE: u64 = 10 << 20;
/// Segment of the large pool for requests below [`LARGE`].
const LARGE_SEGMENT: u64 = 20 << 20;
/// Segments of large requests are multiples of this.
const LARGE_UNIT: u64 = 2 << 20;

/// What the allocator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    /// Largest sum of its segments.
    pub reserved: u64,
    /// Largest sum of the rounded sizes in use.
    pub allocated: u64,
    /// Segments that it asked the driver for.
    pub segments: usize,
    /// How often it gave free segments back for want of room.
    pub releases: usize,
    /// The first moment at which a request could not be served; it ends the replay.
    pub out_of_memory: Option<u64>,
}

/// Replays buffers, given in the order of their allocation; at one moment frees come first.
///
/// `capacity` is what the driver has for segments; without one there is always room.
pub fn replay(buffers: &[Buffer], capacity: Option<u64>) -> Reservation {
    let mut allocator = Allocator { capacity: capacity.unwrap_or(u64::MAX), ..Allocator::default() };
    let ends = buffers.iter().enumerate().map(|(at, buffer)| (buffer.upper, false, at));
    let begins = buffers.iter().enumerate().map(|(at, buffer)| (buffer.lower, true, at));
    let mut events: Vec<_> = ends.chain(begins).collect();
    events.sort_unstable();
    let mut held: Vec<Option<usize>> = vec![None; buffers.len()];
    for (moment, begins, at) in events {
        if !begins {
            if let Some(block) = held[at].take() {
                allocator.free(block);
            }
            continue;
        }
        held[at] = allocator.allocate(buffers[at].size);
        if held[at].is_none() {
            allocator.seen.out_of_memory = Some(moment);
            break;
        }
    }
    allocator.seen
}

/// A stretch of a segment.
#[derive(Clone, Debug)]
struct Block {
    address: u64,
    size: u64,
    free: bool,
    small: bool,
    /// Neighbours within the segment.
    previous: Option<usize>,
    next: Option<usize>,
}

#[derive(Default)]
struct Allocator {
    capacity: u64,
    blocks: Vec<Block>,
    /// Free blocks of the large and of the small pool: size, address, position.
    free: [BTreeSet<(u64, u64, usize)>; 2],
    /// Where the driver's next segment begins.
    top: u64,
    reserved: u64,
    allocated: u64,
    seen: Reservation,
}

impl Allocator {
    /// A block of at least so many bytes; none where there is no room.
    fn allocate(&mut self, bytes: u64) -> Option<usize> {
        let size = bytes.max(1).checked_next_multiple_of(BLOCK)?;
        let small = size <= SMALL;
        let found = self.free[usize::from(small)].range((size, 0, 0)..).next().copied();
        let at = match found {
            Some(entry) => {
                self.free[usize::from(small)].remove(&entry);
                entry.2
            }
            None => self.segment(size, small)?,
        };
        self.blocks[at].free = false;
        self.split(at, size);
        self.allocated += self.blocks[at].size;
        self.seen.allocated = self.seen.allocated.max(self.allocated);
        Some(at)
    }

    /// A new segment for a request.
    fn segment(&mut self, size: u64, small: bool) -> Option<usize> {
        let length = match size {
            _ if small => SMALL_SEGMENT,
            _ if size < LARGE => LARGE_SEGMENT,
            _ => size.checked_next_multiple_of(LARGE_UNIT)?,
        };
        let fits = |reserved: u64| reserved.checked_add(length).filter(|&sum| sum <= self.capacity);
        if fits(self.reserved).is_none() {
            self.release();
        }
        self.reserved = self.reserved.checked_add(length).filter(|&sum| sum <= self.capacity)?;
        self.seen.reserved = self.seen.reserved.max(self.reserved);
        self.seen.segments += 1;
        self.blocks.push(Block { address: self.top, size: length, free: false, small, previous: None, next: None });
        self.top = self.top.checked_add(length)?;
        Some(self.blocks.len() - 1)
    }

    /// Gives back every segment that is one free block.
    fn release(&mut self) {
        let blocks = &self.blocks;
        let mut given = 0;
        for pool in &mut self.free {
            pool.retain(|&(size, _, at)| {
                let whole = blocks[at].previous.is_none() && blocks[at].next.is_none();
                given += if whole { size } else { 0 };
                !whole
            });
        }
        self.reserved -= given;
        self.seen.releases += usize::from(given > 0);
    }

    /// Splits the rest of a block off where it is worth it.
    fn split(&mut self, at: usize, size: u64) {
        let Block { address, size: whole, small, next, .. } = self.blocks[at];
        let rest = whole - size;
        if !(if small { rest >= BLOCK } else { rest > SMALL }) {
            return;
        }
        let new = self.blocks.len();
        let address = address + size;
        self.blocks.push(Block { address, size: rest, free: true, small, previous: Some(at), next });
        if let Some(next) = next {
            self.blocks[next].previous = Some(new);
        }
        self.blocks[at].next = Some(new);
        self.blocks[at].size = size;
        self.free[usize::from(small)].insert((rest, address, new));
    }

    fn free(&mut self, at: usize) {
        self.allocated -= self.blocks[at].size;
        self.blocks[at].free = true;
        let at = self.blocks[at].previous.filter(|&other| self.blocks[other].free).map_or(at, |other| self.join(other));
        if self.blocks[at].next.is_some_and(|other| self.blocks[other].free) {
            self.join(at);
        }
        let Block { address, size, small, .. } = self.blocks[at];
        self.free[usize::from(small)].insert((size, address, at));
    }

    /// Joins a block with the one after it; neither stays in its pool.
    fn join(&mut self, at: usize) -> usize {
        let Some(next) = self.blocks[at].next else { return at };
        for other in [at, next] {
            let Block { address, size, small, .. } = self.blocks[other];
            self.free[usize::from(small)].remove(&(size, address, other));
        }
        self.blocks[at].size += self.blocks[next].size;
        self.blocks[at].next = self.blocks[next].next;
        if let Some(after) = self.blocks[at].next {
            self.blocks[after].previous = Some(at);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Buffers of a lifetime and a size.
    fn buffers(rows: &[(u64, u64, u64)]) -> Vec<Buffer> {
        let buffer = |(at, &(lower, upper, size)): (usize, &_)| Buffer { id: at.to_string(), lower, upper, size };
        rows.iter().enumerate().map(buffer).collect()
    }

    #[test]
    fn requests_are_rounded_and_segments_have_the_documented_sizes() {
        let of = |size| replay(&buffers(&[(0, 1, size)]), None);
        let sizes = [1, 512, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 13 * MIB];
        let seen = sizes.map(|size| (of(size).allocated, of(size).reserved / MIB));
        assert_eq!(seen[..4], [(512, 2), (512, 2), (1024, 2), (MIB, 2)]);
        assert_eq!(seen[4..6], [(MIB + 512, 20), (10 * MIB - 512, 20)]);
        assert_eq!(seen[6..], [(10 * MIB, 10), (14 * MIB, 14)], "a rest of 1 MiB is not split off");
    }

    #[test]
    fn small_requests_share_a_segment_and_large_ones_do_not_take_it() {
        let four = replay(&buffers(&[(0, 9, MIB / 2), (1, 9, MIB / 2), (2, 9, MIB / 2), (3, 9, MIB / 2)]), None);
        assert_eq!((four.reserved, four.segments), (2 * MIB, 1));
        let both = replay(&buffers(&[(0, 9, 512), (1, 9, 2 * MIB), (2, 9, 512)]), None);
        assert_eq!((both.reserved, both.segments), (22 * MIB, 2));
    }

    #[test]
    fn freed_neighbours_join_so_that_a_larger_request_fits() {
        // Two halves of a segment of 20 MiB are freed; the whole of it serves what neither could.
        let rows = [(0, 2, 9 * MIB), (1, 3, 9 * MIB), (4, 5, 18 * MIB)];
        assert_eq!(replay(&buffers(&rows), None).reserved, 20 * MIB);
        // With the second half in use, it does not.
        let rows = [(0, 2, 9 * MIB), (1, 6, 9 * MIB), (4, 5, 18 * MIB)];
        assert_eq!(replay(&buffers(&rows), None).reserved, 38 * MIB);
    }

    #[test]
    fn the_tightest_block_serves_a_request_even_where_a_later_one_then_finds_none() {
        let rows = [(0, 2, 30 * MIB), (1, 3, 20 * MIB), (4, 9, 18 * MIB), (5, 9, 30 * MIB)];
        assert_eq!(
            replay(&buffers(&rows), None),
            Reservation { reserved: 50 * MIB, allocated: 50 * MIB, segments: 2, releases: 0, out_of_memory: None }
        );
    }

    #[test]
    fn where_the_device_is_full_free_segments_are_given_back_before_a_request_fails() {
        let rows = [(0, 1, 20 * MIB), (1, 3, 30 * MIB), (2, 3, 10 * MIB)];
        let tight = replay(&buffers(&rows), Some(40 * MIB));
        assert_eq!((tight.reserved, tight.releases, tight.out_of_memory), (40 * MIB, 1, None));
        let full = replay(&buffers(&rows), Some(39 * MIB));
        assert_eq!(full.out_of_memory, Some(2));
    }
}
