//! An instance as bit masks: what each run reads and makes, and what a state may still do.

use remat_core::format::Phase;
use remat_core::instance::{Instance, OperatorId, TensorId};
use remat_core::liveness::Compute;

use crate::method::SkipReason;
use crate::method::claim::fixed_implementations;
use crate::setting;

/// A set of tensors that are no inputs, or of operators.
pub type Set = u128;

/// Most operators that are searched: beyond, even generous limits are rarely enough.
const MAX_OPERATORS: usize = 26;
/// Most tensors that a [`Set`] holds.
const MAX_TENSORS: usize = Set::BITS as usize;

setting! {
    /// free: any order; fixed: every operator runs, and first runs follow the instance's order;
    /// stages: the same, and between two first runs operators run again in that order, each at most once
    pub enum Order("order") = Free { Free = "free", Fixed = "fixed", Stages = "stages" }
}

/// What a schedule may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// In which order operators run first.
    pub order: Order,
    /// Most runs of one operator, up to [`MAX_COPIES`]; none: any number.
    pub copies: Option<u8>,
    /// Whether each operator has one implementation: that of
    /// [`Implementations::One`](crate::method::claim::Implementations::One).
    pub one_implementation: bool,
}

/// Most runs of one operator that can be asked for: they are counted in a few bits each.
pub const MAX_COPIES: u64 = 1 << BITS;
const BITS: usize = 4;
const _: () = assert!(BITS * MAX_OPERATORS <= Set::BITS as usize, "the counts of all operators fit into a set");

/// How far a schedule is, whatever is resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Operators that have run, of those for which it matters.
    pub ran: Set,
    /// Runs of each operator beyond the first, where they are limited: [`BITS`] bits each.
    again: Set,
    /// In stages: one more than the position that ran again last since the last first run.
    since: u8,
}

impl Progress {
    fn runs_again(self, operator: usize) -> u8 {
        let count = self.again >> (BITS * operator) & ((1 << BITS) - 1);
        u8::try_from(count).expect("a count has four bits")
    }

    /// Whether whatever may follow the other progress may follow this one, the same operators having run.
    pub fn is_as_free_as(self, other: Self) -> bool {
        let fewer = || (0..MAX_OPERATORS).all(|operator| self.runs_again(operator) <= other.runs_again(operator));
        self.ran == other.ran && self.since <= other.since && (self.again == other.again || fewer())
    }
}

/// Members of a set.
pub fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (next < Set::BITS).then_some(next as usize)
    })
}

/// A run of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Operator and implementation.
    pub compute: Compute,
    /// Duration.
    pub time: u64,
    /// Scratch memory.
    pub workspace: u64,
    /// Tensors read.
    pub reads: Set,
    /// Tensors made.
    pub makes: Set,
    /// The tensor whose buffer is taken over, if any; one of those read.
    pub overwrites: Set,
}

/// What some progress leaves to be done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purpose {
    /// Tensors that a further step may read, or that must be there in the end.
    pub tensors: Set,
    /// Operators whose running may serve.
    pub operators: Set,
}

/// An instance, ready to be searched.
pub struct Problem<'a> {
    /// The instance.
    pub instance: &'a Instance,
    rules: Rules,
    /// Position of each operator in the instance's order.
    position: Vec<u8>,
    /// Fixed bytes and inputs.
    pub base: u64,
    /// Tensors by bit.
    bytes: Vec<u64>,
    /// Maker of each tensor.
    producer: Vec<usize>,
    /// By operator: ways of a first run (of any run where it makes no difference).
    first: Vec<Vec<Run>>,
    /// By operator: ways of a further run; empty where there may be none.
    again: Vec<Vec<Run>>,
    /// Operators whose having run matters.
    tracked: Set,
    /// Operators that must run.
    must: Set,
    /// Tensors that must be there in the end.
    pub results: Set,
}

impl<'a> Problem<'a> {
    /// Masks of an instance.
    ///
    /// # Errors
    /// The instance is too large, or the rules allow no schedule.
    pub fn new(instance: &'a Instance, rules: Rules) -> Result<Self, SkipReason> {
        let made: Vec<TensorId> = instance.tensor_ids().filter(|&id| instance.tensor(id).producer.is_some()).collect();
        let operators = instance.operators().len();
        if operators > MAX_OPERATORS || made.len() > MAX_TENSORS {
            return Err(SkipReason(format!(
                "has {operators} operators and {} tensors; the search takes up to {MAX_OPERATORS} and {MAX_TENSORS}",
                made.len()
            )));
        }
        let mut bits = vec![0; instance.tensors().len()];
        for (bit, id) in made.iter().enumerate() {
            bits[id.index()] = 1 << bit;
        }
        let mut position = vec![0; operators];
        for (at, id) in (0..).zip(instance.order()) {
            position[id.index()] = at;
        }
        let mut problem = Self {
            instance,
            rules,
            position,
            base: instance.base_bytes(),
            bytes: made.iter().map(|&id| instance.tensor(id).bytes).collect(),
            producer: made.iter().filter_map(|&id| instance.tensor(id).producer).map(OperatorId::index).collect(),
            first: Vec::new(),
            again: Vec::new(),
            tracked: 0,
            must: 0,
            results: made.iter().filter(|&&id| instance.is_result(id)).map(|id| bits[id.index()]).sum(),
        };
        let fixed = fixed_implementations(instance).filter(|_| rules.one_implementation);
        if rules.one_implementation && fixed.is_none() {
            return Err(SkipReason("cannot be run with one implementation per operator".into()));
        }
        for id in instance.operator_ids() {
            problem.add(id, &bits, fixed.as_ref().map(|fixed| fixed[id.index()]));
        }
        Ok(problem)
    }

    fn add(&mut self, id: OperatorId, bits: &[Set], fixed: Option<(usize, Option<usize>)>) {
        let operator = self.instance.operator(id);
        let bit: Set = 1 << id.index();
        let must = operator.phase == Phase::Backward || operator.updates_state || self.rules.order != Order::Free;
        if must {
            self.must |= bit;
        }
        let set = |ids: &mut dyn Iterator<Item = TensorId>| ids.fold(0, |set, id| set | bits[id.index()]);
        let run = |implementation: usize| {
            let way = &operator.implementations[implementation];
            Run {
                compute: (id, implementation),
                time: way.time,
                workspace: way.workspace_bytes,
                reads: set(&mut way.reads.iter().copied()),
                makes: set(&mut operator.makes(implementation)),
                overwrites: way.in_place.map_or(0, |pair| bits[pair.input.index()]),
            }
        };
        let ways = |recompute: bool| {
            let positions = 0..operator.implementations.len();
            positions.filter(move |&v| operator.implementations[v].recompute == recompute).map(run).collect()
        };
        let (first, again) = match fixed {
            Some((first, again)) => (vec![run(first)], again.map(run).into_iter().collect()),
            None => (ways(false), if operator.recomputable { ways(operator.updates_state) } else { Vec::new() }),
        };
        let differ = fixed.is_some_and(|(first, again)| again != Some(first));
        if must || again.is_empty() || differ || self.rules.copies.is_some() {
            self.tracked |= bit;
        }
        self.first.push(first);
        self.again.push(again);
    }

    /// Bytes of some tensors.
    pub fn bytes(&self, set: Set) -> u64 {
        members(set).map(|bit| self.bytes[bit]).sum()
    }

    /// Bytes of one tensor.
    pub fn size(&self, bit: usize) -> u64 {
        self.bytes[bit]
    }

    /// The ways in which an operator may run next.
    pub fn ways(&self, operator: usize, ran: Set) -> &[Run] {
        if ran >> operator & 1 == 1 { &self.again[operator] } else { &self.first[operator] }
    }

    /// Operators that still have to run.
    pub fn due(&self, ran: Set) -> Set {
        self.must & !ran
    }

    /// The progress after a run.
    pub fn after(&self, before: Progress, operator: usize) -> Progress {
        let mut after = Progress { ran: before.ran | (1 << operator) & self.tracked, ..before };
        let first = before.ran >> operator & 1 == 0;
        if self.rules.copies.is_some() && !first {
            after.again += 1 << (BITS * operator);
        }
        if self.rules.order == Order::Stages {
            after.since = if first { 0 } else { self.position[operator] + 1 };
        }
        after
    }

    /// Whether the rules allow an operator to run now.
    pub fn may_run(&self, operator: usize, progress: Progress) -> bool {
        let Progress { ran, since, .. } = progress;
        if ran >> operator & 1 == 1 {
            let in_stage = self.rules.order != Order::Stages || self.position[operator] >= since && self.due(ran) != 0;
            return in_stage && self.rules.copies.is_none_or(|copies| progress.runs_again(operator) + 1 < copies);
        }
        let mut not_yet = self.instance.order().iter().map(|id| id.index()).filter(|&id| ran >> id & 1 == 0);
        self.rules.order == Order::Free || not_yet.next() == Some(operator)
    }

    /// Whatever could serve from here on, whatever is resident.
    pub fn purpose(&self, ran: Set) -> Purpose {
        let mut purpose = Purpose { tensors: self.results, operators: 0 };
        let mut pending = self.due(ran);
        let mut tensors = self.results;
        loop {
            for bit in members(tensors) {
                let maker = self.producer[bit];
                if !self.ways(maker, ran).is_empty() {
                    pending |= 1 << maker;
                }
            }
            pending &= !purpose.operators;
            purpose.operators |= pending;
            let reads = members(pending).flat_map(|operator| self.first[operator].iter().chain(&self.again[operator]));
            tensors = reads.fold(0, |set, run| set | run.reads) & !purpose.tensors;
            purpose.tensors |= tensors;
            pending = 0;
            if tensors == 0 {
                return purpose;
            }
        }
    }

    /// A lower bound on the time from a state to the end; none where the end is out of reach.
    ///
    /// Each operator that is due runs at least once more, and so does the maker of whatever is absent
    /// and is read by every way of running one of them.
    pub fn bound(&self, resident: Set, ran: Set) -> Option<u64> {
        let mut needed = 0;
        let mut pending = self.due(ran);
        let mut absent = self.results & !resident;
        let mut time = 0;
        loop {
            for bit in members(absent) {
                pending |= 1 << self.producer[bit];
            }
            pending &= !needed;
            if pending == 0 {
                return Some(time);
            }
            needed |= pending;
            absent = 0;
            for operator in members(pending) {
                let ways = self.ways(operator, ran);
                time += ways.iter().map(|run| run.time).min()?;
                absent |= ways.iter().fold(Set::MAX, |set, run| set & run.reads) & !resident;
            }
            pending = 0;
        }
    }
}
