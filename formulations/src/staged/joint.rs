//! The joint graph where each operator has one implementation for its first run and one for later runs, as Checkmate's models
//! see it. Knows of no solver.

use std::ops::Deref;

use remat_core::liveness::Compute;
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId};

use crate::method::SkipReason;
use crate::staged::graph::{Graph, Operator, Way, ascending};
use crate::store_all::{out_of_place, store_all};

/// A joint graph whose operators have one way to run first and at most one to run again, each value in a buffer of its own.
#[derive(Clone, Debug)]
pub struct Joint(Graph);

impl Deref for Joint {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.0
    }
}

/// Most operators of an instance that is searched stage by stage: what is kept is a table of operators times values.
const MOST_OPERATORS: usize = 20_000;

/// Whether an instance has a joint graph that can be searched stage by stage.
///
/// # Errors
/// Why it has none.
pub fn supports(instance: &Instance) -> Result<(), SkipReason> {
    is_within_reach(instance)?;
    Joint::new(instance).map(|_| ())
}

/// Whether an instance is small enough to be searched stage by stage.
///
/// # Errors
/// It is not.
pub fn is_within_reach(instance: &Instance) -> Result<(), SkipReason> {
    let count = instance.operators().len();
    let reason = || SkipReason(format!("{count} operators are more than the {MOST_OPERATORS} that it takes"));
    if count > MOST_OPERATORS { Err(reason()) } else { Ok(()) }
}

impl Joint {
    /// The joint graph under the fastest implementations.
    ///
    /// # Errors
    /// The instance cannot be run with one implementation per operator, or an operator runs in place only: here each value
    /// has a buffer of its own.
    pub fn new(instance: &Instance) -> Result<Self, SkipReason> {
        out_of_place(instance, &Plan::fastest(instance))?;
        Self::of_fastest(instance)
    }

    /// The same, some of them in place where there are no others.
    ///
    /// # Errors
    /// The instance cannot be run with one implementation per operator.
    pub fn of_fastest(instance: &Instance) -> Result<Self, SkipReason> {
        Self::with(instance, &Plan::fastest(instance))
    }

    /// The joint graph under a plan's implementations of first runs and of later ones (`saving`, `saving_again`).
    ///
    /// # Errors
    /// The instance cannot be run with these.
    pub fn with(instance: &Instance, plan: &Plan) -> Result<Self, SkipReason> {
        store_all(instance, plan)?;
        let ways = |id: OperatorId, again: bool| {
            let operator = instance.operator(id);
            // One that reads what no first run makes is none.
            let suits =
                |&way: &usize| operator.recomputable && plan.makes(instance, &operator.implementations[way].reads);
            let first = Some(plan.saving[id.index()]);
            let way = if again { plan.saving_again[id.index()].filter(suits) } else { first };
            way.into_iter().collect()
        };
        let mut graph = Graph::unconnected(instance, ways);
        for Operator { first, again, .. } in &mut graph.operators {
            // An implementation that makes less cannot stand in for the first run.
            again.retain(|again| first[0].makes.iter().all(|&value| again.makes(value)));
        }
        graph.connect();
        Ok(Self(graph))
    }

    /// The same where workspaces do not count.
    #[must_use]
    pub fn without_workspaces(mut self, instance: &Instance) -> Self {
        for Operator { id, first, again, .. } in &mut self.0.operators {
            for way in first.iter_mut().chain(again) {
                way.transient -= instance.operator(*id).implementations[way.implementation].workspace_bytes;
            }
        }
        self
    }

    /// How an operator runs first.
    pub fn first(&self, position: usize) -> &Way {
        &self.operators[position].first[0]
    }

    /// How an operator runs again; none where it may not.
    pub fn again(&self, position: usize) -> Option<&Way> {
        self.operators[position].again.first()
    }

    /// How an operator runs, again or not; as it does first where it has no other way.
    pub fn way(&self, position: usize, is_again: bool) -> &Way {
        self.again(position).filter(|_| is_again).unwrap_or_else(|| self.first(position))
    }

    /// A run of an operator, again or not.
    pub fn compute(&self, position: usize, is_again: bool) -> Compute {
        (self.operators[position].id, self.way(position, is_again).implementation)
    }

    /// How an operator runs in a stage; none where it cannot.
    pub fn run(&self, stage: usize, position: usize) -> Option<&Way> {
        self.ways(stage, position).first()
    }

    /// A peak that no schedule undercuts: the first run of an operator with what it reads and makes,
    /// beside what cannot be made again and is still needed.
    pub fn least_peak(&self) -> u64 {
        // What must be there after its producer whatever else happens, as changes from position to position.
        let mut changes = vec![(0_u64, 0_u64); self.len() + 1];
        for (at, value) in self.values.iter().enumerate() {
            if self.must_keep(value.producer + 1, at) {
                changes[value.producer + 1].0 += value.bytes;
                changes[(value.needed_until + 1).min(self.len())].1 += value.bytes;
            }
        }
        let (mut kept, mut most) = (0, 0);
        for (position, operator) in self.operators.iter().enumerate() {
            let first = &operator.first[0];
            kept = kept + changes[position].0 - changes[position].1;
            let touched = ascending(first.reads.iter().chain(&first.makes).copied());
            let beside = touched.into_iter().filter(|&value| !self.must_keep(position, value));
            let bytes: u64 = beside.map(|value| self.values[value].bytes).sum();
            most = most.max(kept + bytes + first.transient);
        }
        self.base_bytes + most
    }
}
