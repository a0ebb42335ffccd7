//! Running time of Rotor's Algorithms 1 and 3 against the length of the chain (Figure 5 of rotor-toms-2024) and
//! the number of slots: `cargo bench -p remat-formulations --bench complexity` writes results/complexity.csv.
//!
//! Chains are the first stages of the longest reference chain; one budget, 0.7 of what saving everything
//! needs; CPU seconds of the program with the table's bytes, the most that the process had in memory for it, and the
//! cells that this is for. The original C program's times are those of tests/data/rotor/README.md.
#![allow(clippy::print_stdout, reason = "a benchmark says what it measures")]

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{cpu_seconds, peak_bytes, reference_chain};
use remat_core::chain::Chain;
use remat_formulations::chain::persistent::table::{self, Table};
use remat_formulations::chain::ranges::Ranges;
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::slots::SlottedChain;
use remat_formulations::chain::states::States;
use remat_formulations::chain::storage::Execution;
use remat_formulations::chain::weak::table::{self as weak, WeakTable};

const LENGTHS: [usize; 8] = [13, 25, 50, 75, 100, 150, 200, 339];
const SLOTS: [u64; 4] = [125, 500, 2000, 8000];
const C_PROGRAM: [(usize, f64); 4] = [(50, 0.026), (100, 0.157), (200, 0.95), (339, 4.24)];

/// One measurement.
struct Row {
    program: &'static str,
    stages: usize,
    slots: u64,
    /// Of the table, computed.
    bytes: usize,
    /// Of the process at its peak beyond what was there before, measured.
    peak_bytes: usize,
    /// Subchains (Algorithm 3) or states (Algorithm 1, as thinned out) times numbers of slots.
    cells: usize,
    seconds: f64,
}

fn main() {
    let mut rows: Vec<Row> = Vec::new();
    let whole = reference_chain("tests/data/rotor/big_L339_S500_seed1.json");
    for (stages, slots) in LENGTHS.map(|n| (n, 500)).into_iter().chain(SLOTS.map(|slots| (100, slots))) {
        let chain = Chain { stages: whole.stages[..stages].to_vec(), ..whole.clone() };
        for (program, rule) in [("algorithm-3-persistent", Rule::Persistent), ("algorithm-1-weak", Rule::Weak)] {
            let row = measure(program, &chain, slots, rule);
            let per_cell = row.peak_bytes as f64 / row.cells as f64;
            println!(
                "{program}: {stages} stages, {slots} slots: {:.4} CPU seconds, table {} MB, peak {} MB, {per_cell:.2} bytes per cell",
                row.seconds,
                row.bytes / 1_000_000,
                row.peak_bytes / 1_000_000,
            );
            rows.push(row);
        }
    }
    print!("\n{}", markdown(&rows));
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let mut text = String::from("program,stages,slots,bytes,peak_bytes,cells,cpu_seconds\n");
    for row in &rows {
        let Row { program, stages, slots, bytes, peak_bytes, cells, seconds } = row;
        writeln!(text, "{program},{stages},{slots},{bytes},{peak_bytes},{cells},{seconds:.5}")
            .expect("strings can be written to");
    }
    for (stages, seconds) in C_PROGRAM {
        writeln!(text, "original-c-persistent,{stages},500,,,,{seconds}").expect("strings can be written to");
    }
    std::fs::write(results.join("complexity.csv"), text).expect("results can be written");
}

/// The table of docs/findings/chains.md: 500 slots.
fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| stages | Algorithm 3 | table | peak, bytes per cell | Algorithm 1 | table | peak, bytes per cell |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for stages in [50, 100, 200, 339] {
        let cells = |program: &str| {
            let row = rows.iter().find(|row| (row.program, row.stages, row.slots) == (program, stages, 500));
            let row = row.expect("these lengths are measured");
            let per_cell = row.peak_bytes as f64 / row.cells as f64;
            format!("{:.3} s | {} MB | {per_cell:.1}", row.seconds, row.bytes / 1_000_000)
        };
        let (persistent, weak) = (cells("algorithm-3-persistent"), cells("algorithm-1-weak"));
        writeln!(text, "| {stages} | {persistent} | {weak} |").expect("strings can be written to");
    }
    text
}

/// Bytes and cells of the table, and the least CPU seconds of several runs.
fn measure(program: &'static str, chain: &Chain, slots: u64, rule: Rule) -> Row {
    let peak = chain.evaluate(&chain.store_all(|_| 0)).expect("saving everything is valid").peak_bytes;
    let budget = peak / 10 * 7;
    let slotted = SlottedChain::rounded(chain, budget.div_ceil(slots), rule.account());
    let capacity = slotted.slot_of_budget(budget - chain.fixed_bytes).expect("room for the input");
    let stages = chain.len();
    let (bytes, cells) = match rule {
        Rule::Weak => (weak::bytes::<u32>(&slotted, capacity), States::weak(&slotted).touched() * (capacity + 1)),
        Rule::Persistent | Rule::SaveLast => {
            (table::bytes::<u32>(stages, capacity), stages * (stages + 1) / 2 * (capacity + 1))
        }
    };
    let fill = || {
        let ranges = Ranges::new(&slotted, rule, Execution::default()).expect("no deadline");
        if rule == Rule::Weak {
            drop(WeakTable::<u32>::new(&slotted, &ranges, capacity, Execution::default()).expect("there is memory"));
        } else {
            drop(Table::<u32>::new(&slotted, &ranges, capacity, Execution::default()).expect("there is memory"));
        }
    };
    let peak_bytes = peak_bytes(fill);
    let mut seconds = f64::INFINITY;
    let mut spent = 0.0;
    while spent < 0.5 {
        let started = cpu_seconds();
        fill();
        let took = cpu_seconds() - started;
        seconds = seconds.min(took);
        spent += took.max(0.01);
    }
    Row { program, stages, slots, bytes, peak_bytes, cells, seconds }
}
