//! Points of the linear model and schedules: the point of a schedule, and what a point comes to.

use crate::monet::graph::Way;
use crate::monet::model::Linear;
use crate::monet::plan::{Plan, Run};
use crate::search::blocks::Block;
use crate::search::incumbent::Kept;
use crate::search::term::Term;

impl<'a> Linear<'a> {
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
