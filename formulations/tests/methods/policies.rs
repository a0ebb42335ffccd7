//! `checkpoint-every` and `sac` on a network of which one can say what they keep.

use crate::common::{empty, operator, tensor};
use crate::networks::alone;
use remat_core::format::{Phase, TensorKind};
use remat_core::{Instance, Step};

/// Two blocks of four matrix products, each followed by an activation; a loss; and gradients that read every activation.
fn network() -> Instance {
    let mut document = empty("two blocks");
    document.tensors.push(tensor(0, 1, TensorKind::Input));
    let mut add = |name: String, op_type: &str, phase, reads: Vec<u32>, kind| {
        let made = u32::try_from(document.tensors.len()).expect("small");
        document.tensors.push(tensor(made, 10, kind));
        let id = u32::try_from(document.operators.len()).expect("small");
        let mut operator = operator(id, phase, reads, vec![made]);
        (operator.name, operator.op_type) = (name, op_type.into());
        document.operators.push(operator);
        document.order.push(id);
        made
    };
    let mut values = vec![0];
    for layer in 0..8 {
        let name = |part: &str| format!("layers.{}.{part}{}", layer / 4, layer % 4);
        let before = values[values.len() - 1];
        let product = add(name("linear"), "aten.mm", Phase::Forward, vec![before], TensorKind::Activation);
        values.push(product);
        values.push(add(name("act"), "aten.relu", Phase::Forward, vec![product], TensorKind::Activation));
    }
    let mut gradient = add("loss".into(), "loss", Phase::Loss, vec![values[16]], TensorKind::Output);
    for at in (0..values.len() - 1).rev() {
        let kind = if at == 0 { TensorKind::ParamGradient } else { TensorKind::Gradient };
        gradient = add(format!("backward{at}"), "gradient", Phase::Backward, vec![values[at + 1], gradient], kind);
    }
    Instance::new(&document).expect("valid")
}

/// Names of the operators that run twice.
fn repeated(method: &str, given: &[(&str, &str)]) -> Vec<String> {
    let instance = network();
    let answer = alone(method, &instance, None, given);
    let mut runs = vec![0; instance.operators().len()];
    for step in &answer.schedule.as_ref().expect("a schedule").steps {
        if let Step::Compute { operator, .. } = step {
            runs[operator.index()] += 1;
        }
    }
    let twice = instance.operator_ids().filter(|id| runs[id.index()] > 1);
    twice.map(|id| instance.operator(id).name.clone()).collect()
}

#[test]
fn full_checkpointing_keeps_what_leaves_a_block_and_recomputes_the_rest() {
    let all = repeated("checkpoint-every", &[("every", "1")]);
    assert_eq!(all.len(), 14, "{all:?}");
    assert!(!all.contains(&"layers.0.act3".into()) && !all.contains(&"layers.1.act3".into()), "{all:?}");
}

#[test]
fn every_second_block_is_checkpointed() {
    let second = repeated("checkpoint-every", &[("every", "2")]);
    assert_eq!(second.len(), 7);
    assert!(second.iter().all(|name| name.starts_with("layers.1.")), "{second:?}");
    // Without a budget the fastest k checkpoints as little as possible.
    assert_eq!(repeated("checkpoint-every", &[]), second);
}

#[test]
fn selective_checkpointing_recomputes_activations_and_every_second_product_of_each_block() {
    let both = repeated("sac", &[]);
    let names =
        |block: usize| ["act0", "linear1", "act1", "act2", "linear3"].map(|name| format!("layers.{block}.{name}"));
    assert_eq!(both, [names(0), names(1)].concat());
    let activations = repeated("sac", &[("every-second-product", "off")]);
    assert_eq!(activations.len(), 6, "{activations:?}");
}
