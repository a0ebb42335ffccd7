//! Node-link JSON of a directed graph, as Checkmate's and Moccasin's training graphs are published,
//! and the instance that such a graph becomes.
//!
//! Each node is an operator with one output. Costs are `cost_cpu` and `cost_ram`, or `duration` and
//! `out_cost`; edges have `source` and `target`, or are pairs. The order is `graph.order` or the ids'.
//! Everything may run again, there is no workspace, and what nobody reads is of no further use; in a
//! graph without a backward pass it is the result, or else nothing at all would have to run.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::format::{
    ImplementationDocument, InstanceDocument, MemoryUnit, OperatorDocument, Origin, Phase, Provenance, TensorDocument,
    TensorKind, TimeUnit, Units,
};
use crate::object;
use crate::validate;

/// A graph file.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeLinkFile {
    /// Whether edges have a direction; so they have where nothing says otherwise.
    pub directed: Option<bool>,
    /// Attributes of the graph.
    #[serde(default, deserialize_with = "object::one")]
    pub graph: Attributes,
    /// The operators.
    #[serde(deserialize_with = "object::list")]
    pub nodes: Vec<Node>,
    /// The edges.
    #[serde(alias = "edges")]
    pub links: Vec<Link>,
}

/// Attributes of a graph; others than these are left out.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Attributes {
    /// Ids of the nodes, in order of execution.
    pub order: Option<Vec<u32>>,
    /// Title, where it is a text.
    pub name: Option<Title>,
}

/// A title, or something that is none.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Title {
    /// A text.
    Text(String),
    /// Something else.
    Other(IgnoredAny),
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "WrittenNode")]
pub struct Node {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: Option<String>,
    /// Whether it belongs to the backward pass.
    pub backward: bool,
    /// Duration.
    pub cost_cpu: f64,
    /// Size of its output.
    pub cost_ram: f64,
}

/// A node as it stands in a file: Moccasin's random graphs have no ids, but names that are numbers.
#[derive(Deserialize)]
struct WrittenNode {
    id: Option<u32>,
    name: Option<Name>,
    #[serde(default)]
    backward: bool,
    #[serde(alias = "duration")]
    cost_cpu: f64,
    #[serde(alias = "out_cost")]
    cost_ram: f64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u32),
    Text(String),
}

impl TryFrom<WrittenNode> for Node {
    type Error = String;

    fn try_from(written: WrittenNode) -> Result<Self, String> {
        let WrittenNode { id, name, backward, cost_cpu, cost_ram } = written;
        let (id, name) = match (id, name) {
            (id, Some(Name::Number(number))) => (id.unwrap_or(number), Some(number.to_string())),
            (Some(id), Some(Name::Text(name))) => (id, Some(name)),
            (Some(id), None) => (id, None),
            (None, _) => return Err("a node has no id; give it one, or a number for its name".into()),
        };
        Ok(Self { id, name, backward, cost_cpu, cost_ram })
    }
}

/// An edge.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected an edge: {\"source\": 0, \"target\": 1}, or a pair of ids such as [0, 1]")]
pub enum Link {
    /// With named ends.
    Named {
        /// From.
        #[serde(alias = "0")]
        source: u32,
        /// To.
        #[serde(alias = "1")]
        target: u32,
    },
    /// A pair.
    Pair(u32, u32),
}

/// A graph file that makes no instance.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NodeLinkError {
    /// Edges say who is next to whom, not who reads whom.
    #[error("the graph is not directed; expected edges from what is read to what reads it, and \"directed\": true")]
    Undirected,
    /// An edge names a node that is not there.
    #[error("edge {from} -> {to}: there is no node {missing}; list it under \"nodes\"")]
    Dangling {
        /// Source.
        from: u32,
        /// Target.
        to: u32,
        /// Which one is missing.
        missing: u32,
    },
    /// A cost is no whole number that instances can hold.
    #[error("node {node}: its {what} is {value}; expected a whole number from 0 to 2^53")]
    Cost {
        /// The node.
        node: u32,
        /// Duration or size.
        what: &'static str,
        /// What was found.
        value: f64,
    },
}

/// The instance of a graph; its rules (no cycle, a topological order) are checked as for every other.
///
/// # Errors
/// What is wrong with the graph.
pub fn instance_of(name: &str, file: &NodeLinkFile, origin: &Origin) -> Result<InstanceDocument, NodeLinkError> {
    if file.directed == Some(false) {
        return Err(NodeLinkError::Undirected);
    }
    let reads = reads(file)?;
    let mut tensors = Vec::new();
    let mut operators = Vec::new();
    let forward_only = !file.nodes.iter().any(|node| node.backward);
    let read: HashSet<u32> = reads.values().flatten().copied().collect();
    for node in &file.nodes {
        let label = node.name.clone().unwrap_or_else(|| node.id.to_string());
        let kind = match node.backward {
            true => TensorKind::Gradient,
            false if forward_only && !read.contains(&node.id) => TensorKind::Output,
            false => TensorKind::Activation,
        };
        let bytes = whole(node.id, "size", node.cost_ram)?;
        tensors.push(TensorDocument::new(node.id, &label, bytes, kind));
        operators.push(operator(node, label, reads.get(&node.id).cloned().unwrap_or_default())?);
    }
    let units = Units { time: TimeUnit::Abstract, memory: MemoryUnit::Bytes };
    let document = InstanceDocument::new(name, units, provenance(name, file, origin));
    Ok(InstanceDocument { tensors, operators, order: order(file), ..document })
}

fn provenance(name: &str, file: &NodeLinkFile, origin: &Origin) -> Provenance {
    let title = match &file.graph.name {
        Some(Title::Text(title)) => title.as_str(),
        _ => name,
    };
    Provenance::of_graph(
        title,
        origin,
        "one output per operator; everything may run again; no workspaces, no parameters",
    )
}

/// What each node reads, each once.
fn reads(file: &NodeLinkFile) -> Result<HashMap<u32, Vec<u32>>, NodeLinkError> {
    let mut reads: HashMap<u32, Vec<u32>> = file.nodes.iter().map(|node| (node.id, vec![])).collect();
    let mut seen = HashSet::with_capacity(file.links.len());
    for link in &file.links {
        let (from, to) = match *link {
            Link::Named { source, target } | Link::Pair(source, target) => (source, target),
        };
        if let Some(&missing) = [from, to].iter().find(|id| !reads.contains_key(id)) {
            return Err(NodeLinkError::Dangling { from, to, missing });
        }
        if seen.insert((from, to)) {
            reads.entry(to).or_default().push(from);
        }
    }
    Ok(reads)
}

fn operator(node: &Node, name: String, inputs: Vec<u32>) -> Result<OperatorDocument, NodeLinkError> {
    let time = whole(node.id, "duration", node.cost_cpu)?;
    let phase = if node.backward { Phase::Backward } else { Phase::Forward };
    Ok(OperatorDocument {
        inputs,
        outputs: vec![node.id],
        recomputable: Some(true),
        implementations: vec![ImplementationDocument::plain("default", time, 0)],
        ..OperatorDocument::new(node.id, name, "node", phase)
    })
}

fn whole(node: u32, what: &'static str, value: f64) -> Result<u64, NodeLinkError> {
    let exact = validate::whole(value).filter(|_| value.fract() == 0.0);
    exact.ok_or(NodeLinkError::Cost { node, what, value })
}

fn order(file: &NodeLinkFile) -> Vec<u32> {
    if let Some(order) = &file.graph.order {
        return order.clone();
    }
    let mut ids: Vec<u32> = file.nodes.iter().map(|node| node.id).collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instance;

    fn read(text: &str) -> Result<InstanceDocument, NodeLinkError> {
        let file: NodeLinkFile = serde_json::from_str(text).expect("node-link JSON");
        instance_of("graph", &file, &Origin::Exact {})
    }

    #[test]
    fn both_spellings_of_costs_and_edges_are_read() {
        let named = r#"{"nodes": [{"id": 0, "cost_cpu": 2, "cost_ram": 3.0}, {"id": 1, "backward": true, "cost_cpu": 1, "cost_ram": 1}],
            "links": [{"source": 0, "target": 1}]}"#;
        let short = r#"{"graph": {"order": [0, 1]}, "nodes": [{"id": 0, "duration": 2, "out_cost": 3}, {"id": 1, "backward": true, "duration": 1, "out_cost": 1}],
            "edges": [{"0": 0, "1": 1}, [0, 1]]}"#;
        let (named, short) = (read(named).expect("a graph"), read(short).expect("a graph"));
        assert_eq!(named, short);
        let instance = Instance::new(&named).expect("valid");
        assert_eq!(instance.tensors()[0].bytes, 3);
        assert!(instance.operators().iter().all(|operator| operator.recomputable));
    }

    #[test]
    fn names_that_are_numbers_serve_as_ids() {
        let text = r#"{"nodes": [{"name": 3, "duration": 2, "out_cost": 3}, {"name": 1, "duration": 1, "out_cost": 1}],
            "links": [{"0": 3, "1": 1}], "graph": {"order": [3, 1]}}"#;
        let document = read(text).expect("a graph");
        assert_eq!((document.operators[0].id, document.operators[0].name.as_str()), (3, "3"));
        assert!(
            serde_json::from_str::<NodeLinkFile>(r#"{"nodes": [{"cost_cpu": 1, "cost_ram": 1}], "links": []}"#)
                .is_err()
        );
    }

    #[test]
    fn what_nobody_reads_is_the_result_of_a_graph_without_a_backward_pass() {
        let text = r#"{"nodes": [{"id": 0, "cost_cpu": 2, "cost_ram": 3}, {"id": 1, "cost_cpu": 1, "cost_ram": 1}],
            "links": [{"source": 0, "target": 1}]}"#;
        let kinds: Vec<_> = read(text).expect("a graph").tensors.iter().map(|tensor| tensor.kind).collect();
        assert_eq!(kinds, [TensorKind::Activation, TensorKind::Output]);
    }

    #[test]
    fn what_makes_no_instance_is_named() {
        let dangling = r#"{"nodes": [{"id": 0, "cost_cpu": 2, "cost_ram": 3}], "links": [{"source": 0, "target": 7}]}"#;
        assert_eq!(read(dangling), Err(NodeLinkError::Dangling { from: 0, to: 7, missing: 7 }));
        let fraction = r#"{"nodes": [{"id": 4, "cost_cpu": 2.5, "cost_ram": 3}], "links": []}"#;
        assert_eq!(read(fraction), Err(NodeLinkError::Cost { node: 4, what: "duration", value: 2.5 }));
    }
}
