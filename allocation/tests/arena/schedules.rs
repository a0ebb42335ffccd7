//! The buffers of random schedules against the simulator, and plans against their check.

#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use remat_allocation::confirm::PlanError;
use remat_allocation::plan::{HeldDocument, PlanDocument};
use remat_allocation::{Answer, Lifetimes, Limits, Problem, Stop, check, find};
use remat_core::generate::random::random;
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, Schedule, Step, TensorId, TransferRates, simulate};

/// A random network whose own order is legal.
fn instance(seed: u64) -> Instance {
    let mut drawn = (seed..).step_by(500).map(|seed| Instance::new(&random("r", 1 + (seed % 7) as u32, seed)).unwrap());
    let store_all = |instance: &Instance| with_liveness(instance, &Plan::fastest(instance).store_all(instance));
    drawn.find(|instance| simulate(instance, &store_all(instance)).is_ok()).unwrap()
}

/// The instance's own order, operators in other implementations where that is legal, with steps of all kinds drawn in between wherever
/// they are legal.
fn schedule(instance: &Instance, choices: &[(u8, usize, usize, usize)], ways: &[usize]) -> Schedule {
    let rates = Some(TransferRates { offload: 9.try_into().unwrap(), fetch: 4.try_into().unwrap() });
    let legal = |steps: &[Step]| simulate(instance, &Schedule { steps: steps.to_vec(), rates }).is_ok();
    let all = Plan::fastest(instance).store_all(instance);
    let mut steps: Vec<Step> =
        all.into_iter().map(|(operator, implementation)| Step::Compute { operator, implementation }).collect();
    for (at, &way) in ways.iter().enumerate().take(steps.len()) {
        let Step::Compute { operator, .. } = steps[at] else { continue };
        let implementation = way % instance.operator(operator).implementations.len();
        let old = std::mem::replace(&mut steps[at], Step::Compute { operator, implementation });
        if !legal(&steps) {
            steps[at] = old;
        }
    }
    for &(kind, position, which, way) in choices {
        let tensor = TensorId::from_index(which % instance.tensors().len());
        let operator = OperatorId::from_index(which % instance.operators().len());
        let step = match kind % 5 {
            0 | 1 => Step::Free(tensor),
            2 => Step::Offload(tensor),
            3 => Step::Fetch(tensor),
            _ => Step::Compute { operator, implementation: way % instance.operator(operator).implementations.len() },
        };
        let mut more = steps.clone();
        more.insert(position % (steps.len() + 1), step);
        if legal(&more) {
            steps = more;
        }
    }
    Schedule { steps, rates }
}

fn choices() -> impl Strategy<Value = Vec<(u8, usize, usize, usize)>> {
    prop::collection::vec((0u8..5, 0usize..200, 0usize..200, 0usize..4), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_alive_at_a_step_is_the_memory_that_the_simulator_says(seed in 0u64..500, choices in choices(), ways in prop::collection::vec(0usize..4, 40)) {
        let instance = instance(seed);
        let schedule = schedule(&instance, &choices, &ways);
        let lifetimes = Lifetimes::new(&instance, &schedule).unwrap();
        let alive = |step: u64| {
            let alive = lifetimes.buffers.iter().filter(|buffer| (buffer.lower..buffer.upper).contains(&step));
            lifetimes.fixed_bytes + alive.map(|buffer| buffer.size).sum::<u64>()
        };
        let seen: Vec<u64> = (0..schedule.steps.len() as u64).map(alive).collect();
        prop_assert_eq!(&seen, &lifetimes.simulation.timeline);
        let problem = lifetimes.problem(1).unwrap();
        prop_assert_eq!(problem.bound() + lifetimes.fixed_bytes, lifetimes.simulation.peak_bytes);
    }

    #[test]
    fn a_plan_is_confirmed_and_one_with_a_buffer_moved_shrunk_or_gone_is_not(seed in 0u64..500, choices in choices(), ways in prop::collection::vec(0usize..4, 40), pick in 0usize..100) {
        let instance = instance(seed);
        let schedule = schedule(&instance, &choices, &ways);
        let lifetimes = Lifetimes::new(&instance, &schedule).unwrap();
        let problem: Problem = lifetimes.problem(4).unwrap();
        let answer = find("best-fit-size").unwrap().solve(&problem, &Limits::default());
        check(&problem, &answer.offsets, None).unwrap();
        let plan = PlanDocument::new(&instance, &lifetimes, &problem, &answer, "best-fit-size");
        plan.check(None).unwrap();
        plan.check(Some(plan.height + plan.fixed_bytes)).unwrap();
        plan.check_against(&instance, &schedule).unwrap();
        prop_assert!(plan.height == 0 || plan.check(Some(plan.height + plan.fixed_bytes - 1)).is_err());
        if plan.buffers.is_empty() {
            return Ok(());
        }
        let pick = pick % plan.buffers.len();
        let mut gone = plan.clone();
        gone.buffers.remove(pick);
        let refused = gone.check_against(&instance, &schedule);
        prop_assert!(matches!(refused, Err(PlanError::Step { .. })), "{refused:?}");
        let mut shorter = plan.clone();
        shorter.buffers[pick].upper -= 1;
        prop_assert!(shorter.check_against(&instance, &schedule).is_err());
        let mut smaller = plan.clone();
        smaller.buffers[pick].size = 0;
        prop_assert!(smaller.check_against(&instance, &schedule).is_err());
        let mut other_fixed = plan.clone();
        other_fixed.fixed_bytes += 1;
        let refused = other_fixed.check_against(&instance, &schedule);
        prop_assert!(matches!(refused, Err(PlanError::Fixed { .. })), "{refused:?}");
        let mut crowded = plan.clone();
        let one = &mut crowded.buffers[pick];
        one.tensors.push(HeldDocument { tensor: 0, from: one.lower });
        prop_assert!(matches!(crowded.check(None), Err(PlanError::Several(_))));
        let mut proud = plan.clone();
        (proud.height, proud.bound) = (plan.height + 4, plan.height + 4);
        let refused = proud.check(None);
        prop_assert!(matches!(refused, Err(PlanError::Bound { .. })), "{refused:?}");
        let mut uneven = plan.clone();
        uneven.buffers[pick].offset += 1;
        prop_assert!(uneven.check(None).is_err());
        // Where another buffer is alive, its address is taken.
        let other = plan.buffers.iter().position(|other| {
            let one = &plan.buffers[pick];
            other.id != one.id && other.lower < one.upper && one.lower < other.upper
        });
        if let Some(other) = other {
            let mut shared = plan.clone();
            shared.buffers[pick].offset = shared.buffers[other].offset;
            (shared.height, shared.bound) = (u64::MAX, 0);
            prop_assert!(matches!(shared.check(None), Err(PlanError::Overlap(_))));
        }
    }

    /// Pairs by comparison, since what is listed comes from the check itself.
    #[test]
    fn all_violations_are_listed_each_once(seed in 0u64..500, choices in choices()) {
        let instance = instance(seed);
        let schedule = schedule(&instance, &choices, &[]);
        let lifetimes = Lifetimes::new(&instance, &schedule).unwrap();
        let problem: Problem = lifetimes.problem(4).unwrap();
        // All at one address, which is lower than the least: it does not claim that.
        let zeros = Answer::packed(&problem, vec![0; problem.buffers().len()], 0, Stop::Done);
        let plan = PlanDocument::new(&instance, &lifetimes, &problem, &zeros, "none");
        let together = |(at, one): (usize, &remat_allocation::Buffer)| {
            problem.buffers()[at + 1..].iter().filter(|other| one.overlaps(other)).count()
        };
        let pairs: usize = problem.buffers().iter().enumerate().map(together).sum();
        let found = plan.violations(None, Some((&instance, &schedule)));
        prop_assert_eq!(found.count, pairs);
        prop_assert_eq!(plan.check(None).is_err(), pairs > 0);
        // Without any buffer, each copy of a tensor is missed once, and each workspace.
        let empty = PlanDocument { buffers: vec![], height: 0, bound: 0, ..plan.clone() };
        let missed = empty.violations(None, Some((&instance, &schedule)));
        let copies: usize = lifetimes.contents.iter().map(|content| match content {
            remat_allocation::Content::Tensors(tensors) => tensors.len(),
            remat_allocation::Content::Workspace(_) => 1,
        }).sum();
        // A tensor that is freed and made again at once is missed all the time.
        prop_assert!(missed.count <= copies && (missed.count > 0) == (copies > 0), "{} of {copies}", missed.count);
        prop_assert_eq!(missed.listed.len(), missed.count);
    }
}
