//! Memory during the runs inside an interval: what is there at least, and the rows that a vector violates.

use remat_solvers::RowBlock;

use super::Intervals;
use crate::free_order::graph::Way;
use crate::search::term::{Sum, Term};

/// Less of a run than this is none.
const NONE: f64 = 1e-5;

/// By how much a tensor is there during the first runs of the path, from one position on until before another.
pub(super) struct Piece {
    tensor: usize,
    from: usize,
    until: usize,
    there: Sum,
}

/// A memory row inside an interval.
#[derive(Clone, Copy, Debug)]
enum Inside {
    /// At the first run of a position of the path.
    Step(usize),
    /// At a run of an operator at any time; the other runs or the first one.
    Run { at: usize, again: bool },
}

/// A run that exceeds the memory.
struct Over {
    inside: Inside,
    way: usize,
    memory: f64,
}

impl<'g> Intervals<'g> {
    /// What is there during the first runs of the path inside an interval. That is what was made before in every schedule,
    /// is not made again there, and is read by a first run later in the interval or there at its end.
    pub(super) fn pieces_in(&self, interval: usize) -> Vec<Piece> {
        let graph = self.graph;
        let (first, last) = self.inside(interval);
        let mut pieces = Vec::new();
        for (tensor, made) in graph.tensors.iter().enumerate().filter(|(_, made)| made.bytes > 0) {
            let before = graph.nodes[made.producer].before;
            let certainly = |reader: usize| {
                let mut ways = self.first_ways(reader).filter(|(way, _)| !way.recompute);
                self.homes[reader] == Some(interval) && ways.all(|(way, _)| way.basic.reads(tensor))
            };
            let readers = made.readers.iter().copied().filter(|&reader| certainly(reader));
            let read = readers.map(|reader| graph.nodes[reader].after).max().unwrap_or(0);
            let stays = self.stays[interval][tensor];
            let from = if self.is_home(interval, tensor) { before } else { first };
            let mut push = |from: usize, until: usize, there: Sum| {
                let (from, until) = (from.max(first), until.min(last));
                if from < until && !there.is_nothing() {
                    pieces.push(Piece { tensor, from, until, there });
                }
            };
            let needed = before.max(first);
            push(from, needed.min(last), Sum::of([(1.0, stays)]));
            push(needed, read, Sum::of([(1.0, Term::One)]).plus(-1.0, &self.remade(interval, tensor)));
            push(read.max(needed), last, Sum::of([(1.0, stays)]));
        }
        pieces
    }

    /// The way of a row, and whether its run takes place.
    fn run(&self, interval: usize, inside: Inside, way: usize) -> (&'g Way, Term) {
        let (at, again) = match inside {
            Inside::Step(position) => (self.graph.path[position], false),
            Inside::Run { at, again } => (at, again),
        };
        let runs = if again { &self.again[interval][at] } else { &self.own[at] };
        (&self.graph.nodes[at].ways[way], runs[way])
    }

    /// Least memory during a run inside an interval; holds whether it takes place or not.
    fn memory_inside(&self, interval: usize, inside: Inside, way: usize) -> Sum {
        let (way, run) = self.run(interval, inside, way);
        let mut sum = Sum::of([(self.scale.bytes(way.touched_bytes), run)]);
        let mut add = |tensor: usize, there: &Sum| {
            if !way.touches(tensor) {
                let bytes = self.scale.bytes(self.graph.tensors[tensor].bytes);
                sum.constant += bytes * there.constant;
                sum.terms.extend(there.terms.iter().map(|&(column, factor)| (column, bytes * factor)));
            }
        };
        if let Inside::Step(position) = inside {
            let there = |piece: &&Piece| (piece.from..piece.until).contains(&position);
            self.pieces[interval].iter().filter(there).for_each(|piece| add(piece.tensor, &piece.there));
        } else {
            let all = (0..self.graph.tensors.len()).filter(|&tensor| !self.is_home(interval, tensor));
            all.for_each(|tensor| add(tensor, &Sum::of([(1.0, self.stays[interval][tensor])])));
        }
        sum.merge();
        sum
    }

    /// What [`Self::memory_inside`] comes to in a vector for each way of a run that takes place, where so much is there in all,
    /// and of each tensor so much.
    fn memory_values(
        &self,
        (interval, inside): (usize, Inside),
        values: &[f64],
        all: f64,
        there: impl Fn(usize) -> f64,
    ) -> impl Iterator<Item = Over> {
        let ways = match inside {
            Inside::Step(position) => self.own[self.graph.path[position]].len(),
            Inside::Run { at, .. } => self.graph.nodes[at].ways.len(),
        };
        (0..ways).filter_map(move |index| {
            let (way, run) = self.run(interval, inside, index);
            let run = run.value(values);
            let makes = way.basic.makes.iter().filter(|made| !way.basic.reads(**made));
            let touched: f64 = way.basic.reads.iter().chain(makes).map(|&tensor| there(tensor)).sum();
            let memory = all - touched + self.scale.bytes(way.touched_bytes) * run;
            (run > NONE && memory > self.room() + self.scale.rounding()).then_some(Over { inside, way: index, memory })
        })
    }

    /// The runs of an interval at any time that exceed the memory in a vector.
    fn runs_over(&self, interval: usize, values: &[f64]) -> Vec<Over> {
        let graph = self.graph;
        let stays = |tensor: usize| {
            let (home, stays) = (self.is_home(interval, tensor), self.stays[interval][tensor]);
            if home { 0.0 } else { self.scale.bytes(graph.tensors[tensor].bytes) * stays.value(values) }
        };
        let all: f64 = (0..graph.tensors.len()).map(stays).sum();
        let mut over = Vec::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            let is_on_path = graph.path.get(node.before) == Some(&at);
            let own = self.homes[at] == Some(interval) && !is_on_path;
            let again = self.again[interval][at].iter().any(|&term| term != Term::Zero);
            for again in [(again, true), (own, false)].into_iter().filter(|run| run.0).map(|run| run.1) {
                over.extend(self.memory_values((interval, Inside::Run { at, again }), values, all, stays));
            }
        }
        over
    }

    /// The first runs of the path inside an interval that exceed the memory in a vector: in one pass over the pieces.
    fn steps_over(&self, interval: usize, values: &[f64]) -> Vec<Over> {
        let (first, last) = self.inside(interval);
        let mut changes: Vec<Vec<(usize, f64)>> = vec![Vec::new(); last.saturating_sub(first) + 1];
        for piece in &self.pieces[interval] {
            let bytes = self.scale.bytes(self.graph.tensors[piece.tensor].bytes) * piece.there.value(values);
            changes[piece.from - first].push((piece.tensor, bytes));
            changes[piece.until - first].push((piece.tensor, -bytes));
        }
        let (mut there, mut all) = (vec![0.0; self.graph.tensors.len()], 0.0);
        let mut over = Vec::new();
        for position in first..last {
            for &(tensor, bytes) in &changes[position - first] {
                there[tensor] += bytes;
                all += bytes;
            }
            over.extend(self.memory_values((interval, Inside::Step(position)), values, all, |tensor| there[tensor]));
        }
        over
    }

    /// Rows against whole vectors that are over the budget by less than a unit for each tensor.
    pub(super) fn over_by_bytes(&mut self, values: &[f64]) -> RowBlock {
        let whole: Vec<f64> = values.iter().map(|value| value.round()).collect();
        let exact = self.scale.exact();
        let units = std::mem::replace(&mut self.scale, exact);
        let mut rows = self.over_memory(&whole);
        for (interval, &point) in self.points.iter().enumerate() {
            let sum = self.memory(interval, self.graph.path[point]);
            if sum.value(&whole) > self.room() + self.scale.rounding() {
                rows.push(f64::NEG_INFINITY, self.room() - sum.constant, sum.terms);
            }
        }
        self.scale = units;
        rows.covers(&whole, values)
    }

    /// The memory rows that a vector violates: of each interval the worst of either kind.
    pub(super) fn over_memory(&self, values: &[f64]) -> RowBlock {
        let mut rows = RowBlock::default();
        for interval in 0..self.intervals() {
            for over in [self.steps_over(interval, values), self.runs_over(interval, values)] {
                if let Some(worst) = over.iter().max_by(|left, right| left.memory.total_cmp(&right.memory)) {
                    let sum = self.memory_inside(interval, worst.inside, worst.way);
                    rows.push(f64::NEG_INFINITY, self.room() - sum.constant, sum.terms);
                }
            }
        }
        rows
    }
}
