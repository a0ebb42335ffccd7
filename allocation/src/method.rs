//! What an allocation method is, and the registry of all.

use std::time::Instant;

use crate::fit::{BestFit, Order};
use crate::minimalloc::MiniMalloc;
use crate::problem::Problem;

/// A method that gives buffers their addresses.
pub trait Method: Sync {
    /// Kebab-case id.
    fn id(&self) -> &'static str;
    /// Packs the buffers as low as it can within its limits.
    fn solve(&self, problem: &Problem, limits: &Limits) -> Answer;
}

/// What a method may use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// When to stop.
    pub deadline: Option<Instant>,
    /// Threads; 0 counts as 1.
    pub threads: usize,
    /// A height that is low enough; without one, the least is wanted.
    pub capacity: Option<u64>,
}

impl Limits {
    /// Whether to stop now.
    pub fn over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether nothing more is to be known where a packing of some height is there and no packing is lower than a bound.
    pub fn is_decided(&self, height: u64, bound: u64) -> bool {
        height <= bound || self.capacity.is_some_and(|capacity| height <= capacity || bound > capacity)
    }
}

/// Why a method stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It did all that it does.
    Done,
    /// Time was up.
    Limit,
}

/// A packing and what is proved of all packings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// First address of each buffer, in the problem's order.
    pub offsets: Vec<u64>,
    /// First address above all buffers.
    pub height: u64,
    /// No packing is lower.
    pub bound: u64,
    /// Why the method stopped.
    pub stop: Stop,
}

impl Answer {
    /// The answer with these offsets.
    pub fn packed(problem: &Problem, offsets: Vec<u64>, bound: u64, stop: Stop) -> Self {
        let height = problem.height(&offsets);
        Self { offsets, height, bound, stop }
    }

    /// Whether no packing is lower.
    pub fn is_optimal(&self) -> bool {
        self.height == self.bound
    }

    /// Whether the buffers fit: `Some(true)` with this packing, `Some(false)` if it is proved that they do not.
    pub fn fits(&self, capacity: u64) -> Option<bool> {
        if self.height <= capacity { Some(true) } else { (self.bound > capacity).then_some(false) }
    }
}

/// Every method.
pub static METHODS: &[&dyn Method] =
    &[&BestFit(Order::Size), &BestFit(Order::Lifetime), &BestFit(Order::Start), &MiniMalloc];

/// The method with an id.
pub fn find(id: &str) -> Option<&'static dyn Method> {
    METHODS.iter().copied().find(|method| method.id() == id)
}
