//! MiniMalloc: a complete search for a packing below a capacity, asked again and again until the least capacity is
//! known.

mod search;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fit::{Order, best_fit};
use crate::method::{Answer, Limits, Method, Stop};
use crate::problem::Problem;
use search::{Key, Search, Shape, Verdict};

/// Moffitt's MiniMalloc.
///
/// # Problem
/// The least height of a packing; or, with [`Limits::capacity`], any packing below that.
///
/// # Search
/// Depth first; the buffers placed so far make a skyline, and a buffer goes to the lowest address above those that it
/// overlaps. *Canonical order*: addresses never fall along a branch, and ties follow a static rank. *Dominance*: no
/// buffer is placed where another could have ended below it. *Sections*: between two moments at which a lifetime
/// begins or ends, what is unplaced must fit between the lowest address left and the capacity. *Hatless*: where
/// nothing unplaced overlaps a buffer, its alternatives are not tried. *Decomposition*: groups of unplaced buffers that
/// do not overlap in time are searched one by one.
///
/// # Departures from the paper
/// A buffer that the canonical order has passed must lie on one that is still unplaced; sections count it from there.
/// Every round of attempts, with twice the nodes of the one before, takes the paper's three ranks (by width, area and
/// largest section), a fourth by largest section, number of overlaps and width, and, from the second round on, eight by
/// three keys drawn at random; capacities are the proved bound, the incumbent's height less one
/// unit, and the middle between them, since tight capacities are often easier. The unit is the greatest common divisor
/// of all sizes. Ranks that are drawn and capacities above the bound have a quarter of the nodes. With more than one thread runs do not repeat.
///
/// # Reference
/// Moffitt: MiniMalloc: A lightweight memory allocator for hardware-accelerated machine learning, ASPLOS 2023.
pub struct MiniMalloc;

/// What is compared first, second and third, each descending: three ranks of the paper's, and one by overlaps.
const RANKS: [[Key; 3]; 4] = [
    [Key::Total, Key::Width, Key::Area],
    [Key::Total, Key::Overlaps, Key::Width],
    [Key::Width, Key::Area, Key::Total],
    [Key::Total, Key::Area, Key::Width],
];
/// What the other ranks are drawn from.
const KEYS: [Key; 8] =
    [Key::Width, Key::Area, Key::Total, Key::Overlaps, Key::Sections, Key::Start, Key::End, Key::Size];
/// Ranks drawn for a round.
const DRAWN: usize = 8;
/// Nodes of an attempt in the first round.
const FIRST_NODES: u64 = 4096;
/// Stack of a thread, and what each buffer adds to it: the search goes as deep as there are buffers.
const STACK: (usize, usize) = (4 << 20, 4 << 10);

impl Method for MiniMalloc {
    fn id(&self) -> &'static str {
        "minimalloc"
    }

    fn solve(&self, problem: &Problem, limits: &Limits) -> Answer {
        let unit = problem.buffers().iter().fold(0, |unit, buffer| gcd(unit, buffer.size)).max(1);
        let bound = problem.bound();
        let (mut height, mut offsets) = (u64::MAX, vec![]);
        for order in [Order::Size, Order::Lifetime, Order::Start] {
            let fit = best_fit(problem, &order.of(problem.buffers()), limits);
            (height, offsets) = (height, offsets).min((problem.height(&fit), fit));
            if limits.is_decided(height, bound) {
                return Answer::packed(problem, offsets, bound, Stop::Done);
            }
            if limits.over() {
                return Answer::packed(problem, offsets, bound, Stop::Limit);
            }
        }
        let Some(shape) = Shape::new(problem.buffers(), limits) else {
            return Answer::packed(problem, offsets, bound, Stop::Limit);
        };
        let state = State { offsets, round: 0, next: 0 };
        let portfolio = Portfolio {
            shape,
            limits,
            unit,
            height: AtomicU64::new(height),
            bound: AtomicU64::new(bound),
            state: Mutex::new(state),
        };
        let stop = portfolio.run();
        let bound = portfolio.bound.load(Ordering::SeqCst);
        let state = portfolio.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Answer::packed(problem, state.offsets, bound, stop)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Attempts at one problem, and what came of them.
struct Portfolio<'a> {
    shape: Shape,
    limits: &'a Limits,
    /// Heights are multiples of this.
    unit: u64,
    /// Of the incumbent.
    height: AtomicU64,
    /// No packing is lower.
    bound: AtomicU64,
    state: Mutex<State>,
}

/// What the threads share beside height and bound.
struct State {
    /// The incumbent.
    offsets: Vec<u64>,
    /// Rounds so far.
    round: u32,
    /// Attempts of this round so far.
    next: usize,
}

/// One search.
struct Attempt {
    capacity: u64,
    rank: [Key; 3],
    nodes: u64,
}

impl Portfolio<'_> {
    fn run(&self) -> Stop {
        let (base, each) = STACK;
        std::thread::scope(|scope| {
            for _ in 0..self.limits.threads.max(1) {
                let builder = std::thread::Builder::new().stack_size(base + each * self.shape.len());
                // Where the system has no thread to spare, those that it gave do the work.
                let _ = builder.spawn_scoped(scope, || self.work());
            }
        });
        if self.is_decided() { Stop::Done } else { Stop::Limit }
    }

    /// Whether no further attempt could tell more.
    fn is_decided(&self) -> bool {
        self.limits.is_decided(self.height.load(Ordering::SeqCst), self.bound.load(Ordering::SeqCst))
    }

    fn work(&self) {
        while !self.is_decided() && !self.limits.over() {
            let attempt = self.attempt();
            let useless = || {
                let outside = attempt.capacity >= self.height.load(Ordering::Relaxed)
                    || attempt.capacity < self.bound.load(Ordering::Relaxed);
                outside || self.limits.over() || self.is_decided()
            };
            let ranks = self.shape.ranks(attempt.rank);
            let mut search = Search::new(&self.shape, ranks, attempt.capacity, attempt.nodes, &useless);
            match search.run() {
                Verdict::Found => self.found(search.offsets()),
                Verdict::Failed => {
                    self.bound.fetch_max(attempt.capacity + self.unit, Ordering::SeqCst);
                }
                Verdict::Stopped => {}
            }
        }
    }

    fn found(&self, offsets: Vec<u64>) {
        let height = self.shape.height(&offsets);
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if height < self.height.load(Ordering::SeqCst) {
            state.offsets = offsets;
            self.height.store(height, Ordering::SeqCst);
        }
    }

    /// The next attempt: in every round each rank at each capacity.
    fn attempt(&self) -> Attempt {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (bound, height) = (self.bound.load(Ordering::SeqCst), self.height.load(Ordering::SeqCst));
        let below = height - self.unit;
        let middle = bound + (below.saturating_sub(bound) / 2).next_multiple_of(self.unit);
        // No height lies between two multiples of the unit.
        let wanted = self.limits.capacity.map_or(below, |capacity| below.min(capacity - capacity % self.unit));
        let mut capacities =
            if self.limits.capacity.is_some() { vec![bound, wanted] } else { vec![bound, middle, below] };
        capacities.dedup();
        let ranks = if state.round == 0 { RANKS.len() } else { RANKS.len() + DRAWN };
        if state.next >= ranks * capacities.len() {
            (state.round, state.next) = (state.round + 1, 0);
        }
        let (at, round) = (state.next, state.round);
        state.next += 1;
        let (capacity, rank) = (capacities[at % capacities.len()], at / capacities.len());
        let nodes = FIRST_NODES.max(2 * self.shape.len() as u64).saturating_mul(1 << round.min(40));
        // The ranks of every round at the proved bound have most of the nodes: that is where the search is strongest.
        let nodes = if rank >= RANKS.len() || capacity > bound { nodes / 4 } else { nodes };
        let rank = RANKS.get(rank).copied().unwrap_or_else(|| drawn(u64::from(round) << 8 | rank as u64));
        Attempt { capacity, rank, nodes }
    }
}

/// Three different keys, the same ones for the same number.
fn drawn(number: u64) -> [Key; 3] {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let mut keys = KEYS;
    for at in 0..3 {
        keys.swap(at, at + ((mixed >> (10 * at)) % (KEYS.len() - at) as u64) as usize);
    }
    [keys[0], keys[1], keys[2]]
}
