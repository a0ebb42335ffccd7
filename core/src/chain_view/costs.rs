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
    let shares = flow.shares();
    let mut run = Run::new(instance);
    let stages: Vec<_> = (0..stages.len()).map(|stage| flow.stage(stage, &shares, &mut run)).collect();
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
    /// Whether the stage that makes the tensor reads it in its backward.
    read_at_home: Vec<bool>,
}

/// Bytes that the chain model counts for a stage.
#[derive(Clone, Copy, Default)]
struct Share {
    /// What the next stage's forward reads.
    output: u64,
    /// What the saving forward keeps.
    saved: u64,
    /// What of that the stage's backward finds: what it reads, and results.
    saved_for_backward: u64,
    /// Gradients that later stages' backwards have made for this one's and earlier ones'.
    gradient: u64,
    /// Results.
    kept: u64,
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
            read_at_home: vec![false; count],
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
                flow.read_at_home[read.index()] |= flow.made_by(read, stage, false);
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

    /// What of that its backward finds.
    fn is_saved_for_backward(&self, id: TensorId, stage: usize) -> bool {
        self.is_saved(id, stage) && (self.read_at_home[id.index()] || self.instance.is_result(id))
    }

    /// Gradients made by a later stage's backward for this stage's, or for an earlier one's.
    fn is_incoming_gradient(&self, id: TensorId, stage: usize) -> bool {
        let from_later = matches!(self.made_in[id.index()], Some((maker, true)) if maker > stage);
        from_later && self.read_back_in[id.index()].is_some_and(|reader| reader <= stage)
    }

    fn input_gradient_bytes(&self) -> u64 {
        let is_input_gradient = |&id: &TensorId| {
            let unread = self.read_back_in[id.index()].is_none() && !self.instance.is_result(id);
            self.made_by(id, 0, true) && unread && self.instance.tensor(id).kind == TensorKind::Gradient
        };
        let ids = self.instance.tensor_ids().filter(is_input_gradient);
        ids.map(|id| self.instance.tensor(id).bytes).sum()
    }

    /// The shares of all stages, in one pass over the tensors.
    fn shares(&self) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.stages.len()];
        // Gradients, by the stage from which on they no longer come in.
        let mut made = vec![0; self.stages.len()];
        for id in self.instance.tensor_ids() {
            let Some((stage, is_backward)) = self.made_in[id.index()] else { continue };
            let bytes = self.instance.tensor(id).bytes;
            let if_so = |condition: bool| if condition { bytes } else { 0 };
            let share = &mut shares[stage];
            share.output += if_so(self.is_output(id, stage));
            share.saved += if_so(self.is_saved(id, stage));
            share.saved_for_backward += if_so(self.is_saved_for_backward(id, stage));
            share.kept += if_so(self.instance.is_result(id));
            if let Some(reader) = self.read_back_in[id.index()].filter(|&reader| is_backward && reader < stage) {
                shares[reader].gradient += bytes;
                made[stage] += bytes;
            }
        }
        let mut gradients = 0;
        for (share, made) in shares.iter_mut().zip(made) {
            gradients = gradients + share.gradient - made;
            share.gradient = gradients;
        }
        shares
    }

    fn stage(&self, stage: usize, shares: &[Share], run: &mut Run<'_>) -> Stage {
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

        let share = shares[stage];
        let gradient_out = match stage.checked_sub(1) {
            Some(previous) => shares[previous].gradient,
            None => self.input_gradient_bytes(),
        };

        let nothing = (0, |_| false);
        let mut peak_of = |runs: &[Vec<Compute>; 2], stays: &dyn Fn(TensorId) -> bool| {
            let peaks = runs.each_ref().map(|computes| run.peak(computes, nothing, stays));
            peaks[0].max(peaks[1])
        };
        let passing_peak = peak_of(&passing, &|id| self.is_output(id, stage));
        let saving_peak = peak_of(&saving, &|id| self.is_saved(id, stage));
        // A stage's backward finds its incoming gradients, what it reads of what was saved, and results.
        let is_there = |id| self.is_saved_for_backward(id, stage) || self.is_incoming_gradient(id, stage);
        let there = (share.saved_for_backward + share.gradient, is_there);
        let backward_peak = run.peak(&backward, there, |id| self.survives_backward(id, stage));
        Stage {
            name: self.name(stage),
            forward_time: self.slower(&passing),
            activation_bytes: share.output,
            gradient_bytes: share.gradient,
            kept_bytes: share.kept,
            passing_overhead: difference(passing_peak, share.output),
            savings: vec![Saving {
                name: "default".into(),
                forward_time: self.slower(&saving),
                backward_time: self.time(&backward),
                saved_bytes: share.saved,
                forward_overhead: difference(saving_peak, share.saved),
                backward_overhead: difference(backward_peak, share.saved + share.gradient + gradient_out + share.kept),
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

    fn survives_backward(&self, id: TensorId, stage: usize) -> bool {
        self.instance.is_result(id) || self.read_back_in[id.index()].is_some_and(|reader| reader < stage)
    }
}

/// Runs computes one after the other; what it notes of tensors is of the latest run.
struct Run<'a> {
    instance: &'a Instance,
    /// By tensor, the last compute that uses it.
    last_use: Vec<usize>,
    /// By tensor, whether it is there and counted.
    counted: Vec<bool>,
}

impl<'a> Run<'a> {
    fn new(instance: &'a Instance) -> Self {
        let count = instance.tensors().len();
        Self { instance, last_use: vec![0; count], counted: vec![false; count] }
    }

    /// Largest memory while some computes run, counting what they make and what is there before (its bytes, and
    /// whether a tensor is of it), each tensor until its last read here unless it stays. What the computes read
    /// but is neither made nor there is somebody else's account (the stage's input, the network's).
    fn peak(
        &mut self,
        computes: &[Compute],
        (mut bytes, is_there): (u64, impl Fn(TensorId) -> bool),
        stays: impl Fn(TensorId) -> bool,
    ) -> u64 {
        let instance = self.instance;
        let uses = |(id, v): Compute| {
            let operator = instance.operator(id);
            operator.makes(v).chain(operator.implementations[v].reads.iter().copied())
        };
        for (index, &compute) in computes.iter().enumerate() {
            for tensor in uses(compute) {
                self.last_use[tensor.index()] = index;
                self.counted[tensor.index()] = is_there(tensor);
            }
        }
        let size = |id: TensorId| instance.tensor(id).bytes;
        let mut peak = bytes;
        for (index, &(id, v)) in computes.iter().enumerate() {
            let operator = instance.operator(id);
            for made in operator.makes(v) {
                if !std::mem::replace(&mut self.counted[made.index()], true) {
                    bytes += size(made);
                }
            }
            peak = peak.max(bytes + operator.implementations[v].workspace_bytes);
            for tensor in uses((id, v)) {
                let done = self.last_use[tensor.index()] == index && !stays(tensor);
                if done && std::mem::take(&mut self.counted[tensor.index()]) {
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
