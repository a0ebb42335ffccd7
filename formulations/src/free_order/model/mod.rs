//! The linear relaxation of all legal schedules, over the intervals between some first runs of the path.
//!
//! Interval k ends with the first run of the k-th point; the last one is the rest. `there[k][a]`: tensor a is resident during
//! the run that ends interval k. `own[i][p]`: operator i runs first with implementation p, in the interval where that must be.
//! `again[k][i][p]`: operator i runs in interval k, in another run than that, once or more often. `stays[k][a]`: a is there at
//! the end of interval k and was not made again in it.
//!
//! Memory inside intervals is in `memory.rs`, what they have to do with paths of tensors in `paths.rs`.

mod memory;
mod paths;

use remat_solvers::{Kind, Model, RowBlock};

use self::memory::Piece;
use self::paths::paths;
use crate::free_order::graph::{Graph, Made, Node, Way};
use crate::search::separation::{Pass, Relaxation};
use crate::search::term::{Scale, Sum, Term};

/// The relaxation over some points.
pub struct Intervals<'g> {
    graph: &'g Graph,
    /// Positions on the path of the first runs that end intervals, ascending.
    pub points: Vec<usize>,
    model: Model,
    scale: Scale,
    /// Bytes beside fixed ones and inputs. These alone may exceed the budget.
    room: i128,
    /// By operator, the intervals in which it may run and that may be of use.
    spans: Vec<Option<(usize, usize)>>,
    /// By operator, the interval of its first run where that is the same in all schedules, and that run.
    homes: Vec<Option<usize>>,
    own: Vec<Vec<Term>>,
    again: Vec<Vec<Vec<Term>>>,
    there: Vec<Vec<Term>>,
    stays: Vec<Vec<Term>>,
    /// By interval, what is there during first runs of the path inside it.
    pieces: Vec<Vec<Piece>>,
}

/// A run that a vector chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The operator.
    pub at: usize,
    /// Its implementation.
    pub way: usize,
    /// Whether it may not be the first run.
    pub again: bool,
}

impl<'g> Intervals<'g> {
    /// The relaxation within so many bytes, with the memory rows of the points; the others come when they are violated.
    pub fn new(graph: &'g Graph, budget: u64, points: Vec<usize>) -> Self {
        let room = budget.saturating_sub(graph.base_bytes);
        let longest = graph.nodes.iter().flat_map(|node| &node.ways).map(|way| way.basic.time).max();
        let scale = Scale::new(room, longest.unwrap_or(0));
        let spans = spans(graph, &points);
        let mut model = Self {
            graph,
            model: Model::default(),
            scale,
            room: i128::from(budget) - i128::from(graph.base_bytes),
            homes: homes(graph, &points),
            points,
            own: vec![Vec::new(); graph.nodes.len()],
            spans,
            again: Vec::new(),
            there: Vec::new(),
            stays: Vec::new(),
            pieces: Vec::new(),
        };
        for interval in 0..model.intervals() {
            model.add_columns(interval);
            model.residency(interval);
            model.dependencies(interval);
            if interval < model.points.len() {
                model.point(interval);
            }
            let pieces = model.pieces_in(interval);
            model.pieces.push(pieces);
        }
        model.counts();
        model
    }

    /// Number of intervals.
    fn intervals(&self) -> usize {
        self.points.len() + 1
    }

    /// Positions of the path whose first runs are inside an interval: from one on until before another.
    pub fn inside(&self, interval: usize) -> (usize, usize) {
        let first = interval.checked_sub(1).map_or(0, |before| self.points[before] + 1);
        (first, self.points.get(interval).copied().unwrap_or(self.graph.path.len()))
    }

    /// The operator whose first run ends an interval.
    fn end_of(&self, interval: usize) -> Option<usize> {
        self.points.get(interval).map(|&point| self.graph.path[point])
    }

    fn add_columns(&mut self, interval: usize) {
        let graph = self.graph;
        let end = self.end_of(interval);
        let mut again = Vec::with_capacity(graph.nodes.len());
        for (at, node) in graph.nodes.iter().enumerate() {
            let home = self.homes[at];
            if home == Some(interval) {
                let alone = node.ways.iter().filter(|way| !way.recompute).count() == 1;
                let own = node.ways.iter().map(|way| match () {
                    () if way.recompute => Term::Zero,
                    () if alone => Term::One,
                    () => Term::Column(self.model.binary(self.scale.duration(way.basic.time))),
                });
                self.own[at] = own.collect();
                if alone {
                    self.model.offset += self.scale.duration(node.least_time());
                }
            }
            let possible = self.spans[at].is_some_and(|(first, last)| (first..=last).contains(&interval));
            let other = |way: &Way| home.is_none() || !node.once && (way.recompute || !node.updates_state);
            let term = |way: &Way| {
                let may = possible && end != Some(at) && other(way);
                if may { Term::Column(self.model.binary(self.scale.duration(way.basic.time))) } else { Term::Zero }
            };
            again.push(node.ways.iter().map(term).collect());
        }
        self.again.push(again);
        let kept = |at: usize, tensor: &Made| {
            let useful = |reader: &usize| self.spans[*reader].is_some_and(|(_, last)| last > interval);
            let made = self.spans[tensor.producer].is_some_and(|(first, _)| first <= interval);
            let touches = |end: usize| graph.nodes[end].ways.iter().any(|way| !way.recompute && way.touches(at));
            let always = |end: usize| graph.nodes[end].ways.iter().all(|way| way.recompute || way.touches(at));
            match end {
                None => tensor.result.then_some(true),
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
        for (way, &own) in self.end_of(before).into_iter().flat_map(|end| self.first_ways(end)) {
            if way.basic.over == Some(tensor) {
                sum.add(-1.0, own);
            }
        }
        sum
    }

    /// The ways of an operator's first run, where its interval is certain.
    fn first_ways(&self, at: usize) -> impl Iterator<Item = (&'g Way, &Term)> {
        self.graph.nodes[at].ways.iter().zip(&self.own[at])
    }

    /// The ways of its other runs in an interval.
    fn other_ways(&self, interval: usize, at: usize) -> impl Iterator<Item = (&'g Way, &Term)> {
        self.graph.nodes[at].ways.iter().zip(&self.again[interval][at])
    }

    /// Runs other than the first that make a tensor in an interval.
    fn remade(&self, interval: usize, tensor: usize) -> Sum {
        let ways = self.other_ways(interval, self.graph.tensors[tensor].producer);
        Sum::of(ways.filter(|(way, _)| way.basic.makes(tensor)).map(|(_, &runs)| (1.0, runs)))
    }

    /// Whether the first run of a tensor's operator is in an interval.
    fn is_home(&self, interval: usize, tensor: usize) -> bool {
        self.homes[self.graph.tensors[tensor].producer] == Some(interval)
    }

    /// Runs that make a tensor in an interval.
    fn made(&self, interval: usize, tensor: usize) -> Sum {
        let mut made = self.remade(interval, tensor);
        if self.is_home(interval, tensor) {
            let first = self.first_ways(self.graph.tensors[tensor].producer);
            first.filter(|(way, _)| way.basic.makes(tensor)).for_each(|(_, &own)| made.add(1.0, own));
        }
        made
    }

    /// A row `sum <= others`, unless it holds anyway.
    fn at_most(&mut self, sum: Sum, others: &[&Sum]) {
        others.iter().fold(sum, |sum, other| sum.plus(-1.0, other)).at_most(&mut self.model, 0.0);
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
            let (home, remade) = (self.is_home(interval, tensor), self.remade(interval, tensor));
            let is_carried = !carried.is_nothing();
            if !is_carried {
                self.at_most(Sum::of([(1.0, there)]), &[&made]);
            }
            if !is_carried && !home {
                continue;
            }
            *stays = if remade.is_nothing() {
                there
            } else {
                Term::Column(self.model.column(0.0, 1.0, 0.0, Kind::Continuous))
            };
            if !home {
                self.at_most(Sum::of([(1.0, *stays)]), &[&carried]);
            }
            if *stays != there {
                self.at_most(Sum::of([(1.0, there), (-1.0, *stays)]), &[&remade]);
            }
            for taken in self.taken(interval, tensor) {
                self.at_most(Sum::of([(1.0, *stays), (1.0, taken)]), &[&Sum::of([(1.0, Term::One)])]);
            }
        }
        self.stays.push(stays);
    }

    /// Runs inside an interval that take over a tensor's buffer.
    fn taken(&self, interval: usize, tensor: usize) -> Vec<Term> {
        let readers = self.graph.tensors[tensor].readers.iter().filter(|&&at| self.end_of(interval) != Some(at));
        let runs = readers.flat_map(|&at| {
            let first = self.first_ways(at).filter(move |_| self.homes[at] == Some(interval));
            first.chain(self.other_ways(interval, at))
        });
        let taken = runs.filter(|(way, run)| way.basic.over == Some(tensor) && **run != Term::Zero);
        taken.map(|(_, &run)| run).collect()
    }

    /// What a run reads is there when the interval begins, or made in it.
    fn dependencies(&mut self, interval: usize) {
        let graph = self.graph;
        for (at, node) in graph.nodes.iter().enumerate() {
            let own = if self.homes[at] == Some(interval) { &self.own[at][..] } else { &[] };
            let runs: Vec<(&Way, Term)> = [own, &self.again[interval][at]]
                .iter()
                .flat_map(|runs| node.ways.iter().zip(runs.iter().copied()))
                .filter(|run| run.1 != Term::Zero)
                .collect();
            if runs.is_empty() {
                continue;
            }
            for &tensor in &node.reads {
                let found = [&self.carried(interval, tensor), &self.made(interval, tensor)];
                for &(_, run) in runs.iter().filter(|(way, _)| way.basic.reads(tensor)) {
                    self.at_most(Sum::of([(1.0, run)]), &found);
                }
            }
        }
    }

    /// The first run that ends an interval: what it touches is there, and its memory.
    fn point(&mut self, interval: usize) {
        let Some(end) = self.end_of(interval) else { return };
        let ways: Vec<(&Way, Term)> = self.first_ways(end).map(|(way, &own)| (way, own)).collect();
        for (way, own) in ways.into_iter().filter(|&(_, own)| own != Term::Zero) {
            for &tensor in way.basic.reads.iter().chain(&way.basic.makes) {
                let there = self.there[interval][tensor];
                if there != Term::One {
                    self.at_most(Sum::of([(1.0, own), (-1.0, there)]), &[]);
                }
            }
        }
        let memory = self.memory(interval, end);
        self.model.at_most(self.room() - memory.constant, memory.terms);
    }

    /// What the budget leaves beside what is always there, scaled.
    fn room(&self) -> f64 {
        self.scale.difference(self.room)
    }

    /// Memory during the first run that ends an interval.
    fn memory(&self, interval: usize, end: usize) -> Sum {
        let tensors = self.graph.tensors.iter().zip(&self.there[interval]);
        let mut sum = Sum::of(tensors.map(|(tensor, &there)| (self.scale.bytes(tensor.bytes), there)));
        for (way, &own) in self.first_ways(end) {
            sum.add(self.scale.difference(way.beside), own);
        }
        sum.merge();
        sum
    }

    /// The runs of an operator that update state as its first run does, in the intervals up to one.
    fn first_runs(&self, at: usize, until: usize) -> Sum {
        let runs = (0..=until).flat_map(|interval| self.other_ways(interval, at));
        Sum::of(runs.filter(|(way, _)| !way.recompute).map(|(_, &runs)| (1.0, runs)))
    }

    /// How often operators run in all, and that a run which does not update state follows one that does.
    fn counts(&mut self) {
        let graph = self.graph;
        let rest = self.points.len();
        for (at, node) in graph.nodes.iter().enumerate() {
            if self.homes[at].is_some() {
                if !self.own[at].contains(&Term::One) {
                    let sum = Sum::of(self.own[at].iter().map(|&own| (1.0, own)));
                    self.model.equal(1.0, sum.terms);
                }
                continue;
            }
            for (index, _) in node.ways.iter().enumerate().filter(|(_, way)| way.recompute) {
                for interval in 0..=rest {
                    let again = self.again[interval][at][index];
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

    /// The runs of an interval by a vector, in the instance's order, the one that ends the interval last.
    pub fn chosen(&self, interval: usize, values: &[f64]) -> Vec<Chosen> {
        let mut chosen = Vec::new();
        let mut choose = |at: usize, runs: &[Term], again: bool| {
            let best =
                (0..runs.len()).max_by(|&left, &right| runs[left].value(values).total_cmp(&runs[right].value(values)));
            chosen.extend(best.filter(|&way| runs[way].value(values) >= 0.5).map(|way| Chosen { at, way, again }));
        };
        for at in 0..self.graph.nodes.len() {
            if self.homes[at] == Some(interval) {
                choose(at, &self.own[at], false);
            }
            choose(at, &self.again[interval][at], true);
        }
        let end = self.end_of(interval);
        chosen.sort_by_key(|run| (Some(run.at) == end, run.at));
        chosen
    }

    /// Whether the interval of an operator's first run is certain.
    pub fn has_home(&self, at: usize) -> bool {
        self.homes[at].is_some()
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

    fn scale(&self) -> Scale {
        self.scale
    }

    fn separate(&mut self, point: &[f64], pass: Pass, times: usize) -> RowBlock {
        let mut rows = self.over_memory(point);
        if pass == Pass::Relaxed {
            let paths = paths(self.graph);
            rows.append(&paths.violated(self.intervals(), |interval| self.section(&paths, interval), point, times));
        }
        if pass == Pass::Whole && rows.is_empty() {
            rows = self.over_by_bytes(point);
        }
        self.model.rows.append(&rows);
        rows
    }
}

/// By operator, the interval of its first run, where that is the same in every schedule.
fn homes(graph: &Graph, points: &[usize]) -> Vec<Option<usize>> {
    let interval = |position: usize| points.partition_point(|&point| point < position);
    let home = |node: &Node| {
        let home = interval(node.after);
        (node.must && home == interval(node.before)).then_some(home)
    };
    graph.nodes.iter().map(home).collect()
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
            for &tensor in &way.basic.reads {
                let producer = graph.tensors[tensor].producer;
                last[producer] = last[producer].max(Some(until));
            }
        }
    }
    spans
}
