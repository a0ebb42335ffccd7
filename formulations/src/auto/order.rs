//! Another order than the given one, by a rule.

use std::collections::HashSet;

use remat_core::{Instance, Operator, OperatorId, Schedule, Step, TensorId};

/// One part of the budget in so many is what the rule has to free to be worth a search.
const WORTH: u64 = 200;

/// The order in which large results come last. An operator that makes nothing but results waits for the end if they take more
/// memory than what has to stay for it: what it reads, unless something else that waits reads it too. The weight gradient of
/// a dense layer that has seen few images is such a result. None where little is freed for the size of the budget.
pub fn large_results_last(instance: &Instance, budget: u64) -> Option<Instance> {
    let bytes = |tensors: &HashSet<TensorId>| -> u64 { tensors.iter().map(|&id| instance.tensor(id).bytes).sum() };
    let read: HashSet<TensorId> = instance.operators().iter().flat_map(Operator::reads).collect();
    let ends =
        |id: &OperatorId| instance.operator(*id).made().all(|made| instance.is_result(made) && !read.contains(&made));
    let mut others: Vec<OperatorId> = instance.order().iter().copied().filter(ends).collect();
    let (mut last, mut stays, mut freed) = (HashSet::new(), HashSet::new(), 0);
    loop {
        let before = last.len();
        others.retain(|&id| {
            let operator = instance.operator(id);
            let goes = |id: &TensorId| instance.tensor(*id).producer.is_some() && !instance.is_result(*id);
            let reads: HashSet<TensorId> = operator.reads().filter(goes).filter(|id| !stays.contains(id)).collect();
            let gain = bytes(&operator.made().collect()).saturating_sub(bytes(&reads));
            if gain > 0 {
                freed += gain;
                stays.extend(reads);
                last.insert(id);
            }
            gain == 0
        });
        if last.len() == before {
            break;
        }
    }
    if freed <= budget / WORTH {
        return None;
    }
    let (late, early): (Vec<OperatorId>, Vec<_>) = instance.order().iter().partition(|id| last.contains(id));
    let compute = |operator| Step::Compute { operator, implementation: 0 };
    Some(instance.in_order_of(&Schedule::new(early.into_iter().chain(late).map(compute).collect())))
}
