//! From a profile to an instance, node by node.

use std::collections::{HashMap, HashSet};

use thiserror::Error;

use crate::format::{
    Device, ImplementationDocument, InPlaceDocument, InstanceDocument, OperatorDocument, Origin, Phase, Provenance,
    TensorKind, Units,
};
use crate::monet_file::file::{MonetFile, Node};

/// Reads of all variants together, of which an honest profile has thousands.
const MOST_READS: usize = 1 << 24;

/// A profile that makes no instance.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MonetError {
    /// There is nothing.
    #[error("nodes is empty; a profile has at least the node of the loss")]
    Empty,
    /// The loss is none of the nodes.
    #[error("loss is {loss}, but the nodes are 0 to {last}; set it to the id of the node of kind \"loss\"")]
    Loss {
        /// Id in the file.
        loss: u32,
        /// Last node.
        last: usize,
    },
    /// A size that no instance can hold.
    #[error("node {node}: {what} is {bytes}; expected at most 2^53 bytes")]
    Size {
        /// The node.
        node: u32,
        /// The field.
        what: &'static str,
        /// What stands there.
        bytes: u64,
    },
    /// Lists that name one another multiply.
    #[error("node {node}: its variants read more than {MOST_READS} gradients in all; list what each reads once")]
    Reads {
        /// The node at which there are too many.
        node: u32,
    },
    /// Nodes are not listed by id.
    #[error("node {found} stands at position {position}; nodes must be listed by id, from 0")]
    Order {
        /// Position.
        position: usize,
        /// Id found there.
        found: u32,
    },
    /// A node is of a kind that does not belong where it stands.
    #[error("node {node}: is {kind:?}; expected {expected}")]
    Kind {
        /// The node.
        node: u32,
        /// Kind found.
        kind: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A node names one that is not there, or not of the right kind.
    #[error("node {node}: {what} names node {named}, which is no {expected}")]
    Reference {
        /// The node.
        node: u32,
        /// The field.
        what: &'static str,
        /// The node named.
        named: u32,
        /// What it should be.
        expected: &'static str,
    },
    /// A number is missing, negative where it may not be, or no whole number of bytes.
    #[error("node {node}: {what} of variant {variant} is {value}; expected {expected}")]
    Number {
        /// The node.
        node: u32,
        /// The field.
        what: &'static str,
        /// Position in it.
        variant: usize,
        /// What stands there.
        value: String,
        /// What should.
        expected: &'static str,
    },
    /// Every algorithm failed.
    #[error("node {node}: all {count} algorithms failed (negative times); profile it again")]
    AllFailed {
        /// The node.
        node: u32,
        /// How many there are.
        count: usize,
    },
}

/// The instance of a profile.
///
/// # Errors
/// What is wrong with the profile.
pub fn instance_of(name: &str, file: &MonetFile, origin: &Origin) -> Result<InstanceDocument, MonetError> {
    let document = InstanceDocument::new(name, Units::default(), provenance(file, origin));
    let mut converter = Converter::new(file, document)?;
    for node in &file.nodes {
        converter.tensors_of(node);
    }
    for node in &file.nodes {
        match node.kind.as_str() {
            "intermediate" => {}
            "backward" => converter.backward(node)?,
            _ => converter.forward(node)?,
        }
    }
    converter.fixed();
    let notes = converter.notes();
    converter.document.provenance.notes.extend(notes);
    Ok(converter.document)
}

struct Converter<'a> {
    file: &'a MonetFile,
    document: InstanceDocument,
    /// Nodes whose algorithm is chosen.
    chosen: HashSet<u32>,
    /// Of each node that may work in place, the first input that it may overwrite.
    overwrites: HashMap<u32, u32>,
    /// Tensor of each forward or intermediate node.
    value: HashMap<u32, u32>,
    /// Of each backward node, the gradients that it writes, with the forward node that each is about.
    gradients: HashMap<u32, Vec<(Option<u32>, u32)>>,
    /// How many backward nodes read each gradient.
    readers: HashMap<u32, u32>,
    failed: usize,
    clamped: Vec<String>,
}

impl<'a> Converter<'a> {
    fn new(file: &'a MonetFile, document: InstanceDocument) -> Result<Self, MonetError> {
        let last = file.nodes.len().checked_sub(1).ok_or(MonetError::Empty)?;
        if file.loss as usize > last {
            return Err(MonetError::Loss { loss: file.loss, last });
        }
        for (position, node) in file.nodes.iter().enumerate() {
            if node.id as usize != position {
                return Err(MonetError::Order { position, found: node.id });
            }
            let (fits, expected) = match node.id.cmp(&file.loss) {
                std::cmp::Ordering::Less => {
                    (["forward", "intermediate"].contains(&node.kind.as_str()), "forward or intermediate")
                }
                std::cmp::Ordering::Equal => (node.kind == "loss", "loss"),
                std::cmp::Ordering::Greater => (node.kind == "backward", "backward"),
            };
            if !fits {
                return Err(MonetError::Kind { node: node.id, kind: node.kind.clone(), expected });
            }
            check_references(file, node)?;
            check_sizes(node)?;
        }
        check_reads(file)?;
        let mut overwrites = HashMap::new();
        for &[over, input] in &file.inplace_list {
            let works = |node: &&Node| ["forward", "loss"].contains(&node.kind.as_str());
            let node = file.nodes.get(over as usize).filter(works).filter(|_| !overwrites.contains_key(&over));
            let Some(node) = node else { continue };
            if !node.inbound.contains(&input) {
                let (what, expected) = ("inplace_list", "input of it");
                return Err(MonetError::Reference { node: over, what, named: input, expected });
            }
            overwrites.insert(over, input);
        }
        let chosen = file.conv_list.iter().copied().collect();
        let (value, gradients, readers) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Self { file, document, chosen, overwrites, value, gradients, readers, failed: 0, clamped: vec![] })
    }

    fn node(&self, id: u32) -> &'a Node {
        &self.file.nodes[id as usize]
    }

    fn tensors_of(&mut self, node: &Node) {
        let name = label(node);
        match node.kind.as_str() {
            "backward" => self.gradients_of(node, &name),
            "intermediate" => {
                let id = self.document.add_tensor(name, node.mem_bytes, TensorKind::Saved);
                self.value.insert(node.id, id);
            }
            _ => {
                let id = self.document.add_tensor(format!("{name}.out"), node.mem_bytes, TensorKind::Activation);
                self.value.insert(node.id, id);
            }
        }
    }

    /// One gradient per input of the forward node where the shapes say so, one in all otherwise.
    fn gradients_of(&mut self, node: &Node, name: &str) {
        let forward = node.fwd_node.map(|id| self.node(id));
        let inbound = forward.map_or(&[][..], |forward| &forward.inbound);
        let sizes: Vec<Option<u64>> = node.grad_shapes.iter().map(|shape| bytes_of(shape, self.file.batch)).collect();
        let total = sizes.iter().try_fold(0_u64, |total, size| total.checked_add((*size)?));
        let split = inbound.len() > 1 && inbound.len() == sizes.len() && total == Some(node.mem_bytes);
        let mut written = Vec::new();
        if split {
            for (size, &about) in sizes.into_iter().flatten().zip(inbound) {
                let id = self.document.add_tensor(format!("{name}.grad{}", written.len()), size, TensorKind::Gradient);
                written.push((Some(about), id));
            }
        } else if node.mem_bytes > 0 {
            written
                .push((None, self.document.add_tensor(format!("{name}.grad"), node.mem_bytes, TensorKind::Gradient)));
        }
        self.gradients.insert(node.id, written);
        if node.stored_param_grad_bytes > 0 {
            let bytes = node.stored_param_grad_bytes;
            let id = self.document.add_tensor(format!("{name}.param_grad"), bytes, TensorKind::ParamGradient);
            self.value.insert(node.id, id);
        }
        for read in self.incoming(node, 0) {
            *self.readers.entry(read).or_default() += 1;
        }
    }

    /// Gradients that a variant of a backward node reads.
    fn incoming(&self, node: &Node, variant: usize) -> Vec<u32> {
        let sources = node.deps.get(variant).map_or(&[][..], |deps| &deps.bwd);
        let of = |source: &u32| {
            let written = self.gradients.get(source).map_or(&[][..], Vec::as_slice);
            let about = |&&(about, _): &&(Option<u32>, u32)| about.is_none() || about == node.fwd_node;
            written.iter().filter(about).map(|&(_, id)| id).collect::<Vec<_>>()
        };
        sources.iter().flat_map(of).collect()
    }

    fn forward(&mut self, node: &Node) -> Result<(), MonetError> {
        let inputs: Vec<u32> = node.inbound.iter().map(|id| self.value[id]).collect();
        let output = self.value[&node.id];
        let chosen = self.chosen.contains(&node.id);
        let again = !chosen && (node.re_ms != node.ms || node.re_ws_mib != node.ws_mib);
        let mut ways = if chosen { self.algorithms(node)? } else { self.variants(node)? };
        if let Some(overwritten) = self.overwrites.get(&node.id).filter(|_| !chosen) {
            let in_place = InPlaceDocument { output, input: self.value[overwritten] };
            let over = ways.iter().map(|(variant, way)| self.in_place(node, *variant, way, in_place));
            let over = over.collect::<Result<Vec<_>, _>>()?;
            ways.extend(over);
        }
        if again {
            let mut way = ways[0].1.clone();
            way.name = "recompute".into();
            way.time = time_ns(node, 0, "re_ms", &node.re_ms)?;
            let workspace = workspace_bytes(node, 0, "re_ws_mib", &node.re_ws_mib)?;
            way.workspace_bytes = u64::try_from(workspace).unwrap_or(0);
            way.recompute = true;
            ways.push((0, way));
        }
        let phase = if node.kind == "loss" { Phase::Loss } else { Phase::Forward };
        let ways = ways.into_iter().map(|(_, way)| way).collect();
        let operator = OperatorDocument { updates_state: again, ..operator(node, phase, inputs, vec![output], ways) };
        self.document.add_operator(operator);
        Ok(())
    }

    /// The plain implementation of a forward node, and those that make an intermediate node's tensor.
    fn variants(&mut self, node: &Node) -> Result<Vec<(usize, ImplementationDocument)>, MonetError> {
        let mut ways = vec![(0, self.way(node, "default", 0, 0)?)];
        for &[variant, saved] in &node.intermediates {
            let variant = variant as usize;
            let mut way = self.way(node, &format!("saves:{variant}"), variant, 0)?;
            way.saves = vec![self.value[&saved]];
            way.workspace_bytes = way.workspace_bytes.saturating_sub(self.node(saved).mem_bytes);
            ways.push((variant, way));
        }
        Ok(ways)
    }

    /// The same in place: what was measured beside an output that takes no memory of its own.
    fn in_place(
        &self,
        node: &Node,
        variant: usize,
        way: &ImplementationDocument,
        in_place: InPlaceDocument,
    ) -> Result<(usize, ImplementationDocument), MonetError> {
        let saved: i128 = way.saves.iter().map(|&id| i128::from(self.document.tensors[id as usize].bytes)).sum();
        let beside = workspace_bytes(node, variant, "ip_ws_mib", &node.ip_ws_mib)?;
        let workspace = beside + i128::from(node.mem_bytes) - saved;
        let over = ImplementationDocument {
            name: format!("{}:in-place", way.name),
            time: time_ns(node, variant, "ip_ms", &node.ip_ms)?,
            workspace_bytes: u64::try_from(workspace).unwrap_or(0),
            in_place: Some(in_place),
            ..way.clone()
        };
        Ok((variant, over))
    }

    fn backward(&mut self, node: &Node) -> Result<(), MonetError> {
        let mut outputs: Vec<u32> = self.gradients[&node.id].iter().map(|&(_, id)| id).collect();
        outputs.extend(self.value.get(&node.id));
        let mut ways = Vec::new();
        if self.chosen.contains(&node.id) {
            ways.extend(self.algorithms(node)?.into_iter().map(|(_, way)| way));
        } else {
            for variant in 0..node.deps.len() {
                let way = self.way(node, &format!("variant{variant}"), variant, variant)?;
                let in_place = self.gradient_in_place(node, variant, &way)?;
                ways.push(way);
                ways.extend(in_place);
            }
        }
        let inputs = self.reads(node, 0);
        let differentiates = node.fwd_node;
        let operator = operator(node, Phase::Backward, inputs, outputs, ways);
        self.document.add_operator(OperatorDocument { differentiates, ..operator });
        Ok(())
    }

    /// A negative workspace, where a gradient of the same size that nobody else reads can be overwritten.
    fn gradient_in_place(
        &mut self,
        node: &Node,
        variant: usize,
        way: &ImplementationDocument,
    ) -> Result<Option<ImplementationDocument>, MonetError> {
        let workspace = workspace_bytes(node, variant, "ws_mib", &node.ws_mib)?;
        let Some(&(_, output)) = self.gradients[&node.id].first().filter(|_| workspace < 0) else { return Ok(None) };
        let size = self.document.tensors[output as usize].bytes;
        let same = |id: &u32| self.document.tensors[*id as usize].bytes == size && self.readers.get(id) == Some(&1);
        let found = self.incoming(node, variant).into_iter().find(same);
        Ok(found.map(|input| ImplementationDocument {
            name: format!("{}:in-place", way.name),
            workspace_bytes: u64::try_from(workspace + i128::from(size)).unwrap_or(0),
            in_place: Some(InPlaceDocument { output, input }),
            ..way.clone()
        }))
    }

    /// What a variant of a backward node reads: forward tensors, then gradients.
    fn reads(&self, node: &Node, variant: usize) -> Vec<u32> {
        let forward = node.deps.get(variant).map_or(&[][..], |deps| &deps.fwd);
        let mut reads: Vec<u32> = forward.iter().map(|id| self.value[id]).collect();
        reads.extend(self.incoming(node, variant));
        reads.dedup();
        reads
    }

    /// One implementation: numbers at a position, dependencies of a variant.
    fn way(
        &mut self,
        node: &Node,
        name: &str,
        at: usize,
        variant: usize,
    ) -> Result<ImplementationDocument, MonetError> {
        let workspace = workspace_bytes(node, at, "ws_mib", &node.ws_mib)?;
        if workspace < 0 && self.clamped.last().is_none_or(|last| *last != label(node)) {
            self.clamped.push(label(node));
        }
        let mut way = ImplementationDocument::plain(
            name,
            time_ns(node, at, "ms", &node.ms)?,
            u64::try_from(workspace).unwrap_or(0),
        );
        if node.kind == "backward" && variant > 0 {
            way.inputs = Some(self.reads(node, variant));
        }
        Ok(way)
    }

    fn algorithms(&mut self, node: &Node) -> Result<Vec<(usize, ImplementationDocument)>, MonetError> {
        let mut ways = Vec::new();
        for (at, &ms) in node.ms.iter().enumerate() {
            if ms < 0.0 {
                self.failed += 1;
            } else {
                ways.push((at, self.way(node, &format!("cudnn:{at}"), at, 0)?));
            }
        }
        if ways.is_empty() {
            return Err(MonetError::AllFailed { node: node.id, count: node.ms.len() });
        }
        Ok(ways)
    }

    /// Parameters; what else is fixed, the network's input in the first place, becomes an input tensor.
    fn fixed(&mut self) {
        let fixed = self.node(self.file.loss).fixed_mem_bytes;
        let gradients = self.file.nodes.iter().map(|node| node.stored_param_grad_bytes);
        let parameters = fixed.min(gradients.fold(0, u64::saturating_add));
        if fixed > parameters {
            self.document.add_tensor("network input", fixed - parameters, TensorKind::Input);
        }
        self.document.fixed_bytes.parameters = parameters;
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "times in ns rounded up from ms; sizes and workspaces are whole bytes as published".to_owned(),
            "fixed bytes beyond the gradients of all parameters are one input tensor that nobody reads".to_owned(),
        ];
        if self.failed > 0 {
            notes.push(format!(
                "{} convolution algorithms failed when profiled (negative times); left out",
                self.failed
            ));
        }
        if !self.clamped.is_empty() {
            notes.push(format!(
                "negative workspaces (an output in an input's buffer) of {}: in-place implementations where the input \
                 is a gradient of the same size with one reader; out of place, workspace 0 and the same time",
                self.clamped.join(", ")
            ));
        }
        notes
    }
}

fn check_references(file: &MonetFile, node: &Node) -> Result<(), MonetError> {
    let check = |what, named: u32, expected, fits: bool| {
        if fits { Ok(()) } else { Err(MonetError::Reference { node: node.id, what, named, expected }) }
    };
    let forward = |id: u32| id < node.id.min(file.loss + 1);
    for &id in &node.inbound {
        let fits = forward(id) && file.nodes[id as usize].kind != "intermediate";
        check("inbound", id, "earlier forward node", fits || node.kind == "backward")?;
    }
    for &[_, id] in &node.intermediates {
        let fits = file.nodes.get(id as usize).is_some_and(|other| other.kind == "intermediate");
        check("intermediates", id, "intermediate node", fits)?;
    }
    for deps in &node.deps {
        for &id in &deps.fwd {
            check("deps.fwd", id, "earlier forward node", forward(id))?;
        }
        for &id in &deps.bwd {
            check("deps.bwd", id, "earlier backward node", id > file.loss && id < node.id)?;
        }
    }
    if let Some(id) = node.fwd_node {
        let fits = id <= file.loss && file.nodes[id as usize].kind != "intermediate";
        check("fwd_node", id, "forward node", fits)?;
    }
    Ok(())
}

/// What all variants read together: a variant reads every gradient of each node that it names.
fn check_reads(file: &MonetFile) -> Result<(), MonetError> {
    let written = |source: &u32| {
        let forward = file.nodes[*source as usize].fwd_node.map(|id| &file.nodes[id as usize]);
        forward.map_or(1, |forward| forward.inbound.len().max(1))
    };
    let mut reads: usize = 0;
    for node in &file.nodes {
        for deps in &node.deps {
            reads = reads.saturating_add(deps.fwd.len() + deps.bwd.iter().map(written).sum::<usize>());
        }
        if reads > MOST_READS {
            return Err(MonetError::Reads { node: node.id });
        }
    }
    Ok(())
}

/// Sizes that sums and differences of a few of them cannot carry out of range.
fn check_sizes(node: &Node) -> Result<(), MonetError> {
    let sizes = [
        ("mem_bytes", node.mem_bytes),
        ("fixed_mem_bytes", node.fixed_mem_bytes),
        ("stored_param_grad_bytes", node.stored_param_grad_bytes),
    ];
    match sizes.into_iter().find(|(_, bytes)| *bytes > 1 << 53) {
        Some((what, bytes)) => Err(MonetError::Size { node: node.id, what, bytes }),
        None => Ok(()),
    }
}

fn label(node: &Node) -> String {
    format!("{}:{}", node.id, node.op.strip_prefix("aten::").unwrap_or(&node.op))
}

fn bytes_of(shape: &[i64], batch: u64) -> Option<u64> {
    shape.iter().try_fold(4_u64, |bytes, &extent| {
        bytes.checked_mul(if extent == -1 { batch } else { u64::try_from(extent).ok()? })
    })
}

fn number(node: &Node, variant: usize, what: &'static str, list: &[f64]) -> Result<f64, MonetError> {
    let expected = "a number";
    list.get(variant).copied().filter(|value| value.is_finite()).ok_or_else(|| MonetError::Number {
        node: node.id,
        what,
        variant,
        value: list.get(variant).map_or("missing".into(), f64::to_string),
        expected,
    })
}

/// Milliseconds to nanoseconds, up.
fn time_ns(node: &Node, variant: usize, what: &'static str, list: &[f64]) -> Result<u64, MonetError> {
    let ms = number(node, variant, what, list)?;
    if !(0.0..=1e9).contains(&ms) {
        let expected = "milliseconds from 0 to 10^9";
        return Err(MonetError::Number { node: node.id, what, variant, value: ms.to_string(), expected });
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in 0..=10^15")]
    Ok((ms * 1e6).ceil() as u64)
}

/// MiB to bytes.
fn workspace_bytes(node: &Node, variant: usize, what: &'static str, list: &[f64]) -> Result<i128, MonetError> {
    let bytes = number(node, variant, what, list)? * 1_048_576.0;
    // Means of twenty runs carry noise of a thousandth of a byte.
    if (bytes - bytes.round()).abs() > 0.01 || bytes.abs() > 9.0e15 {
        let (value, expected) = (list[variant].to_string(), "MiB that are a whole number of bytes");
        return Err(MonetError::Number { node: node.id, what, variant, value, expected });
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 2^53")]
    Ok(bytes.round() as i128)
}

fn operator(
    node: &Node,
    phase: Phase,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    implementations: Vec<ImplementationDocument>,
) -> OperatorDocument {
    OperatorDocument {
        inputs,
        outputs,
        implementations,
        ..OperatorDocument::new(node.id, label(node), &node.op, phase)
    }
}

fn provenance(file: &MonetFile, origin: &Origin) -> Provenance {
    let measured = Origin::Measured { samples: 20, statistic: "mean".into() };
    Provenance {
        batch_size: Some(file.batch),
        dtype: Some("float32".into()),
        device: Some(Device { name: "Tesla P100".into(), memory_bytes: None, driver: None, cuda: None, cudnn: None }),
        sizes: origin.clone(),
        notes: vec![format!("profile of mode {}; {}", file.mode, file.source)],
        ..Provenance::new(&file.model, &measured)
    }
}
