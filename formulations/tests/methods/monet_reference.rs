//! MONeT on the authors' P100 profiles: what Gurobi proved optimal there is found here.

#![expect(clippy::print_stderr, reason = "tests say what they skip, and what they find")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::networks::{self, ONE};
use remat_core::io::{read_instance, read_json};
use remat_core::monet_file::MonetFile;
use remat_core::{Instance, simulate};
use remat_formulations::monet::released::decisions::Decisions;
use remat_formulations::monet::released::problem::Problem;
use remat_formulations::monet::settings::Modes;
use remat_formulations::{Answer, Limits, NoStarts, Termination};

const GIB: u64 = 1 << 30;

/// An instance of the authors' profiles: `p100-vgg16-176-noop`.
fn profile(name: &str) -> Instance {
    read_instance(&instances().join(format!("{name}.json.zst"))).expect("shipped")
}

fn instances() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/published/monet")
}

/// Rows of `results/published/FILE`, by the names of the columns.
fn published(file: &str) -> Vec<BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/published").join(file);
    let text = std::fs::read_to_string(path).expect("shipped");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let row =
        |line: &str| header.iter().map(|name| (*name).to_owned()).zip(line.split(',').map(str::to_owned)).collect();
    lines.map(row).collect()
}

fn solve(instance: &Instance, budget: u64, given: &[(&str, &str)]) -> Answer {
    let limits = Limits { time: Some(Duration::from_secs(600)), ..ONE };
    networks::answers("monet", instance, &[Some(budget)], given, &NoStarts, limits).remove(0)
}

fn assert_optimum(name: &str, gib: u64, objective: u64) {
    let instance = profile(name);
    let answer = solve(&instance, gib * GIB, &[("rules", "as-released"), ("strategy", "plain")]);
    eprintln!("{name} {gib} GiB: {:?}, {} in {:?}", answer.termination, answer.note, answer.solve);
    assert_eq!(answer.termination, Termination::Optimal, "{}", answer.note);
    // Units of 0.01 ms.
    assert_eq!(answer.claimed.expect("optimal").time / 10_000, objective, "{}", answer.note);
    let simulation = simulate(&instance, &answer.schedule.expect("optimal")).expect("legal");
    assert!(simulation.peak_bytes <= gib * GIB);
}

#[test]
fn vgg16_at_8_9_and_10_gib_without_alternatives() {
    for (gib, objective) in [(8, 266_436), (9, 261_959), (10, 249_840)] {
        assert_optimum("p100-vgg16-176-noop", gib, objective);
    }
}

#[test]
fn keeping_everything_costs_the_sums_of_the_authors_profiles() {
    for row in published("monet-profiles.csv") {
        let name = &row["instance"];
        let instance = profile(name);
        let modes = Modes { algorithms: true, outputs: true, intermediates: true, in_place: false, recompute: true };
        let problem = Problem::new(&instance, modes).expect("MONeT's view");
        let sum = |column: &str| row[column].parse::<i64>().expect("a sum");
        assert_eq!(problem.least_time(), sum("forward") + sum("backward_best"), "{name}");
        let kept = Decisions::store_all(&problem, i64::MAX / 4).expect("everything can be kept");
        assert_eq!(kept.time(), problem.least_time(), "{name}");
    }
}

#[test]
#[ignore = "minutes of branch and bound"]
fn vgg16_at_8_9_and_10_gib_with_convolution_algorithms() {
    for (gib, objective) in [(8, 140_419), (9, 137_065), (10, 133_314)] {
        assert_optimum("p100-vgg16-176-conv", gib, objective);
    }
}

#[test]
#[ignore = "minutes of branch and bound"]
fn u_net_at_10_gib_without_alternatives() {
    assert_optimum("p100-unet-11-noop", 10, 190_944);
}

/// Rows and columns of the authors' program for a profile, counted family by family as their modelling
/// layer hands them over: bounds are rows, and so is every variable that is fixed at 0.
fn released_size(file: &MonetFile) -> (usize, usize) {
    const VARIANTS: usize = 3;
    let nodes = &file.nodes;
    let forward = file.loss as usize + 1;
    let stages = nodes.len() - file.loss as usize;
    let cells = stages * forward;
    let chosen = &file.conv_list;
    let algorithms = chosen.iter().map(|&id| nodes[id as usize].ms.len()).max().unwrap_or(0);
    let selection = algorithms * stages * chosen.len();
    let overwriting: Vec<u32> = file.inplace_list.iter().map(|pair| pair[0]).collect();
    let intermediate: Vec<_> = nodes.iter().filter(|node| node.kind == "intermediate").collect();
    let over = |id: u32| overwriting.contains(&id);
    let kept = (stages + 1) * forward;
    let in_place = usize::from(!overwriting.is_empty());
    let columns = cells * (2 + VARIANTS + in_place) + kept + stages * VARIANTS + selection;

    // Bounds.
    let mut rows = 2 * columns;
    // P <= R, IP <= R, IP = 0, and three rows per stage for what can be in place; or P = R.
    if in_place == 1 {
        let own = overwriting.iter().filter(|&&id| nodes[id as usize].kind != "intermediate").count();
        rows += 2 * cells + (forward - overwriting.len()) * stages + 3 * stages * own;
    } else {
        rows += cells;
    }
    // S at first, R of stage 0, M of stage 0; variants that an operator lacks; algorithms that failed.
    rows += forward + (forward - intermediate.len()) + VARIANTS;
    rows += nodes[forward..].iter().map(|node| VARIANTS.saturating_sub(node.deps.len())).sum::<usize>();
    let failed =
        |id: &u32| (0..algorithms).filter(|&at| nodes[*id as usize].ms.get(at).is_none_or(|&ms| ms < 0.0)).count();
    rows += stages * chosen.iter().map(failed).sum::<usize>();
    // Products, retention, at least one variant, dependencies.
    rows += 3 * VARIANTS * cells + cells + stages;
    rows += stages * nodes[..forward].iter().map(|node| node.deps[0].fwd.len()).sum::<usize>();
    rows += nodes[forward..].iter().flat_map(|node| &node.deps).map(|deps| deps.fwd.len()).sum::<usize>();
    // Intermediates with their parents; one algorithm each, in its own stage only.
    let parents = nodes.iter().flat_map(|node| node.intermediates.iter().map(move |_| node.id));
    rows += parents.map(|parent| stages * if over(parent) { 3 } else { 1 }).sum::<usize>();
    let backward = chosen.iter().filter(|&&id| id > file.loss).count();
    rows += stages * (chosen.len() - backward) + backward * (1 + algorithms * (stages - 1));
    // Memory.
    (rows + 2 * cells + stages - 1, columns)
}

/// The only test here that needs the authors' own files: an instance says less than a profile about their program.
#[test]
fn the_authors_program_has_the_sizes_of_their_logs() {
    let Some(folder) = std::env::var_os("BENCH_REFERENCE_DATA") else {
        eprintln!("SKIPPED: BENCH_REFERENCE_DATA is not set, so sizes are not compared with the logs");
        return;
    };
    let sources = std::fs::read_to_string(instances().join("../sources.csv")).expect("shipped");
    let source = |name: &str| {
        let line = sources.lines().find(|line| line.starts_with(&format!("published/monet/{name},")));
        line.and_then(|line| line.split(',').nth(2)).expect("every instance has its source").to_owned()
    };
    let (mut equal, mut other) = (0, 0);
    for row in published("monet-gurobi.csv").iter().filter(|row| row["method"] == "monet") {
        let (Ok(rows), Ok(columns)) = (row["rows"].parse::<usize>(), row["columns"].parse::<usize>()) else { continue };
        let name = &row["instance"];
        let file: MonetFile = read_json(&Path::new(&folder).join(source(name))).expect("a profile");
        let (counted_rows, counted_columns) = released_size(&file);
        if name == "p100-vgg16-176-all" {
            // Logged without the products' columns: an earlier version of the program.
            assert_eq!(counted_columns - columns, 3 * 57 * 61);
            other += 1;
        } else {
            assert_eq!((counted_rows, counted_columns), (rows, columns), "{name} {}", row["budget"]);
            equal += 1;
        }
    }
    assert_eq!((equal, other), (137, 7));
}
