//! The level above blocks: an instance in which each block is two operators, its forward and its backward, that have the
//! block's options for implementations. Operators of blocks without options are there as they are.
//!
//! What an option's forward keeps for its backward is one tensor (`HiRemate`'s phantom). Workspaces are such that no
//! schedule below needs more than the one above says. Knows no method.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use remat_core::chain_view::{NOTHING, Run, StageOperators, StageOption, read_first};
use remat_core::format::{
    FixedBytes, ImplementationDocument, InPlaceDocument, InstanceDocument, OperatorDocument, Phase, TensorDocument,
    TensorKind,
};
use remat_core::instance::{InPlace, InstanceError};
use remat_core::liveness::Compute;
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, TensorId};

use super::block::empty;
use super::partition::{Partition, reads};

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
        let blocks: Vec<_> = blocks.map(|(block, options)| (block, maker.price(block, options))).collect();
        for (block, priced) in &blocks {
            match priced {
                Some(priced) => maker.forward(block, priced),
                None => block.forward.iter().for_each(|&id| maker.single(id)),
            }
        }
        for (at, (block, priced)) in blocks.iter().enumerate().rev() {
            match priced {
                Some(priced) => maker.backward(at, block, priced),
                None => block.backward.iter().for_each(|&id| maker.single(id)),
            }
        }
        Ok(Self { instance: Instance::new(&maker.document)?, below: maker.below })
    }

    /// What computes of this level run below.
    pub fn expand(&self, computes: &[Compute]) -> Vec<Compute> {
        computes.iter().flat_map(|&(id, way)| &self.below[id.index()][way]).copied().collect()
    }
}

/// A block's options that can be run wherever the level above wants them.
struct Priced {
    ways: Vec<Way>,
    /// What other blocks touch of what the block's forward makes, and of what its backward makes.
    outputs: [Vec<TensorId>; 2],
    /// Results that nobody else touches.
    results: Vec<TensorId>,
}

/// An option.
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
    /// By tensor, whether operators of several blocks make or read it, or it is a result of the forward pass.
    crosses: Vec<bool>,
    /// By tensor, whether blocks before that of its maker read it, too: the position of the first block that does.
    first_reader: Vec<usize>,
    run: Run<'a>,
    numbers: HashMap<TensorId, u32>,
    phantoms: HashMap<BTreeSet<TensorId>, u32>,
    /// By forward operator, its node above.
    nodes: HashMap<OperatorId, u32>,
    document: InstanceDocument,
    below: Vec<Vec<Vec<Compute>>>,
}

impl<'a> Maker<'a> {
    fn new(instance: &'a Instance, partition: &Partition) -> Self {
        let count = instance.tensors().len();
        let mut home = vec![usize::MAX; count];
        let mut crosses: Vec<bool> = instance
            .tensors()
            .iter()
            .map(|tensor| {
                let by_forward = tensor.producer.is_some_and(|id| instance.operator(id).phase.is_forward());
                tensor.kind.is_result() && by_forward
            })
            .collect();
        let mut first_reader = vec![usize::MAX; count];
        for (at, block) in partition.blocks.iter().enumerate() {
            for &id in block.forward.iter().chain(&block.backward) {
                let operator = instance.operator(id);
                let made = (0..operator.implementations.len()).flat_map(|way| operator.makes(way));
                for tensor in made.chain(reads(instance, id)) {
                    let known = std::mem::replace(&mut home[tensor.index()], at);
                    crosses[tensor.index()] |= known != usize::MAX && known != at;
                }
                for read in reads(instance, id) {
                    first_reader[read.index()] = first_reader[read.index()].min(at);
                }
            }
        }
        let mut document = empty(instance);
        // What is there all the time needs no reader.
        document.fixed_bytes =
            FixedBytes { buffers: instance.fixed_bytes() + instance.input_bytes(), ..FixedBytes::default() };
        Self {
            instance,
            plan: Plan::fastest(instance),
            crosses,
            first_reader,
            run: Run::new(instance),
            numbers: HashMap::new(),
            phantoms: HashMap::new(),
            nodes: HashMap::new(),
            document,
            below: Vec::new(),
        }
    }

    fn bytes<'t>(&self, tensors: impl IntoIterator<Item = &'t TensorId>) -> u64 {
        tensors.into_iter().map(|&id| self.instance.tensor(id).bytes).sum()
    }

    /// Whether others need a tensor after the backward of a block.
    fn outlives(&self, id: TensorId, block: usize) -> bool {
        let tensor = self.instance.tensor(id);
        let gradient = tensor.producer.is_some_and(|id| !self.instance.operator(id).phase.is_forward());
        tensor.kind.is_result() || gradient && self.first_reader[id.index()] < block
    }

    /// The options of a block that leave alone what others may need; none where there are none.
    fn price(&self, block: &StageOperators, options: &[StageOption]) -> Option<Priced> {
        let instance = self.instance;
        let made = |ids: &[OperatorId], select: &dyn Fn(TensorId) -> bool| -> Vec<TensorId> {
            let ways =
                ids.iter().flat_map(|&id| (0..instance.operator(id).implementations.len()).map(move |way| (id, way)));
            let made: BTreeSet<TensorId> = ways.flat_map(|(id, way)| instance.operator(id).makes(way)).collect();
            made.into_iter().filter(|&id| select(id)).collect()
        };
        let crosses = |id: TensorId| self.crosses[id.index()];
        let outputs = [made(&block.forward, &crosses), made(&block.backward, &crosses)];
        let results = made(&block.backward, &|id| !crosses(id) && instance.is_result(id));
        let mut ways: Vec<Way> = options.iter().filter_map(|option| self.way(option, &outputs[0])).collect();
        let saved: BTreeSet<TensorId> = ways.iter().flat_map(|way| way.saved.iter().copied()).collect();
        for way in &mut ways {
            let destroys = |again: &Vec<Compute>| {
                let (left, gone) = leaves(instance, again);
                gone.iter().any(|id| saved.contains(id)) || outputs[0].iter().any(|id| !left.contains(id))
            };
            way.again = way.again.take().filter(|again| !destroys(again));
        }
        (!ways.is_empty()).then_some(Priced { ways, outputs, results })
    }

    fn way(&self, option: &StageOption, outputs: &[TensorId]) -> Option<Way> {
        let instance = self.instance;
        let StageOption { forward, backward, .. } = option;
        let overwrites = |&(id, way): &Compute| {
            let taken = instance.operator(id).implementations[way].in_place.map(|pair| pair.input);
            taken.is_some_and(|id| self.crosses[id.index()] && outputs.contains(&id))
        };
        let (left, _) = leaves(instance, forward);
        if backward.iter().any(overwrites) || outputs.iter().any(|id| !left.contains(id)) {
            return None;
        }
        let saved = read_first(instance, backward);
        let saved = saved.into_iter().filter(|id| left.contains(id) && !self.crosses[id.index()]).collect();
        let again = forward.iter().map(|&compute| {
            let way = self.plan.repeated(instance, compute);
            let operator = instance.operator(compute.0);
            let may = operator.recomputable && operator.implementations[way].recompute == operator.updates_state;
            may.then_some((compute.0, way))
        });
        Some(Way { forward: forward.clone(), again: again.collect(), backward: backward.clone(), saved })
    }

    /// The tensor's number above.
    fn number(&mut self, id: TensorId) -> u32 {
        if let Some(&known) = self.numbers.get(&id) {
            return known;
        }
        let tensor = self.instance.tensor(id);
        let number = self.tensor(tensor.name.clone(), tensor.bytes, tensor.kind);
        self.numbers.insert(id, number);
        number
    }

    fn tensor(&mut self, name: String, bytes: u64, kind: TensorKind) -> u32 {
        let id = number(self.document.tensors.len());
        self.document.tensors.push(TensorDocument { id, name, bytes, kind, shape: None, dtype: None });
        id
    }

    /// What an option keeps, as a tensor; none where that is nothing.
    fn phantom(&mut self, saved: &BTreeSet<TensorId>) -> Option<u32> {
        if saved.is_empty() {
            return None;
        }
        if let Some(&known) = self.phantoms.get(saved) {
            return Some(known);
        }
        let phantom = self.tensor(format!("phantom {}", self.phantoms.len()), self.bytes(saved), TensorKind::Saved);
        self.phantoms.insert(saved.clone(), phantom);
        Some(phantom)
    }

    /// What some computes find that other blocks have made.
    fn reads(&mut self, computes: &[Compute]) -> Vec<u32> {
        let mut found: Vec<TensorId> = read_first(self.instance, computes).into_iter().collect();
        found.retain(|id| self.crosses[id.index()] && self.instance.tensor(*id).producer.is_some());
        found.sort_unstable();
        found.into_iter().map(|id| self.number(id)).collect()
    }

    fn forward(&mut self, block: &StageOperators, priced: &Priced) {
        let outputs = &priced.outputs[0];
        let mut ways = Vec::new();
        let mut below = Vec::new();
        for recompute in [false, true] {
            for (at, way) in priced.ways.iter().enumerate() {
                let computes = if recompute { way.again.as_ref() } else { Some(&way.forward) };
                let Some(computes) = computes else { continue };
                let stays = |id: TensorId| outputs.contains(&id) || way.saved.contains(&id);
                let peak = self.run.peak(computes, NOTHING, stays);
                let workspace = peak.saturating_sub(self.bytes(outputs) + self.bytes(&way.saved));
                let name = format!("option {at}{}", if recompute { ", again" } else { "" });
                ways.push(ImplementationDocument {
                    inputs: Some(self.reads(computes)),
                    saves: self.phantom(&way.saved).into_iter().collect(),
                    recompute,
                    ..ImplementationDocument::plain(&name, time(self.instance, computes), workspace)
                });
                below.push(computes.clone());
            }
        }
        let again = ways.iter().any(|way| way.recompute);
        let outputs = outputs.iter().map(|&id| self.number(id)).collect();
        let node = self.node(block.forward[0], Phase::Forward, outputs, again, ways, below);
        self.nodes.extend(block.forward.iter().map(|&id| (id, node)));
    }

    fn backward(&mut self, at: usize, block: &StageOperators, priced: &Priced) {
        let Some(&first) = block.backward.first() else { return };
        let outputs = &priced.outputs[1];
        let made = self.bytes(outputs) + self.bytes(&priced.results);
        let mut ways = Vec::new();
        for (number, way) in priced.ways.iter().enumerate() {
            // Gradients that nobody reads after this go as soon as they are read here.
            let mut found = read_first(self.instance, &way.backward);
            found.retain(|&id| {
                let maker = self.instance.tensor(id).producer;
                let gradient = maker.is_some_and(|id| !self.instance.operator(id).phase.is_forward());
                way.saved.contains(&id) || gradient && !self.outlives(id, at)
            });
            let bytes = self.bytes(&found);
            let stays: HashSet<TensorId> = {
                let all = way.backward.iter().flat_map(|&(id, way)| self.instance.operator(id).makes(way));
                all.filter(|&id| self.outlives(id, at)).collect()
            };
            let peak = self.run.peak(&way.backward, (bytes, |id| found.contains(&id)), |id| stays.contains(&id));
            let workspace = peak.saturating_sub(bytes + made);
            let mut inputs = self.reads(&way.backward);
            inputs.extend(self.phantom(&way.saved));
            let plain = ImplementationDocument::plain(
                &format!("option {number}"),
                time(self.instance, &way.backward),
                workspace,
            );
            ways.push(ImplementationDocument { inputs: Some(inputs), ..plain });
        }
        let mut numbers: Vec<u32> = outputs.iter().map(|&id| self.number(id)).collect();
        if !priced.results.is_empty() {
            numbers.push(self.tensor(format!("results {at}"), self.bytes(&priced.results), TensorKind::ParamGradient));
        }
        let below = priced.ways.iter().map(|way| way.backward.clone()).collect();
        let node = self.node(first, Phase::Backward, numbers, false, ways, below);
        self.document.operators[node as usize].differentiates = self.nodes.get(&block.forward[0]).copied();
    }

    fn node(
        &mut self,
        first: OperatorId,
        phase: Phase,
        outputs: Vec<u32>,
        again: bool,
        implementations: Vec<ImplementationDocument>,
        below: Vec<Vec<Compute>>,
    ) -> u32 {
        let id = number(self.document.operators.len());
        self.document.operators.push(OperatorDocument {
            id,
            name: format!("block of {}", self.instance.operator(first).name),
            op_type: "block".into(),
            phase,
            differentiates: None,
            inputs: vec![],
            outputs,
            recomputable: Some(again),
            random: false,
            // What runs again has implementations of its own.
            updates_state: again,
            attributes: BTreeMap::new(),
            implementations,
        });
        self.document.order.push(id);
        self.below.push(below);
        id
    }

    /// An operator as it is.
    fn single(&mut self, id: OperatorId) {
        let operator = self.instance.operator(id);
        let outputs = operator.outputs.iter().map(|&made| self.number(made)).collect();
        let implementations = operator.implementations.iter().map(|way| {
            let computed = |read: &&TensorId| self.instance.tensor(**read).producer.is_some();
            let reads: Vec<TensorId> = way.reads.iter().filter(computed).copied().collect();
            let pair =
                |pair: InPlace| InPlaceDocument { output: self.number(pair.output), input: self.number(pair.input) };
            ImplementationDocument {
                in_place: way.in_place.map(pair),
                inputs: Some(reads.into_iter().map(|read| self.number(read)).collect()),
                saves: way.saves.iter().map(|&saved| self.number(saved)).collect(),
                recompute: way.recompute,
                ..ImplementationDocument::plain(&way.name, way.time, way.workspace_bytes)
            }
        });
        let implementations = implementations.collect();
        let below = (0..operator.implementations.len()).map(|way| vec![(id, way)]).collect();
        let node = self.node(id, operator.phase, outputs, operator.recomputable, implementations, below);
        let differentiates = operator.differentiates.and_then(|forward| self.nodes.get(&forward).copied());
        let document = &mut self.document.operators[node as usize];
        document.updates_state = operator.updates_state;
        document.differentiates = differentiates;
        if operator.phase.is_forward() {
            self.nodes.insert(id, node);
        }
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

fn time(instance: &Instance, computes: &[Compute]) -> u64 {
    computes.iter().map(|&(id, way)| instance.operator(id).implementations[way].time).sum()
}

fn number(position: usize) -> u32 {
    u32::try_from(position).expect("levels hold no more elements than the instance below")
}
