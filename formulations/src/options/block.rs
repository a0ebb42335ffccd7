//! A block of the chain as an instance of its own: its forward operators, one operator that stands for the rest of the
//! network, its backward operators. The workspace of the one in the middle limits what the block keeps across it.
//!
//! Equal blocks have equal documents: names and numbers are by first use. Builds on the chain view; knows no method.

use std::collections::{BTreeSet, HashSet};

use remat_core::chain_view::{Boundary, StageOperators, StageOption};
use remat_core::format::{ImplementationDocument, InstanceDocument, Phase, TensorKind};
use remat_core::liveness::{Compute, with_liveness};
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, Step, TensorId, simulate};

use super::draft::Draft;

/// A block, and the way back to the network.
pub struct Block {
    /// The block as an instance, the rest of the network without workspace.
    pub instance: Instance,
    document: InstanceDocument,
    /// The document as text: equal for equal blocks.
    pub key: String,
    /// By operator of the block's instance: the network's, and its implementations; none for the rest.
    operators: Vec<Option<(OperatorId, Vec<usize>)>>,
}

/// What a schedule of a block costs, everything that the block reads of others included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Bytes that are there while the rest of the network runs.
    pub saved: u64,
    /// Most bytes while the block itself runs.
    pub peak: u64,
    /// Time of both passes.
    pub time: u64,
}

impl Block {
    /// Some operators, in the instance's order, and what they have in common with the others; the reason where they
    /// cannot be planned alone.
    ///
    /// # Errors
    /// Some operator has no implementation that reads only what the block is handed.
    pub fn new(instance: &Instance, operators: &StageOperators, boundary: &Boundary) -> Result<Self, String> {
        let kind = move |id: TensorId| {
            let tensor = instance.tensor(id);
            match tensor.kind {
                _ if tensor.producer.is_none() || boundary.inputs.contains(&id) => TensorKind::Input,
                kind if kind.is_result() => kind,
                _ if boundary.leaves.contains(&id) => TensorKind::Output,
                kind => kind,
            }
        };
        let home = operators.forward.iter().chain(&operators.backward).copied().collect();
        let mut maker = Maker { instance, boundary, home, draft: Draft::new(instance, kind), operators: Vec::new() };
        for &id in &operators.forward {
            maker.operator(id)?;
        }
        maker.rest();
        for &id in &operators.backward {
            maker.operator(id)?;
        }
        let Maker { draft: Draft { document, .. }, operators, .. } = maker;
        let instance = Instance::new(&document).map_err(|error| error.to_string())?;
        let key = serde_json::to_string(&document).expect("a document always serialises");
        Ok(Self { instance, document, key, operators })
    }

    /// The same where the rest of the network takes so much beside what is kept.
    ///
    /// # Errors
    /// More than an instance may have.
    pub fn with_rest(&self, bytes: u64) -> Result<Instance, String> {
        let mut document = self.document.clone();
        document.operators[self.rest()].implementations[0].workspace_bytes = bytes;
        Instance::new(&document).map_err(|error| error.to_string())
    }

    /// Bytes that every schedule of the block keeps across the rest of the network, beside what it reads of others.
    pub fn handed_on(&self) -> u64 {
        let rest = &self.instance.operators()[self.rest()];
        rest.touches().map(|id| self.instance.tensor(id).bytes).sum()
    }

    /// Position of the operator that stands for the rest of the network.
    fn rest(&self) -> usize {
        self.operators.iter().position(Option::is_none).expect("every block has one")
    }

    /// What is run and kept where nothing is decided: everything saved, and everything run again.
    pub fn free(&self) -> Vec<Vec<Compute>> {
        let plan = Plan::fastest(&self.instance);
        let all = plan.store_all(&self.instance);
        let is_forward = |&(id, _): &Compute| self.instance.operator(id).phase.is_forward();
        let (forward, rest): (Vec<Compute>, Vec<Compute>) = all.iter().copied().partition(is_forward);
        let again = forward.iter().map(|&(id, first)| (id, plan.repeated(&self.instance, (id, first))));
        let first = forward.iter().map(|&(id, _)| (id, plan.passing[id.index()]));
        let (middle, backward) = rest.split_at(1);
        vec![all, first.chain(middle.iter().copied()).chain(again).chain(backward.iter().copied()).collect()]
    }

    /// What computes cost; none where they are not legal.
    pub fn point(&self, computes: &[Compute]) -> Option<Point> {
        let schedule = with_liveness(&self.instance, computes);
        let simulation = simulate(&self.instance, &schedule).ok()?;
        let (mut saved, mut peak) = (0, 0);
        for (step, &bytes) in schedule.steps.iter().zip(&simulation.timeline) {
            match *step {
                Step::Compute { operator, .. } if self.operators[operator.index()].is_none() => saved = bytes,
                _ => peak = peak.max(bytes),
            }
        }
        Some(Point { saved, peak, time: simulation.time })
    }

    /// The computes of a schedule of the block as an option of the network's stage.
    pub fn option(&self, name: &str, computes: &[Compute]) -> StageOption {
        let mut option = StageOption { name: name.into(), ..StageOption::default() };
        let mut is_backward = false;
        for &(id, variant) in computes {
            match &self.operators[id.index()] {
                None => is_backward = true,
                Some((network, variants)) => {
                    let passes = if is_backward { &mut option.backward } else { &mut option.forward };
                    passes.push((*network, variants[variant]));
                }
            }
        }
        option
    }
}

/// Makes a document of a block.
struct Maker<'a> {
    instance: &'a Instance,
    boundary: &'a Boundary,
    home: HashSet<OperatorId>,
    draft: Draft<'a>,
    operators: Vec<Option<(OperatorId, Vec<usize>)>>,
}

impl Maker<'_> {
    /// Whether an implementation does with what the block is handed.
    fn suits(&self, id: OperatorId, variant: usize) -> bool {
        let way = &self.instance.operator(id).implementations[variant];
        let is_backward = self.instance.operator(id).phase == Phase::Backward;
        let there = |read: &TensorId| match self.instance.tensor(*read).producer {
            None => true,
            Some(producer) => {
                self.home.contains(&producer)
                    || self.boundary.inputs.contains(read)
                    || is_backward && self.boundary.gradients.contains(read)
            }
        };
        let taken = |input: TensorId| self.boundary.inputs.contains(&input) || self.boundary.leaves.contains(&input);
        way.reads.iter().all(there) && way.in_place.is_none_or(|pair| !taken(pair.input))
    }

    fn operator(&mut self, id: OperatorId) -> Result<(), String> {
        let operator = self.instance.operator(id);
        // A first run comes first.
        let mut variants: Vec<usize> = (0..operator.implementations.len()).filter(|&v| self.suits(id, v)).collect();
        variants.sort_by_key(|&v| operator.implementations[v].recompute);
        if variants.first().is_none_or(|&v| operator.implementations[v].recompute) {
            return Err(format!("operator {:?} reads what its block is not handed", operator.name));
        }
        let outputs = self.draft.tensors(operator.outputs.iter().copied());
        let ways = variants.iter().map(|&v| self.draft.way(&operator.implementations[v], |_| true)).collect();
        let runs = (operator.recomputable, operator.updates_state);
        self.draft.operator(operator.phase, runs, outputs, ways);
        self.operators.push(Some((id, variants)));
        Ok(())
    }

    /// The rest of the network: reads what the block hands on, makes the gradients that it is handed.
    fn rest(&mut self) {
        let mut sorted = |set: &HashSet<TensorId>| self.draft.tensors(set.iter().copied().collect::<BTreeSet<_>>());
        let (inputs, outputs) = (sorted(&self.boundary.outputs), sorted(&self.boundary.gradients));
        let way = ImplementationDocument { inputs: Some(inputs), ..ImplementationDocument::plain("", 0, 0) };
        self.draft.operator(Phase::Backward, (false, false), outputs, vec![way]);
        self.operators.push(None);
    }
}
