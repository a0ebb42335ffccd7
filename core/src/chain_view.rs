//! The chain view: an instance's forward graph cut at every tensor through which all paths pass.
//!
//! Cut points are the tensors that dominate the last forward operator, which one pass over the order finds;
//! a cut is given up where a backward operator needs more than the chain model hands across it. Stage costs
//! come from running each stage by itself, so that any sequence of the chain expands to a schedule of the
//! instance whose simulated peak is at most what the chain model claims. Builds on [`crate::plan`]; knows no
//! method.

mod costs;
mod cut;
mod options;

use thiserror::Error;

use crate::chain::{Chain, ChainStep};
use crate::instance::{Instance, OperatorId, TensorId};
use crate::liveness::{Compute, with_liveness};
use crate::plan::Plan;
use crate::schedule::Schedule;

pub use costs::{NOTHING, Run, read_first};
pub use options::{Boundary, NoOption, StageOption};

/// An instance as a chain, and the way back.
#[derive(Clone, Debug)]
pub struct ChainView {
    /// The chain.
    pub chain: Chain,
    /// The operators of each stage.
    pub stages: Vec<StageOperators>,
    /// For each stage, what its savings in [`Self::chain`] run, in the same order. The first saves everything.
    pub options: Vec<Vec<StageOption>>,
    plan: Plan,
}

/// Operators of one stage, in the instance's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageOperators {
    /// Of the forward pass and the loss.
    pub forward: Vec<OperatorId>,
    /// Of the backward pass.
    pub backward: Vec<OperatorId>,
}

impl StageOperators {
    /// The operators of each of so many groups; `group_of` says by operator which one it is in.
    pub fn of_groups(instance: &Instance, group_of: &[usize], groups: usize) -> Vec<Self> {
        let mut stages = vec![Self::default(); groups];
        for &id in instance.order() {
            let stage = &mut stages[group_of[id.index()]];
            let forward = instance.operator(id).phase.is_forward();
            if forward { stage.forward.push(id) } else { stage.backward.push(id) }
        }
        stages
    }
}

/// Why an instance has no chain view.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoChain {
    /// There is nothing to cut.
    #[error("the instance has no forward operator")]
    NoForward,
    /// A stage would have to run twice, and cannot.
    #[error("operator {operator} cannot be recomputed ({reason}), and chain methods recompute whole stages")]
    NotRecomputable {
        /// The operator.
        operator: String,
        /// Why not.
        reason: &'static str,
    },
    /// Chain methods keep what they have made.
    #[error("operator {0} has no implementation that is out of place")]
    InPlace(String),
}

impl ChainView {
    /// Cuts an instance.
    ///
    /// # Errors
    /// The instance has no forward operator, or one that may run only once, or an operator that runs in place only.
    pub fn new(instance: &Instance) -> Result<Self, NoChain> {
        let plan = Plan::fastest(instance);
        let stages = cut::stages(instance, &plan)?;
        if let Some(operator) = plan.in_place_only(instance) {
            return Err(NoChain::InPlace(operator.name.clone()));
        }
        recomputable(instance, &plan, &stages)?;
        Ok(Self::of(instance, plan, stages))
    }

    /// The view with some stages, each of which saves everything.
    fn of(instance: &Instance, plan: Plan, stages: Vec<StageOperators>) -> Self {
        let options: Vec<_> = stages.iter().map(|stage| vec![StageOption::save_all(stage, &plan)]).collect();
        let chain = costs::chain(instance, &plan, &stages, &options);
        Self { chain, stages, options, plan }
    }

    /// The schedule of a sequence of the chain.
    pub fn expand(&self, instance: &Instance, sequence: &[ChainStep]) -> Schedule {
        with_liveness(instance, &self.computes(instance, sequence))
    }

    fn computes(&self, instance: &Instance, sequence: &[ChainStep]) -> Vec<Compute> {
        let mut ran = vec![false; instance.operators().len()];
        let mut saved = vec![0; self.stages.len()];
        let mut computes = Vec::new();
        for &step in sequence {
            match step {
                ChainStep::Backward { stage } => computes.extend(&self.options[stage][saved[stage]].backward),
                ChainStep::Save { stage, saving } => {
                    saved[stage] = saving;
                    for &(id, first) in &self.options[stage][saving].forward {
                        let again = std::mem::replace(&mut ran[id.index()], true);
                        let repeated = || self.plan.repeated(instance, (id, first));
                        computes.push((id, if again { repeated() } else { first }));
                    }
                }
                ChainStep::Pass { stage } | ChainStep::Checkpoint { stage } => {
                    for &id in &self.stages[stage].forward {
                        let first = self.plan.passing[id.index()];
                        let again = std::mem::replace(&mut ran[id.index()], true);
                        let repeated = || self.plan.passing_again[id.index()].unwrap_or(first);
                        computes.push((id, if again { repeated() } else { first }));
                    }
                }
            }
        }
        computes
    }
}

/// Every forward operator, except those of the last stage, may run again, and reads no extra tensors of other stages then.
fn recomputable(instance: &Instance, plan: &Plan, stages: &[StageOperators]) -> Result<(), NoChain> {
    for stage in &stages[..stages.len() - 1] {
        let is_elsewhere = |read: &TensorId| {
            let maker = instance.tensor(*read).producer;
            instance.is_extra(*read) && maker.is_some_and(|maker| !stage.forward.contains(&maker))
        };
        for &id in &stage.forward {
            let operator = instance.operator(id);
            let reason = match (plan.saving_again[id.index()], plan.passing_again[id.index()]) {
                (Some(again), Some(_)) if operator.implementations[again].reads.iter().any(is_elsewhere) => {
                    "it reads what another stage saves then"
                }
                (Some(_), Some(_)) => continue,
                _ if operator.recomputable => "no implementation is marked recompute",
                _ => "the instance says so",
            };
            return Err(NoChain::NotRecomputable { operator: operator.name.clone(), reason });
        }
    }
    Ok(())
}
