//! Which implementation each operator uses when a method does not choose for itself.
//!
//! The choice must be consistent: a backward operator that reads an extra saved tensor obliges its
//! producer to use an implementation that saves it.

use crate::instance::{Implementation, Instance, Operator, OperatorId, TensorId};

/// Position of the implementation of each operator, for its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For a run whose saved tensors the backward pass will read; also for the backward operators.
    pub saving: Vec<usize>,
    /// For a further such run: equal to `saving`, but for operators that update state. It reads nothing that first runs do
    /// not make, and no extra tensor that further runs do not make again; none where there is no such implementation, or the
    /// operator may not run again.
    pub saving_again: Vec<Option<usize>>,
    /// For a run after which only the operator's outputs are wanted.
    pub passing: Vec<usize>,
    /// For a further such run, from outputs alone; none where there is none.
    pub passing_again: Vec<Option<usize>>,
}

impl Plan {
    /// The fastest implementations; among equals the one that takes the least memory, then the first.
    ///
    /// Decided in reverse order of execution, so that each forward operator knows which extra tensors
    /// the chosen backward implementations read. In-place implementations are left to methods that
    /// reason about who else needs the overwritten input.
    pub fn fastest(instance: &Instance) -> Self {
        let saved = |v: &Implementation| v.saves.iter().map(|&t| instance.tensor(t).bytes).sum::<u64>();
        Self::new(instance, |v| (v.time, v.workspace_bytes + saved(v)))
    }

    /// The framework's own implementations: the first listed that is consistent.
    pub fn default_choice(instance: &Instance) -> Self {
        Self::first_by(instance, |_| 0)
    }

    /// The first listed of those of the least rank that is consistent.
    pub fn first_by(instance: &Instance, rank: impl Fn(&Implementation) -> u64) -> Self {
        Self::new(instance, |implementation| (rank(implementation), 0))
    }

    fn new(instance: &Instance, cost: impl Fn(&Implementation) -> (u64, u64)) -> Self {
        let count = instance.operators().len();
        let mut plan = Self {
            saving: vec![0; count],
            saving_again: vec![None; count],
            passing: vec![0; count],
            passing_again: vec![None; count],
        };
        let mut required = vec![false; instance.tensors().len()];
        for &id in instance.order().iter().rev() {
            let operator = instance.operator(id);
            let at = id.index();
            // An instance without a consistent choice (a tensor that only an in-place or a recompute implementation
            // saves, an operator that runs in place only) is left with its default, which methods have to check.
            let cheapest = |v: &usize| cost(&operator.implementations[*v]);
            let enough = |v: &Implementation| saves_all(operator, v, &required);
            let possible = |v: &Implementation| enough(v) && can_read(instance, v, &required);
            let saving = choose_that(operator, false, possible).min_by_key(cheapest);
            let saving = saving.or_else(|| choose_that(operator, false, enough).min_by_key(cheapest));
            plan.saving[at] = saving.unwrap_or(0);
            let plain = |v: &Implementation| !v.reads.iter().any(|&read| instance.is_extra(read));
            plan.passing[at] = choose_that(operator, false, |_| true).min_by_key(cheapest).unwrap_or(0);
            plan.passing_again[at] = choose_that(operator, true, plain).min_by_key(cheapest);
            for read in &operator.implementations[plan.saving[at]].reads {
                required[read.index()] = true;
            }
        }
        // What a further run reads must be there whether something runs again or not.
        for &id in instance.order() {
            let operator = instance.operator(id);
            let suits = |v: &Implementation| {
                saves_all(operator, v, &required)
                    && plan.makes(instance, &v.reads)
                    && v.reads.iter().all(|&read| !instance.is_extra(read) || plan.makes_again(instance, read))
            };
            let again = choose_that(operator, true, suits).min_by_key(|&v| cost(&operator.implementations[v]));
            plan.saving_again[id.index()] = again;
        }
        plan
    }

    /// Whether first runs make all of some tensors that are no inputs.
    pub fn makes(&self, instance: &Instance, tensors: &[TensorId]) -> bool {
        let is_made = |&tensor: &TensorId| {
            let maker = instance.tensor(tensor).producer;
            let made = maker.map(|id| instance.operator(id).makes(self.saving[id.index()]));
            made.is_none_or(|mut made| made.any(|other| other == tensor))
        };
        tensors.iter().all(is_made)
    }

    /// Whether a further run makes a tensor.
    fn makes_again(&self, instance: &Instance, tensor: TensorId) -> bool {
        let maker = instance.tensor(tensor).producer;
        let again = maker.and_then(|id| Some((id, self.saving_again[id.index()]?)));
        again.is_some_and(|(id, way)| instance.operator(id).makes(way).any(|made| made == tensor))
    }

    /// How an operator runs again that first ran with some implementation for what it saves: with the same, unless
    /// that updates state. Then with the plan's own, or with the fastest that reads nothing else and makes as much;
    /// with the same where there is none, which the simulator refuses.
    pub fn repeated(&self, instance: &Instance, (id, first): (OperatorId, usize)) -> usize {
        let operator = instance.operator(id);
        let way = &operator.implementations[first];
        if !operator.updates_state || way.recompute {
            return first;
        }
        if let Some(again) = self.saving_again[id.index()].filter(|_| first == self.saving[id.index()]) {
            return again;
        }
        let suits = |v: &Implementation| {
            v.saves.len() >= way.saves.len()
                && way.saves.iter().all(|saved| v.saves.contains(saved))
                && v.reads.iter().all(|read| way.reads.contains(read))
        };
        let again = choose_that(operator, true, suits).min_by_key(|&v| operator.implementations[v].time);
        again.unwrap_or(first)
    }

    /// The first operator that can run in place only, so that its default is all there is.
    pub fn in_place_only<'a>(&self, instance: &'a Instance) -> Option<&'a Operator> {
        let mut operators = instance.operators().iter().zip(&self.saving);
        operators.find(|&(operator, &way)| operator.implementations[way].in_place.is_some()).map(|found| found.0)
    }

    /// Every operator once, in the instance's order, saving all that is read later.
    pub fn store_all(&self, instance: &Instance) -> Vec<(OperatorId, usize)> {
        instance.order().iter().map(|&id| (id, self.saving[id.index()])).collect()
    }
}

/// Positions of the implementations that may serve as a first run, or as a further one.
fn choose_that<'a>(
    operator: &'a Operator,
    again: bool,
    suits: impl Fn(&Implementation) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let may = move |v: &Implementation| {
        v.in_place.is_none()
            && if again { operator.recomputable && v.recompute == operator.updates_state } else { !v.recompute }
    };
    let positions = operator.implementations.iter().enumerate();
    positions.filter(move |(_, v)| may(v) && suits(v)).map(|(position, _)| position)
}

/// Whether what an implementation reads can be saved together with what is required already: an operator may offer
/// two extra tensors, but no implementation that saves both.
fn can_read(instance: &Instance, implementation: &Implementation, required: &[bool]) -> bool {
    implementation.reads.iter().all(|read| {
        let Some(producer) = instance.tensor(*read).producer.map(|id| instance.operator(id)) else { return true };
        let wanted = |saved: &&TensorId| required[saved.index()] || implementation.reads.contains(saved);
        let saves = |way: &Implementation| {
            let mut all = producer.implementations.iter().flat_map(|other| &other.saves).filter(wanted);
            all.all(|saved| way.saves.contains(saved))
        };
        !instance.is_extra(*read) || choose_that(producer, false, saves).next().is_some()
    })
}

/// Whether an implementation makes every extra saved tensor of the operator that is required.
fn saves_all(operator: &Operator, implementation: &Implementation, required: &[bool]) -> bool {
    let wanted = |tensor: &TensorId| required.get(tensor.index()).copied().unwrap_or(false);
    let mut extra = operator.implementations.iter().flat_map(|v| &v.saves).filter(|t| wanted(t));
    extra.all(|tensor| implementation.saves.contains(tensor))
}
