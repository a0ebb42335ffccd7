//! Format v1 of an instance file: the serde types, exactly as they stand in JSON.
//!
//! Everything here is a document: ids are the file's own, nothing is checked beyond its JSON type.
//! [`crate::instance::Instance`] is what a checked document becomes; [`crate::io`] reads and writes.
//! The JSON Schema in `instances/instance.schema.json` is generated from these types, and docs/reference/formats.md
//! explains them with examples. This file must not know of methods, schedules or the simulator.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::object;

/// The value of [`InstanceDocument::format`].
pub const FORMAT_NAME: &str = "remat-instance";
/// The value of [`InstanceDocument::version`] that this program reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// One profiled training iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceDocument {
    /// Always `remat-instance`.
    pub format: String,
    /// Version of this format: 1.
    pub version: u32,
    /// Short name, unique in its folder; the file is usually called the same.
    pub name: String,
    /// Units of every time and every size in the file.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "object::one")]
    pub units: Units,
    /// Where the network and the numbers come from.
    #[serde(deserialize_with = "object::one")]
    pub provenance: Provenance,
    /// Bytes occupied during the whole iteration, besides the tensors listed below.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "object::one")]
    pub fixed_bytes: FixedBytes,
    /// Every storage of the iteration.
    #[serde(deserialize_with = "object::list")]
    pub tensors: Vec<TensorDocument>,
    /// Aliases of storages (reshape, transpose, expand, slice); an alias occupies no byte of its own
    /// and may be named wherever a tensor may. Folded into the storage on reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "object::list")]
    pub views: Vec<ViewDocument>,
    /// Every operator of the iteration.
    #[serde(deserialize_with = "object::list")]
    pub operators: Vec<OperatorDocument>,
    /// The framework's own execution order: each operator id once, in a topological order.
    pub order: Vec<u32>,
}

impl InstanceDocument {
    /// An instance with nothing in it.
    pub fn new(name: &str, units: Units, provenance: Provenance) -> Self {
        Self {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            name: name.into(),
            units,
            provenance,
            fixed_bytes: FixedBytes::default(),
            tensors: vec![],
            views: vec![],
            operators: vec![],
            order: vec![],
        }
    }

    /// Adds a tensor whose id is how many there were; returns it.
    pub(crate) fn add_tensor(&mut self, name: impl Into<String>, bytes: u64, kind: TensorKind) -> u32 {
        let id = u32::try_from(self.tensors.len()).expect("no file has 2^32 tensors");
        self.tensors.push(TensorDocument::new(id, name, bytes, kind));
        id
    }

    /// Adds an operator, the last one in the order.
    pub(crate) fn add_operator(&mut self, operator: OperatorDocument) {
        self.order.push(operator.id);
        self.operators.push(operator);
    }
}

/// Units of the numbers in an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Unit of `time` and `spread`.
    #[serde(default)]
    pub time: TimeUnit,
    /// Unit of `bytes`, `workspace_bytes` and the fixed bytes.
    #[serde(default)]
    pub memory: MemoryUnit,
}

/// Unit of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// Nanoseconds.
    #[default]
    Ns,
    /// A unit of the publication or the generator; tables then print no ms.
    Abstract,
}

/// Unit of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// A unit of the publication or the generator; tables then print no MB.
    Abstract,
}

/// Where an instance comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The network, as the profiler names it (`torchvision:resnet50`), or a title for other sources.
    pub model: String,
    /// Samples per iteration; throughput is this over the time of the iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    /// Shape of each network input, batch dimension first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_shapes: Vec<Vec<u64>>,
    /// Element type of the activations, e.g. `float32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The framework that executed or traced the network.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object::optional")]
    pub framework: Option<Software>,
    /// The device that the costs belong to.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object::optional")]
    pub device: Option<Device>,
    /// How the sizes of the tensors were obtained.
    #[serde(deserialize_with = "object::one")]
    pub sizes: Origin,
    /// How the times were obtained, unless an implementation says otherwise.
    #[serde(deserialize_with = "object::one")]
    pub times: Origin,
    /// How the workspaces were obtained, unless an implementation says otherwise.
    #[serde(deserialize_with = "object::one")]
    pub workspaces: Origin,
    /// The command that made the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Anything a reader should know: simplifications, adjustments, warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Provenance {
    /// Of numbers that all have one origin.
    pub fn new(model: impl Into<String>, origin: &Origin) -> Self {
        Self {
            model: model.into(),
            batch_size: None,
            input_shapes: vec![],
            dtype: None,
            framework: None,
            device: None,
            sizes: origin.clone(),
            times: origin.clone(),
            workspaces: origin.clone(),
            command: None,
            notes: vec![],
        }
    }

    /// Of a graph that no framework traced: sizes and times of one origin, no workspaces, and a note.
    pub fn of_graph(model: impl Into<String>, origin: &Origin, note: &str) -> Self {
        Self { workspaces: Origin::Exact {}, notes: vec![note.into()], ..Self::new(model, origin) }
    }
}

/// A program and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Name, e.g. `pytorch`.
    pub name: String,
    /// Version as the program prints it.
    pub version: String,
}

/// A device and its software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Name as the driver prints it, or the name of the preset of a cost model.
    pub name: String,
    /// Memory of the device; absent for devices without a memory of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Driver version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// CUDA version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// cuDNN version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cudnn: Option<String>,
}

/// How a number was obtained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Origin {
    /// Measured on the device of the provenance.
    Measured {
        /// Number of repetitions behind each number.
        samples: u32,
        /// Statistic over the repetitions, e.g. `median`.
        statistic: String,
    },
    /// Computed by a cost model.
    Modelled {
        /// Name of the model and of its preset.
        model: String,
        /// Parameters of the model.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
        parameters: BTreeMap<String, f64>,
    },
    /// Taken from a publication.
    Published {
        /// The publication.
        paper: String,
        /// The table or figure.
        #[serde(rename = "where")]
        location: String,
    },
    /// Made by a generator.
    Generated {
        /// Name of the generator.
        generator: String,
        /// Its parameters.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
        parameters: BTreeMap<String, f64>,
        /// Its seed, where it draws random numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
    },
    /// Exact by construction (for example element count times element size).
    Exact {},
}

/// Bytes occupied during the whole iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedBytes {
    /// Trainable parameters.
    #[serde(default)]
    pub parameters: u64,
    /// Buffers, such as running statistics.
    #[serde(default)]
    pub buffers: u64,
    /// State of the optimizer.
    #[serde(default)]
    pub optimizer_state: u64,
    /// Workspace that a library keeps for the whole iteration.
    #[serde(default)]
    pub workspace: u64,
}

/// One storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorDocument {
    /// Id, unique among tensors and views.
    pub id: u32,
    /// Name for people.
    pub name: String,
    /// Size of the storage.
    pub bytes: u64,
    /// Role of the storage.
    pub kind: TensorKind,
    /// Shape, where the storage is one dense tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    /// Element type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
}

impl TensorDocument {
    /// A tensor whose shape is not told.
    pub fn new(id: u32, name: impl Into<String>, bytes: u64, kind: TensorKind) -> Self {
        Self { id, name: name.into(), bytes, kind, shape: None, dtype: None }
    }
}

/// Role of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TensorKind {
    /// There before the first step, and resident for the whole iteration.
    Input,
    /// Made by the forward pass and read by the forward pass.
    Activation,
    /// Made by the forward pass, read by the backward pass only: a mask, indices, statistics.
    Saved,
    /// Made by the backward pass and used up by it.
    Gradient,
    /// Gradient of a parameter: resident at the end.
    ParamGradient,
    /// Result of the iteration (the loss, say): resident at the end.
    Output,
}

/// An alias of a storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewDocument {
    /// Id, unique among tensors and views.
    pub id: u32,
    /// Name for people.
    pub name: String,
    /// The tensor or view that this one aliases.
    pub of: u32,
}

/// One operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorDocument {
    /// Id, unique among operators.
    pub id: u32,
    /// Name for people.
    pub name: String,
    /// Type, e.g. `aten.convolution`.
    pub op_type: String,
    /// Pass that the operator belongs to.
    pub phase: Phase,
    /// For a backward operator: the forward operator that it differentiates. Absent where there is
    /// none (the sum of two gradients of one tensor, say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differentiates: Option<u32>,
    /// Tensors that it reads, unless an implementation says otherwise. Parameters are not listed:
    /// they are always there.
    pub inputs: Vec<u32>,
    /// Tensors that it makes, whatever the implementation.
    pub outputs: Vec<u32>,
    /// Whether it may run more than once. Default: yes in the forward pass and the loss, no in the
    /// backward pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recomputable: Option<bool>,
    /// Whether it draws random numbers, so that a second run must replay the generator's state.
    #[serde(default, skip_serializing_if = "is_default")]
    pub random: bool,
    /// Whether its first run changes state that outlives the iteration (running statistics). Every
    /// further run must use an implementation marked `recompute`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updates_state: bool,
    /// Type-specific facts (stride, padding, groups, ...), for tools that look costs up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
    pub attributes: BTreeMap<String, serde_json::Value>,
    /// Ways to run it, the framework's default first. At least one.
    #[serde(deserialize_with = "object::list")]
    pub implementations: Vec<ImplementationDocument>,
}

impl OperatorDocument {
    /// An operator that reads and makes nothing, and has no implementation.
    pub fn new(id: u32, name: impl Into<String>, op_type: &str, phase: Phase) -> Self {
        Self {
            id,
            name: name.into(),
            op_type: op_type.into(),
            phase,
            differentiates: None,
            inputs: vec![],
            outputs: vec![],
            recomputable: None,
            random: false,
            updates_state: false,
            attributes: BTreeMap::new(),
            implementations: vec![],
        }
    }
}

/// Pass of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The network itself.
    Forward,
    /// The loss, on top of the network; a forward operator in every other respect.
    Loss,
    /// Differentiation.
    Backward,
}

/// One way to run an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImplementationDocument {
    /// Name, unique within the operator: `default`, `cudnn:WINOGRAD_NONFUSED`, `relu:from-mask`, ...
    pub name: String,
    /// Duration of one run.
    pub time: u64,
    /// Scratch memory during the run, beside inputs and outputs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workspace_bytes: u64,
    /// Tensors that this implementation reads, where they differ from the operator's inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<u32>>,
    /// Tensors of kind `saved` that this implementation makes besides the operator's outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saves: Vec<u32>,
    /// The output that takes over the buffer of an input, which is then gone.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object::optional")]
    pub in_place: Option<InPlaceDocument>,
    /// Whether this is a second run that leaves state alone; only for operators that update state.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recompute: bool,
    /// Spread of the repeated measurements of `time` (interquartile range).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<u64>,
    /// How `time` and `workspace_bytes` were obtained, where it differs from the provenance.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object::optional")]
    pub origin: Option<Origin>,
}

impl ImplementationDocument {
    /// An implementation that reads the operator's inputs and makes its outputs, and nothing else.
    pub fn plain(name: &str, time: u64, workspace_bytes: u64) -> Self {
        Self {
            name: name.into(),
            time,
            workspace_bytes,
            inputs: None,
            saves: vec![],
            in_place: None,
            recompute: false,
            spread: None,
            origin: None,
        }
    }
}

/// An output that takes over the buffer of an input of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InPlaceDocument {
    /// One of the operator's outputs.
    pub output: u32,
    /// One of the tensors that the implementation reads; gone afterwards.
    pub input: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a map in which no key is repeated.
fn each_once<'de, D: Deserializer<'de>, V: Deserialize<'de>>(from: D) -> Result<BTreeMap<String, V>, D::Error> {
    struct Once<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Once<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry()? {
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    from.deserialize_map(Once(PhantomData))
}
