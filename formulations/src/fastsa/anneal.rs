//! Simulated annealing: temperatures, limits, and the best sequence seen.

use std::time::Instant;

use super::graph::index;
use super::mutate::Outcome;
use super::objective::Goal;
use super::profile::Profile;
use super::propose::{Aim, Proposer};
use super::state::{State, Step};
use crate::random::Random;

/// Iterations between two looks at the clock and two temperatures.
const ROUND: u64 = 1024;

/// How long an annealing goes on.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// So many iterations (N).
    Iterations(u64),
    /// From one moment to another.
    Time(Instant, Instant),
}

impl Span {
    /// The share of it that is over.
    fn progress(self, iteration: u64) -> f64 {
        match self {
            Self::Iterations(0) => 1.0,
            Self::Iterations(count) => iteration as f64 / count as f64,
            Self::Time(from, to) => {
                let whole = to.saturating_duration_since(from).as_secs_f64();
                if whole > 0.0 { from.elapsed().as_secs_f64() / whole } else { 1.0 }
            }
        }
    }

    /// Iterations of a round that begins now.
    fn round(self, iteration: u64) -> u64 {
        match self {
            Self::Iterations(count) => ROUND.min(count - iteration),
            Self::Time(..) => ROUND,
        }
    }
}

/// Temperatures and length of one annealing.
#[derive(Clone, Copy, Debug)]
pub struct Cooling {
    /// Temperature at the beginning (h_i).
    pub initial: f64,
    /// Temperature at the end (h_f).
    pub last: f64,
    /// How long it takes.
    pub span: Span,
}

impl Cooling {
    /// The temperature after a share of the annealing: h_i exp(log(h_f / h_i) i / N).
    pub fn temperature(&self, progress: f64) -> f64 {
        if self.initial <= 0.0 {
            return 0.0;
        }
        self.initial * ((self.last / self.initial).ln() * progress).exp()
    }
}

/// When to stop before the end.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When time is up.
    pub deadline: Option<Instant>,
    /// Whether to stop as soon as the budget is met.
    pub stop_within_budget: bool,
    /// The budget, fixed bytes and inputs included.
    pub budget: u64,
}

/// Why an annealing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All iterations are done.
    Done,
    /// The budget is met.
    WithinBudget,
    /// Time is up.
    Deadline,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Proposals, valid or not.
    pub iterations: u64,
    /// Proposals that keep the rules.
    pub valid: u64,
    /// Proposals that were done.
    pub accepted: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.iterations += other.iterations;
        self.valid += other.valid;
        self.accepted += other.accepted;
    }
}

/// The best sequence: of those within the budget the cheapest, or else the one with the lowest peak.
#[derive(Clone, Debug, Default)]
pub struct Best {
    steps: Vec<Step>,
    rank: Option<Rank>,
    /// Whether it is the state's and has not been written down.
    current: bool,
    told: Option<Rank>,
}

/// Better is less: first the excess over the budget, then the cost, then the peak.
pub type Rank = (u64, u64, u64);

impl Best {
    /// The best sequence: excess over the budget, cost and peak; its variants in order.
    pub fn take(self) -> (Rank, Vec<u32>) {
        (self.rank(), self.variants())
    }

    /// Whether there is one.
    pub fn is_known(&self) -> bool {
        self.rank.is_some()
    }

    /// Excess over the budget, cost and peak of the best sequence.
    pub fn rank(&self) -> Rank {
        self.rank.unwrap_or((u64::MAX, 0, 0))
    }

    /// The variants in order.
    pub fn variants(&self) -> Vec<u32> {
        let mut steps = self.steps.clone();
        steps.sort_unstable();
        steps.iter().map(|step| step.variant).collect()
    }

    /// Hears of the state after an accepted mutation, before the sequence has it: the best one is written
    /// down only when it is about to be left.
    #[inline]
    fn hear<P: Profile>(&mut self, state: &State<'_, P>, cost: u64, budget: u64) {
        let peak = state.graph.base + state.profile.peak().unsigned_abs();
        let rank = (peak.saturating_sub(budget), cost, peak);
        if self.rank.is_none_or(|best| rank < best) {
            self.rank = Some(rank);
            self.current = true;
        } else {
            self.save(state);
        }
    }

    /// Writes the best sequence down, if it is the state's and has not been.
    #[inline]
    fn save<P: Profile>(&mut self, state: &State<'_, P>) {
        if std::mem::take(&mut self.current) {
            self.steps.clear();
            let step = |&time: &u32| Step { time, variant: state.sequence[time as usize] };
            self.steps.extend(state.occupied.iter().map(step));
        }
    }
}

/// Hears of better sequences, now and then.
pub trait Observer: Sync {
    /// The best sequence so far, after some iterations of an annealing.
    fn better(&self, rank: Rank, best: &Best, iterations: u64);

    /// Whether anything better is still wanted.
    fn wants_more(&self) -> bool {
        true
    }
}

/// Hears how an annealing goes, for drawings of its convergence.
pub trait Trace: Sync {
    /// The objective, M(S) and C(S) after some iterations of an annealing.
    fn at(&self, iterations: u64, objective: f64, memory: f64, cost: u64);
}

/// Rounds between two words to the trace.
const ROUNDS_BETWEEN_POINTS: u64 = 16;

/// Rounds between two words to the observer: some tens of milliseconds.
const ROUNDS_BETWEEN_WORDS: u64 = 128;

/// The number of times that a sequence of some steps is spread over.
pub fn roomy(steps: usize) -> u32 {
    index((8 * steps).next_power_of_two().max(64))
}

/// One annealing.
pub struct Annealing<'a> {
    /// The objective function.
    pub goal: &'a Goal,
    /// Temperatures.
    pub cooling: Cooling,
    /// When to stop.
    pub terms: Terms,
    /// Which proposals are drawn.
    pub aim: Aim,
    /// Hears of better sequences.
    pub observer: Option<&'a dyn Observer>,
    /// Hears how it goes.
    pub trace: Option<&'a dyn Trace>,
}

impl Annealing<'_> {
    /// Anneals a state; says why it stopped and what it did.
    pub fn run<P: Profile>(&self, state: &mut State<'_, P>, random: &mut Random, best: &mut Best) -> (End, Tally) {
        let Terms { budget, .. } = self.terms;
        let proposer = Proposer::new(state, self.aim);
        let mut tally = Tally::default();
        let mut respaced = 0;
        best.hear(state, state.cost, budget);
        let end = loop {
            let progress = self.cooling.span.progress(tally.iterations);
            if let Some(end) = self.ended(state, progress) {
                break end;
            }
            let crowded = 4 * state.occupied.len() > state.sequence.len();
            if crowded || tally.iterations - respaced >= 32 * u64::from(state.length()) {
                state.respace(roomy(state.occupied.len()).max(state.length()));
                respaced = tally.iterations;
            }
            self.round(state, &proposer, random, best, progress, &mut tally);
            if tally.iterations % (ROUND * ROUNDS_BETWEEN_WORDS) == 0 {
                self.tell(state, best, tally.iterations);
            }
            if let Some(trace) = self.trace.filter(|_| tally.iterations % (ROUND * ROUNDS_BETWEEN_POINTS) == 0) {
                let memory = state.graph.base as f64 + state.profile.peak() as f64;
                trace.at(tally.iterations, self.goal.value(memory, state.cost), memory, state.cost);
            }
        };
        best.save(state);
        self.tell(state, best, tally.iterations);
        (end, tally)
    }

    /// Tells the observer of a sequence within the budget that it does not know.
    fn tell<P: Profile>(&self, state: &State<'_, P>, best: &mut Best, iterations: u64) {
        let (Some(observer), Some(rank)) = (self.observer, best.rank) else { return };
        if rank.0 == 0 && best.told != Some(rank) {
            best.save(state);
            best.told = Some(rank);
            observer.better(rank, best, iterations);
        }
    }

    fn ended<P: Profile>(&self, state: &State<'_, P>, progress: f64) -> Option<End> {
        let Terms { budget, deadline, stop_within_budget } = self.terms;
        let peak = state.graph.base + state.profile.peak().unsigned_abs();
        if stop_within_budget && peak <= budget {
            return Some(End::WithinBudget);
        }
        if progress >= 1.0 {
            return Some(End::Done);
        }
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        (late || self.observer.is_some_and(|observer| !observer.wants_more())).then_some(End::Deadline)
    }

    /// Some iterations at one temperature.
    fn round<P: Profile>(
        &self,
        state: &mut State<'_, P>,
        proposer: &Proposer,
        random: &mut Random,
        best: &mut Best,
        progress: f64,
        tally: &mut Tally,
    ) {
        let value = |state: &State<'_, P>| self.goal.value(state.graph.base as f64 + state.profile.felt(), state.cost);
        let temperature = self.cooling.temperature(progress);
        let count = self.cooling.span.round(tally.iterations);
        let mut current = value(state);
        tally.iterations += count;
        for _ in 0..count {
            let Some(mutation) = proposer.propose(state, random) else { continue };
            match state.attempt(mutation, self.goal, || current + temperature * random.exponential()) {
                Outcome::Invalid => {}
                Outcome::Rejected => tally.valid += 1,
                Outcome::Accepted { cost } => {
                    tally.valid += 1;
                    tally.accepted += 1;
                    best.hear(state, cost, self.terms.budget);
                    state.commit(mutation.add, mutation.remove);
                    current = value(state);
                }
            }
        }
    }
}
