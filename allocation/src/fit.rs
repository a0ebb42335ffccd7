//! Best fit: buffers one by one in some order, each into the tightest gap that holds it.

use std::cmp::Reverse;

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

    fn solve(&self, problem: &Problem, _limits: &Limits) -> Answer {
        let offsets = best_fit(problem, &self.0.of(problem.buffers()));
        Answer::packed(problem, offsets, problem.bound(), Stop::Done)
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

/// Offsets by best fit in an order.
pub fn best_fit(problem: &Problem, order: &[usize]) -> Vec<u64> {
    let buffers = problem.buffers();
    let mut offsets = vec![0; buffers.len()];
    // Placed buffers, by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    for &at in order {
        let buffer = &buffers[at];
        let mut top = 0;
        let mut best: Option<(u64, u64)> = None;
        for &other in placed.iter().filter(|&&other| buffers[other].overlaps(buffer)) {
            let offset: u64 = offsets[other];
            let gap = offset.saturating_sub(top);
            if gap >= buffer.size && best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, top));
            }
            top = top.max(offset + buffers[other].size);
        }
        offsets[at] = best.map_or(top, |(_, offset)| offset);
        let position = placed.partition_point(|&other| offsets[other] <= offsets[at]);
        placed.insert(position, at);
    }
    offsets
}
