//! What a method in stages tells the search: its schedules, its relaxation over blocks of stages, its exact model, and
//! how its decisions lie in a grid of stages and columns.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::method::MethodError;
use crate::search::blocks::Block;
use crate::search::clock::Clock;
use crate::search::incumbent::{Incumbent, Judge, Kept};
use crate::search::separation::Relaxation;

/// Up to so many free cells of stages and columns the exact model is within reach.
const SMALL: usize = 3_000;

/// How much a search without a solver may try.
#[derive(Clone, Copy, Debug)]
pub struct Effort<'e> {
    /// Which of several searches it is: the later, the more is tried.
    pub round: usize,
    /// How far from its start it goes at first: 1 where the start may be far from good, less to polish.
    pub heat: f64,
    /// Whether any schedule within the budget will do, since none is known.
    pub any: bool,
    /// Whether a walk that begins within the budget stays close to it.
    pub near: bool,
    /// How many times as many moves it may make as usual.
    pub times: u32,
    /// Seed.
    pub seed: u64,
    /// Time.
    pub clock: Clock,
    /// Set once nothing more is wanted.
    pub stop: &'e AtomicBool,
}

impl<'e> Effort<'e> {
    /// A search for an incumbent, within some time.
    pub fn of<J: Judge>(incumbent: &'e Incumbent<'_, J>, round: usize, heat: f64, seed: u64, clock: Clock) -> Self {
        let any = incumbent.time().is_none();
        Self { round, heat, any, near: false, times: 1, seed, clock, stop: incumbent.interrupt() }
    }

    /// A first search from far, within some time, which nothing else ends.
    pub fn alone(clock: Clock, seed: u64) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { round: 1, heat: 1.0, any: true, near: false, times: 1, seed, clock, stop: &NEVER }
    }

    /// What is left of a temperature that falls from an initial to a last one with the clock, or with the part of the moves that
    /// is done, whichever is further.
    pub fn cooling(&self, initial: f64, last: f64, done: f64) -> f64 {
        (last / initial).powf(self.clock.progress().max(done))
    }

    /// Whether the time is up, or nothing more is wanted.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.clock.is_over()
    }
}

/// What may change in a neighbourhood.
#[derive(Clone, Debug)]
pub struct Open {
    /// By stage (and one more) and column, whether it is open what is kept.
    pub cells: Kept,
    /// By stage, whether something may run there that runs once now.
    pub heads: Vec<bool>,
}

impl Open {
    /// Whether something is open at either end of a stage.
    pub fn touches(&self, stage: usize) -> bool {
        self.cells[stage].contains(&true) || self.cells[stage + 1].contains(&true)
    }
}

/// Takes solutions, within the budget or not.
pub type Offer<'o, S> = &'o mut dyn FnMut(S) -> Result<(), MethodError>;

/// A problem whose schedules are in stages: what is kept from each stage to the next decides the rest.
pub trait Staged: Judge {
    /// Its linear model: over blocks of stages, of a neighbourhood, or exact.
    type Relaxation<'p>: Relaxation
    where
        Self: 'p;

    /// Bytes that may be used, in the model's unit.
    fn capacity(&self) -> u64;
    /// Memory that each stage needs at most.
    fn needs(&self, solution: &Self::Solution) -> Vec<u64>;
    /// Whether a solution is within the capacity in every stage.
    fn fits(&self, solution: &Self::Solution) -> bool {
        self.needs(solution).into_iter().all(|need| need <= self.capacity())
    }
    /// What a solution keeps.
    fn kept<'s>(&self, solution: &'s Self::Solution) -> Cow<'s, Kept>;
    /// Everything kept and nothing run twice, which may exceed the capacity; none where that is no solution.
    fn store_all(&self) -> Option<Self::Solution>;
    /// The best solution with what is kept; none where something would have to run that must not.
    fn complete(&self, kept: Kept) -> Option<Self::Solution>;
    /// Offers what a search without a solver makes of a solution, which may exceed the budget.
    ///
    /// # Errors
    /// Those of the offer.
    fn improve(
        &self,
        start: &Self::Solution,
        effort: Effort<'_>,
        offer: Offer<'_, Self::Solution>,
    ) -> Result<(), MethodError>;

    /// Blocks to begin with.
    fn first_blocks(&self) -> Vec<Block>;
    /// The relaxation over blocks, with the rows of an earlier one that mean the same.
    fn over<'p>(&'p self, blocks: &[Block], before: Option<&Self::Relaxation<'p>>) -> Self::Relaxation<'p>;
    /// A relaxation for schedules alone, over blocks that are the shorter the later the round, whose rows leave a margin
    /// free in each stage; none where that is of no use.
    fn short<'p>(
        &'p self,
        _round: usize,
        _margin: &[u64],
        _before: Option<&Self::Relaxation<'p>>,
    ) -> Option<(Vec<Block>, Self::Relaxation<'p>)> {
        None
    }
    /// Whether in a block a solution takes more time than the relaxation says of its point.
    fn costs_more(
        &self,
        relaxation: &Self::Relaxation<'_>,
        point: &[f64],
        solution: &Self::Solution,
        block: usize,
    ) -> bool;

    /// The exact model.
    fn exact(&self) -> Self::Relaxation<'_>;
    /// Whether the exact model is within reach, with few enough cells that are free: then it gets half of the time.
    fn is_small(&self) -> bool {
        let free = |stage| (0..self.columns()).filter(move |&column| self.is_free(stage, column));
        (1..self.stages()).flat_map(free).take(SMALL + 1).count() <= SMALL
    }
    /// The exact model of what is open around a solution.
    fn within(&self, around: &Self::Solution, open: &Open) -> Self::Relaxation<'_>;

    /// What a point comes to, stage by stage; it may exceed the budget.
    fn expand(&self, relaxation: &Self::Relaxation<'_>, point: &[f64]) -> Option<Self::Solution>;
    /// The point of a solution.
    fn point(&self, relaxation: &Self::Relaxation<'_>, solution: &Self::Solution) -> Vec<f64>;

    /// Number of stages.
    fn stages(&self) -> usize;
    /// Number of columns of the grid: values.
    fn columns(&self) -> usize;
    /// Whether a column's value must or must not be there when a stage begins; none where that is free.
    fn forced(&self, stage: usize, column: usize) -> Option<bool>;
    /// Whether it is free whether a column's value is there when a stage begins.
    fn is_free(&self, stage: usize, column: usize) -> bool {
        self.forced(stage, column).is_none()
    }
    /// Keeps what must be kept, and drops what must not be.
    fn settle(&self, kept: &mut Kept) {
        settle(kept, |stage, column| self.forced(stage, column));
    }
    /// Columns whose operators read a column's value, or whose values its operator reads.
    fn neighbours(&self, column: usize) -> Vec<usize>;
    /// What a solution runs again: stage, column, time.
    fn repeated(&self, solution: &Self::Solution) -> Vec<(usize, usize, u64)>;
}

/// Keeps what must be kept, and drops what must not be, by stage and column.
pub fn settle(kept: &mut Kept, forced: impl Fn(usize, usize) -> Option<bool>) {
    for (stage, row) in kept.iter_mut().enumerate() {
        for (column, there) in row.iter_mut().enumerate() {
            *there = forced(stage, column).unwrap_or(*there);
        }
    }
}

/// Offers what a search without a solver makes of the best solution; or of everything kept where there is none.
///
/// # Errors
/// A schedule is not legal.
pub fn improve_best<P: Staged>(incumbent: &Incumbent<'_, P>, effort: Effort<'_>) -> Result<(), MethodError> {
    let (problem, mut offer) = (incumbent.judge, |solution| incumbent.offer(solution).map(drop));
    if let Some(best) = incumbent.best() {
        return problem.improve(&best, effort, &mut offer);
    }
    let Some(store_all) = problem.store_all() else { return Ok(()) };
    problem.improve(&store_all, Effort { heat: 1.0, ..effort }, &mut offer)
}
