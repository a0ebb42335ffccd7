//! What each stage of a chain view costs: every stage run by itself, with the chain model's share
//! taken off its peak.

use std::collections::HashSet;

use super::{StageOperators, StageOption};
use crate::chain::{Chain, Saving, Stage};
use crate::format::TensorKind;
use crate::instance::{Instance, OperatorId, TensorId};
use crate::liveness::Compute;
use crate::plan::Plan;

/// The chain of some stages and their options.
pub fn chain(instance: &Instance, plan: &Plan, stages: &[StageOperators], options: &[Vec<StageOption>]) -> Chain {
    let mut prices = Prices::new(instance, plan, stages);
    let stages = options.iter().enumerate().map(|(stage, options)| {
        let savings = options.iter().map(|option| prices.saving(stage, option)).collect();
        Stage { savings, ..prices.stage(stage) }
    });
    let stages = stages.collect();
    Chain {
        fixed_bytes: instance.fixed_bytes(),
        input_bytes: instance.input_bytes(),
        input_gradient_bytes: prices.flow.input_gradient_bytes(),
        stages,
    }
}

/// What the stages of an instance cost, and what their options do.
pub struct Prices<'a> {
    pub(super) flow: Flow<'a>,
    shares: Vec<Share>,
    run: Run<'a>,
}

impl<'a> Prices<'a> {
    /// Looks at the whole instance; stages and options are then priced one by one.
    pub fn new(instance: &'a Instance, plan: &'a Plan, stages: &'a [StageOperators]) -> Self {
        let flow = Flow::new(instance, plan, stages);
        Self { shares: flow.shares(), flow, run: Run::new(instance) }
    }

    /// A stage, without its savings.
    fn stage(&mut self, stage: usize) -> Stage {
        let Self { flow, shares, run } = self;
        let (plan, share) = (flow.plan, shares[stage]);
        let operators = &flow.stages[stage];
        let passing = [
            computes(&operators.forward, |at| plan.passing[at]),
            computes(&operators.forward, |at| plan.passing_again[at].unwrap_or(plan.passing[at])),
        ];
        let peaks = passing.each_ref().map(|computes| run.peak(computes, NOTHING, |id| flow.is_output(id, stage)));
        Stage {
            name: flow.name(stage),
            forward_time: flow.slower(&passing),
            activation_bytes: share.output,
            gradient_bytes: share.gradient,
            kept_bytes: share.kept,
            passing_overhead: difference(peaks[0].max(peaks[1]), share.output),
            savings: Vec::new(),
        }
    }

    /// What an option of a stage costs.
    pub fn saving(&mut self, stage: usize, option: &StageOption) -> Saving {
        let Self { flow, shares, run } = self;
        let (instance, plan, share) = (flow.instance, flow.plan, shares[stage]);
        let again = |&(id, first): &Compute| (id, plan.repeated(instance, (id, first)));
        let forward = [option.forward.clone(), option.forward.iter().map(again).collect()];
        let read_first = read_first(instance, &option.backward);
        let made: HashSet<TensorId> =
            option.forward.iter().flat_map(|&(id, v)| instance.operator(id).makes(v)).collect();
        // What the backward finds of what the forward makes, and what is kept for it and for later stages.
        let is_wanted = |id: TensorId| made.contains(&id) && (read_first.contains(&id) || instance.is_result(id));
        let is_saved = |id: TensorId| is_wanted(id) || made.contains(&id) && flow.crosses[id.index()];
        let bytes = |keep: &dyn Fn(TensorId) -> bool| -> u64 {
            made.iter().filter(|id| keep(**id)).map(|id| instance.tensor(*id).bytes).sum()
        };
        let (saved, for_backward) = (bytes(&is_saved), bytes(&is_wanted));
        let peaks = forward.each_ref().map(|computes| run.peak(computes, NOTHING, is_saved));
        // A stage's backward finds its incoming gradients, what it reads of what was saved, and results.
        let is_there = |id| is_wanted(id) || flow.is_incoming_gradient(id, stage);
        let there = (for_backward + share.gradient, is_there);
        let backward_peak = run.peak(&option.backward, there, |id| flow.survives_backward(id, stage));
        let gradient_out = match stage.checked_sub(1) {
            Some(previous) => shares[previous].gradient,
            None => flow.input_gradient_bytes(),
        };
        Saving {
            name: option.name.clone(),
            forward_time: flow.slower(&forward),
            backward_time: flow.time(&option.backward),
            saved_bytes: saved,
            forward_overhead: difference(peaks[0].max(peaks[1]), saved),
            backward_overhead: difference(backward_peak, saved + share.gradient + gradient_out + share.kept),
        }
    }
}

/// Nothing is there before.
pub const NOTHING: (u64, fn(TensorId) -> bool) = (0, |_| false);

/// Which tensor is read where.
pub(super) struct Flow<'a> {
    pub(super) instance: &'a Instance,
    plan: &'a Plan,
    pub(super) stages: &'a [StageOperators],
    /// Stage and pass (backward?) of the producer; none for inputs.
    made_in: Vec<Option<(usize, bool)>>,
    /// Lowest stage whose backward reads the tensor.
    read_back_in: Vec<Option<usize>>,
    /// Whether a later stage reads what a forward makes, in either pass.
    crosses: Vec<bool>,
}

/// Bytes that the chain model counts for a stage.
#[derive(Clone, Copy, Default)]
struct Share {
    /// What later stages read.
    output: u64,
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
        };
        for (stage, operators) in stages.iter().enumerate() {
            let forward = operators.forward.iter().map(|&id| (id, false));
            let backward = operators.backward.iter().map(|&id| (id, true));
            for (id, is_backward) in forward.chain(backward) {
                let operator = instance.operator(id);
                for made in (0..operator.implementations.len()).flat_map(|variant| operator.makes(variant)) {
                    flow.made_in[made.index()] = Some((stage, is_backward));
                }
            }
        }
        for (stage, operators) in stages.iter().enumerate() {
            let (forward, backward) = (flow.reads(&operators.forward), flow.reads(&operators.backward));
            for read in forward.iter().chain(&backward) {
                let below = matches!(flow.made_in[read.index()], Some((maker, false)) if maker < stage);
                flow.crosses[read.index()] |= below;
            }
            for read in backward {
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

    pub(super) fn made_by(&self, id: TensorId, stage: usize, backward: bool) -> bool {
        self.made_in[id.index()] == Some((stage, backward))
    }

    /// The stage's output: what later stages read of what its forward makes. For the last stage, nothing.
    pub(super) fn is_output(&self, id: TensorId, stage: usize) -> bool {
        self.made_by(id, stage, false) && self.crosses[id.index()]
    }

    /// Gradients made by a later stage's backward for this stage's, or for an earlier one's.
    pub(super) fn is_incoming_gradient(&self, id: TensorId, stage: usize) -> bool {
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

    /// The same of what a stage makes or is handed: a forward's own tensors outlive its backward as results only.
    pub(super) fn outlives(&self, id: TensorId, stage: usize) -> bool {
        let backward = matches!(self.made_in[id.index()], Some((maker, true)) if maker >= stage);
        self.instance.is_result(id) || backward && self.survives_backward(id, stage)
    }
}

/// Runs computes one after the other; what it notes of tensors is of the latest run.
pub struct Run<'a> {
    instance: &'a Instance,
    /// By tensor, whether the copy that is there is still needed, going backwards.
    needed: Vec<bool>,
    /// By tensor, whether it is there and counted.
    counted: Vec<bool>,
    /// Copies and the computes that use them for the last time, last ones first.
    drops: Vec<(usize, TensorId)>,
}

impl<'a> Run<'a> {
    /// Of an instance's computes.
    pub fn new(instance: &'a Instance) -> Self {
        let count = instance.tensors().len();
        Self { instance, needed: vec![false; count], counted: vec![false; count], drops: Vec::new() }
    }

    /// Largest memory while some computes run, counting what they make and what is there before (its bytes, and
    /// whether a tensor is of it), each copy of a tensor until its last read here unless it stays. What the computes
    /// read but is neither made nor there is somebody else's account (the stage's input, the network's).
    pub fn peak(
        &mut self,
        computes: &[Compute],
        (mut bytes, is_there): (u64, impl Fn(TensorId) -> bool),
        stays: impl Fn(TensorId) -> bool,
    ) -> u64 {
        let instance = self.instance;
        for tensor in computes.iter().flat_map(|&compute| uses(instance, compute)) {
            self.needed[tensor.index()] = stays(tensor);
            self.counted[tensor.index()] = is_there(tensor);
        }
        self.drops.clear();
        for (index, &(id, v)) in computes.iter().enumerate().rev() {
            let operator = instance.operator(id);
            for made in operator.makes(v) {
                if !std::mem::take(&mut self.needed[made.index()]) {
                    self.drops.push((index, made));
                }
            }
            for &read in &operator.implementations[v].reads {
                if !std::mem::replace(&mut self.needed[read.index()], true) {
                    self.drops.push((index, read));
                }
            }
        }
        let size = |id: TensorId| instance.tensor(id).bytes;
        let mut peak = bytes;
        for (index, &(id, v)) in computes.iter().enumerate() {
            let operator = instance.operator(id);
            let implementation = &operator.implementations[v];
            if let Some(pair) = implementation.in_place.filter(|pair| self.counted[pair.input.index()]) {
                self.counted[pair.input.index()] = false;
                bytes -= size(pair.input);
            }
            for made in operator.makes(v) {
                if !std::mem::replace(&mut self.counted[made.index()], true) {
                    bytes += size(made);
                }
            }
            peak = peak.max(bytes + implementation.workspace_bytes);
            while let Some((_, tensor)) = self.drops.pop_if(|(at, _)| *at == index) {
                if std::mem::take(&mut self.counted[tensor.index()]) {
                    bytes -= size(tensor);
                }
            }
        }
        peak
    }
}

/// What a compute makes and reads.
fn uses(instance: &Instance, (id, v): Compute) -> impl Iterator<Item = TensorId> {
    let operator = instance.operator(id);
    operator.makes(v).chain(operator.implementations[v].reads.iter().copied())
}

/// What some computes read before they make it.
pub fn read_first(instance: &Instance, computes: &[Compute]) -> HashSet<TensorId> {
    let (mut read_first, mut made) = (HashSet::new(), HashSet::new());
    for &(id, v) in computes {
        let operator = instance.operator(id);
        read_first.extend(operator.implementations[v].reads.iter().filter(|read| !made.contains(*read)));
        made.extend(operator.makes(v));
    }
    read_first
}

/// `a - b`, signed; sums of sizes are below 2^63, as the format demands.
fn difference(a: u64, b: u64) -> i64 {
    a.cast_signed() - b.cast_signed()
}

fn computes(operators: &[OperatorId], variant: impl Fn(usize) -> usize) -> Vec<Compute> {
    operators.iter().map(|&id| (id, variant(id.index()))).collect()
}
