//! Where to free: the frees that leave every copy of a tensor in memory no longer than it is read.
//!
//! A copy is freed right after its last read before it is produced again, or right after it is
//! produced when nobody reads it; results of the iteration keep their last copy. A tensor that is fetched
//! is offloaded right after its first production: no later offload leaves less in memory.

use crate::instance::{Instance, OperatorId, TensorId};
use crate::schedule::{Schedule, Step, TransferRates};

/// A run of an operator with one of its implementations.
pub type Compute = (OperatorId, usize);

/// What makes a tensor resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run an operator.
    Compute(Compute),
    /// Copy a tensor back from the host.
    Fetch(TensorId),
}

/// The schedule of some computes, with a free step wherever a copy was used for the last time.
///
/// Says nothing about legality: what reads an absent tensor still does.
pub fn with_liveness(instance: &Instance, computes: &[Compute]) -> Schedule {
    let actions: Vec<Action> = computes.iter().copied().map(Action::Compute).collect();
    Schedule::new(placed(instance, &actions))
}

/// The same for computes and fetches, with an offload after the first production of what is fetched.
pub fn with_transfers(instance: &Instance, actions: &[Action], rates: TransferRates) -> Schedule {
    Schedule { steps: placed(instance, actions), rates: Some(rates) }
}

fn placed(instance: &Instance, actions: &[Action]) -> Vec<Step> {
    let mut to_offload = vec![false; instance.tensors().len()];
    for action in actions {
        if let Action::Fetch(tensor) = action {
            to_offload[tensor.index()] = true;
        }
    }
    let frees = frees_after(instance, actions);
    let mut steps = Vec::with_capacity(2 * actions.len());
    for (&action, freed) in actions.iter().zip(frees) {
        match action {
            Action::Compute((operator, implementation)) => {
                steps.push(Step::Compute { operator, implementation });
                let made = instance.operator(operator).makes(implementation);
                let first = made.filter(|made| std::mem::take(&mut to_offload[made.index()]));
                steps.extend(first.map(Step::Offload));
            }
            Action::Fetch(tensor) => steps.push(Step::Fetch(tensor)),
        }
        steps.extend(freed.into_iter().map(Step::Free));
    }
    steps
}

/// For each action, the tensors whose copies it uses for the last time.
fn frees_after(instance: &Instance, actions: &[Action]) -> Vec<Vec<TensorId>> {
    // Going backwards: is the copy that is alive here read again before the next production?
    let mut read_later: Vec<bool> = instance.tensor_ids().map(|id| instance.is_result(id)).collect();
    let mut frees = vec![Vec::new(); actions.len()];
    for (index, &action) in actions.iter().enumerate().rev() {
        let (operator, variant) = match action {
            Action::Compute((operator, variant)) => (instance.operator(operator), variant),
            Action::Fetch(tensor) => {
                if !std::mem::take(&mut read_later[tensor.index()]) {
                    frees[index].push(tensor);
                }
                continue;
            }
        };
        let implementation = &operator.implementations[variant];
        let overwritten = implementation.in_place.map(|pair| pair.input);
        for made in operator.makes(variant) {
            if !read_later[made.index()] {
                frees[index].push(made);
            }
            read_later[made.index()] = false;
        }
        for &read in &implementation.reads {
            let kept = instance.tensor(read).producer.is_none();
            if !read_later[read.index()] && !kept && overwritten != Some(read) {
                frees[index].push(read);
            }
            read_later[read.index()] = true;
        }
    }
    frees
}
