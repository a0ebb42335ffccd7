//! Unit chains: the joint graphs on which Checkmate compares formulations.
//!
//! Unlike the chains of [`super`], which have implementations that save and that pass, these have one
//! implementation per operator, and a backward operator reads one forward value.

use crate::format::{
    ImplementationDocument, InstanceDocument, OperatorDocument, Origin, Phase, Provenance, TensorDocument, TensorKind,
};

use super::{PLAIN, units_of};

/// A chain of `layers` forward operators, a loss, and a backward operator for each forward one: 2 `layers` + 1
/// operators, each of which takes time 1 and makes one value of size 1.
///
/// Forward operator i reads the value before it, the loss the last one; backward operator i reads the
/// value of forward operator i and the gradient made just before (the loss's value for the last layer). Nothing is
/// fixed. With 8 layers this is the chain of 17 operators that Checkmate solves at a budget of 4.
pub fn unit_chain(name: &str, layers: u32) -> InstanceDocument {
    let last = 2 * layers;
    let origin = Origin::Generated {
        generator: "unit-chain".into(),
        parameters: [("layers".to_owned(), f64::from(layers))].into(),
        seed: None,
    };
    let provenance = Provenance::new(format!("unit chain of {layers} layers"), &origin);
    InstanceDocument {
        tensors: (0..=last).map(|id| value(id, layers)).collect(),
        operators: (0..=last).map(|id| operator(id, layers)).collect(),
        order: (0..=last).collect(),
        ..InstanceDocument::new(name, units_of(PLAIN), provenance)
    }
}

/// What operator `id` makes.
fn value(id: u32, layers: u32) -> TensorDocument {
    let kind = match id {
        _ if id < layers => TensorKind::Activation,
        _ if id == layers => TensorKind::Saved,
        _ if id < 2 * layers => TensorKind::Gradient,
        _ => TensorKind::Output,
    };
    TensorDocument::new(id, label(id, layers), 1, kind)
}

fn operator(id: u32, layers: u32) -> OperatorDocument {
    let before = id.checked_sub(1);
    let mirrored = (id > layers).then(|| 2 * layers - id);
    let phase = match id {
        _ if id < layers => Phase::Forward,
        _ if id == layers => Phase::Loss,
        _ => Phase::Backward,
    };
    OperatorDocument {
        differentiates: mirrored,
        inputs: mirrored.into_iter().chain(before).collect(),
        outputs: vec![id],
        implementations: vec![ImplementationDocument::plain("default", 1, 0)],
        ..OperatorDocument::new(id, label(id, layers), "unit", phase)
    }
}

fn label(id: u32, layers: u32) -> String {
    match id {
        _ if id < layers => format!("f{}", id + 1),
        _ if id == layers => "loss".into(),
        _ => format!("b{}", 2 * layers - id + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Instance;
    use crate::liveness::with_liveness;
    use crate::plan::Plan;
    use crate::simulate::simulate;

    #[test]
    fn eight_layers_are_checkmates_chain_of_seventeen_operators() {
        let instance = Instance::new(&unit_chain("unit-8", 8)).expect("it is valid");
        assert_eq!(instance.operators().len(), 17);
        let schedule = with_liveness(&instance, &Plan::default_choice(&instance).store_all(&instance));
        let simulation = simulate(&instance, &schedule).expect("it is legal");
        // The first backward runs beside eight values, the loss's and its own.
        assert_eq!((simulation.time, simulation.peak_bytes), (17, 10));
    }

    #[test]
    fn a_backward_reads_the_value_of_its_forward() {
        let document = unit_chain("unit-3", 3);
        assert_eq!(document.operators[4].name, "b3");
        assert_eq!(document.operators[4].inputs, [2, 3]);
        assert_eq!(document.operators[6].inputs, [0, 5]);
        assert_eq!(document.operators[6].differentiates, Some(0));
    }
}
