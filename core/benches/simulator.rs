//! Time to simulate a schedule of 10,000 steps: `cargo bench -p remat-core --bench simulator`.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use remat_core::chain::{Chain, ChainStep, Saving, Stage};
use remat_core::chain_file::instance_of;
use remat_core::chain_view::ChainView;
use remat_core::format::{Origin, Units};
use remat_core::{Instance, simulate};

const STAGES: usize = 100;

fn main() {
    let chain = homogeneous();
    let document = instance_of("homogeneous", &chain, Units::default(), &Origin::Exact {});
    let instance = Instance::new(&document).expect("a valid instance");
    let view = ChainView::new(&instance).expect("a chain");
    let schedule = view.expand(&instance, &quadratic(view.chain.len()));
    let runs = 200;
    let mut times: Vec<_> = (0..runs)
        .map(|_| {
            let started = Instant::now();
            let simulation = simulate(&instance, &schedule).expect("a legal schedule");
            assert!(simulation.time > 0);
            started.elapsed()
        })
        .collect();
    times.sort();
    println!("{} steps: median {:?}, least {:?} of {runs} runs", schedule.steps.len(), times[runs / 2], times[0]);
}

fn homogeneous() -> Chain {
    let saving = Saving {
        name: "default".into(),
        forward_time: 1,
        backward_time: 2,
        saved_bytes: 2,
        forward_overhead: 0,
        backward_overhead: 1,
    };
    let stage = |l: usize| Stage {
        name: format!("stage{l}"),
        forward_time: 1,
        activation_bytes: 1,
        gradient_bytes: 1,
        kept_bytes: 0,
        passing_overhead: 0,
        savings: vec![saving.clone()],
    };
    let stages = (1..=STAGES).map(stage).collect();
    Chain { fixed_bytes: 0, input_bytes: 1, input_gradient_bytes: 1, stages }
}

/// Recompute everything from the input for every backward.
fn quadratic(length: usize) -> Vec<ChainStep> {
    let back = |l: usize| {
        let forward =
            (0..l).map(|stage| if stage == 0 { ChainStep::Checkpoint { stage } } else { ChainStep::Pass { stage } });
        forward.chain([ChainStep::Save { stage: l, saving: 0 }, ChainStep::Backward { stage: l }])
    };
    (0..length).rev().flat_map(back).collect()
}
