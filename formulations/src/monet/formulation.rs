//! MONeT's program as a model: columns, rows, and the memory rows that are in it so far.

use std::collections::BTreeSet;

use remat_solvers::{Column, Names, Row, RowBlock};

use crate::checkmate::term::Term;
use crate::monet::constraints;
use crate::monet::decisions::Decisions;
use crate::monet::layout::{Held, Layout};
use crate::monet::memory::{Place, memory, places};
use crate::monet::problem::Problem;
use crate::monet::separation::violated;

/// A model of a problem within a capacity.
pub struct Formulation<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Columns and rows.
    pub layout: Layout,
    /// Budget in the problem's unit.
    pub capacity: i64,
    present: BTreeSet<(usize, Place)>,
}

impl<'a> Formulation<'a> {
    /// The model without memory rows.
    pub fn new(problem: &'a Problem, capacity: i64) -> Self {
        let mut layout = Layout::new(problem, capacity);
        constraints::add(problem, &mut layout);
        Self { problem, layout, capacity, present: BTreeSet::new() }
    }

    /// Adds every memory row that can bind.
    pub fn add_all(&mut self) {
        for stage in 0..self.problem.stages.len() {
            for place in places(self.problem, &self.layout, stage) {
                self.add(stage, place);
            }
        }
    }

    /// Adds the rows of the backward operators and of the forward pass.
    pub fn add_first(&mut self) {
        for stage in 1..self.problem.stages.len() {
            self.add(stage, Place::Backward);
        }
        for place in places(self.problem, &self.layout, 0) {
            self.add(0, place);
        }
    }

    /// Adds the rows that a vector violates; how many.
    pub fn add_violated(&mut self, vector: &[f64]) -> usize {
        let found = violated(self.problem, &self.layout, vector, self.capacity as f64);
        found.into_iter().filter(|&(stage, place)| self.add(stage, place)).count()
    }

    /// Whether a vector is within the capacity everywhere.
    pub fn violates_nothing(&self, vector: &[f64]) -> bool {
        violated(self.problem, &self.layout, vector, self.capacity as f64).is_empty()
    }

    /// Adds a row unless it is there or cannot be violated; whether it did.
    fn add(&mut self, stage: usize, place: Place) -> bool {
        if !self.present.insert((stage, place)) {
            return false;
        }
        let Some(block) = self.row(stage, place) else { return false };
        self.layout.model.rows.append(&block);
        true
    }

    fn row(&self, stage: usize, place: Place) -> Option<RowBlock> {
        let sum = memory(self.problem, &self.layout, stage, place);
        let room = self.capacity as f64 - sum.constant;
        let most: f64 = sum.terms.iter().map(|&(_, factor)| factor.max(0.0)).sum();
        let unit = self.layout.scale.memory;
        let mut block = RowBlock::default();
        let scaled = sum.terms.into_iter().map(|(column, factor)| (column, factor / unit));
        block.push(f64::NEG_INFINITY, room / unit, scaled);
        (most > room).then_some(block)
    }

    /// What a vector keeps at or above a threshold.
    pub fn kept(&self, vector: &[f64], threshold: f64) -> Vec<Vec<bool>> {
        let row = |stage: usize| {
            let of = |node: usize| match self.layout.stages.get(stage) {
                Some(terms) => terms.kept[node],
                None => self.layout.end[node],
            };
            (0..self.problem.nodes.len()).map(|node| of(node).value(vector) >= threshold).collect::<Vec<bool>>()
        };
        (0..=self.problem.stages.len()).map(row).collect()
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
        for (stage, (terms, doing)) in self.layout.stages.iter().zip(&decisions.stages).enumerate() {
            let next = &decisions.kept[stage + 1];
            let runs = |node: usize| doing.runs.iter().find(|&&(at, _)| at == node).map(|&(_, way)| way);
            let target = |node: usize| {
                let over = doing.over.iter().filter_map(|&at| self.problem.nodes[at].over);
                over.into_iter().any(|over| over.node == node)
            };
            for node in 0..self.problem.nodes.len() {
                let way = runs(node);
                set(terms.kept[node], decisions.kept[stage][node]);
                set(terms.run[node], way.is_some());
                set(terms.over[node], doing.over.contains(&node));
                if terms.present[node] != terms.run[node] {
                    set(terms.present[node], way.is_some() && !target(node));
                }
                if terms.ways[node].len() > 1 {
                    terms.ways[node].iter().enumerate().for_each(|(at, &term)| set(term, way == Some(at)));
                }
            }
            let Some((variant, way)) = doing.backward else { continue };
            for (at, &term) in terms.variant.iter().enumerate() {
                set(term, at == variant);
                if terms.backward[at].len() > 1 {
                    let ways = terms.backward[at].iter().enumerate();
                    ways.for_each(|(other, &term)| set(term, at == variant && other == way));
                }
            }
            let reads = &self.problem.stages[stage].variants[variant].reads;
            for &(node, held) in &terms.held {
                if let Held::Term(term) = held {
                    set(term, reads.contains(&node) && !next[node]);
                }
            }
        }
        vector
    }
}

impl Names for Formulation<'_> {
    fn column(&self, column: Column) -> String {
        for (stage, terms) in self.layout.stages.iter().enumerate() {
            let families = [("r", &terms.run), ("s", &terms.kept), ("q", &terms.over), ("p", &terms.present)];
            for (letter, family) in families {
                if let Some(node) = family.iter().position(|&term| term == Term::Column(column)) {
                    return format!("{letter}_{stage}_{node}");
                }
            }
        }
        format!("x{}", column.index())
    }

    fn row(&self, row: Row) -> String {
        format!("c{}", row.index())
    }
}
