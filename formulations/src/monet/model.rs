//! The linear model over blocks of stages, with an implementation for each run; over single stages it is exact.
//!
//! In a block of several stages what runs again counts once for each way, and when in the block that is, is forgotten; so
//! every schedule is a solution that costs no more. Memory there is what must be there whatever the block does: what the
//! step itself touches, what a later operator of the block reads and the block does not make again, and what is kept
//! beyond it and not made again. Over a single stage memory is the simulator's: that a value is there says that some
//! reader at or after the step runs or that it is kept beyond the stage, the largest of these, stated by lower bounds.
//! Rows of memory come when they are violated. In a neighbourhood ([`Linear::within`]) what is not open is constant, and
//! stages at whose ends nothing is open have neither columns nor rows.

use remat_solvers::{Column, Kind, Model, Names, Row, RowBlock};

use crate::monet::graph::{Graph, Way};
use crate::monet::plan::{Pass, Plan, Run};
use crate::search::blocks::Block;
use crate::search::incumbent::Kept;
use crate::search::problem::Open;
use crate::search::separation;
use crate::search::term::{Scale, Sum, Term};

/// Largest violation of a memory row that counts as none, in scaled units.
const TOLERANCE: f64 = 1e-5;
/// So many violated rows of either kind are taken from a block at a time.
const ALIKE: usize = 3;

/// When a value is there in a stage.
#[derive(Clone, Debug)]
struct Life {
    value: usize,
    /// Kept into the stage: until its producer's step.
    kept: Sum,
    /// At its producer's step.
    made: Sum,
    /// After that, up to and with a position.
    spans: Vec<(usize, Sum)>,
    /// Kept into the next stage.
    stays: Sum,
}

/// What a column means; for names.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Run { stage: usize, position: usize, implementation: usize },
    Keep { stage: usize, value: usize },
    Largest,
}

/// What is constant in a neighbourhood of a schedule.
#[derive(Clone, Copy)]
struct Around<'p> {
    plan: &'p Plan,
    open: &'p Open,
}

/// The model over some blocks, within a budget.
pub struct Linear<'a> {
    graph: &'a Graph,
    /// Columns, and the rows so far.
    pub model: Model,
    /// The blocks, in order; they cover every stage.
    pub blocks: Vec<Block>,
    /// For each block, its time beyond that of its first runs, each the fastest way.
    pub costs: Vec<Sum>,
    scale: Scale,
    capacity: f64,
    /// Time of which the objective knows nothing.
    fixed: u64,
    /// S\[k,a\]: value a is kept into block k (one row more, for the end).
    keep: Vec<Vec<Term>>,
    /// By position, the ways of the first run.
    own: Vec<Vec<Term>>,
    /// R\[k,i,w\]: operator i runs again in block k by way w.
    again: Vec<Vec<Vec<Term>>>,
    /// Of blocks of one stage, memory.
    lives: Vec<Vec<Life>>,
    /// Of longer blocks, likewise.
    spans: Vec<Vec<Span>>,
    /// By stage, what it does where nothing at its ends is open.
    settled: Vec<Option<Pass>>,
    /// Columns that are the larger of two sums and 0, in the order in which they depend on each other.
    largest: Vec<(Column, [Sum; 2])>,
    meanings: Vec<Meaning>,
}

/// What is there at least in a block of several stages, by value.
#[derive(Clone, Debug, Default)]
struct Span {
    /// From a stage of the block on until before the next entry, or the end; the first is for the stages before all.
    there: Vec<(usize, Sum)>,
    /// During first runs that may or may not read it, or may or may not make it.
    during: Vec<(usize, Sum)>,
    /// Kept beyond the block.
    next: Sum,
}

impl Span {
    /// After the first run of a stage, and in the next.
    fn after(&self, stage: usize) -> &Sum {
        let from = self.there.partition_point(|there| there.0 <= stage);
        &self.there[from.saturating_sub(1)].1
    }
}

fn certain(sum: &Sum) -> bool {
    sum.terms.is_empty() && sum.constant >= 1.0
}

fn nothing(sum: &Sum) -> bool {
    sum.terms.is_empty() && sum.constant <= 0.0
}

/// What some of the ways of a run come to: 1 where all of them are meant and one is certain.
fn some<'w>(ways: impl Iterator<Item = (&'w Way, Term)> + Clone, certainly: bool, which: impl Fn(&Way) -> bool) -> Sum {
    if certainly && ways.clone().all(|(way, _)| which(way)) {
        return Sum::of([(1.0, Term::One)]);
    }
    Sum::of(ways.filter(|(way, _)| which(way)).map(|(_, term)| (1.0, term)))
}

fn plus(mut sum: Sum, factor: f64, other: &Sum) -> Sum {
    sum.constant += factor * other.constant;
    sum.terms.extend(other.terms.iter().map(|&(column, value)| (column, factor * value)));
    sum
}

impl<'a> Linear<'a> {
    /// The model over blocks, without memory rows; bytes are what the budget leaves beside what is always there.
    pub fn new(graph: &'a Graph, room: u64, blocks: Vec<Block>) -> Self {
        Self::build(graph, room, blocks, None)
    }

    /// The exact model.
    pub fn exact(graph: &'a Graph, room: u64) -> Self {
        Self::new(graph, room, singles(graph))
    }

    /// The exact model of what is open around a schedule.
    pub fn within(graph: &'a Graph, room: u64, plan: &Plan, open: &Open) -> Self {
        Self::build(graph, room, singles(graph), Some(Around { plan, open }))
    }

    fn build(graph: &'a Graph, room: u64, blocks: Vec<Block>, around: Option<Around<'_>>) -> Self {
        let longest = graph.operators.iter().flat_map(|operator| &operator.again).map(|way| way.time).max();
        let scale = Scale::new(room, longest.unwrap_or(0));
        let settled = |stage: usize| {
            let around = around.filter(|around| !around.open.touches(stage))?;
            Some(around.plan.passes[stage].clone())
        };
        let mut linear = Self {
            graph,
            model: Model::default(),
            costs: vec![Sum::default(); blocks.len()],
            blocks,
            scale,
            capacity: scale.bytes(room),
            fixed: graph.least_time(),
            keep: Vec::new(),
            own: vec![Vec::new(); graph.len()],
            again: Vec::new(),
            lives: Vec::new(),
            spans: Vec::new(),
            settled: (0..graph.len()).map(settled).collect(),
            largest: Vec::new(),
            meanings: Vec::new(),
        };
        linear.variables(around);
        for block in 0..linear.blocks.len() {
            let (mut lives, mut spans) = (Vec::new(), Vec::new());
            if linear.is_open(block) {
                linear.choices(block);
                linear.dependencies(block);
                linear.retention(block);
                if linear.is_single(block) {
                    linear.in_place(block);
                    lives = linear.lives_in(block);
                } else {
                    spans = linear.spans_in(block);
                }
            }
            linear.lives.push(lives);
            linear.spans.push(spans);
        }
        if linear.model.columns() == 0 && around.is_none() {
            // Solvers do not look at the rows of a model without columns.
            linear.column(Meaning::Largest, 0.0, Kind::Continuous);
        }
        linear
    }

    fn is_single(&self, block: usize) -> bool {
        let Block { first, last } = self.blocks[block];
        first == last
    }

    /// Whether a block has columns and rows.
    fn is_open(&self, block: usize) -> bool {
        self.settled[self.blocks[block].first].is_none()
    }

    fn column(&mut self, meaning: Meaning, cost: f64, kind: Kind) -> Term {
        self.meanings.push(meaning);
        Term::Column(self.model.column(0.0, 1.0, cost, kind))
    }

    fn variables(&mut self, around: Option<Around<'_>>) {
        let graph = self.graph;
        let mut useful: Vec<Vec<bool>> = Vec::new();
        for block in 0..=self.blocks.len() {
            let stage = self.blocks.get(block).map_or(graph.len(), |block| block.first);
            let keep = (0..graph.values.len()).map(|at| self.keep_term(block, stage, at, around, useful.last()));
            let keep = keep.collect();
            self.keep.push(keep);
            let Some(&Block { first, last }) = self.blocks.get(block) else { break };
            let mut again = vec![Vec::new(); last];
            if let Some(pass) = &self.settled[first] {
                let more = pass.time - graph.operators[first].least_time();
                self.fixed += more;
                self.costs[block].constant = more as f64;
                useful.push(vec![false; last + 1]);
                self.again.push(again);
                continue;
            }
            let may = around.map_or_else(|| vec![true; last + 1], |around| around.useful(graph, first));
            for stage in first..=last {
                let operator = &graph.operators[stage];
                let least = operator.least_time();
                let alone = operator.first.len() == 1;
                self.own[stage] = operator
                    .first
                    .iter()
                    .map(|way| if alone { Term::One } else { self.run(block, stage, stage, way, way.time - least) })
                    .collect();
            }
            for (position, ways) in again.iter_mut().enumerate().filter(|&(position, _)| may[position]) {
                let until = graph.last_run(position);
                if first <= until && position < until {
                    let all = graph.operators[position].again.iter();
                    *ways = all.map(|way| self.run(block, first, position, way, way.time)).collect();
                }
            }
            useful.push(may);
            self.again.push(again);
        }
    }

    fn run(&mut self, block: usize, stage: usize, position: usize, way: &Way, cost: u64) -> Term {
        let meaning = Meaning::Run { stage, position, implementation: way.implementation };
        let term = self.column(meaning, self.scale.duration(cost), Kind::Integer);
        self.costs[block].add(cost as f64, term);
        term
    }

    fn keep_term(
        &mut self,
        block: usize,
        stage: usize,
        at: usize,
        around: Option<Around<'_>>,
        useful: Option<&Vec<bool>>,
    ) -> Term {
        let constant = |kept| if kept { Term::One } else { Term::Zero };
        if let Some(kept) = self.graph.forced(stage, at) {
            return constant(kept);
        }
        if let Some(around) = around {
            if !around.open.cells[stage][at] {
                return constant(around.plan.kept[stage][at]);
            }
            if useful.is_some_and(|useful| around.joined(self.graph, stage, at, useful)) {
                return self.keep[block - 1][at];
            }
        }
        self.column(Meaning::Keep { stage, value: at }, 0.0, Kind::Integer)
    }

    fn row(&mut self, mut sum: Sum, upper: f64) {
        sum.merge();
        let bound = upper - sum.constant;
        let most: f64 = sum.terms.iter().map(|&(_, factor)| factor.max(0.0)).sum();
        if most > bound {
            self.model.at_most(bound, sum.terms);
        }
    }

    /// Ways of the first run of a position.
    fn firsts(&self, position: usize) -> impl Iterator<Item = (&'a Way, Term)> + Clone + '_ {
        self.graph.operators[position].first.iter().zip(self.own[position].iter().copied())
    }

    /// Ways of later runs of a position in a block.
    fn agains(&self, block: usize, position: usize) -> impl Iterator<Item = (&'a Way, Term)> + Clone + '_ {
        let terms = self.again[block].get(position).map_or(&[][..], |terms| terms);
        self.graph.operators[position].again.iter().zip(terms.iter().copied())
    }

    /// Whether the first run of a position is in a block.
    fn is_own(&self, block: usize, position: usize) -> bool {
        (self.blocks[block].first..=self.blocks[block].last).contains(&position)
    }

    /// Whether a value is made again in a block.
    fn remade(&self, block: usize, value: usize) -> Sum {
        some(self.agains(block, self.graph.values[value].producer), false, |way| way.makes(value))
    }

    /// Whether a value is made in a block.
    fn made(&self, block: usize, value: usize) -> Sum {
        let producer = self.graph.values[value].producer;
        let again = self.remade(block, value);
        if !self.is_own(block, producer) {
            return again;
        }
        let first = some(self.firsts(producer), true, |way| way.makes(value));
        if certain(&first) { first } else { plus(first, 1.0, &again) }
    }

    /// One way of each first run; one of each later run at most, where the block is one stage.
    fn choices(&mut self, block: usize) {
        let Block { first, last } = self.blocks[block];
        for position in first..=last {
            if self.own[position].len() > 1 {
                let sum = Sum::of(self.own[position].iter().map(|&term| (1.0, term)));
                self.model.equal(1.0, sum.terms);
            }
        }
        if first == last {
            for position in 0..first {
                if self.again[block][position].len() > 1 {
                    self.row(Sum::of(self.again[block][position].iter().map(|&term| (1.0, term))), 1.0);
                }
            }
        }
    }

    /// Equation 1b of Checkmate: what runs finds what it reads, made in the block or kept into it.
    fn dependencies(&mut self, block: usize) {
        let graph = self.graph;
        for position in 0..=self.blocks[block].last {
            for &value in &graph.operators[position].reads {
                let there = plus(self.made(block, value), 1.0, &Sum::of([(1.0, self.keep[block][value])]));
                if certain(&there) {
                    continue;
                }
                let own =
                    self.is_own(block, position).then(|| some(self.firsts(position), true, |way| way.reads(value)));
                let again = some(self.agains(block, position), false, |way| way.reads(value));
                for reads in own.into_iter().chain([again]).filter(|reads| !nothing(reads)) {
                    self.row(plus(reads, -1.0, &there), 0.0);
                }
            }
        }
    }

    /// Equation 1c: what is kept beyond the block was made in it or kept into it.
    fn retention(&mut self, block: usize) {
        let last = self.blocks[block].last;
        for value in (0..self.graph.values.len()).filter(|&value| self.graph.values[value].producer <= last) {
            let next = Sum::of([(1.0, self.keep[block + 1][value])]);
            let there = plus(self.made(block, value), 1.0, &Sum::of([(1.0, self.keep[block][value])]));
            if !nothing(&next) && !certain(&there) {
                self.row(plus(next, -1.0, &there), 0.0);
            }
        }
    }

    /// What is overwritten is read by nothing later in the stage, and not kept beyond it.
    fn in_place(&mut self, block: usize) {
        let graph = self.graph;
        let stage = self.blocks[block].first;
        for position in 0..=stage {
            let ways = graph.ways(stage, position).iter();
            let mut targets: Vec<usize> = ways.filter_map(|way| way.over).collect();
            targets.sort_unstable();
            targets.dedup();
            for target in targets {
                let over = self.some_at(block, position, |way| way.over == Some(target));
                if nothing(&over) {
                    continue;
                }
                self.row(plus(over.clone(), 1.0, &Sum::of([(1.0, self.keep[block + 1][target])])), 1.0);
                let readers = &graph.values[target].readers;
                for &reader in readers.iter().filter(|&&reader| reader > position && reader <= stage) {
                    let reads = self.some_at(block, reader, |way| way.reads(target));
                    if !nothing(&reads) {
                        self.row(plus(over.clone(), 1.0, &reads), 1.0);
                    }
                }
            }
        }
    }

    /// Some of the ways of a run in a block of one stage.
    fn some_at(&self, block: usize, position: usize, which: impl Fn(&Way) -> bool) -> Sum {
        if self.is_own(block, position) {
            some(self.firsts(position), true, which)
        } else {
            some(self.agains(block, position), false, which)
        }
    }

    /// A sum that is at least both.
    fn maximum(&mut self, left: Sum, right: Sum) -> Sum {
        match () {
            () if certain(&left) || nothing(&right) => left,
            () if certain(&right) || nothing(&left) => right,
            () if left.terms == right.terms && left.constant.to_bits() == right.constant.to_bits() => left,
            () => {
                let column = self.column(Meaning::Largest, 0.0, Kind::Continuous);
                let minus = Sum::of([(-1.0, column)]);
                self.row(plus(left.clone(), 1.0, &minus), 0.0);
                self.row(plus(right.clone(), 1.0, &minus), 0.0);
                if let Term::Column(column) = column {
                    self.largest.push((column, [left, right]));
                }
                Sum::of([(1.0, column)])
            }
        }
    }

    /// When each value is there in a stage.
    fn lives_in(&mut self, block: usize) -> Vec<Life> {
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
    fn spans_in(&mut self, block: usize) -> Vec<Span> {
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

    /// What that comes to in a point.
    fn first_value(&self, block: usize, stage: usize, point: &[f64]) -> f64 {
        let values = self.graph.values.iter().enumerate();
        let there = values.filter_map(|(at, value)| Some((value.bytes, self.there_at(block, stage, at)?)));
        let memory = there.map(|(bytes, there)| self.scale.bytes(bytes) * there.value(point));
        memory.sum::<f64>() + self.transient(block, stage).value(point)
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

    fn violated(&self, point: &[f64]) -> RowBlock {
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
            let own = (first..=last).map(|stage| (stage, self.first_value(block, stage, point))).collect();
            for (stage, _) in worst(own) {
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

    /// Whether some row holds for no values of the columns.
    pub fn has_hopeless_row(&self) -> bool {
        let rows = &self.model.rows;
        (0..rows.len()).any(|row| rows.upper[row] < 0.0 && rows.terms(row).next().is_none())
    }

    /// What the columns are called.
    pub fn named(&self) -> Named {
        Named(self.meanings.clone())
    }

    /// Divisors of memory and time.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The point of a schedule.
    pub fn point(&self, plan: &Plan) -> Vec<f64> {
        let mut point = vec![0.0; self.model.columns()];
        let mut set = |term: Term| {
            if let Term::Column(column) = term {
                point[column.index()] = 1.0;
            }
        };
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            for stage in first..=last {
                for &(position, way) in &plan.passes[stage].runs {
                    let terms =
                        if position == stage { Some(&self.own[stage]) } else { self.again[block].get(position) };
                    terms.and_then(|terms| terms.get(way)).copied().into_iter().for_each(&mut set);
                }
            }
        }
        for (block, keep) in self.keep.iter().enumerate() {
            let stage = self.blocks.get(block).map_or(self.graph.len(), |block| block.first);
            keep.iter().zip(&plan.kept[stage]).filter(|(_, kept)| **kept).for_each(|(&term, _)| set(term));
        }
        for (column, sums) in &self.largest {
            point[column.index()] = sums.iter().map(|sum| sum.value(&point)).fold(0.0, f64::max);
        }
        point
    }

    /// The schedule that a point comes to; over longer blocks it may exceed the budget.
    pub fn plan(&self, point: &[f64], capacity: u64) -> Option<Plan> {
        let exact = self.blocks.len() == self.graph.len();
        let runs = exact.then(|| Plan::of_runs(self.graph, self.runs(point))).flatten();
        runs.or_else(|| Plan::complete(self.graph, self.kept(point), capacity))
    }

    /// By stage, what runs by a point over single stages.
    fn runs(&self, point: &[f64]) -> Vec<Vec<Run>> {
        let stage = |stage: usize| {
            if let Some(pass) = &self.settled[stage] {
                return pass.runs.clone();
            }
            let chosen = |terms: &[Term]| {
                let valued = terms.iter().enumerate().map(|(at, term)| (at, term.value(point)));
                valued.max_by(|left, right| left.1.total_cmp(&right.1))
            };
            let later = (0..stage).filter_map(|position| {
                let (way, value) = chosen(&self.again[stage][position])?;
                (value >= 0.5).then_some((position, way))
            });
            later.chain(chosen(&self.own[stage]).map(|(way, _)| (stage, way))).collect()
        };
        (0..self.graph.len()).map(stage).collect()
    }

    /// What a point keeps: within a block what is kept into it stays until its last use there, and what runs again does
    /// so at its first use.
    fn kept(&self, point: &[f64]) -> Kept {
        let graph = self.graph;
        let whole = |term: Term| term.value(point) >= 0.5;
        let mut kept = vec![vec![false; graph.values.len()]; graph.len() + 1];
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            let remade: Vec<bool> =
                (0..graph.values.len()).map(|at| self.remade(block, at).value(point) >= 0.5).collect();
            let needs = self.needs(block, point, &remade);
            for (at, value) in graph.values.iter().enumerate() {
                let (into, next) = (whole(self.keep[block][at]), whole(self.keep[block + 1][at]));
                let mut until = if next { last } else { needs[at].1.min(last) };
                let from = match (into, remade[at]) {
                    (true, true) => {
                        // Used, dropped, and made again: for the next block, or where it is last read.
                        until = needs[at].0.min(until);
                        first
                    }
                    (true, false) => first,
                    (false, true) => needs[at].0.max(value.producer) + 1,
                    (false, false) => value.producer.max(first) + 1,
                };
                kept.iter_mut().take(until + 1).skip(from).for_each(|row| row[at] = true);
                kept[first][at] |= into;
            }
        }
        for (at, value) in graph.values.iter().enumerate() {
            kept[graph.len()][at] = value.result;
        }
        kept
    }

    /// For each value the stages of a block in which it is first and last read.
    fn needs(&self, block: usize, point: &[f64], remade: &[bool]) -> Vec<(usize, usize)> {
        let graph = self.graph;
        let Block { first, last } = self.blocks[block];
        let mut needs = vec![(usize::MAX, 0); graph.values.len()];
        let chosen = |ways: &mut dyn Iterator<Item = (&'a Way, Term)>| {
            let valued = ways.map(|(way, term)| (way, term.value(point)));
            valued.max_by(|left, right| left.1.total_cmp(&right.1))
        };
        for stage in first..=last {
            if let Some((way, _)) = chosen(&mut self.firsts(stage)) {
                need(&mut needs, way, stage);
            }
        }
        for position in (0..first).rev() {
            let Some((way, _)) = chosen(&mut self.agains(block, position)).filter(|way| way.1 >= 0.5) else { continue };
            let made = graph.operators[position].makes.iter().filter(|&&value| remade[value]);
            let stage = made.map(|&value| needs[value].0).min().filter(|&stage| stage <= last).unwrap_or(last);
            need(&mut needs, way, stage);
        }
        // What is not read is made in the last stage, for the next block.
        for (from, until) in &mut needs {
            (*from, *until) = ((*from).min(last), (*until).max(first));
        }
        needs
    }
}

/// Takes note that a way reads in a stage.
fn need(needs: &mut [(usize, usize)], way: &Way, stage: usize) {
    for &value in &way.reads {
        let (from, until) = &mut needs[value];
        (*from, *until) = ((*from).min(stage), (*until).max(stage));
    }
}

/// A block for every stage.
fn singles(graph: &Graph) -> Vec<Block> {
    (0..graph.len()).map(|stage| Block { first: stage, last: stage }).collect()
}

impl Around<'_> {
    /// Whether a value is there when a stage begins exactly if it was when the one before did: nothing there could make it,
    /// or have it read and dropped.
    fn joined(&self, graph: &Graph, stage: usize, at: usize, useful: &[bool]) -> bool {
        let (before, value) = (stage - 1, &graph.values[at]);
        let runs = |position: usize| position <= before && useful[position];
        self.open.touches(before)
            && self.open.cells[before][at]
            && graph.forced(before, at).is_none()
            && self.plan.kept[stage][at] == self.plan.kept[before][at]
            && !runs(value.producer)
            && !value.readers.iter().any(|&reader| runs(reader))
    }

    /// Which operators can be of use in a stage, whatever is kept where that is open.
    fn useful(&self, graph: &Graph, stage: usize) -> Vec<bool> {
        let mut useful = vec![false; stage + 1];
        useful[stage] = true;
        if !self.open.heads[stage] {
            return useful;
        }
        let cell = |stage: usize, at: usize| {
            let open = graph.forced(stage, at).is_none() && self.open.cells[stage][at];
            (open || self.plan.kept[stage][at], open || !self.plan.kept[stage][at])
        };
        for (at, value) in graph.values.iter().enumerate().filter(|(_, value)| value.producer < stage) {
            useful[value.producer] |= cell(stage + 1, at).0 && cell(stage, at).1;
        }
        for position in (0..=stage).rev() {
            let reads = if useful[position] { &graph.operators[position].reads[..] } else { &[] };
            for &value in reads.iter().filter(|&&value| graph.values[value].producer < stage) {
                useful[graph.values[value].producer] |= cell(stage, value).1;
            }
        }
        useful
    }
}

impl separation::Relaxation for Linear<'_> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn fixed_time(&self) -> u64 {
        self.fixed
    }

    fn time_unit(&self) -> f64 {
        self.scale.time
    }

    fn separate(&mut self, point: &[f64], _: separation::Pass) -> RowBlock {
        let rows = self.violated(point);
        self.model.rows.append(&rows);
        rows
    }
}

/// What the columns are called.
pub struct Named(Vec<Meaning>);

impl Names for Named {
    fn column(&self, column: Column) -> String {
        match self.0[column.index()] {
            Meaning::Run { stage, position, implementation } => format!("r_{stage}_{position}_{implementation}"),
            Meaning::Keep { stage, value } => format!("s_{stage}_{value}"),
            Meaning::Largest => format!("m_{}", column.index()),
        }
    }

    fn row(&self, row: Row) -> String {
        format!("c{}", row.index())
    }
}
