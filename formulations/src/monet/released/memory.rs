//! The memory rows of MONeT's program: while a stage passes a node, while it runs one, and while the
//! backward operator runs. Each is a function of stage and node that gives a sum over columns; the values
//! of all of them in a vector come from prefix sums, in O(nodes) per stage and node.

use crate::monet::released::coarse;
use crate::monet::released::layout::{Held, Layout};
use crate::monet::released::problem::Problem;
use crate::search::term::{Sum, Term};

/// A memory row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Equation 13: checkpoints and what the backward operator needs, at a node that may not run.
    Passing(usize),
    /// Equations 1, 3, 6, 11 and 12: a node runs.
    Running(usize),
    /// Equations 2, 5 and 10: the backward operator runs.
    Backward,
}

/// Memory at a place of a stage, in the problem's unit.
pub fn memory(problem: &Problem, layout: &Layout, stage: usize, place: Place) -> Sum {
    let block = layout.block_of(stage);
    if let Some(span) = &layout.spans[block] {
        return coarse::memory(problem, layout, span, stage, place);
    }
    let mut sum = match place {
        Place::Passing(node) => passing(problem, layout, stage, node),
        Place::Running(node) => running(problem, layout, stage, node),
        Place::Backward => backward(problem, layout, stage),
    };
    sum.merge();
    sum
}

/// Every place of a stage where memory can bind.
pub fn places(problem: &Problem, layout: &Layout, stage: usize) -> Vec<Place> {
    if layout.settled[stage] {
        return Vec::new();
    }
    if layout.spans[layout.block_of(stage)].is_some() {
        return coarse::places(layout, stage);
    }
    let mut places = Vec::new();
    for node in 0..problem.nodes.len() {
        places.push(Place::Passing(node));
        if layout.stages[stage].run[node] != Term::Zero {
            places.push(Place::Running(node));
        }
    }
    if stage > 0 {
        places.push(Place::Backward);
    }
    places
}

/// What the backward operator reads although it is not kept: read and not kept.
fn add_held(sum: &mut Sum, bytes: f64, held: Held, next: Term) {
    match held {
        Held::Always => {
            sum.constant += bytes;
            sum.add(-bytes, next);
        }
        Held::Term(term) => sum.add(bytes, term),
    }
}

fn bytes(problem: &Problem, node: usize) -> f64 {
    problem.nodes[node].bytes as f64
}

/// The forward pass keeps what the loss reads.
fn loss_reads(problem: &Problem, stage: usize) -> Vec<usize> {
    let last = problem.nodes.last().filter(|_| stage == 0);
    last.map_or_else(Vec::new, |loss| loss.inputs.clone())
}

/// What is held for the backward operator before a node is reached.
fn held_before(problem: &Problem, layout: &Layout, stage: usize, node: usize, sum: &mut Sum) {
    let terms = &layout.stages[stage];
    for &(read, held) in terms.held.iter().filter(|&&(read, _)| read < node) {
        add_held(sum, bytes(problem, read), held, layout.next_kept(stage, read));
    }
    for read in loss_reads(problem, stage).into_iter().filter(|&read| read < node) {
        add_held(sum, bytes(problem, read), Held::Always, layout.next_kept(stage, read));
    }
}

/// Equation 13.
fn passing(problem: &Problem, layout: &Layout, stage: usize, node: usize) -> Sum {
    let terms = &layout.stages[stage];
    let mut sum = Sum { constant: problem.stages[stage].before as f64, ..Sum::default() };
    for at in 0..problem.nodes.len() {
        let kept = if at < node { layout.next_kept(stage, at) } else { terms.kept[at] };
        sum.add(bytes(problem, at), kept);
    }
    held_before(problem, layout, stage, node, &mut sum);
    sum
}

/// Equation 12: with the local set as a constant bound (Appendix B), workspaces by implementation and
/// in-place as a difference; what is held counts even where it is local.
fn running(problem: &Problem, layout: &Layout, stage: usize, node: usize) -> Sum {
    let terms = &layout.stages[stage];
    let local = &problem.local[node];
    let mut sum = Sum { constant: problem.stages[stage].before as f64, ..Sum::default() };
    let own = bytes(problem, node) + local.iter().map(|&at| bytes(problem, at)).sum::<f64>();
    sum.add(own, terms.run[node]);
    for (way, &term) in problem.ways(stage, node).iter().zip(&terms.ways[node]) {
        sum.add(way.beside as f64, term);
    }
    if let Some(over) = problem.over(stage, node) {
        sum.add(over.beside as f64, terms.over[node]);
    }
    for at in (0..problem.nodes.len()).filter(|&at| at != node && !local.contains(&at)) {
        let kept = if at < node { layout.next_kept(stage, at) } else { terms.kept[at] };
        sum.add(bytes(problem, at), kept);
    }
    held_before(problem, layout, stage, node, &mut sum);
    sum
}

/// Equations 5 and 10.
fn backward(problem: &Problem, layout: &Layout, stage: usize) -> Sum {
    let terms = &layout.stages[stage];
    let mut sum = Sum { constant: problem.stages[stage].during as f64, ..Sum::default() };
    for (variant, ways) in problem.stages[stage].variants.iter().zip(&terms.backward) {
        for (way, &term) in variant.ways.iter().zip(ways) {
            sum.add(way.beside as f64, term);
        }
    }
    for at in 0..problem.nodes.len() {
        sum.add(bytes(problem, at), layout.next_kept(stage, at));
    }
    for &(read, held) in &terms.held {
        add_held(&mut sum, bytes(problem, read), held, layout.next_kept(stage, read));
    }
    sum
}
