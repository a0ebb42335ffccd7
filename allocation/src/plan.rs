//! A plan: the address of every buffer of a schedule, and its file. [`crate::confirm`] checks one.

use remat_core::{Instance, TensorId};
use serde::{Deserialize, Serialize};

use crate::lifetimes::{Content, Lifetimes};
use crate::method::Answer;
use crate::problem::{Buffer, Problem};

/// The value of [`PlanDocument::format`].
pub const FORMAT_NAME: &str = "remat-arena";
/// The value of [`PlanDocument::version`].
pub const FORMAT_VERSION: u32 = 1;

/// A plan file. Sizes and offsets are in the instance's unit of memory, moments are positions of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// Always `remat-arena`.
    pub format: String,
    /// Version of this format: 1.
    pub version: u32,
    /// Name of the instance.
    pub instance: String,
    /// Its hash.
    pub instance_hash: String,
    /// The method that chose the offsets.
    pub method: String,
    /// Offsets and sizes are multiples of this.
    pub alignment: u64,
    /// Size of the arena: no buffer ends above it.
    pub height: u64,
    /// No arena is smaller.
    pub bound: u64,
    /// What is occupied outside of the arena, all the time.
    pub fixed_bytes: u64,
    /// The buffers, in the order in which they begin to live.
    pub buffers: Vec<PlacedDocument>,
}

/// One buffer: alive at the steps `lower..upper`, at the addresses `offset..offset + size` of the arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedDocument {
    /// Name, unique within the plan.
    pub id: String,
    /// First step.
    pub lower: u64,
    /// First step after it.
    pub upper: u64,
    /// Bytes, rounded up to the alignment.
    pub size: u64,
    /// First address.
    pub offset: u64,
    /// The tensors in it, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<HeldDocument>,
    /// Or the operator whose workspace it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_of: Option<u32>,
}

/// A tensor in a buffer, until the next one or the buffer's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldDocument {
    /// Id of the tensor.
    pub tensor: u32,
    /// First step.
    pub from: u64,
}

impl PlanDocument {
    /// The plan that puts the buffers of a schedule where an answer of a method has them.
    pub fn new(instance: &Instance, lifetimes: &Lifetimes, problem: &Problem, answer: &Answer, method: &str) -> Self {
        let held = |&(from, tensor): &(u64, TensorId)| HeldDocument { tensor: instance.tensor(tensor).file_id, from };
        let placed = problem.buffers().iter().zip(&lifetimes.contents).zip(&answer.offsets);
        let buffers = placed.map(|((Buffer { id, lower, upper, size }, content), &offset)| PlacedDocument {
            id: id.clone(),
            lower: *lower,
            upper: *upper,
            size: *size,
            offset,
            tensors: match content {
                Content::Tensors(tensors) => tensors.iter().map(held).collect(),
                Content::Workspace(_) => vec![],
            },
            workspace_of: match content {
                Content::Tensors(_) => None,
                Content::Workspace(operator) => Some(instance.operator(*operator).file_id),
            },
        });
        Self {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            instance: instance.name().into(),
            instance_hash: instance.hash().to_string(),
            method: method.into(),
            alignment: problem.alignment(),
            height: answer.height,
            bound: answer.bound,
            fixed_bytes: lifetimes.fixed_bytes,
            buffers: buffers.collect(),
        }
    }
}
