//! The coarse relaxation: stages merged into blocks, so that networks of hundreds of operators fit.
//!
//! Within a block it counts one run of an operator where the stages may hold several, and it forgets
//! when in the block that run takes place. So every schedule in stages is a solution of the coarse
//! model that costs no more, and its optimum, or any bound of it, is a lower bound on all schedules.
//! With every block a single stage it is almost the reduced model.

use std::sync::Arc;

use remat_solvers::{Kind, Model, RowBlock};

use crate::search::blocks::Block;
use crate::search::incumbent::Kept;
use crate::search::term::{Scale, Sum, Term};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// The model over some blocks.
pub struct Coarse {
    joint: Arc<Joint>,
    /// The model; rows are added as they are violated.
    pub model: Model,
    /// The blocks, in order; they cover every stage.
    pub blocks: Vec<Block>,
    scale: Scale,
    capacity: f64,
    workspace: bool,
    /// S\[k,a\]: value a is kept into block k (one row more, for the end).
    keep: Vec<Vec<Term>>,
    /// R\[k,i\]: operator i runs again in block k.
    again: Vec<Vec<Term>>,
    /// Y\[k,a\]: a is kept into block k + 1 and its operator does not run again in block k.
    stays: Vec<Vec<Term>>,
}

/// Largest violation of a memory row that counts as none, in scaled units.
const TOLERANCE: f64 = 1e-5;

impl Coarse {
    /// Builds the model for a budget and blocks, without memory rows.
    pub fn new(task: &Task<'_>, blocks: Vec<Block>) -> Self {
        let joint = &task.joint;
        let room = task.budget_bytes().saturating_sub(joint.base_bytes);
        let longest = joint.operators.iter().filter_map(|operator| operator.again.as_ref()).map(|run| run.time).max();
        let scale = Scale::new(room, longest.unwrap_or(0));
        let mut coarse = Self {
            joint: Arc::clone(joint),
            model: Model::default(),
            blocks,
            scale,
            capacity: scale.bytes(room),
            workspace: task.workspace,
            keep: Vec::new(),
            again: Vec::new(),
            stays: Vec::new(),
        };
        coarse.variables();
        for block in 0..coarse.blocks.len() {
            coarse.dependencies(block);
            coarse.retention(block);
            coarse.staying(block);
        }
        coarse.at_most_runs(task.copies);
        coarse
    }

    /// Time of all first runs, unscaled: not part of the model's objective.
    pub fn fixed_time(&self) -> u64 {
        self.joint.fixed_time()
    }

    /// What one unit of the objective is worth.
    pub fn time_unit(&self) -> f64 {
        self.scale.time
    }

    fn variables(&mut self) {
        let joint = Arc::clone(&self.joint);
        for block in 0..=self.blocks.len() {
            let stage = self.blocks.get(block).map_or(joint.len(), |block| block.first);
            let keep = (0..joint.values.len()).map(|value| self.keep_term(stage, value)).collect();
            self.keep.push(keep);
            let Some(&Block { first, last }) = self.blocks.get(block) else { break };
            let again = joint.operators.iter().enumerate().map(|(position, operator)| {
                let Some(way) = &operator.again else { return Term::Zero };
                let possible =
                    position < last && first <= joint.last_run(position) && position < joint.last_run(position);
                if possible { Term::Column(self.model.binary(self.scale.duration(way.time))) } else { Term::Zero }
            });
            let again = again.collect();
            self.again.push(again);
        }
    }

    /// S at a stage, as in the reduced model.
    fn keep_term(&mut self, stage: usize, at: usize) -> Term {
        let value = &self.joint.values[at];
        match () {
            () if stage == self.joint.len() => {
                if value.result {
                    Term::One
                } else {
                    Term::Zero
                }
            }
            () if self.joint.must_keep(stage, at) => Term::One,
            () if stage <= value.producer || stage > value.last_use => Term::Zero,
            () => Term::Column(self.model.binary(0.0)),
        }
    }

    /// Whether an operator runs in a block at all.
    fn made(&self, block: usize, position: usize) -> Term {
        let Block { first, last } = self.blocks[block];
        if (first..=last).contains(&position) { Term::One } else { self.again[block][position] }
    }

    fn row(&mut self, sum: Sum, upper: f64) {
        let bound = upper - sum.constant;
        if !sum.terms.is_empty() || bound < 0.0 {
            self.model.at_most(bound, sum.terms);
        }
    }

    /// What runs in a block finds what it reads: made in the block or kept into it.
    fn dependencies(&mut self, block: usize) {
        let joint = Arc::clone(&self.joint);
        let Block { first, last } = self.blocks[block];
        for (position, operator) in joint.operators.iter().enumerate().take(last + 1) {
            let (runs, way) = if position < first {
                (self.again[block][position], operator.again.as_ref())
            } else {
                (Term::One, Some(&operator.first))
            };
            for &value in way.filter(|_| runs != Term::Zero).map_or(&[][..], |way| &way.reads) {
                let (made, kept) = (self.made(block, joint.values[value].producer), self.keep[block][value]);
                if made != Term::One && kept != Term::One {
                    self.row(Sum::of([(1.0, runs), (-1.0, made), (-1.0, kept)]), 0.0);
                }
            }
        }
    }

    /// What is kept into the next block was made in this one or kept into it.
    fn retention(&mut self, block: usize) {
        let joint = Arc::clone(&self.joint);
        let last = self.blocks[block].last;
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer <= last) {
            let (next, kept) = (self.keep[block + 1][at], self.keep[block][at]);
            let made = self.made(block, value.producer);
            if next != Term::Zero && made != Term::One && kept != Term::One {
                self.row(Sum::of([(1.0, next), (-1.0, made), (-1.0, kept)]), 0.0);
            }
        }
    }

    /// At most C runs of each operator, where that is asked for: a block's column says one or more.
    fn at_most_runs(&mut self, copies: Option<u64>) {
        let Some(copies) = copies else { return };
        for position in 0..self.joint.len() {
            let sum = Sum::of(self.again.iter().map(|again| (1.0, again[position])));
            if sum.terms.len() as u64 >= copies {
                self.row(sum, copies as f64 - 1.0);
            }
        }
    }

    /// Y: kept beyond the block, and not made again in it: there all the time.
    fn staying(&mut self, block: usize) {
        let joint = Arc::clone(&self.joint);
        let mut stays = vec![Term::Zero; joint.values.len()];
        for (at, value) in joint.values.iter().enumerate() {
            let (next, again) = (self.keep[block + 1][at], self.again[block][value.producer]);
            stays[at] = match (next, again) {
                (Term::Zero, _) => Term::Zero,
                (next, Term::Zero) => next,
                _ => {
                    let stays = Term::Column(self.model.column(0.0, 1.0, 0.0, Kind::Continuous));
                    self.row(Sum::of([(1.0, next), (-1.0, again), (-1.0, stays)]), 0.0);
                    stays
                }
            };
        }
        self.stays.push(stays);
    }

    /// Least memory during the first run of an operator, over everything that a solution may mean.
    fn memory(&self, block: usize, stage: usize) -> Sum {
        let joint = &self.joint;
        let Block { last, .. } = self.blocks[block];
        let first = &joint.operators[stage].first;
        let mut sum = Sum::default();
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer <= stage) {
            let bytes = self.scale.bytes(value.bytes);
            if first.reads.contains(&at) || value.producer == stage {
                sum.add(bytes, Term::One);
            } else if stage == last {
                sum.add(bytes, self.keep[block + 1][at]);
            } else if self.read_by_first(at, stage + 1, last) {
                sum.add(bytes, Term::One);
                sum.add(-bytes, self.again[block][value.producer]);
            } else {
                sum.add(bytes, self.stays[block][at]);
            }
        }
        sum.add(self.scale.bytes(first.transient(self.workspace)), Term::One);
        sum.merge();
        sum
    }

    /// Whether a first run among some positions reads a value.
    fn read_by_first(&self, value: usize, from: usize, to: usize) -> bool {
        let readers = &self.joint.values[value].readers;
        let among = readers.iter().filter(|reader| (from..=to).contains(reader));
        among.into_iter().any(|&reader| self.joint.operators[reader].first.reads.contains(&value))
    }

    /// Least memory while an operator of an earlier block runs again; holds whether it does or not.
    fn memory_again(&self, block: usize, position: usize) -> Option<Sum> {
        let joint = &self.joint;
        let Block { first, last } = self.blocks[block];
        let (runs, way) = (self.again[block][position], joint.operators[position].again.as_ref()?);
        runs.column()?;
        if position >= first {
            return None;
        }
        let touched = |at: usize| way.reads.contains(&at) || joint.operators[position].makes.contains(&at);
        let mut sum = Sum::default();
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer < first) {
            let bytes = self.scale.bytes(value.bytes);
            if touched(at) {
                sum.add(bytes, runs);
            } else if joint.operators[last].first.reads.contains(&at) {
                sum.add(bytes, Term::One);
                sum.add(-bytes, self.again[block][value.producer]);
            } else {
                sum.add(bytes, self.stays[block][at]);
            }
        }
        sum.add(self.scale.bytes(way.transient(self.workspace)), runs);
        sum.merge();
        Some(sum)
    }

    /// The memory rows that a vector violates: of each block the worst of either kind.
    pub fn violated(&self, values: &[f64]) -> RowBlock {
        let mut rows = RowBlock::default();
        for (block, &Block { first, .. }) in self.blocks.iter().enumerate() {
            let own = self.memory_values(block, values).into_iter().enumerate();
            self.push_worst(&mut rows, values, own, |at| Some(self.memory(block, first + at)));
            let again = self.memory_again_values(block, values).into_iter();
            self.push_worst(&mut rows, values, again, |position| self.memory_again(block, position));
        }
        rows
    }

    /// Of rows with values the one whose value is largest, if it is violated.
    fn push_worst(
        &self,
        rows: &mut RowBlock,
        values: &[f64],
        valued: impl Iterator<Item = (usize, f64)>,
        row: impl Fn(usize) -> Option<Sum>,
    ) {
        let worst = valued.max_by(|left, right| left.1.total_cmp(&right.1));
        let worst = worst.filter(|(_, memory)| *memory > self.capacity).and_then(|(at, _)| row(at));
        if let Some(sum) = worst.filter(|sum| sum.value(values) > self.capacity + TOLERANCE) {
            rows.push(f64::NEG_INFINITY, self.capacity - sum.constant, sum.terms);
        }
    }

    /// What [`Self::memory`] comes to in a vector, for each stage of a block: all of them in one pass over the values.
    fn memory_values(&self, block: usize, values: &[f64]) -> Vec<f64> {
        let joint = &self.joint;
        let Block { first, last } = self.blocks[block];
        // Last stage of the block whose first run reads a value.
        let mut read = vec![0; joint.values.len()];
        for stage in first..=last {
            joint.operators[stage].first.reads.iter().for_each(|&at| read[at] = stage);
        }
        // As much of a value as is there in a stage whose first run neither reads nor makes it.
        let share = |at: usize, stage: usize| match () {
            () if stage == last => self.keep[block + 1][at].value(values),
            () if stage < read[at] => 1.0 - self.again[block][joint.values[at].producer].value(values),
            () => self.stays[block][at].value(values),
        };
        let mut changes = vec![0.0; last - first + 2];
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer <= last) {
            let bytes = self.scale.bytes(value.bytes);
            let from = value.producer.max(first);
            let mut change = |from: usize, to: usize| {
                if from < to {
                    let there = bytes * share(at, from);
                    changes[from - first] += there;
                    changes[to - first] -= there;
                }
            };
            let until = read[at].clamp(from, last);
            change(from, until);
            change(until, last);
            change(last, last + 1);
        }
        let mut there = 0.0;
        let memory = |stage: usize| {
            there += changes[stage - first];
            let operator = &joint.operators[stage];
            let mut touched: Vec<usize> = operator.first.reads.iter().chain(&operator.makes).copied().collect();
            touched.sort_unstable();
            touched.dedup();
            let more = |at: usize| self.scale.bytes(joint.values[at].bytes) * (1.0 - share(at, stage));
            let transient = self.scale.bytes(operator.first.transient(self.workspace));
            there + transient + touched.into_iter().map(more).sum::<f64>()
        };
        (first..=last).map(memory).collect()
    }

    /// What [`Self::memory_again`] comes to in a vector, for each operator that may run again in a block.
    fn memory_again_values(&self, block: usize, values: &[f64]) -> Vec<(usize, f64)> {
        let joint = &self.joint;
        let Block { first, last } = self.blocks[block];
        let mut share: Vec<f64> = self.stays[block].iter().map(|stays| stays.value(values)).collect();
        for &at in &joint.operators[last].first.reads {
            share[at] = 1.0 - self.again[block][joint.values[at].producer].value(values);
        }
        let bytes = |at: usize| self.scale.bytes(joint.values[at].bytes);
        let earlier = |at: &usize| joint.values[*at].producer < first;
        let all: f64 = (0..share.len()).filter(earlier).map(|at| bytes(at) * share[at]).sum();
        let memory = |position: usize| {
            let (runs, way) = (self.again[block][position], joint.operators[position].again.as_ref()?);
            runs.column()?;
            let runs = runs.value(values);
            let mut touched: Vec<usize> = way.reads.iter().chain(&joint.operators[position].makes).copied().collect();
            touched.sort_unstable();
            touched.dedup();
            let more = touched.into_iter().filter(earlier).map(|at| bytes(at) * (runs - share[at])).sum::<f64>();
            Some((position, all + more + self.scale.bytes(way.transient(self.workspace)) * runs))
        };
        (0..first).filter_map(memory).collect()
    }

    /// The vector that stages amount to: they are a solution of every coarse model.
    pub fn vector(&self, stages: &Stages) -> Vec<f64> {
        let mut vector = vec![0.0; self.model.columns()];
        let mut set = |term: Term, value: bool| {
            if let Term::Column(column) = term {
                vector[column.index()] = f64::from(value);
            }
        };
        // What is kept into each block, and beyond the last.
        let firsts: Vec<usize> = self.blocks.iter().map(|block| block.first).chain([self.joint.len()]).collect();
        let mut kept = Vec::with_capacity(firsts.len());
        stages.kept_backwards(&self.joint, |stage, row| {
            if firsts.binary_search(&stage).is_ok() {
                kept.push(row.to_vec());
            }
        });
        kept.reverse();
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            let mut again = vec![false; self.joint.len()];
            for stage in first..=last {
                stages.runs[stage].iter().filter(|&&position| position < stage).for_each(|&at| again[at] = true);
            }
            for (position, &runs) in again.iter().enumerate() {
                set(self.again[block][position], runs);
            }
            for (at, value) in self.joint.values.iter().enumerate() {
                set(self.keep[block][at], kept[block][at]);
                // Where nothing runs again it is the column of the next block's S.
                if self.stays[block][at] != self.keep[block + 1][at] {
                    set(self.stays[block][at], kept[block + 1][at] && !again[value.producer]);
                }
            }
        }
        vector
    }

    /// S by stage and value as a vector says it: within a block what is kept into it stays until its
    /// last use there, and what runs again does so at its first use. `holds` says which values count as one.
    pub fn expand(&self, values: &[f64], mut holds: impl FnMut(f64) -> bool) -> Kept {
        let joint = &self.joint;
        let mut kept = vec![vec![false; joint.values.len()]; joint.len() + 1];
        // Each column is asked about once.
        let chosen: Vec<bool> = values.iter().map(|&value| holds(value)).collect();
        let whole = |term: Term| match term {
            Term::Zero => false,
            Term::One => true,
            Term::Column(column) => chosen[column.index()],
        };
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            let needs = self.needs(block, whole);
            // An operator runs again for the first need of anything that it makes and that is not kept.
            let run_at = |position: usize| {
                let made = joint.operators[position].makes.iter();
                let missing = made.filter(|&&at| !whole(self.keep[block][at])).map(|&at| needs[at].0);
                missing.min().unwrap_or(last)
            };
            for (at, value) in joint.values.iter().enumerate() {
                let (kept_into, next) = (whole(self.keep[block][at]), whole(self.keep[block + 1][at]));
                let again = whole(self.again[block][value.producer]);
                let alone = joint.operators[value.producer].makes.len() == 1;
                let mut until = if next { last } else { needs[at].1.min(last) };
                let from = match (kept_into, again) {
                    (true, true) if alone => {
                        // Used, dropped, and made again: for the next block, or where it is last read.
                        until = needs[at].0.min(until);
                        first
                    }
                    (true, _) => first,
                    (false, true) => run_at(value.producer).max(value.producer) + 1,
                    (false, false) => value.producer.max(first) + 1,
                };
                for row in kept.iter_mut().take(until + 1).skip(from) {
                    row[at] = true;
                }
                kept[first][at] |= kept_into;
            }
        }
        kept
    }

    /// For each value the stages of a block in which it is first and last read.
    fn needs(&self, block: usize, whole: impl Fn(Term) -> bool) -> Vec<(usize, usize)> {
        let joint = &self.joint;
        let Block { first, last } = self.blocks[block];
        let mut needs = vec![(usize::MAX, 0); joint.values.len()];
        let mut need = |value: usize, stage: usize| {
            let (from, until): &mut (usize, usize) = &mut needs[value];
            (*from, *until) = ((*from).min(stage), (*until).max(stage));
        };
        for stage in first..=last {
            joint.operators[stage].first.reads.iter().for_each(|&value| need(value, stage));
        }
        for position in (0..first).rev() {
            let Some(way) = joint.operators[position].again.as_ref() else { continue };
            if !whole(self.again[block][position]) {
                continue;
            }
            let made = joint.operators[position].makes.iter().map(|&value| needs[value].0);
            let stage = made.min().filter(|&stage| stage <= last).unwrap_or(last);
            for &value in &way.reads {
                let (from, until) = &mut needs[value];
                (*from, *until) = ((*from).min(stage), (*until).max(stage));
            }
        }
        // What is not read is made in the last stage, for the next block.
        for (from, until) in &mut needs {
            (*from, *until) = ((*from).min(last), (*until).max(first));
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};

    use super::*;
    use crate::random::Random;

    #[test]
    fn memory_in_one_pass_over_the_values_is_that_of_the_rows() {
        for seed in 0..8 {
            let instance = Instance::new(&layered("layered", &Layered::moccasin(30, 0.4), seed)).expect("valid");
            let joint = Arc::new(Joint::new(&instance).expect("supported"));
            let peak = Stages::store_all(&joint).claim(&joint, true).peak_bytes;
            let task = Task { instance: &instance, joint, budget: Some(peak / 2), workspace: true, copies: None };
            let mut random = Random::new(seed);
            let (mut blocks, mut first) = (Vec::new(), 0);
            while first < task.joint.len() {
                let last = (first + random.below(9) as usize).min(task.joint.len() - 1);
                blocks.push(Block { first, last });
                first = last + 1;
            }
            let coarse = Coarse::new(&task, blocks);
            let point: Vec<f64> = (0..coarse.model.columns()).map(|_| random.unit()).collect();
            let agree = |fast: f64, row: &Sum| assert!((fast - row.value(&point)).abs() < 1e-6, "{fast}");
            for (block, &Block { first, .. }) in coarse.blocks.iter().enumerate() {
                for (at, memory) in coarse.memory_values(block, &point).into_iter().enumerate() {
                    agree(memory, &coarse.memory(block, first + at));
                }
                let again = coarse.memory_again_values(block, &point);
                let rows = (0..first).filter(|&position| coarse.memory_again(block, position).is_some());
                assert!(again.iter().map(|&(position, _)| position).eq(rows));
                for (position, memory) in again {
                    agree(memory, &coarse.memory_again(block, position).expect("there is one"));
                }
            }
        }
    }
}
