//! The rows of MONeT's program other than memory: dependencies, retention, choices, in-place.

use remat_solvers::Model;

use crate::monet::released::coarse;
use crate::monet::released::layout::{Held, Layout};
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;
use crate::search::term::{Sum, Term};

/// Adds all of them.
pub fn add(problem: &Problem, layout: &mut Layout) {
    let mut model = std::mem::take(&mut layout.model);
    for block in 0..layout.blocks.len() {
        let stages @ Block { first: stage, last } = layout.blocks[block];
        if layout.settled[stage] {
            continue;
        }
        dependencies(problem, layout, &mut model, stages);
        retention(problem, layout, &mut model, stages);
        for stage in stage..=last {
            backward_dependencies(problem, layout, &mut model, stages, stage);
            choices(layout, &mut model, stage);
        }
        if stage < last {
            layout.spans[block] = Some(coarse::span(problem, layout, &mut model, stages));
            continue;
        }
        in_place(problem, layout, &mut model, stage);
        intermediates(problem, layout, &mut model, stage);
    }
    layout.model = model;
}

/// Equation 7, first half: what runs in a block finds its inputs, kept into it or run in it.
fn dependencies(problem: &Problem, layout: &Layout, model: &mut Model, block: Block) {
    let (terms, longer) = (&layout.stages[block.first], block.first < block.last);
    for (at, node) in problem.nodes.iter().enumerate() {
        // In a single stage an intermediate and its parent are in rows of their own.
        for &input in node.inputs.iter().filter(|&&input| longer || node.parent != Some(input)) {
            let kept = if node.parent == Some(input) { Term::Zero } else { terms.kept[input] };
            Sum::of([(1.0, terms.run[at]), (-1.0, terms.run[input]), (-1.0, kept)]).at_most(model, 0.0);
        }
        if longer {
            Sum::of([(1.0, terms.over[at]), (-1.0, terms.run[at])]).at_most(model, 0.0);
        }
    }
}

/// Equation 7, second half, with p for r (C.3): what is kept beyond a block was kept into it, or run and not overwritten.
fn retention(problem: &Problem, layout: &Layout, model: &mut Model, block: Block) {
    let terms = &layout.stages[block.first];
    for node in 0..problem.nodes.len() {
        let next = layout.next_kept(block.last, node);
        Sum::of([(1.0, next), (-1.0, terms.kept[node]), (-1.0, terms.present[node])]).at_most(model, 0.0);
    }
}

/// Equation 8, summed over the variants that read a value (exactly one is chosen): what is read was kept into the block
/// (and is beyond it, if its last stage reads it), or run. In a block of one stage also what is read without being kept
/// (C.4: the product of s and delta, as one column per value).
fn backward_dependencies(problem: &Problem, layout: &Layout, model: &mut Model, block: Block, stage: usize) {
    let terms = &layout.stages[block.first];
    for (at, (node, read)) in coarse::reads(problem, layout, stage).into_iter().enumerate() {
        let kept = if stage == block.last { layout.next_kept(stage, node) } else { terms.kept[node] };
        let lacking = read.plus(-1.0, &Sum::of([(1.0, kept)]));
        lacking.clone().plus(-1.0, &Sum::of([(1.0, terms.present[node])])).at_most(model, 0.0);
        if let Some(&(_, Held::Term(held))) = layout.stages[stage].held.get(at) {
            lacking.plus(-1.0, &Sum::of([(1.0, held)])).at_most(model, 0.0);
        }
    }
}

/// Exactly one implementation of what runs, exactly one variant of the backward operator.
fn choices(layout: &Layout, model: &mut Model, stage: usize) {
    let terms = &layout.stages[stage];
    let mut exactly = |whole: Term, parts: &[Term]| {
        if parts.len() > 1 && whole != Term::Zero {
            let mut sum = Sum::of(parts.iter().map(|&part| (1.0, part)).chain([(-1.0, whole)]));
            sum.merge();
            model.equal(-sum.constant, sum.terms);
        }
    };
    for (&runs, ways) in terms.run.iter().zip(&terms.ways) {
        exactly(runs, ways);
    }
    if terms.variant.len() > 1 {
        exactly(Term::One, &terms.variant);
    }
    for (&chosen, ways) in terms.variant.iter().zip(&terms.backward) {
        exactly(chosen, ways);
    }
}

/// Equations 15 and 16, in their tighter form: p + q <= 1 and s + q <= 1; and what a node overwrites
/// is read by no later node of the stage.
fn in_place(problem: &Problem, layout: &Layout, model: &mut Model, stage: usize) {
    let terms = &layout.stages[stage];
    for (at, node) in problem.nodes.iter().enumerate() {
        let (over, Some(target)) = (terms.over[at], problem.over(stage, at).map(|over| over.node)) else { continue };
        if over == Term::Zero {
            continue;
        }
        Sum::of([(1.0, over), (-1.0, terms.run[at])]).at_most(model, 0.0);
        if node.parent.is_some() {
            continue;
        }
        let (present, run, kept) = (terms.present[target], terms.run[target], terms.kept[target]);
        Sum::of([(1.0, present), (-1.0, run)]).at_most(model, 0.0);
        Sum::of([(1.0, present), (1.0, over), (-1.0, run), (-1.0, kept)]).at_most(model, 0.0);
        Sum::of([(1.0, present), (1.0, over)]).at_most(model, 1.0);
        Sum::of([(1.0, layout.next_kept(stage, target)), (1.0, over)]).at_most(model, 1.0);
        let later = problem.nodes[target].readers.iter().filter(|&&reader| reader > at);
        for &reader in later {
            Sum::of([(1.0, terms.run[reader]), (1.0, over)]).at_most(model, 1.0);
        }
    }
}

/// An intermediate runs with its parent, one at a time, and in place exactly where the parent does.
fn intermediates(problem: &Problem, layout: &Layout, model: &mut Model, stage: usize) {
    let terms = &layout.stages[stage];
    let mut together: Vec<Vec<usize>> = vec![Vec::new(); problem.nodes.len()];
    for (at, node) in problem.nodes.iter().enumerate().filter(|&(at, _)| terms.run[at] != Term::Zero) {
        let Some(parent) = node.parent else { continue };
        together[parent].push(at);
        let (run, over) = (terms.run[at], terms.over[at]);
        if problem.over(stage, at).is_none() {
            // Saved out of place only.
            Sum::of([(1.0, run), (1.0, terms.over[parent])]).at_most(model, 1.0);
            continue;
        }
        Sum::of([(1.0, over), (-1.0, terms.over[parent])]).at_most(model, 0.0);
        Sum::of([(1.0, terms.over[parent]), (1.0, run), (-1.0, over)]).at_most(model, 1.0);
    }
    for (parent, children) in together.iter().enumerate().filter(|(_, children)| !children.is_empty()) {
        let runs = children.iter().map(|&child| (1.0, terms.run[child]));
        Sum::of(runs.chain([(-1.0, terms.run[parent])])).at_most(model, 0.0);
    }
}
