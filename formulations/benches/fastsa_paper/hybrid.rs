//! The models of Tables 3 to 5 from the schedule of Checkmate's program: measured, and, beside the long annealings, a
//! section of the page.
//!
//! Through the method as `bench run` calls it: the program has half of [`SECONDS`] of wall time for each budget and
//! one thread; where it finds nothing, the annealing begins with the given order, and the row says so.

use std::collections::BTreeMap;
use std::time::Duration;

use remat_core::{Instance, simulate};
use remat_formulations::{Context, Limits, Parameters, Registered, find};

use crate::common::cpu_seconds;
use crate::measure::{LONG, MODELS, names, shipped};
use crate::page::{cell, line, means, seconds};
use crate::rows::{Row, append, distinct, has, read, row, text};

/// What the rows are called.
const HYBRID: &str = "fastsa[start=checkmate-ilp;reheats=3]";
/// Wall time of each of 50 cells, half of it for the program: all of them together take less than ten minutes.
const SECONDS: u64 = 16;

const HEAD: &str = "
## Annealed longer, and from the schedule of Checkmate's program

Neither is in the paper; one seed each, beside the medians of `fastsa[reheats=3]` above. *long*:
`proposals=aimed,reheats=1,reheat-iterations=20000000`: one long annealing after the paper's two stages, about as many
mutations as in the paper. *hybrid*: `start=checkmate-ilp,reheats=3,reheat-iterations=500000`; the program keeps the given
order and has 8 s of wall time and one thread for each budget. Without a start: it found nothing in that time, and
the annealing began with the given order. None: no schedule within the budget. CPU seconds are of everything.

| model | operators | 50 %: `reheats=3` | long | CPU s | hybrid | CPU s | 25 %: `reheats=3` | long | CPU s | hybrid | CPU s |
|---|---:|---|---|---:|---|---:|---|---|---:|---|---:|
";

/// All models at half and a quarter of their peak.
pub fn measure() {
    for name in names("-unit") {
        let instance = shipped(&format!("fastsa/{name}.json.zst"));
        for percent in [50, 25] {
            let key = [("graph", name.clone()), ("budget_percent", percent.to_string())];
            if !has("hybrid", &key) {
                append("hybrid", &one(&instance, &name, percent));
            }
        }
    }
}

/// One budget of one model.
fn one(instance: &Instance, name: &str, percent: u64) -> Row {
    let given = |id: &str, values: &[(&str, &str)]| {
        let method = find(id).expect("registered");
        let values: BTreeMap<String, String> =
            values.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        (method, Parameters::new(method.about().parameters, &values).expect("known parameters"))
    };
    let limits = Limits { time: None, threads: 1, seed: 0 };
    let (store_all, parameters) = given("store-all", &[]);
    let all = store_all.answers(&Context::new(instance, &parameters, &[None], limits)).expect("every instance has it");
    let all = simulate(instance, all[0].schedule.as_ref().expect("without a budget")).expect("legal");
    let budget = u64::try_from(u128::from(all.peak_bytes) * u128::from(percent) / 100).expect("a share of the peak");
    let values = [("preset", "paper"), ("start", "checkmate-ilp"), ("reheats", "3"), ("reheat-iterations", "500000")];
    let limits = Limits { time: Some(Duration::from_secs(SECONDS)), ..limits };
    let (fastsa, parameters) = given("fastsa", &values);
    let began = cpu_seconds();
    let budgets = [Some(budget)];
    let context = Context { starts: &Registered, ..Context::new(instance, &parameters, &budgets, limits) };
    let answers = fastsa.answers(&context).expect("supported");
    let seconds = cpu_seconds() - began;
    let found = answers[0].schedule.as_ref().map(|schedule| simulate(instance, schedule).expect("legal"));
    let share = |ours: u64, whole: u64| 100.0 * ours as f64 / whole as f64;
    let cost = found.as_ref().map(|found| share(found.time, all.time) - 100.0);
    let memory = found.as_ref().map(|found| share(found.peak_bytes, all.peak_bytes));
    let started = answers[0].note.starts_with("started from");
    let shown = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let [cost, memory] = [cost, memory].map(shown);
    println!("{name} {percent} % {HYBRID}: {cost} % at {memory} %, started: {started}, CPU seconds: {seconds:.2}");
    row(&[
        ("graph", name.into()),
        ("operators", instance.operators().len().to_string()),
        ("budget_percent", percent.to_string()),
        ("variant", HYBRID.into()),
        ("seed", "0".into()),
        ("met", found.is_some().to_string()),
        ("started", started.to_string()),
        ("cost_increase_percent", cost),
        ("memory_percent", memory),
        ("cpu_seconds", format!("{seconds:.3}")),
    ])
}

/// The section of the page, where there are rows.
pub fn section(page: &mut String) {
    let added: Vec<Row> = ["long", "hybrid"].iter().flat_map(|part| read(&format!("fastsa/{part}.csv"))).collect();
    if added.is_empty() {
        return;
    }
    let rows: Vec<Row> = read("fastsa/models.csv").into_iter().chain(added.iter().cloned()).collect();
    page.push_str(HEAD);
    for name in distinct(&added, "graph") {
        let of = |variant: &str, budget: &str| -> Vec<&Row> {
            let same = |row: &&Row| text(row, "graph") == name && text(row, "budget_percent") == budget;
            rows.iter().filter(same).filter(|row| text(row, "variant") == variant).collect()
        };
        let any = rows.iter().find(|row| text(row, "graph") == name);
        let operators = any.map_or("", |row| text(row, "operators")).to_owned();
        let mut cells = vec![name.trim_end_matches("-unit").to_owned(), operators];
        for budget in ["50", "25"] {
            let (long, hybrid) = (of(LONG.0, budget), of(HYBRID, budget));
            let unstarted = |row: &&Row| text(row, "started") == "false" && text(row, "met") == "true";
            let note = if hybrid.iter().any(unstarted) { " (without a start)" } else { "" };
            cells.extend([cell(&of(MODELS.0, budget)).0, cell(&long).0, seconds(&long)]);
            cells.extend([format!("{}{note}", cell(&hybrid).0), seconds(&hybrid)]);
        }
        line(page, &format!("| {} |", cells.join(" | ")));
    }
    let measured = |variant: &&str| rows.iter().any(|row| text(row, "variant") == *variant);
    means(page, &rows, &[MODELS.0, LONG.0, HYBRID].into_iter().filter(measured).collect::<Vec<_>>());
}
