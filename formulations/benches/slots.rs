//! Makespan and time of Rotor's programs against the number of slots:
//! `cargo bench -p remat-formulations --bench slots -- [RULE] [CHAIN...] [SLOTS...]`, RULE `persistent` or
//! `weak`, prints CSV.
//!
//! Per reference chain and per ResNet-101 and -1001, budget (a tenth, two tenths, ... of what saving
//! everything needs) and number of slots: the makespan with sizes rounded up one by one (`rounded`), the
//! same fitted to the bytes (`fitted`), on aligned grids with the bound (`aligned`), and of the refinement
//! that is the default (`refined`); CPU seconds are those of all budgets together.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod common;

use std::path::Path;

use common::{cpu_seconds, reference_chain};
use remat_core::chain::Chain;
use remat_core::chain_view::ChainView;
use remat_core::io::read_instance;
use remat_formulations::chain::refine::{Goal, Refined, Refinement};
use remat_formulations::chain::rule::Rule;
use remat_formulations::chain::solve::{Fit, Outcome, Settings, solve};
use remat_formulations::chain::storage::{Execution, TableError};

const CHAINS: [(&str, &str); 6] = [
    ("L50", "tests/data/rotor/big_L50_S500_seed1.json"),
    ("L100", "tests/data/rotor/big_L100_S500_seed1.json"),
    ("L200", "tests/data/rotor/big0_L200_S500_seed2.json"),
    ("L339", "tests/data/rotor/big_L339_S500_seed1.json"),
    ("resnet101", "../instances/resnet/resnet101-1000-b8.json.zst"),
    ("resnet1001", "../instances/resnet/resnet1001-224-b4.json.zst"),
];
const SLOTS: [u64; 5] = [250, 500, 1000, 2000, 4000];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let rule = if arguments.iter().any(|word| word == "weak") { Rule::Weak } else { Rule::Persistent };
    let given: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let slots = if given.is_empty() { SLOTS.to_vec() } else { given };
    let names: Vec<_> =
        CHAINS.iter().map(|(name, _)| *name).filter(|name| arguments.iter().any(|a| a == name)).collect();
    println!("chain,stages,rule,sizes,slots,budget,makespan,bound,cpu_seconds");
    for (name, file) in CHAINS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        let chain = read(file);
        let peak = chain.evaluate(&chain.store_all(|_| 0)).expect("saving everything is valid").peak_bytes;
        let budgets: Vec<u64> = (1..=10).map(|k| peak / 10 * k + peak % 10).collect();
        let report = |sizes: &str, slots: u64, run: &dyn Fn() -> Vec<(Option<u64>, Option<u64>)>| {
            let started = cpu_seconds();
            let found = run();
            let seconds = cpu_seconds() - started;
            for (k, (makespan, bound)) in (1..).zip(found) {
                let text = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
                let stages = chain.len();
                let (makespan, bound) = (text(makespan), text(bound));
                println!(
                    "{name},{stages},{rule:?},{sizes},{slots},{:.1}x,{makespan},{bound},{seconds:.4}",
                    f64::from(k) / 10.0
                );
            }
        };
        let goal = Goal { loss: 0.001, bytes: 4 << 30, time: None };
        let refinement = Refinement::new(&chain, rule, goal).expect("there is memory");
        for &slots in &slots {
            for (sizes, fit) in [("rounded", Fit::Rounded), ("fitted", Fit::Exact)] {
                let settings = Settings { slots, rule, fit };
                report(sizes, slots, &|| {
                    let mut found = Vec::new();
                    let answer = |_, outcome| found.push((makespan(&chain, &outcome), None));
                    solve(&chain, &budgets, settings, Execution::default(), answer).expect("there is memory");
                    found
                });
            }
            report("aligned", slots, &|| figures(&chain, &budgets, &|budget| refinement.once(budget, slots)));
        }
        report("refined", 0, &|| figures(&chain, &budgets, &|budget| refinement.refine(budget)));
    }
}

fn figures(
    chain: &Chain,
    budgets: &[u64],
    refined: &dyn Fn(u64) -> Result<Refined, TableError>,
) -> Vec<(Option<u64>, Option<u64>)> {
    let answers = budgets.iter().map(|&budget| refined(budget).expect("there is memory"));
    answers.map(|answer| (makespan(chain, &answer.outcome), answer.lower_bound)).collect()
}

fn makespan(chain: &Chain, outcome: &Outcome) -> Option<u64> {
    let Outcome::Sequence(sequence) = outcome else { return None };
    Some(chain.evaluate(sequence).expect("sequences are valid").time)
}

fn read(file: &str) -> Chain {
    if !file.contains("instances") {
        return reference_chain(file);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let instance = read_instance(&path).expect("shipped instances are valid");
    ChainView::new(&instance).expect("residual networks have a chain view").chain
}
