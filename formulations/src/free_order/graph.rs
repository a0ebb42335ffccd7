//! An instance as the bound sees it: operators with all their implementations, what every run of them needs, and a path of
//! operators whose first runs are ordered alike in every legal schedule.

use remat_core::Instance;
use remat_core::format::Phase;

use crate::search::paths::common;
use crate::staged::graph::{Way as BasicWay, ascending, undominated, way as basic_way};

/// One implementation of an operator.
#[derive(Clone, Debug)]
pub struct Way {
    /// How long it takes, and which tensors it reads, makes and takes the buffer of; all that are made count.
    pub basic: BasicWay,
    /// Bytes during a run: what is read and made, what shares a buffer once, and the workspace.
    pub touched_bytes: u64,
    /// Of these what is beyond the tensors themselves: the workspace, less what shares a buffer.
    pub beside: i128,
    /// Whether it is for later runs only, since it does not update state.
    pub recompute: bool,
}

impl Way {
    /// Whether both read and make the same, at the same times.
    fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (&self.basic, &other.basic);
        (&one.reads, &one.makes, self.recompute) == (&two.reads, &two.makes, other.recompute)
    }

    /// Whether it does what another way does, with buffers of its own.
    pub fn is_like_out_of_place(&self, other: &Self) -> bool {
        self.basic.over.is_none() && self.is_like(other)
    }

    /// Whether a run reads or makes a tensor.
    pub fn touches(&self, tensor: usize) -> bool {
        self.basic.reads(tensor) || self.basic.makes(tensor)
    }
}

/// An operator.
#[derive(Clone, Debug)]
pub struct Node {
    /// Implementations that some run may use; those that are dominated are left out.
    pub ways: Vec<Way>,
    /// Whether it may run once only.
    pub once: bool,
    /// Whether a run that is not a `recompute` one may take place once only.
    pub updates_state: bool,
    /// Whether every legal schedule runs it.
    pub must: bool,
    /// Tensors that some implementation reads; ascending.
    pub reads: Vec<usize>,
    /// Operators of which every first run needs something.
    needs: Vec<usize>,
    /// One more than the position on the path of the last operator there that runs before it in every legal schedule.
    pub after: usize,
    /// Position on the path of the first operator there that it is or that needs it; the path's length where there is none.
    pub before: usize,
}

impl Node {
    /// Duration of the fastest implementation that a first run may use.
    pub fn least_time(&self) -> u64 {
        self.ways.iter().filter(|way| !way.recompute).map(|way| way.basic.time).min().unwrap_or(0)
    }
}

/// A tensor that is made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Size.
    pub bytes: u64,
    /// Its operator.
    pub producer: usize,
    /// Whether it must be there in the end.
    pub result: bool,
    /// Operators that read it in some implementation.
    pub readers: Vec<usize>,
}

/// Operators by their position in the instance's order.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The operators.
    pub nodes: Vec<Node>,
    /// Everything that some of them makes.
    pub tensors: Vec<Made>,
    /// A longest path of operators that must run, each of which needs the one before.
    pub path: Vec<usize>,
    /// Fixed bytes and inputs.
    pub base_bytes: u64,
}

impl Graph {
    /// The graph of an instance.
    pub fn new(instance: &Instance) -> Self {
        let mut number = vec![None; instance.tensors().len()];
        let position = instance.positions();
        let mut tensors = Vec::new();
        for id in instance.tensor_ids() {
            let tensor = instance.tensor(id);
            if let Some(producer) = tensor.producer {
                number[id.index()] = Some(tensors.len());
                let producer = position[producer.index()];
                tensors.push(Made { bytes: tensor.bytes, producer, result: instance.is_result(id), readers: vec![] });
            }
        }
        let mut graph = Self { nodes: Vec::new(), tensors, path: Vec::new(), base_bytes: instance.base_bytes() };
        for id in instance.order() {
            let operator = instance.operator(*id);
            let once = !operator.recomputable;
            let ways = (0..operator.implementations.len())
                .filter(|&at| !operator.implementations[at].recompute || operator.updates_state && !once)
                .map(|at| {
                    let way = &operator.implementations[at];
                    let basic = basic_way(instance, &number, *id, at);
                    let shared = way.in_place.map_or(0, |pair| instance.tensor(pair.output).bytes);
                    let made = basic.makes.iter().filter(|&&made| !basic.reads(made));
                    let bytes: u64 = basic.reads.iter().chain(made).map(|&at| graph.tensors[at].bytes).sum();
                    Way {
                        touched_bytes: bytes - shared + way.workspace_bytes,
                        beside: i128::from(way.workspace_bytes) - i128::from(shared),
                        recompute: way.recompute,
                        basic,
                    }
                });
            let alike = |one: &Way, other: &Way| one.basic.over == other.basic.over && one.is_like(other);
            let mut ways =
                undominated(ways.collect(), |way| (way.basic.time, way.beside, way.basic.implementation), alike);
            // In front those that solvers had better take: what runs in place may take away what others read.
            ways.sort_unstable_by_key(|way| (way.basic.over.is_some(), way.basic.implementation));
            let must = operator.phase == Phase::Backward || operator.updates_state;
            let maker = |&tensor: &usize| graph.tensors[tensor].producer;
            let makers =
                ways.iter().filter(|way| !way.recompute).map(|way| ascending(way.basic.reads.iter().map(maker)));
            let makers: Vec<Vec<usize>> = makers.collect();
            let needs = common(makers.iter().map(Vec::as_slice));
            let updates_state = operator.updates_state;
            let reads = ascending(ways.iter().flat_map(|way| &way.basic.reads).copied());
            graph.nodes.push(Node { ways, once, updates_state, must, reads, needs, after: 0, before: 0 });
        }
        graph.connect();
        graph
    }

    fn connect(&mut self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for &tensor in &node.reads {
                self.tensors[tensor].readers.push(at);
            }
        }
        for tensor in &self.tensors {
            self.nodes[tensor.producer].must |= tensor.result;
        }
        // Whoever must run needs others to have run, which come before.
        for at in (0..self.nodes.len()).rev() {
            if self.nodes[at].must {
                self.nodes[at].needs.clone().into_iter().for_each(|need| self.nodes[need].must = true);
            }
        }
        self.path = self.longest_path();
        let mut place = vec![None; self.nodes.len()];
        for (index, &at) in self.path.iter().enumerate() {
            place[at] = Some(index);
        }
        for at in 0..self.nodes.len() {
            let own = |need: &usize| place[*need].map_or(self.nodes[*need].after, |index| index + 1);
            self.nodes[at].after = self.nodes[at].needs.iter().map(own).max().unwrap_or(0);
        }
        self.nodes.iter_mut().for_each(|node| node.before = self.path.len());
        for at in (0..self.nodes.len()).rev() {
            let before = place[at].unwrap_or(self.nodes[at].before);
            self.nodes[at].before = before;
            for need in self.nodes[at].needs.clone() {
                self.nodes[need].before = self.nodes[need].before.min(before);
            }
        }
    }

    fn longest_path(&self) -> Vec<usize> {
        let mut longest: Vec<(usize, Option<usize>)> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let best = node.needs.iter().copied().max_by_key(|&need| (longest[need].0, std::cmp::Reverse(need)));
            longest.push((best.map_or(0, |need| longest[need].0) + 1, best));
        }
        let must = (0..self.nodes.len()).filter(|&at| self.nodes[at].must);
        let mut next = must.max_by_key(|&at| (longest[at].0, std::cmp::Reverse(at)));
        let mut path = Vec::new();
        while let Some(at) = next {
            path.push(at);
            next = longest[at].1;
        }
        path.reverse();
        path
    }

    /// Bytes that no run exceeds, whatever stays.
    pub fn most_bytes(&self) -> u64 {
        let beside = self.nodes.iter().flat_map(|node| &node.ways).map(|way| way.touched_bytes).max().unwrap_or(0);
        self.base_bytes + self.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>() + beside
    }

    /// Least time of one run of all that must run.
    pub fn least_time(&self) -> u64 {
        self.nodes.iter().filter(|node| node.must).map(Node::least_time).sum()
    }
}
