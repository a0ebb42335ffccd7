//! The rules of an instance file (docs/reference/formats.md, "Rules"), each a function that names what breaks it.
//!
//! Turns an [`InstanceDocument`] into an [`Instance`]. Knows nothing of files: [`crate::io`] adds the path.

use std::collections::{HashMap, HashSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;
use thiserror::Error;

use crate::format::{
    FORMAT_NAME, FORMAT_VERSION, ImplementationDocument, InstanceDocument, OperatorDocument, Phase, TensorKind,
};
use crate::instance::{Implementation, InPlace, Instance, InstanceHash, Operator, OperatorId, Tensor, TensorId};

/// Sizes and times sum to less: doubles hold such sums exactly, and a thousand runs of every operator still fit 63 bits.
pub const LARGEST_SUM: u64 = 1 << 53;

/// The whole number nearest to a size or time of a file, where that could stand in an instance.
pub(crate) fn whole(value: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in 0..=2^53")]
    (0.0..=LARGEST_SUM as f64).contains(&value).then(|| value.round() as u64)
}

/// Reads of all implementations together: a list of inputs that many implementations share costs little in a file.
const MOST_READS: usize = 1 << 25;

/// A rule of the format that a document breaks: `ELEMENT RULE; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{element} {rule}; {remedy}")]
pub struct InstanceError {
    /// What breaks the rule: `operator 3 "conv1"`.
    pub element: String,
    /// How it breaks it.
    pub rule: String,
    /// What would mend it.
    pub remedy: String,
}

type Checked<T> = Result<T, InstanceError>;

fn broken<T>(element: impl Into<String>, rule: impl Into<String>, remedy: impl Into<String>) -> Checked<T> {
    Err(InstanceError { element: element.into(), rule: rule.into(), remedy: remedy.into() })
}

/// Checks a document and makes its ids dense.
pub fn instance(document: &InstanceDocument) -> Checked<Instance> {
    header(document)?;
    reads(document)?;
    let names = Names::new(document)?;
    let mut tensors = tensors(document);
    let operators = document.operators.iter().map(|operator| names.operator(operator)).collect::<Checked<Vec<_>>>()?;
    producers(&operators, &mut tensors)?;
    for operator in &operators {
        state(operator)?;
        in_place(operator, &tensors)?;
        passes(operator, &operators, &tensors)?;
    }
    sums(document)?;
    let order = order(document, &names, &operators, &tensors)?;
    Ok(Instance {
        name: document.name.clone(),
        units: document.units,
        provenance: document.provenance.clone(),
        fixed: document.fixed_bytes,
        tensors,
        operators,
        order,
        hash: InstanceHash::of(document),
    })
}

fn header(document: &InstanceDocument) -> Checked<()> {
    if document.format != FORMAT_NAME {
        return broken(
            "the file",
            format!("is of format {:?}", document.format),
            format!("expected \"format\": {FORMAT_NAME:?}"),
        );
    }
    if document.version != FORMAT_VERSION {
        return broken(
            "the file",
            format!("is of version {}", document.version),
            format!("this program reads version {FORMAT_VERSION}"),
        );
    }
    if document.name.is_empty() || document.name.contains(['/', '\\', '\n']) {
        return broken(
            "the file",
            format!("is named {:?}", document.name),
            "\"name\" must be a non-empty word without slashes",
        );
    }
    if document.provenance.batch_size == Some(0) {
        return broken(
            "the file",
            "has a batch of 0 samples",
            "\"provenance\".\"batch_size\" must be at least 1; leave it out where there is none",
        );
    }
    if document.operators.is_empty() {
        return broken("the file", "has no operator", "list at least one under \"operators\"");
    }
    Ok(())
}

/// What the implementations read together, where each without a list of its own reads the operator's inputs.
fn reads(document: &InstanceDocument) -> Checked<()> {
    let mut sum: usize = 0;
    for operator in &document.operators {
        let of = |v: &ImplementationDocument| v.inputs.as_ref().unwrap_or(&operator.inputs).len();
        sum = operator.implementations.iter().map(of).fold(sum, usize::saturating_add);
        if sum > MOST_READS {
            return broken(
                operator_element(operator),
                format!("has implementations that bring the reads of all to more than {MOST_READS}"),
                "merge tensors that are always read together, or list fewer implementations",
            );
        }
    }
    Ok(())
}

fn tensors(document: &InstanceDocument) -> Vec<Tensor> {
    let tensor = |t: &crate::format::TensorDocument| Tensor {
        file_id: t.id,
        name: t.name.clone(),
        bytes: t.bytes,
        kind: t.kind,
        shape: t.shape.clone(),
        producer: None,
    };
    document.tensors.iter().map(tensor).collect()
}

fn operator_element(operator: &OperatorDocument) -> String {
    format!("operator {} {:?}", operator.id, operator.name)
}

/// From the file's ids to dense ones; views lead to their storage.
struct Names {
    tensors: HashMap<u32, TensorId>,
    views: HashSet<u32>,
    operators: HashMap<u32, OperatorId>,
}

impl Names {
    fn new(document: &InstanceDocument) -> Checked<Self> {
        let mut tensors = HashMap::new();
        for (index, tensor) in document.tensors.iter().enumerate() {
            if tensors.insert(tensor.id, TensorId::from_index(index)).is_some() {
                return broken(
                    format!("tensor {} {:?}", tensor.id, tensor.name),
                    "repeats the id of an earlier tensor",
                    "ids are unique among tensors and views",
                );
            }
        }
        let mut operators = HashMap::new();
        for (index, operator) in document.operators.iter().enumerate() {
            if operators.insert(operator.id, OperatorId::from_index(index)).is_some() {
                return broken(
                    operator_element(operator),
                    "repeats the id of an earlier operator",
                    "ids are unique among operators",
                );
            }
        }
        let mut names = Self { tensors, views: HashSet::new(), operators };
        names.fold_views(document)?;
        Ok(names)
    }

    fn fold_views(&mut self, document: &InstanceDocument) -> Checked<()> {
        let mut aliases = HashMap::new();
        for view in &document.views {
            let repeated = self.tensors.contains_key(&view.id) || aliases.insert(view.id, view.of).is_some();
            if repeated {
                return broken(
                    format!("view {} {:?}", view.id, view.name),
                    "repeats the id of a tensor or of an earlier view",
                    "ids are unique among tensors and views",
                );
            }
        }
        for view in &document.views {
            let element = || format!("view {} {:?}", view.id, view.name);
            // Views that lead to this one's storage through it; none of them is followed a second time.
            let mut followed = vec![view.id];
            let mut target = view.of;
            while let Some(&next) = aliases.get(&target).filter(|_| !self.tensors.contains_key(&target)) {
                followed.push(target);
                target = next;
                if followed.len() > aliases.len() {
                    return broken(element(), "is part of a loop of views", "a view must lead to a tensor");
                }
            }
            let Some(&storage) = self.tensors.get(&target) else {
                return broken(
                    element(),
                    format!("aliases tensor {target}, which does not exist"),
                    "list the storage under \"tensors\" or correct \"of\"",
                );
            };
            self.tensors.extend(followed.iter().map(|&view| (view, storage)));
            self.views.insert(view.id);
        }
        Ok(())
    }

    /// Resolves a list of tensor ids, each tensor once.
    fn tensors(&self, element: &str, verb: &str, ids: &[u32]) -> Checked<Vec<TensorId>> {
        let mut seen = HashSet::with_capacity(ids.len());
        let mut resolved = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(&tensor) = self.tensors.get(id) else {
                return broken(
                    element,
                    format!("{verb} tensor {id}, which does not exist"),
                    "list it under \"tensors\" or correct the id",
                );
            };
            if seen.insert(tensor) {
                resolved.push(tensor);
            }
        }
        Ok(resolved)
    }

    /// Resolves tensors that an operator makes: storages, never views, none twice.
    fn made(&self, element: &str, ids: &[u32]) -> Checked<Vec<TensorId>> {
        if let Some(view) = ids.iter().find(|id| self.views.contains(id)) {
            return broken(
                element,
                format!("makes {view}, which is a view"),
                "name the storage under \"outputs\" or \"saves\"",
            );
        }
        let made = self.tensors(element, "makes", ids)?;
        if made.len() < ids.len() {
            return broken(element, "makes a tensor twice", "list each output once");
        }
        Ok(made)
    }

    fn operator(&self, document: &OperatorDocument) -> Checked<Operator> {
        let element = operator_element(document);
        if document.implementations.is_empty() {
            return broken(element, "has no implementation", "give at least one under \"implementations\"");
        }
        let inputs = self.tensors(&element, "reads", &document.inputs)?;
        let outputs = self.made(&element, &document.outputs)?;
        let made: HashSet<TensorId> = outputs.iter().copied().collect();
        let differentiated = document.differentiates.map(|id| match self.operators.get(&id) {
            Some(&operator) => Ok(operator),
            None => broken(
                &element,
                format!("differentiates operator {id}, which does not exist"),
                "correct the id or leave \"differentiates\" out",
            ),
        });
        let differentiates = differentiated.transpose()?;
        let mut names = HashSet::new();
        let mut implementations = Vec::with_capacity(document.implementations.len());
        for implementation in &document.implementations {
            let element = format!("{element}, implementation {:?},", implementation.name);
            if !names.insert(&implementation.name) {
                return broken(element, "repeats a name", "names are unique within the operator");
            }
            implementations.push(self.implementation(&element, implementation, &inputs, &made)?);
        }
        Ok(Operator {
            file_id: document.id,
            name: document.name.clone(),
            op_type: document.op_type.clone(),
            phase: document.phase,
            differentiates,
            outputs,
            recomputable: document.recomputable.unwrap_or(document.phase.is_forward()),
            random: document.random,
            updates_state: document.updates_state,
            attributes: document.attributes.clone(),
            implementations,
        })
    }

    fn implementation(
        &self,
        element: &str,
        document: &ImplementationDocument,
        inputs: &[TensorId],
        outputs: &HashSet<TensorId>,
    ) -> Checked<Implementation> {
        let reads = match &document.inputs {
            None => inputs.to_vec(),
            Some(ids) => self.tensors(element, "reads", ids)?,
        };
        let saves = self.made(element, &document.saves)?;
        if saves.iter().any(|tensor| outputs.contains(tensor)) {
            return broken(
                element,
                "saves a tensor that is an output of the operator anyway",
                "\"saves\" lists additional tensors only",
            );
        }
        let tensor = |id: u32| self.tensors.get(&id).copied();
        let in_place = document.in_place.map(|pair| match (tensor(pair.output), tensor(pair.input)) {
            (Some(output), Some(input)) => Ok(InPlace { output, input }),
            _ => broken(element, "works in place on a tensor that does not exist", "correct \"in_place\""),
        });
        Ok(Implementation {
            name: document.name.clone(),
            time: document.time,
            workspace_bytes: document.workspace_bytes,
            reads,
            saves,
            in_place: in_place.transpose()?,
            recompute: document.recompute,
        })
    }
}

/// Every tensor has one producer, inputs have none.
fn producers(operators: &[Operator], tensors: &mut [Tensor]) -> Checked<()> {
    for (index, operator) in operators.iter().enumerate() {
        let id = OperatorId::from_index(index);
        for made in operator.made() {
            let tensor = &mut tensors[made.index()];
            if tensor.kind == TensorKind::Input {
                return broken(
                    operator.label(),
                    format!("makes {}, which is an input", tensor.label()),
                    "inputs are there before the first step; change its kind",
                );
            }
            match tensor.producer {
                Some(other) if other != id => {
                    return broken(
                        tensor.label(),
                        format!("is made by operators {} and {}", operators[other.index()].file_id, operator.file_id),
                        "give each operator a tensor of its own",
                    );
                }
                _ => tensor.producer = Some(id),
            }
        }
    }
    for operator in operators {
        for &saved in operator.implementations.iter().flat_map(|v| &v.saves) {
            let tensor = &tensors[saved.index()];
            if tensor.kind != TensorKind::Saved {
                return broken(
                    operator.label(),
                    format!("saves {}, which is of kind {}", tensor.label(), tensor.kind.name()),
                    "tensors under \"saves\" are of kind saved",
                );
            }
        }
    }
    match tensors.iter().find(|t| t.producer.is_none() && t.kind != TensorKind::Input) {
        Some(orphan) => broken(
            orphan.label(),
            "is made by no operator",
            "make it of kind input, or name it among an operator's outputs",
        ),
        None => Ok(()),
    }
}

/// `recompute` implementations belong to operators that update state, and come after a default one.
fn state(operator: &Operator) -> Checked<()> {
    let any_recompute = operator.implementations.iter().any(|v| v.recompute);
    if any_recompute && !operator.updates_state {
        return broken(
            operator.label(),
            "has a recompute implementation but does not update state",
            "set \"updates_state\" or drop \"recompute\"",
        );
    }
    if operator.implementations[0].recompute {
        return broken(
            operator.label(),
            "has a recompute implementation as its default",
            "the first implementation is the one that the framework runs first",
        );
    }
    Ok(())
}

fn in_place(operator: &Operator, tensors: &[Tensor]) -> Checked<()> {
    if operator.implementations.iter().all(|implementation| implementation.in_place.is_none()) {
        return Ok(());
    }
    let outputs: HashSet<TensorId> = operator.outputs.iter().copied().collect();
    for implementation in &operator.implementations {
        let Some(pair) = implementation.in_place else { continue };
        let element = format!("{}, implementation {:?},", operator.label(), implementation.name);
        let (output, input) = (&tensors[pair.output.index()], &tensors[pair.input.index()]);
        if !outputs.contains(&pair.output) {
            return broken(
                element,
                format!("works in place on {}, which is not an output", output.label()),
                "\"in_place.output\" is one of the operator's outputs",
            );
        }
        if !implementation.reads.contains(&pair.input) {
            return broken(
                element,
                format!("works in place of {}, which it does not read", input.label()),
                "\"in_place.input\" is one of its inputs",
            );
        }
        if input.kind == TensorKind::Input {
            return broken(
                element,
                format!("overwrites {}, an input of the iteration", input.label()),
                "inputs stay for the whole iteration",
            );
        }
        if input.bytes != output.bytes {
            return broken(
                element,
                format!("puts {} bytes in place of {}", output.bytes, input.bytes),
                "an in-place output is as large as the input that it replaces",
            );
        }
    }
    Ok(())
}

/// Forward operators read nothing of the backward pass; each pass makes tensors of its own kinds; only backward operators
/// differentiate.
fn passes(operator: &Operator, operators: &[Operator], tensors: &[Tensor]) -> Checked<()> {
    if let Some(target) = operator.differentiates {
        if operator.phase.is_forward() {
            return broken(
                operator.label(),
                "differentiates another one but is not of phase backward",
                "correct \"phase\" or leave \"differentiates\" out",
            );
        }
        let target = &operators[target.index()];
        if target.phase == Phase::Backward {
            return broken(
                operator.label(),
                format!("differentiates {}, which is of phase backward", target.label()),
                "name the forward operator",
            );
        }
    }
    let is_forward = operator.phase.is_forward();
    let (pass, other) = if is_forward { ("forward", "backward") } else { ("backward", "forward") };
    for made in operator.made() {
        let tensor = &tensors[made.index()];
        let of_forward = match tensor.kind {
            TensorKind::Activation | TensorKind::Saved => true,
            TensorKind::Gradient => false,
            TensorKind::Input | TensorKind::Output | TensorKind::ParamGradient => continue,
        };
        if of_forward != is_forward {
            return broken(
                operator.label(),
                format!("of the {pass} pass makes {}, which is of kind {}", tensor.label(), tensor.kind.name()),
                format!("tensors of that kind are made by the {other} pass; change its kind"),
            );
        }
    }
    if !is_forward {
        return Ok(());
    }
    for read in operator.reads() {
        let tensor = &tensors[read.index()];
        let maker = tensor.producer.map(|producer| &operators[producer.index()]);
        if maker.is_some_and(|maker| maker.phase == Phase::Backward) {
            return broken(
                operator.label(),
                format!("reads {}, which the backward pass makes", tensor.label()),
                "a forward operator reads forward tensors",
            );
        }
    }
    Ok(())
}

/// Sums stay far enough from 64 bits for what methods do with them.
fn sums(document: &InstanceDocument) -> Checked<()> {
    let fixed = document.fixed_bytes;
    let workspace = document.operators.iter().flat_map(|o| &o.implementations).map(|v| v.workspace_bytes).max();
    let parts = [fixed.parameters, fixed.buffers, fixed.optimizer_state, fixed.workspace, workspace.unwrap_or(0)];
    let bytes = parts.into_iter().chain(document.tensors.iter().map(|t| t.bytes));
    if checked_sum(bytes).is_none() {
        return broken("the file", "lists 2^53 bytes or more", "give sizes and workspaces that sum to less");
    }
    let times = document.operators.iter().flat_map(|o| &o.implementations).map(|v| v.time);
    if checked_sum(times).is_none() {
        return broken(
            "the file",
            "lists times of 2^53 or more",
            "give times that sum to less over all implementations, in a larger unit if need be",
        );
    }
    Ok(())
}

/// The sum, if below [`LARGEST_SUM`].
fn checked_sum(mut values: impl Iterator<Item = u64>) -> Option<u64> {
    values.try_fold(0u64, u64::checked_add).filter(|&sum| sum < LARGEST_SUM)
}

/// The order lists every operator once and is topological under every implementation.
fn order(
    document: &InstanceDocument,
    names: &Names,
    operators: &[Operator],
    tensors: &[Tensor],
) -> Checked<Vec<OperatorId>> {
    let mut position = vec![None; operators.len()];
    let mut order = Vec::with_capacity(operators.len());
    for (index, id) in document.order.iter().enumerate() {
        let Some(&operator) = names.operators.get(id) else {
            return broken(
                "the order",
                format!("names operator {id}, which does not exist"),
                "list it under \"operators\" or correct the id",
            );
        };
        if position[operator.index()].replace(index).is_some() {
            return broken("the order", format!("names operator {id} twice"), "name each operator once");
        }
        order.push(operator);
    }
    if let Some(missing) = position.iter().position(Option::is_none) {
        return broken("the order", format!("leaves out {}", operators[missing].label()), "name each operator once");
    }
    for (index, operator) in operators.iter().enumerate() {
        for (producer, tensor) in dependencies(operator, tensors) {
            if position[producer.index()] >= position[index] {
                // Where there is a cycle, no order would do.
                acyclic(operators, tensors)?;
                return broken(
                    "the order",
                    format!(
                        "runs {} before {}, which makes {} for it",
                        operator.label(),
                        operators[producer.index()].label(),
                        tensor.label()
                    ),
                    "list producers before readers",
                );
            }
        }
    }
    Ok(order)
}

fn dependencies<'a>(operator: &'a Operator, tensors: &'a [Tensor]) -> impl Iterator<Item = (OperatorId, &'a Tensor)> {
    operator.reads().filter_map(|read| {
        let tensor = &tensors[read.index()];
        tensor.producer.map(|producer| (producer, tensor))
    })
}

fn acyclic(operators: &[Operator], tensors: &[Tensor]) -> Checked<()> {
    let mut graph = DiGraph::<usize, ()>::with_capacity(operators.len(), 0);
    let nodes: Vec<_> = (0..operators.len()).map(|index| graph.add_node(index)).collect();
    for (index, operator) in operators.iter().enumerate() {
        for (producer, tensor) in dependencies(operator, tensors) {
            if producer.index() == index {
                return broken(
                    operator.label(),
                    format!("reads {}, which it makes itself", tensor.label()),
                    "split it or drop the input",
                );
            }
            graph.add_edge(nodes[producer.index()], nodes[index], ());
        }
    }
    let Some(cycle) = kosaraju_scc(&graph).into_iter().find(|component| component.len() > 1) else {
        return Ok(());
    };
    let mut members: Vec<_> = cycle.iter().map(|&node| operators[graph[node]].file_id).collect();
    members.sort_unstable();
    let shown: Vec<_> = members.iter().take(8).map(ToString::to_string).collect();
    let more = if members.len() > 8 { ", ..." } else { "" };
    broken("the graph", format!("has a cycle through operators {}{more}", shown.join(", ")), "break it")
}
