//! A search for large graphs: every byte has a price in every stage, and what is not worth its price is dropped and made
//! again. A schedule of ten thousand operators takes seconds; nothing is proved.
//!
//! The budget of each stage is relaxed as Lagrange does it: bytes in a stage cost its price, and least time and price
//! together is what is looked for. With prices given, whether a value should stay from one use to the next, or its
//! producer run again before the latter, is a comparison of a few sums ([`Occupancy`]); what the producer reads may have to be
//! made again, too, a few operators deep. A sweep asks this of every operator once, in random order. Prices are low at
//! first, rise where a stage exceeds the budget and fall where it does not. When little exceeds it any more, sweeps take worse
//! decisions, too, at a temperature that falls to nothing. What is within the budget by an exact count is a schedule; the best one
//! loses every later run that it can do without. Deterministic for a seed unless the deadline comes first.

use crate::random::Random;
use crate::search::problem::Effort;
use crate::staged::anneal::{Better, meet};
use crate::staged::occupancy::Occupancy;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// How a course of sweeps goes.
#[derive(Clone, Copy)]
struct Course {
    /// How many operators deep what is read is made again at once.
    depth: usize,
    /// By how much the logarithm of a price changes where a stage's bytes do by the room that there is: during a sweep.
    steepness: f64,
}

/// One after the other, as far as the time goes. Graphs differ in what suits them: layered ones take either, chains whose
/// backward pass makes much again are found by deep courses, and done best by shallow ones.
const KINDS: [Course; 3] =
    [Course { depth: 3, steepness: 10.0 }, Course { depth: 3, steepness: 5.0 }, Course { depth: 1, steepness: 20.0 }];

/// How many courses there are before they repeat themselves with other random numbers.
pub const COURSES: usize = KINDS.len();

/// Parts of a sweep after which prices follow the bytes.
const PARTS: usize = 8;
/// By how much the logarithm of a price rises from sweep to sweep at first.
const STEP: f64 = 0.1;
/// By what the step grows while a stage stays over the budget, and what it may become.
const GROWTH: (f64, f64) = (1.05, 2.0);
/// How much more slowly prices fall.
const FALL: f64 = 0.3;
/// A stage that exceeds the budget by so much of the room gets the whole step.
const FULL: f64 = 0.01;
/// Prices look for stages that leave so much of the room.
const MARGIN: f64 = 0.005;
/// First temperature, in mean times of an operator.
const HEAT: f64 = 0.05;
/// Least and highest logarithm of a price over the first one.
const RANGE: (f64, f64) = (-6.0, 30.0);
/// Sweeps until little exceeds the budget, at most.
const RISING: u32 = 400;
/// Sweeps while it cools, for a graph of one operator; at least and at most so many.
const SWEEPS: usize = 300_000;
const LEAST_SWEEPS: u32 = 100;
const MOST_SWEEPS: u32 = 500;
/// How much faster prices rise when all time is spent.
const HASTE: f64 = 4.0;
/// What is little: a share of what store-all exceeds it by.
const LITTLE: f64 = 0.02;

/// The first schedule within the budget, or a few, of the first course that finds any: `better` hears of each that is faster than those before.
pub fn first(task: &Task<'_>, effort: Effort<'_>, better: &mut Better<'_>) {
    rise(task, effort, better, false);
}

/// The same where the budget is hard to meet: a walk goes on from where prices leave little over it.
pub fn any(task: &Task<'_>, effort: Effort<'_>, better: &mut Better<'_>) {
    rise(task, effort, better, true);
}

fn rise(task: &Task<'_>, effort: Effort<'_>, better: &mut Better<'_>, walks: bool) {
    for kind in KINDS {
        let Some(mut search) = Search::new(task, effort, kind, better) else { return };
        search.rise();
        if walks {
            search.meet();
        }
        search.strip();
        if search.found.is_some() {
            return;
        }
    }
}

/// What prices find, and then sweeps that cool down; courses differ by their number, and are the better together.
pub fn course(task: &Task<'_>, effort: Effort<'_>, number: usize, better: &mut Better<'_>) {
    let effort = Effort { seed: effort.seed.wrapping_add((number / COURSES) as u64), ..effort };
    if let Some(mut search) = Search::new(task, effort, KINDS[number % COURSES], better) {
        search.rise();
        search.cool();
        search.strip();
    }
}

/// A course under way.
struct Search<'a, 'b> {
    task: &'a Task<'a>,
    effort: Effort<'a>,
    course: Course,
    random: Random,
    occupancy: Occupancy<'a>,
    /// Bytes that may be used.
    budget: i64,
    /// The same without what is always there: what excesses are measured by.
    room: f64,
    /// What may exceed the budget and is little, in sum over stages, likewise.
    little: f64,
    /// By stage, what [`Occupancy::bytes`] counts beyond the peak, or less; as of the last sweep.
    beyond: Vec<i64>,
    /// The first price.
    unit: f64,
    /// By stage, the logarithm of its price over the first one, as far as it does not follow the bytes at once.
    level: Vec<f64>,
    /// What it is at first.
    lowest: f64,
    /// By stage, by how much it rises.
    step: Vec<f64>,
    /// By how much faster prices rise than usual.
    haste: f64,
    /// Temperature, in units of time.
    heat: f64,
    scratch: Vec<usize>,
    /// The best stages, and their time.
    found: Option<(u64, Stages)>,
    better: &'b mut Better<'b>,
}

impl<'a, 'b> Search<'a, 'b> {
    /// Every operator runs once; none where nothing would be gained by running one again.
    fn new(task: &'a Task<'a>, effort: Effort<'a>, course: Course, better: &'b mut Better<'b>) -> Option<Self> {
        let joint = &*task.joint;
        if joint.is_empty() || task.copies.is_some_and(|copies| copies < 2) {
            return None;
        }
        let end = joint.len();
        let mut search = Self {
            task,
            effort,
            course,
            random: Random::part(effort.seed, 0x7072_6963),
            occupancy: Occupancy::new(joint, &Stages::store_all(joint), task.copies.unwrap_or(u64::MAX)),
            budget: i64::try_from(task.budget_bytes()).unwrap_or(i64::MAX),
            room: task.budget_bytes().saturating_sub(joint.base_bytes).max(1) as f64,
            little: 0.0,
            beyond: vec![0; end],
            unit: 0.0,
            level: vec![0.0; end],
            lowest: 0.0,
            step: vec![STEP; end],
            haste: 1.0,
            heat: 0.0,
            scratch: Vec::new(),
            found: None,
            better,
        };
        let peaks = search.peaks();
        search.little = LITTLE * search.total_excess(&search.occupancy.bytes());
        search.unit = search.low_price(&peaks)?;
        let most = peaks.iter().map(|&peak| search.excess(peak)).fold(0.0, f64::max);
        search.lowest = -course.steepness * most;
        search.level.fill(search.lowest);
        Some(search)
    }

    /// The peak of each stage; sets what the bytes count beyond.
    fn peaks(&mut self) -> Vec<i64> {
        let peaks = self.occupancy.stages().peaks(&self.task.joint);
        let peaks: Vec<i64> = peaks.into_iter().map(|(peak, _)| peak.cast_signed()).collect();
        self.beyond = self.occupancy.bytes().iter().zip(&peaks).map(|(bytes, peak)| bytes - peak).collect();
        peaks
    }

    /// By how much of the room bytes exceed the budget; less than 0 where they do not.
    fn excess(&self, bytes: i64) -> f64 {
        (bytes - self.budget) as f64 / self.room
    }

    /// A price in the stages that exceed the budget at which a few values would be dropped, one in fifty; none where none would
    /// be at any.
    fn low_price(&self, peaks: &[i64]) -> Option<f64> {
        /// One value in so many.
        const FEW: usize = 50;
        let joint = &self.task.joint;
        let mut over = vec![0_u32];
        for &peak in peaks {
            over.push(over[over.len() - 1] + u32::from(peak > self.budget));
        }
        let mut prices = Vec::new();
        for value in &joint.values {
            let Some(again) = joint.again(value.producer) else { continue };
            let mut last = value.producer;
            for &reader in &value.readers {
                let stages = over[reader].saturating_sub(over[last + 1]);
                if stages > 0 && value.bytes > 0 {
                    prices.push(again.time as f64 / (f64::from(stages) * value.bytes as f64));
                }
                last = reader;
            }
        }
        prices.sort_by(f64::total_cmp);
        // Where much takes no time the price is nothing, and would never rise.
        prices.get(prices.len() / FEW).map(|&price| price.max(1e-12))
    }

    /// Raises prices until little exceeds the budget and something is found.
    fn rise(&mut self) {
        let clock = self.effort.clock.share(1);
        for _ in 0..RISING {
            // Where time is short prices rise faster.
            self.haste = 1.0 + HASTE * clock.progress();
            if self.sweep() <= self.little && self.found.is_some() || self.effort.is_over() {
                break;
            }
        }
        self.haste = 1.0;
    }

    /// Walks from the stages as they are to some within the budget, where nothing is found and little exceeds it.
    fn meet(&mut self) {
        let peaks = self.peaks();
        if self.found.is_none()
            && self.total_excess(&peaks) <= self.little
            && let Some(stages) = meet(self.task, self.effort, &self.occupancy.stages())
        {
            self.take(stages);
        }
    }

    /// Sweeps while the temperature falls to nothing; as many again where nothing is found.
    fn cool(&mut self) {
        let joint = &self.task.joint;
        let mean = joint.least_time() as f64 / joint.len() as f64;
        let rounds = u32::try_from(SWEEPS / joint.len()).unwrap_or(u32::MAX).clamp(LEAST_SWEEPS, MOST_SWEEPS);
        let clock = self.effort.clock.share(1);
        let mut round = 0;
        while (round < rounds || self.found.is_none() && round < 2 * rounds) && !self.effort.is_over() {
            let progress = (f64::from(round) / f64::from(rounds)).max(clock.progress());
            // The last quarter is for what is left over the budget.
            self.heat = HEAT * mean * (1.0 - progress / 0.75).max(0.0);
            self.sweep();
            round += 1;
        }
    }

    /// Asks every operator once, then sets new prices; what is left over the budget.
    fn sweep(&mut self) -> f64 {
        let count = self.task.joint.len();
        let mut positions: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            positions.swap(last, self.random.index(last + 1));
        }
        for part in positions.chunks(count.div_ceil(PARTS)) {
            if self.effort.is_over() {
                return 0.0;
            }
            self.set_prices();
            for &position in part {
                self.leave_out(position);
                self.run_again(position);
            }
        }
        let peaks = self.peaks();
        if peaks.iter().all(|&peak| peak <= self.budget) {
            self.take(self.occupancy.stages());
        }
        for (stage, &peak) in peaks.iter().enumerate() {
            let excess = self.excess(peak);
            let share = ((excess + MARGIN) / FULL).clamp(-1.0, 1.0);
            if excess > 0.0 {
                self.level[stage] += self.haste * self.step[stage] * share;
                self.step[stage] = (self.step[stage] * GROWTH.0).min(GROWTH.1);
            } else {
                self.step[stage] = STEP;
                self.level[stage] += STEP * share * if share < 0.0 { FALL } else { 1.0 };
            }
            self.level[stage] = self.level[stage].clamp(self.lowest + RANGE.0, RANGE.1);
        }
        self.total_excess(&peaks)
    }

    fn total_excess(&self, bytes: &[i64]) -> f64 {
        bytes.iter().map(|&bytes| self.excess(bytes).max(0.0)).sum()
    }

    fn set_prices(&mut self) {
        let bytes = self.occupancy.bytes();
        let (unit, steepness) = (self.unit, self.course.steepness);
        let prices = (0..bytes.len()).map(|stage| {
            let excess = self.excess(bytes[stage] - self.beyond[stage]).max(-1.0);
            unit * (self.level[stage] + steepness * excess).min(RANGE.1).exp()
        });
        let prices: Vec<f64> = prices.collect();
        self.occupancy.set_prices(prices.into_iter());
    }

    /// Takes stages within the budget, if they are the fastest so far.
    fn take(&mut self, stages: Stages) {
        let time = stages.time(&self.task.joint);
        if self.found.as_ref().is_none_or(|(found, _)| time < *found) {
            (self.better)(&stages);
            self.found = Some((time, stages));
        }
    }

    /// How much worse a change may be this time.
    fn slack(&mut self) -> f64 {
        if self.heat > 0.0 { self.heat * self.random.exponential() } else { 0.0 }
    }

    /// Leaves out later runs of an operator that are not worth it.
    fn leave_out(&mut self, position: usize) {
        let mut at = 0;
        while let Some(stage) = self.occupancy.later_run(position, at) {
            let slack = self.slack();
            let doubtful = self.occupancy.worth(position, stage) < slack;
            let mark = self.occupancy.mark();
            if doubtful && self.occupancy.toggle(position, stage) < slack {
                self.occupancy.keep();
            } else {
                self.occupancy.undo(mark);
                at += 1;
            }
        }
    }

    /// Runs an operator again wherever it is worth it that what it makes is not there until then.
    fn run_again(&mut self, position: usize) {
        let operator = &self.task.joint.operators[position];
        let Some(again) = operator.again.first() else { return };
        let slack = self.slack();
        // Where another run has to go its time is saved; what several values cost is told together later.
        let room = self.occupancy.has_room(position);
        let cost = if room { (again.time as f64 - slack) / operator.makes.len() as f64 } else { 0.0 };
        for &value in &operator.makes {
            let mut stages = std::mem::take(&mut self.scratch);
            stages.clear();
            self.occupancy.gaps(value, cost, &mut stages);
            for &stage in &stages {
                if !self.occupancy.runs_again(position, stage) {
                    self.run_in(position, stage, slack);
                }
            }
            self.scratch = stages;
        }
    }

    /// Runs an operator again in a stage if that is worth it: perhaps instead of other later runs.
    fn run_in(&mut self, position: usize, stage: usize, slack: f64) {
        let Some(again) = self.task.joint.again(position) else { return };
        let gain = self.occupancy.bridge(position, stage) + slack;
        let gone = self.occupancy.idle_run(position, stage).or_else(|| self.occupancy.least_worth(position));
        if gain <= again.time as f64 && (gone.is_none() || gain <= 0.0) {
            return;
        }
        let limit = gain - gone.map_or(0.0, |run| self.occupancy.worth(position, run));
        if self.pays(position, stage, limit, self.course.depth) {
            let mark = self.occupancy.mark();
            if self.run_instead(position, stage, gone, self.course.depth) < slack {
                self.occupancy.keep();
            } else {
                self.occupancy.undo(mark);
            }
        }
    }

    /// Whether a later run may be worth it for what it gains.
    fn pays(&self, position: usize, stage: usize, gain: f64, depth: usize) -> bool {
        let next = self.occupancy.next_run(position, stage);
        let limit = gain + next.map_or(0.0, |run| self.occupancy.release(position, run));
        self.occupancy.estimate(position, stage, limit, depth) < limit
    }

    /// Runs an operator again in a stage, instead of another later run; makes again what it reads, where that is better than
    /// that it stays, and leaves out the run after it, where that is better. The change.
    fn run_instead(&mut self, position: usize, stage: usize, gone: Option<usize>, depth: usize) -> f64 {
        let next = self.occupancy.next_run(position, stage).filter(|&next| gone != Some(next));
        let mut change = gone.map_or(0.0, |run| self.occupancy.toggle(position, run));
        change += self.occupancy.toggle(position, stage);
        change += self.make_inputs(position, stage, depth);
        change + next.map_or(0.0, |run| self.toggle_if_better(position, run))
    }

    fn toggle_if_better(&mut self, position: usize, stage: usize) -> f64 {
        let mark = self.occupancy.mark();
        let change = self.occupancy.toggle(position, stage);
        if change < 0.0 {
            return change;
        }
        self.occupancy.undo(mark);
        0.0
    }

    /// Makes again what a later run reads, where that is better than that it stays; the change.
    fn make_inputs(&mut self, position: usize, stage: usize, depth: usize) -> f64 {
        let joint = &*self.task.joint;
        let mut sum = 0.0;
        let Some(again) = joint.again(position).filter(|_| depth > 0) else { return sum };
        for &value in &again.reads {
            let producer = joint.values[value].producer;
            if joint.again(producer).is_none() || self.occupancy.runs_again(producer, stage) {
                continue;
            }
            let gone = self.occupancy.least_worth(producer);
            let gain =
                self.occupancy.bridge(producer, stage) - gone.map_or(0.0, |run| self.occupancy.worth(producer, run));
            if gain > 0.0 && self.pays(producer, stage, gain, depth - 1) {
                let mark = self.occupancy.mark();
                let change = self.run_instead(producer, stage, gone, depth - 1);
                if change < 0.0 {
                    sum += change;
                } else {
                    self.occupancy.undo(mark);
                }
            }
        }
        sum
    }

    /// Takes from the best stages every later run that they can do without: the longest first.
    fn strip(&mut self) {
        let Some((_, stages)) = &self.found else { return };
        let joint = &*self.task.joint;
        let time = |position: usize| joint.again(position).map_or(0, |way| way.time);
        let mut runs: Vec<(usize, usize)> = stages.later_runs().collect();
        self.occupancy = Occupancy::new(joint, stages, self.task.copies.unwrap_or(u64::MAX));
        self.peaks();
        runs.sort_by_key(|&(_, position)| std::cmp::Reverse(time(position)));
        for (stage, position) in runs {
            if self.effort.is_over() {
                break;
            }
            let mark = self.occupancy.mark();
            self.occupancy.toggle(position, stage);
            let bytes = self.occupancy.bytes();
            let about = bytes.iter().zip(&self.beyond).all(|(bytes, beyond)| bytes - beyond <= self.budget);
            if about && self.peaks().iter().all(|&peak| peak <= self.budget) {
                self.occupancy.keep();
            } else {
                self.occupancy.undo(mark);
                if about {
                    self.peaks();
                }
            }
        }
        self.take(self.occupancy.stages());
    }
}
