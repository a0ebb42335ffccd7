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
use crate::monet::memory::{Life, Span};
use crate::monet::neighbourhood::Around;
use crate::monet::plan::{Pass, Plan};
use crate::search::blocks::Block;
use crate::search::problem::Open;
use crate::search::separation;
use crate::search::term::{Scale, Sum, Term};

/// What a column means; for names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    Run { stage: usize, position: usize, implementation: usize },
    Keep { stage: usize, value: usize },
    Largest,
}

/// The model over some blocks, within a budget.
pub struct Linear<'a> {
    pub(super) graph: &'a Graph,
    /// Columns, and the rows so far.
    pub model: Model,
    /// The blocks, in order; they cover every stage.
    pub blocks: Vec<Block>,
    /// For each block, its time beyond that of its first runs, each the fastest way.
    pub costs: Vec<Sum>,
    pub(super) scale: Scale,
    pub(super) capacity: f64,
    /// Time of which the objective knows nothing.
    pub(super) fixed: u64,
    /// S\[k,a\]: value a is kept into block k (one row more, for the end).
    pub(super) keep: Vec<Vec<Term>>,
    /// By position, the ways of the first run.
    pub(super) own: Vec<Vec<Term>>,
    /// R\[k,i,w\]: operator i runs again in block k by way w.
    pub(super) again: Vec<Vec<Vec<Term>>>,
    /// Of blocks of one stage, memory.
    pub(super) lives: Vec<Vec<Life>>,
    /// Of longer blocks, likewise.
    pub(super) spans: Vec<Vec<Span>>,
    /// By stage, what it does where nothing at its ends is open.
    pub(super) settled: Vec<Option<Pass>>,
    /// Columns that are the larger of two sums and 0, in the order in which they depend on each other.
    pub(super) largest: Vec<(Column, [Sum; 2])>,
    pub(super) meanings: Vec<Meaning>,
}

pub(super) fn certain(sum: &Sum) -> bool {
    sum.terms.is_empty() && sum.constant >= 1.0
}

pub(super) fn nothing(sum: &Sum) -> bool {
    sum.terms.is_empty() && sum.constant <= 0.0
}

/// What some of the ways of a run come to: 1 where all of them are meant and one is certain.
pub(super) fn some<'w>(
    ways: impl Iterator<Item = (&'w Way, Term)> + Clone,
    certainly: bool,
    which: impl Fn(&Way) -> bool,
) -> Sum {
    if certainly && ways.clone().all(|(way, _)| which(way)) {
        return Sum::of([(1.0, Term::One)]);
    }
    Sum::of(ways.filter(|(way, _)| which(way)).map(|(_, term)| (1.0, term)))
}

pub(super) fn plus(mut sum: Sum, factor: f64, other: &Sum) -> Sum {
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

    pub(super) fn is_single(&self, block: usize) -> bool {
        let Block { first, last } = self.blocks[block];
        first == last
    }

    /// Whether a block has columns and rows.
    pub(super) fn is_open(&self, block: usize) -> bool {
        self.settled[self.blocks[block].first].is_none()
    }

    pub(super) fn column(&mut self, meaning: Meaning, cost: f64, kind: Kind) -> Term {
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

    pub(super) fn row(&mut self, mut sum: Sum, upper: f64) {
        sum.merge();
        let bound = upper - sum.constant;
        let most: f64 = sum.terms.iter().map(|&(_, factor)| factor.max(0.0)).sum();
        if most > bound {
            self.model.at_most(bound, sum.terms);
        }
    }

    /// Ways of the first run of a position.
    pub(super) fn firsts(&self, position: usize) -> impl Iterator<Item = (&'a Way, Term)> + Clone + '_ {
        self.graph.operators[position].first.iter().zip(self.own[position].iter().copied())
    }

    /// Ways of later runs of a position in a block.
    pub(super) fn agains(&self, block: usize, position: usize) -> impl Iterator<Item = (&'a Way, Term)> + Clone + '_ {
        let terms = self.again[block].get(position).map_or(&[][..], |terms| terms);
        self.graph.operators[position].again.iter().zip(terms.iter().copied())
    }

    /// Whether the first run of a position is in a block.
    pub(super) fn is_own(&self, block: usize, position: usize) -> bool {
        (self.blocks[block].first..=self.blocks[block].last).contains(&position)
    }

    /// Whether a value is made again in a block.
    pub(super) fn remade(&self, block: usize, value: usize) -> Sum {
        some(self.agains(block, self.graph.values[value].producer), false, |way| way.makes(value))
    }

    /// Whether a value is made in a block.
    pub(super) fn made(&self, block: usize, value: usize) -> Sum {
        let producer = self.graph.values[value].producer;
        let again = self.remade(block, value);
        if !self.is_own(block, producer) {
            return again;
        }
        let first = some(self.firsts(producer), true, |way| way.makes(value));
        if certain(&first) { first } else { plus(first, 1.0, &again) }
    }

    /// Some of the ways of a run in a block of one stage.
    pub(super) fn some_at(&self, block: usize, position: usize, which: impl Fn(&Way) -> bool) -> Sum {
        if self.is_own(block, position) {
            some(self.firsts(position), true, which)
        } else {
            some(self.agains(block, position), false, which)
        }
    }

    /// A sum that is at least both.
    pub(super) fn maximum(&mut self, left: Sum, right: Sum) -> Sum {
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
}

/// A block for every stage.
fn singles(graph: &Graph) -> Vec<Block> {
    (0..graph.len()).map(|stage| Block { first: stage, last: stage }).collect()
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
