//! What a solution over a block of several stages comes to, stage by stage: what is kept into the block stays
//! until its last use there, and what runs in it does so where it is first needed. Nothing is checked: what
//! this keeps may exceed the budget, which says where the block has to be split.

use crate::monet::released::layout::Layout;
use crate::monet::released::problem::Problem;
use crate::search::blocks::Block;

/// Where in a block a value is needed: when some stages begin, and by the backward operators of some.
#[derive(Clone, Debug, Default)]
struct Needs {
    /// Stages at whose beginning it must be there, unless it runs in them.
    stages: Vec<(usize, bool)>,
}

impl Needs {
    fn first(&self) -> Option<usize> {
        self.stages.iter().map(|need| need.0).min()
    }

    /// Up to which stage a copy must be kept that is made before; a backward operator's reading outlasts
    /// its stage.
    fn until(&self, from: usize) -> Option<usize> {
        self.stages.iter().filter(|need| need.0 >= from).map(|&(stage, backward)| stage + usize::from(backward)).max()
    }
}

/// What is kept into each stage of a block.
pub fn expand(problem: &Problem, layout: &Layout, block: Block, vector: &[f64], threshold: f64) -> Vec<Vec<bool>> {
    let Block { first, last } = block;
    let terms = &layout.stages[first];
    let mut needs = backward_needs(problem, layout, block, vector);
    let mut kept = vec![vec![false; problem.nodes.len()]; last + 1 - first];
    for at in (0..problem.nodes.len()).rev() {
        let into = terms.kept[at].value(vector) >= threshold;
        let runs = terms.run[at].value(vector) >= threshold;
        let next = layout.next_kept(last, at).value(vector) >= threshold;
        let mut keep = |from: usize, until: usize| {
            for stage in from..=until.min(last) {
                kept[stage - first][at] = true;
            }
        };
        let mut run_at = None;
        match (into, runs) {
            (false, false) => {}
            (true, false) => keep(first, if next { last } else { needs[at].until(first).unwrap_or(first) }),
            (false, true) => {
                let run = needs[at].first().unwrap_or(last);
                keep(run + 1, if next { last } else { needs[at].until(run + 1).unwrap_or(run) });
                run_at = Some(run);
            }
            (true, true) => {
                // Used, dropped, and made again: where it is last needed, or for the next block.
                let run = if next { last } else { needs[at].until(first).map_or(last, |until| until.min(last)) };
                keep(first, needs[at].first().unwrap_or(first).min(run));
                run_at = Some(run);
            }
        }
        if let Some(run) = run_at {
            for &input in &problem.nodes[at].inputs {
                needs[input].stages.push((run, false));
            }
        }
    }
    kept
}

/// What the backward operators of a block read, each by the variant that is chosen most.
fn backward_needs(problem: &Problem, layout: &Layout, block: Block, vector: &[f64]) -> Vec<Needs> {
    let mut needs = vec![Needs::default(); problem.nodes.len()];
    for stage in block.first..=block.last {
        let chosen = layout.stages[stage].variant.iter().map(|term| term.value(vector));
        let variants = problem.stages[stage].variants.iter().zip(chosen);
        let chosen = variants.max_by(|left, right| left.1.total_cmp(&right.1));
        for &read in chosen.map_or(&[][..], |(variant, _)| &variant.reads) {
            needs[read].stages.push((stage, true));
        }
    }
    needs
}
