//! The cheapest way through a stage between what is kept into it and what is kept out of it. Memory is the simulator's.
//!
//! Only what runs in a stage is looked at, and its room is used again: annealing asks a million times a second.

use fixedbitset::FixedBitSet;

use crate::monet::plan::Pass;
use crate::search::bits::last_before;
use crate::staged::graph::{Graph, Way};

/// Ways through the stages of a graph.
pub struct Passages<'a> {
    graph: &'a Graph,
    /// By position, its first ways that differ in what they read or make, and whether all its ways are one that runs
    /// beside its inputs.
    own: Vec<Vec<usize>>,
    plain: Vec<bool>,
    /// By value, what has to be made in the stage, and what some run reads.
    required: FixedBitSet,
    read: FixedBitSet,
    /// By position, what runs.
    runs: FixedBitSet,
    memory: Memory<'a>,
    other: Pass,
}

impl<'a> Passages<'a> {
    /// For a graph.
    pub fn new(graph: &'a Graph) -> Self {
        let own = graph.operators.iter().map(|operator| {
            let ways = &operator.first;
            let same = |at: usize, other: usize| ways[at].reads == ways[other].reads && ways[at].makes == ways[other].makes;
            (0..ways.len()).filter(|&at| !(0..at).any(|other| same(at, other))).collect()
        });
        let alone = |ways: &[Way]| ways.iter().all(|way| ways.len() == 1 && way.over.is_none());
        let plain = graph.operators.iter().map(|operator| alone(&operator.first) && alone(&operator.again));
        Self {
            graph,
            own: own.collect(),
            plain: plain.collect(),
            required: FixedBitSet::with_capacity(graph.values.len()),
            read: FixedBitSet::with_capacity(graph.values.len()),
            runs: FixedBitSet::with_capacity(graph.len()),
            memory: Memory::new(graph),
            other: Pass::default(),
        }
    }

    /// The cheapest way through a stage; the least memory where none fits. A value that nothing makes is the error.
    ///
    /// # Errors
    /// The value that is not there and cannot be made, or none where that would not help.
    pub fn through(
        &mut self,
        stage: usize,
        now: &FixedBitSet,
        next: &FixedBitSet,
        capacity: u64,
        best: &mut Pass,
    ) -> Result<(), Option<usize>> {
        let mut found = Err(None);
        let rank = |pass: &Pass| (pass.peak.saturating_sub(capacity), pass.time);
        for at in 0..self.own[stage].len() {
            // One of those that read and make the same: which one is decided by what fits.
            let own = &self.graph.operators[stage].first[self.own[stage][at]];
            match self.require(stage, now, next, own) {
                Ok(()) => {
                    let mut pass = std::mem::take(&mut self.other);
                    self.plan(stage, now, next, capacity, &mut pass);
                    if found.is_err() || rank(&pass) < rank(best) {
                        std::mem::swap(&mut pass, best);
                    }
                    self.other = pass;
                    found = Ok(());
                }
                Err(missing) => found = found.map_err(|known| known.or(missing)),
            }
        }
        found
    }

    /// What has to run in a stage.
    fn require(&mut self, stage: usize, now: &FixedBitSet, next: &FixedBitSet, own: &Way) -> Result<(), Option<usize>> {
        let graph = self.graph;
        self.required.clone_from(next);
        self.required.difference_with(now);
        self.read.clear();
        self.runs.clear();
        self.runs.insert(stage);
        for value in self.required.ones() {
            let producer = graph.values[value].producer;
            if producer > stage {
                // Not made yet.
                return Err(None);
            }
            self.runs.insert(producer);
        }
        let mut end = stage + 1;
        while let Some(position) = last_before(&self.runs, end) {
            end = position;
            let suits = |way: &&Way| suits(graph, &self.required, position, way);
            let cost = |way: &&Way| {
                let lacks = way.reads.iter().filter(|&&value| !now[value] && !self.read[value]);
                let again = lacks.map(|&value| price(graph, graph.values[value].producer));
                way.time + again.sum::<u64>()
            };
            let way = if position == stage {
                Some(own).filter(suits)
            } else {
                graph.ways(stage, position).iter().filter(suits).min_by_key(cost)
            };
            let missing = || graph.operators[position].makes.iter().copied().find(|&value| self.required[value]);
            let way = way.ok_or_else(missing)?;
            for &value in &way.reads {
                self.read.insert(value);
                if !now[value] {
                    self.required.insert(value);
                    self.runs.insert(graph.values[value].producer);
                }
            }
        }
        Ok(())
    }

    /// The fastest ways that fit among those that make what is required and read nothing else.
    fn plan(&mut self, stage: usize, now: &FixedBitSet, next: &FixedBitSet, capacity: u64, pass: &mut Pass) {
        pass.runs.clear();
        if self.runs.ones().all(|position| self.plain[position]) {
            pass.runs.extend(self.runs.ones().map(|position| (position, 0)));
            return self.measure(stage, now, next, pass);
        }
        let Self { graph, required, read, runs, memory, .. } = self;
        memory.begin(now);
        let suits = |position: usize, way: &Way| {
            suits(graph, required, position, way) && way.reads.iter().all(|&value| read[value])
        };
        // Until the ways are known, whoever may read a value does.
        for position in runs.ones() {
            for way in graph.ways(stage, position).iter().filter(|way| suits(position, way)) {
                memory.read(position, way);
            }
        }
        for position in runs.ones() {
            let mut chosen: Option<(usize, &Way, u64)> = None;
            for (at, way) in graph.ways(stage, position).iter().enumerate().filter(|(_, way)| suits(position, way)) {
                let there = way.reads.iter().all(|&value| memory.there[value]);
                let gone = way.over.is_some_and(|over| memory.is_needed(over, position, next));
                let during = memory.during(way);
                let rank = |during: u64, way: &Way| (during.saturating_sub(capacity), way.time, during);
                let better = chosen.is_none_or(|(_, other, most)| rank(during, way) < rank(most, other));
                if there && !gone && better {
                    chosen = Some((at, way, during));
                }
            }
            let Some((at, way, _)) = chosen else { continue };
            pass.runs.push((position, at));
            memory.run(position, way, next);
        }
        read.ones().for_each(|value| memory.until[value] = 0);
        self.measure(stage, now, next, pass);
    }

    /// Time and memory of the runs of a stage.
    pub fn measure(&mut self, stage: usize, now: &FixedBitSet, next: &FixedBitSet, pass: &mut Pass) {
        let memory = &mut self.memory;
        memory.begin(now);
        let way = |(position, way): (usize, usize)| &self.graph.ways(stage, position)[way];
        for &run in &pass.runs {
            memory.read(run.0, way(run));
        }
        (pass.time, pass.peak) = (0, memory.bytes);
        for &run in &pass.runs {
            let way = way(run);
            pass.peak = pass.peak.max(memory.during(way));
            pass.time += way.time;
            memory.run(run.0, way, next);
        }
        for value in pass.runs.iter().flat_map(|&run| &way(run).reads) {
            memory.until[*value] = 0;
        }
    }
}

/// Memory on the way through a stage.
struct Memory<'a> {
    graph: &'a Graph,
    there: FixedBitSet,
    /// By value, one more than the position that reads it last in the stage; 0 between stages.
    until: Vec<usize>,
    bytes: u64,
}

impl<'a> Memory<'a> {
    fn new(graph: &'a Graph) -> Self {
        let (there, until) = (FixedBitSet::with_capacity(graph.values.len()), vec![0; graph.values.len()]);
        Self { graph, there, until, bytes: 0 }
    }

    fn begin(&mut self, now: &FixedBitSet) {
        self.there.clone_from(now);
        self.bytes = self.graph.base_bytes + now.ones().map(|value| self.graph.values[value].bytes).sum::<u64>();
    }

    /// A way may read at a position.
    fn read(&mut self, position: usize, way: &Way) {
        way.reads.iter().for_each(|&value| self.until[value] = self.until[value].max(position + 1));
    }

    /// Whether a value is needed after a position.
    fn is_needed(&self, value: usize, position: usize, next: &FixedBitSet) -> bool {
        next[value] || self.until[value] > position + 1
    }

    fn during(&self, way: &Way) -> u64 {
        let made = way.makes.iter().filter(|&&value| !self.there[value] && way.allocates(value));
        self.bytes + way.transient + made.map(|&value| self.graph.values[value].bytes).sum::<u64>()
    }

    fn run(&mut self, position: usize, way: &Way, next: &FixedBitSet) {
        for &value in &way.makes {
            self.set(value, true);
        }
        if let Some(over) = way.over {
            self.set(over, false);
        }
        for &value in way.reads.iter().chain(&way.makes) {
            if !self.is_needed(value, position, next) {
                self.set(value, false);
            }
        }
    }

    fn set(&mut self, value: usize, there: bool) {
        if self.there[value] != there {
            self.there.set(value, there);
            let bytes = self.graph.values[value].bytes;
            if there { self.bytes += bytes } else { self.bytes -= bytes }
        }
    }
}

/// Whether a way makes what is required of an operator.
fn suits(graph: &Graph, required: &FixedBitSet, position: usize, way: &Way) -> bool {
    graph.operators[position].makes.iter().all(|&value| !required[value] || way.makes(value))
}

/// What a run again costs about: its fastest way.
fn price(graph: &Graph, position: usize) -> u64 {
    // What cannot run again had better not be needed.
    graph.operators[position].again.iter().map(|way| way.time).min().unwrap_or(u64::MAX / 1_000_000)
}
