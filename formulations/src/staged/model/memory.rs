//! Memory in the linear model: when a value is there in a stage, what is there at least in a block of several, and the rows
//! that a point violates, or all of them.

use remat_solvers::{Kind, RowBlock};

use super::{Linear, Meaning, some};
use crate::search::blocks::Block;
use crate::search::term::{Sum, Term};
use crate::staged::graph::Way;

/// So many violated rows of either kind are taken from a block at a time.
const ALIKE: usize = 3;

/// By how much a value is there at places of a block, from one on until before another: steps of its own where the block
/// is one stage, the first runs of its stages where it is longer.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    value: usize,
    from: usize,
    until: usize,
    there: Sum,
}

/// Takes note of a piece unless it is empty.
fn push(pieces: &mut Vec<Piece>, value: usize, from: usize, until: usize, there: &Sum) {
    if from < until && !there.is_nothing() {
        pieces.push(Piece { value, from, until, there: there.clone() });
    }
}

impl Linear<'_> {
    /// When each value is there in a stage, and the memory of those that are all the time.
    pub(super) fn lives_in(&mut self, block: usize) -> (Vec<Piece>, u64) {
        let graph = self.graph;
        let stage = self.blocks[block].first;
        let (mut pieces, mut always) = (Vec::new(), 0);
        for (at, value) in graph.values.iter().enumerate().filter(|(_, value)| value.producer <= stage) {
            match (self.keep[block][at], self.keep[block + 1][at]) {
                (Term::Zero, _) if !self.may_run(block, value.producer) => continue,
                (Term::One, Term::One) => {
                    always += value.bytes;
                    continue;
                }
                _ => {}
            }
            let kept = Sum::of([(1.0, self.keep[block][at])]);
            let runs = self.some_at(block, value.producer, |_| true);
            // From the last reader downwards.
            let (mut there, mut until) = (Sum::of([(1.0, self.keep[block + 1][at])]), stage + 1);
            for &reader in value.readers.iter().rev().filter(|&&reader| reader <= stage) {
                let reads = self.some_at(block, reader, |way| way.reads(at));
                if !reads.is_nothing() {
                    push(&mut pieces, at, reader + 1, until, &there);
                    (there, until) = (self.maximum(reads, there), reader + 1);
                }
            }
            push(&mut pieces, at, value.producer + 1, until, &there);
            let allocates = self.some_at(block, value.producer, |way| way.allocates(at));
            let alone = value.producer < stage && graph.operators[value.producer].makes.len() == 1;
            let made = if alone && allocates.terms == runs.terms {
                there.clone()
            } else {
                self.maximum(allocates, kept.clone())
            };
            // What makes one value only is run again for that value.
            if alone && !there.is_certain() {
                self.row(runs.plus(-1.0, &there), 0.0);
            }
            push(&mut pieces, at, value.producer, value.producer + 1, &made);
            push(&mut pieces, at, 0, value.producer, &kept);
        }
        (pieces, always)
    }

    /// What is there in a longer block whatever it does: what a later first run reads and the block does not make again,
    /// and what is kept beyond it and not made again. By value, too, what of that its last stage begins with.
    pub(super) fn spans_in(&mut self, block: usize) -> (Vec<Piece>, Vec<Sum>) {
        let graph = self.graph;
        let Block { first, last } = self.blocks[block];
        let (mut pieces, mut idle) = (Vec::new(), vec![Sum::default(); graph.values.len()]);
        // By operator with several ways to run again: those of some of its values, and whether one of them is taken.
        let mut taken: Vec<Option<(Sum, Sum)>> = vec![None; graph.len()];
        for (at, value) in graph.values.iter().enumerate().filter(|(_, value)| value.producer <= last) {
            let next = Sum::of([(1.0, self.keep[block + 1][at])]);
            let ways = self.remade(block, at);
            let again = match &taken[value.producer] {
                Some((same, again)) if same.terms == ways.terms => again.clone(),
                _ if ways.terms.len() > 1 => {
                    let none = self.maximum(Sum::of([(1.0, Term::One)]).plus(-1.0, &ways), Sum::default());
                    let again = Sum::of([(1.0, Term::One)]).plus(-1.0, &none);
                    taken[value.producer] = Some((ways, again.clone()));
                    again
                }
                _ => ways,
            };
            // Beyond the block.
            let mut later = if next.is_nothing() || again.is_nothing() {
                next.clone()
            } else {
                self.maximum(next.clone().plus(-1.0, &again), Sum::default())
            };
            idle[at] = later.clone();
            // From the last stage downwards; in the last one all is there that is kept on.
            let gap = |pieces: &mut Vec<Piece>, from: usize, until: usize, later: &Sum| {
                push(pieces, at, from, until.min(last), later);
                push(pieces, at, from.max(last), until, &next);
            };
            let (mut until, mut settled) = (last + 1, false);
            let touches = value.readers.iter().rev().copied().chain([value.producer]);
            for stage in touches.filter(|stage| (first..=last).contains(stage)) {
                let touched = some(self.firsts(stage), true, |way| way.reads(at) || way.allocates(at));
                if touched.is_nothing() {
                    continue;
                }
                gap(&mut pieces, stage + 1, until, &later);
                until = stage;
                if stage == value.producer {
                    push(&mut pieces, at, stage, stage + 1, &touched);
                    break;
                }
                let after = if stage == last { next.clone() } else { later.clone() };
                let here = if touched.is_certain() { touched } else { self.maximum(touched, after) };
                push(&mut pieces, at, stage, stage + 1, &here);
                let reads = some(self.firsts(stage), true, |way| way.reads(at));
                if !settled && !reads.is_nothing() {
                    settled = reads.is_certain();
                    let unless = reads.plus(-1.0, &again);
                    later = self.maximum(unless, if settled { Sum::default() } else { later });
                }
                if stage == last {
                    idle[at] = later.clone();
                }
            }
            gap(&mut pieces, first.max(value.producer + 1), until, &later);
        }
        (pieces, idle)
    }

    fn bytes(&self, value: usize) -> f64 {
        self.scale.bytes(self.graph.values[value].bytes)
    }

    /// Whether an operator may run at a place of a block.
    fn may_run(&self, block: usize, place: usize) -> bool {
        self.is_own(block, place) || !self.again[block][place].is_empty()
    }

    /// Memory of a run itself.
    fn transient(&self, block: usize, position: usize) -> Sum {
        let mut sum = Sum::default();
        let mut add = |(way, term): (&Way, Term)| sum.add(self.scale.bytes(way.transient), term);
        if self.is_own(block, position) {
            self.firsts(position).for_each(&mut add);
        } else {
            self.agains(block, position).for_each(&mut add);
        }
        sum
    }

    /// Memory at a place of a block.
    fn memory(&self, block: usize, place: usize) -> Sum {
        let mut sum = self.transient(block, place);
        let (pieces, always) = &self.pieces[block];
        sum.constant += self.scale.bytes(*always);
        for piece in pieces.iter().filter(|piece| (piece.from..piece.until).contains(&place)) {
            sum = sum.plus(self.bytes(piece.value), &piece.there);
        }
        sum.merge();
        sum
    }

    /// What that comes to in a point, at all places of a block where something may run: in one pass over the pieces.
    fn memory_values(&self, block: usize, point: &[f64]) -> Vec<(usize, f64)> {
        let Block { first, last } = self.blocks[block];
        let base = if first == last { 0 } else { first };
        let mut changes = vec![0.0; last - base + 2];
        let (pieces, always) = &self.pieces[block];
        for piece in pieces {
            let memory = self.bytes(piece.value) * piece.there.value(point);
            changes[piece.from - base] += memory;
            changes[piece.until - base] -= memory;
        }
        let mut there = self.scale.bytes(*always);
        let places = (base..=last).filter_map(|place| {
            there += changes[place - base];
            let memory = || there + self.transient(block, place).value(point);
            self.may_run(block, place).then(|| (place, memory()))
        });
        places.collect()
    }

    /// Values that an operator of before a longer block reads or makes when it runs again there, and by how much they are.
    fn touched(&self, block: usize, position: usize) -> Vec<(usize, Sum)> {
        let operator = &self.graph.operators[position];
        let all = operator.reads.iter().chain(&operator.makes).copied();
        let touched = |at| (at, some(self.agains(block, position), false, |way| way.reads(at) || way.allocates(at)));
        all.map(touched).filter(|(_, touched)| !touched.is_nothing()).collect()
    }

    /// Least memory while an operator of before a block runs again; holds whether it does or not.
    fn memory_again(&self, block: usize, position: usize) -> Sum {
        let first = self.blocks[block].first;
        let touched = self.touched(block, position);
        let mut sum = self.transient(block, position);
        for (at, idle) in self.idle[block].iter().enumerate().filter(|&(at, _)| self.graph.values[at].producer < first)
        {
            let known = touched.iter().find(|touched| touched.0 == at);
            sum = sum.plus(self.bytes(at), known.map_or(idle, |(_, touched)| touched));
        }
        sum.merge();
        sum
    }

    /// What that comes to in a point, for all operators of before a block.
    fn memory_again_values(&self, block: usize, point: &[f64]) -> Vec<(usize, f64)> {
        let first = self.blocks[block].first;
        let before = |at: usize| self.graph.values[at].producer < first;
        let idle = |(at, idle): (usize, &Sum)| if before(at) { idle.value(point) } else { 0.0 };
        let idle: Vec<f64> = self.idle[block].iter().enumerate().map(idle).collect();
        let all: f64 = idle.iter().enumerate().map(|(at, idle)| self.bytes(at) * idle).sum();
        let value = |position: usize| {
            let touched = self.touched(block, position).into_iter().filter(|touched| before(touched.0));
            let more = touched.map(|(at, touched)| self.bytes(at) * (touched.value(point) - idle[at]));
            (position, all + more.sum::<f64>() + self.transient(block, position).value(point))
        };
        (0..first).filter(|&position| self.may_run(block, position)).map(value).collect()
    }

    /// The memory rows that a point violates, and the stage of each: of each block the worst, so many times the usual number where
    /// it is longer than a stage. What an operator of before a block needs there counts as that of its last stage.
    pub fn violated(&self, point: &[f64], times: usize) -> (RowBlock, Vec<usize>) {
        let (mut rows, mut stages) = (RowBlock::default(), Vec::new());
        for block in (0..self.blocks.len()).filter(|&block| self.is_open(block)) {
            let worst = |mut steps: Vec<(usize, f64)>, most: usize| {
                steps.retain(|step| step.1 > self.capacity() + self.scale.rounding());
                steps.sort_by(|left, right| right.1.total_cmp(&left.1));
                steps.truncate(most);
                steps
            };
            let mut push = |sum: Sum, stage: usize| {
                rows.push(f64::NEG_INFINITY, self.capacity() - sum.constant, sum.terms);
                stages.push(stage);
            };
            let (single, last) = (self.is_single(block), self.blocks[block].last);
            for (place, _) in worst(self.memory_values(block, point), if single { 1 } else { ALIKE * times }) {
                push(self.memory(block, place), if single { last } else { place });
            }
            if !single {
                for (position, _) in worst(self.memory_again_values(block, point), ALIKE * times) {
                    push(self.memory_again(block, position), last);
                }
            }
        }
        (rows, stages)
    }

    /// Blocks of one stage that have rows.
    fn open_stages(&self) -> Vec<usize> {
        (0..self.blocks.len()).filter(|&block| self.is_open(block) && self.is_single(block)).collect()
    }

    /// Whether some row holds for no values of the columns.
    pub fn has_hopeless_row(&self) -> bool {
        // All that depends on a column adds memory.
        let nothing = vec![0.0; self.model.columns()];
        let over = |block| {
            self.memory_values(block, &nothing).iter().any(|place| place.1 > self.capacity() + self.scale.rounding())
        };
        self.model.rows.has_hopeless() || self.open_stages().into_iter().any(over)
    }

    /// Adds every memory row of blocks of one stage: a column for each step, stated as that of the step before and what
    /// changes.
    pub fn add_all(&mut self) {
        for block in self.open_stages() {
            let stage = self.blocks[block].first;
            let mut before: Option<(usize, Term)> = None;
            for place in (0..=stage).filter(|&place| self.may_run(block, place)).collect::<Vec<_>>() {
                let meaning = Meaning::Memory { stage, position: place };
                self.meanings.push(meaning);
                let column = self.model.column(0.0, self.capacity(), 0.0, Kind::Continuous);
                self.measured.push((column, block, place));
                let mut sum = Sum::of([(-1.0, Term::Column(column))]);
                let (pieces, always) = &self.pieces[block];
                match before {
                    Some((_, before)) => sum.add(1.0, before),
                    None => sum.constant += self.scale.bytes(*always),
                }
                let was = |piece: &Piece| before.is_some_and(|(at, _)| (piece.from..piece.until).contains(&at));
                for piece in pieces {
                    let now = (piece.from..piece.until).contains(&place);
                    let factor = f64::from(now) - f64::from(was(piece));
                    if now != was(piece) {
                        sum = sum.plus(factor * self.bytes(piece.value), &piece.there);
                    }
                }
                sum.merge();
                self.model.equal(-sum.constant, sum.terms);
                let transient = self.transient(block, place);
                if !transient.is_nothing() {
                    self.row(transient.plus(1.0, &Sum::of([(1.0, Term::Column(column))])), self.capacity());
                }
                before = Some((place, Term::Column(column)));
            }
        }
    }

    /// What the budget leaves, scaled.
    fn capacity(&self) -> f64 {
        self.scale.bytes(self.room)
    }

    /// Rows against whole points that are over the budget by less than a unit for each value.
    pub(super) fn over_by_bytes(&mut self, point: &[f64]) -> RowBlock {
        let mut whole: Vec<f64> = point.iter().map(|value| value.round()).collect();
        for (column, sums) in &self.largest {
            whole[column.index()] = sums.iter().map(|sum| sum.value(&whole)).fold(0.0, f64::max);
        }
        let exact = self.scale.exact();
        let units = std::mem::replace(&mut self.scale, exact);
        let rows = self.violated(&whole, 1).0.covers(&whole, point);
        self.scale = units;
        rows
    }

    /// Columns of memory in a point whose other columns are set.
    pub(super) fn measure(&self, point: &mut [f64]) {
        for &(column, block, place) in &self.measured {
            point[column.index()] = self.memory(block, place).value(point) - self.transient(block, place).value(point);
        }
    }
}

#[cfg(test)]
mod tests {
    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};
    use remat_core::generate::random::random;
    use remat_core::io::read_instance;

    use super::*;
    use crate::random::Random;
    use crate::staged::graph::{Graph, Modes};
    use crate::staged::joint::Joint;

    /// Compares the rows of a model over random blocks with what one pass makes of them, in a random point.
    fn compare(graph: &Graph, longest: u32, seed: u64) {
        let mut random = Random::new(seed);
        let (mut blocks, mut first) = (Vec::new(), 0);
        while first < graph.len() {
            let last = (first + random.below(longest) as usize).min(graph.len() - 1);
            blocks.push(Block { first, last });
            first = last + 1;
        }
        let linear = Linear::new(graph, Some(graph.base_bytes + (1 << 32)), blocks);
        let point: Vec<f64> = (0..linear.model.columns()).map(|_| random.unit()).collect();
        for (block, &Block { first, .. }) in linear.blocks.iter().enumerate() {
            for (place, memory) in linear.memory_values(block, &point) {
                let row = linear.memory(block, place).value(&point);
                assert!((memory - row).abs() < 1e-6, "{place}: {memory}, {row}");
            }
            if linear.is_single(block) {
                continue;
            }
            let again = linear.memory_again_values(block, &point);
            let rows = (0..first).filter(|&position| linear.may_run(block, position));
            assert!(again.iter().map(|&(position, _)| position).eq(rows));
            for (position, memory) in again {
                let row = linear.memory_again(block, position).value(&point);
                assert!((memory - row).abs() < 1e-6, "{position}: {memory}, {row}");
            }
        }
    }

    #[test]
    fn memory_in_one_pass_over_the_values_is_that_of_the_rows() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/resnet");
        let instance = read_instance(&root.join("resnet18-224-b32.json.zst")).expect("shipped instances are valid");
        let modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };
        let graph = Graph::new(&instance, modes);
        (0..4).for_each(|seed| compare(&graph, 20, seed));
    }

    #[test]
    fn all_rows_together_are_violated_where_memory_is_beyond_the_budget() {
        let modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };
        let (mut within, mut by_transients) = (0, 0);
        for seed in 0..60 {
            let instance = Instance::new(&random("random", 4, seed)).expect("valid");
            let graph = Graph::new(&instance, modes);
            let store_all = instance.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>();
            let mut linear = Linear::exact(&graph, Some(graph.base_bytes + store_all * (2 + seed % 4) / 4));
            let rows = linear.model.rows.len();
            linear.add_all();
            let mut random = Random::new(seed);
            for density in [0.05, 0.1, 0.3] {
                let draw = |_| if random.unit() < density { 1.0 } else { 0.0 };
                let mut point: Vec<f64> = (0..linear.model.columns()).map(draw).collect();
                linear.measure(&mut point);
                let most = linear.capacity() + linear.scale.rounding();
                let is_over = |&block: &usize| linear.memory_values(block, &point).iter().any(|place| place.1 > most);
                let over = linear.open_stages().iter().any(is_over);
                let all = &linear.model.rows;
                let value = |row| all.terms(row).map(|(column, factor)| factor * point[column.index()]).sum::<f64>();
                let by_row = (rows..all.len()).any(|row| value(row) > all.upper[row] + linear.scale.rounding());
                let by_bound = linear.measured.iter().any(|measured| point[measured.0.index()] > most);
                assert_eq!(over, by_row || by_bound, "{seed}, {density}");
                within += u32::from(!over);
                by_transients += u32::from(over && !by_bound);
            }
        }
        assert!(within > 5 && by_transients > 5, "{within}, {by_transients}");
    }

    #[test]
    fn with_one_way_for_each_run_too() {
        for seed in 0..8 {
            let instance = Instance::new(&layered("layered", &Layered::moccasin(30, 0.4), seed)).expect("valid");
            compare(&Joint::new(&instance).expect("supported"), 9, seed);
        }
    }
}
