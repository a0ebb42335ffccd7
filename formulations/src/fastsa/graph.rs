//! The computational graph of the annealer: nodes with their variants, and the values between them.
//!
//! A node is an operator, or a group of operators (`group.rs`); a variant is one of its implementations.
//! Model inputs are no values: they are always there. Knows nothing of sequences.

use std::ops::Range;

use remat_core::format::Phase;
use remat_core::liveness::Compute;
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, TensorId, TransferRates};

use super::transfer::{Transfer, make_copies, transfers};
use crate::method::SkipReason;
use crate::store_all::store_all;

/// Bytes or times beyond which sums of a few of them might overflow.
pub const LARGEST_SUM: u64 = 1 << 60;

/// No variant.
pub const NONE: u32 = u32::MAX;

/// One value: a tensor that some operator makes, the copy of it on the host, or the mark of an operator that must run and
/// whose implementations need not make the same.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// The tensor.
    pub tensor: TensorId,
    /// Size s(v).
    pub bytes: i64,
    /// Whether it must be there at the end.
    pub result: bool,
    /// Whether some variant overwrites it in place.
    pub overwritable: bool,
}

/// An operator or a group of operators.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// First of its variants.
    pub first_variant: u32,
    /// Number of its variants.
    pub variants: u32,
    /// Whether it may run more than once.
    pub recomputable: bool,
    /// Whether it has to run.
    pub must: bool,
    /// Whether further runs need other variants than the first, which updates state.
    pub state: bool,
}

/// One way to run a node.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The node.
    pub node: u32,
    /// Duration c(n).
    pub time: u64,
    /// Memory that is there during the run only s'(n): workspace, and what a group makes and drops.
    pub extra: i64,
    /// Whether this is for further runs of a node whose first run needs another variant.
    pub again: bool,
    /// The transfer, by position, where this is a fetch; or [`NONE`].
    pub transfer: u32,
    reads: (u32, u32),
    makes: (u32, u32),
    steps: (u32, u32),
}

/// A value that is read: its number, and whether the reader overwrites it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Read(u32);

impl Read {
    /// A value that is read, and maybe overwritten.
    pub fn new(value: u32, overwrites: bool) -> Self {
        Self(value << 1 | u32::from(overwrites))
    }
    /// The value.
    #[inline]
    pub fn value(self) -> usize {
        (self.0 >> 1) as usize
    }
    /// 1 where the reader overwrites it, or else 0.
    #[inline]
    pub fn overwrites(self) -> u32 {
        self.0 & 1
    }
}

/// Nodes, variants and values.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Variants of all nodes.
    pub variants: Vec<Variant>,
    /// Values.
    pub values: Vec<Value>,
    /// Fixed bytes and inputs.
    pub base: u64,
    /// What may be fetched.
    pub transfers: Vec<Transfer>,
    /// By value: the variant that fetches it, or [`NONE`]; empty where nothing is.
    pub fetch_of: Vec<u32>,
    reads: Vec<Read>,
    makes: Vec<u32>,
    steps: Vec<Compute>,
}

/// What a variant is made of.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Duration.
    pub time: u64,
    /// Memory during the run only.
    pub extra: i64,
    /// Whether it is for further runs only.
    pub again: bool,
    /// Values read.
    pub reads: Vec<Read>,
    /// Values made.
    pub makes: Vec<u32>,
    /// Operators run, with their implementations.
    pub steps: Vec<Compute>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new(values: Vec<Value>, base: u64) -> Self {
        Self { values, base, ..Self::default() }
    }

    /// Values that a variant reads.
    #[inline]
    pub fn reads(&self, variant: u32) -> &[Read] {
        let (from, to) = self.variants[variant as usize].reads;
        &self.reads[from as usize..to as usize]
    }

    /// Values that a variant makes.
    #[inline]
    pub fn makes(&self, variant: u32) -> &[u32] {
        let (from, to) = self.variants[variant as usize].makes;
        &self.makes[from as usize..to as usize]
    }

    /// The operators that a variant runs.
    pub fn steps(&self, variant: u32) -> &[Compute] {
        let (from, to) = self.variants[variant as usize].steps;
        &self.steps[from as usize..to as usize]
    }

    /// The node of a variant.
    #[inline]
    pub fn node(&self, variant: u32) -> &Node {
        &self.nodes[self.variants[variant as usize].node as usize]
    }

    /// Variants of a node.
    pub fn variants_of(&self, node: usize) -> Range<u32> {
        let node = &self.nodes[node];
        node.first_variant..node.first_variant + node.variants
    }

    /// Adds a node with its variants.
    pub fn push(&mut self, recomputable: bool, must: bool, state: bool, variants: &[Parts]) {
        let node = index(self.nodes.len());
        let first_variant = index(self.variants.len());
        for parts in variants {
            let reads = (index(self.reads.len()), index(self.reads.len() + parts.reads.len()));
            let makes = (index(self.makes.len()), index(self.makes.len() + parts.makes.len()));
            let steps = (index(self.steps.len()), index(self.steps.len() + parts.steps.len()));
            self.reads.extend(&parts.reads);
            self.makes.extend(&parts.makes);
            self.steps.extend(&parts.steps);
            let &Parts { time, extra, again, .. } = parts;
            self.variants.push(Variant { node, time, extra, again, transfer: NONE, reads, makes, steps });
            for read in parts.reads.iter().filter(|read| read.overwrites() == 1) {
                self.values[read.value()].overwritable = true;
            }
        }
        self.nodes.push(Node { first_variant, variants: index(variants.len()), recomputable, must, state });
    }
}

/// The graph of an instance's operators, and a sequence to start from.
#[derive(Clone, Debug)]
pub struct Operators {
    /// A node for each operator.
    pub graph: Graph,
    /// Every operator that serves a purpose once, in the instance's order: variants.
    pub start: Vec<u32>,
    /// By node: the variant of a further run that reads no more than the first one and makes the same, where there is one.
    pub again: Vec<Option<u32>>,
    /// A peak that no schedule undercuts.
    pub least_peak: u64,
}

impl Operators {
    /// The graph; with `alternatives`, of all implementations, or else of the fastest ones only; with
    /// `rates`, of fetches too.
    ///
    /// # Errors
    /// The numbers are too large, or one implementation for each operator is not enough.
    pub fn new(instance: &Instance, alternatives: bool, rates: Option<TransferRates>) -> Result<Self, SkipReason> {
        check_sums(instance)?;
        let plan = Plan::fastest(instance);
        store_all(instance, &plan)?;
        let (mut values, value_of) = values(instance);
        let transfers = rates.map_or(Ok(Vec::new()), |rates| transfers(&mut values, rates))?;
        let base = instance.base_bytes();
        let mut built =
            Self { graph: Graph::new(values, base), start: Vec::new(), again: Vec::new(), least_peak: base };
        let mut first = Vec::new();
        for id in instance.operator_ids() {
            first.push(built.add(instance, &plan, (&value_of, &transfers), id, alternatives));
        }
        for transfer in transfers {
            built.graph.push_fetch(transfer);
        }
        let needed = needed(instance, &plan);
        let order = instance.order().iter().filter(|id| needed[id.index()]);
        built.start = order.map(|id| first[id.index()]).collect();
        built.bound();
        Ok(built)
    }

    /// Adds an operator; returns the variant of its first run.
    fn add(
        &mut self,
        instance: &Instance,
        plan: &Plan,
        (value_of, transfers): (&[Option<u32>], &[Transfer]),
        id: OperatorId,
        alternatives: bool,
    ) -> u32 {
        let operator = instance.operator(id);
        let (first, again) = (plan.saving[id.index()], plan.saving_again[id.index()]);
        let mut chosen: Vec<usize> = (0..operator.implementations.len()).collect();
        chosen.retain(|&way| alternatives || way == first || Some(way) == again);
        let mut parts: Vec<Parts> = chosen.iter().map(|&way| parts(instance, value_of, id, way)).collect();
        for parts in &mut parts {
            make_copies(transfers, parts);
        }
        // Where each has its one implementation, which runs are further ones is told apart as with state.
        let told = operator.updates_state || !alternatives && again != Some(first);
        if told && !alternatives {
            for (parts, &way) in parts.iter_mut().zip(&chosen) {
                parts.again = Some(way) == again;
            }
        }
        let must = operator.phase == Phase::Backward || operator.updates_state;
        let saved = operator.made().next().filter(|_| must && operator.outputs.is_empty());
        if let Some(tensor) = saved {
            let mark = index(self.graph.values.len());
            self.graph.values.push(Value { tensor, bytes: 0, result: true, overwritable: false });
            for parts in &mut parts {
                parts.makes.insert(0, mark);
            }
        }
        let position = |way| chosen.iter().position(|&other| other == way);
        let offset = index(self.graph.variants.len());
        let variant = |way| position(way).map(|at| offset + index(at));
        let replaces = |way| {
            let both = position(way).zip(position(first)).map(|(way, first)| (&parts[way], &parts[first]));
            both.is_some_and(|(a, b)| a.makes == b.makes && a.reads.iter().all(|read| b.reads.contains(read)))
        };
        let repeated = again.filter(|&way| operator.recomputable && replaces(way)).and_then(variant);
        let possible = !told || parts.iter().any(|parts| parts.again);
        let recomputable = operator.recomputable && possible && parts.iter().any(|parts| !parts.makes.is_empty());
        self.graph.push(recomputable, must, told, &parts);
        self.again.push(repeated.filter(|_| recomputable));
        variant(first).unwrap_or(offset)
    }

    /// Bytes of the model inputs that a variant reads.
    pub fn input_bytes(&self, instance: &Instance, variant: u32) -> i64 {
        let inputs = self.graph.steps(variant).iter().flat_map(|&(operator, way)| {
            let reads = &instance.operator(operator).implementations[way].reads;
            reads.iter().map(|&id| instance.tensor(id)).filter(|tensor| tensor.producer.is_none())
        });
        signed(inputs.map(|tensor| tensor.bytes).sum())
    }

    /// The peak below which no schedule gets: of the results, and of each operator that must run.
    fn bound(&mut self) {
        let graph = &self.graph;
        let results: u64 = graph.values.iter().filter(|v| v.result).map(|v| v.bytes.unsigned_abs()).sum();
        let during = |variant: u32| {
            let reads = graph.reads(variant).iter();
            let read = reads.filter(|read| read.overwrites() == 0).map(|read| graph.values[read.value()].bytes);
            let made = graph.makes(variant).iter().map(|&value| graph.values[value as usize].bytes);
            (read.sum::<i64>() + made.sum::<i64>() + graph.variants[variant as usize].extra).unsigned_abs()
        };
        let musts = (0..graph.nodes.len()).filter(|&node| graph.nodes[node].must);
        let least = musts.filter_map(|node| graph.variants_of(node).map(during).min()).max().unwrap_or(0);
        self.least_peak = graph.base + least.max(results);
    }
}

fn check_sums(instance: &Instance) -> Result<(), SkipReason> {
    let implementations = || instance.operators().iter().flat_map(|operator| &operator.implementations);
    let bytes = instance.tensors().iter().map(|tensor| tensor.bytes);
    let sizes: u128 = bytes.chain(implementations().map(|v| v.workspace_bytes)).map(u128::from).sum();
    let times: u128 = implementations().map(|v| u128::from(v.time)).sum();
    let too_large = |sum: u128, what| {
        SkipReason(format!("{what} sum to {sum}; the annealer counts up to {LARGEST_SUM}, give them in a larger unit"))
    };
    if sizes + u128::from(instance.fixed_bytes()) > u128::from(LARGEST_SUM) {
        return Err(too_large(sizes, "sizes and workspaces"));
    }
    if times > u128::from(LARGEST_SUM) {
        return Err(too_large(times, "times"));
    }
    Ok(())
}

fn values(instance: &Instance) -> (Vec<Value>, Vec<Option<u32>>) {
    let mut values = Vec::new();
    let mut value_of = vec![None; instance.tensors().len()];
    for id in instance.tensor_ids().filter(|&id| instance.tensor(id).producer.is_some()) {
        value_of[id.index()] = Some(index(values.len()));
        let bytes = signed(instance.tensor(id).bytes);
        values.push(Value { tensor: id, bytes, result: instance.is_result(id), overwritable: false });
    }
    (values, value_of)
}

fn parts(instance: &Instance, value_of: &[Option<u32>], id: OperatorId, way: usize) -> Parts {
    let operator = instance.operator(id);
    let implementation = &operator.implementations[way];
    let overwritten = implementation.in_place.map(|pair| pair.input);
    let read = |&tensor: &remat_core::TensorId| {
        value_of[tensor.index()].map(|value| Read::new(value, overwritten == Some(tensor)))
    };
    Parts {
        time: implementation.time,
        extra: signed(implementation.workspace_bytes),
        again: implementation.recompute,
        reads: implementation.reads.iter().filter_map(read).collect(),
        makes: operator.makes(way).filter_map(|tensor| value_of[tensor.index()]).collect(),
        steps: vec![(id, way)],
    }
}

/// Operators that must run, or make what is needed: dead code is left out (appendix D.1).
fn needed(instance: &Instance, plan: &Plan) -> Vec<bool> {
    let mut wanted: Vec<bool> = instance.tensor_ids().map(|id| instance.is_result(id)).collect();
    let mut needed = vec![false; instance.operators().len()];
    for &id in instance.order().iter().rev() {
        let operator = instance.operator(id);
        let way = plan.saving[id.index()];
        let must = operator.phase == Phase::Backward || operator.updates_state;
        if must || operator.makes(way).any(|tensor| wanted[tensor.index()]) {
            needed[id.index()] = true;
            for read in &operator.implementations[way].reads {
                wanted[read.index()] = true;
            }
        }
    }
    needed
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("sums are checked to be below 2^60")
}

/// An index of something of which there are fewer than 2^31.
pub fn index(position: usize) -> u32 {
    u32::try_from(position).expect("instances hold fewer than 2^32 elements")
}
