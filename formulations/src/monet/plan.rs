//! Schedules in stages with an implementation for each run, and the cheapest way through a stage between what is kept into
//! it and what is kept out of it. Memory is the simulator's. Knows no solver.

use remat_core::liveness::with_liveness;
use remat_core::{Instance, Schedule};

use crate::search::incumbent::Kept;
use crate::search::problem::settle;
use crate::staged::graph::{Graph, Way};
use crate::staged::model::Run;

/// What one stage does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Its runs, in order.
    pub runs: Vec<Run>,
    /// Time of all that.
    pub time: u64,
    /// Largest memory.
    pub peak: u64,
    /// Largest memory of any way to run that was to choose from, where there was a choice.
    pub widest: u64,
}

/// What every stage does, and what is kept into each (and one more).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By stage and value, no longer than needed.
    pub kept: Kept,
    /// By stage.
    pub passes: Vec<Pass>,
}

impl Plan {
    /// The schedule of some runs by stage, but for later ones that make nothing of use; none where something is read that is
    /// not there.
    pub fn of_runs(graph: &Graph, mut runs: Vec<Vec<Run>>) -> Option<Self> {
        let mut kept = vec![vec![false; graph.values.len()]; graph.len() + 1];
        for (at, value) in graph.values.iter().enumerate() {
            kept[graph.len()][at] = value.result;
        }
        for (stage, runs) in runs.iter_mut().enumerate().rev() {
            let mut needed = kept[stage + 1].clone();
            let mut illegal = false;
            runs.reverse();
            runs.retain(|&(position, way)| {
                let way = &graph.ways(stage, position)[way];
                if position < stage && !way.makes.iter().any(|&value| needed[value]) {
                    return false;
                }
                illegal |= way.over.is_some_and(|over| needed[over]);
                way.makes.iter().for_each(|&value| needed[value] = false);
                way.reads.iter().for_each(|&value| needed[value] = true);
                true
            });
            runs.reverse();
            if illegal || runs.last().is_none_or(|run| run.0 != stage) {
                return None;
            }
            kept[stage] = needed;
        }
        if kept[0].contains(&true) {
            return None;
        }
        let of = |(stage, runs): (usize, Vec<Run>)| {
            let (now, next) = (&kept[stage], &kept[stage + 1]);
            pass(graph, (stage, bytes(graph, now)), now, next, runs)
        };
        let passes = runs.into_iter().enumerate().map(of).collect();
        Some(Self { kept, passes })
    }

    /// The cheapest schedule that keeps this; what cannot be made again is kept besides. None where some operator has no
    /// way to run that leaves what is kept after it.
    pub fn complete(graph: &Graph, mut kept: Kept, capacity: u64) -> Option<Self> {
        settle(&mut kept, |stage, at| graph.forced(stage, at));
        let mut runs = vec![Vec::new(); graph.len()];
        for stage in (0..graph.len()).rev() {
            let (before, after) = kept.split_at_mut(stage + 1);
            runs[stage] = loop {
                match through(graph, stage, &before[stage], &after[0], capacity) {
                    Ok(pass) => break pass.runs,
                    // It was there before, or nothing helps.
                    Err(Some(missing)) if stage > graph.values[missing].producer && !before[stage][missing] => {
                        before[stage][missing] = true;
                    }
                    Err(_) => return None,
                }
            };
        }
        Self::of_runs(graph, runs)
    }

    /// Everything that the fastest ways make kept as long as something may read it.
    pub fn store_all(graph: &Graph, capacity: u64) -> Option<Self> {
        let made =
            |at: usize| graph.operators[graph.values[at].producer].first.first().is_some_and(|way| way.makes(at));
        let row =
            |stage| (0..graph.values.len()).map(|at| graph.forced(stage, at).unwrap_or_else(|| made(at))).collect();
        // What some way makes besides its outputs is kept only where somebody reads it.
        Self::complete(graph, (0..=graph.len()).map(row).collect(), capacity)
    }

    /// Time.
    pub fn time(&self) -> u64 {
        self.passes.iter().map(|pass| pass.time).sum()
    }

    /// Largest memory.
    pub fn peak(&self) -> u64 {
        self.passes.iter().map(|pass| pass.peak).max().unwrap_or(0)
    }

    /// The schedule; everything is freed as early as can be.
    pub fn schedule(&self, instance: &Instance, graph: &Graph) -> Schedule {
        let runs =
            self.passes.iter().enumerate().flat_map(|(stage, pass)| pass.runs.iter().map(move |run| (stage, run)));
        let computes: Vec<_> = runs
            .map(|(stage, &(position, way))| {
                (graph.operators[position].id, graph.ways(stage, position)[way].implementation)
            })
            .collect();
        with_liveness(instance, &computes)
    }
}

/// Time and memory of some runs in a stage.
fn pass(graph: &Graph, (stage, bytes): (usize, u64), now: &[bool], next: &[bool], runs: Vec<Run>) -> Pass {
    let mut walk = Walk::new(graph, bytes, now, next);
    let ways: Vec<&Way> = runs.iter().map(|&(position, way)| &graph.ways(stage, position)[way]).collect();
    for (&(position, _), way) in runs.iter().zip(&ways) {
        way.reads.iter().for_each(|&value| walk.until[value] = walk.until[value].max(position + 1));
    }
    let (mut time, mut peak) = (0, graph.base_bytes + walk.bytes);
    for (&(position, _), way) in runs.iter().zip(&ways) {
        peak = peak.max(walk.during(way));
        time += way.time;
        walk.run(position, way);
    }
    Pass { runs, time, peak, widest: peak }
}

/// Bytes of what is there.
fn bytes(graph: &Graph, there: &[bool]) -> u64 {
    graph.values.iter().zip(there).map(|(value, &there)| if there { value.bytes } else { 0 }).sum()
}

/// Memory on the way through a stage.
struct Walk<'a> {
    graph: &'a Graph,
    there: Vec<bool>,
    /// One more than the position that reads each value last.
    until: Vec<usize>,
    bytes: u64,
}

/// Kept beyond the stage.
const BEYOND: usize = usize::MAX;

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, bytes: u64, now: &[bool], next: &[bool]) -> Self {
        let until = next.iter().map(|&next| if next { BEYOND } else { 0 }).collect();
        Self { graph, there: now.to_vec(), until, bytes }
    }

    fn during(&self, way: &Way) -> u64 {
        let made = way.makes.iter().filter(|&&value| !self.there[value] && way.allocates(value));
        self.graph.base_bytes
            + self.bytes
            + way.transient
            + made.map(|&value| self.graph.values[value].bytes).sum::<u64>()
    }

    fn run(&mut self, position: usize, way: &Way) {
        for &value in &way.makes {
            self.set(value, true);
        }
        if let Some(over) = way.over {
            self.set(over, false);
        }
        for &value in way.reads.iter().chain(&way.makes) {
            if self.until[value] <= position + 1 {
                self.set(value, false);
            }
        }
    }

    fn set(&mut self, value: usize, there: bool) {
        if self.there[value] != there {
            self.there[value] = there;
            let bytes = self.graph.values[value].bytes;
            if there { self.bytes += bytes } else { self.bytes -= bytes }
        }
    }
}

/// The cheapest way through a stage; the least memory where none fits. A value that nothing makes is the error.
///
/// # Errors
/// The value that is not there and cannot be made, or none where that would not help.
pub fn through(graph: &Graph, stage: usize, now: &[bool], next: &[bool], capacity: u64) -> Result<Pass, Option<usize>> {
    let mut best: Option<Pass> = None;
    let mut widest = 0;
    let mut missing = Err(None);
    let own = graph.ways(stage, stage);
    let begins = (stage, bytes(graph, now));
    for (at, way) in own.iter().enumerate() {
        // One of those that read and make the same: which one is decided by what fits.
        let same = |other: &Way| other.reads == way.reads && other.makes == way.makes;
        if own[..at].iter().any(same) {
            continue;
        }
        match Passage::new(graph, begins, now, next, way) {
            Ok(passage) => {
                let Some(pass) = passage.plan(now, next, capacity) else { continue };
                widest = widest.max(pass.widest);
                let rank = |pass: &Pass| (pass.peak.saturating_sub(capacity), pass.time);
                if best.as_ref().is_none_or(|best| rank(&pass) < rank(best)) {
                    best = Some(pass);
                }
            }
            Err(value) => missing = Err(missing.err().flatten().or(value)),
        }
    }
    best.map_or(missing, |best| Ok(Pass { widest, ..best }))
}

/// What has to run in a stage.
struct Passage<'a> {
    graph: &'a Graph,
    stage: usize,
    /// Bytes of what is there when it begins.
    bytes: u64,
    /// Positions that run, the last one first, and what each has to make.
    required: Vec<(usize, Vec<usize>)>,
    /// By value, whether some run reads it.
    read: Vec<bool>,
}

impl<'a> Passage<'a> {
    fn new(
        graph: &'a Graph,
        (stage, bytes): (usize, u64),
        now: &[bool],
        next: &[bool],
        own: &Way,
    ) -> Result<Self, Option<usize>> {
        let mut passage =
            Self { graph, stage, bytes, required: vec![(stage, Vec::new())], read: vec![false; graph.values.len()] };
        for (at, _) in next.iter().zip(now).enumerate().filter(|&(_, (&next, &now))| next && !now) {
            // Not made yet.
            if graph.values[at].producer > stage {
                return Err(None);
            }
            passage.require(at);
        }
        let mut next_run = 0;
        while let Some((position, makes)) = passage.required.get(next_run) {
            let suits = |way: &&Way| makes.iter().all(|&value| way.makes(value));
            let cost = |way: &&Way| {
                let lacks = way.reads.iter().filter(|&&value| !now[value] && !passage.read[value]);
                let again = lacks.map(|&value| price(graph, graph.values[value].producer));
                way.time + again.sum::<u64>()
            };
            let way = if *position == stage {
                Some(own).filter(suits)
            } else {
                graph.ways(stage, *position).iter().filter(suits).min_by_key(cost)
            };
            let Some(way) = way else { return Err(makes.first().copied()) };
            for &value in &way.reads {
                let known = std::mem::replace(&mut passage.read[value], true) || next[value] && !now[value];
                if !now[value] && !known {
                    passage.require(value);
                }
            }
            next_run += 1;
        }
        Ok(passage)
    }

    /// A value has to be made.
    fn require(&mut self, value: usize) {
        let producer = self.graph.values[value].producer;
        let at = self.required.partition_point(|&(position, _)| position > producer);
        match self.required.get_mut(at) {
            Some((position, makes)) if *position == producer => makes.push(value),
            _ => self.required.insert(at, (producer, vec![value])),
        }
    }

    /// The fastest ways that fit among those that make what is required and read nothing else; none where the stage's own
    /// operator cannot run, or what is kept is not there: something was overwritten before.
    fn plan(&self, now: &[bool], next: &[bool], capacity: u64) -> Option<Pass> {
        let graph = self.graph;
        let mut walk = Walk::new(graph, self.bytes, now, next);
        // Until the ways are known, whoever may read a value does.
        for (position, makes) in &self.required {
            for way in graph.ways(self.stage, *position).iter().filter(|way| self.suits(way, makes)) {
                way.reads.iter().for_each(|&value| walk.until[value] = walk.until[value].max(position + 1));
            }
        }
        let (mut runs, mut widest) = (Vec::new(), 0);
        for &(position, ref makes) in self.required.iter().rev() {
            let ways = graph.ways(self.stage, position).iter().enumerate();
            let mut chosen: Option<(usize, &Way, u64)> = None;
            for (at, way) in ways.filter(|(_, way)| self.suits(way, makes)) {
                let there = way.reads.iter().all(|&value| walk.there[value]);
                let gone = way.over.is_some_and(|over| walk.until[over] > position + 1);
                let during = walk.during(way);
                widest = widest.max(during);
                let rank = |during: u64, way: &Way| (during.saturating_sub(capacity), way.time, during);
                let better = chosen.is_none_or(|(_, other, most)| rank(during, way) < rank(most, other));
                if there && !gone && better {
                    chosen = Some((at, way, during));
                }
            }
            let Some((at, way, _)) = chosen else { continue };
            runs.push((position, at));
            walk.run(position, way);
        }
        let is_whole = runs.last().is_some_and(|run| run.0 == self.stage);
        if !is_whole || next.iter().zip(&walk.there).any(|(&next, &there)| next && !there) {
            return None;
        }
        let pass = pass(graph, (self.stage, self.bytes), now, next, runs);
        Some(Pass { widest: widest.max(pass.peak), ..pass })
    }

    fn suits(&self, way: &Way, makes: &[usize]) -> bool {
        makes.iter().all(|&value| way.makes(value)) && way.reads.iter().all(|&value| self.read[value])
    }
}

/// What a run again costs about: its fastest way.
fn price(graph: &Graph, position: usize) -> u64 {
    // What cannot run again had better not be needed.
    graph.operators[position].again.iter().map(|way| way.time).min().unwrap_or(u64::MAX / 1_000_000)
}
