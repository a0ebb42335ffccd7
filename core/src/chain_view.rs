//! The chain view: an instance's forward graph cut at every tensor through which all paths pass.
//!
//! Cut points are the tensors that dominate the last forward operator (petgraph's dominators on the
//! bipartite graph of operators and tensors); a cut is given up where a backward operator needs more
//! than the chain model hands across it. Stage costs come from running each stage by itself, so that
//! any sequence of the chain expands to a schedule of the instance whose simulated peak is at most
//! what the chain model claims. Builds on [`crate::plan`]; knows no method.

mod costs;
mod cut;

use thiserror::Error;

use crate::chain::{Chain, ChainStep};
use crate::instance::{Instance, OperatorId};
use crate::liveness::{Compute, with_liveness};
use crate::plan::Plan;
use crate::schedule::Schedule;

/// An instance as a chain, and the way back.
#[derive(Clone, Debug)]
pub struct ChainView {
    /// The chain.
    pub chain: Chain,
    /// The operators of each stage.
    pub stages: Vec<StageOperators>,
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
}

impl ChainView {
    /// Cuts an instance.
    ///
    /// # Errors
    /// The instance has no forward operator, or one that may run only once.
    pub fn new(instance: &Instance) -> Result<Self, NoChain> {
        let plan = Plan::fastest(instance);
        let stages = cut::stages(instance, &plan)?;
        recomputable(instance, &plan, &stages)?;
        let chain = costs::chain(instance, &plan, &stages);
        Ok(Self { chain, stages, plan })
    }

    /// The schedule of a sequence of the chain.
    pub fn expand(&self, instance: &Instance, sequence: &[ChainStep]) -> Schedule {
        with_liveness(instance, &self.computes(instance, sequence))
    }

    fn computes(&self, instance: &Instance, sequence: &[ChainStep]) -> Vec<Compute> {
        let mut ran = vec![false; instance.operators().len()];
        let mut computes = Vec::new();
        for &step in sequence {
            match step {
                ChainStep::Backward { stage } => {
                    let backward = &self.stages[stage].backward;
                    computes.extend(backward.iter().map(|&id| (id, self.plan.saving[id.index()])));
                }
                ChainStep::Pass { stage } | ChainStep::Checkpoint { stage } | ChainStep::Save { stage, .. } => {
                    let saves = matches!(step, ChainStep::Save { .. });
                    for &id in &self.stages[stage].forward {
                        let again = std::mem::replace(&mut ran[id.index()], true);
                        computes.push((id, self.variant(id, saves, again)));
                    }
                }
            }
        }
        computes
    }

    fn variant(&self, id: OperatorId, saves: bool, again: bool) -> usize {
        let plan = &self.plan;
        let at = id.index();
        match (saves, again) {
            (true, false) => plan.saving[at],
            (true, true) => plan.saving_again[at].unwrap_or(plan.saving[at]),
            (false, false) => plan.passing[at],
            (false, true) => plan.passing_again[at].unwrap_or(plan.passing[at]),
        }
    }
}

/// Every forward operator, except those of the last stage, may run again.
fn recomputable(instance: &Instance, plan: &Plan, stages: &[StageOperators]) -> Result<(), NoChain> {
    let all_but_last = &stages[..stages.len() - 1];
    for &id in all_but_last.iter().flat_map(|stage| &stage.forward) {
        let operator = instance.operator(id);
        let at = id.index();
        if plan.saving_again[at].is_none() || plan.passing_again[at].is_none() {
            let reason =
                if operator.recomputable { "no implementation is marked recompute" } else { "the instance says so" };
            return Err(NoChain::NotRecomputable { operator: operator.name.clone(), reason });
        }
    }
    Ok(())
}
