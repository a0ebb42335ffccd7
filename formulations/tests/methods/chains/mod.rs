//! Random chains, and a plain stage for chains written out.

pub mod search;

use std::ops::Range;

use proptest::prelude::*;
use remat_core::chain::{Chain, Saving, Stage};

/// What the numbers of a random chain are drawn from.
#[derive(Clone)]
pub struct Numbers {
    pub forward_time: Range<u64>,
    /// What a saving forward takes longer.
    pub slower: Range<u64>,
    pub backward_time: Range<u64>,
    pub activation: Range<u64>,
    /// What saving keeps besides the output.
    pub extra: Range<u64>,
    pub gradient: Range<u64>,
    pub kept: Range<u64>,
    pub forward_overhead: Range<i64>,
    pub backward_overhead: Range<i64>,
    pub input: Range<u64>,
    pub input_gradient: Range<u64>,
    pub fixed: Range<u64>,
}

impl Numbers {
    /// Zeros, equal sizes and negative overheads are frequent.
    pub fn small() -> Self {
        Self {
            forward_time: 0..6,
            slower: 0..4,
            backward_time: 0..6,
            activation: 0..5,
            extra: 0..7,
            gradient: 0..5,
            kept: 0..2,
            forward_overhead: 0..3,
            backward_overhead: -1..4,
            input: 0..5,
            input_gradient: 0..4,
            fixed: 0..4,
        }
    }

    /// Stages with up to so many ways to save.
    fn stage(self, alternatives: usize) -> impl Strategy<Value = Stage> {
        let numbers = (self.forward_time, self.activation, self.gradient, self.kept, self.forward_overhead);
        let saving = (self.slower, self.backward_time, self.extra, self.backward_overhead);
        (numbers, prop::collection::vec(saving, 1..=alternatives)).prop_map(
            |((forward_time, activation, gradient, kept, overhead), savings)| Stage {
                name: String::new(),
                forward_time,
                activation_bytes: activation,
                gradient_bytes: gradient,
                kept_bytes: kept,
                passing_overhead: overhead,
                savings: savings
                    .into_iter()
                    .map(|(slower, backward_time, extra, backward_overhead)| Saving {
                        name: String::new(),
                        forward_time: forward_time + slower,
                        backward_time,
                        saved_bytes: activation + extra,
                        forward_overhead: overhead,
                        backward_overhead,
                    })
                    .collect(),
            },
        )
    }

    /// Chains of so many stages.
    pub fn chain(self, stages: Range<usize>, alternatives: usize) -> impl Strategy<Value = Chain> {
        let ends = (self.input.clone(), self.input_gradient.clone(), self.fixed.clone());
        (prop::collection::vec(self.stage(alternatives), stages), ends).prop_map(
            |(stages, (input_bytes, input_gradient_bytes, fixed_bytes))| Chain {
                fixed_bytes,
                input_bytes,
                input_gradient_bytes,
                stages,
            },
        )
    }
}

/// A stage without overheads.
pub fn plain(times: [u64; 2], activation_bytes: u64, saved_bytes: u64, gradient_bytes: u64) -> Stage {
    let [forward_time, backward_time] = times;
    Stage {
        name: String::new(),
        forward_time,
        activation_bytes,
        gradient_bytes,
        kept_bytes: 0,
        passing_overhead: 0,
        savings: vec![Saving {
            name: String::new(),
            forward_time,
            backward_time,
            saved_bytes,
            forward_overhead: 0,
            backward_overhead: 0,
        }],
    }
}
