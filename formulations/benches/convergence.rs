//! The objective of an annealing against its mutations (Figures 7 and 8 of fastsa-2023): with and without groups, and with
//! either way to add up memory. `cargo bench -p remat-formulations --bench convergence` writes
//! results/fastsa/convergence.csv. One thread; no row of a suite has the objective of schedules that miss the budget.
#![allow(clippy::print_stdout, reason = "a benchmark says what it measures")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use remat_core::io::read_instance;
use remat_core::simulate;
use remat_formulations::Parameters;
use remat_formulations::fastsa::anneal::Trace;
use remat_formulations::fastsa::graph::Operators;
use remat_formulations::fastsa::group::group;
use remat_formulations::fastsa::objective::{Goal, Objective};
use remat_formulations::fastsa::profile::{Peak, Soft};
use remat_formulations::fastsa::run::{Problem, Task};
use remat_formulations::fastsa::settings::{PARAMETERS, Settings};

/// The paper's settings with so many mutations in either stage, and never an early end.
const LONG: &str = "preset=paper,early-stop=off,second-iterations=1000000";

/// What a figure asks for: a budget in per cent of the given order's peak, counted beyond what is always there or not.
#[derive(Clone, Copy)]
enum Budget {
    Share(u64),
    ShareBeyondFixed(u64),
}

/// Collects mutations, objective, memory and cost.
#[derive(Default)]
struct Points(Mutex<Vec<(u64, f64, f64, u64)>>);

impl Trace for Points {
    fn at(&self, iterations: u64, objective: f64, memory: f64, cost: u64) {
        self.0.lock().expect("one thread").push((iterations, objective, memory, cost));
    }
}

fn main() {
    let llama = ("7", "llama-7b-2048-b8-unit", Budget::ShareBeyondFixed(10), "iterations=4000000");
    let vit = ("8", "vit-small-patch16-224-b512-unit", Budget::Share(25), "iterations=2000000");
    let series = [
        (llama, "with groups", ""),
        (llama, "without groups", ",grouping=off"),
        (vit, "max", ""),
        (vit, "logaddexp", ",tree=logaddexp"),
    ];
    let mut text =
        String::from("budget_percent,cost_increase_percent,figure,memory_percent,mutations,objective,series\n");
    for ((figure, name, budget, stages), series, more) in series {
        println!("figure {figure}: {series}");
        text += &converge(figure, name, series, budget, &format!("{LONG},{stages}{more}"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/fastsa/convergence.csv");
    std::fs::write(path, text).expect("results can be written");
}

/// The rows of one annealing.
fn converge(figure: &str, name: &str, series: &str, budget: Budget, settings: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../instances/fastsa/{name}.json.zst"));
    let instance = read_instance(&path).expect("shipped instances are valid");
    let pairs = settings.split(',').filter_map(|pair| pair.split_once('='));
    let given: BTreeMap<String, String> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let settings = Settings::new(&Parameters::new(PARAMETERS, &given).expect("known parameters"));
    let operators = Operators::new(&instance, settings.alternatives, settings.rates).expect("supported");
    let schedule = operators.graph.schedule(&instance, &operators.start, settings.rates);
    let given = simulate(&instance, &schedule).expect("the given order is legal");
    let budget = match budget {
        Budget::Share(percent) => given.peak_bytes / 100 * percent,
        // What is there whatever is recomputed (parameters and their gradients) is more than 10 %.
        Budget::ShareBeyondFixed(percent) => {
            operators.least_peak + (given.peak_bytes - operators.least_peak) / 100 * percent
        }
    };
    let cell = OnceLock::new();
    let inputs = |variant| operators.input_bytes(&instance, variant);
    let groups = || cell.get_or_init(|| group(&operators, inputs));
    let problem = Problem { operators: &operators, groups: &groups, settings, start: None, rescue: &|| None };
    let points = Points::default();
    let task = Task { budget, deadline: None, observer: None, trace: Some(&points) };
    drop(if settings.soft { problem.run::<Soft>(&task, 0, 0) } else { problem.run::<Peak>(&task, 0, 0) });
    let goal = Goal::new(Objective::Product, budget).value(budget as f64, given.time);
    let percent = |part: f64, whole: u64| 100.0 * part / whole as f64;
    let (mut before, mut last, mut text) = (0, 0, String::new());
    for (iterations, objective, memory, cost) in points.0.into_inner().expect("one thread") {
        // The second stage counts from nothing again.
        before += if iterations < last { last } else { 0 };
        last = iterations;
        writeln!(
            text,
            "{:.2},{:.3},{figure},{:.3},{},{:.6},{series}",
            percent(budget as f64, given.peak_bytes),
            percent(cost as f64, given.time) - 100.0,
            percent(memory, given.peak_bytes),
            before + iterations,
            objective / goal,
        )
        .expect("strings can be written to");
    }
    text
}
