//! Local search on what is kept: simulated annealing whose moves keep or drop one value over an interval of
//! stages, each stage completed anew by [`complete`]. What misses the capacity is penalised by how much.
//!
//! Deterministic for a seed as long as time does not run out: the effort is counted in steps and completed stages.

use crate::monet::decisions::{Decisions, StagePlan, complete};
use crate::monet::problem::Problem;
use crate::random::Random;
use crate::search::clock::Clock;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Steps and completed stages at most.
    pub steps: usize,
    /// Temperature at the beginning, as a part of a node's mean time.
    pub heat: f64,
    /// Time.
    pub clock: Clock,
}

/// The best decisions within the capacity that the search comes across, from some values kept.
pub fn anneal(
    problem: &Problem,
    mut kept: Vec<Vec<bool>>,
    capacity: i64,
    seed: u64,
    effort: Effort,
) -> Option<Decisions> {
    settle(problem, &mut kept);
    let search = Search::new(problem, kept.clone(), capacity, seed);
    let mut search = search.or_else(|| {
        keep_single_runs(problem, &mut kept);
        Search::new(problem, kept, capacity, seed)
    })?;
    search.hottest *= effort.heat;
    let steps = effort.steps.min(200 * problem.nodes.len() * problem.stages.len());
    while search.completed < steps {
        search.temperature = search.hottest * (1.0 - search.completed as f64 / steps as f64);
        search.step();
        if search.completed % 64 == 0 && effort.clock.is_over() {
            break;
        }
    }
    search.best
}

/// Keeps what must be kept, and drops what must not be.
pub fn settle(problem: &Problem, kept: &mut [Vec<bool>]) {
    for (stage, row) in kept.iter_mut().enumerate() {
        for (node, there) in row.iter_mut().enumerate() {
            *there = forced(problem, stage, node).unwrap_or(*there);
        }
    }
}

/// Keeps what must not run again as long as it can be of use.
fn keep_single_runs(problem: &Problem, kept: &mut [Vec<bool>]) {
    for (at, node) in problem.nodes.iter().enumerate() {
        if node.again.is_empty() && node.parent.is_none() {
            (1..=node.last).for_each(|stage| kept[stage][at] = true);
        }
    }
}

/// Whether a value must or must not be there when a stage begins.
pub fn forced(problem: &Problem, stage: usize, at: usize) -> Option<bool> {
    let node = &problem.nodes[at];
    if stage == 0 {
        return Some(false);
    }
    if node.result {
        return Some(true);
    }
    (stage > node.last + 1 || node.last == 0).then_some(false)
}

struct Search<'a> {
    problem: &'a Problem,
    capacity: i64,
    kept: Vec<Vec<bool>>,
    plans: Vec<StagePlan>,
    energy: f64,
    excess: i64,
    weight: f64,
    temperature: f64,
    hottest: f64,
    random: Random,
    completed: usize,
    best: Option<Decisions>,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, kept: Vec<Vec<bool>>, capacity: i64, seed: u64) -> Option<Self> {
        let start = Decisions::complete(problem, kept, capacity)?;
        let least = problem.least_time().max(1) as f64;
        let runs = problem.nodes.iter().filter_map(|node| node.again.first()).map(|way| way.time as f64);
        let mean = runs.sum::<f64>() / problem.nodes.len().max(1) as f64;
        let mut search = Self {
            problem,
            capacity,
            kept: start.kept,
            plans: start.stages,
            energy: 0.0,
            excess: 0,
            // A hundredth of the memory too much is worse than a tenth of the time.
            weight: 10.0 * least / capacity.max(1) as f64,
            temperature: 0.0,
            hottest: mean,
            random: Random::new(seed),
            completed: 0,
            best: None,
        };
        search.energy = search.plans.iter().map(|plan| search.energy_of(plan)).sum();
        search.excess = search.plans.iter().map(|plan| search.excess_of(plan)).sum();
        search.remember();
        Some(search)
    }

    fn excess_of(&self, plan: &StagePlan) -> i64 {
        (plan.peak - self.capacity).max(0)
    }

    fn energy_of(&self, plan: &StagePlan) -> f64 {
        plan.time as f64 + self.weight * self.excess_of(plan) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to below the bound")]
        let drawn = (self.random.unit() * bound as f64) as usize;
        drawn.min(bound.saturating_sub(1))
    }

    fn remember(&mut self) {
        let time: i64 = self.plans.iter().map(|plan| plan.time).sum();
        if self.excess == 0 && self.best.as_ref().is_none_or(|best| time < best.time()) {
            self.best = Some(Decisions { kept: self.kept.clone(), stages: self.plans.clone() });
        }
    }

    /// Tries one move.
    fn step(&mut self) {
        self.completed += 1;
        let Some((node, from, to)) = self.interval() else { return };
        let before: Vec<bool> = (from..=to).map(|stage| self.kept[stage][node]).collect();
        let value = !self.kept[from][node];
        for stage in from..=to {
            self.kept[stage][node] = value;
        }
        let undo = |search: &mut Self| {
            for (stage, &old) in (from..=to).zip(&before) {
                search.kept[stage][node] = old;
            }
        };
        let mut changed = Vec::with_capacity(to - from + 2);
        let mut gain = 0.0;
        for stage in from - 1..=to.min(self.problem.stages.len() - 1) {
            self.completed += 1;
            let (now, next) = (&self.kept[stage], &self.kept[stage + 1]);
            let Some(plan) = complete(self.problem, stage, now, next, self.capacity) else { return undo(self) };
            gain += self.energy_of(&self.plans[stage]) - self.energy_of(&plan);
            changed.push(plan);
        }
        if gain < 0.0 && self.random.unit() >= (gain / self.temperature.max(1e-9)).exp() {
            return undo(self);
        }
        self.energy -= gain;
        for (stage, plan) in (from - 1..).zip(changed) {
            self.excess += self.excess_of(&plan) - self.excess_of(&self.plans[stage]);
            self.plans[stage] = plan;
        }
        self.remember();
    }

    /// A node and an interval of stages in which it is kept throughout, or nowhere.
    fn interval(&mut self) -> Option<(usize, usize, usize)> {
        let stages = self.problem.stages.len();
        let free = |stage: usize, node: usize| stage <= stages && forced(self.problem, stage, node).is_none();
        // Half of the moves are about something that runs again.
        let again = self.random.unit() < 0.5;
        let stage = 1 + self.below(stages - 1);
        let runs = &self.plans[stage].runs;
        let node = if again && !runs.is_empty() {
            let count = runs.len();
            let at = self.below(count);
            self.plans[stage].runs[at].0
        } else {
            self.below(self.problem.nodes.len())
        };
        if !free(stage, node) {
            return None;
        }
        let value = self.kept[stage][node];
        let same = |search: &Self, stage: usize| free(stage, node) && search.kept[stage][node] == value;
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
                let made =
                    (from..=stage).rev().find(|&at| at < stage && self.plans[at].runs.iter().any(|run| run.0 == node));
                Some((node, made.map_or(from, |at| at + 1), stage))
            }
            0 => Some((node, from, to)),
            1 => Some((node, from, stage)),
            _ => Some((node, stage, to)),
        }
    }
}
