//! Schedules that exceed a budget, made to fit: by another order of the same runs, or by other runs.

use std::collections::VecDeque;
use std::time::Instant;

use remat_core::{Instance, Schedule};

use super::anneal::{Annealing, Best, Cooling, Span, Terms, roomy};
use super::graph::{Graph, Operators};
use super::mutate::{Mutation, Outcome};
use super::objective::{Goal, Objective};
use super::profile::Peak;
use super::propose::Aim;
use super::state::{NOP, State, Step};
use crate::method::{Claimed, SkipReason};
use crate::random::Random;
use crate::search::clock::Clock;

/// Short annealings of schedules that exceed a budget by little.
pub struct Fitting<'a> {
    instance: &'a Instance,
    operators: Operators,
}

/// How often runs are put back where they were.
const PASSES: usize = 4;
/// Of so many parts of the time one is kept for that.
const PARTS: u32 = 10;

/// What a short annealing may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The order: what runs stays the same, and what that costs. It ends within the budget.
    Order,
    /// What runs, and the order. It goes on within the budget.
    Runs,
}

impl Changes {
    /// Mutations for each run of the schedule, at most.
    fn mutations(self) -> u64 {
        match self {
            Self::Order => 4000,
            Self::Runs => 1000,
        }
    }

    /// The initial temperature, from the objective at the budget and what the excess adds to it.
    fn initial(self, budget: f64, excess: f64) -> f64 {
        match self {
            Self::Order => 1e-2 * excess,
            Self::Runs => 1e-5 * budget,
        }
    }
}

impl<'a> Fitting<'a> {
    /// For schedules of an instance.
    ///
    /// # Errors
    /// The instance is not supported by `fastsa`.
    pub fn new(instance: &'a Instance) -> Result<Self, SkipReason> {
        Ok(Self { instance, operators: Operators::new(instance, true, None)? })
    }

    /// What a legal schedule that exceeds a budget, in bytes, comes to: the fastest schedule within the budget that an annealing
    /// from it finds, or else the one of the lowest peak. None if it uses an implementation that `fastsa` leaves out.
    pub fn anneal(
        &self,
        changes: Changes,
        (schedule, claimed): (&Schedule, Claimed),
        budget: u64,
        clock: Clock,
        seed: u64,
    ) -> Option<(Schedule, Claimed)> {
        let graph = &self.operators.graph;
        let variants = graph.sequence(schedule).ok()?;
        let goal = Goal::new(Objective::Elu, budget);
        let value = |bytes: u64| goal.value(bytes as f64, claimed.time);
        let initial = changes.initial(value(budget), value(claimed.peak_bytes.max(budget)) - value(budget));
        let span = Span::Iterations(changes.mutations() * variants.len() as u64);
        let deadline = clock.all_but(PARTS).left().and_then(|left| Instant::now().checked_add(left));
        let annealing = Annealing {
            goal: &goal,
            cooling: Cooling { initial, last: initial / 1e3, span },
            terms: Terms { deadline, stop_within_budget: changes == Changes::Order, budget },
            aim: Aim { reorder_only: changes == Changes::Order, aimed: true },
            observer: None,
            trace: None,
        };
        let mut state = State::<Peak>::new(graph, &variants, roomy(variants.len()));
        let mut best = Best::default();
        annealing.run(&mut state, &mut Random::new(seed), &mut best);
        let found = best.variants();
        let most = budget.max(best.rank().2);
        let settled = self.simulated(&put_back(graph, &found, &variants, most, clock));
        settled.filter(|(_, settled)| settled.peak_bytes <= most).or_else(|| self.simulated(&found))
    }

    fn simulated(&self, variants: &[u32]) -> Option<(Schedule, Claimed)> {
        let schedule = self.operators.graph.schedule(self.instance, variants, None);
        let claimed = Claimed::simulated(self.instance, &schedule).ok()?;
        Some((schedule, claimed))
    }
}

/// Runs that an annealing has left where chance put them, back among those that they were among before, one at a time, as far as
/// memory stays within some bytes and until the time is up: addresses are easier to find for what runs in the instance's order.
fn put_back(graph: &Graph, runs: &[u32], before: &[u32], most: u64, clock: Clock) -> Vec<u32> {
    // The n-th run of a variant was the n-th before.
    let mut places: Vec<VecDeque<usize>> = vec![VecDeque::new(); graph.variants.len()];
    for (place, &variant) in before.iter().enumerate() {
        places[variant as usize].push_back(place);
    }
    let mut state = State::<Peak>::new(graph, runs, roomy(runs.len()));
    let goal = Goal::new(Objective::Elu, most);
    // Below by more than what is lost to rounding.
    let limit = goal.value(most as f64 * (1.0 - 1e-9), state.cost);
    let mut steps: Vec<(Step, Option<usize>)> =
        state.steps().into_iter().map(|step| (step, places[step.variant as usize].pop_front())).collect();
    'passes: for _ in 0..PASSES {
        for at in 0..steps.len() {
            if clock.is_over() {
                break 'passes;
            }
            let (step, Some(place)) = steps[at] else { continue };
            let Some(to) = better_place(&steps, at, place) else { continue };
            let after = to.checked_sub(1).map_or(0, |last| steps[last].0.time + 1);
            let time = after.midpoint(steps.get(to).map_or(state.length(), |next| next.0.time));
            if time >= state.length() || state.sequence[time as usize] != NOP {
                continue;
            }
            let moved = Step { time, ..step };
            let mutation = Mutation { add: Some(moved), remove: Some(step) };
            if let Outcome::Accepted { .. } = state.attempt(mutation, &goal, || limit) {
                state.commit(mutation.add, mutation.remove);
                steps.remove(at);
                steps.insert(if to > at { to - 1 } else { to }, (moved, Some(place)));
            }
        }
        state.respace(state.length());
        for (known, step) in steps.iter_mut().zip(state.steps()) {
            known.0 = step;
        }
    }
    steps.iter().map(|(step, _)| step.variant).collect()
}

/// Before which step one that was at a place before passes the most that it was not to pass; none where it is there.
fn better_place(steps: &[(Step, Option<usize>)], at: usize, place: usize) -> Option<usize> {
    let mut best = (0, None);
    let mut take = |gain: i64, to: usize| best = if gain > best.0 { (gain, Some(to)) } else { best };
    let passed = |ahead: bool| if ahead { 1 } else { -1 };
    let mut gain = 0;
    for (to, other) in steps[..at].iter().enumerate().rev() {
        gain += other.1.map_or(0, |other| passed(other > place));
        take(gain, to);
    }
    gain = 0;
    for (to, other) in steps.iter().enumerate().skip(at + 1) {
        gain += other.1.map_or(0, |other| passed(other < place));
        take(gain, to + 1);
    }
    best.1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use remat_core::Step;
    use remat_core::generate::layered::{Layered, layered};
    use remat_core::liveness::with_liveness;
    use remat_core::plan::Plan;

    use super::*;

    /// A graph, its store-all schedule and what that comes to.
    fn network(seed: u64) -> (Instance, Schedule, Claimed) {
        let instance = Instance::new(&layered("layered", &Layered::moccasin(60, 0.5), seed)).expect("valid");
        let store_all = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
        let claimed = Claimed::simulated(&instance, &store_all).expect("legal");
        (instance, store_all, claimed)
    }

    /// What a schedule runs, in no order.
    fn runs(schedule: &Schedule) -> Vec<Step> {
        let mut runs: Vec<Step> =
            schedule.steps.iter().copied().filter(|step| matches!(step, Step::Compute { .. })).collect();
        runs.sort_unstable_by_key(|step| format!("{step:?}"));
        runs
    }

    #[test]
    fn another_order_runs_the_same_and_other_runs_fit_where_it_does_not() {
        let (mut ordered, mut changed) = (0, 0);
        for seed in 0..5 {
            let (instance, store_all, before) = network(seed);
            let fitting = Fitting::new(&instance).expect("supported");
            for percent in [95, 85, 75, 65] {
                let budget = before.peak_bytes * percent / 100;
                let anneal = |changes, schedule: (&Schedule, Claimed)| {
                    fitting.anneal(changes, schedule, budget, Clock::start(None), seed).expect("nothing is left out")
                };
                let (order, claimed) = anneal(Changes::Order, (&store_all, before));
                assert_eq!(runs(&order), runs(&store_all));
                assert!(claimed.time == before.time && claimed.peak_bytes <= before.peak_bytes, "{claimed:?}");
                let (_, other) = anneal(Changes::Runs, (&order, claimed));
                assert!(other.peak_bytes <= budget.max(claimed.peak_bytes) && other.time >= before.time, "{other:?}");
                ordered += usize::from(claimed.peak_bytes <= budget);
                changed += usize::from(claimed.peak_bytes > budget && other.peak_bytes <= budget);
            }
        }
        assert!(ordered > 2 && changed > 2, "{ordered} by another order, {changed} by other runs");
    }

    /// Pairs of runs that are not in the order of their operators.
    fn inversions(runs: &[u32], before: &[u32]) -> usize {
        let place = |variant: &u32| before.iter().position(|other| other == variant);
        let places: Vec<Option<usize>> = runs.iter().map(place).collect();
        (0..places.len()).map(|at| places[at + 1..].iter().filter(|&&later| later < places[at]).count()).sum()
    }

    #[test]
    fn runs_are_put_back_as_far_as_memory_allows() {
        let (mut left, mut right) = (0, 0);
        for seed in 0..5 {
            let (instance, store_all, before) = network(seed);
            let fitting = Fitting::new(&instance).expect("supported");
            let graph = &fitting.operators.graph;
            let given = graph.sequence(&store_all).expect("nothing is left out");
            let (order, claimed) = fitting
                .anneal(Changes::Order, (&store_all, before), before.peak_bytes / 2, Clock::start(None), seed)
                .expect("nothing is left out");
            let low = graph.sequence(&order).expect("nothing is left out");
            let over = Clock::start(Some(Duration::ZERO));
            assert_eq!(put_back(graph, &low, &given, before.peak_bytes, over), low);
            let back = put_back(graph, &low, &given, before.peak_bytes, Clock::start(None));
            let (_, after) = fitting.simulated(&back).expect("legal");
            assert!(after.time == before.time && after.peak_bytes <= before.peak_bytes, "{after:?}, {claimed:?}");
            left += inversions(&low, &given);
            right += inversions(&back, &given);
        }
        assert!(4 * right < left, "{left} pairs in another order, {right} where more memory is allowed");
    }
}
