//! The linear relaxation of all legal schedules, over the intervals between some first runs of the path.
//!
//! Interval k ends with the first run of the k-th point; the last one is the rest. `there[k][a]`: tensor a is resident during
//! the run that ends interval k. `runs[k][i][p]`: operator i runs with implementation p in interval k, once or more often.
//! `stays[k][a]`: a is resident all through interval k.

use remat_solvers::{Kind, Model, RowBlock};

use crate::free_order::graph::{Graph, Made, Way};
use crate::search::separation::{Pass, Relaxation};
use crate::search::term::{Scale, Sum, Term};

/// Largest violation of a memory row that counts as none, in scaled units.
const TOLERANCE: f64 = 1e-5;

/// The relaxation over some points.
pub struct Intervals<'g> {
    graph: &'g Graph,
    /// Positions on the path of the first runs that end intervals, ascending.
    pub points: Vec<usize>,
    model: Model,
    scale: Scale,
    /// Bytes beside fixed ones and inputs, scaled.
    room: f64,
    /// By operator, the intervals in which it may run and that may be of use.
    spans: Vec<Option<(usize, usize)>>,
    runs: Vec<Vec<Vec<Term>>>,
    there: Vec<Vec<Term>>,
    stays: Vec<Vec<Term>>,
}

impl<'g> Intervals<'g> {
    /// The relaxation within so many bytes, with the memory rows of the points; the others come when they are violated.
    pub fn new(graph: &'g Graph, budget: u64, points: Vec<usize>) -> Self {
        let room = budget.saturating_sub(graph.base_bytes);
        let longest = graph.nodes.iter().flat_map(|node| &node.ways).map(|way| way.time).max();
        let scale = Scale::new(room, longest.unwrap_or(0));
        let spans = spans(graph, &points);
        let mut model = Self {
            graph,
            points,
            model: Model::default(),
            scale,
            // Signed: fixed bytes alone may exceed the budget.
            room: scale.bytes(room) - scale.bytes(graph.base_bytes.saturating_sub(budget)),
            spans,
            runs: Vec::new(),
            there: Vec::new(),
            stays: Vec::new(),
        };
        for interval in 0..model.intervals() {
            model.add_columns(interval);
            model.residency(interval);
            model.dependencies(interval);
            if interval < model.points.len() {
                model.point(interval);
            }
        }
        model.counts();
        model
    }

    /// Number of intervals.
    fn intervals(&self) -> usize {
        self.points.len() + 1
    }

    /// The operator whose first run ends an interval.
    pub fn end_of(&self, interval: usize) -> Option<usize> {
        self.points.get(interval).map(|&point| self.graph.path[point])
    }

    fn add_columns(&mut self, interval: usize) {
        let graph = self.graph;
        let end = self.end_of(interval);
        let mut runs = Vec::with_capacity(graph.nodes.len());
        for (at, node) in graph.nodes.iter().enumerate() {
            let possible = self.spans[at].is_some_and(|(first, last)| (first..=last).contains(&interval));
            let only = end == Some(at) && node.ways.iter().filter(|way| !way.recompute).count() == 1;
            let term = |way: &Way| match () {
                () if !possible || end == Some(at) && way.recompute => Term::Zero,
                () if only => Term::One,
                () => Term::Column(self.model.binary(self.scale.duration(way.time))),
            };
            let terms: Vec<Term> = node.ways.iter().map(term).collect();
            if only {
                self.model.offset += self.scale.duration(node.least_time());
            }
            runs.push(terms);
        }
        self.runs.push(runs);
        let kept = |at: usize, tensor: &Made| {
            let useful = |reader: &usize| self.spans[*reader].is_some_and(|(_, last)| last > interval);
            let made = self.spans[tensor.producer].is_some_and(|(first, _)| first <= interval);
            let touches = |end: usize| graph.nodes[end].ways.iter().any(|way| !way.recompute && way.touches(at));
            let always = |end: usize| graph.nodes[end].ways.iter().all(|way| way.recompute || way.touches(at));
            match end {
                None => {
                    if tensor.result {
                        Some(true)
                    } else {
                        None
                    }
                }
                Some(end) if always(end) => Some(true),
                Some(end) if made && (touches(end) || tensor.result || tensor.readers.iter().any(useful)) => {
                    Some(false)
                }
                Some(_) => None,
            }
        };
        let kept: Vec<Option<bool>> = graph.tensors.iter().enumerate().map(|(at, tensor)| kept(at, tensor)).collect();
        let there = kept.into_iter().map(|kept| match kept {
            None => Term::Zero,
            Some(true) => Term::One,
            Some(false) => Term::Column(self.model.binary(0.0)),
        });
        let there = there.collect();
        self.there.push(there);
    }

    /// Whether a tensor is there when an interval begins.
    fn carried(&self, interval: usize, tensor: usize) -> Sum {
        let mut sum = Sum::default();
        let Some(before) = interval.checked_sub(1) else { return sum };
        sum.add(1.0, self.there[before][tensor]);
        let end = self.end_of(before).map(|end| (end, &self.graph.nodes[end].ways));
        for (end, at, _) in end.iter().flat_map(|&(end, ways)| {
            let over = move |&(_, way): &(usize, &Way)| way.overwrites == Some(tensor);
            ways.iter().enumerate().filter(over).map(move |(at, way)| (end, at, way))
        }) {
            sum.add(-1.0, self.runs[before][end][at]);
        }
        sum
    }

    /// Runs that make a tensor in an interval.
    fn made(&self, interval: usize, tensor: usize) -> Sum {
        let producer = self.graph.tensors[tensor].producer;
        let ways = self.graph.nodes[producer].ways.iter().zip(&self.runs[interval][producer]);
        Sum::of(ways.filter(|(way, _)| way.makes.contains(&tensor)).map(|(_, &runs)| (1.0, runs)))
    }

    /// A row `sum <= others`, unless it holds anyway.
    fn at_most(&mut self, mut sum: Sum, others: &[&Sum]) {
        for other in others {
            sum.constant -= other.constant;
            sum.terms.extend(other.terms.iter().map(|&(column, factor)| (column, -factor)));
        }
        sum.merge();
        let most: f64 = sum.constant + sum.terms.iter().map(|&(_, factor)| factor.max(0.0)).sum::<f64>();
        if most > 0.0 {
            self.model.at_most(-sum.constant, sum.terms);
        }
    }

    /// What is there at the end of an interval was there all the time, or was made in it.
    fn residency(&mut self, interval: usize) {
        let mut stays = vec![Term::Zero; self.graph.tensors.len()];
        for (tensor, stays) in stays.iter_mut().enumerate() {
            let there = self.there[interval][tensor];
            if there == Term::Zero {
                continue;
            }
            let (carried, made) = (self.carried(interval, tensor), self.made(interval, tensor));
            let is_nothing = |sum: &Sum| sum.terms.is_empty() && sum.constant <= 0.0;
            if is_nothing(&carried) {
                self.at_most(Sum::of([(1.0, there)]), &[&made]);
                continue;
            }
            *stays = if is_nothing(&made) {
                there
            } else {
                Term::Column(self.model.column(0.0, 1.0, 0.0, Kind::Continuous))
            };
            self.at_most(Sum::of([(1.0, *stays)]), &[&carried]);
            if *stays != there {
                self.at_most(Sum::of([(1.0, there), (-1.0, *stays)]), &[&made]);
            }
        }
        self.stays.push(stays);
    }

    /// What a run reads is there when the interval begins, or made in it.
    fn dependencies(&mut self, interval: usize) {
        let graph = self.graph;
        for (at, node) in graph.nodes.iter().enumerate() {
            if self.runs[interval][at].iter().all(|&term| term == Term::Zero) {
                continue;
            }
            for &tensor in &node.reads {
                let found = [&self.carried(interval, tensor), &self.made(interval, tensor)];
                for (way, runs) in node.ways.iter().zip(self.runs[interval][at].clone()) {
                    if runs != Term::Zero && way.reads.binary_search(&tensor).is_ok() {
                        self.at_most(Sum::of([(1.0, runs)]), &found);
                    }
                }
            }
        }
    }

    /// The first run that ends an interval: one implementation, what it touches is there, and its memory.
    fn point(&mut self, interval: usize) {
        let Some(end) = self.end_of(interval) else { return };
        let node = &self.graph.nodes[end];
        let runs = self.runs[interval][end].clone();
        if !runs.contains(&Term::One) {
            let sum = Sum::of(runs.iter().map(|&runs| (1.0, runs)));
            self.model.equal(1.0, sum.terms);
        }
        for (way, &runs) in node.ways.iter().zip(&runs).filter(|&(_, &runs)| runs != Term::Zero) {
            for &tensor in way.reads.iter().chain(&way.makes) {
                let there = self.there[interval][tensor];
                if there != Term::One {
                    self.at_most(Sum::of([(1.0, runs), (-1.0, there)]), &[]);
                }
            }
        }
        let memory = self.memory(interval, end);
        self.model.at_most(self.room - memory.constant, memory.terms);
    }

    /// Memory during the first run that ends an interval.
    fn memory(&self, interval: usize, end: usize) -> Sum {
        let tensors = self.graph.tensors.iter().zip(&self.there[interval]);
        let mut sum = Sum::of(tensors.map(|(tensor, &there)| (self.scale.bytes(tensor.bytes), there)));
        for (way, &runs) in self.graph.nodes[end].ways.iter().zip(&self.runs[interval][end]) {
            sum.add(way.beside as f64 / self.scale.memory, runs);
        }
        sum.merge();
        sum
    }

    /// The runs of an operator that update state as its first run does, in the intervals up to one.
    fn first_runs(&self, at: usize, until: usize) -> Sum {
        let ways = &self.graph.nodes[at].ways;
        let runs = self.runs[..=until].iter().flat_map(|runs| ways.iter().zip(&runs[at]));
        Sum::of(runs.filter(|(way, _)| !way.recompute).map(|(_, &runs)| (1.0, runs)))
    }

    /// How often operators run in all, and that a run which does not update state follows one that does.
    fn counts(&mut self) {
        let graph = self.graph;
        let rest = self.points.len();
        for (at, node) in graph.nodes.iter().enumerate() {
            for (index, _) in node.ways.iter().enumerate().filter(|(_, way)| way.recompute) {
                for interval in 0..=rest {
                    let again = self.runs[interval][at][index];
                    self.at_most(Sum::of([(1.0, again)]), &[&self.first_runs(at, interval)]);
                }
            }
            let all = self.first_runs(at, rest);
            let lower = if node.must { 1.0 - all.constant } else { f64::NEG_INFINITY };
            let upper = if node.once || node.updates_state { 1.0 - all.constant } else { f64::INFINITY };
            if lower > 0.0 || upper < all.terms.len() as f64 {
                self.model.rows.push(lower, upper, all.terms);
            }
        }
    }

    /// Least memory while an operator runs in an interval, but for the run that ends it; holds whether it does or not.
    fn memory_inside(&self, interval: usize, at: usize, way: usize) -> Sum {
        let (runs, way) = (self.runs[interval][at][way], &self.graph.nodes[at].ways[way]);
        let tensors = self.graph.tensors.iter().zip(&self.stays[interval]).enumerate();
        let beside = tensors.filter(|&(tensor, (_, &stays))| stays != Term::Zero && !way.touches(tensor));
        let mut sum = Sum::of(beside.map(|(_, (tensor, &stays))| (self.scale.bytes(tensor.bytes), stays)));
        sum.add(self.scale.bytes(way.touched_bytes), runs);
        sum.merge();
        sum
    }

    /// What [`Self::memory_inside`] comes to in a vector, for every run of an interval that is a column.
    fn memory_values(&self, interval: usize, values: &[f64]) -> Vec<(usize, usize, f64)> {
        let stays: Vec<f64> = (self.graph.tensors.iter().zip(&self.stays[interval]))
            .map(|(tensor, stays)| self.scale.bytes(tensor.bytes) * stays.value(values))
            .collect();
        let all: f64 = stays.iter().sum();
        let mut found = Vec::new();
        for (at, node) in self.graph.nodes.iter().enumerate() {
            if self.end_of(interval) == Some(at) {
                continue;
            }
            for (index, way) in node.ways.iter().enumerate() {
                let runs = self.runs[interval][at][index].value(values);
                if runs > TOLERANCE {
                    let makes = way.makes.iter().filter(|made| way.reads.binary_search(made).is_err());
                    let touched: f64 = way.reads.iter().chain(makes).map(|&tensor| stays[tensor]).sum();
                    found.push((at, index, all - touched + self.scale.bytes(way.touched_bytes) * runs));
                }
            }
        }
        found
    }

    /// The operators that run in an interval, by a vector, with their implementations; in the instance's order, the one whose
    /// run ends the interval last.
    pub fn chosen(&self, interval: usize, values: &[f64]) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        for (at, runs) in self.runs[interval].iter().enumerate() {
            let best =
                (0..runs.len()).max_by(|&left, &right| runs[left].value(values).total_cmp(&runs[right].value(values)));
            chosen.extend(best.filter(|&way| runs[way].value(values) >= 0.5).map(|way| (at, way)));
        }
        let end = self.end_of(interval);
        chosen.sort_by_key(|&(at, _)| (Some(at) == end, at));
        chosen
    }

    /// Whether a tensor is there at the end of an interval, by a vector.
    pub fn is_there(&self, interval: usize, tensor: usize, values: &[f64]) -> bool {
        self.there[interval][tensor].value(values) >= 0.5
    }
}

impl Relaxation for Intervals<'_> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn fixed_time(&self) -> u64 {
        0
    }

    fn time_unit(&self) -> f64 {
        self.scale.time
    }

    /// The memory rows that a point violates: of each interval the worst.
    fn separate(&mut self, point: &[f64], _: Pass) -> RowBlock {
        let mut rows = RowBlock::default();
        for interval in 0..self.intervals() {
            let worst =
                self.memory_values(interval, point).into_iter().max_by(|left, right| left.2.total_cmp(&right.2));
            if let Some((at, way, _)) = worst.filter(|worst| worst.2 > self.room + TOLERANCE) {
                let sum = self.memory_inside(interval, at, way);
                rows.push(f64::NEG_INFINITY, self.room - sum.constant, sum.terms);
            }
        }
        self.model.rows.append(&rows);
        rows
    }
}

/// By operator, the first and the last interval in which it may run and that may be of use; none where no run is of use.
fn spans(graph: &Graph, points: &[usize]) -> Vec<Option<(usize, usize)>> {
    let interval = |position: usize| points.partition_point(|&point| point < position);
    let rest = points.len();
    let mut spans: Vec<Option<(usize, usize)>> = vec![None; graph.nodes.len()];
    let mut last: Vec<Option<usize>> =
        graph.nodes.iter().map(|node| node.must.then(|| interval(node.before))).collect();
    for tensor in graph.tensors.iter().filter(|tensor| tensor.result) {
        last[tensor.producer] = Some(rest);
    }
    for at in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[at];
        let useful = if node.once && node.must { Some(interval(node.before)) } else { last[at] };
        let Some(until) = useful else { continue };
        let from = interval(node.after);
        spans[at] = (from <= until).then_some((from, until));
        for way in &node.ways {
            for &tensor in &way.reads {
                let producer = graph.tensors[tensor].producer;
                last[producer] = last[producer].max(Some(until));
            }
        }
    }
    spans
}
