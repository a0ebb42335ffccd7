//! Running time of `rotor-persistent`'s dynamic program beside the published loop, both measured here and now.
//!
//! `cargo bench -p remat-formulations --bench rotor` prints a table in Markdown, as it stands in the README: per
//! reference chain, one budget (0.7 of what saving everything needs) in 500 slots. `plain` is the loop of
//! Theorem 4.8 as the authors' C program nests it, one makespan and one decision per cell, in the same order of
//! memory; its makespans are checked against the kernel's, slot by slot. `kernel` is [`Table`] with its
//! [`Ranges`], `solve` all that `rotor-persistent[slots=...]` does with a chain and a budget, and the last columns
//! ten budgets from one table. Where the environment variable `ROTOR_C` names the authors' compiled module
//! (`dynamic_programs.*.so`, of their package for Python), its function `persistent_compute_table` is measured as
//! well, by the `python3` on the path. Figures are the best of several runs: CPU seconds for one thread, wall
//! seconds for two. With names of chains (`L50`, ...) as arguments, only these.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::{cpu_seconds, reference_chain};
use remat_formulations::chain::persistent::table::Table;
use remat_formulations::chain::ranges::Ranges;
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::slots::{Account, SlottedChain};
use remat_formulations::chain::solve::{Fit, Settings, solve};
use remat_formulations::chain::storage::Execution;
use remat_formulations::chain::trace::Sequenced;

const SLOTS: u64 = 500;
const CHAINS: [(&str, &str); 4] = [
    ("L50", "tests/data/rotor/big_L50_S500_seed1.json"),
    ("L100", "tests/data/rotor/big_L100_S500_seed1.json"),
    ("L200", "tests/data/rotor/big0_L200_S500_seed2.json"),
    ("L339", "tests/data/rotor/big_L339_S500_seed1.json"),
];

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| argument.starts_with('L')).collect();
    println!(
        "| chain | authors' module | plain loop | kernel, one thread | plain / kernel | two threads | plain / kernel | \
         solve, one thread | solve / kernel | ten budgets | ten plain / ten budgets |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, file) in CHAINS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name)) {
        let chain = reference_chain(file);
        let peak = chain.evaluate(&chain.store_all(|_| 0)).expect("saving everything is valid").peak_bytes;
        let budget = peak / 10 * 7;
        let slotted = SlottedChain::rounded(&chain, budget.div_ceil(SLOTS), Account::BesideInput);
        let capacity = slotted.slot_of_budget(budget - chain.fixed_bytes).expect("room for the input");
        let ranges = || Ranges::new(&slotted, Rule::Persistent, Execution::default()).expect("no deadline");
        let fill = |ranges: &Ranges| {
            let table = Table::<u32>::new(&slotted, ranges, capacity, Execution::default());
            let table = table.expect("there is memory");
            (0..=capacity).map(|m| table.makespan(m)).collect::<Vec<_>>()
        };
        let started = cpu_seconds();
        let expected = plain(&slotted, capacity);
        let plain = cpu_seconds() - started;
        let found = fill(&ranges());
        for (m, (expected, found)) in expected.into_iter().zip(found).enumerate() {
            let found = found.map_or(f64::INFINITY, |makespan| makespan as f64);
            assert!(found.total_cmp(&expected).is_eq(), "{name}, {m} slots: {found} instead of {expected}");
        }
        let module = authors_module(file, budget.div_ceil(SLOTS), capacity);
        let kernel = || drop(fill(&ranges()));
        let ((one, _), (_, two)) = (best(1, kernel), best(2, kernel));
        // The budget has as many slots of what saving everything needs.
        let settings = Settings { slots: SLOTS * 10 / 7, rule: Rule::Persistent, fit: Fit::Rounded };
        let solved = |budgets: &[u64]| {
            solve(&chain, budgets, settings, Execution::default(), |_, outcome| drop(outcome))
                .expect("there is memory");
        };
        let (all, _) = best(1, || solved(&[budget]));
        let budgets: Vec<u64> = (1..=10).map(|k| peak * k / 10).collect();
        let (sweep, _) = best(1, || solved(&budgets));
        println!(
            "| {name} | {} | {} s | {} s | {:.0} | {} s | {:.0} | {} s | {:.2} | {} s | {:.0} |",
            module.map_or("-".into(), |seconds| format!("{} s", digits(seconds))),
            digits(plain),
            digits(one),
            plain / one,
            digits(two),
            plain / two,
            digits(all),
            all / one,
            digits(sweep),
            10.0 * plain / sweep
        );
    }
}

/// The makespan of the whole chain for every number of slots: Theorem 4.8 subchain by subchain, slot by slot, cut by
/// cut.
fn plain(chain: &SlottedChain, capacity: usize) -> Vec<f64> {
    let n = chain.len();
    let at = |m: usize, s: usize, t: usize| (m * n + s) * n + t;
    let mut makespans = vec![f64::INFINITY; (capacity + 1) * n * n];
    let mut decisions = vec![0; makespans.len()];
    let time = |number: u64| number as f64;
    for s in 0..n {
        let saving = &chain.savings[s][0];
        for m in chain.all_limit(s, s, saving)..=capacity {
            makespans[at(m, s, s)] = time(saving.time);
        }
    }
    let passing: Vec<Vec<(usize, usize)>> = (0..n).map(|s| chain.passing_limits(s).collect()).collect();
    for length in 1..n {
        for s in 0..n - length {
            let t = s + length;
            let saving = &chain.savings[s][0];
            let (all_limit, saved) = (chain.all_limit(s, t, saving), chain.saved_slots(s, saving));
            let passing_limit = passing[s][length - 1].1;
            let checkpoints = chain.cut_shifts(s);
            for m in 0..=capacity {
                let (mut least, mut decision) = (f64::INFINITY, 0);
                if m >= all_limit && m >= saved {
                    least = time(saving.time) + makespans[at(m - saved, s + 1, t)];
                }
                if m >= passing_limit {
                    let mut forwards = 0.0;
                    for cut in s + 1..=t {
                        forwards += time(chain.forward_time[cut - 1]);
                        if m >= checkpoints[cut] {
                            let cost =
                                forwards + makespans[at(m - checkpoints[cut], cut, t)] + makespans[at(m, s, cut - 1)];
                            if cost < least {
                                (least, decision) = (cost, cut);
                            }
                        }
                    }
                }
                makespans[at(m, s, t)] = least;
                decisions[at(m, s, t)] = decision;
            }
        }
    }
    std::hint::black_box(&decisions);
    (0..=capacity).map(|m| makespans[at(m, 0, n - 1)]).collect()
}

/// CPU seconds of the authors' function, where there is one, on the chain of a file in slots.
fn authors_module(file: &str, unit: u64, capacity: usize) -> Option<f64> {
    let module = std::env::var_os("ROTOR_C")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/common/rotor_c.py");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let output = Command::new("python3")
        .args([script.as_os_str(), &module, file.as_os_str()])
        .args([unit.to_string(), capacity.to_string()])
        .output()
        .expect("python3 is on the path");
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || panic!("{}: {}", Path::new(&module).display(), String::from_utf8_lossy(&output.stderr));
    Some(text.trim().parse().unwrap_or_else(|_| failed()))
}

/// Two significant digits.
fn digits(seconds: f64) -> f64 {
    format!("{seconds:.1e}").parse().expect("what is printed as a number is one")
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
