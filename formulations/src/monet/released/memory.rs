//! The memory rows of MONeT's program: while a stage passes a node, while it runs one, and while the
//! backward operator runs. Each is a sum over columns; which of them a vector violates is found in one pass over the nodes.

use crate::monet::released::coarse;
use crate::monet::released::layout::{Held, Layout};
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
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

impl Place {
    /// Its place in the order of a stage.
    fn index(self, nodes: usize) -> usize {
        match self {
            Self::Passing(node) => 2 * node,
            Self::Running(node) => 2 * node + 1,
            Self::Backward => 2 * nodes,
        }
    }
}

/// Which runs of a vector take memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// As much of each as the vector says.
    AsSaid,
    /// All that may be, one at a time, in what takes the least workspace at least.
    All,
}

/// Memory at a place of a stage, in the problem's unit.
pub fn memory(problem: &Problem, layout: &Layout, stage: usize, place: Place) -> Sum {
    let block = layout.block_of(stage);
    if let Some(span) = &layout.spans[block] {
        return coarse::memory(problem, layout, span, stage, place);
    }
    let index = place.index(problem.nodes.len());
    let mut sum = own(problem, layout, stage, place);
    for piece in pieces(problem, layout, stage).iter().filter(|piece| (piece.from..piece.until).contains(&index)) {
        sum.constant += piece.there.constant;
        sum.terms.extend(&piece.there.terms);
    }
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

/// Memory from one place on until before another.
struct Piece {
    from: usize,
    until: usize,
    there: Sum,
}

fn bytes(problem: &Problem, node: usize) -> f64 {
    problem.nodes[node].bytes as f64
}

/// What is there in a stage of its own whatever runs (equations 10 and 13): what is kept into it up to its node, what is kept
/// on or held for the backward operator after that, in the forward pass also what the loss reads.
fn pieces(problem: &Problem, layout: &Layout, stage: usize) -> Vec<Piece> {
    let terms = &layout.stages[stage];
    let nodes = problem.nodes.len();
    let end = Place::Backward.index(nodes);
    let always = Sum { constant: problem.stages[stage].before as f64, ..Sum::default() };
    let mut pieces = vec![Piece { from: 0, until: end, there: always }];
    let mut add = |from, until, sum: &[(f64, Term)]| {
        pieces.push(Piece { from, until, there: Sum::of(sum.iter().copied()) });
    };
    let after = |node| Place::Passing(node + 1).index(nodes);
    for node in 0..nodes {
        add(0, Place::Running(node).index(nodes), &[(bytes(problem, node), terms.kept[node])]);
        add(after(node), end + 1, &[(bytes(problem, node), layout.next_kept(stage, node))]);
    }
    // There in any case: read and not kept, beside kept.
    let read = |node| [(bytes(problem, node), Term::One), (-bytes(problem, node), layout.next_kept(stage, node))];
    for &(node, held) in &terms.held {
        match held {
            Held::Always => add(after(node), end + 1, &read(node)),
            Held::Term(term) => add(after(node), end + 1, &[(bytes(problem, node), term)]),
        }
    }
    for &node in problem.nodes.last().filter(|_| stage == 0).map_or(&[][..], |loss| &loss.inputs) {
        add(after(node), end, &read(node));
    }
    pieces
}

/// What a run needs with its local set, a constant bound (Appendix B).
fn local_bytes(problem: &Problem, node: usize) -> f64 {
    bytes(problem, node) + problem.local[node].iter().map(|&local| bytes(problem, local)).sum::<f64>()
}

/// What a run needs with its local set: workspaces are by implementation, and in place is a difference.
pub fn running(problem: &Problem, layout: &Layout, stage: usize, node: usize) -> Sum {
    let terms = &layout.stages[stage];
    let mut sum = Sum::of([(local_bytes(problem, node), terms.run[node])]);
    for (way, &term) in problem.ways(stage, node).iter().zip(&terms.ways[node]) {
        sum.add(way.beside as f64, term);
    }
    if let Some(over) = problem.over(stage, node) {
        sum.add(over.beside as f64, terms.over[node]);
    }
    sum
}

/// What a backward operator needs beside forward values (equations 5 and 10).
pub fn chosen(problem: &Problem, layout: &Layout, stage: usize) -> Sum {
    let mut sum = Sum { constant: problem.stages[stage].during as f64, ..Sum::default() };
    for (variant, ways) in problem.stages[stage].variants.iter().zip(&layout.stages[stage].backward) {
        for (way, &term) in variant.ways.iter().zip(ways) {
            sum.add(way.beside as f64, term);
        }
    }
    sum
}

/// What a place adds to what is there whatever runs. Equation 12: the local set is not counted again where it is kept
/// on; what is held counts even where it is local.
fn own(problem: &Problem, layout: &Layout, stage: usize, place: Place) -> Sum {
    match place {
        Place::Passing(_) => Sum::default(),
        Place::Running(node) => {
            let local = problem.local[node].iter();
            let kept_on = Sum::of(local.map(|&local| (bytes(problem, local), layout.next_kept(stage, local))));
            running(problem, layout, stage, node).plus(-1.0, &kept_on)
        }
        Place::Backward => chosen(problem, layout, stage),
    }
}

/// What a run that a vector says in part needs beyond that part.
fn rest(problem: &Problem, layout: &Layout, stage: usize, node: usize, vector: &[f64]) -> f64 {
    let terms = &layout.stages[stage];
    let ways = problem.ways(stage, node);
    let beside = ways.iter().zip(&terms.ways[node]).map(|(way, term)| way.beside as f64 * term.value(vector));
    let least = ways.iter().map(|way| way.beside).min().unwrap_or(0) as f64;
    (1.0 - terms.run[node].value(vector)) * local_bytes(problem, node) + (least - beside.sum::<f64>()).max(0.0)
}

/// What [`memory`] comes to in a vector, at the places of a stage that is a block of its own.
fn values(problem: &Problem, layout: &Layout, stage: usize, vector: &[f64], runs: Runs) -> Vec<(usize, Place, f64)> {
    let nodes = problem.nodes.len();
    let mut changes = vec![0.0; 2 * nodes + 2];
    for piece in pieces(problem, layout, stage) {
        let memory = piece.there.value(vector);
        changes[piece.from] += memory;
        changes[piece.until] -= memory;
    }
    let sums = changes.iter().scan(0.0, |there, change| {
        *there += change;
        Some(*there)
    });
    let all: Vec<f64> = sums.collect();
    let mut found = Vec::with_capacity(all.len());
    for place in places(problem, layout, stage) {
        let mut memory = all[place.index(nodes)] + own(problem, layout, stage, place).value(vector);
        if let Place::Running(node) = place {
            match runs {
                Runs::AsSaid if layout.stages[stage].run[node].value(vector) <= 0.0 => continue,
                Runs::AsSaid => {}
                Runs::All => memory += rest(problem, layout, stage, node, vector),
            }
        }
        found.push((stage, place, memory));
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
        let all = match layout.spans[at] {
            Some(_) => coarse::values(problem, layout, at, vector),
            None if layout.settled[first] => continue,
            None => values(problem, layout, first, vector, runs),
        };
        found.extend(all.into_iter().filter_map(|(stage, place, memory)| {
            let capacity = capacity(stage);
            (memory > capacity + capacity.max(1.0) * 1e-6).then_some((stage, place, memory - capacity))
        }));
    }
    found
}
