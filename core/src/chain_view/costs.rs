//! What each stage of a chain view costs: every stage run by itself, with the chain model's share
//! taken off its peak.

use super::StageOperators;
use crate::chain::{Chain, Saving, Stage};
use crate::format::TensorKind;
use crate::instance::{Instance, OperatorId, TensorId};
use crate::liveness::Compute;
use crate::plan::Plan;

/// The chain of some stages.
pub fn chain(instance: &Instance, plan: &Plan, stages: &[StageOperators]) -> Chain {
    let flow = Flow::new(instance, plan, stages);
    let stages: Vec<_> = (0..stages.len()).map(|stage| flow.stage(stage)).collect();
    Chain {
        fixed_bytes: instance.fixed_bytes(),
        input_bytes: instance.input_bytes(),
        input_gradient_bytes: flow.input_gradient_bytes(),
        stages,
    }
}

/// Which tensor is read where.
struct Flow<'a> {
    instance: &'a Instance,
    plan: &'a Plan,
    stages: &'a [StageOperators],
    /// Stage and pass (backward?) of the producer; none for inputs.
    made_in: Vec<Option<(usize, bool)>>,
    /// Lowest stage whose backward reads the tensor.
    read_back_in: Vec<Option<usize>>,
    /// Whether the forward of a later stage reads the tensor.
    crosses: Vec<bool>,
}

impl<'a> Flow<'a> {
    fn new(instance: &'a Instance, plan: &'a Plan, stages: &'a [StageOperators]) -> Self {
        let count = instance.tensors().len();
        let mut flow = Self {
            instance,
            plan,
            stages,
            made_in: vec![None; count],
            read_back_in: vec![None; count],
            crosses: vec![false; count],
        };
        for (stage, operators) in stages.iter().enumerate() {
            let forward = operators.forward.iter().map(|&id| (id, false));
            let backward = operators.backward.iter().map(|&id| (id, true));
            for (id, is_backward) in forward.chain(backward) {
                for variant in [plan.saving[id.index()], plan.passing[id.index()]] {
                    for made in instance.operator(id).makes(variant) {
                        flow.made_in[made.index()] = Some((stage, is_backward));
                    }
                }
            }
        }
        for (stage, operators) in stages.iter().enumerate() {
            for read in flow.reads(&operators.forward) {
                let below = flow.made_in[read.index()].is_some_and(|(maker, _)| maker < stage);
                flow.crosses[read.index()] |= below;
            }
            for read in flow.reads(&operators.backward) {
                flow.read_back_in[read.index()].get_or_insert(stage);
            }
        }
        flow
    }

    fn reads(&self, operators: &[OperatorId]) -> Vec<TensorId> {
        let variants =
            |&id: &OperatorId| [self.plan.saving[id.index()], self.plan.passing[id.index()]].map(|v| (id, v));
        let implementations = operators.iter().flat_map(variants);
        implementations.flat_map(|(id, v)| &self.instance.operator(id).implementations[v].reads).copied().collect()
    }

    fn bytes(&self, select: impl Fn(TensorId) -> bool) -> u64 {
        self.instance.tensor_ids().filter(|&id| select(id)).map(|id| self.instance.tensor(id).bytes).sum()
    }

    fn made_by(&self, id: TensorId, stage: usize, backward: bool) -> bool {
        self.made_in[id.index()] == Some((stage, backward))
    }

    /// The stage's output: what the forward of the next stage reads. For the last stage, nothing.
    fn is_output(&self, id: TensorId, stage: usize) -> bool {
        self.made_by(id, stage, false) && self.crosses[id.index()]
    }

    /// What the stage's saving forward keeps: read by its own backward, read by the next stage, or a result.
    fn is_saved(&self, id: TensorId, stage: usize) -> bool {
        let kept = self.crosses[id.index()] || self.read_back_in[id.index()].is_some() || self.instance.is_result(id);
        self.made_by(id, stage, false) && kept
    }

    /// Gradients made by a later stage's backward for this stage's, or for an earlier one's.
    fn is_incoming_gradient(&self, id: TensorId, stage: usize) -> bool {
        let from_later = matches!(self.made_in[id.index()], Some((maker, true)) if maker > stage);
        from_later && self.read_back_in[id.index()].is_some_and(|reader| reader <= stage)
    }

    fn input_gradient_bytes(&self) -> u64 {
        let unread = |id: TensorId| self.read_back_in[id.index()].is_none() && !self.instance.is_result(id);
        self.bytes(|id| {
            self.made_by(id, 0, true) && unread(id) && self.instance.tensor(id).kind == TensorKind::Gradient
        })
    }

    fn stage(&self, stage: usize) -> Stage {
        let operators = &self.stages[stage];
        let plan = self.plan;
        let saving = [
            computes(&operators.forward, |at| plan.saving[at]),
            computes(&operators.forward, |at| plan.saving_again[at].unwrap_or(plan.saving[at])),
        ];
        let passing = [
            computes(&operators.forward, |at| plan.passing[at]),
            computes(&operators.forward, |at| plan.passing_again[at].unwrap_or(plan.passing[at])),
        ];
        let backward = computes(&operators.backward, |at| plan.saving[at]);

        let activation_bytes = self.bytes(|id| self.is_output(id, stage));
        let gradient_bytes = self.bytes(|id| self.is_incoming_gradient(id, stage));
        let kept_bytes =
            self.bytes(|id| self.instance.is_result(id) && self.made_in[id.index()].is_some_and(|(s, _)| s == stage));
        let saved_bytes = self.bytes(|id| self.is_saved(id, stage));
        let gradient_out = match stage.checked_sub(1) {
            Some(previous) => self.bytes(|id| self.is_incoming_gradient(id, previous)),
            None => self.input_gradient_bytes(),
        };

        let passing_peak = passing.iter().map(|run| self.peak(run, &[], |id| self.is_output(id, stage))).max();
        let saving_peak = saving.iter().map(|run| self.peak(run, &[], |id| self.is_saved(id, stage))).max();
        let there: Vec<_> = self.alive_before_backward(stage);
        let backward_peak = self.peak(&backward, &there, |id| self.survives_backward(id, stage));
        Stage {
            name: self.name(stage),
            forward_time: self.slower(&passing),
            activation_bytes,
            gradient_bytes,
            kept_bytes,
            passing_overhead: difference(passing_peak.unwrap_or(0), activation_bytes),
            savings: vec![Saving {
                name: "default".into(),
                forward_time: self.slower(&saving),
                backward_time: self.time(&backward),
                saved_bytes,
                forward_overhead: difference(saving_peak.unwrap_or(0), saved_bytes),
                backward_overhead: difference(backward_peak, saved_bytes + gradient_bytes + gradient_out + kept_bytes),
            }],
        }
    }

    fn name(&self, stage: usize) -> String {
        let last = self.stages[stage].forward.last();
        last.map_or_else(String::new, |&id| self.instance.operator(id).name.clone())
    }

    fn time(&self, computes: &[Compute]) -> u64 {
        computes.iter().map(|&(id, v)| self.instance.operator(id).implementations[v].time).sum()
    }

    /// A first run and a further one may differ in time; the chain model has one number, the larger.
    fn slower(&self, runs: &[Vec<Compute>; 2]) -> u64 {
        self.time(&runs[0]).max(self.time(&runs[1]))
    }

    /// What a stage's backward finds: its incoming gradients, what it reads of what was saved, results.
    fn alive_before_backward(&self, stage: usize) -> Vec<TensorId> {
        let mut read = vec![false; self.instance.tensors().len()];
        for id in self.reads(&self.stages[stage].backward) {
            read[id.index()] = true;
        }
        let alive = |&id: &TensorId| {
            let saved = self.is_saved(id, stage) && (read[id.index()] || self.instance.is_result(id));
            saved || self.is_incoming_gradient(id, stage)
        };
        self.instance.tensor_ids().filter(alive).collect()
    }

    fn survives_backward(&self, id: TensorId, stage: usize) -> bool {
        self.instance.is_result(id) || self.read_back_in[id.index()].is_some_and(|reader| reader < stage)
    }

    /// Largest memory while some computes run, counting what they make and what is there before, each
    /// tensor until its last read here unless it stays. What the computes read but is neither made nor
    /// listed is somebody else's account (the stage's input, the network's).
    fn peak(&self, computes: &[Compute], there: &[TensorId], stays: impl Fn(TensorId) -> bool) -> u64 {
        let mut last_use = vec![usize::MAX; self.instance.tensors().len()];
        for (index, &(id, v)) in computes.iter().enumerate() {
            let operator = self.instance.operator(id);
            for tensor in operator.makes(v).chain(operator.implementations[v].reads.iter().copied()) {
                last_use[tensor.index()] = index;
            }
        }
        let size = |id: TensorId| self.instance.tensor(id).bytes;
        let mut ours = vec![false; self.instance.tensors().len()];
        let mut bytes: u64 = there.iter().map(|&id| size(id)).sum();
        for id in there {
            ours[id.index()] = true;
        }
        let mut peak = bytes;
        for (index, &(id, v)) in computes.iter().enumerate() {
            let operator = self.instance.operator(id);
            let implementation = &operator.implementations[v];
            for made in operator.makes(v) {
                if !std::mem::replace(&mut ours[made.index()], true) {
                    bytes += size(made);
                }
            }
            peak = peak.max(bytes + implementation.workspace_bytes);
            for tensor in operator.makes(v).chain(implementation.reads.iter().copied()) {
                let done = last_use[tensor.index()] == index && !stays(tensor);
                if done && std::mem::take(&mut ours[tensor.index()]) {
                    bytes -= size(tensor);
                }
            }
        }
        peak
    }
}

/// `a - b`, signed; sums of sizes are below 2^63, as the format demands.
fn difference(a: u64, b: u64) -> i64 {
    a.cast_signed() - b.cast_signed()
}

fn computes(operators: &[OperatorId], variant: impl Fn(usize) -> usize) -> Vec<Compute> {
    operators.iter().map(|&id| (id, variant(id.index()))).collect()
}
