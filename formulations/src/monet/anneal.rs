//! Local search on what is kept: simulated annealing whose moves keep or drop one value over an interval of
//! stages, each stage completed anew. What misses the capacity is penalised by how much.
//!
//! Deterministic for a seed unless the deadline comes first: the effort is counted in steps and completed stages.

use fixedbitset::FixedBitSet;

use crate::random::Random;
use crate::search::bits::bits;
use crate::search::incumbent::Kept;
use crate::search::problem::Effort;

/// What one stage comes to.
#[derive(Clone, Debug, Default)]
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
    /// The cheapest way through a stage between two sets of kept columns, within the capacity or as near as can be; whether
    /// there is one, and not something that would have to run and must not.
    fn step(&mut self, stage: usize, now: &FixedBitSet, next: &FixedBitSet, step: &mut Step) -> bool;
    /// A time that no schedule undercuts.
    fn least_time(&self) -> f64;
    /// The mean time of a run.
    fn mean_time(&self) -> f64;
}

/// The best of what is kept within the capacity that the search comes across in so many steps and completed stages at
/// most, from some values kept; as `kept` says of each stage and one more. Its heat is a part of a run's mean time.
pub fn anneal<G: Grid>(grid: G, mut kept: Kept, steps: usize, effort: Effort<'_>) -> Option<Kept> {
    settle(&grid, &mut kept);
    let steps = steps.min(50 * grid.columns() * grid.stages());
    let mut search = Search::new(grid, &kept, effort.seed)?;
    search.hottest *= effort.heat;
    while search.completed < steps && !effort.is_over() {
        search.temperature = search.hottest * (1.0 - search.completed as f64 / steps as f64);
        search.step();
    }
    let rows = search.best?.1;
    kept.iter_mut().zip(rows).for_each(|(kept, row)| kept.iter_mut().enumerate().for_each(|(at, there)| *there = row[at]));
    Some(kept)
}

/// Keeps what must be kept, and drops what must not be.
pub fn settle<G: Grid>(grid: &G, kept: &mut Kept) {
    for (stage, row) in kept.iter_mut().enumerate() {
        for (column, there) in row.iter_mut().enumerate() {
            *there = grid.forced(stage, column).unwrap_or(*there);
        }
    }
}

struct Search<G: Grid> {
    grid: G,
    kept: Vec<FixedBitSet>,
    passes: Vec<Step>,
    /// What the stages of a move come to; used again.
    changed: Vec<Step>,
    /// Time of what there is, and how many stages exceed the capacity.
    time: f64,
    over: usize,
    /// Time that exceeding the capacity by all of it costs.
    weight: f64,
    temperature: f64,
    hottest: f64,
    random: Random,
    completed: usize,
    best: Option<(f64, Vec<FixedBitSet>)>,
}

impl<G: Grid> Search<G> {
    fn new(mut grid: G, kept: &Kept, seed: u64) -> Option<Self> {
        let kept: Vec<FixedBitSet> = kept.iter().map(|row| bits(row)).collect();
        let mut passes = vec![Step::default(); grid.stages()];
        for (stage, pass) in passes.iter_mut().enumerate() {
            if !grid.step(stage, &kept[stage], &kept[stage + 1], pass) {
                return None;
            }
        }
        let mut search = Self {
            kept,
            changed: Vec::new(),
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
            grid,
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
        if self.over > 0 {
            return;
        }
        match &mut self.best {
            Some((time, kept)) if self.time < *time - 0.5 => {
                *time = self.time;
                kept.clone_from(&self.kept);
            }
            Some(_) => {}
            none => *none = Some((self.time, self.kept.clone())),
        }
    }

    /// Tries one move.
    fn step(&mut self) {
        self.completed += 1;
        let Some((column, from, to)) = self.interval() else { return };
        self.toggle(column, from, to);
        // What it may lose.
        let least = self.temperature.max(1e-9) * self.random.unit().ln();
        let (first, last) = (from - 1, to.min(self.grid.stages() - 1));
        let mut gain = 0.0;
        for (at, stage) in (first..=last).enumerate() {
            self.completed += 1;
            if self.changed.len() == at {
                self.changed.push(Step::default());
            }
            let changed = &mut self.changed[at];
            if !self.grid.step(stage, &self.kept[stage], &self.kept[stage + 1], changed) {
                return self.toggle(column, from, to);
            }
            gain += self.energy_of(&self.passes[stage]) - self.energy_of(&self.changed[at]);
        }
        if gain < least {
            return self.toggle(column, from, to);
        }
        for (stage, new) in (first..=last).zip(&mut self.changed) {
            let old = &mut self.passes[stage];
            self.time += new.time - old.time;
            self.over -= usize::from(old.excess > 0.0);
            self.over += usize::from(new.excess > 0.0);
            std::mem::swap(old, new);
        }
        self.remember();
    }

    fn toggle(&mut self, column: usize, from: usize, to: usize) {
        self.kept[from..=to].iter_mut().for_each(|row| row.toggle(column));
    }

    /// A column and an interval of stages in which it is kept throughout, or nowhere.
    fn interval(&mut self) -> Option<(usize, usize, usize)> {
        let stages = self.grid.stages();
        // Half of the moves are about something that runs again.
        let again = self.random.unit() < 0.5;
        let stage = 1 + self.below(stages - 1);
        let made = self.passes[stage].made.len();
        let column = if again && made > 0 {
            let at = self.below(made);
            self.passes[stage].made[at]
        } else {
            self.below(self.grid.columns())
        };
        let free = |search: &Self, stage: usize| stage <= stages && search.grid.forced(stage, column).is_none();
        if !free(self, stage) {
            return None;
        }
        let value = self.kept[stage][column];
        let same = |search: &Self, stage: usize| free(search, stage) && search.kept[stage][column] == value;
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
