//! How many lower sets and steps the shipped networks have, and what the two programs take for them:
//! `cargo bench -p remat-formulations --bench kusumoto [NAME...]`.
//!
//! Per instance and family, CPU seconds: for sets and steps; for the least budget by bisection; for the
//! time- and the memory-centric program at that budget in the paper's costs (the first four together are
//! what the paper's "more than 80 secs" is about); and time-centric in the instance's own times, which have
//! far more different sums, at 1.1 and 1.5 times that budget, with the overhead in per cent of the forward pass.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};

use common::cpu_seconds;
use remat_core::Instance;
use remat_core::io::read_instance;
use remat_formulations::kusumoto::family;
use remat_formulations::kusumoto::graph::Graph;
use remat_formulations::kusumoto::program::{self, Goal};
use remat_formulations::kusumoto::steps::{LastGroup, Memory, Steps};
use remat_formulations::kusumoto::viable::Viable;

/// Lower sets beyond which the exact program is left out.
const MOST: usize = 1 << 20;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances").join(name);
    let entries = |name| std::fs::read_dir(folder(name)).expect("the folder is there").flatten();
    let mut paths: Vec<PathBuf> = ["kusumoto", "resnet"].into_iter().flat_map(entries).map(|e| e.path()).collect();
    paths.sort();
    let wanted = |path: &PathBuf| names.is_empty() || names.iter().any(|name| path.to_string_lossy().contains(name));
    println!(
        "instance,family,nodes,lower_sets,steps,build,least_budget,viable_steps,time_centric,memory_centric,times_1.1,times_1.5"
    );
    for path in paths.iter().filter(|path| wanted(path)) {
        let instance = read_instance(path).expect("shipped instances are valid");
        let graph = Graph::new(&instance).expect("shipped networks are supported");
        for exact in [false, true] {
            row(&instance, &graph, exact);
        }
    }
}

/// Prints a row piece by piece.
fn row(instance: &Instance, graph: &Graph, exact: bool) {
    let piece = |text: String| {
        print!("{text}");
        std::io::stdout().flush().expect("there is somewhere to print to");
    };
    piece(format!("{},{},{}", instance.name(), if exact { "exact" } else { "approximate" }, graph.nodes.len()));
    let convolution = |node| instance.operator(node).op_type.contains("conv");
    let unit: Vec<u64> = graph.nodes.iter().map(|n| if convolution(n.operator) { 10 } else { 1 }).collect();
    let times: Vec<u64> = graph.nodes.iter().map(|node| node.time).collect();
    let memory = (Memory::Larger, LastGroup::Recompute);
    let started = cpu_seconds();
    let sets = if exact { family::all(graph, MOST, None) } else { Ok(family::pruned(graph)) };
    let Ok(sets) = sets else { return piece(format!(",more than {MOST}\n")) };
    piece(format!(",{}", sets.len()));
    // As the method does it: the pruned family's least budget bounds that of all lower sets.
    let pruned = Steps::new(graph, family::pruned(graph), &unit, memory, u64::MAX);
    let most = program::least_budget(&pruned, None).expect("no limit");
    let steps = Steps::new(graph, sets.clone(), &unit, memory, most);
    let built = cpu_seconds() - started;
    piece(format!(",{},{built:.3}", steps.count()));
    let started = cpu_seconds();
    let least = program::least_budget(&steps, None).expect("no limit");
    piece(format!(",{:.3}", cpu_seconds() - started));
    let started = cpu_seconds();
    let viable = Viable::new(&steps, least, None).expect("no limit").expect("the budget suffices");
    piece(format!(",{} in {:.3}", viable.count(), cpu_seconds() - started));
    let solve = |steps: &Steps<'_>, budget, goal| {
        let started = cpu_seconds();
        let solved = program::solve(steps, budget, goal, None).expect("no limit").expect("the budget suffices");
        (cpu_seconds() - started, program::evaluate(steps, &solved).0)
    };
    for goal in [Goal::TimeCentric, Goal::MemoryCentric] {
        piece(format!(",{:.3}", solve(&steps, least, goal).0));
    }
    let total = times.iter().sum::<u64>() as f64;
    for tenths in [11, 15] {
        let budget = least / 10 * tenths + 10;
        let timed = Steps::new(graph, sets.clone(), &times, memory, budget);
        let (seconds, time) = solve(&timed, budget, Goal::TimeCentric);
        piece(format!(",{seconds:.3} (+{:.1} %)", 100.0 * time as f64 / total));
    }
    piece("\n".into());
}
