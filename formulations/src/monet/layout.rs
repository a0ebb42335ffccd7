//! The columns of MONeT's program, and which of them are constants.
//!
//! What cannot be of use is 0 from the beginning: a node after the last stage that can read it, a backward
//! variant that the operator lacks, a second run of what must not run again. Everything is a [`Term`].

use remat_solvers::{Kind, Model};

use crate::checkmate::term::{Scale, Sum, Term};
use crate::monet::problem::Problem;

/// The columns of one stage.
#[derive(Clone, Debug)]
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
    /// Every term with its cost in the problem's unit; constants included.
    pub objective: Sum,
}

impl Layout {
    /// Makes the columns.
    pub fn new(problem: &Problem, largest: i64) -> Self {
        let longest = problem.nodes.iter().flat_map(|node| &node.again).map(|way| way.time).max().unwrap_or(1);
        let scale = Scale::new(largest.max(1).unsigned_abs(), longest.max(1).unsigned_abs());
        let (stages, end) = (Vec::with_capacity(problem.stages.len()), vec![Term::Zero; problem.nodes.len()]);
        let mut layout = Self { stages, end, model: Model::default(), scale, objective: Sum::default() };
        for stage in 0..problem.stages.len() {
            let terms = layout.stage(problem, stage);
            layout.stages.push(terms);
        }
        // What the last stage reads without running it is kept beyond it, as after any other.
        layout.end = (0..problem.nodes.len()).map(|node| layout.kept(problem, problem.stages.len(), node)).collect();
        layout.model.offset = layout.time(layout.objective.constant);
        layout
    }

    fn time(&self, time: f64) -> f64 {
        time / self.scale.time
    }

    fn column(&mut self, cost: i64, kind: Kind) -> Term {
        let scaled = self.time(cost as f64);
        let term = Term::Column(self.model.column(0.0, 1.0, scaled, kind));
        self.objective.add(cost as f64, term);
        term
    }

    fn cost(&mut self, cost: i64, term: Term) {
        self.objective.add(cost as f64, term);
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

    fn stage(&mut self, problem: &Problem, stage: usize) -> StageTerms {
        let count = problem.nodes.len();
        let kept = (0..count).map(|node| self.kept(problem, stage, node)).collect();
        let run: Vec<Term> = (0..count).map(|node| self.run(problem, stage, node)).collect();
        let mut ways = Vec::with_capacity(count);
        let mut over = Vec::with_capacity(count);
        for (node, &runs) in run.iter().enumerate() {
            let costs: Vec<i64> = problem.ways(stage, node).iter().map(|way| way.time).collect();
            ways.push(self.choice(runs, &costs));
            let in_place = problem.nodes[node].over.filter(|_| runs != Term::Zero);
            over.push(in_place.map_or(Term::Zero, |over| self.column(over.time, Kind::Integer)));
        }
        let mut present = run.clone();
        for node in (0..count).filter(|&node| over[node] != Term::Zero && problem.nodes[node].parent.is_none()) {
            let target = problem.nodes[node].over.expect("only such nodes have a term").node;
            if present[target] == run[target] && run[target] != Term::Zero {
                present[target] = self.column(0, Kind::Continuous);
            }
        }
        let variants = &problem.stages[stage].variants;
        let variant = match variants.len() {
            1 => vec![Term::One],
            number => (0..number).map(|_| self.column(0, Kind::Integer)).collect(),
        };
        let mut backward = Vec::with_capacity(variants.len());
        for (at, &chosen) in variant.iter().enumerate() {
            let costs: Vec<i64> = variants[at].ways.iter().map(|way| way.time).collect();
            backward.push(self.choice(chosen, &costs));
        }
        let reads = problem.stages[stage].reads();
        let held = reads.into_iter().map(|node| {
            let all = variants.iter().all(|variant| variant.reads.contains(&node));
            (node, if all { Held::Always } else { Held::Term(self.column(0, Kind::Continuous)) })
        });
        let held = held.collect();
        StageTerms { run, ways, over, present, kept, variant, backward, held }
    }

    fn kept(&mut self, problem: &Problem, stage: usize, at: usize) -> Term {
        let node = &problem.nodes[at];
        if stage == 0 {
            return Term::Zero;
        }
        if node.result {
            return Term::One;
        }
        // What must not run again is kept as long as it can be of use.
        if stage <= node.last && node.again.is_empty() && node.parent.is_none() {
            return Term::One;
        }
        // Read in stage `last` without being run there, it is kept into the stage after.
        if stage > node.last + 1 || node.last == 0 { Term::Zero } else { self.column(0, Kind::Integer) }
    }

    fn run(&mut self, problem: &Problem, stage: usize, at: usize) -> Term {
        let node = &problem.nodes[at];
        if stage == 0 && problem.must_run(at) {
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
