//! Blocks of several stages in MONeT's program: what runs again somewhere in a block runs once, and when is
//! forgotten.
//!
//! Every solution in stages is a solution of the model over blocks that costs no more: let r be 1 where some
//! stage of the block runs the node, in the way and in the place of the first of these runs. So bounds on it
//! are bounds on all schedules. Memory counts only what must be there whatever the block does: what does not
//! run in it and is read later in it, or kept beyond it. Blocks of one stage are exact (`constraints.rs`,
//! `memory.rs`), so that with such blocks alone this is MONeT's program. Knows no solver.

use std::collections::BTreeMap;

use remat_solvers::Model;

use crate::monet::released::layout::Layout;
use crate::monet::released::memory::{self, Place};
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
use crate::search::term::{Sum, Term};

/// What is there while a block of several stages goes on.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Its last stage.
    last: usize,
    /// For each node, up to which stage it is there by how much at least; later stages later.
    stays: Vec<Vec<(usize, Sum)>>,
    /// What a backward operator may read, by stage and node: there while it runs.
    during: BTreeMap<(usize, usize), Sum>,
}

impl Span {
    /// By how much a value is there at least when a stage begins, or when the next block does.
    fn there(&self, node: usize, stage: usize) -> Option<&Sum> {
        self.stays[node].iter().find(|&&(until, _)| until >= stage).map(|(_, sum)| sum)
    }
}

/// Which nodes the chosen variant of a stage reads; 1 where all of them do.
pub fn reads(problem: &Problem, layout: &Layout, stage: usize) -> Vec<(usize, Sum)> {
    let variants = &problem.stages[stage].variants;
    let of = |node: usize| {
        let readers =
            || variants.iter().zip(&layout.stages[stage].variant).filter(|(way, _)| way.reads.contains(&node));
        let terms = readers().map(|(_, &term)| (1.0, term));
        if readers().count() == variants.len() { Sum::of([(1.0, Term::One)]) } else { Sum::of(terms) }
    };
    problem.stages[stage].reads().into_iter().map(|node| (node, of(node))).collect()
}

/// What does not run in the block and is needed later is there until then.
pub fn span(problem: &Problem, layout: &mut Layout, model: &mut Model, block: Block) -> Span {
    let count = problem.nodes.len();
    let Block { first, last } = block;
    let run = layout.stages[first].run.clone();
    // Beyond the block: kept, and not run.
    let mut stays: Vec<Vec<(usize, Sum)>> = Vec::with_capacity(count);
    for (node, &run) in run.iter().enumerate() {
        let next = layout.next_kept(last, node);
        let beyond = match (next, run) {
            (Term::Zero, _) => Sum::default(),
            (next, Term::Zero) => Sum::of([(1.0, next)]),
            (next, run) => layout.largest(model, vec![Sum::of([(1.0, next), (-1.0, run)])]),
        };
        stays.push(vec![(last + 1, beyond)]);
    }
    let mut during = BTreeMap::new();
    // Read for certain later on: there unless it runs, and more there is not to say.
    let mut settled = vec![false; count];
    for stage in (first..=last).rev() {
        for (node, read) in reads(problem, layout, stage) {
            let later = stays[node].last().map(|(_, sum)| sum.clone()).unwrap_or_default();
            let mut unless = read.clone();
            unless.add(-1.0, run[node]);
            if !read.is_certain() {
                // While it is read it is there, whether it runs in the block or not.
                let next = Sum::of([(1.0, layout.next_kept(last, node))]);
                let after = if stage == last { next } else { later.clone() };
                during.insert((stage, node), larger(layout, model, read.clone(), after));
            }
            if !settled[node] {
                settled[node] = read.is_certain();
                let sum = if settled[node] { unless } else { larger(layout, model, unless, later) };
                stays[node].push((stage, sum));
            }
        }
    }
    for stays in &mut stays {
        stays.reverse();
    }
    Span { last, stays, during }
}

/// The larger of a sum, another and 0, of which the other is not negative.
fn larger(layout: &mut Layout, model: &mut Model, one: Sum, other: Sum) -> Sum {
    let positive = |sum: &Sum| sum.constant >= 0.0 && sum.terms.iter().all(|&(_, factor)| factor >= 0.0);
    match () {
        () if other.is_nothing() && positive(&one) => one,
        () if other.is_certain() => other,
        () => layout.largest(model, vec![one, other]),
    }
}

/// The places of a stage in a block of several: what is kept into it and its runs belong to the first.
pub fn places(layout: &Layout, stage: usize) -> Vec<Place> {
    let mut places = Vec::new();
    let runs = &layout.stages[stage].run;
    if !runs.is_empty() {
        places.push(Place::Passing(0));
        places.extend((0..runs.len()).filter(|&node| runs[node] != Term::Zero).map(Place::Running));
    }
    places.push(Place::Backward);
    places
}

/// Least memory at a place, over everything that a solution may mean.
pub fn memory(problem: &Problem, layout: &Layout, span: &Span, stage: usize, place: Place) -> Sum {
    let mut sum = match place {
        Place::Passing(_) => entering(problem, layout, stage),
        Place::Running(node) => running(problem, layout, span, stage, node),
        Place::Backward => backward(problem, layout, span, stage),
    };
    sum.merge();
    sum
}

/// Equation 13 at the first node of the block's first stage: exact.
fn entering(problem: &Problem, layout: &Layout, stage: usize) -> Sum {
    let mut sum = Sum { constant: problem.stages[stage].before as f64, ..Sum::default() };
    for (node, &kept) in problem.nodes.iter().zip(&layout.stages[stage].kept) {
        sum.add(node.bytes as f64, kept);
    }
    sum
}

/// Equation 12 during the first run of a node in the block, in whichever stage that is.
fn running(problem: &Problem, layout: &Layout, span: &Span, stage: usize, node: usize) -> Sum {
    // It is of use up to its last reader.
    let latest = span.last.min(problem.nodes[node].last);
    let mut sum = own(problem, layout, stage, latest, node);
    let local = &problem.local[node];
    for (at, other) in problem.nodes.iter().enumerate().filter(|(at, _)| *at != node && !local.contains(at)) {
        let from = if at < node { latest + 1 } else { latest };
        if let Some(there) = span.there(at, from) {
            sum = sum.plus(other.bytes as f64, there);
        }
    }
    sum
}

/// Of that, what is there in any case and what the node itself needs.
fn own(problem: &Problem, layout: &Layout, stage: usize, latest: usize, node: usize) -> Sum {
    let before = (stage..=latest).map(|stage| problem.stages[stage].before).min().unwrap_or(0);
    let mut sum = memory::running(problem, layout, stage, node);
    sum.constant += before as f64;
    sum
}

/// Equations 5 and 10; in the block's last stage with all that is kept beyond it.
fn backward(problem: &Problem, layout: &Layout, span: &Span, stage: usize) -> Sum {
    let mut sum = memory::chosen(problem, layout, stage);
    let read = problem.stages[stage].reads();
    for (at, node) in problem.nodes.iter().enumerate() {
        let bytes = node.bytes as f64;
        if let Some(there) = span.during.get(&(stage, at)) {
            sum = sum.plus(bytes, there);
        } else if read.contains(&at) {
            sum.constant += bytes;
        } else if stage == span.last {
            sum.add(bytes, layout.next_kept(stage, at));
        } else if let Some(there) = span.there(at, stage + 1) {
            sum = sum.plus(bytes, there);
        }
    }
    sum
}

/// What [`memory()`] comes to in a vector at every place of a block, with its stage: all of them in one pass over the
/// nodes.
pub fn values(problem: &Problem, layout: &Layout, at: usize, vector: &[f64]) -> Vec<(usize, Place, f64)> {
    let (Block { first, last }, Some(span)) = (layout.blocks[at], &layout.spans[at]) else { return Vec::new() };
    let bytes = |node: usize| problem.nodes[node].bytes as f64;
    let there = |node: usize, stage: usize| bytes(node) * span.there(node, stage).map_or(0.0, |sum| sum.value(vector));
    // What is there when a stage begins (and beyond the last), and what of that is no longer so in the next.
    let mut begins = vec![0.0; last - first + 2];
    let mut changes: Vec<Vec<(usize, f64)>> = vec![Vec::new(); last - first + 1];
    for (node, stays) in span.stays.iter().enumerate() {
        begins[0] += there(node, first);
        for &(until, _) in stays.iter().filter(|&&(until, _)| (first..=last).contains(&until)) {
            changes[until - first].push((node, there(node, until + 1) - there(node, until)));
        }
    }
    for stage in 0..changes.len() {
        begins[stage + 1] = begins[stage] + changes[stage].iter().map(|&(_, change)| change).sum::<f64>();
    }
    let mut found = Vec::new();
    for place in places(layout, first) {
        let memory = match place {
            Place::Running(node) => {
                let latest = last.min(problem.nodes[node].last).max(first);
                let own = own(problem, layout, first, latest, node);
                let earlier = changes[latest - first].iter().filter(|&&(other, _)| other < node);
                let mut memory = begins[latest - first] + earlier.map(|&(_, change)| change).sum::<f64>();
                memory -= there(node, latest);
                memory -= problem.local[node].iter().map(|&local| there(local, latest + 1)).sum::<f64>();
                memory + own.value(vector)
            }
            Place::Passing(_) => entering(problem, layout, first).value(vector),
            Place::Backward => continue,
        };
        found.push((first, place, memory));
    }
    let kept_on: f64 =
        (0..problem.nodes.len()).map(|node| bytes(node) * layout.next_kept(last, node).value(vector)).sum();
    for stage in first..=last {
        let mut memory = memory::chosen(problem, layout, stage).value(vector);
        memory += if stage == last { kept_on } else { begins[stage + 1 - first] };
        for node in problem.stages[stage].reads() {
            let kept = layout.next_kept(last, node);
            let counted = if stage == last { bytes(node) * kept.value(vector) } else { there(node, stage + 1) };
            let during = span.during.get(&(stage, node));
            memory += bytes(node) * during.map_or(1.0, |sum| sum.value(vector)) - counted;
        }
        found.push((stage, Place::Backward, memory));
    }
    found
}

#[cfg(test)]
mod tests {
    use remat_core::io::read_instance;

    use super::*;
    use crate::monet::settings::Modes;
    use crate::random::Random;

    #[test]
    fn memory_in_one_pass_over_the_nodes_is_that_of_the_rows() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/resnet");
        let instance = read_instance(&root.join("resnet18-224-b32.json.zst")).expect("shipped instances are valid");
        let modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: true, recompute: true };
        let problem = Problem::new(&instance, modes).expect("supported");
        for seed in 0..3 {
            let mut random = Random::new(seed);
            let (mut blocks, mut first) = (vec![Block { first: 0, last: 0 }], 1);
            while first < problem.stages.len() {
                let last = (first + random.below(20) as usize).min(problem.stages.len() - 1);
                blocks.push(Block { first, last });
                first = last + 1;
            }
            let mut layout = Layout::new(&problem, 1 << 30, blocks);
            crate::monet::released::constraints::add(&problem, &mut layout);
            let point: Vec<f64> = (0..layout.model.columns()).map(|_| random.unit()).collect();
            for (at, &Block { first, last }) in layout.blocks.iter().enumerate() {
                let Some(span) = &layout.spans[at] else { continue };
                let fast = values(&problem, &layout, at, &point);
                let rows =
                    (first..=last).flat_map(|stage| places(&layout, stage).into_iter().map(move |at| (stage, at)));
                assert!(fast.iter().map(|&(stage, place, _)| (stage, place)).eq(rows));
                for (stage, place, memory) in fast {
                    let row = super::memory(&problem, &layout, span, stage, place).value(&point);
                    assert!((memory - row).abs() < 1e-3 + 1e-9 * row.abs(), "{stage} {place:?}: {memory}, {row}");
                }
            }
        }
    }
}
