//! Best fit: buffers one by one in some order, each into the tightest gap that holds it.

use std::cmp::Reverse;
use std::ops::Range;

use crate::method::{Answer, Limits, Method, Stop};
use crate::problem::{Buffer, Problem};

/// Which buffers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The largest (Pisarchyk, Lee: Efficient memory management for deep neural net inference, `MLSys` 2020 workshop).
    Size,
    /// Those that live longest (Wilson et al.: Dynamic storage allocation, IWMM 1995).
    Lifetime,
    /// Those that begin first, as an allocator meets them (Wilson et al.).
    Start,
}

/// How much more it takes to sort a buffer than to look at one.
const SORTED: usize = 16;

/// Best fit in a fixed order.
///
/// Among the gaps between placed buffers that overlap in time, the smallest that is large enough; else on top of
/// them. O(n^2 log n) for n buffers.
pub struct BestFit(pub Order);

impl Method for BestFit {
    fn id(&self) -> &'static str {
        match self.0 {
            Order::Size => "best-fit-size",
            Order::Lifetime => "best-fit-lifetime",
            Order::Start => "best-fit-start",
        }
    }

    fn solve(&self, problem: &Problem, limits: &Limits) -> Answer {
        let offsets = best_fit(problem, &self.0.of(problem.buffers()), limits);
        Answer::packed(problem, offsets, problem.bound(), if limits.over() { Stop::Limit } else { Stop::Done })
    }
}

impl Order {
    /// Positions of buffers in this order.
    pub fn of(self, buffers: &[Buffer]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        let lifetime = |at: usize| buffers[at].upper - buffers[at].lower;
        match self {
            Self::Size => order.sort_by_key(|&at| Reverse((buffers[at].size, lifetime(at)))),
            Self::Lifetime => order.sort_by_key(|&at| Reverse((lifetime(at), buffers[at].size))),
            Self::Start => order.sort_by_key(|&at| (buffers[at].lower, Reverse(buffers[at].size))),
        }
        order
    }
}

/// Offsets by best fit in an order; once time is up, what is left lies on top of all that is placed.
pub fn best_fit(problem: &Problem, order: &[usize], limits: &Limits) -> Vec<u64> {
    let buffers = problem.buffers();
    let mut placed = Placed::new(buffers);
    let mut height = 0;
    let mut over = false;
    for &at in order {
        let buffer = &buffers[at];
        over |= limits.over();
        let offset = if over { height } else { placed.tightest_gap(buffer) };
        height = height.max(offset + buffer.size);
        placed.insert(at, offset);
    }
    placed.offsets
}

/// Buffers with addresses, by address and by time.
struct Placed<'a> {
    buffers: &'a [Buffer],
    offsets: Vec<u64>,
    /// By offset.
    all: Vec<usize>,
    /// The first moment, and how many there are in each slice of time.
    first: u64,
    moments: u64,
    /// Those that are alive in each slice, as they came.
    slices: Vec<Vec<usize>>,
}

impl<'a> Placed<'a> {
    fn new(buffers: &'a [Buffer]) -> Self {
        let first = buffers.iter().map(|buffer| buffer.lower).min().unwrap_or(0);
        let end = buffers.iter().map(|buffer| buffer.upper).max().unwrap_or(0);
        let slices = buffers.len().isqrt().max(1);
        let moments = ((end - first) / slices as u64).saturating_add(1);
        Self {
            buffers,
            offsets: vec![0; buffers.len()],
            all: Vec::with_capacity(buffers.len()),
            first,
            moments,
            slices: vec![vec![]; slices],
        }
    }

    /// The slices in which a buffer is alive.
    fn span(&self, buffer: &Buffer) -> Range<usize> {
        let slice = |moment: u64| usize::try_from((moment - self.first) / self.moments).unwrap_or(usize::MAX);
        slice(buffer.lower)..slice(buffer.upper - 1) + 1
    }

    /// The smallest gap that holds a buffer, or else the first address above all that it meets.
    fn tightest_gap(&self, buffer: &Buffer) -> u64 {
        let near = &self.slices[self.span(buffer)];
        let meets = |&other: &usize| self.buffers[other].overlaps(buffer);
        // To sort a few takes less than to look at all.
        if SORTED * near.iter().map(Vec::len).sum::<usize>() < self.all.len() {
            let mut found: Vec<usize> = near.iter().flatten().copied().filter(meets).collect();
            found.sort_unstable_by_key(|&other| self.offsets[other]);
            self.gap(buffer, found.into_iter())
        } else {
            self.gap(buffer, self.all.iter().copied().filter(meets))
        }
    }

    /// The same, of those that it meets by offset. One may come twice.
    fn gap(&self, buffer: &Buffer, met: impl Iterator<Item = usize>) -> u64 {
        let mut top = 0;
        let mut best: Option<(u64, u64)> = None;
        for other in met {
            let offset: u64 = self.offsets[other];
            let gap = offset.saturating_sub(top);
            if gap >= buffer.size && best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, top));
            }
            top = top.max(offset + self.buffers[other].size);
        }
        best.map_or(top, |(_, offset)| offset)
    }

    fn insert(&mut self, at: usize, offset: u64) {
        self.offsets[at] = offset;
        let position = self.all.partition_point(|&other| self.offsets[other] <= offset);
        self.all.insert(position, at);
        for slice in self.span(&self.buffers[at]) {
            self.slices[slice].push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_a_moment_among_many_fit_as_they_do_among_all() {
        // Each lives for a few of many moments, and meets the 12 before it.
        let buffers: Vec<Buffer> = (0..2000_u64)
            .map(|at| Buffer { id: at.to_string(), lower: 10 * at, upper: 10 * at + 125, size: 1 + at * 7919 % 97 })
            .collect();
        let problem = Problem::new(buffers, 1).expect("is one");
        let order = Order::Size.of(problem.buffers());
        let offsets = best_fit(&problem, &order, &Limits::default());
        let mut placed = Placed::new(problem.buffers());
        for &at in &order {
            let buffer = &problem.buffers()[at];
            let met = placed.all.iter().copied().filter(|&other| problem.buffers()[other].overlaps(buffer));
            placed.insert(at, placed.gap(buffer, met));
        }
        assert_eq!(offsets, placed.offsets);
        let late = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        let sum: u64 = problem.buffers().iter().map(|buffer| buffer.size).sum();
        assert_eq!(problem.height(&best_fit(&problem, &order, &late)), sum);
    }
}
