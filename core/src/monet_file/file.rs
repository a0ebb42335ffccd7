//! What stands in a profile of MONeT; fields that the instance needs no more are skipped.

use serde::Deserialize;

/// One profile.
#[derive(Clone, Debug, Deserialize)]
pub struct MonetFile {
    /// Network.
    pub model: String,
    /// Samples per iteration.
    pub batch: u64,
    /// Which implementations were profiled.
    pub mode: String,
    /// Where the numbers are from.
    #[serde(default)]
    pub source: String,
    /// Id of the loss: below are forward nodes, above are backward nodes.
    pub loss: u32,
    /// Nodes whose convolution algorithm is chosen.
    #[serde(default)]
    pub conv_list: Vec<u32>,
    /// Pairs \[v, u\]: node v may overwrite its input u.
    #[serde(default)]
    pub inplace_list: Vec<[u32; 2]>,
    /// All nodes, by id.
    pub nodes: Vec<Node>,
}

/// One node.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// Position in the file.
    pub id: u32,
    /// `forward`, `intermediate`, `loss` or `backward`.
    pub kind: String,
    /// Operator.
    pub op: String,
    /// Output; of a backward node all gradients that it writes.
    pub mem_bytes: u64,
    /// Parameters, network input and, in the backward pass, gradients of parameters so far.
    pub fixed_mem_bytes: u64,
    /// What each variant reads.
    pub deps: Vec<Variant>,
    /// Workspace of each variant or algorithm, MiB.
    pub ws_mib: Vec<f64>,
    /// Time of each, ms.
    pub ms: Vec<f64>,
    /// The same for a repeated run.
    pub re_ws_mib: Vec<f64>,
    /// The same for a repeated run.
    pub re_ms: Vec<f64>,
    /// The same in place.
    pub ip_ws_mib: Vec<f64>,
    /// The same in place.
    pub ip_ms: Vec<f64>,
    /// Of a forward node: its predecessors.
    #[serde(default)]
    pub inbound: Vec<u32>,
    /// Of a forward node: pairs of a variant and the intermediate node that it makes.
    #[serde(default)]
    pub intermediates: Vec<[u32; 2]>,
    /// Of a backward node: what it differentiates.
    #[serde(default)]
    pub fwd_node: Option<u32>,
    /// Of a backward node: `param_grad` or `ip_grad`.
    #[serde(default)]
    pub part: Option<String>,
    /// Of a backward node: shapes of the gradients that it writes, -1 for the batch.
    #[serde(default)]
    pub grad_shapes: Vec<Vec<i64>>,
    /// Of a backward node: gradients of parameters that it makes.
    #[serde(default)]
    pub stored_param_grad_bytes: u64,
}

/// What one variant of a node reads.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Variant {
    /// Forward nodes.
    #[serde(default)]
    pub fwd: Vec<u32>,
    /// Backward nodes.
    #[serde(default)]
    pub bwd: Vec<u32>,
}
