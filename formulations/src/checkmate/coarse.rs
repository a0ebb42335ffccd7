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
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            let own = (first..=last).map(|stage| self.memory(block, stage)).collect();
            let again = (0..first).filter_map(|position| self.memory_again(block, position)).collect();
            for sums in [own, again] {
                self.push_worst(&mut rows, sums, values);
            }
        }
        rows
    }

    fn push_worst(&self, rows: &mut RowBlock, sums: Vec<Sum>, values: &[f64]) {
        let valued = sums.into_iter().map(|sum| (sum.value(values), sum));
        let worst = valued.max_by(|left, right| left.0.total_cmp(&right.0));
        if let Some((_, sum)) = worst.filter(|(memory, _)| *memory > self.capacity + TOLERANCE) {
            rows.push(f64::NEG_INFINITY, self.capacity - sum.constant, sum.terms);
        }
    }

    /// The vector that stages amount to: they are a solution of every coarse model.
    pub fn vector(&self, stages: &Stages) -> Vec<f64> {
        let mut vector = vec![0.0; self.model.columns()];
        let mut set = |term: Term, value: bool| {
            if let Term::Column(column) = term {
                vector[column.index()] = f64::from(value);
            }
        };
        let kept = stages.kept(&self.joint);
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            let runs = |position: usize| {
                let mut later = (first..=last).filter(|&stage| stage > position);
                later.any(|stage| stages.runs[stage].binary_search(&position).is_ok())
            };
            let again: Vec<bool> = (0..self.joint.len()).map(runs).collect();
            for (position, &runs) in again.iter().enumerate() {
                set(self.again[block][position], runs);
            }
            for (at, value) in self.joint.values.iter().enumerate() {
                let next = self.blocks.get(block + 1).map_or(self.joint.len(), |block| block.first);
                set(self.keep[block][at], kept[first][at]);
                // Where nothing runs again it is the column of the next block's S.
                if self.stays[block][at] != self.keep[block + 1][at] {
                    set(self.stays[block][at], kept[next][at] && !again[value.producer]);
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
