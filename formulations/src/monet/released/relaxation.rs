//! MONeT's program as a linear model: columns, rows, and the memory rows that are in it so far.

use std::collections::{BTreeMap, BTreeSet};

use remat_solvers::{Model, RowBlock};

use crate::monet::released::constraints;
use crate::monet::released::decisions::Decisions;
use crate::monet::released::expand::expand;
use crate::monet::released::layout::{Held, Layout};
use crate::monet::released::memory::{Place, Runs, memory, places, violated};
use crate::monet::released::neighbourhood::Neighbourhood;
use crate::monet::released::paths::{paths, section};
use crate::monet::released::problem::Problem;
use crate::search::blocks::{Block, singles};
use crate::search::separation::{Pass, Relaxation};
use crate::search::term::{Scale, Term};

/// So many rows of either kind that a relaxation violates are taken from a block at a time.
const ALIKE: usize = 3;
/// Rows with less room than this part of the capacity, if all ran that may, are given to branch and bound.
const NEAR: f64 = 0.2;
/// Stages times nodes squared, about the terms of all memory rows, up to which branch and bound gets all.
const ALL_ROWS: usize = 600_000;
/// Stages times nodes up to which the exact model is within reach.
const SMALL: usize = 20_000;

/// What a model is of; it decides which rows are added together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Blocks of stages.
    Blocks,
    /// What is open in a neighbourhood.
    Neighbourhood,
    /// Everything, stage by stage.
    Exact,
}

/// A model of a problem within a capacity.
pub struct Linear<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Columns and rows.
    pub layout: Layout,
    /// Budget in the problem's unit.
    pub capacity: i64,
    /// By stage, what its rows leave free of the capacity; 0 but in heuristics.
    pub margin: Vec<i64>,
    scope: Scope,
    present: BTreeSet<(usize, Place)>,
    /// Memory rows of the model, and the stage of each.
    memory_rows: Vec<(usize, usize)>,
}

impl<'a> Linear<'a> {
    /// The exact model without memory rows.
    pub fn new(problem: &'a Problem, capacity: i64) -> Self {
        Self::of(problem, capacity, Layout::new(problem, capacity, singles(problem.stages.len())), Scope::Exact)
    }

    /// The model over blocks of stages, without memory rows.
    pub fn coarse(problem: &'a Problem, capacity: i64, blocks: Vec<Block>) -> Self {
        Self::of(problem, capacity, Layout::new(problem, capacity, blocks), Scope::Blocks)
    }

    /// The exact model of a neighbourhood, without memory rows: what that does not leave open is constant.
    pub fn within(problem: &'a Problem, capacity: i64, open: &Neighbourhood<'_>) -> Self {
        let layout = Layout::within(problem, capacity, singles(problem.stages.len()), open);
        Self::of(problem, capacity, layout, Scope::Neighbourhood)
    }

    fn of(problem: &'a Problem, capacity: i64, mut layout: Layout, scope: Scope) -> Self {
        constraints::add(problem, &mut layout);
        let margin = vec![0; problem.stages.len()];
        Self { problem, layout, capacity, margin, scope, present: BTreeSet::new(), memory_rows: Vec::new() }
    }

    /// Adds the rows of another model of the same problem that mean the same here: those of equal blocks.
    pub fn add_known(&mut self, other: &Self) {
        let equal: BTreeSet<usize> = other
            .layout
            .blocks
            .iter()
            .filter(|block| self.layout.blocks.contains(block))
            .map(|block| block.first)
            .collect();
        for &(stage, place) in &other.present {
            let block = self.layout.blocks[self.layout.block_of(stage)];
            if equal.contains(&block.first) || place == Place::Backward {
                self.add(stage, place);
            }
        }
    }

    /// Adds every memory row that can bind.
    pub fn add_all(&mut self) {
        for stage in 0..self.problem.stages.len() {
            for place in places(self.problem, &self.layout, stage) {
                self.add(stage, place);
            }
        }
    }

    /// Adds all memory rows where they are not too many for branch and bound, else those that are violated first.
    pub fn add_usual(&mut self) {
        let nodes = self.problem.nodes.len();
        if self.problem.stages.len() * nodes * nodes <= ALL_ROWS { self.add_all() } else { self.add_first() }
    }

    /// Adds the rows of the backward operators and of the forward pass.
    fn add_first(&mut self) {
        for stage in 1..self.problem.stages.len() {
            self.add(stage, Place::Backward);
        }
        for place in places(self.problem, &self.layout, 0) {
            self.add(0, place);
        }
    }

    /// Adds the rows that a vector violates, or would nearly if all ran that may: with less room than a part of the
    /// capacity; how many.
    fn add_near(&mut self, vector: &[f64], part: f64) -> usize {
        let most = self.capacity as f64 * (1.0 - part);
        let found = violated(self.problem, &self.layout, vector, |stage| most - self.margin[stage] as f64, Runs::All);
        found.into_iter().filter(|&(stage, place, _)| self.add(stage, place)).count()
    }

    /// Adds of the rows that a vector violates the worst of each kind in every block; how many.
    fn add_worst(&mut self, vector: &[f64], alike: usize) -> usize {
        let mut found = self.violated(vector);
        found.sort_by(|left, right| right.2.total_cmp(&left.2));
        // Rows of one block are much alike: the worst of each kind will do.
        let mut taken: BTreeMap<(usize, bool), usize> = BTreeMap::new();
        found.retain(|&(stage, place, _)| {
            let block = self.layout.block_of(stage);
            let count = taken.entry((block, place == Place::Backward)).or_default();
            *count += 1;
            *count <= alike
        });
        found.into_iter().filter(|&(stage, place, _)| self.add(stage, place)).count()
    }

    fn violated(&self, vector: &[f64]) -> Vec<(usize, Place, f64)> {
        violated(self.problem, &self.layout, vector, |stage| (self.capacity - self.margin[stage]) as f64, Runs::AsSaid)
    }

    /// Adds a row unless it is there or cannot be violated; whether it did.
    fn add(&mut self, stage: usize, place: Place) -> bool {
        if !self.present.insert((stage, place)) {
            return false;
        }
        let Some(block) = self.row(stage, place) else { return false };
        self.memory_rows.push((self.layout.model.rows.len(), stage));
        self.layout.model.rows.append(&block);
        true
    }

    /// Whether some row holds for no values of the columns: nothing is within the capacity.
    pub fn has_hopeless_row(&self) -> bool {
        self.layout.model.rows.has_hopeless()
    }

    /// The rows from a position on.
    fn rows_from(&self, position: usize) -> RowBlock {
        let rows = &self.layout.model.rows;
        let mut block = RowBlock::default();
        for row in position..rows.len() {
            block.push(rows.lower[row], rows.upper[row], rows.terms(row));
        }
        block
    }

    fn row(&self, stage: usize, place: Place) -> Option<RowBlock> {
        let sum = memory(self.problem, &self.layout, stage, place);
        let room = (self.capacity - self.margin[stage]) as f64 - sum.constant;
        let most: f64 = sum.terms.iter().map(|&(_, factor)| factor.max(0.0)).sum();
        let unit = self.layout.scale.memory;
        let mut block = RowBlock::default();
        let scaled = sum.terms.into_iter().map(|(column, factor)| (column, factor / unit));
        block.push(f64::NEG_INFINITY, room / unit, scaled);
        (most > room).then_some(block)
    }

    /// What a vector keeps at or above a threshold; within a block of several stages, what that comes to.
    pub fn kept(&self, vector: &[f64], threshold: f64) -> Vec<Vec<bool>> {
        let count = self.problem.nodes.len();
        let mut kept = Vec::with_capacity(self.problem.stages.len() + 1);
        for &block in &self.layout.blocks {
            if block.first == block.last {
                let terms = &self.layout.stages[block.first].kept;
                kept.push(terms.iter().map(|term| term.value(vector) >= threshold).collect::<Vec<bool>>());
            } else {
                kept.extend(expand(self.problem, &self.layout, block, vector, threshold));
            }
        }
        kept.push((0..count).map(|node| self.layout.end[node].value(vector) >= threshold).collect());
        kept
    }

    /// The vector of some decisions.
    pub fn vector(&self, decisions: &Decisions) -> Vec<f64> {
        let mut vector = vec![0.0; self.layout.model.columns()];
        let mut set = |term: Term, value: bool| {
            if let Term::Column(column) = term {
                vector[column.index()] = f64::from(value);
            }
        };
        for (&term, &kept) in self.layout.end.iter().zip(&decisions.kept[self.problem.stages.len()]) {
            set(term, kept);
        }
        for (at, &block) in self.layout.blocks.iter().enumerate().filter(|(_, block)| !self.layout.settled[block.first])
        {
            let single = self.layout.spans[at].is_none();
            self.runs(decisions, block, &mut set);
            for stage in block.first..=block.last {
                self.backward(decisions, stage, &mut set);
            }
            if single {
                self.details(decisions, block.first, &mut set);
            }
        }
        for (column, sums) in &self.layout.largest_of {
            vector[column.index()] = sums.iter().map(|sum| sum.value(&vector)).fold(0.0, f64::max);
        }
        vector
    }

    /// What is kept into a block, and the first run of each node in it.
    fn runs(&self, decisions: &Decisions, block: Block, set: &mut impl FnMut(Term, bool)) {
        let terms = &self.layout.stages[block.first];
        for node in 0..self.problem.nodes.len() {
            let mut plans = decisions.stages[block.first..=block.last].iter();
            let first = plans.find_map(|plan| plan.runs.iter().find(|run| run.0 == node).map(|run| (plan, run.1)));
            set(terms.kept[node], decisions.kept[block.first][node]);
            set(terms.run[node], first.is_some());
            set(terms.over[node], first.is_some_and(|(plan, _)| plan.over.contains(&node)));
            if terms.ways[node].len() > 1 {
                let ways = terms.ways[node].iter().enumerate();
                ways.for_each(|(at, &term)| set(term, first.is_some_and(|(_, way)| way == at)));
            }
        }
    }

    /// What a backward operator chooses.
    fn backward(&self, decisions: &Decisions, stage: usize, set: &mut impl FnMut(Term, bool)) {
        let terms = &self.layout.stages[stage];
        let Some((variant, way)) = decisions.stages[stage].backward else { return };
        for (at, &term) in terms.variant.iter().enumerate() {
            set(term, at == variant);
            if terms.backward[at].len() > 1 {
                let ways = terms.backward[at].iter().enumerate();
                ways.for_each(|(other, &term)| set(term, at == variant && other == way));
            }
        }
    }

    /// What is there after the runs of a stage of its own, and what is held for its backward operator.
    fn details(&self, decisions: &Decisions, stage: usize, set: &mut impl FnMut(Term, bool)) {
        let (terms, plan) = (&self.layout.stages[stage], &decisions.stages[stage]);
        let target = |node: usize| {
            let mut over = plan.over.iter().filter_map(|&at| self.problem.over(stage, at));
            over.any(|over| over.node == node)
        };
        for node in 0..self.problem.nodes.len() {
            if terms.present[node] != terms.run[node] {
                set(terms.present[node], plan.runs.iter().any(|run| run.0 == node) && !target(node));
            }
        }
        let Some((variant, _)) = plan.backward else { return };
        let reads = &self.problem.stages[stage].variants[variant].reads;
        for &(node, held) in &terms.held {
            if let Held::Term(term) = held {
                set(term, reads.contains(&node) && !decisions.kept[stage + 1][node]);
            }
        }
    }
}

/// Whether the exact model of a problem is within reach.
pub fn is_small(problem: &Problem) -> bool {
    problem.stages.len() * problem.nodes.len() <= SMALL
}

impl Relaxation for Linear<'_> {
    fn model(&self) -> &Model {
        &self.layout.model
    }

    fn fixed_time(&self) -> u64 {
        0
    }

    fn scale(&self) -> Scale {
        self.layout.scale
    }

    fn complete(&mut self) {
        self.add_all();
    }

    fn memory_rows(&self) -> &[(usize, usize)] {
        &self.memory_rows
    }

    fn separate(&mut self, point: &[f64], pass: Pass, times: usize) -> RowBlock {
        let before = self.layout.model.rows.len();
        let alike = match (self.scope, pass) {
            (Scope::Blocks, _) | (Scope::Neighbourhood, Pass::Relaxed) => ALIKE * times,
            _ => usize::MAX,
        };
        let violated = self.add_worst(point, alike);
        // Each whole solve may take a second, and seldom is it the last where these rows are not there.
        let near = match pass {
            Pass::Whole => violated > 0,
            Pass::Relaxed => violated == 0 && is_small(self.problem),
        };
        if self.scope == Scope::Neighbourhood && near {
            self.add_near(point, NEAR);
        }
        // Neighbourhoods have hardly any rows of paths.
        if pass == Pass::Relaxed && self.scope != Scope::Neighbourhood {
            let blocks = &self.layout.blocks;
            let section = |block: usize| section(self.problem, &self.layout, blocks[block]);
            let rows = paths(self.problem).violated(blocks.len(), section, point, times);
            self.layout.model.rows.append(&rows);
        }
        self.rows_from(before)
    }
}
