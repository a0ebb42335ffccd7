//! A set of saved tensors as a schedule: how a partitioned iteration runs.
//!
//! The forward pass runs once. Of what it makes, only the saved tensors reach the backward pass. There an operator whose
//! result is missing runs again right before the first one that reads it, after what it needs itself, in the order of the
//! instance. What was made again stays until its last use.

use remat_core::format::Phase;
use remat_core::liveness::{Compute, with_liveness};
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, Schedule};

/// The schedule in which of all that the forward pass makes only `saved` (by tensor) is kept for the backward pass.
///
/// What an operator makes that may not run again is kept too. A backward operator that makes some of `saved` runs right
/// after the forward pass.
pub fn schedule(instance: &Instance, plan: &Plan, saved: &[bool]) -> Schedule {
    let mut walk = Walk::new(instance, plan);
    let (forward, backward): (Vec<OperatorId>, Vec<OperatorId>) =
        instance.order().iter().partition(|id| instance.operator(**id).phase != Phase::Backward);
    for id in forward {
        walk.run(id);
    }
    for &id in &backward {
        if instance.operator(id).makes(plan.saving[id.index()]).any(|tensor| saved[tensor.index()]) {
            walk.make(id);
        }
    }
    walk.forget_all_but(saved);
    for id in backward {
        if !walk.ran[id.index()] {
            walk.make(id);
        }
    }
    with_liveness(instance, &walk.computes)
}

struct Walk<'a> {
    instance: &'a Instance,
    plan: &'a Plan,
    /// By operator.
    position: Vec<usize>,
    /// By tensor.
    there: Vec<bool>,
    /// By operator.
    ran: Vec<bool>,
    computes: Vec<Compute>,
}

impl<'a> Walk<'a> {
    fn new(instance: &'a Instance, plan: &'a Plan) -> Self {
        Self {
            instance,
            plan,
            position: instance.positions(),
            there: instance.tensors().iter().map(|tensor| tensor.producer.is_none()).collect(),
            ran: vec![false; instance.operators().len()],
            computes: Vec::with_capacity(2 * instance.operators().len()),
        }
    }

    /// Which implementation an operator would run with now.
    fn way(&self, id: OperatorId) -> usize {
        let first = self.plan.saving[id.index()];
        if self.ran[id.index()] { self.plan.saving_again[id.index()].unwrap_or(first) } else { first }
    }

    fn run(&mut self, id: OperatorId) {
        let way = self.way(id);
        self.computes.push((id, way));
        self.ran[id.index()] = true;
        self.instance.operator(id).makes(way).for_each(|made| self.there[made.index()] = true);
    }

    /// Runs an operator, after everything that is missing before it.
    fn make(&mut self, id: OperatorId) {
        let (mut wanted, mut missing) = (vec![id], vec![id]);
        while let Some(next) = wanted.pop() {
            for read in &self.instance.operator(next).implementations[self.way(next)].reads {
                let producer = self.instance.tensor(*read).producer.filter(|_| !self.there[read.index()]);
                // Until they run, the producers of what is missing are marked by what they make.
                if let Some(producer) = producer {
                    let way = self.way(producer);
                    self.instance.operator(producer).makes(way).for_each(|made| self.there[made.index()] = true);
                    wanted.push(producer);
                    missing.push(producer);
                }
            }
        }
        missing.sort_unstable_by_key(|id| self.position[id.index()]);
        for id in missing {
            self.run(id);
        }
    }

    /// Drops what has been made so far and can be made again, but for some tensors.
    fn forget_all_but(&mut self, saved: &[bool]) {
        for id in self.instance.operator_ids() {
            if self.ran[id.index()] && self.plan.saving_again[id.index()].is_some() {
                for made in self.instance.operator(id).makes(self.plan.saving[id.index()]) {
                    self.there[made.index()] = saved[made.index()];
                }
            }
        }
    }
}
