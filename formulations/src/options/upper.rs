//! The level above blocks: an instance in which each block is two operators, its forward and its backward, that have the
//! block's options for implementations. Operators of blocks without options are there as they are.
//!
//! What an option's forward keeps for its backward is one tensor (`HiRemate`'s phantom). Workspaces are such that no
//! schedule below needs more than the one above says. Knows no method.

use std::collections::{BTreeSet, HashMap, HashSet};

use remat_core::chain_view::{NOTHING, Run, StageOperators, StageOption, read_first};
use remat_core::format::{FixedBytes, ImplementationDocument, Phase, TensorKind};
use remat_core::instance::InstanceError;
use remat_core::liveness::Compute;
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, TensorId};

use super::draft::Draft;
use super::partition::{Partition, spans};

/// An upper level, and the way back to the level below.
pub struct Upper {
    /// The level as an instance.
    pub instance: Instance,
    /// By operator and implementation, what it runs below.
    below: Vec<Vec<Vec<Compute>>>,
}

impl Upper {
    /// The level above an instance's blocks with their options; a block without options stays single operators.
    ///
    /// # Errors
    /// Sums of sizes or times exceed what an instance may have.
    pub fn new(
        instance: &Instance,
        partition: &Partition,
        options: &[Vec<StageOption>],
    ) -> Result<Self, InstanceError> {
        let mut maker = Maker::new(instance, partition);
        let blocks = partition.blocks.iter().zip(options);
        let blocks: Vec<_> = blocks.map(|(block, options)| (block, maker.ways(block, options))).collect();
        for (block, ways) in &blocks {
            match &ways[..] {
                [] => block.forward.iter().for_each(|&id| maker.single(id)),
                ways => maker.forward(block, ways),
            }
        }
        for (at, (block, ways)) in blocks.iter().enumerate().rev() {
            match &ways[..] {
                [] => block.backward.iter().for_each(|&id| maker.single(id)),
                ways => maker.backward(at, block, ways),
            }
        }
        Ok(Self { instance: Instance::new(&maker.draft.document)?, below: maker.below })
    }

    /// What computes of this level run below.
    pub fn expand(&self, computes: &[Compute]) -> Vec<Compute> {
        computes.iter().flat_map(|&(id, way)| &self.below[id.index()][way]).copied().collect()
    }
}

/// An option that can be run wherever the level above wants it: it leaves alone what other blocks may need.
struct Way {
    forward: Vec<Compute>,
    /// The forward where it is not the first; none where it may not run again.
    again: Option<Vec<Compute>>,
    backward: Vec<Compute>,
    /// What the backward finds of what the forward makes, but for what other blocks touch.
    saved: BTreeSet<TensorId>,
}

struct Maker<'a> {
    instance: &'a Instance,
    plan: Plan,
    /// By tensor, the first and the last block that makes or reads it.
    spans: Vec<(usize, usize)>,
    run: Run<'a>,
    draft: Draft<'a>,
    phantoms: HashMap<BTreeSet<TensorId>, u32>,
    /// By forward operator, its node above.
    nodes: HashMap<OperatorId, u32>,
    below: Vec<Vec<Vec<Compute>>>,
}

impl<'a> Maker<'a> {
    fn new(instance: &'a Instance, partition: &Partition) -> Self {
        let mut draft = Draft::new(instance, move |id| instance.tensor(id).kind);
        // What is there all the time needs no reader.
        draft.document.fixed_bytes = FixedBytes { buffers: instance.base_bytes(), ..FixedBytes::default() };
        Self {
            instance,
            plan: Plan::fastest(instance),
            spans: spans(instance, &partition.block_of),
            run: Run::new(instance),
            draft,
            phantoms: HashMap::new(),
            nodes: HashMap::new(),
            below: Vec::new(),
        }
    }

    fn bytes<'t>(&self, tensors: impl IntoIterator<Item = &'t TensorId>) -> u64 {
        tensors.into_iter().map(|&id| self.instance.tensor(id).bytes).sum()
    }

    fn is_gradient(&self, id: TensorId) -> bool {
        self.instance.tensor(id).producer.is_some_and(|id| !self.instance.operator(id).phase.is_forward())
    }

    /// Whether several blocks make or read a tensor, or it is a result of the forward pass.
    fn crosses(&self, id: TensorId) -> bool {
        let (first, last) = self.spans[id.index()];
        first != last || self.instance.is_result(id) && !self.is_gradient(id)
    }

    /// Whether others need a tensor after the backward of a block.
    fn outlives(&self, id: TensorId, block: usize) -> bool {
        self.instance.is_result(id) || self.is_gradient(id) && self.spans[id.index()].0 < block
    }

    /// What some operators make, whatever the implementation, that is selected.
    fn made(&self, ids: &[OperatorId], select: impl Fn(TensorId) -> bool) -> Vec<TensorId> {
        let made: BTreeSet<TensorId> = ids.iter().flat_map(|&id| self.instance.operator(id).made()).collect();
        made.into_iter().filter(|&id| select(id)).collect()
    }

    /// The options of a block that leave alone what others may need.
    fn ways(&self, block: &StageOperators, options: &[StageOption]) -> Vec<Way> {
        let outputs = self.made(&block.forward, |id| self.crosses(id));
        let mut ways: Vec<Way> = options.iter().filter_map(|option| self.way(option, &outputs)).collect();
        let saved: BTreeSet<TensorId> = ways.iter().flat_map(|way| way.saved.iter().copied()).collect();
        for way in &mut ways {
            let spares = |again: &Vec<Compute>| {
                let (left, gone) = leaves(self.instance, again);
                // What it would find of its own block is not there.
                let found = read_first(self.instance, again);
                let finds = found.into_iter().all(|id| self.crosses(id) || self.instance.tensor(id).producer.is_none());
                finds
                    && gone.is_disjoint(&saved.iter().copied().collect())
                    && outputs.iter().all(|id| left.contains(id))
            };
            way.again = way.again.take().filter(spares);
        }
        ways
    }

    fn way(&self, option: &StageOption, outputs: &[TensorId]) -> Option<Way> {
        let instance = self.instance;
        let StageOption { forward, backward, .. } = option.clone();
        let overwrites = |&(id, way): &Compute| {
            instance.operator(id).implementations[way].in_place.is_some_and(|pair| outputs.contains(&pair.input))
        };
        let (left, _) = leaves(instance, &forward);
        if backward.iter().any(overwrites) || outputs.iter().any(|id| !left.contains(id)) {
            return None;
        }
        let saved = read_first(instance, &backward);
        let saved = saved.into_iter().filter(|id| left.contains(id) && !self.crosses(*id)).collect();
        let again = forward.iter().map(|&compute| {
            let way = self.plan.repeated(instance, compute);
            let operator = instance.operator(compute.0);
            let may = operator.recomputable && operator.implementations[way].recompute == operator.updates_state;
            may.then_some((compute.0, way))
        });
        let again = again.collect();
        Some(Way { forward, again, backward, saved })
    }

    /// What an option keeps, as a tensor; none where that is nothing.
    fn phantom(&mut self, saved: &BTreeSet<TensorId>) -> Option<u32> {
        let bytes = self.bytes(saved);
        let phantom = self.phantoms.entry(saved.clone());
        (!saved.is_empty()).then(|| *phantom.or_insert_with(|| self.draft.add(bytes, TensorKind::Saved)))
    }

    /// An implementation: computes, what they find that other blocks have made, and the memory that they need beside
    /// what is counted above.
    fn implementation(&mut self, computes: &[Compute], workspace: u64) -> ImplementationDocument {
        let instance = self.instance;
        let time = computes.iter().map(|&(id, way)| instance.operator(id).implementations[way].time).sum();
        let found = read_first(instance, computes).into_iter();
        let found: BTreeSet<TensorId> =
            found.filter(|&id| self.crosses(id) && instance.tensor(id).producer.is_some()).collect();
        let inputs = Some(self.draft.tensors(found));
        ImplementationDocument { inputs, ..ImplementationDocument::plain("", time, workspace) }
    }

    fn forward(&mut self, block: &StageOperators, ways: &[Way]) {
        let outputs = self.made(&block.forward, |id| self.crosses(id));
        let first = ways.iter().map(|way| (way, false, &way.forward));
        let again = ways.iter().filter_map(|way| Some((way, true, way.again.as_ref()?)));
        let (mut implementations, mut below) = (Vec::new(), Vec::new());
        for (way, recompute, computes) in first.chain(again) {
            let peak = self.run.peak(computes, NOTHING, |id| outputs.contains(&id) || way.saved.contains(&id));
            let workspace = peak.saturating_sub(self.bytes(&outputs) + self.bytes(&way.saved));
            let saves = self.phantom(&way.saved).into_iter().collect();
            let plain = self.implementation(computes, workspace);
            implementations.push(ImplementationDocument { saves, recompute, ..plain });
            below.push(computes.clone());
        }
        let again = implementations.iter().any(|way| way.recompute);
        let outputs = self.draft.tensors(outputs);
        // What runs again has implementations of its own.
        let node = self.node(Phase::Forward, (again, again), outputs, implementations, below);
        self.nodes.extend(block.forward.iter().map(|&id| (id, node)));
    }

    fn backward(&mut self, at: usize, block: &StageOperators, ways: &[Way]) {
        if block.backward.is_empty() {
            return;
        }
        let outputs = self.made(&block.backward, |id| self.crosses(id));
        let results = self.made(&block.backward, |id| !self.crosses(id) && self.instance.is_result(id));
        let made = self.bytes(outputs.iter().chain(&results));
        let mut implementations = Vec::new();
        for way in ways {
            // Gradients that nobody reads after this go as soon as they are read here.
            let mut found = read_first(self.instance, &way.backward);
            found.retain(|&id| way.saved.contains(&id) || self.is_gradient(id) && !self.outlives(id, at));
            let bytes = self.bytes(&found);
            let all = way.backward.iter().flat_map(|&(id, way)| self.instance.operator(id).makes(way));
            let stays: HashSet<TensorId> = all.filter(|&id| self.outlives(id, at)).collect();
            let peak = self.run.peak(&way.backward, (bytes, |id| found.contains(&id)), |id| stays.contains(&id));
            let mut implementation = self.implementation(&way.backward, peak.saturating_sub(bytes + made));
            let phantom = self.phantom(&way.saved);
            implementation.inputs.get_or_insert_default().extend(phantom);
            implementations.push(implementation);
        }
        let bytes = self.bytes(&results);
        let mut outputs = self.draft.tensors(outputs);
        outputs.extend((!results.is_empty()).then(|| self.draft.add(bytes, TensorKind::ParamGradient)));
        let below = ways.iter().map(|way| way.backward.clone()).collect();
        let node = self.node(Phase::Backward, (false, false), outputs, implementations, below);
        self.draft.document.operators[node as usize].differentiates = self.nodes.get(&block.forward[0]).copied();
    }

    /// An operator as it is.
    fn single(&mut self, id: OperatorId) {
        let instance = self.instance;
        let operator = instance.operator(id);
        let outputs = self.draft.tensors(operator.outputs.iter().copied());
        let computed = |read: TensorId| instance.tensor(read).producer.is_some();
        let implementations = operator.implementations.iter().map(|way| self.draft.way(way, computed)).collect();
        let below = (0..operator.implementations.len()).map(|way| vec![(id, way)]).collect();
        let runs = (operator.recomputable, operator.updates_state);
        let node = self.node(operator.phase, runs, outputs, implementations, below);
        let differentiates = operator.differentiates.and_then(|forward| self.nodes.get(&forward).copied());
        self.draft.document.operators[node as usize].differentiates = differentiates;
        if operator.phase.is_forward() {
            self.nodes.insert(id, node);
        }
    }

    fn node(
        &mut self,
        phase: Phase,
        runs: (bool, bool),
        outputs: Vec<u32>,
        implementations: Vec<ImplementationDocument>,
        below: Vec<Vec<Compute>>,
    ) -> u32 {
        self.below.push(below);
        self.draft.operator(phase, runs, outputs, implementations)
    }
}

/// What some computes leave of what they make, and what they overwrite.
fn leaves(instance: &Instance, computes: &[Compute]) -> (HashSet<TensorId>, HashSet<TensorId>) {
    let (mut left, mut gone) = (HashSet::new(), HashSet::new());
    for &(id, way) in computes {
        let operator = instance.operator(id);
        if let Some(pair) = operator.implementations[way].in_place {
            left.remove(&pair.input);
            gone.insert(pair.input);
        }
        for made in operator.makes(way) {
            gone.remove(&made);
            left.insert(made);
        }
    }
    (left, gone)
}
