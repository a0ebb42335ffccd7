//! The online policy: what is missing is made again, and what is in the way goes.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::unionfind::UnionFind;

use super::Heuristic;
use super::arena::{Arena, Holder};
use super::program::{Event, Program};
use crate::search::clock::Clock;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The program is done.
    Done,
    /// Nothing that may go is left, and an operator has no room.
    OutOfMemory,
    /// Further runs took longer than they may.
    Thrash,
    /// The time for planning was over.
    Stopped,
}

/// What the policy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ran an operator; whether for the first time.
    Run(usize, bool),
    /// Dropped a storage.
    Drop(usize),
}

/// A run of the policy.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Time of all runs so far.
    pub time: u64,
    /// Most memory at one time.
    pub most: u64,
    /// In order.
    pub actions: Vec<Action>,
}

/// Runs a program within a budget, while there is time for planning. Runs beyond the first may take so much time of the
/// program's in all.
pub fn run(program: &Program, heuristic: Heuristic, budget: u64, most_again: u64, planning: Clock) -> Outcome {
    let mut policy = Policy::new(program, heuristic, budget, most_again, planning);
    let end = policy.program().err().unwrap_or(End::Done);
    Outcome { end, time: policy.clock, most: policy.most, actions: policy.actions }
}

/// A storage at some moment.
#[derive(Clone, Debug, Default)]
struct Storage {
    /// Tensors that have been made in it.
    tensors: Vec<usize>,
    /// Time of their operators: what making it again takes by itself.
    cost: u64,
    there: bool,
    locks: usize,
    references: i64,
    pinned: bool,
    /// When it was last wanted.
    access: u64,
    /// Its place among those that may go.
    place: Option<u64>,
    /// Cost of what is gone below and above it, until that changes.
    around: [Option<u64>; 2],
    /// Its class, while it is gone.
    class: Option<usize>,
}

/// An operator that is wanted, for one of its tensors or for its own sake, and which of its arguments were missing.
struct Wanted {
    call: usize,
    tensor: Option<usize>,
    missing: Vec<usize>,
    first: bool,
}

struct Policy<'a> {
    of: &'a Program,
    heuristic: Heuristic,
    budget: u64,
    most_again: u64,
    planning: Clock,
    /// Time of the program so far.
    clock: u64,
    again: u64,
    memory: u64,
    most: u64,
    storages: Vec<Storage>,
    /// Whether a tensor can be read.
    defined: Vec<bool>,
    /// The operators called so far that read a tensor.
    readers: Vec<Vec<usize>>,
    /// Storages that may go, in the order in which they came to.
    pool: BTreeMap<u64, usize>,
    places: u64,
    /// Classes of what is gone, and their costs by root.
    gone: UnionFind<usize>,
    costs: Vec<i128>,
    /// Addresses, where the heuristic asks for them.
    arena: Option<Arena>,
    actions: Vec<Action>,
}

impl<'a> Policy<'a> {
    fn new(of: &'a Program, heuristic: Heuristic, budget: u64, most_again: u64, planning: Clock) -> Self {
        Self {
            of,
            heuristic,
            budget,
            most_again,
            planning,
            clock: 0,
            again: 0,
            memory: of.base,
            most: of.base,
            storages: vec![Storage::default(); of.storages.len()],
            defined: vec![false; of.tensors.len()],
            readers: vec![Vec::new(); of.tensors.len()],
            pool: BTreeMap::new(),
            places: 0,
            gone: UnionFind::new_empty(),
            costs: Vec::new(),
            arena: (heuristic == Heuristic::Coop).then(|| Arena::new(budget.saturating_sub(of.base))),
            actions: Vec::new(),
        }
    }

    fn program(&mut self) -> Result<(), End> {
        let of = self.of;
        for &event in &of.events {
            match event {
                Event::Call(call) => self.call(call)?,
                Event::Get(tensor) => self.storages[of.tensors[tensor].0].references += 1,
                Event::Release(tensor) => self.release(of.tensors[tensor].0),
                Event::Pin(tensor) => self.pin(tensor)?,
            }
        }
        Ok(())
    }

    /// The first run of an operator.
    fn call(&mut self, call: usize) -> Result<(), End> {
        let of = self.of;
        let called = &of.calls[call];
        for &tensor in &called.makes {
            let storage = &mut self.storages[of.tensors[tensor].0];
            storage.tensors.push(tensor);
            storage.references += 1;
            let calls: BTreeSet<usize> = storage.tensors.iter().map(|&tensor| of.tensors[tensor].1).collect();
            storage.cost = calls.into_iter().map(|call| of.calls[call].again.unwrap_or(of.calls[call].time)).sum();
        }
        for &read in &called.reads {
            self.readers[read].push(call);
        }
        let wanted = self.want(call, called.makes.first().copied(), true);
        self.make(wanted)?;
        for &tensor in &called.makes {
            self.storages[of.tensors[tensor].0].access = self.clock;
        }
        Ok(())
    }

    /// Lets go of a reference; what has none goes at once.
    fn release(&mut self, storage: usize) {
        let state = &mut self.storages[storage];
        state.references -= 1;
        if state.references == 0 && state.there && !state.pinned {
            self.drop(storage);
        }
    }

    /// Makes a tensor if it is missing, and keeps it from going.
    fn pin(&mut self, tensor: usize) -> Result<(), End> {
        if !self.defined[tensor] {
            let wanted = self.want_tensor(tensor);
            self.make(wanted)?;
        }
        let storage = self.of.tensors[tensor].0;
        if !self.storages[storage].pinned {
            self.storages[storage].pinned = true;
            self.lock(storage);
        }
        Ok(())
    }

    /// Runs an operator, after everything that is missing before it, with an explicit stack: chains of
    /// missing tensors are as long as the program.
    fn make(&mut self, wanted: Wanted) -> Result<(), End> {
        let mut stack = vec![wanted];
        while let Some(wanted) = stack.last_mut() {
            if let Some(&missing) = wanted.missing.last() {
                if self.defined[missing] {
                    wanted.missing.pop();
                    self.lock(self.of.tensors[missing].0);
                } else {
                    stack.push(self.want_tensor(missing));
                }
                continue;
            }
            let Some(wanted) = stack.pop() else { break };
            let call = &self.of.calls[wanted.call];
            self.make_room_for(wanted.call)?;
            self.run(&wanted);
            for read in &call.reads {
                self.unlock(self.of.tensors[*read].0);
            }
            if self.again > self.most_again {
                return Err(End::Thrash);
            }
        }
        Ok(())
    }

    /// Begins to make a tensor that is missing.
    fn want_tensor(&mut self, tensor: usize) -> Wanted {
        self.want(self.of.tensors[tensor].1, Some(tensor), false)
    }

    /// Begins to run an operator: its arguments count as wanted now, and those that are there are locked.
    fn want(&mut self, call: usize, tensor: Option<usize>, first: bool) -> Wanted {
        let of = self.of;
        let reads = &of.calls[call].reads;
        for &read in reads {
            self.storages[of.tensors[read].0].access = self.clock;
        }
        let (there, mut missing): (Vec<usize>, Vec<usize>) = reads.iter().partition(|read| self.defined[**read]);
        for read in there {
            self.lock(of.tensors[read].0);
        }
        // The last one is looked at first.
        missing.reverse();
        Wanted { call, tensor, missing, first }
    }

    fn make_room_for(&mut self, call: usize) -> Result<(), End> {
        let of = self.of;
        let called = &of.calls[call];
        if self.arena.is_none() {
            return self.make_room(called.bytes.saturating_add(called.workspace));
        }
        if of.base > self.budget {
            return Err(End::OutOfMemory);
        }
        for &made in &called.makes {
            let storage = of.tensors[made].0;
            // A view takes no place of its own.
            if self.storages[storage].tensors.first() != Some(&made) {
                continue;
            }
            // What is there already is made beside itself, and goes again.
            let there = self.storages[storage].there;
            let holder = if there { Holder::Scratch } else { Holder::Storage(storage) };
            self.place(of.storages[storage], holder)?;
        }
        self.place(called.workspace, Holder::Scratch)
    }

    /// Finds a place in the arena; where there is none, the cheapest neighbours go.
    fn place(&mut self, bytes: u64, holder: Holder) -> Result<(), End> {
        while let Some(mut arena) = self.arena.take() {
            let fits = arena.put(bytes, holder);
            let may_go = |storage: usize| self.storages[storage].place.is_some().then(|| self.cost(storage));
            let gone = if fits { Some(Vec::new()) } else { arena.cheapest(bytes, may_go) };
            self.arena = Some(arena);
            if fits {
                break;
            }
            self.check_time()?;
            gone.ok_or(End::OutOfMemory)?.into_iter().for_each(|storage| self.drop(storage));
        }
        Ok(())
    }

    fn check_time(&self) -> Result<(), End> {
        if self.planning.is_over() { Err(End::Stopped) } else { Ok(()) }
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), End> {
        while self.memory.saturating_add(bytes) > self.budget {
            self.check_time()?;
            let storage = self.choice().ok_or(End::OutOfMemory)?;
            self.drop(storage);
        }
        Ok(())
    }

    /// The storage of the least cost; of equal ones the last that came to the pool. A cost of 0 is taken at once.
    fn choice(&mut self) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        let pool: Vec<usize> = self.pool.values().copied().collect();
        for storage in pool {
            let cost = self.cost(storage);
            if best.is_none_or(|(least, _)| cost <= least) {
                best = Some((cost, storage));
            }
            if cost <= 0.0 {
                break;
            }
        }
        best.map(|(_, storage)| storage)
    }

    fn cost(&mut self, storage: usize) -> f64 {
        let state = &self.storages[storage];
        let (own, bytes) = (u128::from(state.cost), u128::from(self.of.storages[storage]));
        let staleness = u128::from(self.clock - state.access);
        let per = |cost: u128, of: u128| if of > 0 { cost as f64 / of as f64 } else { f64::INFINITY };
        match self.heuristic {
            Heuristic::Dtr => per(
                own + u128::from(self.gone(storage, true)) + u128::from(self.gone(storage, false)),
                bytes * staleness,
            ),
            Heuristic::Eq => per(own.saturating_add_signed(self.classes_around(storage)), bytes * staleness),
            Heuristic::Local => per(own, bytes * staleness),
            Heuristic::Msps => per(own + u128::from(self.gone(storage, true)), bytes),
            // The authors' clock starts at 1, so that nothing costs 0.
            Heuristic::Lru => (state.access + 1) as f64,
            Heuristic::Size => per(1, bytes),
            Heuristic::Coop => per(own + self.classes_beside(storage), staleness),
        }
    }

    fn drop(&mut self, storage: usize) {
        let state = &mut self.storages[storage];
        state.there = false;
        if let Some(place) = state.place.take() {
            self.pool.remove(&place);
        }
        for &tensor in &state.tensors {
            self.defined[tensor] = false;
        }
        self.memory -= self.of.storages[storage];
        if let Some(arena) = &mut self.arena {
            arena.free(storage);
        }
        self.actions.push(Action::Drop(storage));
        match self.heuristic {
            Heuristic::Eq | Heuristic::Coop => self.join_classes(storage),
            Heuristic::Dtr | Heuristic::Msps => self.forget_around(storage),
            Heuristic::Local | Heuristic::Lru | Heuristic::Size => {}
        }
    }

    /// Runs an operator, all of whose arguments are there and locked.
    fn run(&mut self, wanted: &Wanted) {
        let of = self.of;
        let (call, first) = (&of.calls[wanted.call], wanted.first);
        let time = if first { call.time } else { call.again.unwrap_or(call.time) };
        self.clock += time;
        self.again += if first { 0 } else { time };
        self.most = self.most.max(self.memory + call.bytes + call.workspace);
        self.actions.push(Action::Run(wanted.call, first));
        // The tensor itself comes last.
        let others = call.makes.iter().copied().filter(|&made| Some(made) != wanted.tensor);
        for made in others.chain(wanted.tensor) {
            let storage = of.tensors[made].0;
            if !self.defined[made] && !self.storages[storage].there {
                self.storages[storage].there = true;
                self.memory += of.storages[storage];
                let may_go = call.again.is_some() && !self.storages[storage].pinned;
                if may_go {
                    self.enter_pool(storage);
                }
                self.came_back(storage);
            }
            self.defined[made] = true;
        }
        if let Some(arena) = &mut self.arena {
            arena.clear();
        }
    }

    fn enter_pool(&mut self, storage: usize) {
        self.storages[storage].place = Some(self.places);
        self.pool.insert(self.places, storage);
        self.places += 1;
    }

    fn lock(&mut self, storage: usize) {
        let state = &mut self.storages[storage];
        state.locks += 1;
        if let Some(place) = state.place.take() {
            self.pool.remove(&place);
        }
    }

    fn unlock(&mut self, storage: usize) {
        self.storages[storage].locks -= 1;
        let made_by = self.storages[storage].tensors.first().map(|&tensor| self.of.tensors[tensor].1);
        let may_go = made_by.is_some_and(|call| self.of.calls[call].again.is_some());
        if self.storages[storage].locks == 0 && may_go {
            self.enter_pool(storage);
        }
    }

    /// The storages that a storage's tensors are made from, or that are made from them.
    fn neighbours(&self, storage: usize, above: bool) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let of = self.of;
        let tensors = self.storages[storage].tensors.iter();
        let around = move |&tensor: &usize| {
            let calls: &[usize] =
                if above { std::slice::from_ref(&of.tensors[tensor].1) } else { &self.readers[tensor] };
            calls.iter().flat_map(move |&call| if above { &of.calls[call].reads } else { &of.calls[call].makes })
        };
        tensors.flat_map(around).map(|&tensor| of.tensors[tensor].0).filter(move |&other| other != storage)
    }

    /// What is gone and reached from a storage through what is gone, and the storages that are there around it.
    fn region(&self, storage: usize, above: bool) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let (mut inside, mut edge, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![storage]);
        while let Some(at) = stack.pop() {
            for next in self.neighbours(at, above) {
                if self.storages[next].there {
                    edge.insert(next);
                } else if inside.insert(next) {
                    stack.push(next);
                }
            }
        }
        (inside, edge)
    }

    /// The cost of what is gone above a storage, or below it.
    fn gone(&mut self, storage: usize, above: bool) -> u64 {
        if let Some(known) = self.storages[storage].around[usize::from(above)] {
            return known;
        }
        let cost = self.region(storage, above).0.into_iter().map(|gone| self.storages[gone].cost).sum();
        self.storages[storage].around[usize::from(above)] = Some(cost);
        cost
    }

    /// A storage went or came back: what is gone around its neighbours has another cost.
    fn forget_around(&mut self, storage: usize) {
        self.storages[storage].around = [None; 2];
        for above in [true, false] {
            for edge in self.region(storage, above).1 {
                self.storages[edge].around[usize::from(!above)] = None;
            }
        }
    }

    /// Those of some storages that are gone, each with the root of its class.
    fn roots(&self, storages: Vec<usize>) -> impl Iterator<Item = (usize, usize)> + '_ {
        storages.into_iter().filter_map(|storage| Some((storage, self.gone.find(self.storages[storage].class?))))
    }

    /// The roots alone, each once.
    fn classes(&self, storages: Vec<usize>) -> BTreeSet<usize> {
        self.roots(storages).map(|(_, root)| root).collect()
    }

    fn classes_around(&self, storage: usize) -> i128 {
        self.classes(self.around(storage)).into_iter().map(|root| self.costs[root]).sum()
    }

    /// What a storage is made from, and what is made from it.
    fn around(&self, storage: usize) -> Vec<usize> {
        self.neighbours(storage, true).chain(self.neighbours(storage, false)).collect()
    }

    /// What a storage is made from, and what is made together with it, as often as it is.
    fn beside(&self, storage: usize) -> Vec<usize> {
        let of = self.of;
        let calls = self.storages[storage].tensors.iter().map(|&tensor| &of.calls[of.tensors[tensor].1]);
        let around = calls.flat_map(|call| call.reads.iter().chain(&call.makes));
        around.map(|&tensor| of.tensors[tensor].0).filter(|&other| other != storage).collect()
    }

    /// The costs of the classes of what is gone beside a storage, each as often as it is there and at least its own.
    fn classes_beside(&self, storage: usize) -> u128 {
        let cost = |(other, root): (usize, usize)| self.costs[root].max(i128::from(self.storages[other].cost));
        self.roots(self.beside(storage)).map(|gone| cost(gone).unsigned_abs()).sum()
    }

    /// What goes is joined with what is gone beside it; by `coop` not with what was made from it.
    fn join_classes(&mut self, storage: usize) {
        let coop = self.heuristic == Heuristic::Coop;
        let others = if coop { self.beside(storage) } else { self.around(storage) };
        let roots = self.classes(others);
        let cost = roots.iter().map(|&root| self.costs[root]).sum::<i128>() + i128::from(self.storages[storage].cost);
        let class = self.gone.new_set();
        for root in roots {
            self.gone.union(root, class);
        }
        self.costs.push(0);
        self.costs[self.gone.find(class)] = cost;
        self.storages[storage].class = Some(class);
    }

    /// What comes back takes its own cost out of its class, which stays joined as it was.
    fn came_back(&mut self, storage: usize) {
        match self.heuristic {
            Heuristic::Eq | Heuristic::Coop => {
                if let Some(class) = self.storages[storage].class.take() {
                    self.costs[self.gone.find(class)] -= i128::from(self.storages[storage].cost);
                }
            }
            Heuristic::Dtr | Heuristic::Msps => self.forget_around(storage),
            Heuristic::Local | Heuristic::Lru | Heuristic::Size => {}
        }
    }
}
