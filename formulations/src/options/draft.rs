//! A document in the making, of operators and tensors of a network and of what stands for others of them. Knows no method.

use std::collections::{BTreeMap, HashMap};

use remat_core::format::{
    ImplementationDocument, InPlaceDocument, InstanceDocument, OperatorDocument, Origin, Phase, Provenance,
    TensorDocument, TensorKind,
};
use remat_core::instance::{Implementation, InPlace};
use remat_core::{Instance, TensorId};

/// A document, and which tensors of the network are in it. Names and numbers are by first use.
pub struct Draft<'a> {
    /// The document so far.
    pub document: InstanceDocument,
    instance: &'a Instance,
    numbers: HashMap<TensorId, u32>,
    kind: Box<dyn Fn(TensorId) -> TensorKind + 'a>,
}

impl<'a> Draft<'a> {
    /// A document with nothing in it, for a network whose tensors become of some kind in it.
    pub fn new(instance: &'a Instance, kind: impl Fn(TensorId) -> TensorKind + 'a) -> Self {
        let origin = Origin::Generated { generator: "block".into(), parameters: BTreeMap::new(), seed: None };
        let provenance = Provenance::of_graph("block", &origin, "a block of a network");
        let document = InstanceDocument::new("block", instance.units(), provenance);
        Self { document, instance, numbers: HashMap::new(), kind: Box::new(kind) }
    }

    /// A tensor that the network does not have.
    pub fn add(&mut self, bytes: u64, kind: TensorKind) -> u32 {
        let id = number(self.document.tensors.len());
        self.document.tensors.push(TensorDocument::new(id, format!("t{id}"), bytes, kind));
        id
    }

    /// The number of a tensor of the network.
    pub fn tensor(&mut self, id: TensorId) -> u32 {
        if let Some(&known) = self.numbers.get(&id) {
            return known;
        }
        let number = self.add(self.instance.tensor(id).bytes, (self.kind)(id));
        self.numbers.insert(id, number);
        number
    }

    /// The numbers of some tensors of the network.
    pub fn tensors(&mut self, ids: impl IntoIterator<Item = TensorId>) -> Vec<u32> {
        ids.into_iter().map(|id| self.tensor(id)).collect()
    }

    /// An implementation of the network's, of whose reads some stay.
    pub fn way(&mut self, way: &Implementation, stays: impl Fn(TensorId) -> bool) -> ImplementationDocument {
        let pair = |pair: InPlace| InPlaceDocument { output: self.tensor(pair.output), input: self.tensor(pair.input) };
        ImplementationDocument {
            in_place: way.in_place.map(pair),
            inputs: Some(self.tensors(way.reads.iter().copied().filter(|&read| stays(read)))),
            saves: self.tensors(way.saves.iter().copied()),
            recompute: way.recompute,
            ..ImplementationDocument::plain("", way.time, way.workspace_bytes)
        }
    }

    /// An operator, the last one in the order; its implementations say what they read. Its number.
    pub fn operator(
        &mut self,
        phase: Phase,
        (recomputable, updates_state): (bool, bool),
        outputs: Vec<u32>,
        mut implementations: Vec<ImplementationDocument>,
    ) -> u32 {
        let id = number(self.document.operators.len());
        for (at, way) in implementations.iter_mut().enumerate() {
            way.name = format!("v{at}");
        }
        self.document.operators.push(OperatorDocument {
            outputs,
            recomputable: Some(recomputable),
            updates_state,
            implementations,
            ..OperatorDocument::new(id, format!("op{id}"), "block", phase)
        });
        self.document.order.push(id);
        id
    }
}

fn number(position: usize) -> u32 {
    u32::try_from(position)
        .expect("a level holds no more elements than the instance below, which holds fewer than 2^32")
}
