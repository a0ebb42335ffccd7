//! MONeT's view of an instance: forward nodes with one value each, and one stage per backward operator.
//!
//! Built from an instance and a choice of [`Modes`], with whole numbers in KiB and 0.01 ms, each rounded up by itself. What an implementation saves beside its operator's outputs (a mask, indices) is a node of its
//! own, an *intermediate*, which can only run together with its parent. Knows neither model nor solver.

use std::collections::BTreeMap;

use remat_core::format::TensorKind;
use remat_core::instance::{Implementation, Operator};
use remat_core::{Instance, OperatorId, TensorId};

use crate::method::SkipReason;
use crate::monet::settings::Modes;
use crate::staged::graph::{ascending, undominated};

/// Bytes per unit of memory.
pub const BYTE_UNIT: u64 = 1024;
/// Time of the instance per unit of time.
pub const TIME_UNIT: u64 = 10_000;

/// A number that is not negative.
pub fn whole(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Bytes, or a difference of them, as the authors' program counts them: each number is rounded up by itself.
fn units(bytes: impl Into<i128>) -> i64 {
    let (bytes, unit) = (bytes.into(), i128::from(BYTE_UNIT));
    let whole = bytes.div_euclid(unit) + i128::from(bytes.rem_euclid(unit) > 0);
    i64::try_from(whole).expect("instances sum to less than 2^63")
}

/// Times, likewise.
fn time_units(time: u64) -> i64 {
    i64::try_from(time.div_ceil(TIME_UNIT)).expect("instances sum to less than 2^63")
}

/// One way to run a node or a backward operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Position in the operator's implementations.
    pub implementation: usize,
    /// Duration.
    pub time: i64,
    /// Memory beside what else is counted; negative where an output takes an input's place.
    pub beside: i64,
}

/// Running in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// The node whose value is overwritten.
    pub node: usize,
    /// Position of the implementation.
    pub implementation: usize,
    /// Time beyond that of the node's first way.
    pub time: i64,
    /// Memory beyond that of the node's first way.
    pub beside: i64,
}

/// A forward operator, or an intermediate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The operator.
    pub operator: OperatorId,
    /// Of an intermediate, the node that it runs with.
    pub parent: Option<usize>,
    /// Size of its value.
    pub bytes: i64,
    /// Nodes that it reads.
    pub inputs: Vec<usize>,
    /// Nodes that read it, in order.
    pub readers: Vec<usize>,
    /// Ways of the first run.
    pub first: Vec<Way>,
    /// Ways of later runs; empty where it must not run again.
    pub again: Vec<Way>,
    /// In place, where it can: the first run.
    pub over: Option<Over>,
    /// The same of later runs, which leave state alone.
    pub over_again: Option<Over>,
    /// Whether its value stays to the end.
    pub result: bool,
    /// The last stage in which its value can be of use.
    pub last: usize,
}

/// One way of a backward operator, by what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Forward nodes that it reads.
    pub reads: Vec<usize>,
    /// The implementations that read just these, none worse than another in both time and memory.
    pub ways: Vec<Way>,
}

/// A backward operator: stage k of 1..=K recomputes, then runs the k-th.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The operator; none in stage 0, the forward pass.
    pub operator: Option<OperatorId>,
    /// Memory of gradients and of all that is always there, while the stage recomputes.
    pub before: i64,
    /// The same while the backward operator runs, workspace and outputs (`beside`) not included.
    pub during: i64,
    /// What it can read.
    pub variants: Vec<Variant>,
}

impl Stage {
    /// Nodes that some variant reads, in order.
    pub fn reads(&self) -> Vec<usize> {
        ascending(self.variants.iter().flat_map(|variant| variant.reads.iter().copied()))
    }
}

/// The problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Forward nodes, in order, intermediates after their parents.
    pub nodes: Vec<Node>,
    /// Stage 0 is the forward pass.
    pub stages: Vec<Stage>,
    /// For each node its local set (L-bar): its inputs, and earlier nodes that later ones read.
    pub local: Vec<Vec<usize>>,
}

impl Problem {
    /// Derives the view.
    ///
    /// # Errors
    /// The instance has no such view.
    pub fn new(instance: &Instance, modes: Modes) -> Result<Self, SkipReason> {
        let mut builder = Builder { instance, modes, nodes: vec![], of_tensor: BTreeMap::new() };
        let order = |forward: bool| {
            let side = instance.order().iter().copied();
            side.filter(move |&id| instance.operator(id).phase.is_forward() == forward).collect::<Vec<_>>()
        };
        let backward = order(false);
        let chosen = builder.read_variants(&backward);
        for id in order(true) {
            builder.forward(id, &chosen)?;
        }
        builder.connect();
        let stages = builder.stages(&backward, &chosen)?;
        let mut nodes = builder.nodes;
        last_uses(&mut nodes, &stages);
        let local = local_sets(&nodes);
        Ok(Self { nodes, stages, local })
    }

    /// Ways of a node in a stage.
    pub fn ways(&self, stage: usize, node: usize) -> &[Way] {
        if stage == 0 { &self.nodes[node].first } else { &self.nodes[node].again }
    }

    /// How a node runs in place in a stage, if it can; relative to the first of its ways there.
    pub fn over(&self, stage: usize, node: usize) -> Option<Over> {
        if stage == 0 { self.nodes[node].over } else { self.nodes[node].over_again }
    }

    /// Whether a value must or must not be there when a stage begins; none where that is free.
    pub fn forced(&self, stage: usize, at: usize) -> Option<bool> {
        let node = &self.nodes[at];
        if stage == 0 {
            return Some(false);
        }
        if node.result {
            return Some(true);
        }
        // Read in stage `last` without being run there, it is kept into the stage after.
        (stage > node.last + 1 || node.last == 0).then_some(false)
    }

    /// Whether a node runs in a stage whatever is kept.
    pub fn must_run(&self, stage: usize, node: usize) -> bool {
        stage == 0 && self.nodes[node].parent.is_none()
    }

    /// Least time that any schedule takes.
    pub fn least_time(&self) -> i64 {
        (0..self.stages.len()).map(|stage| self.least_time_of(stage)).sum()
    }

    /// Least time of a stage: in the forward pass every node once, in another one the backward operator, the fastest way.
    pub fn least_time_of(&self, stage: usize) -> i64 {
        if stage > 0 {
            return least_time(self.stages[stage].variants.iter().flat_map(|variant| &variant.ways));
        }
        let nodes = self.nodes.iter().filter(|node| node.parent.is_none());
        nodes.map(|node| least_time(&node.first) + node.over.map_or(0, |over| over.time.min(0))).sum()
    }
}

/// Time of the fastest of some ways; 0 where there is none.
fn least_time<'w>(ways: impl IntoIterator<Item = &'w Way>) -> i64 {
    ways.into_iter().map(|way| way.time).min().unwrap_or(0)
}

/// For each node what is there when it runs: earlier nodes that it or a later node reads, in order.
fn local_sets(nodes: &[Node]) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new(); nodes.len()];
    for (node, description) in nodes.iter().enumerate() {
        let last = description.readers.last().copied().unwrap_or(node);
        sets[node + 1..=last.max(node)].iter_mut().for_each(|set: &mut Vec<usize>| set.push(node));
    }
    sets
}

/// The last stage in which each value can be read, by its stage's operator or by what runs for a later one.
fn last_uses(nodes: &mut [Node], stages: &[Stage]) {
    for (at, stage) in stages.iter().enumerate().skip(1) {
        for read in stage.reads() {
            nodes[read].last = at;
        }
    }
    for at in (0..nodes.len()).rev() {
        let readers = nodes[at].readers.iter().map(|&reader| nodes[reader].last).max();
        nodes[at].last = nodes[at].last.max(readers.unwrap_or(0));
    }
}

struct Builder<'a> {
    instance: &'a Instance,
    modes: Modes,
    nodes: Vec<Node>,
    /// The node that makes a forward tensor.
    of_tensor: BTreeMap<TensorId, usize>,
}

impl Builder<'_> {
    fn is_forward(&self, tensor: TensorId) -> bool {
        let producer = self.instance.tensor(tensor).producer;
        producer.is_some_and(|id| self.instance.operator(id).phase.is_forward())
    }

    /// Whether an implementation reads what only some implementations of an operator save; no forward operator does in the
    /// authors' program.
    fn reads_extra(&self, way: &Implementation) -> bool {
        way.reads.iter().any(|&read| self.instance.is_extra(read))
    }

    /// The backward implementations that may be chosen, by operator; out of place and in place.
    fn read_variants(&self, backward: &[OperatorId]) -> BTreeMap<OperatorId, Vec<usize>> {
        let chosen = backward.iter().map(|&id| {
            let operator = self.instance.operator(id);
            let first = |at: &usize| !operator.implementations[*at].recompute;
            let all: Vec<usize> = (0..operator.implementations.len()).filter(first).collect();
            let ways = |keep: &dyn Fn(&Implementation) -> bool| -> Vec<usize> {
                all.iter().copied().filter(|&at| keep(&operator.implementations[at])).collect()
            };
            // The variant that is used where none is chosen: the fastest that needs nothing extra.
            let plain = ways(&|way| !self.reads_extra(way));
            let pool = if plain.is_empty() { all.clone() } else { plain };
            let fastest = pool.iter().copied().min_by_key(|&at| (operator.implementations[at].time, at));
            let reads = fastest.map(|at| operator.implementations[at].reads.clone()).unwrap_or_default();
            let kept = ways(&|way| {
                let same = way.reads == reads;
                let allowed = if self.reads_extra(way) { self.modes.intermediates } else { self.modes.outputs };
                let quickest = fastest.is_some_and(|at| operator.implementations[at].time >= way.time);
                if same { self.modes.algorithms || quickest } else { allowed }
            });
            (id, kept)
        });
        chosen.collect()
    }

    /// An implementation as a way to make a node's own value: what it saves is beside it, and dropped at once.
    fn way(&self, operator: &Operator, implementation: usize) -> Way {
        let way = &operator.implementations[implementation];
        let saved: u64 = way.saves.iter().map(|&tensor| self.instance.tensor(tensor).bytes).sum();
        let beside = units(way.workspace_bytes + saved);
        Way { implementation, time: time_units(way.time), beside }
    }

    /// The ways out of place to run a forward operator: those that save nothing extra, or else (PyTorch's max-pool
    /// never runs without making indices) the fastest.
    fn forward_ways(&self, operator: &Operator, again: bool) -> Vec<Way> {
        let recompute = again && operator.updates_state;
        let suits =
            |way: &Implementation| way.in_place.is_none() && way.recompute == recompute && !self.reads_extra(way);
        let ways = |saving: bool| -> Vec<Way> {
            let all = operator.implementations.iter().enumerate();
            let suitable = all.filter(|(_, way)| suits(way) && way.saves.is_empty() != saving);
            suitable.map(|(at, _)| self.way(operator, at)).collect()
        };
        let plain = ways(false);
        if self.modes.algorithms && !plain.is_empty() {
            return cheapest(plain);
        }
        let pool = if plain.is_empty() { ways(true) } else { plain };
        pool.into_iter().min_by_key(|way| (way.time, way.beside)).into_iter().collect()
    }

    /// A forward operator as a node, and its intermediates that some chosen backward implementation reads.
    fn forward(&mut self, id: OperatorId, chosen: &BTreeMap<OperatorId, Vec<usize>>) -> Result<(), SkipReason> {
        let operator = self.instance.operator(id);
        let first = self.forward_ways(operator, false);
        let recompute = operator.recomputable && self.modes.recompute;
        let again = if recompute { self.forward_ways(operator, true) } else { vec![] };
        if first.is_empty() {
            return Err(SkipReason(format!(
                "operator {} has no implementation that is out of place and reads no extra tensor",
                operator.file_id
            )));
        }
        let reads = operator.implementations.iter().flat_map(|way| &way.reads);
        let inputs = ascending(reads.filter_map(|read| self.of_tensor.get(read).copied()));
        let bytes: u64 = operator.outputs.iter().map(|&tensor| self.instance.tensor(tensor).bytes).sum();
        let at = self.nodes.len();
        let over = self.over(operator, &first[0], &[], bytes, false);
        let over_again = again.first().and_then(|way| self.over(operator, way, &[], bytes, operator.updates_state));
        let result = operator.outputs.iter().any(|&tensor| self.instance.is_result(tensor));
        let bytes = units(bytes);
        let node = Node {
            operator: id,
            parent: None,
            bytes,
            inputs,
            readers: vec![],
            first,
            again,
            over,
            over_again,
            result,
            last: 0,
        };
        self.nodes.push(node);
        self.of_tensor.extend(operator.outputs.iter().map(|&tensor| (tensor, at)));
        self.intermediates(id, at, chosen);
        Ok(())
    }

    /// The fastest in-place implementation that saves just these, relative to a way out of place.
    fn over(&self, operator: &Operator, plain: &Way, saves: &[TensorId], output: u64, recompute: bool) -> Option<Over> {
        let all = operator.implementations.iter().enumerate();
        let suits = |way: &Implementation| way.saves == saves && way.recompute == recompute && !self.reads_extra(way);
        let found = all
            .filter(|(_, way)| self.modes.in_place && suits(way))
            .filter_map(|(at, way)| Some((at, way, way.in_place?)));
        let (at, way, pair) = found.min_by_key(|(_, way, _)| way.time)?;
        let node = *self.of_tensor.get(&pair.input)?;
        // Only where the whole of the node's value is taken over.
        let single =
            self.instance.operator(self.nodes[node].operator).outputs.len() == 1 && operator.outputs.len() == 1;
        let saved: u64 = saves.iter().map(|&id| self.instance.tensor(id).bytes).sum();
        // The workspace of an intermediate was measured with the mask inside.
        let beside = units(i128::from(way.workspace_bytes + saved) - i128::from(output));
        // An intermediate's time is what its saving takes longer than the parent's own run in place.
        let without = operator.implementations.iter().filter(|way| way.in_place.is_some() && way.saves.is_empty());
        let without = if saves.is_empty() { 0 } else { without.map(|way| way.time).min().unwrap_or(way.time) };
        let time = time_units(way.time.saturating_sub(without)) - plain.time;
        single.then_some(Over { node, implementation: at, time, beside: beside - plain.beside })
    }

    /// One node per extra tensor that is worth it: saved by one implementation, and read by the backward pass.
    fn intermediates(&mut self, id: OperatorId, parent: usize, chosen: &BTreeMap<OperatorId, Vec<usize>>) {
        let operator = self.instance.operator(id);
        let read = |tensor: TensorId| {
            chosen.iter().any(|(&backward, ways)| {
                let implementations = &self.instance.operator(backward).implementations;
                ways.iter().any(|&way| implementations[way].reads.contains(&tensor))
            })
        };
        let saving = operator.implementations.iter().enumerate().filter(|(_, way)| {
            way.in_place.is_none()
                && !way.recompute
                && !self.reads_extra(way)
                && way.saves.len() == 1
                && read(way.saves[0])
        });
        let mut made = Vec::new();
        for (at, way) in saving {
            let saved = way.saves[0];
            if made.iter().any(|&(other, _)| other == saved) {
                continue;
            }
            let bytes = self.instance.tensor(saved).bytes;
            let base = self.nodes[parent].first[0];
            let extra = way.time.saturating_sub(operator.implementations[base.implementation].time);
            // The authors' workspace of the intermediate is that of the whole run, its mask included.
            let workspace = way.workspace_bytes + bytes;
            let plain = Way { implementation: at, time: time_units(extra), beside: units(workspace) };
            let output = operator.outputs.iter().map(|&tensor| self.instance.tensor(tensor).bytes).sum();
            let over = self.over(operator, &plain, &way.saves, output, false);
            let again = !operator.updates_state && operator.recomputable && self.modes.recompute;
            let node = Node {
                operator: id,
                parent: Some(parent),
                bytes: units(bytes),
                inputs: vec![parent],
                readers: vec![],
                first: vec![plain],
                again: if again { vec![plain] } else { vec![] },
                over,
                over_again: over.filter(|_| again),
                result: false,
                last: 0,
            };
            made.push((saved, node));
        }
        for (saved, node) in made {
            self.of_tensor.insert(saved, self.nodes.len());
            self.nodes.push(node);
        }
    }

    fn connect(&mut self) {
        for at in 0..self.nodes.len() {
            for input in self.nodes[at].inputs.clone() {
                self.nodes[input].readers.push(at);
            }
        }
    }

    /// Stage 0, and one stage per backward operator.
    fn stages(
        &self,
        backward: &[OperatorId],
        chosen: &BTreeMap<OperatorId, Vec<usize>>,
    ) -> Result<Vec<Stage>, SkipReason> {
        let base = self.instance.base_bytes();
        let alive = Gradients::new(self.instance, backward);
        let fixed = units(base);
        let mut stages = vec![Stage { operator: None, before: fixed, during: fixed, variants: vec![] }];
        for (at, &id) in backward.iter().enumerate() {
            let operator = self.instance.operator(id);
            let written: u64 = operator
                .outputs
                .iter()
                .filter(|&&tensor| !self.instance.is_result(tensor))
                .map(|&tensor| self.instance.tensor(tensor).bytes)
                .sum();
            let mut variants: Vec<Variant> = Vec::new();
            for &implementation in &chosen[&id] {
                let way = &operator.implementations[implementation];
                if way.in_place.is_some_and(|pair| alive.read_later(at, pair.input)) {
                    continue;
                }
                let reads = self.forward_reads(way)?;
                let taken = way.in_place.map_or(0, |pair| self.instance.tensor(pair.output).bytes);
                let beside = i128::from(way.workspace_bytes) - i128::from(taken);
                let beside = units(beside) + units(written);
                let way = Way { implementation, time: time_units(way.time), beside };
                match variants.iter_mut().find(|variant| variant.reads == reads) {
                    Some(variant) => variant.ways.push(way),
                    None => variants.push(Variant { reads, ways: vec![way] }),
                }
            }
            for variant in &mut variants {
                variant.ways = cheapest(std::mem::take(&mut variant.ways));
            }
            if variants.is_empty() {
                return Err(SkipReason(format!("backward operator {} has no usable implementation", operator.file_id)));
            }
            let (before, during) = alive.around(at, base);
            stages.push(Stage { operator: Some(id), before, during, variants });
        }
        Ok(stages)
    }

    /// Forward nodes that a backward implementation reads.
    fn forward_reads(&self, way: &Implementation) -> Result<Vec<usize>, SkipReason> {
        let mut reads = Vec::new();
        for &read in way.reads.iter().filter(|&&read| self.is_forward(read)) {
            let Some(&node) = self.of_tensor.get(&read) else {
                let name = &self.instance.tensor(read).name;
                return Err(SkipReason(format!("tensor {name:?} is saved together with others, or by no usable way")));
            };
            reads.push(node);
        }
        Ok(ascending(reads))
    }
}

/// Ways that no other beats in both time and memory, fastest first.
fn cheapest(ways: Vec<Way>) -> Vec<Way> {
    undominated(ways, |way| (way.time, way.beside, way.implementation), |_, _| true)
}

/// Which tensors of the backward pass are alive around each backward operator.
struct Gradients<'a> {
    instance: &'a Instance,
    backward: &'a [OperatorId],
    /// Position of the last backward operator that reads each tensor, in any implementation.
    last_read: BTreeMap<TensorId, usize>,
}

impl<'a> Gradients<'a> {
    fn new(instance: &'a Instance, backward: &'a [OperatorId]) -> Self {
        let mut last_read = BTreeMap::new();
        for (at, &id) in backward.iter().enumerate() {
            for read in instance.operator(id).implementations.iter().flat_map(|way| &way.reads) {
                last_read.insert(*read, at);
            }
        }
        Self { instance, backward, last_read }
    }

    fn read_later(&self, at: usize, tensor: TensorId) -> bool {
        self.instance.is_result(tensor) || self.last_read.get(&tensor).is_some_and(|&last| last > at)
    }

    /// Memory before and during a backward operator, without what it writes.
    fn around(&self, at: usize, base: u64) -> (i64, i64) {
        let (mut gradients, mut kept) = (0, 0);
        for &id in &self.backward[..at] {
            let outputs = &self.instance.operator(id).outputs;
            let needed = |tensor: TensorId| self.last_read.get(&tensor).is_some_and(|&last| last >= at);
            // The gradients of one operator go together.
            let together = outputs.iter().any(|&tensor| needed(tensor));
            for &tensor in outputs {
                let bytes = self.instance.tensor(tensor).bytes;
                if self.instance.tensor(tensor).kind == TensorKind::ParamGradient || self.instance.is_result(tensor) {
                    kept += bytes;
                } else if together {
                    gradients += bytes;
                }
            }
        }
        let made: u64 = {
            let outputs = self.instance.operator(self.backward[at]).outputs.iter();
            outputs.filter(|&&id| self.instance.is_result(id)).map(|&id| self.instance.tensor(id).bytes).sum()
        };
        let local = units(gradients + self.loss_bytes(at));
        (local + units(base + kept), local + units(base + kept + made))
    }

    /// What the loss makes is there as a gradient from its own making to its last reader.
    fn loss_bytes(&self, at: usize) -> u64 {
        let losses = self
            .instance
            .operators()
            .iter()
            .filter(|operator| operator.phase.is_forward() && operator.phase != remat_core::format::Phase::Forward);
        let outputs = losses.flat_map(|operator| &operator.outputs);
        let alive = outputs.filter(|tensor| self.last_read.get(tensor).is_some_and(|&last| last >= at));
        alive.map(|&tensor| self.instance.tensor(tensor).bytes).sum()
    }
}
