//! An instance as PyTorch's partitioner sees a joint graph: one vertex per input, per operator, and per result of an
//! operator with several. Knows no rule about what is saved.

use remat_core::format::{Phase, TensorKind};
use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, TensorId};

use super::operators::Kind;
use crate::method::SkipReason;

/// One vertex.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub struct Vertex {
    /// The operator that computes it, or of whose results it is one; none for inputs.
    pub operator: Option<OperatorId>,
    /// The value that it stands for; none for an operator with several results.
    pub value: Option<TensorId>,
    /// Size of the value, or of all results.
    pub bytes: u64,
    /// What is known of the operator.
    pub kind: Kind,
    /// Whether it is one result of several.
    pub part: bool,
    /// Vertices that it reads.
    pub reads: Vec<usize>,
    /// Vertices that read it, ascending.
    pub users: Vec<usize>,
    /// Position among what the forward pass needs; none for what it does not.
    pub forward: Option<usize>,
    /// Whether a gradient of the loss is among its ancestors.
    pub after_tangent: bool,
    /// Least number of edges to what the forward pass does not need; [`FAR`] where there are none.
    pub distance: u32,
    /// Whether it is an operator of the forward pass that may not run again, or a result of one.
    pub once: bool,
    /// Whether the iteration returns the value.
    pub returned: bool,
}

/// The distance of what never reaches the backward pass.
pub const FAR: u32 = 1_000_000_000;

/// A joint graph, in topological order.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Inputs first, then operators in the instance's order, each followed by its results where they are several.
    pub vertices: Vec<Vertex>,
}

impl Graph {
    /// The joint graph of an instance; where asked for, operators that Inductor decomposes count as what they become.
    ///
    /// # Errors
    /// The instance has no backward pass.
    pub fn new(instance: &Instance, plan: &Plan, decompose: bool) -> Result<Self, SkipReason> {
        let mut build = Build {
            instance,
            plan,
            decompose,
            wanted: wanted(instance, plan),
            vertices: Vec::new(),
            vertex_of: vec![None; instance.tensors().len()],
        };
        for id in instance.tensor_ids().filter(|&id| instance.tensor(id).producer.is_none()) {
            build.input(id);
        }
        instance.order().iter().for_each(|&id| build.operator(id));
        let mut graph = Self { vertices: build.vertices };
        graph.connect();
        graph.mark_forward(instance);
        graph.mark_tangents(instance)?;
        graph.measure();
        Ok(graph)
    }

    /// Whether one vertex can be fused with one of its users.
    pub fn fusible(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.vertices[from].kind, self.vertices[to].kind);
        to.concatenation || (from.fusible() && to.fusible())
    }

    /// Whether the forward pass needs a vertex.
    pub fn is_forward(&self, vertex: usize) -> bool {
        self.vertices[vertex].forward.is_some()
    }

    fn connect(&mut self) {
        for at in 0..self.vertices.len() {
            for read in self.vertices[at].reads.clone() {
                if self.vertices[read].users.last() != Some(&at) {
                    self.vertices[read].users.push(at);
                }
            }
        }
    }

    /// The forward pass needs the inputs and the ancestors of what it returns; where it returns nothing, all of it.
    fn mark_forward(&mut self, instance: &Instance) {
        let forward = |vertex: &Vertex| vertex.operator.is_none_or(|id| instance.operator(id).phase.is_forward());
        let returned = |vertex: &Vertex| forward(vertex) && vertex.returned;
        let any = self.vertices.iter().any(returned);
        let mut needed = vec![false; self.vertices.len()];
        for (at, vertex) in self.vertices.iter().enumerate().rev() {
            needed[at] |= vertex.operator.is_none() || if any { returned(vertex) } else { forward(vertex) };
            if needed[at] {
                vertex.reads.iter().for_each(|&read| needed[read] = true);
            }
        }
        let needed = self.vertices.iter_mut().zip(needed).filter(|(_, needed)| *needed);
        for (position, (vertex, _)) in needed.enumerate() {
            vertex.forward = Some(position);
        }
    }

    /// Gradients begin at the backward operators that differentiate the loss; where none says so, at the first one.
    fn mark_tangents(&mut self, instance: &Instance) -> Result<(), SkipReason> {
        let of_loss = |id: OperatorId| instance.operator(id).phase == Phase::Loss;
        let begins =
            |vertex: &Vertex| vertex.operator.and_then(|id| instance.operator(id).differentiates).is_some_and(of_loss);
        let backward =
            |vertex: &Vertex| vertex.operator.is_some_and(|id| instance.operator(id).phase == Phase::Backward);
        let first = self.vertices.iter().position(backward);
        let first = first.ok_or_else(|| SkipReason("the instance has no backward pass".into()))?;
        let none = !self.vertices.iter().any(begins);
        for at in 0..self.vertices.len() {
            let vertex = &self.vertices[at];
            let after = vertex.reads.iter().any(|&read| self.vertices[read].after_tangent);
            self.vertices[at].after_tangent = after || begins(vertex) || (none && at == first);
        }
        Ok(())
    }

    fn measure(&mut self) {
        for at in (0..self.vertices.len()).rev() {
            let users = self.vertices[at].users.iter().map(|&user| self.vertices[user].distance + 1);
            self.vertices[at].distance = if self.is_forward(at) { users.fold(FAR, u32::min) } else { 0 };
        }
    }
}

/// Which tensors are read by somebody, or are results.
fn wanted(instance: &Instance, plan: &Plan) -> Vec<bool> {
    let mut wanted: Vec<bool> = instance.tensor_ids().map(|id| instance.is_result(id)).collect();
    for id in instance.operator_ids() {
        let ways = [Some(plan.saving[id.index()]), plan.saving_again[id.index()]];
        let reads = ways.into_iter().flatten().flat_map(|way| &instance.operator(id).implementations[way].reads);
        reads.for_each(|read| wanted[read.index()] = true);
    }
    wanted
}

struct Build<'a> {
    instance: &'a Instance,
    plan: &'a Plan,
    decompose: bool,
    wanted: Vec<bool>,
    vertices: Vec<Vertex>,
    vertex_of: Vec<Option<usize>>,
}

impl Build<'_> {
    /// Adds a vertex, of which its operator and its value say more.
    fn push(&mut self, vertex: Vertex) -> usize {
        let at = self.vertices.len();
        if let Some(value) = vertex.value {
            self.vertex_of[value.index()] = Some(at);
        }
        let again = |id: OperatorId| self.plan.saving_again[id.index()].is_some();
        let forward = |id: OperatorId| self.instance.operator(id).phase.is_forward();
        let once = vertex.operator.is_some_and(|id| forward(id) && !again(id));
        let returned = vertex.value.is_some_and(|value| self.instance.tensor(value).kind == TensorKind::Output);
        self.vertices.push(Vertex { once, returned, ..vertex });
        at
    }

    fn input(&mut self, id: TensorId) {
        self.push(Vertex { value: Some(id), bytes: self.instance.tensor(id).bytes, ..Vertex::default() });
    }

    fn operator(&mut self, id: OperatorId) {
        let operator = self.instance.operator(id);
        let way = self.plan.saving[id.index()];
        let kind = Kind::of(&operator.op_type);
        let kind = if self.decompose { kind.decomposed() } else { kind };
        let kind = Kind { random: kind.random || operator.random, ..kind };
        let reads = operator.implementations[way].reads.iter();
        let reads = reads.filter_map(|read| self.vertex_of[read.index()]).collect();
        let made: Vec<TensorId> = operator.makes(way).collect();
        let bytes = made.iter().map(|made| self.instance.tensor(*made).bytes).sum();
        let whole = Vertex { operator: Some(id), bytes, kind, reads, ..Vertex::default() };
        if let &[value] = made.as_slice() {
            self.push(Vertex { value: Some(value), ..whole });
            return;
        }
        let reads = vec![self.push(whole)];
        for part in made {
            if self.wanted[part.index()] {
                let bytes = self.instance.tensor(part).bytes;
                let (operator, value, reads) = (Some(id), Some(part), reads.clone());
                self.push(Vertex { operator, value, bytes, kind: Kind::PART, part: true, reads, ..Vertex::default() });
            }
        }
    }
}
