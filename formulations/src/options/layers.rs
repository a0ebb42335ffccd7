//! Which stages of a chain make a block: those of a layer, where layers repeat.

use std::collections::HashMap;

use remat_core::Instance;
use remat_core::chain_view::ChainView;

use super::block::Block;
use crate::setting;

setting! {
    /// stages of the chain view that make a block; auto: those of a layer where at least three layers in a row are equal
    /// and have no more than 250 operators each, else 1
    pub Blocks("blocks"): auto or number from 1 to 1_000_000
}

/// Most operators of a block of several stages.
const MOST_OPERATORS: usize = 250;
/// Most stages of a layer.
const MOST_STAGES: usize = 16;

/// The view with blocks for stages.
pub fn grouped(instance: &Instance, view: ChainView, blocks: Option<u64>) -> ChainView {
    let count = view.stages.len();
    let sizes = match blocks.map(|size| usize::try_from(size).unwrap_or(usize::MAX)) {
        Some(size) => (0..count).step_by(size).map(|first| size.min(count - first)).collect(),
        None => layers(instance, &view),
    };
    if sizes.iter().all(|&size| size == 1) { view } else { view.grouped(instance, &sizes) }
}

/// Whether a network is a chain of blocks of no more operators than so many, of which equal ones make up half of it.
pub fn repeat(instance: &Instance, most_operators: usize) -> bool {
    let Ok(view) = ChainView::new(instance) else { return false };
    let view = grouped(instance, view, None);
    let mut equal: HashMap<String, usize> = HashMap::new();
    for (stage, boundary) in view.stages.iter().zip(view.boundaries(instance)) {
        let operators = stage.forward.len() + stage.backward.len();
        if operators > most_operators {
            return false;
        }
        if let Ok(block) = Block::new(instance, stage, &boundary) {
            *equal.entry(block.key).or_default() += operators;
        }
    }
    equal.into_values().any(|operators| 2 * operators >= instance.operators().len())
}

/// The number of stages of each block: the longest repetition, and single stages before and after it.
fn layers(instance: &Instance, view: &ChainView) -> Vec<usize> {
    let boundaries = view.boundaries(instance);
    let key = |(stage, boundary)| Block::new(instance, stage, boundary).ok().map(|block| block.key);
    let keys: Vec<Option<String>> = view.stages.iter().zip(&boundaries).map(key).collect();
    let single = vec![1; keys.len()];
    let (mut best, mut covered) = (single, 0);
    for period in 1..=MOST_STAGES.min(keys.len() / 3) {
        let same = |at: usize| keys[at].is_some() && keys[at] == keys[at + period];
        let mut at = 0;
        while at + period < keys.len() {
            let first = at;
            while at + period < keys.len() && same(at) {
                at += 1;
            }
            let whole = (at - first + period) / period * period;
            let of = |stage: usize| view.stages[stage].forward.len() + view.stages[stage].backward.len();
            let operators: usize = (first..first + period).map(of).sum();
            // A longer period must cover more: it repeats a shorter one else.
            if whole >= 3 * period && whole > covered && (period == 1 || operators <= MOST_OPERATORS) {
                covered = whole;
                best = vec![1; first];
                best.extend(std::iter::repeat_n(period, whole / period));
                best.extend(std::iter::repeat_n(1, keys.len() - first - whole));
            }
            at += 1;
        }
    }
    best
}
