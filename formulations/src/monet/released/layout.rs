//! The columns of MONeT's program, and which of them are constants.
//!
//! What cannot be of use is 0 from the beginning: a node after the last stage that can read it, a backward
//! variant that the operator lacks, a second run of what must not run again. Everything is a [`Term`].

use remat_solvers::{Column, Kind, Model};

use crate::monet::released::coarse::Span;
use crate::monet::released::neighbourhood::Neighbourhood;
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
use crate::search::term::{Scale, Sum, Term};

/// The columns of one stage. Of a block of several stages (`coarse.rs`) the first has what is kept and what
/// runs, once for all; the others have the backward operator's choices only.
#[derive(Clone, Debug, Default)]
pub struct StageTerms {
    /// r: a node runs.
    pub run: Vec<Term>,
    /// Its ways, where there are several (the paper's delta); they sum to `run`.
    pub ways: Vec<Vec<Term>>,
    /// q: a node runs in place.
    pub over: Vec<Term>,
    /// p: what was computed in this stage and not overwritten; `run` where nothing overwrites it.
    pub present: Vec<Term>,
    /// s: a value is there when the stage begins.
    pub kept: Vec<Term>,
    /// The backward operator's variant.
    pub variant: Vec<Term>,
    /// Ways of each variant, where there are several.
    pub backward: Vec<Vec<Term>>,
    /// For each node that some variant reads: read, and not kept into the next stage.
    pub held: Vec<(usize, Held)>,
}

/// Whether a value that the backward operator may read is there although it is not kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Held {
    /// All variants read it: it is there unless it is kept, so that it is there in any case.
    Always,
    /// A column of its own: at least (the variants that read it) - (kept).
    Term(Term),
}

/// All columns, stage by stage, and the model that they are in.
#[derive(Clone, Debug)]
pub struct Layout {
    /// One entry per stage.
    pub stages: Vec<StageTerms>,
    /// Kept after the last stage: results, and what that stage may read.
    pub end: Vec<Term>,
    /// The model: columns and costs, no rows.
    pub model: Model,
    /// Divisors of memory and time.
    pub scale: Scale,
    /// For each block what it costs, in the problem's unit; constants included.
    pub costs: Vec<Sum>,
    /// The blocks of stages; of one stage each where the model is exact.
    pub blocks: Vec<Block>,
    /// For each block of several stages, what is there while it goes on.
    pub spans: Vec<Option<Span>>,
    /// Columns that are the largest of some sums and 0, in the order in which they depend on each other.
    pub largest_of: Vec<(Column, Vec<Sum>)>,
    /// For each stage, whether it is settled: without columns and rows, what it costs is a constant.
    pub settled: Vec<bool>,
}

impl Layout {
    /// Makes the columns of the model that is exact over single stages, and a relaxation over others
    /// (`coarse.rs`). Blocks cover all stages in order.
    pub fn new(problem: &Problem, largest: i64, blocks: Vec<Block>) -> Self {
        Self::within(problem, largest, blocks, &Neighbourhood::everything())
    }

    /// The same with what a neighbourhood does not leave open as constants; blocks are single stages unless it
    /// leaves everything open.
    pub fn within(problem: &Problem, largest: i64, blocks: Vec<Block>, open: &Neighbourhood<'_>) -> Self {
        let mut layout = Self::empty(problem, largest, blocks);
        for at in 0..layout.blocks.len() {
            let Block { first, last } = layout.blocks[at];
            layout.costs.push(Sum::default());
            for stage in first..=last {
                let mut terms = StageTerms::default();
                let settled = open.settled(stage);
                layout.settled.push(settled.is_some());
                if stage == first {
                    terms.kept = layout.kept_into(problem, stage, open);
                }
                if let Some(time) = settled {
                    layout.charge(time, Term::One);
                    layout.stages.push(terms);
                    continue;
                }
                if stage == first {
                    layout.forward(problem, stage, &mut terms, open);
                }
                layout.backward(problem, stage, &mut terms);
                if first == last {
                    layout.details(problem, stage, &mut terms);
                }
                layout.stages.push(terms);
            }
        }
        // What the last stage reads without running it is kept beyond it, as after any other.
        layout.end = layout.kept_into(problem, problem.stages.len(), open);
        layout.model.offset = layout.time(layout.costs.iter().map(|costs| costs.constant).sum());
        layout
    }

    fn empty(problem: &Problem, largest: i64, blocks: Vec<Block>) -> Self {
        let ways = problem.nodes.iter().flat_map(|node| node.first.iter().chain(&node.again));
        let backward = problem.stages.iter().flat_map(|stage| &stage.variants).flat_map(|variant| &variant.ways);
        let longest = ways.chain(backward).map(|way| way.time).max().unwrap_or(1);
        let scale = Scale::new(largest.max(1).unsigned_abs(), longest.max(1).unsigned_abs());
        let (stages, end) = (Vec::with_capacity(problem.stages.len()), vec![Term::Zero; problem.nodes.len()]);
        let (model, costs, largest_of) = (Model::default(), Vec::new(), Vec::new());
        let spans = vec![None; blocks.len()];
        Self { stages, end, model, scale, costs, blocks, spans, largest_of, settled: Vec::new() }
    }

    fn kept_into(&mut self, problem: &Problem, stage: usize, open: &Neighbourhood<'_>) -> Vec<Term> {
        let of = |node| match open.kept(stage, node).or_else(|| problem.forced(stage, node)) {
            Some(true) => Term::One,
            Some(false) => Term::Zero,
            None if open.joined(problem, stage, node) => self.stages[stage - 1].kept[node],
            None => self.column(0, Kind::Integer),
        };
        (0..problem.nodes.len()).map(of).collect()
    }

    fn time(&self, time: f64) -> f64 {
        time / self.scale.time
    }

    fn column(&mut self, cost: i64, kind: Kind) -> Term {
        let scaled = self.time(cost as f64);
        let term = Term::Column(self.model.column(0.0, 1.0, scaled, kind));
        self.charge(cost, term);
        term
    }

    /// Charges the block that is being made.
    fn charge(&mut self, cost: i64, term: Term) {
        if let Some(costs) = self.costs.last_mut() {
            costs.add(cost as f64, term);
        }
    }

    fn cost(&mut self, cost: i64, term: Term) {
        self.charge(cost, term);
        if let Term::Column(column) = term {
            self.model.costs[column.index()] += cost as f64 / self.scale.time;
        }
    }

    /// A choice that sums to a term: the term itself where there is one way.
    fn choice(&mut self, whole: Term, costs: &[i64]) -> Vec<Term> {
        match (whole, costs) {
            (Term::Zero, _) => vec![Term::Zero; costs.len()],
            (_, &[cost]) => {
                self.cost(cost, whole);
                vec![whole]
            }
            _ => costs.iter().map(|&cost| self.column(cost, Kind::Integer)).collect(),
        }
    }

    /// What runs.
    fn forward(&mut self, problem: &Problem, stage: usize, terms: &mut StageTerms, open: &Neighbourhood<'_>) {
        let run = |node| if open.may_run(stage, node) { self.run(problem, stage, node) } else { Term::Zero };
        terms.run = (0..problem.nodes.len()).map(run).collect();
        terms.present.clone_from(&terms.run);
        for (node, &runs) in terms.run.iter().enumerate() {
            let costs: Vec<i64> = problem.ways(stage, node).iter().map(|way| way.time).collect();
            terms.ways.push(self.choice(runs, &costs));
            let in_place = problem.over(stage, node).filter(|_| runs != Term::Zero);
            terms.over.push(in_place.map_or(Term::Zero, |over| self.column(over.time, Kind::Integer)));
        }
    }

    /// What the backward operator chooses.
    fn backward(&mut self, problem: &Problem, stage: usize, terms: &mut StageTerms) {
        let variants = &problem.stages[stage].variants;
        terms.variant = match variants.len() {
            1 => vec![Term::One],
            number => (0..number).map(|_| self.column(0, Kind::Integer)).collect(),
        };
        for (at, &chosen) in terms.variant.iter().enumerate() {
            let costs: Vec<i64> = variants[at].ways.iter().map(|way| way.time).collect();
            terms.backward.push(self.choice(chosen, &costs));
        }
    }

    /// What a stage of its own says beyond that: what is overwritten, and what is read without being kept.
    fn details(&mut self, problem: &Problem, stage: usize, terms: &mut StageTerms) {
        for (at, _) in problem.nodes.iter().enumerate().filter(|(_, node)| node.parent.is_none()) {
            let over = problem.over(stage, at).filter(|_| terms.over[at] != Term::Zero);
            let Some(target) = over.map(|over| over.node) else {
                continue;
            };
            if terms.present[target] == terms.run[target] && terms.run[target] != Term::Zero {
                terms.present[target] = self.column(0, Kind::Continuous);
            }
        }
        let variants = &problem.stages[stage].variants;
        for node in problem.stages[stage].reads() {
            let all = variants.iter().all(|variant| variant.reads.contains(&node));
            let held = if all { Held::Always } else { Held::Term(self.column(0, Kind::Continuous)) };
            terms.held.push((node, held));
        }
    }

    /// A new column that is the largest of some sums and 0; only their lower bounds are rows.
    pub fn largest(&mut self, model: &mut Model, of: Vec<Sum>) -> Sum {
        let column = model.column(0.0, 1.0, 0.0, Kind::Continuous);
        for sum in &of {
            let mut row = sum.clone();
            row.add(-1.0, Term::Column(column));
            row.at_most(model, 0.0);
        }
        self.largest_of.push((column, of));
        Sum::of([(1.0, Term::Column(column))])
    }

    /// The block of a stage, by position.
    pub fn block_of(&self, stage: usize) -> usize {
        self.blocks.partition_point(|block| block.last < stage)
    }

    fn run(&mut self, problem: &Problem, stage: usize, at: usize) -> Term {
        let node = &problem.nodes[at];
        if problem.must_run(stage, at) {
            return Term::One;
        }
        let useful = stage <= node.last && node.last > 0;
        if useful && !problem.ways(stage, at).is_empty() { self.column(0, Kind::Integer) } else { Term::Zero }
    }

    /// s of the next stage.
    pub fn next_kept(&self, stage: usize, node: usize) -> Term {
        self.stages.get(stage + 1).map_or(self.end[node], |next| next.kept[node])
    }
}
