//! Running time of `rotor-persistent`'s dynamic program beside Rotor's own C program.
//!
//! `cargo bench -p remat-formulations --bench rotor` prints two tables in Markdown, the first as it stands in the README:
//! per reference chain and 500 slots, the best of several runs: CPU seconds for one budget on one thread and
//! for a sweep of ten budgets on one, then wall seconds on two, each with the ratio to the C program's time for the same
//! work (tests/data/rotor/README.md: gcc -O2, one core, user seconds, one budget; ten budgets cost it ten
//! runs). The last column counts L^3 S / 6 min-plus operations per second: the floor is that number
//! over lanes times frequency.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod common;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use common::cpu_seconds;
use remat_core::chain::Chain;
use remat_core::chain_file::{ChainFile, Scale};
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::solve::{Fit, Settings, solve};

const SLOTS: u64 = 500;
const SETTINGS: Settings = Settings { slots: SLOTS, rule: Rule::Persistent, fit: Fit::Rounded };
/// Reference file, stages, seconds of the C program.
const CASES: [(&str, usize, f64); 4] = [
    ("big_L50_S500_seed1.json", 50, 0.026),
    ("big_L100_S500_seed1.json", 100, 0.157),
    ("big0_L200_S500_seed2.json", 200, 0.95),
    ("big_L339_S500_seed1.json", 339, 4.24),
];

fn main() {
    println!(
        "| stages | C program | one thread | ratio | ten budgets, one thread | ratio |\n|---|---|---|---|---|---|"
    );
    let mut more = String::from(
        "| stages | two threads, wall | ratio | 10^9 operations a second, one thread |\n|---|---|---|---|\n",
    );
    for (file, stages, reference) in CASES {
        let (chain, peak) = read(file);
        let budgets: Vec<u64> = (1..=10).map(|k| peak * k / 10).collect();
        let (one, _) = best(1, || drop(solve(&chain, &[peak * 7 / 10], SETTINGS)));
        let (_, two) = best(2, || drop(solve(&chain, &[peak * 7 / 10], SETTINGS)));
        let (sweep, _) = best(1, || drop(solve(&chain, &budgets, SETTINGS)));
        let operations = ((stages + 1) as f64).powi(3) / 6.0 * SLOTS as f64;
        println!(
            "| {stages} | {reference} s | {} s | {:.0} | {} s | {:.0} |",
            digits(one),
            reference / one,
            digits(sweep),
            10.0 * reference / sweep
        );
        let speed = operations / one / 1e9;
        writeln!(more, "| {stages} | {} s | {:.0} | {speed:.1} |", digits(two), reference / two)
            .expect("strings can be written to");
    }
    print!("\n{more}");
}

/// Two significant digits.
fn digits(seconds: f64) -> f64 {
    format!("{seconds:.1e}").parse().expect("what is printed as a number is one")
}

/// A reference chain and the peak of its sequence without recomputation.
fn read(file: &str) -> (Chain, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rotor").join(file);
    let text = std::fs::read_to_string(&path).expect("the reference chains are in the repository");
    let value: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    let file: ChainFile = serde_json::from_value(value["chain"].clone()).expect("with six arrays");
    let chain = file.chain(Scale { time: None, memory: None }).expect("of whole numbers");
    (chain, value["norecompute_peak_M"].as_u64().expect("and a peak"))
}

/// Least CPU seconds and least wall seconds of several runs.
fn best(threads: usize, mut run: impl FnMut() + Send) -> (f64, f64) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool of one or two threads");
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..7 {
        let (cpu, wall) = (cpu_seconds(), Instant::now());
        pool.install(&mut run);
        least = (least.0.min(cpu_seconds() - cpu), least.1.min(wall.elapsed().as_secs_f64()));
    }
    least
}
