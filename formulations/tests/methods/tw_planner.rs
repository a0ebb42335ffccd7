//! `tw-remat` on graphs of which one can say what it does.

use crate::common::{empty, operator, tensor};
use crate::networks::alone;
use remat_core::format::{InstanceDocument, Phase, TensorKind};
use remat_core::{Instance, Step};
use remat_formulations::{Answer, Termination};

/// A chain of forward operators that make 100 bytes each, which a backward operator reads, and a gradient of a parameter for each.
fn chain(layers: u32) -> InstanceDocument {
    let mut document = empty("chain");
    document.tensors.push(tensor(0, 1, TensorKind::Input));
    let mut add = |phase, inputs: Vec<u32>, kind| {
        let id = u32::try_from(document.operators.len()).expect("small");
        let bytes = if kind == TensorKind::ParamGradient { 1 } else { 100 };
        document.tensors.push(tensor(id + 1, bytes, kind));
        document.operators.push(operator(id, phase, inputs, vec![id + 1]));
        document.order.push(id);
        id + 1
    };
    for layer in 0..layers {
        add(Phase::Forward, vec![layer], TensorKind::Activation);
    }
    let mut gradient = add(Phase::Loss, vec![layers], TensorKind::Output);
    for layer in (0..layers).rev() {
        add(Phase::Backward, vec![layer, gradient], TensorKind::ParamGradient);
        gradient = add(Phase::Backward, vec![layer + 1, gradient], TensorKind::Gradient);
    }
    document
}

fn answer(instance: &Instance, budget: Option<u64>) -> Answer {
    alone("tw-remat", instance, budget, &[("tries", "1")])
}

/// How often each operator runs.
fn runs(instance: &Instance, answer: &Answer) -> Vec<usize> {
    let mut runs = vec![0; instance.operators().len()];
    for step in &answer.schedule.as_ref().expect("a schedule").steps {
        if let Step::Compute { operator, .. } = step {
            runs[operator.index()] += 1;
        }
    }
    runs
}

#[test]
fn a_chain_of_128_runs_in_a_fraction_of_its_memory_and_no_gradient_runs_twice() {
    let instance = Instance::new(&chain(128)).expect("valid");
    // The tree is about 8 bags high, the forward pass 128 operators long.
    let roomy = answer(&instance, None);
    assert_eq!(runs(&instance, &roomy).iter().max(), Some(&1));
    assert!(roomy.claimed.expect("a schedule").peak_bytes > 12_800);
    let tight = answer(&instance, Some(3200));
    assert_eq!(tight.termination, Termination::Feasible, "{}", tight.note);
    let runs = runs(&instance, &tight);
    assert!(
        instance.operator_ids().filter(|&id| !instance.operator(id).phase.is_forward()).all(|id| runs[id.index()] == 1)
    );
    assert!(runs.iter().max() > Some(&1) && runs.iter().sum::<usize>() < 1500, "{runs:?}");
}

#[test]
fn gradients_run_again_where_the_instance_allows_it() {
    let mut document = chain(40);
    document.operators.iter_mut().for_each(|operator| operator.recomputable = Some(true));
    let instance = Instance::new(&document).expect("valid");
    let answer = answer(&instance, Some(2100));
    let runs = runs(&instance, &answer);
    assert!(instance.operator_ids().any(|id| !instance.operator(id).phase.is_forward() && runs[id.index()] > 1));
}
