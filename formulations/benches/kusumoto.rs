//! How many lower sets and steps the shipped networks have, and what the two programs take for them:
//! `cargo bench -p remat-formulations --bench kusumoto [NAME...]`.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use remat_core::io::read_instance;
use remat_formulations::kusumoto::family::{self, LastGroup, Memory, Steps};
use remat_formulations::kusumoto::graph::Graph;
use remat_formulations::kusumoto::program::{self, Goal};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/resnet");
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let wanted = |path: &PathBuf| names.is_empty() || names.iter().any(|name| path.to_string_lossy().contains(name));
    println!(
        "instance, family, nodes, lower sets, steps, [s] sets and steps, least budget, time-centric at 1.0, 1.1, 1.5, 2 times that"
    );
    for path in paths.iter().filter(|path| wanted(path)) {
        let instance = read_instance(path).expect("shipped instances are valid");
        let graph = Graph::new(&instance).expect("shipped networks are supported");
        let times: Vec<u64> = graph.nodes.iter().map(|node| node.time).collect();
        for exact in [false, true] {
            let seconds = |started: Instant| started.elapsed().as_secs_f64();
            let started = Instant::now();
            let sets = if exact { family::all(&graph, 1 << 20, None).expect("few") } else { family::pruned(&graph) };
            let count = sets.len();
            let steps =
                Steps::new(&graph, sets, &times, (Memory::Larger, LastGroup::Recompute), None).expect("no limit");
            let built = seconds(started);
            let started = Instant::now();
            let least = program::least_budget(&steps, None).expect("no limit");
            let bisected = seconds(started);
            let solves = [10, 11, 15, 20].map(|tenths| {
                let started = Instant::now();
                let solved = program::solve(&steps, least / 10 * tenths + 10, Goal::TimeCentric, None);
                let time = solved.expect("no limit").map_or(0, |sequence| program::evaluate(&steps, &sequence).0);
                format!("{:.3} (+{:.1} %)", seconds(started), 100.0 * time as f64 / times.iter().sum::<u64>() as f64)
            });
            println!(
                "{}, {}, {}, {count}, {}, {built:.3}, {bisected:.3}, {}",
                instance.name(),
                if exact { "exact" } else { "approximate" },
                graph.nodes.len(),
                steps.count(),
                solves.join(", ")
            );
        }
    }
}
