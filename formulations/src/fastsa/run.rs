//! One annealing from start to end: the stage on groups, the stage on operators.

use std::time::Instant;

use super::anneal::{Annealing, Best, Cooling, End, Observer, Rank, Tally, Terms, Trace, roomy};
use super::graph::{Graph, Operators};
use super::group::{Groups, decompose};
use super::objective::Goal;
use super::profile::Profile;
use super::settings::Settings;
use super::state::State;
use crate::random::Random;

/// What all annealings of a call share.
pub struct Problem<'a> {
    /// The operators.
    pub operators: &'a Operators,
    /// Groups of them, where asked for.
    pub groups: Option<&'a Groups>,
    /// Parameters.
    pub settings: Settings,
    /// A sequence of operators to start the second stage from, where there is one: then there is no first.
    pub start: Option<&'a [u32]>,
}

/// What one annealing found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Bytes beyond the budget, cost and peak: what is compared, in this order.
    pub rank: Rank,
    /// The same before it was reheated.
    pub rank_before_reheats: Rank,
    /// Variants of the operators' graph, in order.
    pub variants: Vec<u32>,
    /// What the stages did.
    pub tallies: [Tally; 2],
    /// Whether time was up.
    pub interrupted: bool,
}

/// Limits of one annealing.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// The budget, fixed bytes and inputs included.
    pub budget: u64,
    /// When time is up.
    pub deadline: Option<Instant>,
    /// Hears of better sequences of the operators' graph.
    pub observer: Option<&'a dyn Observer>,
    /// Hears how it goes.
    pub trace: Option<&'a dyn Trace>,
}

impl Problem<'_> {
    /// Anneals once.
    pub fn run<P: Profile>(&self, limits: &Limits<'_>, seed: u64, part: u64) -> Found {
        let mut random = Random::part(seed, part);
        let goal = Goal::new(self.settings.objective, limits.budget).with_penalty(self.settings.penalty);
        let mut best = Best::default();
        let operators = self.operators;
        let (variants, temperature, first) = match (self.start, self.groups) {
            (Some(start), _) => {
                let state = State::<P>::new(&operators.graph, start, self.length(start.len()));
                let value = goal.value(operators.graph.base as f64 + state.profile.felt(), state.cost);
                (start.to_vec(), value * self.settings.initial * self.settings.last, Tally::default())
            }
            (None, Some(groups)) => {
                // What is best among groups is not asked for: only operators are exact.
                let (sequence, temperature, tally) =
                    self.first::<P>(&groups.graph, &groups.start, &goal, limits, &mut random, &mut Best::default());
                (decompose(operators, &groups.graph, &sequence), temperature, tally)
            }
            (None, None) => self.first::<P>(&operators.graph, &operators.start, &goal, limits, &mut random, &mut best),
        };
        let initial = temperature * self.settings.second;
        let [_, iterations] = self.settings.iterations;
        let cooling = Cooling { initial, last: initial * self.settings.last, iterations };
        let (mut end, mut second) = self.second::<P>(&variants, &goal, cooling, limits, &mut random, &mut best);
        let rank_before_reheats = best.rank();
        let (reheats, iterations) = self.settings.reheats;
        for reheat in 0..reheats {
            if end == End::Deadline {
                break;
            }
            let initial = best.value(&goal) * self.settings.initial / (1_u64 << reheat.min(40)) as f64;
            let cooling = Cooling { initial, last: initial * self.settings.last, iterations };
            let tally;
            (end, tally) = self.second::<P>(&best.variants(), &goal, cooling, limits, &mut random, &mut best);
            second += tally;
        }
        let (rank, variants) = best.take();
        Found { rank, rank_before_reheats, variants, tallies: [first, second], interrupted: end == End::Deadline }
    }

    /// An annealing of a sequence of operators.
    fn second<P: Profile>(
        &self,
        variants: &[u32],
        goal: &Goal,
        cooling: Cooling,
        limits: &Limits<'_>,
        random: &mut Random,
        best: &mut Best,
    ) -> (End, Tally) {
        let mut state = State::<P>::new(&self.operators.graph, variants, self.length(variants.len()));
        self.annealing(goal, cooling, limits, false).run(&mut state, random, best)
    }

    /// The first stage; returns the sequence that it ends with, and its final temperature.
    fn first<P: Profile>(
        &self,
        graph: &Graph,
        start: &[u32],
        goal: &Goal,
        limits: &Limits<'_>,
        random: &mut Random,
        best: &mut Best,
    ) -> (Vec<u32>, f64, Tally) {
        let mut state = State::<P>::new(graph, start, self.length(start.len()));
        let value = goal.value(graph.base as f64 + state.profile.felt(), state.cost);
        let initial = value * self.settings.initial;
        let [iterations, _] = self.settings.iterations;
        let cooling = Cooling { initial, last: initial * self.settings.last, iterations };
        let limits = if self.groups.is_some() { Limits { observer: None, ..*limits } } else { *limits };
        let (_, tally) = self.annealing(goal, cooling, &limits, true).run(&mut state, random, best);
        let sequence = state.steps().iter().map(|step| step.variant).collect();
        (sequence, cooling.last, tally)
    }

    fn annealing<'b>(&self, goal: &'b Goal, cooling: Cooling, limits: &Limits<'b>, first: bool) -> Annealing<'b> {
        Annealing {
            goal,
            cooling,
            terms: Terms {
                deadline: limits.deadline,
                stop_within_budget: first && self.settings.early_stop,
                respace: self.settings.length.is_none(),
                budget: limits.budget,
            },
            aim: self.settings.aim,
            observer: limits.observer,
            trace: limits.trace,
        }
    }

    /// T: what is asked for, if the sequence has room in it.
    fn length(&self, steps: usize) -> u32 {
        let asked = self.settings.length.filter(|&length| 2 * steps < length as usize);
        asked.unwrap_or_else(|| roomy(steps))
    }
}
