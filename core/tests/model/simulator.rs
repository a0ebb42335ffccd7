//! The simulator against a second, quadratic one, and against its own rules.

use crate::common::{Dice, dice, empty, network, operator, slow_simulation, tensor};
use proptest::prelude::*;
use remat_core::format::{ImplementationDocument, Phase, TensorKind};
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::simulate::{SimulationError, Violation};
use remat_core::{Instance, OperatorId, Schedule, Step, TensorId, TransferRates, simulate};

fn instance(dice: &Dice) -> Instance {
    Instance::new(&network(dice)).expect("the generator makes valid instances")
}

/// Steps drawn at random, legal or not.
fn arbitrary_schedule(instance: &Instance, choices: &[(u8, usize, usize)]) -> Schedule {
    let step = |&(kind, which, way): &(u8, usize, usize)| {
        let tensor = TensorId::from_index(which % instance.tensors().len());
        match kind {
            0 => Step::Free(tensor),
            1 => Step::Offload(tensor),
            2 => Step::Fetch(tensor),
            _ => {
                let operator = OperatorId::from_index(which % instance.operators().len());
                Step::Compute { operator, implementation: way % instance.operator(operator).implementations.len() }
            }
        }
    };
    Schedule { steps: choices.iter().map(step).collect(), rates: rates(3000, 700) }
}

fn rates(offload: u64, fetch: u64) -> Option<TransferRates> {
    Some(TransferRates { offload: offload.try_into().ok()?, fetch: fetch.try_into().ok()? })
}

/// A legal schedule with a tensor offloaded at some steps where it is there, and fetched at some later ones.
fn with_random_transfers(instance: &Instance, schedule: &Schedule, choices: &[(usize, usize)]) -> Schedule {
    let mut steps = schedule.steps.clone();
    for &(at, which) in choices {
        let mut more = steps.clone();
        let position = at % (steps.len() + 1);
        let offloaded: Vec<_> = steps[..position].iter().filter(|s| matches!(s, Step::Offload(_))).collect();
        let tensor = TensorId::from_index(which % instance.tensors().len());
        let step = match (which % 3, offloaded.get(which % offloaded.len().max(1))) {
            (0 | 1, Some(&&Step::Offload(tensor))) => Step::Fetch(tensor),
            _ => Step::Offload(tensor),
        };
        more.insert(position, step);
        // What was fetched in passing is dropped again where it was absent.
        let legal =
            |steps: &[Step]| simulate(instance, &Schedule { steps: steps.to_vec(), rates: rates(9, 4) }).is_ok();
        if legal(&more) {
            steps = more;
        }
    }
    Schedule { steps, rates: rates(9, 4) }
}

/// A legal schedule with recomputation: operators in order, some repeated before they are read, dead
/// copies freed.
fn legal_schedule(instance: &Instance, repeats: &[usize]) -> Schedule {
    let plan = Plan::fastest(instance);
    let mut computes = Vec::new();
    for (index, &id) in instance.order().iter().enumerate() {
        if instance.operator(id).phase == Phase::Backward {
            for &repeat in repeats.iter().filter(|&&r| r % instance.order().len() == index) {
                // Repeating everything before is always legal.
                let forward: Vec<_> = instance.order().iter().take(1 + repeat % index.max(1)).collect();
                for &&again in forward.iter().filter(|id| instance.operator(***id).phase.is_forward()) {
                    let way = plan.saving_again[again.index()];
                    computes.extend(way.map(|way| (again, way)));
                }
            }
        }
        computes.push((id, plan.saving[id.index()]));
    }
    with_liveness(instance, &computes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_simulators_agree_on_arbitrary_steps(
        dice in dice(2..6),
        choices in prop::collection::vec((0..6u8, any::<usize>(), any::<usize>()), 0..40),
    ) {
        let instance = instance(&dice);
        let schedule = arbitrary_schedule(&instance, &choices);
        let fast = match simulate(&instance, &schedule) {
            Ok(simulation) => Ok((simulation.time, simulation.peak_bytes, simulation.timeline)),
            Err(SimulationError::Step { step, .. }) => Err(step),
            Err(SimulationError::End { .. }) => Err(schedule.steps.len()),
        };
        prop_assert_eq!(fast, slow_simulation(&instance, &schedule));
    }

    #[test]
    fn both_simulators_agree_on_legal_schedules(
        dice in dice(2..8),
        repeats in prop::collection::vec(0..1000usize, 0..4),
    ) {
        let instance = instance(&dice);
        let schedule = legal_schedule(&instance, &repeats);
        let fast = simulate(&instance, &schedule).expect("legal");
        let slow = slow_simulation(&instance, &schedule).expect("legal");
        prop_assert_eq!((fast.time, fast.peak_bytes, fast.timeline), slow);
    }

    #[test]
    fn both_simulators_agree_on_legal_schedules_with_transfers(
        dice in dice(2..7),
        repeats in prop::collection::vec(0..1000usize, 0..3),
        choices in prop::collection::vec((any::<usize>(), any::<usize>()), 0..20),
    ) {
        let instance = instance(&dice);
        let schedule = with_random_transfers(&instance, &legal_schedule(&instance, &repeats), &choices);
        let fast = simulate(&instance, &schedule).expect("legal");
        let slow = slow_simulation(&instance, &schedule).expect("legal");
        prop_assert_eq!((fast.time, fast.peak_bytes, fast.timeline), slow);
        let steps = || schedule.steps.iter();
        let offloaded: std::collections::BTreeSet<_> =
            steps().filter_map(|s| if let Step::Offload(t) = s { Some(t.index()) } else { None }).collect();
        let host: u64 = offloaded.iter().map(|&t| instance.tensors()[t].bytes).sum();
        prop_assert_eq!(fast.transfers.host_bytes, host);
        prop_assert_eq!(fast.transfers.offloads, steps().filter(|s| matches!(s, Step::Offload(_))).count());
        prop_assert_eq!(fast.transfers.fetches, steps().filter(|s| matches!(s, Step::Fetch(_))).count());
    }

    #[test]
    fn liveness_frees_as_early_as_possible(dice in dice(2..8), repeats in prop::collection::vec(0..1000usize, 0..4)) {
        let instance = instance(&dice);
        let schedule = legal_schedule(&instance, &repeats);
        // Freeing any tensor one step earlier is illegal.
        for (index, step) in schedule.steps.iter().enumerate().filter(|(_, s)| matches!(s, Step::Free(_))) {
            let mut steps = schedule.steps.clone();
            steps.remove(index);
            let position = steps[..index].iter().rposition(|s| matches!(s, Step::Compute { .. })).expect("computed before");
            steps.insert(position, *step);
            let earlier = simulate(&instance, &Schedule::new(steps));
            prop_assert!(earlier.is_err(), "step {} could come earlier", index);
        }
    }

    #[test]
    fn bytes_by_kind_add_up_to_the_peak(dice in dice(2..8)) {
        let instance = instance(&dice);
        let simulation = simulate(&instance, &legal_schedule(&instance, &[])).expect("legal");
        let kinds: u64 = simulation.peak_bytes_by_kind.iter().sum();
        let sum = kinds + simulation.peak_fixed_bytes + simulation.peak_workspace_bytes;
        prop_assert_eq!(sum, simulation.peak_bytes);
    }
}

fn three_layers() -> Instance {
    instance(&Dice { layers: vec![(4, 1, 0, 0), (8, 2, 3, 2), (2, 1, 0, 0)] })
}

fn steps(text: &str) -> Schedule {
    let step = |word: &str| {
        let number: usize = word[1..].split('.').next().and_then(|n| n.parse().ok()).expect("a number");
        let implementation = word.split_once('.').map_or(0, |(_, n)| n.parse().expect("a number"));
        match &word[..1] {
            "c" => Step::Compute { operator: OperatorId::from_index(number), implementation },
            "o" => Step::Offload(TensorId::from_index(number)),
            "g" => Step::Fetch(TensorId::from_index(number)),
            _ => Step::Free(TensorId::from_index(number)),
        }
    };
    Schedule { steps: text.split_whitespace().map(step).collect(), rates: rates(4000, 3000) }
}

fn violation(schedule: &str) -> (usize, Violation) {
    match simulate(&three_layers(), &steps(schedule)) {
        Err(SimulationError::Step { step, violation, .. }) => (step, violation),
        other => panic!("expected an illegal step, got {other:?}"),
    }
}

#[test]
fn a_step_without_its_input_is_named() {
    assert_eq!(violation("c0 c2"), (1, Violation::MissingInput("tensor 2 \"t2\"".into())));
}

#[test]
fn a_backward_operator_runs_once() {
    assert_eq!(violation("c0 c1 c2 c3 c3"), (4, Violation::NotRecomputable));
}

#[test]
fn state_is_updated_once() {
    assert_eq!(violation("c0 c1 c1"), (2, Violation::UpdatesStateAgain("default".into())));
    assert_eq!(violation("c0 c1.2"), (1, Violation::SkipsState("recompute".into())));
}

#[test]
fn inputs_stay() {
    assert_eq!(violation("c0 f0"), (1, Violation::FreeOfInput("tensor 0 \"t0\"".into())));
}

#[test]
fn a_tensor_is_freed_once() {
    assert_eq!(violation("c0 f1 f1"), (2, Violation::FreeOfAbsent("tensor 1 \"t1\"".into())));
}

#[test]
fn only_what_is_there_is_offloaded_and_only_what_is_offloaded_is_fetched() {
    assert_eq!(violation("c0 o2"), (1, Violation::OffloadOfAbsent("tensor 2 \"t2\"".into())));
    assert_eq!(violation("c0 o0"), (1, Violation::OffloadOfInput("tensor 0 \"t0\"".into())));
    assert_eq!(violation("c0 g1"), (1, Violation::FetchOfAbsent("tensor 1 \"t1\"".into())));
    let steps = Schedule { rates: None, ..steps("c0 o1") };
    let error = simulate(&three_layers(), &steps).expect_err("no rates");
    let message = "step 1 (offload tensor 1 \"t1\"): is a transfer, but the schedule has no transfer rates";
    assert_eq!(error.to_string(), message);
}

#[test]
fn transfers_take_their_time_and_a_fetched_tensor_its_memory() {
    let plain = simulate(&three_layers(), &steps("c0 c1 c2 c3 c4 c5")).expect("legal");
    // Tensor 1 has 4 bytes: 1 unit of time to the host at 4 per unit, 2 back at 3 per unit, rounded up.
    let moved = simulate(&three_layers(), &steps("c0 o1 c1 f1 c2 c3 g1 c4 c5 g1")).expect("legal");
    assert_eq!(moved.time, plain.time + 1 + 2 + 2);
    assert_eq!((moved.transfers.offloads, moved.transfers.fetches, moved.transfers.host_bytes), (1, 2, 4));
    assert_eq!((moved.transfers.time, moved.wasted_steps), (5, 1));
    assert_eq!(moved.timeline[1], moved.timeline[0], "a copy leaves memory as it is");
    assert_eq!(moved.timeline[6], moved.timeline[5] + 4, "what is fetched is there");
}

#[test]
fn results_are_resident_at_the_end() {
    let end = simulate(&three_layers(), &steps("c0 c1 c2 c3 c4 c5 f3"));
    let missing = Violation::MissingResult("tensor 3 \"t3\"".into());
    assert_eq!(end, Err(SimulationError::End { violation: missing }));
    let early = simulate(&three_layers(), &steps("c0 c1 c2"));
    assert!(matches!(early, Err(SimulationError::End { violation: Violation::NeverRan(..) })), "{early:?}");
}

#[test]
fn computing_what_is_resident_is_legal_and_reported_as_waste() {
    let simulation = simulate(&three_layers(), &steps("c0 c0 c1 c2 c3 c4 c5")).expect("legal");
    assert_eq!((simulation.wasted_steps, simulation.recomputations()), (1, 1));
}

#[test]
fn the_peak_counts_fixed_bytes_inputs_and_workspace() {
    let simulation = simulate(&three_layers(), &steps("c0 c1 c2 c3 c4 c5")).expect("legal");
    // Before the backward of the second layer: 5 fixed, 3 input, 14 activations, gradients and workspace 3.
    assert_eq!(simulation.timeline[1], 5 + 3 + 4 + 8 + 3);
    let kinds = simulation.peak_bytes_by_kind;
    assert_eq!(kinds[TensorKind::Input as usize], 3);
}

#[test]
fn a_plan_never_reads_two_encodings_that_no_implementation_saves_together() {
    let way = |name: &str, time, inputs: &[u32], saves: &[u32]| ImplementationDocument {
        inputs: (!inputs.is_empty()).then(|| inputs.to_vec()),
        saves: saves.to_vec(),
        ..ImplementationDocument::plain(name, time, 0)
    };
    let mut document = empty("encodings");
    let kinds = [
        TensorKind::Input,
        TensorKind::Activation,
        TensorKind::Saved,
        TensorKind::Saved,
        TensorKind::Output,
        TensorKind::Gradient,
        TensorKind::ParamGradient,
    ];
    document.tensors = (0..).zip(kinds).map(|(id, kind)| tensor(id, 1, kind)).collect();
    document.operators = vec![
        operator(0, Phase::Forward, vec![0], vec![1]),
        operator(1, Phase::Loss, vec![1], vec![4]),
        operator(2, Phase::Backward, vec![1], vec![5]),
        operator(3, Phase::Backward, vec![1, 5], vec![6]),
    ];
    document.operators[0].implementations.extend([way("x", 1, &[], &[2]), way("y", 1, &[], &[3])]);
    document.operators[2].implementations = vec![way("plain", 9, &[], &[]), way("from x", 1, &[2], &[])];
    document.operators[3].implementations = vec![way("plain", 9, &[], &[]), way("from y", 1, &[3, 5], &[])];
    document.order = vec![0, 1, 2, 3];
    let instance = Instance::new(&document).expect("valid");
    let schedule = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
    // One of the two is fast, not both: 1 + 1 + 1 + 9.
    assert_eq!(simulate(&instance, &schedule).expect("legal").time, 12);
}
