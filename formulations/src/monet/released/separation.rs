//! Which memory rows a vector violates: all places of a stage in one pass over its nodes.

use crate::monet::released::coarse;
use crate::monet::released::layout::{Held, Layout};
use crate::monet::released::memory::Place;
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
use crate::search::term::Term;

/// Which runs of a vector take memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// As much of each as the vector says.
    AsSaid,
    /// All that may be, one at a time, in what takes the least workspace at least.
    All,
}

/// Memory at every place of a stage that is a block of its own, in a vector, in the problem's unit.
fn values(problem: &Problem, layout: &Layout, stage: usize, vector: &[f64], runs: Runs) -> Vec<(usize, Place, f64)> {
    let terms = &layout.stages[stage];
    let count = problem.nodes.len();
    let bytes = |at: usize| problem.nodes[at].bytes as f64;
    let now: Vec<f64> = (0..count).map(|at| bytes(at) * terms.kept[at].value(vector)).collect();
    let next: Vec<f64> = (0..count).map(|at| bytes(at) * layout.next_kept(stage, at).value(vector)).collect();
    let mut held = vec![0.0; count];
    for &(read, term) in &terms.held {
        held[read] = match term {
            Held::Always => bytes(read) - next[read],
            Held::Term(term) => bytes(read) * term.value(vector),
        };
    }
    let mut found = Vec::with_capacity(2 * count + 1);
    let (mut before, mut after) = (problem.stages[stage].before as f64, now.iter().sum::<f64>());
    let loss_reads = problem.nodes.last().filter(|_| stage == 0).map_or(&[][..], |loss| &loss.inputs);
    for at in 0..count {
        found.push((stage, Place::Passing(at), before + after));
        after -= now[at];
        let all = runs == Runs::All && terms.run[at] != Term::Zero;
        let run = if all { 1.0 } else { terms.run[at].value(vector) };
        if run > 0.0 {
            let mut memory = before + after + run * bytes(at);
            for &local in &problem.local[at] {
                memory += run * bytes(local) - next[local];
            }
            let ways = problem.ways(stage, at);
            let terms_of = ways.iter().zip(&terms.ways[at]);
            let beside: f64 = terms_of.map(|(way, term)| way.beside as f64 * term.value(vector)).sum();
            let least = ways.iter().map(|way| way.beside).min().filter(|_| all).unwrap_or(0);
            memory += beside.max(least as f64);
            if let Some(over) = problem.over(stage, at) {
                memory += over.beside as f64 * terms.over[at].value(vector);
            }
            found.push((stage, Place::Running(at), memory));
        }
        before += next[at] + held[at];
        if loss_reads.contains(&at) {
            before += bytes(at) - next[at];
        }
    }
    if stage > 0 {
        let mut memory = before - problem.stages[stage].before as f64 + problem.stages[stage].during as f64;
        for (variant, ways) in problem.stages[stage].variants.iter().zip(&terms.backward) {
            for (way, term) in variant.ways.iter().zip(ways) {
                memory += way.beside as f64 * term.value(vector);
            }
        }
        found.push((stage, Place::Backward, memory));
    }
    found
}

/// The places whose memory exceeds the stage's capacity by more than a part in a million, with their stages and
/// by how much.
pub fn violated(
    problem: &Problem,
    layout: &Layout,
    vector: &[f64],
    capacity: impl Fn(usize) -> f64,
    runs: Runs,
) -> Vec<(usize, Place, f64)> {
    let mut found = Vec::new();
    for (at, &Block { first, .. }) in layout.blocks.iter().enumerate() {
        let all = match () {
            () if layout.spans[at].is_some() => coarse::values(problem, layout, at, vector),
            () if layout.settled[first] => continue,
            () => values(problem, layout, first, vector, runs),
        };
        found.extend(all.into_iter().filter_map(|(stage, place, memory)| {
            let capacity = capacity(stage);
            (memory > capacity + capacity.max(1.0) * 1e-6).then_some((stage, place, memory - capacity))
        }));
    }
    found
}
