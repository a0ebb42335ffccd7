//! One annealing from start to end: the paper's stages, or those that measured best.

use std::time::{Duration, Instant};

use super::anneal::{Annealing, Best, Cooling, End, Observer, Rank, Span, Tally, Terms, Trace, roomy};
use super::graph::{Graph, Operators};
use super::group::{Groups, decompose};
use super::objective::Goal;
use super::profile::Profile;
use super::settings::{Grouping, MUTATIONS, Preset, Settings, Start};
use super::state::State;
use crate::random::Random;

/// What all annealings of a call share.
pub struct Problem<'a> {
    /// The operators.
    pub operators: &'a Operators,
    /// Groups of them, made when they are needed.
    pub groups: &'a (dyn Fn() -> &'a Groups + Sync),
    /// Settings.
    pub settings: Settings,
    /// A sequence of operators to start from instead of the instance's order.
    pub start: Option<&'a [u32]>,
    /// One within the budget to go on from where the budget is missed otherwise, made when it is needed.
    pub rescue: &'a (dyn Fn() -> Option<&'a [u32]> + Sync),
}

/// What one annealing found.
#[derive(Clone, Debug)]
pub struct Annealed {
    /// Bytes beyond the budget, cost and peak: what is compared, in this order.
    pub rank: Rank,
    /// Variants of the operators' graph, in order.
    pub variants: Vec<u32>,
    /// What the stages did.
    pub tallies: [Tally; 2],
    /// Whether time was up.
    pub interrupted: bool,
}

/// What one annealing is asked for.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The budget, fixed bytes and inputs included.
    pub budget: u64,
    /// When time is up, and how much there was.
    pub deadline: Option<(Instant, Duration)>,
    /// Hears of better sequences of the operators' graph.
    pub observer: Option<&'a dyn Observer>,
    /// Hears how it goes.
    pub trace: Option<&'a dyn Trace>,
}

/// An annealing under way.
struct Run<'a, 'b> {
    problem: &'b Problem<'a>,
    task: &'b Task<'b>,
    goal: Goal,
    random: Random,
    best: Best,
    end: End,
    /// Mutations in all, where they are what counts.
    mutations: Option<u64>,
}

impl Problem<'_> {
    /// Where neither a number of mutations nor a time limit is given: small graphs have few sequences.
    fn usual_mutations(&self) -> u64 {
        (400_000 * self.operators.start.len() as u64).min(MUTATIONS)
    }

    /// Anneals once.
    pub fn run<P: Profile>(&self, task: &Task<'_>, seed: u64, part: u64) -> Annealed {
        let goal = Goal::new(self.settings.objective, task.budget);
        let mutations = match self.settings.preset {
            Preset::Best { iterations: None } if task.deadline.is_some() => None,
            Preset::Best { iterations } => Some(iterations.unwrap_or_else(|| self.usual_mutations())),
            Preset::Paper { .. } => None,
        };
        let (random, best, end) = (Random::part(seed, part), Best::default(), End::Done);
        let mut run = Run { problem: self, task, goal, random, best, end, mutations };
        let tallies = match self.settings.preset {
            Preset::Best { .. } => run.stages_of_best::<P>(),
            Preset::Paper { iterations, early_stop, reheats } => {
                run.stages_of_paper::<P>(iterations, early_stop, reheats)
            }
        };
        let (rank, variants) = run.best.take();
        Annealed { rank, variants, tallies, interrupted: run.end == End::Deadline }
    }
}

impl Run<'_, '_> {
    /// Two stages, the first one on groups, and reheats.
    fn stages_of_paper<P: Profile>(
        &mut self,
        [iterations, second]: [u64; 2],
        early_stop: bool,
        (reheats, reheat): (u64, u64),
    ) -> [Tally; 2] {
        let Settings { initial, grouping, .. } = self.problem.settings;
        let operators = self.problem.operators;
        let hot = initial.unwrap_or(1e-3);
        let span = Span::Iterations(iterations);
        let (variants, heat, first) = match self.problem.start {
            Some(start) => (start.to_vec(), Heat::Share(hot * LAST), Tally::default()),
            None if grouping == Grouping::On => self.on_groups::<P>(hot, span, early_stop),
            None => {
                let mut best = std::mem::take(&mut self.best);
                let stage = Stage { graph: &operators.graph, heat: Heat::Share(hot), span, early_stop, heard: true };
                let (sequence, last, tally) = self.anneal::<P>(&operators.start, stage, &mut best);
                self.best = best;
                (sequence, Heat::At(last), tally)
            }
        };
        let mut tally = self.operators::<P>(&variants, heat, Span::Iterations(second));
        for number in 0..reheats {
            if self.end == End::Deadline {
                break;
            }
            let heat = Heat::Share(hot / (1_u64 << number.min(40)) as f64);
            tally += self.operators::<P>(&self.best.variants(), heat, Span::Iterations(reheat));
        }
        [first, tally]
    }

    /// A short annealing of the operators in the given order; where it misses the budget, one that begins with groups, and
    /// where both do, another start, or a higher price for memory; then one long annealing of what is better to start from,
    /// and a descent.
    fn stages_of_best<P: Profile>(&mut self) -> [Tally; 2] {
        let Settings { initial, grouping, .. } = self.problem.settings;
        let given = self.problem.operators.start.clone();
        let (mut first, mut from, mut hot) = (Tally::default(), given, initial.unwrap_or(3e-3));
        if let Some(start) = self.problem.start {
            from = start.to_vec();
            hot = initial.unwrap_or(1e-3);
        } else {
            if grouping != Grouping::On {
                first = self.operators::<P>(&from, Heat::Share(hot), self.short(PROBE));
            }
            let most = if self.problem.settings.start == Start::Needed { MOST_BEFORE_PRICES } else { MOST_GROUPED };
            let few = self.problem.operators.start.len() <= most || grouping == Grouping::On;
            if self.best.rank().0 > 0 && grouping != Grouping::Off && few {
                let (sequence, heat, tally) = self.on_groups::<P>(hot, self.short(PROBE), true);
                first += tally;
                let alone = self.best.rank();
                first += self.operators::<P>(&sequence, heat, self.short(PROBE / 2));
                if self.best.rank() < alone {
                    from = self.best.variants();
                }
            }
            if self.best.rank().0 > 0 {
                if let Some(rescue) = (self.problem.rescue)() {
                    from = rescue.to_vec();
                    hot = initial.unwrap_or(1e-3);
                } else {
                    self.goal = self.goal.with_penalty(PENALTY);
                }
            }
        }
        let mut second = self.operators::<P>(&from, Heat::Share(hot), self.long(100 - PROBE - DESCENT, DESCENT));
        second += self.operators::<P>(&self.best.variants(), Heat::Share(hot * LAST), self.long(DESCENT, 0));
        // With a limit all of its time is used: it is the reason to stop.
        self.end = if self.mutations.is_none() { End::Deadline } else { End::Done };
        [first, second]
    }

    /// So many hundredths of the whole.
    fn short(&self, share: u32) -> Span {
        match (self.mutations, self.task.deadline) {
            (None, Some((deadline, whole))) => {
                let now = Instant::now();
                Span::Time(now, now.checked_add(whole / 100 * share).map_or(deadline, |end| end.min(deadline)))
            }
            (all, _) => Span::Iterations(all.unwrap_or(0).saturating_mul(share.into()) / 100),
        }
    }

    /// The same; or, where time counts, all but a share of it that is left for what follows.
    fn long(&self, share: u32, left: u32) -> Span {
        match (self.mutations, self.task.deadline) {
            (None, Some((deadline, whole))) => {
                let end = deadline.checked_sub(whole / 100 * left).unwrap_or(deadline);
                Span::Time(Instant::now(), end)
            }
            _ => self.short(share),
        }
    }

    /// An annealing of groups; what is best among them is not asked for: only operators are exact. Returns the
    /// operators that it ends with, and the temperature to go on with.
    fn on_groups<P: Profile>(&mut self, hot: f64, span: Span, early_stop: bool) -> (Vec<u32>, Heat, Tally) {
        let groups = (self.problem.groups)();
        let stage = Stage { graph: &groups.graph, heat: Heat::Share(hot), span, early_stop, heard: false };
        let (sequence, last, tally) = self.anneal::<P>(&groups.start, stage, &mut Best::default());
        (decompose(self.problem.operators, &groups.graph, &sequence), Heat::At(last), tally)
    }

    /// An annealing of operators.
    fn operators<P: Profile>(&mut self, variants: &[u32], heat: Heat, span: Span) -> Tally {
        let mut best = std::mem::take(&mut self.best);
        let stage = Stage { graph: &self.problem.operators.graph, heat, span, early_stop: false, heard: true };
        let (_, _, tally) = self.anneal::<P>(variants, stage, &mut best);
        self.best = best;
        tally
    }

    /// An annealing; returns the sequence that it ends with, and its final temperature.
    fn anneal<P: Profile>(&mut self, sequence: &[u32], stage: Stage<'_>, best: &mut Best) -> (Vec<u32>, f64, Tally) {
        let Stage { graph, heat, span, early_stop, heard } = stage;
        let late = self.task.deadline.is_some_and(|(deadline, _)| Instant::now() >= deadline);
        if late && best.is_known() {
            self.end = End::Deadline;
            return (sequence.to_vec(), 0.0, Tally::default());
        }
        let mut state = State::<P>::new(graph, sequence, roomy(sequence.len()));
        let initial = match heat {
            Heat::At(temperature) => temperature,
            Heat::Share(share) => share * self.goal.value(graph.base as f64 + state.profile.felt(), state.cost),
        };
        let cooling = Cooling { initial, last: initial * LAST, span };
        let annealing = Annealing {
            goal: &self.goal,
            cooling,
            terms: Terms {
                deadline: self.task.deadline.map(|deadline| deadline.0),
                stop_within_budget: early_stop,
                budget: self.task.budget,
            },
            aim: self.problem.settings.aim,
            observer: self.task.observer.filter(|_| heard),
            trace: self.task.trace,
        };
        let (end, tally) = annealing.run(&mut state, &mut self.random, best);
        self.end = end;
        (state.steps().iter().map(|step| step.variant).collect(), cooling.last, tally)
    }
}

/// A temperature to begin with.
#[derive(Clone, Copy, Debug)]
enum Heat {
    /// This one.
    At(f64),
    /// A share of the objective of the sequence.
    Share(f64),
}

/// What one annealing is made of.
#[derive(Clone, Copy)]
struct Stage<'a> {
    graph: &'a Graph,
    heat: Heat,
    span: Span,
    early_stop: bool,
    /// Whether the observer hears of it.
    heard: bool,
}

/// Final temperature over the initial one (appendix D.4).
const LAST: f64 = 1e-4;
/// Hundredths of the whole for the first look.
const PROBE: u32 = 10;
/// For the descent at the end.
const DESCENT: u32 = 10;
/// Operators beyond which groups take too long to make to be tried.
const MOST_GROUPED: usize = 20_000;
/// Operators beyond which a search with prices comes instead of groups.
const MOST_BEFORE_PRICES: usize = 2000;
/// Price of memory beyond the budget where it is hard to meet.
const PENALTY: f64 = 6.0;
