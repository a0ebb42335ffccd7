//! The joint graph of an instance with all implementations that may be chosen: operators in the instance's order, each with
//! the ways of its first run and those of later runs, and the values between them. Knows neither model nor solver.

use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId, TensorId};

/// Which alternatives may be chosen (the switches of MONeT's ablation).
#[expect(clippy::struct_excessive_bools, reason = "five independent switches")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Among implementations that read and make the same (convolution algorithms).
    pub algorithms: bool,
    /// Among backward implementations that read other outputs of the forward pass.
    pub outputs: bool,
    /// Among those that read what only some forward implementation saves.
    pub intermediates: bool,
    /// Forward operators in place.
    pub in_place: bool,
    /// Operators a second time.
    pub recompute: bool,
}

/// One way to run an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Position of the implementation.
    pub implementation: usize,
    /// Duration.
    pub time: u64,
    /// Bytes that are there during the run only: workspace, where it counts, and what it makes and nobody reads.
    pub transient: u64,
    /// Values that it reads, ascending.
    pub reads: Vec<usize>,
    /// Values that it makes, ascending.
    pub makes: Vec<usize>,
    /// The value whose buffer one of its outputs takes over.
    pub over: Option<usize>,
    /// Values for which it needs memory: all that it makes, but for what takes over a buffer.
    allocates: Vec<usize>,
}

/// One operator.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Which one of the instance.
    pub id: OperatorId,
    /// Ways of the first run.
    pub first: Vec<Way>,
    /// Ways of later runs; empty where there is none.
    pub again: Vec<Way>,
    /// Values that some way reads, ascending.
    pub reads: Vec<usize>,
    /// Values that some way makes, ascending.
    pub makes: Vec<usize>,
}

/// A tensor that some way reads, or that must be there at the end; inputs left out.
#[derive(Clone, Debug)]
pub struct Value {
    /// Which tensor of the instance.
    pub tensor: TensorId,
    /// Size (M).
    pub bytes: u64,
    /// Position of the operator that makes it.
    pub producer: usize,
    /// Positions of the operators that some way of reads it, ascending.
    pub readers: Vec<usize>,
    /// Whether it must be there at the end.
    pub result: bool,
    /// Up to which stage it must be kept: none of its producer's later ways makes it, and that far some first run reads it
    /// whatever the way. 0 where it need not be.
    pub needed_until: usize,
    /// Last stage into which it can be of use to keep it.
    pub last_use: usize,
}

/// Forward and backward pass as one directed acyclic graph, in the instance's order, which is that of stages.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Operators by position in the order.
    pub operators: Vec<Operator>,
    /// The values.
    pub values: Vec<Value>,
    /// Fixed bytes and inputs: there all the time.
    pub base_bytes: u64,
}

/// Which implementations may be chosen, by operator and position: the switches of MONeT's ablation. In every mode an
/// operator has the implementation that it has without alternatives ([`Plan::fastest`]).
pub fn allowed(instance: &Instance, modes: Modes) -> Vec<Vec<bool>> {
    let plan = Plan::fastest(instance);
    let all = modes.algorithms && modes.outputs && modes.intermediates;
    let of = |(at, operator): (usize, &remat_core::instance::Operator)| {
        let bases = [Some(plan.saving[at]), plan.saving_again[at]];
        let allowed = |(position, way): (usize, &remat_core::instance::Implementation)| {
            let (forward, is_base) = (operator.phase.is_forward(), bases.contains(&Some(position)));
            if forward && way.in_place.is_some() && !modes.in_place && !is_base {
                return false;
            }
            let like = |base: usize| {
                let base = &operator.implementations[base];
                let in_place = way.in_place == base.in_place || (forward && way.in_place.is_some());
                way.reads == base.reads && way.saves == base.saves && in_place
            };
            let special = !way.saves.is_empty() || way.reads.iter().any(|&read| instance.is_extra(read));
            all || is_base
                || (bases.iter().flatten().any(|&base| like(base)) && (modes.algorithms || way.in_place.is_some()))
                || (special && modes.intermediates)
                || (!special && modes.outputs && !forward)
        };
        operator.implementations.iter().enumerate().map(allowed).collect()
    };
    instance.operators().iter().enumerate().map(of).collect()
}

impl Graph {
    /// The graph of an instance with the implementations of some modes.
    pub fn new(instance: &Instance, modes: Modes) -> Self {
        let allowed = allowed(instance, modes);
        let ways = |id: OperatorId, again: bool| {
            let operator = instance.operator(id);
            let all = operator.implementations.iter().enumerate();
            let suits = all.filter(|(_, way)| way.recompute == (again && operator.updates_state));
            let may = !again || (operator.recomputable && modes.recompute);
            suits.map(|(at, _)| at).filter(|&at| may && allowed[id.index()][at]).collect()
        };
        let mut graph = Self::unconnected(instance, ways);
        for operator in &mut graph.operators {
            for ways in [&mut operator.first, &mut operator.again] {
                *ways = undominated(
                    std::mem::take(ways),
                    |way| (way.time, way.transient, way.implementation),
                    |one, other| (&one.reads, &one.makes, one.over) == (&other.reads, &other.makes, other.over),
                );
            }
        }
        graph.connect();
        graph
    }

    /// Operators with these implementations for first and for later runs, and the values; what connects them is not there yet.
    pub(super) fn unconnected(instance: &Instance, ways: impl Fn(OperatorId, bool) -> Vec<usize>) -> Self {
        let ways: Vec<_> = instance.order().iter().map(|&id| (id, [ways(id, false), ways(id, true)])).collect();
        let mut wanted: Vec<bool> = instance.tensor_ids().map(|id| instance.is_result(id)).collect();
        for (id, ways) in &ways {
            for &way in ways.iter().flatten() {
                for read in &instance.operator(*id).implementations[way].reads {
                    wanted[read.index()] = true;
                }
            }
        }
        let (mut values, mut value_of) = (Vec::new(), vec![None; instance.tensors().len()]);
        for id in instance.tensor_ids().filter(|id| wanted[id.index()] && instance.tensor(*id).producer.is_some()) {
            value_of[id.index()] = Some(values.len());
            let (bytes, result) = (instance.tensor(id).bytes, instance.is_result(id));
            values.push(Value {
                tensor: id,
                bytes,
                producer: 0,
                readers: vec![],
                result,
                needed_until: 0,
                last_use: 0,
            });
        }
        let operator = |(id, ways): (OperatorId, [Vec<usize>; 2])| {
            let [first, again] = ways.map(|ways| ways.iter().map(|&at| way(instance, &value_of, id, at)).collect());
            Operator { id, first, again, reads: vec![], makes: vec![] }
        };
        let operators = ways.into_iter().map(operator).collect();
        Self { operators, values, base_bytes: instance.base_bytes() }
    }

    /// What a budget leaves beside what is always there; more than anything needs where it is unlimited.
    pub fn room(&self, budget: Option<u64>) -> u64 {
        let all: u64 = self.values.iter().map(|value| value.bytes).sum();
        let ways = self.operators.iter().flat_map(|operator| operator.first.iter().chain(&operator.again));
        let most = all.saturating_add(ways.map(|way| way.transient).max().unwrap_or(0));
        budget.map_or(most, |budget| budget.saturating_sub(self.base_bytes).min(most))
    }

    /// Number of operators, and of stages.
    pub fn len(&self) -> usize {
        self.operators.len()
    }

    /// Whether there is no operator.
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty()
    }

    /// How an operator may run in a stage.
    pub fn ways(&self, stage: usize, position: usize) -> &[Way] {
        match position.cmp(&stage) {
            std::cmp::Ordering::Less => &self.operators[position].again,
            std::cmp::Ordering::Equal => &self.operators[position].first,
            std::cmp::Ordering::Greater => &[],
        }
    }

    /// Time of all first runs, each the fastest way.
    pub fn least_time(&self) -> u64 {
        self.operators.iter().map(Operator::least_time).sum()
    }

    /// Whether a value must (or must not) be kept into a stage whatever the schedule; none where that is free.
    pub fn forced(&self, stage: usize, at: usize) -> Option<bool> {
        let value = &self.values[at];
        if stage == self.len() {
            return Some(value.result);
        }
        if stage <= value.producer || stage > value.last_use {
            return Some(false);
        }
        self.must_keep(stage, at).then_some(true)
    }

    /// Whether a value must be kept into a stage whatever the schedule: nothing can make it again.
    pub fn must_keep(&self, stage: usize, at: usize) -> bool {
        let value = &self.values[at];
        stage > value.producer && stage <= value.needed_until
    }

    /// Values that what reads a value makes, or that its operator reads.
    pub fn neighbours(&self, value: usize) -> Vec<usize> {
        let value = &self.values[value];
        let made = value.readers.iter().flat_map(|&reader| &self.operators[reader].makes);
        made.chain(&self.operators[value.producer].reads).copied().collect()
    }

    /// Last stage in which running an operator again can be of use.
    pub fn last_run(&self, position: usize) -> usize {
        let operator = &self.operators[position];
        let uses = operator.makes.iter().map(|&value| self.values[value].last_use).max();
        if operator.again.is_empty() { position } else { uses.unwrap_or(position).clamp(position, self.len() - 1) }
    }

    /// Fills in what follows from who reads and makes what.
    pub(super) fn connect(&mut self) {
        for (position, operator) in self.operators.iter_mut().enumerate() {
            let ways = || operator.first.iter().chain(&operator.again);
            let reads = ascending(ways().flat_map(|way| way.reads.iter().copied()));
            let makes = ascending(ways().flat_map(|way| way.makes.iter().copied()));
            (operator.reads, operator.makes) = (reads, makes);
            for &value in &operator.makes {
                self.values[value].producer = position;
            }
            for &value in &operator.reads {
                self.values[value].readers.push(position);
                if operator.first.iter().all(|way| way.reads.contains(&value)) {
                    self.values[value].needed_until = position;
                }
            }
        }
        for value in self.values.iter_mut().filter(|value| value.result) {
            value.needed_until = self.operators.len();
        }
        for operator in &self.operators {
            for value in operator.again.iter().flat_map(|way| &way.makes) {
                self.values[*value].needed_until = 0;
            }
        }
        // Readers come later in the order, so their last runs are known when they are asked for.
        let mut by_producer: Vec<usize> = (0..self.values.len()).collect();
        by_producer.sort_by_key(|&value| std::cmp::Reverse(self.values[value].producer));
        for at in by_producer {
            let last = self.values[at].readers.iter().map(|&reader| self.last_run(reader)).max();
            let value = &mut self.values[at];
            value.last_use = last.unwrap_or(0).max(if value.result { self.operators.len() } else { value.producer });
        }
    }
}

impl Operator {
    /// Time of its fastest first way.
    pub fn least_time(&self) -> u64 {
        self.first.iter().map(|way| way.time).min().unwrap_or(0)
    }
}

impl Way {
    /// Whether it makes a value in memory of its own, and not in the buffer of what it overwrites.
    pub fn allocates(&self, value: usize) -> bool {
        self.allocates.binary_search(&value).is_ok()
    }

    /// Whether it reads a value.
    pub fn reads(&self, value: usize) -> bool {
        self.reads.binary_search(&value).is_ok()
    }

    /// Whether it makes a value.
    pub fn makes(&self, value: usize) -> bool {
        self.makes.binary_search(&value).is_ok()
    }
}

/// An implementation of an operator; `value_of` says by tensor which value it is, none where nobody wants it.
pub(crate) fn way(instance: &Instance, value_of: &[Option<usize>], id: OperatorId, implementation: usize) -> Way {
    let operator = instance.operator(id);
    let way = &operator.implementations[implementation];
    let sorted = |tensors: &mut dyn Iterator<Item = TensorId>| {
        let mut values: Vec<usize> = tensors.filter_map(|tensor| value_of[tensor.index()]).collect();
        values.sort_unstable();
        values
    };
    let taken = |tensor: &TensorId| way.in_place.is_some_and(|pair| pair.output == *tensor);
    let unread = operator.makes(implementation).filter(|tensor| value_of[tensor.index()].is_none() && !taken(tensor));
    Way {
        implementation,
        time: way.time,
        transient: way.workspace_bytes + unread.map(|tensor| instance.tensor(tensor).bytes).sum::<u64>(),
        reads: sorted(&mut way.reads.iter().copied()),
        makes: sorted(&mut operator.makes(implementation)),
        over: way.in_place.and_then(|pair| value_of[pair.input.index()]),
        allocates: sorted(&mut operator.makes(implementation).filter(|tensor| !taken(tensor))),
    }
}

/// Values in ascending order, each once.
pub fn ascending<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = values.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Ways that no other beats in time and memory among those that are alike, fastest first. Of two that cost the same the one with
/// the lower number stays.
pub fn undominated<W, T: Ord, M: Ord>(
    mut ways: Vec<W>,
    cost: impl Fn(&W) -> (T, M, usize),
    alike: impl Fn(&W, &W) -> bool,
) -> Vec<W> {
    ways.sort_by_key(&cost);
    let mut kept: Vec<W> = Vec::with_capacity(ways.len());
    for way in ways {
        if !kept.iter().any(|other| alike(other, &way) && cost(other).1 <= cost(&way).1) {
            kept.push(way);
        }
    }
    kept
}
