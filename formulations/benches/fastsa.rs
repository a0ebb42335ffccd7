//! Mutations per second against the size of the graph, and what is reached after some seconds:
//! `cargo bench -p remat-formulations --bench fastsa [-- quality]`. CPU seconds of one thread.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use common::cpu_seconds;
use remat_core::Instance;
use remat_core::generate::layered::{Layered, layered};
use remat_core::io::read_instance;
use remat_formulations::fastsa::anneal::{Annealing, Best, Cooling, Span, Terms, roomy};
use remat_formulations::fastsa::graph::Operators;
use remat_formulations::fastsa::objective::{Goal, Objective};
use remat_formulations::fastsa::profile::{Peak, Profile, Soft};
use remat_formulations::fastsa::propose::Aim;
use remat_formulations::fastsa::state::State;
use remat_formulations::random::Random;
use remat_formulations::{Context, Limits, Parameters, find};

const NETWORKS: [&str; 4] = ["resnet18-224-b32", "resnet50-224-b32", "resnet152-224-b32", "resnet1001-224-b1"];
const WIDTHS: [(u32, f64); 5] = [(100, 0.27), (250, 0.43), (500, 0.36), (1000, 0.31), (2000, 0.31)];

fn main() {
    let quality = std::env::args().any(|argument| argument == "quality");
    let mut instances: Vec<(String, Instance)> = Vec::new();
    for (nodes, width) in WIDTHS {
        let document = layered("layered", &Layered::moccasin(nodes, width), 1);
        instances.push((format!("layered, n = {nodes}"), Instance::new(&document).expect("valid")));
    }
    for name in NETWORKS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../instances/resnet/{name}.json.zst"));
        instances.push((name.to_owned(), read_instance(&path).expect("shipped instances are valid")));
    }
    if quality {
        return instances.iter().filter(|(_, instance)| instance.operators().len() < 1200).for_each(after_seconds);
    }
    println!("graph, operators, T: million mutations per second (valid, accepted); logaddexp");
    for (name, instance) in &instances {
        let operators = Operators::new(instance, true, None).expect("supported");
        let length = roomy(operators.start.len());
        println!(
            "{name}, {}, {length}: {}; {}",
            operators.start.len(),
            speed::<Peak>(&operators, length, 4_000_000),
            speed::<Soft>(&operators, length, 500_000),
        );
    }
}

/// A first stage without groups at 70 % of the peak of the instance's order.
fn speed<P: Profile>(operators: &Operators, length: u32, iterations: u64) -> String {
    let mut state = State::<P>::new(&operators.graph, &operators.start, length);
    let peak = operators.graph.base + state.profile.peak().unsigned_abs();
    let budget = peak / 10 * 7;
    let goal = Goal::new(Objective::Product, budget);
    let initial = 1e-3 * goal.value(peak as f64, state.cost);
    let annealing = Annealing {
        goal: &goal,
        cooling: Cooling { initial, last: 1e-4 * initial, span: Span::Iterations(iterations) },
        terms: Terms { deadline: None, stop_within_budget: false, budget },
        aim: Aim::default(),
        observer: None,
        trace: None,
    };
    let began = cpu_seconds();
    let (_, tally) = annealing.run(&mut state, &mut Random::new(0), &mut Best::default());
    let seconds = cpu_seconds() - began;
    let share = |count: u64| 100.0 * count as f64 / iterations as f64;
    let (valid, accepted) = (share(tally.valid), share(tally.accepted));
    format!("{:.1} ({valid:.0} %, {accepted:.0} %)", iterations as f64 / seconds / 1e6)
}

fn after_seconds((name, instance): &(String, Instance)) {
    let method = find("fastsa").expect("registered");
    let parameters = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("defaults");
    let limits = |time| Limits { time, threads: 1, seed: 0 };
    let solve = |budget, time| {
        let budgets = [budget];
        let answers = method.answers(&Context::new(instance, &parameters, &budgets, limits(time)));
        answers.expect("supported").remove(0).claimed
    };
    let all = solve(None, None).expect("store-all");
    for percent in [50, 70, 90] {
        let budget = all.peak_bytes / 100 * percent;
        let reached = [1, 3, 10, 30].map(|seconds| {
            let found = solve(Some(budget), Some(Duration::from_secs(seconds)));
            found.map_or("none".into(), |found| format!("{:.2} %", 100.0 * (found.time as f64 / all.time as f64 - 1.0)))
        });
        println!("{name} at {percent} %: cost increase after 1, 3, 10, 30 s (wall): {}", reached.join(", "));
    }
}
