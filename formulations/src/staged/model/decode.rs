//! Points of the linear model and schedules: the point of a schedule, and what a point comes to.

use super::{Linear, Run};
use crate::search::blocks::Block;
use crate::search::incumbent::Kept;
use crate::search::term::Term;
use crate::staged::graph::Way;

impl<'a> Linear<'a> {
    /// Stages with which blocks begin, and the end.
    pub fn starts(&self) -> Vec<usize> {
        self.blocks.iter().map(|block| block.first).chain([self.graph.len()]).collect()
    }

    /// The point of a schedule, of what it runs by stage, and keeps into each of [`Self::starts`].
    pub fn point<R: IntoIterator<Item = Run>>(&self, runs: impl Fn(usize) -> R, kept: &[&[bool]]) -> Vec<f64> {
        let mut point = vec![0.0; self.model.columns()];
        let mut set = |term: Term| {
            if let Term::Column(column) = term {
                point[column.index()] = 1.0;
            }
        };
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            for stage in first..=last {
                for (position, way) in runs(stage) {
                    let terms =
                        if position == stage { Some(&self.own[stage]) } else { self.again[block].get(position) };
                    terms.and_then(|terms| terms.get(way)).copied().into_iter().for_each(&mut set);
                }
            }
        }
        for (keep, kept) in self.keep.iter().zip(kept) {
            keep.iter().zip(*kept).filter(|(_, kept)| **kept).for_each(|(&term, _)| set(term));
        }
        for (column, sums) in &self.largest {
            point[column.index()] = sums.iter().map(|sum| sum.value(&point)).fold(0.0, f64::max);
        }
        self.measure(&mut point);
        point
    }

    /// By stage, what runs by a point over single stages; none of one over longer blocks.
    pub fn runs(&self, point: &[f64]) -> Option<Vec<Vec<Run>>> {
        let stage = |stage: usize| {
            if let Some(settled) = &self.settled[stage] {
                return settled.runs.clone();
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
        (self.blocks.len() == self.graph.len()).then(|| (0..self.graph.len()).map(stage).collect())
    }

    /// What a point keeps: within a block what is kept into it stays until its last use there, and what runs again does
    /// so at its first use.
    pub fn kept(&self, point: &[f64]) -> Kept {
        let graph = self.graph;
        let whole = |term: Term| term.value(point) >= 0.5;
        let mut kept = vec![vec![false; graph.values.len()]; graph.len() + 1];
        for (block, &Block { first, last }) in self.blocks.iter().enumerate() {
            if let Some(settled) = &self.settled[first] {
                kept[first].clone_from(&settled.kept);
                continue;
            }
            let into: Vec<bool> = self.keep[block].iter().map(|&term| whole(term)).collect();
            if first == last {
                kept[first] = into;
                continue;
            }
            let remade: Vec<bool> =
                (0..graph.values.len()).map(|at| self.remade(block, at).value(point) >= 0.5).collect();
            let needs = self.needs(block, point, &remade);
            // An operator runs again for the first need of anything that it makes and that is not kept.
            let run_at = |position: usize| {
                let missing = graph.operators[position].makes.iter().filter(|&&at| remade[at] && !into[at]);
                missing.map(|&at| needs[at].0).min().unwrap_or(last)
            };
            for (at, value) in graph.values.iter().enumerate() {
                let next = whole(self.keep[block + 1][at]);
                let mut until = if next { last } else { needs[at].1.min(last) };
                let from = match (into[at], remade[at]) {
                    (true, true) if graph.operators[value.producer].makes.len() == 1 => {
                        // Used, dropped, and made again: for the next block, or where it is last read.
                        until = needs[at].0.min(until);
                        first
                    }
                    (true, _) => first,
                    (false, true) => run_at(value.producer).max(value.producer) + 1,
                    (false, false) => value.producer.max(first) + 1,
                };
                kept.iter_mut().take(until + 1).skip(from).for_each(|row| row[at] = true);
                kept[first][at] |= into[at];
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
