//! Random instances and schedules, and a second simulator: quadratic, and obviously right.

use proptest::prelude::*;
use remat_core::format::{
    ImplementationDocument, InPlaceDocument, InstanceDocument, OperatorDocument, Origin, Phase, Provenance,
    TensorDocument, TensorKind, Units,
};
use remat_core::{Instance, OperatorId, Schedule, Step, TensorId};

/// What the slow simulator says: time, peak, and the memory during each step; or the index of the first
/// illegal step (the number of steps if the end is what is wrong).
pub type Verdict = Result<(u64, u64, Vec<u64>), usize>;

/// The rules of docs/reference/model.md, "What a schedule means", read aloud: what is resident is found out
/// anew before every step by replaying all steps before it.
pub fn slow_simulation(instance: &Instance, schedule: &Schedule) -> Verdict {
    let fixed = instance.fixed_bytes();
    let bytes = |set: &[TensorId]| set.iter().map(|&t| instance.tensor(t).bytes).sum::<u64>();
    let mut peak = fixed + bytes(&resident_after(instance, &[]));
    let mut time = 0;
    let mut timeline = Vec::new();
    for (index, &step) in schedule.steps.iter().enumerate() {
        let before = resident_after(instance, &schedule.steps[..index]);
        let during = match step {
            Step::Free(tensor) => {
                if instance.tensor(tensor).kind == TensorKind::Input || !before.contains(&tensor) {
                    return Err(index);
                }
                fixed + bytes(&before)
            }
            Step::Offload(tensor) => {
                if instance.tensor(tensor).kind == TensorKind::Input || !before.contains(&tensor) {
                    return Err(index);
                }
                let Some(rates) = schedule.rates else { return Err(index) };
                time += (1000 * instance.tensor(tensor).bytes).div_ceil(rates.offload.get());
                fixed + bytes(&before)
            }
            Step::Fetch(tensor) => {
                if !schedule.steps[..index].contains(&Step::Offload(tensor)) {
                    return Err(index);
                }
                let Some(rates) = schedule.rates else { return Err(index) };
                time += (1000 * instance.tensor(tensor).bytes).div_ceil(rates.fetch.get());
                fixed + bytes(&resident_after(instance, &schedule.steps[..=index]))
            }
            Step::Compute { operator, implementation } => {
                let description = instance.operator(operator);
                let way = &description.implementations[implementation];
                let ran = runs(&schedule.steps[..index], operator);
                let repeats = ran > 0 && !description.recomputable;
                let state = description.updates_state && way.recompute != (ran > 0);
                if repeats || state || way.reads.iter().any(|read| !before.contains(read)) {
                    return Err(index);
                }
                time += way.time;
                fixed + bytes(&resident_after(instance, &schedule.steps[..=index])) + way.workspace_bytes
            }
        };
        timeline.push(during);
        peak = peak.max(during);
    }
    let end = schedule.steps.len();
    let resident = resident_after(instance, &schedule.steps);
    let must_run = |id: &OperatorId| {
        let operator = instance.operator(*id);
        operator.phase == Phase::Backward || operator.updates_state
    };
    let complete = instance.operator_ids().filter(must_run).all(|id| runs(&schedule.steps, id) > 0)
        && instance.tensor_ids().filter(|&t| instance.is_result(t)).all(|t| resident.contains(&t));
    if complete { Ok((time, peak, timeline)) } else { Err(end) }
}

fn runs(steps: &[Step], operator: OperatorId) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Compute { operator: o, .. } if *o == operator)).count()
}

fn resident_after(instance: &Instance, steps: &[Step]) -> Vec<TensorId> {
    let mut resident: Vec<_> =
        instance.tensor_ids().filter(|&t| instance.tensor(t).kind == TensorKind::Input).collect();
    for step in steps {
        match *step {
            Step::Free(tensor) => resident.retain(|&t| t != tensor),
            Step::Offload(_) => {}
            Step::Fetch(tensor) if resident.contains(&tensor) => {}
            Step::Fetch(tensor) => resident.push(tensor),
            Step::Compute { operator, implementation } => {
                let operator = instance.operator(operator);
                if let Some(pair) = operator.implementations[implementation].in_place {
                    resident.retain(|&t| t != pair.input);
                }
                for made in operator.makes(implementation) {
                    if !resident.contains(&made) {
                        resident.push(made);
                    }
                }
            }
        }
    }
    resident
}

/// The document of an instance with nothing in it yet.
pub fn empty(name: &str) -> InstanceDocument {
    let parameters = std::collections::BTreeMap::new();
    let origin = Origin::Generated { generator: "test".into(), parameters, seed: None };
    InstanceDocument::new(name, Units::default(), Provenance::new(name, &origin))
}

/// A plain operator.
pub fn operator(id: u32, phase: Phase, inputs: Vec<u32>, outputs: Vec<u32>) -> OperatorDocument {
    OperatorDocument {
        inputs,
        outputs,
        implementations: vec![ImplementationDocument::plain("default", 1, 0)],
        ..OperatorDocument::new(id, format!("op{id}"), "test", phase)
    }
}

/// A tensor.
pub fn tensor(id: u32, bytes: u64, kind: TensorKind) -> TensorDocument {
    TensorDocument::new(id, format!("t{id}"), bytes, kind)
}

/// Numbers from which [`network`] builds an instance.
#[derive(Clone, Debug)]
pub struct Dice {
    /// Per forward operator: bytes, time, workspace, bits for skips, state, masks and places.
    pub layers: Vec<(u64, u64, u64, u32)>,
}

/// Any dice.
pub fn dice(layers: std::ops::Range<usize>) -> impl Strategy<Value = Dice> {
    let layer = (0..20u64, 0..10u64, 0..8u64, any::<u32>());
    prop::collection::vec(layer, layers).prop_map(|layers| Dice { layers })
}

/// A random network: a chain with skip connections, its backward mirrored; some operators update state,
/// some offer a mask or work in place, some backwards read the output and some the input.
pub fn network(dice: &Dice) -> InstanceDocument {
    let mut document = empty("random");
    document.fixed_bytes.parameters = 5;
    let n = u32::try_from(dice.layers.len()).expect("small");
    // Tensors: 0 input; 1..=n activations; n+1..=2n masks; 2n+1..=3n gradients; 3n+1..=4n of parameters.
    document.tensors.push(tensor(0, 3, TensorKind::Input));
    for (index, &(bytes, ..)) in (1..=n).zip(&dice.layers) {
        let kind = if index == n { TensorKind::Output } else { TensorKind::Activation };
        document.tensors.push(tensor(index, bytes, kind));
    }
    for (index, &(bytes, ..)) in (1..=n).zip(&dice.layers) {
        document.tensors.push(tensor(n + index, bytes / 4, TensorKind::Saved));
    }
    for (index, &(bytes, ..)) in (1..=n).zip(&dice.layers) {
        document.tensors.push(tensor(2 * n + index, bytes, TensorKind::Gradient));
        document.tensors.push(tensor(3 * n + index, 1, TensorKind::ParamGradient));
    }
    for (index, &(bytes, time, workspace, bits)) in (1..=n).zip(&dice.layers) {
        let mut inputs = vec![index - 1];
        if bits & 1 == 1 && index > 2 {
            inputs.push(index - 2);
        }
        let phase = if index == n { Phase::Loss } else { Phase::Forward };
        let mut forward = operator(index - 1, phase, inputs, vec![index]);
        forward.implementations = vec![ImplementationDocument::plain("default", time, workspace)];
        let masked =
            ImplementationDocument { saves: vec![n + index], ..ImplementationDocument::plain("masked", time + 1, 0) };
        forward.implementations.push(masked);
        if bits & 2 == 2 && index < n {
            forward.updates_state = true;
            let again = ImplementationDocument {
                recompute: true,
                ..ImplementationDocument::plain("recompute", time, workspace)
            };
            forward.implementations.push(again);
            let again = ImplementationDocument {
                recompute: true,
                saves: vec![n + index],
                ..ImplementationDocument::plain("recompute-masked", time, 0)
            };
            forward.implementations.push(again);
        } else if index > 1 && dice.layers[index as usize - 2].0 == bytes && bits & 4 == 4 {
            let in_place = Some(InPlaceDocument { output: index, input: index - 1 });
            forward
                .implementations
                .push(ImplementationDocument { in_place, ..ImplementationDocument::plain("in-place", time, 0) });
        }
        document.operators.push(forward);
    }
    for (index, &(_, time, workspace, bits)) in (1..=n).zip(&dice.layers).collect::<Vec<_>>().into_iter().rev() {
        let mut inputs = vec![if bits & 8 == 8 { index } else { index - 1 }];
        if index < n {
            inputs.push(2 * n + index + 1);
        }
        let mut backward = operator(2 * n - index, Phase::Backward, inputs.clone(), vec![2 * n + index, 3 * n + index]);
        backward.differentiates = Some(index - 1);
        backward.implementations = vec![ImplementationDocument::plain("default", 2 * time, workspace)];
        inputs[0] = n + index;
        let masked =
            ImplementationDocument { inputs: Some(inputs), ..ImplementationDocument::plain("from-mask", time, 0) };
        backward.implementations.push(masked);
        document.operators.push(backward);
    }
    document.order = (0..2 * n).collect();
    document
}
