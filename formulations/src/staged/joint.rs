//! The joint graph of an instance, as Checkmate's models see it: operators in the instance's order,
//! each with the implementation of its first run and the one of its later runs, and the values
//! between them. Knows of no solver.

use std::sync::OnceLock;

use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId};

use crate::method::SkipReason;
use crate::staged::graph::{Graph, ascending};
use crate::store_all::{out_of_place, store_all};

/// Forward and backward pass as one directed acyclic graph, in a fixed order.
#[derive(Clone, Debug)]
pub struct Joint {
    /// Operators by position in the order.
    pub operators: Vec<JointOperator>,
    /// Everything that some operator reads or that must be there at the end, inputs left out.
    pub values: Vec<Value>,
    /// Fixed bytes and inputs: there all the time.
    pub base_bytes: u64,
    /// The same as linear models see it, once it is asked for.
    graph: OnceLock<Graph>,
}

/// One operator.
#[derive(Clone, Debug)]
pub struct JointOperator {
    /// Which one of the instance.
    pub id: OperatorId,
    /// How it runs first.
    pub first: Run,
    /// How it runs again; none where it may not.
    pub again: Option<Run>,
    /// Values that each run makes.
    pub makes: Vec<usize>,
}

/// One way of running an operator.
#[derive(Clone, Debug)]
pub struct Run {
    /// Position of the implementation.
    pub implementation: usize,
    /// Duration.
    pub time: u64,
    /// Scratch memory; none where it does not count.
    pub workspace_bytes: u64,
    /// Bytes of what it makes and nobody reads: there during the run only.
    pub unread_bytes: u64,
    /// Values that it reads.
    pub reads: Vec<usize>,
}

/// One tensor that is made.
#[derive(Clone, Debug)]
pub struct Value {
    /// Size (M).
    pub bytes: u64,
    /// Position of the operator that makes it.
    pub producer: usize,
    /// Positions of the operators that read it in any of their runs, ascending.
    pub readers: Vec<usize>,
    /// Whether it must be there at the end.
    pub result: bool,
    /// Last position at which an operator that must run there reads it; the number of operators for
    /// results. Until then it has to be there or be made again.
    pub last_first_read: usize,
    /// Last stage into which it can be of use to keep it.
    pub last_use: usize,
}

/// Most operators of an instance that is searched stage by stage: what is kept is a table of operators times values.
const MOST_OPERATORS: usize = 20_000;

/// Whether an instance has a joint graph that can be searched stage by stage.
///
/// # Errors
/// Why it has none.
pub fn supports(instance: &Instance) -> Result<(), SkipReason> {
    is_within_reach(instance)?;
    Joint::new(instance).map(|_| ())
}

/// Whether an instance is small enough to be searched stage by stage.
///
/// # Errors
/// It is not.
pub fn is_within_reach(instance: &Instance) -> Result<(), SkipReason> {
    let count = instance.operators().len();
    let reason = || SkipReason(format!("{count} operators are more than the {MOST_OPERATORS} that it takes"));
    if count > MOST_OPERATORS { Err(reason()) } else { Ok(()) }
}

impl Joint {
    /// Time of all first runs.
    pub fn fixed_time(&self) -> u64 {
        self.operators.iter().map(|operator| operator.first.time).sum()
    }

    /// The joint graph under the fastest implementations.
    ///
    /// # Errors
    /// The instance cannot be run with one implementation per operator, or an operator runs in place only: here each value
    /// has a buffer of its own.
    pub fn new(instance: &Instance) -> Result<Self, SkipReason> {
        out_of_place(instance, &Plan::fastest(instance))?;
        Self::of_fastest(instance)
    }

    /// The same, some of them in place where there are no others.
    ///
    /// # Errors
    /// The instance cannot be run with one implementation per operator.
    pub fn of_fastest(instance: &Instance) -> Result<Self, SkipReason> {
        Self::with(instance, &Plan::fastest(instance))
    }

    /// The joint graph under a plan's implementations of first runs and of later ones (`saving`, `saving_again`).
    ///
    /// # Errors
    /// The instance cannot be run with these.
    pub fn with(instance: &Instance, plan: &Plan) -> Result<Self, SkipReason> {
        store_all(instance, plan)?;
        let (values, value_of) = values(instance, plan);
        let base_bytes = instance.fixed_bytes() + instance.input_bytes();
        let mut joint = Self { operators: Vec::new(), values, base_bytes, graph: OnceLock::new() };
        for &id in instance.order() {
            let run = |implementation| run(instance, &value_of, id, implementation);
            let again = again(instance, plan, id);
            let makes = |implementation: usize| -> Vec<usize> {
                let made = instance.operator(id).makes(implementation);
                made.filter_map(|tensor| value_of[tensor.index()]).collect()
            };
            let first = plan.saving[id.index()];
            let made = makes(first);
            // An implementation that makes less cannot stand in for the first run.
            let again = again.filter(|&again| made.iter().all(|value| makes(again).contains(value)));
            joint.operators.push(JointOperator { id, first: run(first), again: again.map(run), makes: made });
        }
        joint.connect();
        Ok(joint)
    }

    /// The same where workspaces do not count.
    #[must_use]
    pub fn without_workspaces(mut self) -> Self {
        for operator in &mut self.operators {
            for run in operator.again.iter_mut().chain([&mut operator.first]) {
                run.workspace_bytes = 0;
            }
        }
        Self { graph: OnceLock::new(), ..self }
    }

    /// The graph of linear models, in which each run has one way.
    pub fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| Graph::of(self))
    }

    /// Number of operators, and of stages (n, T).
    pub fn len(&self) -> usize {
        self.operators.len()
    }

    /// Whether there is no operator.
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty()
    }

    /// How an operator runs in a stage; none where it cannot.
    pub fn run(&self, stage: usize, position: usize) -> Option<&Run> {
        match position.cmp(&stage) {
            std::cmp::Ordering::Less => self.operators[position].again.as_ref(),
            std::cmp::Ordering::Equal => Some(&self.operators[position].first),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Last stage in which running an operator can be of use.
    pub fn last_run(&self, position: usize) -> usize {
        let operator = &self.operators[position];
        let uses = operator.makes.iter().map(|&value| self.values[value].last_use);
        match operator.again {
            Some(_) => uses.max().unwrap_or(position).clamp(position, self.len() - 1),
            None => position,
        }
    }

    /// Whether a value must be kept into a stage whatever the schedule: nothing can make it again.
    pub fn must_keep(&self, stage: usize, value: usize) -> bool {
        let value = &self.values[value];
        self.operators[value.producer].again.is_none() && stage > value.producer && stage <= value.last_first_read
    }

    /// A peak that no schedule undercuts: the first run of an operator with what it reads and makes,
    /// beside what cannot be made again and is still needed.
    pub fn least_peak(&self) -> u64 {
        // What must be there after its producer whatever else happens, as changes from position to position.
        let mut changes = vec![(0_u64, 0_u64); self.len() + 1];
        for (at, value) in self.values.iter().enumerate() {
            if self.must_keep(value.producer + 1, at) {
                changes[value.producer + 1].0 += value.bytes;
                changes[(value.last_first_read + 1).min(self.len())].1 += value.bytes;
            }
        }
        let (mut kept, mut most) = (0, 0);
        for (position, operator) in self.operators.iter().enumerate() {
            kept = kept + changes[position].0 - changes[position].1;
            let touched = ascending(operator.first.reads.iter().chain(&operator.makes).copied());
            let beside = touched.into_iter().filter(|&value| !self.must_keep(position, value));
            let bytes: u64 = beside.map(|value| self.values[value].bytes).sum();
            most = most.max(kept + bytes + operator.first.transient());
        }
        self.base_bytes + most
    }

    /// Fills in what follows from who reads what.
    fn connect(&mut self) {
        let end = self.len();
        for (position, operator) in self.operators.iter().enumerate() {
            for &value in &operator.makes {
                self.values[value].producer = position;
            }
            for &value in operator.first.reads.iter().chain(operator.again.iter().flat_map(|run| &run.reads)) {
                if self.values[value].readers.last() != Some(&position) {
                    self.values[value].readers.push(position);
                }
            }
            for &value in &operator.first.reads {
                self.values[value].last_first_read = position;
            }
        }
        for value in &mut self.values {
            value.last_first_read = if value.result { end } else { value.last_first_read.max(value.producer) };
        }
        // Readers come later in the order, so their last runs are known when they are asked for.
        let mut by_producer: Vec<usize> = (0..self.values.len()).collect();
        by_producer.sort_by_key(|&value| std::cmp::Reverse(self.values[value].producer));
        for value in by_producer {
            let readers = self.values[value].readers.iter().map(|&reader| self.last_run(reader)).max();
            self.values[value].last_use = readers.unwrap_or(0).max(self.values[value].last_first_read);
        }
    }
}

impl Run {
    /// Memory that is there during the run only.
    pub fn transient(&self) -> u64 {
        self.unread_bytes + self.workspace_bytes
    }
}

/// How an operator runs again under a plan; not, where that reads what no first run makes.
fn again(instance: &Instance, plan: &Plan, id: OperatorId) -> Option<usize> {
    let operator = instance.operator(id);
    let suits = |&way: &usize| operator.recomputable && plan.makes(instance, &operator.implementations[way].reads);
    plan.saving_again[id.index()].filter(suits)
}

/// The values, and which one each tensor is.
fn values(instance: &Instance, plan: &Plan) -> (Vec<Value>, Vec<Option<usize>>) {
    let mut wanted: Vec<bool> = instance.tensor_ids().map(|id| instance.is_result(id)).collect();
    for &id in instance.order() {
        let implementations = [Some(plan.saving[id.index()]), again(instance, plan, id)];
        for implementation in implementations.into_iter().flatten() {
            for read in &instance.operator(id).implementations[implementation].reads {
                wanted[read.index()] = instance.tensor(*read).producer.is_some();
            }
        }
    }
    let mut values = Vec::new();
    let mut value_of = vec![None; instance.tensors().len()];
    for tensor in instance.tensor_ids().filter(|id| wanted[id.index()]) {
        value_of[tensor.index()] = Some(values.len());
        values.push(Value {
            bytes: instance.tensor(tensor).bytes,
            producer: 0,
            readers: Vec::new(),
            result: instance.is_result(tensor),
            last_first_read: 0,
            last_use: 0,
        });
    }
    (values, value_of)
}

fn run(instance: &Instance, value_of: &[Option<usize>], id: OperatorId, implementation: usize) -> Run {
    let operator = instance.operator(id);
    let way = &operator.implementations[implementation];
    let unread = operator.makes(implementation).filter(|tensor| value_of[tensor.index()].is_none());
    Run {
        implementation,
        time: way.time,
        workspace_bytes: way.workspace_bytes,
        unread_bytes: unread.map(|tensor| instance.tensor(tensor).bytes).sum(),
        reads: way.reads.iter().filter_map(|tensor| value_of[tensor.index()]).collect(),
    }
}
