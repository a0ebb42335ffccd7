//! Options of stages: several ways to run a stage's forward, each with a backward that goes with it; and views with
//! larger stages, which leave more to decide inside of them.

use std::collections::HashSet;

use thiserror::Error;

use super::costs::{Flow, Prices, chain};
use super::{ChainView, StageOperators};
use crate::chain::Saving;
use crate::format::Phase;
use crate::instance::{Instance, OperatorId, TensorId};
use crate::liveness::Compute;
use crate::plan::Plan;

/// A way to run a stage: a forward that keeps something, and the backward that can follow it. An operator may run
/// several times, forward ones in both. Rockmate (ICML 2023) calls it an option of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageOption {
    /// Name for people.
    pub name: String,
    /// `F_all`, with the implementations of a first run of the stage.
    pub forward: Vec<Compute>,
    /// `B`: what is recomputed, and the stage's backward operators.
    pub backward: Vec<Compute>,
}

/// Why something is no option of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("stage {stage}, option {option}: {reason}")]
pub struct NoOption {
    /// The stage, from 0.
    pub stage: usize,
    /// Its name.
    pub option: String,
    /// What is wrong.
    pub reason: String,
}

impl StageOption {
    /// Saves all that the backward reads.
    pub(super) fn save_all(stage: &StageOperators, plan: &Plan) -> Self {
        let computes = |ids: &[OperatorId]| ids.iter().map(|&id| (id, plan.saving[id.index()])).collect();
        Self { name: "default".into(), forward: computes(&stage.forward), backward: computes(&stage.backward) }
    }
}

impl ChainView {
    /// The view whose stages are made of so many of this one's each, first to last. Every stage saves everything.
    ///
    /// # Panics
    /// When the numbers do not add up to the number of stages.
    #[must_use]
    pub fn grouped(&self, instance: &Instance, sizes: &[usize]) -> Self {
        assert_eq!(sizes.iter().sum::<usize>(), self.stages.len(), "every stage is in a group");
        let mut group_of = vec![0; instance.operators().len()];
        let groups = sizes.iter().enumerate().flat_map(|(group, &size)| std::iter::repeat_n(group, size));
        for (stage, group) in self.stages.iter().zip(groups) {
            stage.forward.iter().chain(&stage.backward).for_each(|id| group_of[id.index()] = group);
        }
        let mut stages = StageOperators::of_groups(instance, &group_of, sizes.len());
        stages.retain(|stage| !stage.forward.is_empty() || !stage.backward.is_empty());
        Self::of(instance, self.plan.clone(), stages)
    }

    /// The view with more options: after the one that saves everything, those of each stage that are legal and that no
    /// other is at least as good as (saved bytes, both peaks, time). What is not legal is returned with the reason.
    #[must_use]
    pub fn with_options(&self, instance: &Instance, options: Vec<Vec<StageOption>>) -> (Self, Vec<NoOption>) {
        let mut refused = Vec::new();
        let mut prices = Prices::new(instance, &self.plan, &self.stages);
        let mut kept: Vec<Vec<StageOption>> = Vec::with_capacity(self.stages.len());
        for (stage, more) in options.into_iter().enumerate() {
            let all = StageOption::save_all(&self.stages[stage], &self.plan);
            let mut priced = vec![(prices.saving(stage, &all), all)];
            for option in more {
                match check(&prices.flow, &self.plan, stage, &option) {
                    Ok(()) => priced.push((prices.saving(stage, &option), option)),
                    Err(reason) => refused.push(NoOption { stage, option: option.name, reason }),
                }
            }
            kept.push(undominated(priced));
        }
        let chain = chain(instance, &self.plan, &self.stages, &kept);
        (Self { chain, options: kept, ..self.clone() }, refused)
    }

    /// What each stage has in common with the rest of the network.
    pub fn boundaries(&self, instance: &Instance) -> Vec<Boundary> {
        let prices = Prices::new(instance, &self.plan, &self.stages);
        let flow = &prices.flow;
        let boundary = |stage: usize| {
            let operators = &self.stages[stage];
            let tensors = |ids: &[OperatorId], select: &dyn Fn(TensorId) -> bool| -> HashSet<TensorId> {
                let touched = ids.iter().flat_map(|&id| instance.operator(id).touches());
                touched.filter(|&id| select(id)).collect()
            };
            let all: Vec<OperatorId> = operators.forward.iter().chain(&operators.backward).copied().collect();
            Boundary {
                inputs: tensors(&all, &|id| stage > 0 && flow.is_output(id, stage - 1)),
                outputs: tensors(&operators.forward, &|id| flow.is_output(id, stage)),
                gradients: tensors(&operators.backward, &|id| flow.is_incoming_gradient(id, stage)),
                leaves: tensors(&operators.backward, &|id| flow.outlives(id, stage)),
            }
        };
        (0..self.stages.len()).map(boundary).collect()
    }
}

/// What a stage has in common with the rest of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundary {
    /// What it reads of the stage before; it stays until the stage's backward is over.
    pub inputs: HashSet<TensorId>,
    /// What its forward makes for the next stage.
    pub outputs: HashSet<TensorId>,
    /// Gradients that its backward reads and later stages make.
    pub gradients: HashSet<TensorId>,
    /// What is there after its backward: results of it, and gradients that earlier stages read, whoever made them.
    pub leaves: HashSet<TensorId>,
}

/// The first, and of the others those that none is at least as good as.
fn undominated(mut priced: Vec<(Saving, StageOption)>) -> Vec<StageOption> {
    let key = |saving: &Saving| {
        let peaks = [saving.forward_overhead, saving.backward_overhead];
        let [forward, backward] = peaks.map(|overhead| saving.saved_bytes.cast_signed() + overhead);
        let time = saving.forward_time + saving.backward_time;
        (time, saving.saved_bytes, forward, backward)
    };
    priced[1..].sort_by_key(|(saving, _)| key(saving));
    let mut kept: Vec<(Saving, StageOption)> = Vec::new();
    for (saving, option) in priced {
        let (time, saved, forward, backward) = key(&saving);
        let as_good = kept.iter().any(|(other, _)| {
            let other = key(other);
            other.0 <= time && other.1 <= saved && other.2 <= forward && other.3 <= backward
        });
        if !as_good {
            kept.push((saving, option));
        }
    }
    kept.into_iter().map(|(_, option)| option).collect()
}

/// Whether an option can be run in its place of any sequence: both where the stage runs for the first time and where
/// it runs again, each compute finds what it reads, and what the rest of the network reads is left alone.
fn check(flow: &Flow<'_>, plan: &Plan, stage: usize, option: &StageOption) -> Result<(), String> {
    let instance = flow.instance;
    let again: Vec<Compute> = option.forward.iter().map(|&(id, v)| (id, plan.repeated(instance, (id, v)))).collect();
    let operators = &flow.stages[stage];
    let name = |id: OperatorId| format!("operator {:?}", instance.operator(id).name);
    let is_last = stage + 1 == flow.stages.len();
    for (forward, is_again) in [(&option.forward, false), (&again, true)] {
        if is_again && is_last {
            continue;
        }
        let mut ran: HashSet<OperatorId> = HashSet::new();
        let (mut there, mut gone): (HashSet<TensorId>, HashSet<TensorId>) = Default::default();
        let mut after_forward = None;
        let passes = forward.iter().map(|&compute| (compute, false));
        for ((id, v), in_backward) in passes.chain(option.backward.iter().map(|&compute| (compute, true))) {
            if in_backward {
                after_forward.get_or_insert_with(|| there.clone());
            }
            let operator = instance.operator(id);
            let way =
                operator.implementations.get(v).ok_or_else(|| format!("{} has no such implementation", name(id)))?;
            let is_backward = operator.phase == Phase::Backward;
            let home = if is_backward { &operators.backward } else { &operators.forward };
            if !home.contains(&id) || is_backward && !in_backward {
                return Err(format!("{} does not belong there", name(id)));
            }
            let first = ran.insert(id) && (!is_again || is_backward);
            if !first && !operator.recomputable || operator.updates_state && way.recompute == first {
                return Err(format!("{} may not run so", name(id)));
            }
            let handed = |read: TensorId| {
                let below = stage > 0 && flow.is_output(read, stage - 1);
                below || instance.tensor(read).producer.is_none()
            };
            let gradient =
                |read: TensorId| in_backward && flow.is_incoming_gradient(read, stage) && !gone.contains(&read);
            let mut reads = way.reads.iter().copied();
            if let Some(missing) = reads.find(|&read| !there.contains(&read) && !handed(read) && !gradient(read)) {
                return Err(format!("{} reads {:?}, which is not there", name(id), instance.tensor(missing).name));
            }
            if let Some(pair) = way.in_place {
                let own = there.remove(&pair.input);
                if !own && (!gradient(pair.input) || flow.outlives(pair.input, stage)) {
                    return Err(format!("{} overwrites what others read", name(id)));
                }
                gone.insert(pair.input);
            }
            there.extend(operator.makes(v));
        }
        if let Some(&missing) = operators.forward.iter().chain(&operators.backward).find(|id| !ran.contains(*id)) {
            return Err(format!("{} does not run", name(missing)));
        }
        let after_forward = after_forward.as_ref().unwrap_or(&there);
        let mut made = operators.forward.iter().flat_map(|&id| instance.operator(id).touches());
        if made.any(|id| flow.is_output(id, stage) && !after_forward.contains(&id)) {
            return Err("its forward does not leave the stage's output".into());
        }
        let mut made =
            operators.forward.iter().chain(&operators.backward).flat_map(|&id| instance.operator(id).touches());
        let own = |id: TensorId| flow.made_by(id, stage, false) || flow.made_by(id, stage, true);
        if made.any(|id| own(id) && flow.outlives(id, stage) && !there.contains(&id)) {
            return Err("its backward does not leave its results".into());
        }
    }
    Ok(())
}
