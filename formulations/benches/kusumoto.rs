//! How many lower sets the shipped networks have, and what the two programs take for them:
//! `cargo bench -p remat-formulations --bench kusumoto [NAME...] [unit]`.
//!
//! Per instance and family, CPU seconds: for sets and steps; for the least budget by bisection; for the
//! time- and the memory-centric program at that budget in the paper's costs (all of these together, `whole`, are
//! what the paper's "more than 80 secs" is about); and time-centric in the instance's own times, which have
//! far more different sums, at 1.1 and 1.5 times that budget. Per program also the overhead in per cent of the forward
//! pass.
//! With `unit` among the arguments the instance's own times are left out.
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
use remat_formulations::kusumoto::search::Search;
use remat_formulations::kusumoto::steps::{LastGroup, Memory, Steps};
use remat_formulations::search::clock::Clock;

/// Lower sets beyond which the exact program is left out.
const MOST: usize = 1 << 20;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let (words, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name == "unit");
    let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances").join(name);
    let entries = |name| std::fs::read_dir(folder(name)).expect("the folder is there").flatten();
    let mut paths: Vec<PathBuf> = ["kusumoto", "resnet"].into_iter().flat_map(entries).map(|e| e.path()).collect();
    paths.sort();
    let wanted = |path: &PathBuf| names.is_empty() || names.iter().any(|name| path.to_string_lossy().contains(name));
    println!(
        "instance,family,nodes,lower_sets,build,least_budget,{},{},whole,{},{}",
        program_columns("time_centric"),
        program_columns("memory_centric"),
        program_columns("times_1.1"),
        program_columns("times_1.5")
    );
    for path in paths.iter().filter(|path| wanted(path)) {
        let instance = read_instance(path).expect("shipped instances are valid");
        let graph = Graph::new(&instance).expect("shipped networks are supported");
        for exact in [false, true] {
            row(&instance, &graph, exact, words.is_empty());
        }
    }
}

fn unlimited() -> Clock {
    Clock::start(None)
}

fn program_columns(name: &str) -> String {
    format!("{name},{name}_overhead_percent")
}

/// Prints a row piece by piece.
fn row(instance: &Instance, graph: &Graph, exact: bool, own_times: bool) {
    let piece = |text: String| {
        print!("{text}");
        std::io::stdout().flush().expect("there is somewhere to print to");
    };
    piece(format!("{},{},{}", instance.name(), if exact { "exact" } else { "approximate" }, graph.nodes.len()));
    let convolution = |node| instance.operator(node).op_type.contains("conv");
    let unit: Vec<u64> = graph.nodes.iter().map(|n| if convolution(n.operator) { 10 } else { 1 }).collect();
    let times: Vec<u64> = graph.nodes.iter().map(|node| node.time).collect();
    let memory = (Memory::Larger, LastGroup::Recompute);
    let begun = cpu_seconds();
    let sets = if exact { family::all(graph, MOST, unlimited()) } else { Ok(family::pruned(graph)) };
    let Ok(sets) = sets else { return piece(format!(",more than {MOST}\n")) };
    piece(format!(",{}", sets.len()));
    // As the method does it: the pruned family's least budget bounds that of all lower sets.
    let pruned = Steps::new(graph, family::pruned(graph), &unit, memory, u64::MAX, unlimited()).expect("no limit");
    let most = program::least_budget(&pruned, unlimited()).expect("no limit");
    let steps = Steps::new(graph, sets.clone(), &unit, memory, most, unlimited()).expect("no limit");
    piece(format!(",{:.3}", cpu_seconds() - begun));
    let started = cpu_seconds();
    let least = program::least_budget(&steps, unlimited()).expect("no limit");
    piece(format!(",{:.3}", cpu_seconds() - started));
    for goal in [Goal::TimeCentric, Goal::MemoryCentric] {
        piece(solve(&steps, least, goal));
    }
    piece(format!(",{:.3}", cpu_seconds() - begun));
    for tenths in if own_times { vec![11, 15] } else { Vec::new() } {
        let budget = least / 10 * tenths + 10;
        let timed = Steps::new(graph, sets.clone(), &times, memory, budget, unlimited()).expect("no limit");
        piece(solve(&timed, budget, Goal::TimeCentric));
    }
    piece("\n".into());
}

/// The columns of one program.
fn solve(steps: &Steps<'_>, budget: u64, goal: Goal) -> String {
    let started = cpu_seconds();
    let solved = Search::new(steps, budget, goal).best(unlimited()).expect("no limit").expect("the budget suffices");
    let seconds = cpu_seconds() - started;
    let all = steps.times(steps.sets.len() - 1).0 as f64;
    let percent = 100.0 * program::evaluate(steps, &solved).0 as f64 / all;
    format!(",{seconds:.3},{percent:.1}")
}
