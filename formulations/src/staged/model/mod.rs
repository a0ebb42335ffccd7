//! The linear model over blocks of stages, with an implementation for each run; over single stages it is exact.
//!
//! In a block of several stages what runs again counts once for each way, and when in the block that is, is forgotten; so
//! every schedule is a solution that costs no more. Memory there is what must be there whatever the block does: what the
//! step itself touches, what a later operator of the block reads and the block does not make again, and what is kept
//! beyond it and not made again. Over a single stage memory is the simulator's: that a value is there says that some
//! reader at or after the step runs or that it is kept beyond the stage, the largest of these, stated by lower bounds.
//! Rows of memory come when they are violated, or all of them at once ([`Linear::add_all`]), and rows of paths when a solution
//! without integrality violates them. In a neighbourhood ([`Linear::within`]) what is not open is constant, and stages at
//! whose ends nothing is open have neither columns nor rows.
//!
//! The rows are in `constraints.rs` and `memory.rs`, points and what they come to in `decode.rs`. Checkmate's reduced model is
//! this one over a graph with one way for each run; MONeT's has several.

mod constraints;
mod decode;
mod memory;
mod neighbourhood;
mod paths;

use remat_solvers::{Column, Kind, Model, Names, RowBlock};

use self::memory::Piece;
pub use self::neighbourhood::Around;
use crate::search::blocks::{Block, singles};
use crate::search::separation;
use crate::search::term::{Scale, Sum, Term};
use crate::staged::graph::{Graph, Operator, Way};

/// A run: position of the operator and of its way.
pub type Run = (usize, usize);

/// What a column means; for names.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Run { stage: usize, position: usize, implementation: usize },
    Keep { stage: usize, value: usize },
    Largest,
    Memory { stage: usize, position: usize },
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
    /// Bytes that the budget leaves.
    room: u64,
    /// Time of which the objective knows nothing.
    fixed: u64,
    /// S\[k,a\]: value a is kept into block k (one row more, for the end); nothing between stages that are settled.
    keep: Vec<Vec<Term>>,
    /// By position, the ways of the first run.
    own: Vec<Vec<Term>>,
    /// R\[k,i,w\]: operator i runs again in block k by way w.
    again: Vec<Vec<Vec<Term>>>,
    /// By block, what is there from when until when, and the memory of what is there all the time.
    pieces: Vec<(Vec<Piece>, u64)>,
    /// By longer block and value, what is there when the last stage begins, or whenever it was not made again before.
    idle: Vec<Vec<Sum>>,
    /// By stage, what is certain where nothing at its ends is open.
    settled: Vec<Option<Settled>>,
    /// Columns that are the larger of two sums and 0, in the order in which they depend on each other.
    largest: Vec<(Column, [Sum; 2])>,
    /// Columns of memory, with block and step.
    measured: Vec<(Column, usize, usize)>,
    /// Memory rows that came as they were violated, and the stage of each.
    memory_rows: Vec<(usize, usize)>,
    meanings: Vec<Meaning>,
}

/// A stage at whose ends nothing is open.
#[derive(Debug)]
struct Settled {
    /// What it runs.
    runs: Vec<Run>,
    /// By value, whether it is kept into the stage.
    kept: Vec<bool>,
}

/// What some of the ways of a run come to: 1 where all of them are meant and one is certain.
fn some<'w>(ways: impl Iterator<Item = (&'w Way, Term)> + Clone, certainly: bool, which: impl Fn(&Way) -> bool) -> Sum {
    if certainly && ways.clone().all(|(way, _)| which(way)) {
        return Sum::of([(1.0, Term::One)]);
    }
    Sum::of(ways.filter(|(way, _)| which(way)).map(|(_, term)| (1.0, term)))
}

impl<'a> Linear<'a> {
    /// The model over blocks, without memory rows; none means an unlimited budget.
    pub fn new(graph: &'a Graph, budget: Option<u64>, blocks: Vec<Block>) -> Self {
        Self::build(graph, budget, blocks, None)
    }

    /// The exact model.
    pub fn exact(graph: &'a Graph, budget: Option<u64>) -> Self {
        Self::new(graph, budget, singles(graph.len()))
    }

    /// The exact model of what is open around a schedule.
    pub fn within(graph: &'a Graph, budget: Option<u64>, around: Around<'_>) -> Self {
        Self::build(graph, budget, singles(graph.len()), Some(around))
    }

    fn build(graph: &'a Graph, budget: Option<u64>, blocks: Vec<Block>, around: Option<Around<'_>>) -> Self {
        let room = graph.room(budget);
        let costs = |operator: &'a Operator| {
            let again = operator.again.iter().map(|way| way.time);
            again.chain(operator.first.iter().map(|way| way.time - operator.least_time()))
        };
        let scale = Scale::new(room, graph.operators.iter().flat_map(costs).max().unwrap_or(0));
        let settled = |stage: usize| {
            let around = around.filter(|around| !around.open.touches(stage))?;
            let kept = |(at, &kept): (usize, &bool)| graph.forced(stage, at).unwrap_or(kept);
            let kept = around.kept[stage].iter().enumerate().map(kept).collect();
            Some(Settled { runs: (around.runs)(stage), kept })
        };
        let mut linear = Self {
            graph,
            model: Model::default(),
            costs: vec![Sum::default(); blocks.len()],
            blocks,
            scale,
            room,
            fixed: graph.least_time(),
            keep: Vec::new(),
            own: vec![Vec::new(); graph.len()],
            again: Vec::new(),
            pieces: Vec::new(),
            idle: Vec::new(),
            settled: (0..graph.len()).map(settled).collect(),
            largest: Vec::new(),
            measured: Vec::new(),
            memory_rows: Vec::new(),
            meanings: Vec::new(),
        };
        linear.variables(around);
        for block in 0..linear.blocks.len() {
            let (mut pieces, mut idle) = (Default::default(), Vec::new());
            if linear.is_open(block) {
                linear.choices(block);
                linear.dependencies(block);
                linear.retention(block);
                if linear.is_single(block) {
                    linear.in_place(block);
                    pieces = linear.lives_in(block);
                } else {
                    (pieces.0, idle) = linear.spans_in(block);
                }
            }
            linear.pieces.push(pieces);
            linear.idle.push(idle);
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
        let mut useful: Option<Vec<bool>> = None;
        for block in 0..=self.blocks.len() {
            let stage = self.blocks.get(block).map_or(graph.len(), |block| block.first);
            let values = if useful.is_some() || block < self.blocks.len() && self.is_open(block) {
                graph.values.len()
            } else {
                0
            };
            let keep = (0..values).map(|at| self.keep_term(block, stage, at, around, useful.as_deref()));
            let keep = keep.collect();
            self.keep.push(keep);
            let Some(&Block { first, last }) = self.blocks.get(block) else { break };
            if let Some(Settled { runs, .. }) = &self.settled[first] {
                let time: u64 = runs.iter().map(|&(position, way)| graph.ways(first, position)[way].time).sum();
                let more = time - graph.operators[first].least_time();
                self.fixed += more;
                self.costs[block].constant = more as f64;
                useful = None;
                self.again.push(Vec::new());
                continue;
            }
            let mut again = vec![Vec::new(); last];
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
            useful = Some(may);
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
        useful: Option<&[bool]>,
    ) -> Term {
        let constant = |kept| if kept { Term::One } else { Term::Zero };
        if let Some(kept) = self.graph.forced(stage, at) {
            return constant(kept);
        }
        if let Some(around) = around {
            if !around.open.cells[stage][at] {
                return constant(around.kept[stage][at]);
            }
            if useful.is_some_and(|useful| around.joined(self.graph, stage, at, useful)) {
                return self.keep[block - 1][at];
            }
        }
        self.column(Meaning::Keep { stage, value: at }, 0.0, Kind::Integer)
    }

    fn row(&mut self, sum: Sum, upper: f64) {
        sum.at_most(&mut self.model, upper);
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
        if first.is_certain() { first } else { first.plus(1.0, &again) }
    }

    /// Some of the ways of a run in a block of one stage.
    fn some_at(&self, block: usize, position: usize, which: impl Fn(&Way) -> bool) -> Sum {
        if self.is_own(block, position) {
            some(self.firsts(position), true, which)
        } else {
            some(self.agains(block, position), false, which)
        }
    }

    /// A sum that is at least both, and not negative.
    fn maximum(&mut self, left: Sum, right: Sum) -> Sum {
        match () {
            () if left.is_certain() || right.is_nothing() && left.least() >= 0.0 => left,
            () if right.is_certain() || left.is_nothing() && right.least() >= 0.0 => right,
            () if left.terms == right.terms && left.constant.to_bits() == right.constant.to_bits() => left,
            () => {
                let column = self.column(Meaning::Largest, 0.0, Kind::Continuous);
                let minus = Sum::of([(-1.0, column)]);
                self.row(left.clone().plus(1.0, &minus), 0.0);
                self.row(right.clone().plus(1.0, &minus), 0.0);
                if let Term::Column(column) = column {
                    self.largest.push((column, [left, right]));
                }
                Sum::of([(1.0, column)])
            }
        }
    }

    /// At most so many runs of each operator.
    pub fn at_most_runs(&mut self, copies: u64) {
        for position in 0..self.graph.len() {
            let blocks = 0..self.blocks.len();
            let runs = blocks.fold(Sum::default(), |sum, block| sum.plus(1.0, &self.runs_in(block, position)));
            self.add_row(runs, copies as f64);
        }
    }

    /// Runs of the operator at a position in a block. One that runs again in a longer block counts once, however often it does.
    pub fn runs_in(&self, block: usize, position: usize) -> Sum {
        if let Some(settled) = &self.settled[self.blocks[block].first] {
            let runs = settled.runs.iter().filter(|run| run.0 == position).count();
            return Sum { constant: runs as f64, ..Sum::default() };
        }
        let mut runs = Sum::of(self.agains(block, position).map(|(_, term)| (1.0, term)));
        runs.constant += f64::from(u8::from(self.is_own(block, position)));
        runs
    }

    /// Whether a value is kept into a block, or to the end where it is one more.
    pub fn kept_into(&self, block: usize, value: usize) -> Sum {
        let settled = || Some(self.settled[self.blocks.get(block)?.first].as_ref()?.kept[value]);
        let constant = || if settled().unwrap_or(self.graph.values[value].result) { Term::One } else { Term::Zero };
        Sum::of([(1.0, self.keep[block].get(value).copied().unwrap_or_else(constant))])
    }

    /// Adds a row: a sum is at most so much. None is added where that always holds.
    pub fn add_row(&mut self, sum: Sum, most: f64) {
        self.row(sum, most);
    }

    /// What the columns are called; with implementations where runs have several.
    pub fn named(&self, implementations: bool) -> Named {
        Named { meanings: self.meanings.clone(), implementations }
    }

    /// What a reader of the model needs to know, if columns are called so.
    pub fn facts(&self, implementations: bool) -> Vec<(&'static str, String)> {
        let columns = if implementations {
            "r_t_i_w: operator i of the order runs in stage t by implementation w; s_t_v: value v is kept into stage t; m_c: at \
             least the larger of two sums; u_t_i: memory in stage t while operator i runs, without what is there for that run only"
        } else {
            "R_t_i: operator i of the order runs in stage t; S_t_v: value v is kept into stage t; M_c: at least the larger of two \
             sums; U_t_i: memory in stage t while operator i runs, without what is there for that run only"
        };
        vec![
            ("formulation", "reduced, all memory rows".to_owned()),
            ("columns", columns.to_owned()),
            ("time of one unit of the objective", self.scale.time.to_string()),
            ("time not in the objective (each operator's first run, the fastest way)", self.fixed.to_string()),
            ("memory of one unit of u", self.scale.memory.to_string()),
        ]
    }
}

impl separation::Relaxation for Linear<'_> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn fixed_time(&self) -> u64 {
        self.fixed
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    fn complete(&mut self) {
        self.add_all();
    }

    fn memory_rows(&self) -> &[(usize, usize)] {
        &self.memory_rows
    }

    fn separate(&mut self, point: &[f64], pass: separation::Pass, times: usize) -> RowBlock {
        let (mut rows, stages) = self.violated(point, times);
        let first = self.model.rows.len();
        self.memory_rows.extend((first..).zip(stages));
        // Neighbourhoods have hardly any such rows.
        if pass == separation::Pass::Relaxed && self.settled.iter().all(Option::is_none) {
            let paths = paths::paths(self.graph);
            rows.append(&paths.violated(self.blocks.len(), |block| self.section(&paths, block), point, times));
        }
        if pass == separation::Pass::Whole && rows.is_empty() {
            rows = self.over_by_bytes(point);
        }
        self.model.rows.append(&rows);
        rows
    }
}

/// What the columns are called.
pub struct Named {
    meanings: Vec<Meaning>,
    implementations: bool,
}

impl Names for Named {
    fn column(&self, column: Column) -> String {
        let name = match self.meanings[column.index()] {
            Meaning::Run { stage, position, implementation } if self.implementations => {
                format!("r_{stage}_{position}_{implementation}")
            }
            Meaning::Run { stage, position, .. } => format!("r_{stage}_{position}"),
            Meaning::Keep { stage, value } => format!("s_{stage}_{value}"),
            Meaning::Largest => format!("m_{}", column.index()),
            Meaning::Memory { stage, position } => format!("u_{stage}_{position}"),
        };
        if self.implementations { name } else { name.to_uppercase() }
    }
}
