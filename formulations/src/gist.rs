//! `gist`: smaller encodings of what the backward pass reads, and nothing recomputed.

use std::time::Instant;

use remat_core::liveness::{Compute, with_liveness};
use remat_core::plan::Plan;
use remat_core::{Implementation, Instance, TensorId};

use crate::method::claim::{Order, Runs};
use crate::method::parameters::Parameters;
use crate::method::{About, Answer, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};

/// What the names of implementations with one of Gist's encodings begin with (`remat-profiler trace --gist`).
const PREFIX: &str = "gist:";

/// Gist: every encoding wherever it applies, in place wherever possible.
///
/// # Problem
/// None: the instance's order, each operator once. A backward operator that can read encoded tensors
/// (Binarize, Sparse Storage Dense Compute, Delayed Precision Reduction) does, its producers save them, and the
/// dense tensors go with their last forward reader. A rectifier whose input nobody reads later runs in
/// place. All other operators use the framework's implementation, convolutions included. One point of time and
/// memory, no choice.
///
/// # Claim
/// Baseline.
///
/// # Size
/// O(reads).
///
/// # Departures from the paper
/// * The encodings are those of the instance: what they cost and how small they are is in its provenance.
/// * Where an operator offers two encodings, but no implementation that saves both, the one that is read last is used.
/// * An operator that saves an encoding runs in place only if the instance has an implementation that does both.
///
/// # Reference
/// Jain et al., "Gist: Efficient Data Encoding for Deep Neural Network Training", ISCA 2018, as MONeT (Shah et
/// al., ICLR 2021) compares with it in Table 3 and Appendix E.
pub struct Gist;

impl Method for Gist {
    fn about(&self) -> About {
        About {
            id: "gist",
            title: "Gist's encodings of what the backward pass reads, nothing recomputed",
            reference: "Gist (Jain et al., ISCA 2018), as in MONeT (Shah et al., ICLR 2021), Table 3 and appendix E",
            parameters: &[],
            budgets: BudgetUse::Ignored,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::baseline(Class { order: Order::Stages, runs: Runs::AtMost(1), ..Class::ALL })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        let mut ways = instance.operators().iter().flat_map(|operator| &operator.implementations);
        if ways.any(is_encoding) {
            return Ok(());
        }
        Err(SkipReason("no implementation gist:...; trace the network with remat-profiler trace --gist".into()))
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let started = Instant::now();
        let instance = context.instance;
        let schedule = with_liveness(instance, &computes(instance));
        context.answer(0, &Answer::of(instance, schedule, started)?);
        Ok(())
    }
}

fn is_encoding(implementation: &Implementation) -> bool {
    implementation.name.starts_with(PREFIX)
}

/// Every operator once: readers of encodings first, then in place what may be.
fn computes(instance: &Instance) -> Vec<Compute> {
    // What saves an encoding is chosen where it is read, and only there.
    let reads_encoded =
        |implementation: &Implementation| is_encoding(implementation) && implementation.saves.is_empty();
    let plan = Plan::first_by(instance, |implementation| u64::from(!reads_encoded(implementation)));
    let mut computes = plan.store_all(instance);
    let mut read_later: Vec<bool> = instance.tensor_ids().map(|tensor| instance.is_result(tensor)).collect();
    let mut wanted = read_later.clone();
    for &(operator, way) in &computes {
        instance.operator(operator).implementations[way].reads.iter().for_each(|read| wanted[read.index()] = true);
    }
    // Backwards: who else reads the input that would be overwritten?
    for (operator, way) in computes.iter_mut().rev() {
        if let Some(over) = in_place(instance, *operator, *way, &wanted, &read_later) {
            *way = over;
        }
        let implementation = &instance.operator(*operator).implementations[*way];
        implementation.reads.iter().for_each(|read| read_later[read.index()] = true);
    }
    computes
}

/// The implementation that does the same in place, if there is one and nobody reads its input later.
fn in_place(
    instance: &Instance,
    operator: remat_core::OperatorId,
    way: usize,
    wanted: &[bool],
    read_later: &[bool],
) -> Option<usize> {
    let ways = &instance.operator(operator).implementations;
    let plain = &ways[way];
    let may_go = |tensor: TensorId| !read_later[tensor.index()] && instance.tensor(tensor).producer.is_some();
    ways.iter().position(|over| {
        let saves = plain.saves.iter().filter(|saved| wanted[saved.index()]).all(|saved| over.saves.contains(saved));
        let alike = over.recompute == plain.recompute && saves && same(&over.reads, &plain.reads);
        over.in_place.is_some_and(|pair| alike && may_go(pair.input))
    })
}

fn same(left: &[TensorId], right: &[TensorId]) -> bool {
    left.len() == right.len() && left.iter().all(|tensor| right.contains(tensor))
}
