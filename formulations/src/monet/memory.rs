//! Memory in the linear model: when a value is there in a stage, what is there at least in a block of several, and the rows
//! that a point violates.

use remat_solvers::RowBlock;

use crate::monet::graph::Way;
use crate::monet::model::{Linear, certain, nothing, plus, some};
use crate::search::blocks::Block;
use crate::search::term::{Sum, Term};

/// Largest violation of a memory row that counts as none, in scaled units.
const TOLERANCE: f64 = 1e-5;
/// So many violated rows of either kind are taken from a block at a time.
const ALIKE: usize = 3;

/// When a value is there in a stage.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) value: usize,
    /// Kept into the stage: until its producer's step.
    pub(super) kept: Sum,
    /// At its producer's step.
    pub(super) made: Sum,
    /// After that, up to and with a position.
    pub(super) spans: Vec<(usize, Sum)>,
    /// Kept into the next stage.
    pub(super) stays: Sum,
}

/// What is there at least in a block of several stages, by value.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    /// From a stage of the block on until before the next entry, or the end; the first is for the stages before all.
    pub(super) there: Vec<(usize, Sum)>,
    /// During first runs that may or may not read it, or may or may not make it.
    pub(super) during: Vec<(usize, Sum)>,
    /// Kept beyond the block.
    pub(super) next: Sum,
}

impl Span {
    /// After the first run of a stage, and in the next.
    fn after(&self, stage: usize) -> &Sum {
        let from = self.there.partition_point(|there| there.0 <= stage);
        &self.there[from.saturating_sub(1)].1
    }
}

impl Linear<'_> {
    /// When each value is there in a stage.
    pub(super) fn lives_in(&mut self, block: usize) -> Vec<Life> {
        let graph = self.graph;
        let stage = self.blocks[block].first;
        let mut lives = Vec::new();
        for (at, value) in graph.values.iter().enumerate().filter(|(_, value)| value.producer <= stage) {
            let kept = Sum::of([(1.0, self.keep[block][at])]);
            let stays = Sum::of([(1.0, self.keep[block + 1][at])]);
            let runs = self.some_at(block, value.producer, |_| true);
            if nothing(&kept) && nothing(&runs) {
                continue;
            }
            let (mut there, mut spans) = (stays.clone(), Vec::new());
            for &reader in value.readers.iter().rev().filter(|&&reader| reader <= stage) {
                let reads = self.some_at(block, reader, |way| way.reads(at));
                if !nothing(&reads) {
                    there = self.maximum(reads, there);
                    spans.push((reader, there.clone()));
                }
            }
            // What makes one value only is run again for that value.
            if value.producer < stage && graph.operators[value.producer].makes.len() == 1 && !certain(&there) {
                self.row(plus(runs, -1.0, &there), 0.0);
            }
            spans.reverse();
            let made = self.some_at(block, value.producer, |way| way.allocates(at));
            let made = self.maximum(made, kept.clone());
            lives.push(Life { value: at, kept, made, spans, stays });
        }
        lives
    }

    /// What is there in a longer block whatever it does: what a later first run reads and the block does not make again,
    /// and what is kept beyond it and not made again.
    pub(super) fn spans_in(&mut self, block: usize) -> Vec<Span> {
        let graph = self.graph;
        let Block { first, last } = self.blocks[block];
        let mut spans = Vec::with_capacity(graph.values.len());
        for (at, value) in graph.values.iter().enumerate() {
            let next = Sum::of([(1.0, self.keep[block + 1][at])]);
            if value.producer > last {
                spans.push(Span { there: vec![(first, Sum::default())], ..Span::default() });
                continue;
            }
            let again = self.remade(block, at);
            let stays = if nothing(&next) || nothing(&again) {
                next.clone()
            } else {
                self.maximum(plus(next.clone(), -1.0, &again), Sum::default())
            };
            // From the last reader downwards.
            let (mut there, mut during) = (vec![(last, stays.clone())], Vec::new());
            let (mut later, mut settled) = (stays, false);
            let touches = std::iter::once(value.producer).chain(value.readers.iter().copied());
            let touches: Vec<usize> = touches.filter(|stage| (first..=last).contains(stage)).collect();
            for stage in touches.into_iter().rev() {
                let touched = some(self.firsts(stage), true, |way| way.reads(at) || way.allocates(at));
                if nothing(&touched) {
                    continue;
                }
                let reads = some(self.firsts(stage), true, |way| way.reads(at));
                if stage == value.producer {
                    during.push((stage, touched));
                    continue;
                }
                let after = if stage == last { next.clone() } else { later.clone() };
                let here = if certain(&touched) { touched } else { self.maximum(touched, after) };
                during.push((stage, here));
                if !settled && !nothing(&reads) {
                    settled = certain(&reads);
                    let unless = plus(reads, -1.0, &again);
                    later = if settled { unless } else { self.maximum(unless, later) };
                    there.push((stage, later.clone()));
                }
            }
            // An entry holds before its reader's stage.
            there.reverse();
            let starts: Vec<usize> = std::iter::once(first).chain(there.iter().map(|entry| entry.0)).collect();
            let there = starts.into_iter().zip(there.into_iter().map(|entry| entry.1)).collect();
            spans.push(Span { there, during, next });
        }
        spans
    }

    /// Steps of a stage of its own, with the memory of each in a point.
    fn steps(&self, block: usize, point: &[f64]) -> Vec<(usize, f64)> {
        let stage = self.blocks[block].first;
        let mut changes = vec![0.0; stage + 2];
        for life in &self.lives[block] {
            let value = &self.graph.values[life.value];
            let bytes = self.scale.bytes(value.bytes);
            let mut add = |from: usize, until: usize, sum: &Sum| {
                let memory = bytes * sum.value(point);
                changes[from] += memory;
                changes[until] -= memory;
            };
            add(0, value.producer, &life.kept);
            add(value.producer, value.producer + 1, &life.made);
            let mut from = value.producer + 1;
            for (until, there) in &life.spans {
                add(from, until + 1, there);
                from = until + 1;
            }
            add(from, stage + 1, &life.stays);
        }
        let mut memory = 0.0;
        let mut steps = Vec::new();
        for (position, change) in changes.iter().take(stage + 1).enumerate() {
            memory += change;
            if !nothing(&self.some_at(block, position, |_| true)) {
                steps.push((position, memory + self.transient(block, position).value(point)));
            }
        }
        steps
    }

    /// Memory of the run itself.
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

    /// Memory at a step of a stage of its own.
    fn memory(&self, block: usize, position: usize) -> Sum {
        let mut sum = self.transient(block, position);
        for life in &self.lives[block] {
            let value = &self.graph.values[life.value];
            let there = match position.cmp(&value.producer) {
                std::cmp::Ordering::Less => &life.kept,
                std::cmp::Ordering::Equal => &life.made,
                std::cmp::Ordering::Greater => {
                    let span = life.spans.iter().find(|&&(until, _)| position <= until);
                    span.map_or(&life.stays, |(_, there)| there)
                }
            };
            sum = plus(sum, self.scale.bytes(value.bytes), there);
        }
        sum.merge();
        sum
    }

    /// What is there of a value during the first run of a stage of a longer block.
    fn there_at(&self, block: usize, stage: usize, at: usize) -> Option<&Sum> {
        let span = &self.spans[block][at];
        if let Some((_, during)) = span.during.iter().find(|during| during.0 == stage) {
            return Some(during);
        }
        let made = self.graph.values[at].producer < stage;
        let there = if stage == self.blocks[block].last { &span.next } else { span.after(stage) };
        (made && !nothing(there)).then_some(there)
    }

    /// Least memory during the first run of an operator of a longer block, whatever the block does.
    fn memory_first(&self, block: usize, stage: usize) -> Sum {
        let mut sum = self.transient(block, stage);
        for (at, value) in self.graph.values.iter().enumerate() {
            if let Some(there) = self.there_at(block, stage, at) {
                sum = plus(sum, self.scale.bytes(value.bytes), there);
            }
        }
        sum.merge();
        sum
    }

    /// What that comes to in a point, for all stages of a block: in one pass over the values.
    fn first_values(&self, block: usize, point: &[f64]) -> Vec<(usize, f64)> {
        let Block { first, last } = self.blocks[block];
        let mut changes = vec![0.0; last - first + 2];
        for (span, value) in self.spans[block].iter().zip(&self.graph.values) {
            let bytes = self.scale.bytes(value.bytes);
            let mut add = |from: usize, until: usize, sum: &Sum| {
                let from = from.max(value.producer + 1).max(first);
                if from < until {
                    let memory = bytes * sum.value(point);
                    changes[from - first] += memory;
                    changes[until - first] -= memory;
                }
            };
            let ends = span.there.iter().skip(1).map(|entry| entry.0).chain([last]);
            let mut from = first;
            for ((_, there), until) in span.there.iter().zip(ends) {
                add(from, until.min(last), there);
                from = until;
            }
            add(last, last + 1, &span.next);
            for (stage, during) in &span.during {
                let counted = match () {
                    () if value.producer >= *stage => 0.0,
                    () if *stage == last => span.next.value(point),
                    () => span.after(*stage).value(point),
                };
                let more = bytes * (during.value(point) - counted);
                changes[stage - first] += more;
                changes[stage + 1 - first] -= more;
            }
        }
        let mut there = 0.0;
        let value = |stage: usize| {
            there += changes[stage - first];
            (stage, there + self.transient(block, stage).value(point))
        };
        (first..=last).map(value).collect()
    }

    /// What is there of a value in a longer block when its last stage begins, or whenever it was not made again before.
    fn idle(&self, block: usize, at: usize) -> &Sum {
        self.spans[block][at].after(self.blocks[block].last - 1)
    }

    /// Values that an operator of before a block reads or makes when it runs again there.
    fn touched(&self, block: usize, position: usize) -> Vec<(usize, Sum)> {
        let operator = &self.graph.operators[position];
        let all = operator.reads.iter().chain(&operator.makes).copied();
        let touched = |at| (at, some(self.agains(block, position), false, |way| way.reads(at) || way.allocates(at)));
        all.map(touched).filter(|(_, touched)| !nothing(touched)).collect()
    }

    /// Least memory while an operator of before a block runs again; holds whether it does or not.
    fn memory_again(&self, block: usize, position: usize) -> Sum {
        let first = self.blocks[block].first;
        let touched = self.touched(block, position);
        let mut sum = self.transient(block, position);
        for (at, value) in self.graph.values.iter().enumerate().filter(|(_, value)| value.producer < first) {
            let known = touched.iter().find(|touched| touched.0 == at).map(|touched| &touched.1);
            let there = known.unwrap_or_else(|| self.idle(block, at));
            sum = plus(sum, self.scale.bytes(value.bytes), there);
        }
        sum.merge();
        sum
    }

    /// What that comes to in a point, for all operators of before a block.
    fn again_values(&self, block: usize, point: &[f64]) -> Vec<(usize, f64)> {
        let first = self.blocks[block].first;
        let before = |at: usize| self.graph.values[at].producer < first;
        let idle = |at: usize| if before(at) { self.idle(block, at).value(point) } else { 0.0 };
        let idle: Vec<f64> = (0..self.graph.values.len()).map(idle).collect();
        let bytes = |at: usize| self.scale.bytes(self.graph.values[at].bytes);
        let all: f64 = idle.iter().enumerate().map(|(at, idle)| bytes(at) * idle).sum();
        let runs = (0..first).filter(|&position| !self.again[block][position].is_empty());
        let value = |position: usize| {
            let touched = self.touched(block, position).into_iter().filter(|touched| before(touched.0));
            let more = touched.map(|(at, touched)| bytes(at) * (touched.value(point) - idle[at]));
            (position, all + more.sum::<f64>() + self.transient(block, position).value(point))
        };
        runs.map(value).collect()
    }

    pub(super) fn violated(&self, point: &[f64]) -> RowBlock {
        let mut rows = RowBlock::default();
        for (block, &Block { first, last }) in self.blocks.iter().enumerate().filter(|&(at, _)| self.is_open(at)) {
            let most = self.capacity + TOLERANCE;
            if first == last {
                let worst = self.steps(block, point).into_iter().max_by(|left, right| left.1.total_cmp(&right.1));
                if let Some((position, _)) = worst.filter(|worst| worst.1 > most) {
                    self.push(&mut rows, self.memory(block, position));
                }
                continue;
            }
            let worst = |mut steps: Vec<(usize, f64)>| {
                steps.retain(|step| step.1 > most);
                steps.sort_by(|left, right| right.1.total_cmp(&left.1));
                steps.truncate(ALIKE);
                steps
            };
            for (stage, _) in worst(self.first_values(block, point)) {
                self.push(&mut rows, self.memory_first(block, stage));
            }
            for (position, _) in worst(self.again_values(block, point)) {
                self.push(&mut rows, self.memory_again(block, position));
            }
        }
        rows
    }

    fn push(&self, rows: &mut RowBlock, sum: Sum) {
        rows.push(f64::NEG_INFINITY, self.capacity - sum.constant, sum.terms);
    }

    /// Adds every memory row of blocks of one stage that can bind.
    pub fn add_all(&mut self) {
        for block in 0..self.blocks.len() {
            if !self.is_open(block) || !self.is_single(block) {
                continue;
            }
            let stage = self.blocks[block].first;
            let steps = (0..=stage).filter(|&position| !nothing(&self.some_at(block, position, |_| true)));
            let sums: Vec<Sum> = steps.map(|position| self.memory(block, position)).collect();
            let capacity = self.capacity;
            for sum in sums {
                self.row(sum, capacity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use remat_core::io::read_instance;

    use super::*;
    use crate::monet::graph::Graph;
    use crate::monet::settings::Modes;
    use crate::random::Random;

    #[test]
    fn memory_in_one_pass_over_the_values_is_that_of_the_rows() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/resnet");
        let instance = read_instance(&root.join("resnet18-224-b32.json.zst")).expect("shipped instances are valid");
        let modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };
        let graph = Graph::new(&instance, modes);
        for seed in 0..4 {
            let mut random = Random::new(seed);
            let (mut blocks, mut first) = (Vec::new(), 0);
            while first < graph.len() {
                let last = (first + 1 + random.below(20) as usize).min(graph.len() - 1);
                blocks.push(Block { first, last });
                first = last + 1;
            }
            let linear = Linear::new(&graph, 1 << 32, blocks);
            let point: Vec<f64> = (0..linear.model.columns()).map(|_| random.unit()).collect();
            for block in (0..linear.blocks.len()).filter(|&block| !linear.is_single(block)) {
                for (stage, memory) in linear.first_values(block, &point) {
                    let row = linear.memory_first(block, stage).value(&point);
                    assert!((memory - row).abs() < 1e-6, "{stage}: {memory}, {row}");
                }
            }
        }
    }
}
