//! A checked instance: dense ids, views folded, every rule of docs/reference/formats.md known to hold.
//!
//! Built from a [`InstanceDocument`] by [`Instance::new`] (the rules are in `validate.rs`). Everything
//! downstream indexes tensors and operators by position and never checks an id again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use crate::format::{FixedBytes, InstanceDocument, Origin, Phase, Provenance, TensorKind, Units};
use crate::schedule::{Schedule, Step};
pub use crate::validate::{InstanceError, LARGEST_SUM};

/// Position of a tensor in [`Instance::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(u32);

/// Position of an operator in [`Instance::operators`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(u32);

macro_rules! dense_id {
    ($id:ident) => {
        impl $id {
            /// The id at a position.
            ///
            /// # Panics
            /// When the position does not fit 32 bits; instances are checked to be smaller.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("instances hold fewer than 2^32 elements"))
            }
            /// The position.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
dense_id!(TensorId);
dense_id!(OperatorId);

/// One storage.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Id in the file.
    pub file_id: u32,
    /// Name for people.
    pub name: String,
    /// Size, in [`Units::memory`].
    pub bytes: u64,
    /// Role.
    pub kind: TensorKind,
    /// Shape, where the file gives one.
    pub shape: Option<Vec<u64>>,
    /// The operator that makes it; none for inputs.
    pub producer: Option<OperatorId>,
}

/// One operator.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Id in the file.
    pub file_id: u32,
    /// Name for people.
    pub name: String,
    /// Type, e.g. `aten.convolution`.
    pub op_type: String,
    /// Pass that it belongs to.
    pub phase: Phase,
    /// For a backward operator, the forward operator that it differentiates.
    pub differentiates: Option<OperatorId>,
    /// Tensors that it makes whatever the implementation.
    pub outputs: Vec<TensorId>,
    /// Whether it may run more than once.
    pub recomputable: bool,
    /// Whether it draws random numbers.
    pub random: bool,
    /// Whether its first run changes state that outlives the iteration.
    pub updates_state: bool,
    /// Shapes, strides and the like, as the file has them.
    pub attributes: BTreeMap<String, serde_json::Value>,
    /// Ways to run it, the framework's default first.
    pub implementations: Vec<Implementation>,
}

/// One way to run an operator.
#[derive(Clone, Debug)]
pub struct Implementation {
    /// Name, unique within the operator.
    pub name: String,
    /// Duration of one run, in [`Units::time`].
    pub time: u64,
    /// Scratch memory during the run.
    pub workspace_bytes: u64,
    /// Tensors that it reads, each once.
    pub reads: Vec<TensorId>,
    /// Tensors that it makes besides the operator's outputs.
    pub saves: Vec<TensorId>,
    /// The output that takes over the buffer of an input.
    pub in_place: Option<InPlace>,
    /// Whether this is a second run that leaves state alone.
    pub recompute: bool,
}

/// An output that takes over the buffer of an input of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// One of the operator's outputs.
    pub output: TensorId,
    /// One of the tensors that the implementation reads; gone afterwards.
    pub input: TensorId,
}

/// One profiled training iteration, checked.
#[derive(Clone, Debug)]
pub struct Instance {
    pub(crate) name: String,
    pub(crate) units: Units,
    pub(crate) provenance: Provenance,
    pub(crate) fixed: FixedBytes,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) operators: Vec<Operator>,
    pub(crate) order: Vec<OperatorId>,
    pub(crate) hash: InstanceHash,
}

/// BLAKE3 of the instance's canonical JSON, the first 64 bits of it in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstanceHash([u8; 8]);

impl fmt::Display for InstanceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl InstanceHash {
    /// Hash of a document: of its compact JSON, so that white space and compression do not matter.
    pub fn of(document: &InstanceDocument) -> Self {
        let mut hasher = blake3::Hasher::new();
        serde_json::to_writer(&mut hasher, document).expect("a document always serialises");
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(prefix)
    }
}

impl Instance {
    /// Checks a document and makes its ids dense.
    ///
    /// # Errors
    /// The first rule that the document breaks, with the element that breaks it.
    pub fn new(document: &InstanceDocument) -> Result<Self, InstanceError> {
        crate::validate::instance(document)
    }

    /// Short name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Units of times and sizes.
    pub fn units(&self) -> Units {
        self.units
    }
    /// Where network and numbers come from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }
    /// Hash that identifies the instance in results.
    pub fn hash(&self) -> InstanceHash {
        self.hash
    }
    /// Bytes occupied during the whole iteration, by purpose.
    pub fn fixed(&self) -> FixedBytes {
        self.fixed
    }
    /// Bytes occupied during the whole iteration, all purposes together (inputs not included).
    pub fn fixed_bytes(&self) -> u64 {
        let f = self.fixed;
        f.parameters + f.buffers + f.optimizer_state + f.workspace
    }
    /// All tensors; [`TensorId`] is the position.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
    /// All operators; [`OperatorId`] is the position.
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }
    /// The framework's execution order.
    pub fn order(&self) -> &[OperatorId] {
        &self.order
    }
    /// The position of each operator in that order, by [`OperatorId`].
    pub fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(at, id)| positions[id.index()] = at);
        positions
    }
    /// The same instance with the order in which a schedule runs operators first, each as early as can be; what the schedule
    /// leaves out comes as soon as all that it may read is made. It keeps its hash: its schedules are the same.
    #[must_use]
    pub fn in_order_of(&self, schedule: &Schedule) -> Self {
        let mut rank = vec![0; self.operators.len()];
        for (at, step) in schedule.steps.iter().enumerate() {
            let Step::Compute { operator, .. } = *step else { continue };
            if rank[operator.index()] == 0 {
                rank[operator.index()] = at + 1;
            }
        }
        let mut waits = vec![0; self.operators.len()];
        let mut next: Vec<Vec<OperatorId>> = vec![Vec::new(); self.operators.len()];
        for id in self.operator_ids() {
            let ways = &self.operator(id).implementations;
            for producer in ways.iter().flat_map(|way| &way.reads).filter_map(|&tensor| self.tensor(tensor).producer) {
                waits[id.index()] += 1;
                next[producer.index()].push(id);
            }
        }
        let entry = |id: OperatorId| Reverse((rank[id.index()], id));
        let mut ready: BinaryHeap<_> = self.operator_ids().filter(|id| waits[id.index()] == 0).map(entry).collect();
        let mut order = Vec::with_capacity(rank.len());
        while let Some(Reverse((_, id))) = ready.pop() {
            order.push(id);
            for &reader in &next[id.index()] {
                waits[reader.index()] -= 1;
                if waits[reader.index()] == 0 {
                    ready.push(entry(reader));
                }
            }
        }
        debug_assert_eq!(order.len(), rank.len(), "a checked instance has no cycle over all implementations");
        Self { order, ..self.clone() }
    }

    /// One tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }
    /// One operator.
    pub fn operator(&self, id: OperatorId) -> &Operator {
        &self.operators[id.index()]
    }
    /// Ids of all tensors.
    pub fn tensor_ids(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..self.tensors.len()).map(TensorId::from_index)
    }
    /// Ids of all operators.
    pub fn operator_ids(&self) -> impl Iterator<Item = OperatorId> + use<> {
        (0..self.operators.len()).map(OperatorId::from_index)
    }
    /// Bytes of the tensors of kind `input`.
    pub fn input_bytes(&self) -> u64 {
        self.bytes_of(|tensor| tensor.kind == TensorKind::Input)
    }
    /// Bytes that are there whatever a schedule does: the fixed ones, and the inputs.
    pub fn base_bytes(&self) -> u64 {
        self.fixed_bytes() + self.input_bytes()
    }
    /// Bytes of the tensors that satisfy a predicate.
    pub fn bytes_of(&self, predicate: impl Fn(&Tensor) -> bool) -> u64 {
        self.tensors.iter().filter(|t| predicate(t)).map(|t| t.bytes).sum()
    }
    /// Whether a tensor must be resident when the schedule ends.
    pub fn is_result(&self, id: TensorId) -> bool {
        self.tensor(id).kind.is_result()
    }
    /// Whether a tensor is made by some implementations of its producer only: an extra saved one.
    pub fn is_extra(&self, id: TensorId) -> bool {
        self.tensor(id).producer.is_some_and(|producer| !self.operator(producer).outputs.contains(&id))
    }
}

impl TensorKind {
    /// Whether tensors of this kind must be resident when the schedule ends.
    pub fn is_result(self) -> bool {
        matches!(self, Self::ParamGradient | Self::Output)
    }

    /// All kinds, in the order of the tables.
    pub const ALL: [Self; 6] =
        [Self::Input, Self::Activation, Self::Saved, Self::Gradient, Self::ParamGradient, Self::Output];

    /// Name as in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Activation => "activation",
            Self::Saved => "saved",
            Self::Gradient => "gradient",
            Self::ParamGradient => "param_gradient",
            Self::Output => "output",
        }
    }
}

impl Origin {
    /// The kind in one word, as in the files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Modelled { .. } => "modelled",
            Self::Published { .. } => "published",
            Self::Generated { .. } => "generated",
            Self::Exact {} => "exact",
        }
    }
}

impl Phase {
    /// Whether operators of this phase belong to the forward graph.
    pub fn is_forward(self) -> bool {
        self != Self::Backward
    }
}

impl Tensor {
    /// What messages call it: id and name of the file.
    pub fn label(&self) -> String {
        format!("tensor {} {:?}", self.file_id, self.name)
    }
}

impl Operator {
    /// What messages call it: id and name of the file.
    pub fn label(&self) -> String {
        format!("operator {} {:?}", self.file_id, self.name)
    }

    /// Every tensor that the operator makes with an implementation: its outputs, then the extra saved ones.
    pub fn makes(&self, implementation: usize) -> impl Iterator<Item = TensorId> + '_ {
        self.outputs.iter().chain(&self.implementations[implementation].saves).copied()
    }

    /// Every tensor that the operator makes with any implementation: its outputs, then the extra saved ones.
    pub fn made(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.outputs.iter().chain(self.implementations.iter().flat_map(|way| &way.saves)).copied()
    }

    /// Every tensor that the operator reads with any implementation, once for each that does.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.implementations.iter().flat_map(|way| way.reads.iter().copied())
    }

    /// What it makes, then what it reads.
    pub fn touches(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.made().chain(self.reads())
    }

    /// Whether there are several implementations for the first run, or several for those after it.
    pub fn has_choice(&self) -> bool {
        let again = self.implementations.iter().filter(|implementation| implementation.recompute).count();
        again > 1 || self.implementations.len() - again > 1
    }
}
