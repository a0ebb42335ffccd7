//! Local search on what is kept: simulated annealing whose moves keep or drop one value over an interval of stages, and
//! values beside it. A stage that does not touch them has more or less memory by them, as long as all ways to run fit; others
//! are completed anew. That a value may make another way to run a stage's operator better is seen when the stage is next completed.
//!
//! What exceeds the capacity is charged at a price, as in `staged/anneal.rs`, where also is when the walk goes back; it cools
//! with its clock.
//!
//! Deterministic for a seed unless the deadline comes first: the effort is counted in steps and completed stages.

use crate::random::Random;
use crate::search::incumbent::Kept;
use crate::search::problem::{Effort, Staged};
use crate::staged::anneal::Price;

/// Temperature at the end, in mean times of a run.
const LAST: f64 = 0.01;
/// Moves between two looks at the price of memory beyond the capacity.
const ROUND: u64 = 64;
/// Its first price: so many mean times of a run for the mean bytes of a column in one stage.
const PRICE: f64 = 0.3;
/// How often a move is carried on to a column beside the last one, and to how many columns at most.
const ALONG: f64 = 0.6;
const MOST: usize = 8;
/// How often the one is kept then where the other is dropped.
const EXCHANGE: f64 = 0.65;

/// What one stage comes to.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its time.
    pub time: f64,
    /// Its memory.
    pub peak: u64,
    /// Memory with the ways that need most among those to choose from: where that is within the capacity, none is left out.
    pub widest: u64,
    /// What runs in it.
    pub runs: Vec<usize>,
    /// Columns that it makes again.
    pub made: Vec<usize>,
}

/// A grid of stages and columns in which what is kept decides the rest.
pub trait Grid: Staged {
    /// The cheapest way through a stage between two sets of kept columns, within the capacity or as near as can be; none
    /// where something would have to run that must not.
    fn step(&self, stage: usize, now: &[bool], next: &[bool]) -> Option<Step>;
    /// Whether something that runs in a stage may read or make a column, or counts it apart.
    fn touches(&self, stage: usize, runs: &[usize], column: usize) -> bool;
    /// A time that no way through a stage undercuts.
    fn least_time_of(&self, stage: usize) -> f64;
    /// Memory of a column.
    fn bytes(&self, column: usize) -> u64;
    /// The mean time of a run.
    fn mean_time(&self) -> f64;
}

/// The best of what is kept within the capacity that the search comes across from some values kept; as `kept` says of each
/// stage and one more. It makes so many steps, completed stages among them, or fewer in a small grid, times what the effort
/// says. Its heat is a part of a run's mean time.
pub fn anneal<G: Grid>(grid: &G, mut kept: Kept, steps: usize, effort: Effort<'_>) -> Option<Kept> {
    grid.settle(&mut kept);
    let mut search = Search::new(grid, kept, effort)?;
    let steps = steps.min(50 * grid.columns() * grid.stages()) * effort.times as usize;
    let is_over = |completed: usize| completed >= steps || effort.is_over();
    while !is_over(search.completed) {
        let cooling = effort.cooling(effort.heat, LAST, search.completed as f64 / steps as f64);
        search.temperature = grid.mean_time() * effort.heat * cooling;
        let mut within = 0;
        for _ in 0..ROUND {
            if is_over(search.completed) {
                break;
            }
            search.step();
            within += u64::from(search.over == 0);
        }
        if search.price.follow(within, ROUND) {
            search.go_back();
        }
    }
    search.best.map(|best| best.1)
}

/// A column in stages in which it is there after a move, or in none of them.
struct Flip {
    column: usize,
    is_there: bool,
    /// First of the stages.
    from: usize,
    /// Whether it was there before, from that stage on.
    before: Vec<bool>,
}

impl Flip {
    /// Whether it changes what there is when a stage begins.
    fn changes(&self, stage: usize) -> bool {
        let before = stage.checked_sub(self.from).and_then(|at| self.before.get(at));
        before.is_some_and(|&before| before != self.is_there)
    }
}

/// Every stage between what is kept; none where one cannot be completed.
fn passes<G: Grid>(grid: &G, kept: &Kept) -> Option<Vec<Step>> {
    (0..grid.stages()).map(|stage| grid.step(stage, &kept[stage], &kept[stage + 1])).collect()
}

/// Time of all stages.
fn time(passes: &[Step]) -> f64 {
    passes.iter().map(|pass| pass.time).sum()
}

/// How many stages exceed the capacity.
fn over<G: Grid>(grid: &G, passes: &[Step]) -> usize {
    passes.iter().filter(|pass| pass.peak > grid.capacity()).count()
}

struct Search<'a, G: Grid> {
    grid: &'a G,
    kept: Kept,
    passes: Vec<Step>,
    /// Time of what there is, and how many stages exceed the capacity.
    time: f64,
    over: usize,
    /// Of a byte beyond the capacity, in one stage.
    price: Price,
    temperature: f64,
    random: Random,
    completed: usize,
    best: Option<(f64, Kept)>,
}

impl<'a, G: Grid> Search<'a, G> {
    fn new(grid: &'a G, kept: Kept, effort: Effort<'_>) -> Option<Self> {
        let passes = passes(grid, &kept)?;
        let bytes: f64 = (0..grid.columns()).map(|column| grid.bytes(column) as f64).sum();
        let mean_bytes = bytes / grid.columns().max(1) as f64;
        let over = over(grid, &passes);
        let mut search = Self {
            grid,
            kept,
            time: time(&passes),
            over,
            passes,
            price: Price::new(PRICE * grid.mean_time() / mean_bytes.max(1.0), effort.near && over == 0),
            temperature: 0.0,
            random: Random::new(effort.seed),
            completed: 0,
            best: None,
        };
        search.remember();
        Some(search)
    }

    /// Goes on from the best within the capacity, every stage completed anew.
    fn go_back(&mut self) {
        let Some((_, kept)) = &self.best else { return };
        let Some(passes) = passes(self.grid, kept) else { return };
        self.kept.clone_from(kept);
        self.time = time(&passes);
        self.over = over(self.grid, &passes);
        self.passes = passes;
        self.completed += self.grid.stages();
        self.price.go_back();
    }

    /// Time, and what it costs to exceed the capacity.
    fn energy_of(&self, time: f64, peak: u64) -> f64 {
        time + self.price.of_byte * peak.saturating_sub(self.grid.capacity()) as f64
    }

    /// What completing a stage anew may gain at most.
    fn most_gain(&self, stage: usize) -> f64 {
        let pass = &self.passes[stage];
        self.energy_of(pass.time, pass.peak) - self.grid.least_time_of(stage)
    }

    /// Memory of a stage and of its widest ways after a move; none where it may be completed in another way then.
    fn shifted(&self, stage: usize, flips: &[Flip]) -> Option<(u64, u64)> {
        let (pass, grid) = (&self.passes[stage], self.grid);
        let (mut peak, mut widest) = (pass.peak, pass.widest);
        for flip in flips {
            match [stage, stage + 1].map(|stage| flip.changes(stage)) {
                [false, false] => continue,
                [true, true] if !grid.touches(stage, &pass.runs, flip.column) => {}
                _ => return None,
            }
            let bytes = grid.bytes(flip.column);
            let most = if flip.is_there { widest + bytes } else { widest };
            if most > grid.capacity() {
                return None;
            }
            (peak, widest) = if flip.is_there { (peak + bytes, most) } else { (peak - bytes, widest - bytes) };
        }
        Some((peak, widest))
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
        let flips = self.flips(column, from, to);
        let from = flips.iter().map(|flip| flip.from).min().unwrap_or(from);
        let undo = |search: &mut Self| {
            for flip in &flips {
                for (row, &before) in search.kept[flip.from..].iter_mut().zip(&flip.before) {
                    row[flip.column] = before;
                }
            }
        };
        let (mut shifted, mut open) = (Vec::with_capacity(to - from + 2), Vec::new());
        for stage in from - 1..=to.min(self.grid.stages() - 1) {
            match self.shifted(stage, &flips) {
                Some(memory) => shifted.push((stage, memory)),
                None => open.push(stage),
            }
        }
        // First where it costs: what is kept is made in the first of the stages, what is dropped made again in the last one.
        if !flips[0].is_there {
            open.reverse();
        }
        let least_gain = self.temperature.max(1e-9) * self.random.unit().ln();
        let (mut gain, mut completed) = (0.0, Vec::with_capacity(open.len()));
        for (number, &stage) in open.iter().enumerate() {
            self.completed += 1;
            let Some(pass) = self.grid.step(stage, &self.kept[stage], &self.kept[stage + 1]) else { return undo(self) };
            let old = &self.passes[stage];
            gain += self.energy_of(old.time, old.peak) - self.energy_of(pass.time, pass.peak);
            let to_come: f64 = open[number + 1..].iter().map(|&stage| self.most_gain(stage)).sum();
            if gain + to_come <= least_gain {
                return undo(self);
            }
            completed.push((stage, pass));
        }
        for (stage, memory) in shifted {
            let pass = &mut self.passes[stage];
            (pass.peak, pass.widest) = memory;
        }
        let capacity = self.grid.capacity();
        for (stage, pass) in completed {
            let old = &mut self.passes[stage];
            self.time += pass.time - old.time;
            self.over -= usize::from(old.peak > capacity);
            self.over += usize::from(pass.peak > capacity);
            *old = pass;
        }
        self.remember();
    }

    /// Keeps a column in an interval of stages or drops it there, and columns beside it: one in its place, or one with it,
    /// which is then kept or dropped from where it was before.
    fn flips(&mut self, column: usize, from: usize, to: usize) -> Vec<Flip> {
        let mut flips = vec![self.flip(column, from, to, !self.kept[from][column])];
        while flips.len() < MOST && self.random.unit() < ALONG {
            let last = flips.last().expect("one at least");
            let (from, was_flipped) = (last.from, last.is_there);
            let near = self.grid.neighbours(last.column);
            let Some(&column) = near.get(self.below(near.len())) else { break };
            let is_exchanged = self.random.unit() < EXCHANGE;
            let is_there = was_flipped != is_exchanged;
            let free = |stage: usize| self.grid.is_free(stage, column);
            let other = |stage: usize| free(stage) && self.kept[stage][column] != is_there;
            let from =
                if is_exchanged { from } else { (1..=to).rev().take_while(|&at| other(at)).last().unwrap_or(to) };
            let is_new = flips.iter().all(|flip| flip.column != column);
            if !is_new || !(from..=to).all(free) || !(from..=to).any(other) {
                break;
            }
            flips.push(self.flip(column, from, to, is_there));
        }
        flips
    }

    fn flip(&mut self, column: usize, from: usize, to: usize, is_there: bool) -> Flip {
        let rows = self.kept[from..=to].iter_mut();
        let before = rows.map(|row| std::mem::replace(&mut row[column], is_there)).collect();
        Flip { column, is_there, from, before }
    }

    /// A column and an interval of stages in which it is kept throughout, or nowhere.
    fn interval(&mut self) -> Option<(usize, usize, usize)> {
        let (grid, stages) = (self.grid, self.grid.stages());
        if stages < 2 {
            return None;
        }
        let free = |stage: usize, column: usize| stage <= stages && grid.is_free(stage, column);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use remat_core::Instance;
    use remat_core::io::read_instance;

    use super::*;
    use crate::monet::plan::Plan;
    use crate::monet::released;
    use crate::monet::released::problem::Problem;
    use crate::monet::settings::Modes;
    use crate::monet::task::Task;
    use crate::search::clock::Clock;
    use crate::staged::graph::Graph;

    const ALL: Modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };

    /// After moves at high temperature every stage is what completing it anew comes to, or worse: another way to run its
    /// operator may have become better unseen.
    fn stages_stay_complete<G: Grid>(grid: &G, mut kept: Kept) {
        grid.settle(&mut kept);
        let mut search = Search::new(grid, kept, Effort::alone(Clock::start(None), 7)).expect("can be completed");
        search.temperature = grid.mean_time();
        let mut shifted = 0;
        for _ in 0..300 {
            let completed = search.completed;
            search.step();
            shifted += usize::from(search.completed == completed + 3);
        }
        assert!(shifted > 10, "{shifted} moves left stages between their ends as they were");
        for (stage, pass) in search.passes.iter().enumerate() {
            let anew = grid.step(stage, &search.kept[stage], &search.kept[stage + 1]).expect("can be completed");
            if pass.runs == anew.runs {
                assert_eq!((pass.time, pass.peak), (anew.time, anew.peak), "stage {stage}");
            } else {
                let over = |pass: &Step| pass.peak.saturating_sub(grid.capacity());
                assert!(over(&anew) < over(pass) || anew.time < pass.time, "stage {stage}");
            }
        }
    }

    fn instance(name: &str) -> Instance {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances");
        read_instance(&root.join(format!("{name}.json.zst"))).expect("shipped instances are valid")
    }

    #[test]
    fn what_a_move_leaves_of_a_stage_is_no_better_than_completing_it_anew() {
        let instance = instance("resnet-alternatives/resnet18-alternatives-224-b32");
        let graph = Graph::new(&instance, ALL);
        for budget in [800_000_000, 1_200_000_000] {
            let task = Task { instance: &instance, graph: &graph, budget: Some(budget), one: None };
            // Its max-pooling saves the one or the other kind of indices, and both have readers.
            let store_all = Plan::store_all(&graph, u64::MAX).expect("can be completed");
            assert_eq!(store_all.time(), graph.least_time());
            stages_stay_complete(&task, store_all.kept);
        }
    }

    #[test]
    fn as_released_too() {
        let instance = instance("published/monet/p100-vgg16-176-all");
        let problem = Arc::new(Problem::new(&instance, ALL).expect("supported"));
        for budget in [8 << 30, 12 << 30] {
            let task = released::task::Task::new(&instance, &problem, Some(budget));
            let store_all = task.store_all().expect("can be completed");
            stages_stay_complete(&task, store_all.kept);
        }
    }
}
