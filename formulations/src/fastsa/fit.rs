//! Schedules that exceed a budget, made to fit: by another order of the same runs, or by other runs.

use std::time::Instant;

use remat_core::{Instance, Schedule, simulate};

use super::anneal::{Annealing, Best, Cooling, Span, Terms, roomy};
use super::graph::Operators;
use super::objective::{Goal, Objective};
use super::profile::Peak;
use super::propose::Aim;
use super::state::State;
use crate::method::{Claimed, SkipReason};
use crate::random::Random;
use crate::search::clock::Clock;

/// Short annealings of schedules that exceed a budget by little.
pub struct Fitting<'a> {
    instance: &'a Instance,
    operators: Operators,
}

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
        schedule: &Schedule,
        budget: u64,
        clock: Clock,
        seed: u64,
    ) -> Option<(Schedule, Claimed)> {
        let graph = &self.operators.graph;
        let variants = graph.sequence(schedule).ok()?;
        let simulation = simulate(self.instance, schedule).ok()?;
        let goal = Goal::new(Objective::Elu, budget);
        let value = |bytes: u64| goal.value(bytes as f64, simulation.time);
        let initial = changes.initial(value(budget), value(simulation.peak_bytes.max(budget)) - value(budget));
        let span = Span::Iterations(changes.mutations() * variants.len() as u64);
        let deadline = clock.left().and_then(|left| Instant::now().checked_add(left));
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
        let found = graph.schedule(self.instance, &best.variants(), None);
        let claimed = Claimed::simulated(self.instance, &found).ok()?;
        Some((found, claimed))
    }
}

#[cfg(test)]
mod tests {
    use remat_core::Step;
    use remat_core::generate::layered::{Layered, layered};
    use remat_core::liveness::with_liveness;
    use remat_core::plan::Plan;

    use super::*;

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
            let instance = Instance::new(&layered("layered", &Layered::moccasin(60, 0.5), seed)).expect("valid");
            let store_all = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
            let before = Claimed::simulated(&instance, &store_all).expect("legal");
            let fitting = Fitting::new(&instance).expect("supported");
            for percent in [95, 85, 75, 65] {
                let budget = before.peak_bytes * percent / 100;
                let anneal = |changes, schedule| {
                    fitting.anneal(changes, schedule, budget, Clock::start(None), seed).expect("nothing is left out")
                };
                let (order, claimed) = anneal(Changes::Order, &store_all);
                assert_eq!(runs(&order), runs(&store_all));
                assert!(claimed.time == before.time && claimed.peak_bytes <= before.peak_bytes, "{claimed:?}");
                let (_, other) = anneal(Changes::Runs, &order);
                assert!(other.peak_bytes <= budget.max(claimed.peak_bytes) && other.time >= before.time, "{other:?}");
                ordered += usize::from(claimed.peak_bytes <= budget);
                changed += usize::from(claimed.peak_bytes > budget && other.peak_bytes <= budget);
            }
        }
        assert!(ordered > 2 && changed > 2, "{ordered} by another order, {changed} by other runs");
    }
}
