//! Local search on what is kept: simulated annealing whose moves keep or drop one value over an interval of
//! stages, each stage completed anew. What misses the capacity is penalised by how much.
//!
//! Deterministic for a seed unless the deadline comes first: the effort is counted in steps and completed stages.

use crate::random::Random;
use crate::search::incumbent::Kept;
use crate::search::problem::Effort;

/// What one stage comes to.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its time.
    pub time: f64,
    /// By how much it exceeds the capacity, as a part of it.
    pub excess: f64,
    /// Columns that it makes again.
    pub made: Vec<usize>,
}

/// A grid of stages and columns in which what is kept decides the rest.
pub trait Grid {
    /// Number of stages.
    fn stages(&self) -> usize;
    /// Number of columns.
    fn columns(&self) -> usize;
    /// Whether a column must or must not be kept into a stage; none where that is free.
    fn forced(&self, stage: usize, column: usize) -> Option<bool>;
    /// The cheapest way through a stage between two sets of kept columns, within the capacity or as near as can be; none
    /// where something would have to run that must not.
    fn step(&self, stage: usize, now: &[bool], next: &[bool]) -> Option<Step>;
    /// A time that no schedule undercuts.
    fn least_time(&self) -> f64;
    /// The mean time of a run.
    fn mean_time(&self) -> f64;
}

/// The best of what is kept within the capacity that the search comes across in so many steps and completed stages at
/// most, from some values kept; as `kept` says of each stage and one more. Its heat is a part of a run's mean time.
pub fn anneal<G: Grid>(grid: &G, mut kept: Kept, steps: usize, effort: Effort<'_>) -> Option<Kept> {
    settle(grid, &mut kept);
    let mut search = Search::new(grid, kept, effort.seed)?;
    search.hottest *= effort.heat;
    let steps = steps.min(50 * grid.columns() * grid.stages());
    while search.completed < steps && !effort.is_over() {
        search.temperature = search.hottest * (1.0 - search.completed as f64 / steps as f64);
        search.step();
    }
    search.best.map(|best| best.1)
}

/// Keeps what must be kept, and drops what must not be.
pub fn settle<G: Grid>(grid: &G, kept: &mut Kept) {
    for (stage, row) in kept.iter_mut().enumerate() {
        for (column, there) in row.iter_mut().enumerate() {
            *there = grid.forced(stage, column).unwrap_or(*there);
        }
    }
}

struct Search<'a, G: Grid> {
    grid: &'a G,
    kept: Kept,
    passes: Vec<Step>,
    /// Time of what there is, and how many stages exceed the capacity.
    time: f64,
    over: usize,
    /// Time that exceeding the capacity by all of it costs.
    weight: f64,
    temperature: f64,
    hottest: f64,
    random: Random,
    completed: usize,
    best: Option<(f64, Kept)>,
}

impl<'a, G: Grid> Search<'a, G> {
    fn new(grid: &'a G, kept: Kept, seed: u64) -> Option<Self> {
        let stages = 0..grid.stages();
        let passes: Vec<Step> =
            stages.map(|stage| grid.step(stage, &kept[stage], &kept[stage + 1])).collect::<Option<_>>()?;
        let mut search = Self {
            grid,
            kept,
            time: passes.iter().map(|pass| pass.time).sum(),
            over: passes.iter().filter(|pass| pass.excess > 0.0).count(),
            passes,
            // A hundredth of the memory too much is worse than a tenth of the time.
            weight: 10.0 * grid.least_time().max(1.0),
            temperature: 0.0,
            hottest: grid.mean_time(),
            random: Random::new(seed),
            completed: 0,
            best: None,
        };
        search.remember();
        Some(search)
    }

    fn energy_of(&self, pass: &Step) -> f64 {
        pass.time + self.weight * pass.excess
    }

    fn below(&mut self, bound: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to below the bound")]
        let drawn = (self.random.unit() * bound as f64) as usize;
        drawn.min(bound.saturating_sub(1))
    }

    fn remember(&mut self) {
        // Times are whole: less than half of one is the rounding of sums.
        if self.over == 0 && self.best.as_ref().is_none_or(|best| self.time < best.0 - 0.5) {
            self.best = Some((self.time, self.kept.clone()));
        }
    }

    /// Tries one move.
    fn step(&mut self) {
        self.completed += 1;
        let Some((column, from, to)) = self.interval() else { return };
        let before: Vec<bool> = (from..=to).map(|stage| self.kept[stage][column]).collect();
        let value = !self.kept[from][column];
        for stage in from..=to {
            self.kept[stage][column] = value;
        }
        let undo = |search: &mut Self| {
            for (stage, &old) in (from..=to).zip(&before) {
                search.kept[stage][column] = old;
            }
        };
        let mut changed = Vec::with_capacity(to - from + 2);
        let mut gain = 0.0;
        for stage in from - 1..=to.min(self.grid.stages() - 1) {
            self.completed += 1;
            let Some(pass) = self.grid.step(stage, &self.kept[stage], &self.kept[stage + 1]) else { return undo(self) };
            gain += self.energy_of(&self.passes[stage]) - self.energy_of(&pass);
            changed.push(pass);
        }
        if gain < 0.0 && self.random.unit() >= (gain / self.temperature.max(1e-9)).exp() {
            return undo(self);
        }
        for (stage, pass) in (from - 1..).zip(changed) {
            let old = &self.passes[stage];
            self.time += pass.time - old.time;
            self.over -= usize::from(old.excess > 0.0);
            self.over += usize::from(pass.excess > 0.0);
            self.passes[stage] = pass;
        }
        self.remember();
    }

    /// A column and an interval of stages in which it is kept throughout, or nowhere.
    fn interval(&mut self) -> Option<(usize, usize, usize)> {
        let (grid, stages) = (self.grid, self.grid.stages());
        let free = |stage: usize, column: usize| stage <= stages && grid.forced(stage, column).is_none();
        // Half of the moves are about something that runs again.
        let again = self.random.unit() < 0.5;
        let stage = 1 + self.below(stages - 1);
        let made = self.passes[stage].made.len();
        let column = if again && made > 0 {
            let at = self.below(made);
            self.passes[stage].made[at]
        } else {
            self.below(grid.columns())
        };
        if !free(stage, column) {
            return None;
        }
        let value = self.kept[stage][column];
        let same = |search: &Self, stage: usize| free(stage, column) && search.kept[stage][column] == value;
        let (mut from, mut to) = (stage, stage);
        while from > 1 && same(self, from - 1) {
            from -= 1;
        }
        while same(self, to + 1) {
            to += 1;
        }
        match self.below(3) {
            // From the last run before, where it is to be kept.
            0 if !value => {
                let made = (from..stage).rev().find(|&at| self.passes[at].made.contains(&column));
                Some((column, made.map_or(from, |at| at + 1), stage))
            }
            0 => Some((column, from, to)),
            1 => Some((column, from, stage)),
            _ => Some((column, stage, to)),
        }
    }
}
