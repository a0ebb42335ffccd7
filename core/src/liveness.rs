//! Where to free: the frees that leave every copy of a tensor in memory no longer than it is read.
//!
//! A copy is freed right after its last read before it is produced again, or right after it is
//! produced when nobody reads it; results of the iteration keep their last copy.

use crate::instance::{Instance, OperatorId, TensorId};
use crate::schedule::{Schedule, Step};

/// A run of an operator with one of its implementations.
pub type Compute = (OperatorId, usize);

/// The schedule of some computes, with a free step wherever a copy was used for the last time.
///
/// Says nothing about legality: what reads an absent tensor still does.
pub fn with_liveness(instance: &Instance, computes: &[Compute]) -> Schedule {
    let frees = frees_after(instance, computes);
    let mut steps = Vec::with_capacity(2 * computes.len());
    for (&(operator, implementation), freed) in computes.iter().zip(frees) {
        steps.push(Step::Compute { operator, implementation });
        steps.extend(freed.into_iter().map(Step::Free));
    }
    Schedule { steps }
}

/// For each compute, the tensors whose copies it uses for the last time.
fn frees_after(instance: &Instance, computes: &[Compute]) -> Vec<Vec<TensorId>> {
    // Going backwards: is the copy that is alive here read again before the next production?
    let mut read_later: Vec<bool> = instance.tensor_ids().map(|id| instance.is_result(id)).collect();
    let mut frees = vec![Vec::new(); computes.len()];
    for (index, &(operator, variant)) in computes.iter().enumerate().rev() {
        let operator = instance.operator(operator);
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
