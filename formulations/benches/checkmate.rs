//! Checkmate's models measured, as CSV on standard output:
//!
//! * `sizes FILE...`: columns, rows and nonzeros of each formulation, built and presolved, with times;
//! * `solve PERCENTS STRATEGIES SOLVERS SECONDS FILE...`: what each strategy makes of each budget within a
//!   wall limit: schedule, bound, gap, and CPU seconds, which other processes do not distort as much.
//!
//! Files are instances or node-link graphs (`*-train.json`). One thread. Percents are of what store-all
//! needs, and of what it needs beyond what is always there where they end in `r`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for people")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::cpu_seconds;
use remat_core::Instance;
use remat_core::format::Origin;
use remat_core::io::{read_instance, read_json};
use remat_core::node_link::{NodeLinkFile, instance_of};
use remat_formulations::checkmate::plain::Plain;
use remat_formulations::search::problem::Staged;
use remat_formulations::search::separation::Relaxation;
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::stages::Stages;
use remat_formulations::staged::task::Task;
use remat_formulations::{Context, Limits, Parameters, find};
use remat_solvers::{Model, Request, backend};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["sizes", files @ ..] => files.iter().enumerate().for_each(|(at, file)| sizes(at == 0, &read(file))),
        ["solve", percents, strategies, solvers, seconds, files @ ..] => {
            println!(
                "instance,percent,budget,strategy,solver,limit_seconds,termination,overhead_percent,bound_percent,gap_percent,build_seconds,cpu_seconds,note"
            );
            for file in files {
                let instance = read(file);
                for percent in percents.split(',') {
                    for (strategy, solver) in pairs(strategies, solvers) {
                        solve(&instance, percent, strategy, solver, seconds);
                    }
                }
            }
        }
        // `cargo bench` without words: the sizes of what is shipped.
        _ => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances/resnet");
            for (at, name) in ["resnet18-224-b32", "resnet50-224-b32"].into_iter().enumerate() {
                sizes(at == 0, &read(folder.join(format!("{name}.json.zst")).to_str().unwrap()));
            }
        }
    }
}

fn pairs<'a>(strategies: &'a str, solvers: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    strategies.split(',').flat_map(move |strategy| solvers.split(',').map(move |solver| (strategy, solver)))
}

fn read(file: &str) -> Instance {
    let Some(name) = file.strip_suffix("-train.json") else { return read_instance(file.as_ref()).unwrap() };
    let name = format!("{}-published", name.rsplit('/').next().unwrap());
    let graph: NodeLinkFile = serde_json::from_value(read_json(file.as_ref()).unwrap()).unwrap();
    Instance::new(&instance_of(&name, &graph, &Origin::Exact {}).unwrap()).unwrap()
}

fn budget(joint: &Joint, percent: &str) -> u64 {
    let peak = Stages::store_all(joint).claim(joint).peak_bytes;
    let part = |whole: u64, percent: &str| {
        whole / 100 * percent.parse::<u64>().unwrap() + whole % 100 * percent.parse::<u64>().unwrap() / 100
    };
    match percent.strip_suffix('r') {
        Some(percent) => joint.base_bytes + part(peak - joint.base_bytes, percent),
        None => part(peak, percent),
    }
}

fn sizes(head: bool, instance: &Instance) {
    if head {
        println!(
            "instance,formulation,columns,rows,nonzeros,build_seconds,presolved_columns,presolved_rows,presolved_nonzeros,presolve_seconds"
        );
    }
    let joint = Arc::new(Joint::new(instance).unwrap());
    let budget = Some(budget(&joint, "70r"));
    let task = Task::new(instance, Arc::clone(&joint), budget);
    report(instance.name(), "published", || Plain::new(&joint, budget).model);
    report(instance.name(), "reduced", || task.whole().model);
    report(instance.name(), "lazy", || task.exact().model().clone());
}

fn report(name: &str, what: &str, build: impl Fn() -> Model) {
    let began = cpu_seconds();
    let model = build();
    let seconds = cpu_seconds() - began;
    let (columns, rows, terms) = (model.columns(), model.rows.len(), model.nonzeros());
    let limit = Some(Duration::from_millis(1));
    let request = Request { measure_presolve: true, time: limit, ..Request::default() };
    let began = Instant::now();
    let outcome = backend("highs").unwrap().solve(&model, &request).unwrap();
    let presolved = outcome.presolved.unwrap_or_default();
    let presolve = outcome.presolve_seconds.unwrap_or(began.elapsed().as_secs_f64());
    println!(
        "{name},{what},{columns},{rows},{terms},{seconds:.3},{},{},{},{presolve:.1}",
        presolved.columns, presolved.rows, presolved.nonzeros
    );
}

fn solve(instance: &Instance, percent: &str, strategy: &str, solver: &str, seconds: &str) {
    let joint = Joint::new(instance).unwrap();
    let store_all = Stages::store_all(&joint).claim(&joint);
    let budgets = [Some(budget(&joint, percent))];
    let method = find("checkmate-ilp").unwrap();
    let given = [("strategy", strategy), ("solver", solver)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let parameters = Parameters::new(method.about().parameters, &BTreeMap::from(given)).unwrap();
    let time = seconds.parse().ok().map(Duration::from_secs_f64);
    let limits = Limits { time, threads: 1, seed: 0 };
    let began = cpu_seconds();
    let answers = method.answers(&Context::new(instance, &parameters, &budgets, limits));
    let cpu = cpu_seconds() - began;
    let answer = match answers {
        Ok(mut answers) => answers.remove(0),
        Err(error) => {
            println!("{},{percent},,{strategy},{solver},{seconds},error,,,,,{cpu:.2},{error}", instance.name());
            return;
        }
    };
    let added = |time: Option<u64>| time.map(|time| 100.0 * (time as f64 / store_all.time as f64 - 1.0));
    let time = answer.claimed.map(|claimed| claimed.time);
    let gap = time.zip(answer.lower_bound).map(|(time, bound)| 100.0 * time.saturating_sub(bound) as f64 / time as f64);
    let number = |number: Option<f64>| number.map_or(String::new(), |number| format!("{number:.4}"));
    let termination = serde_json::to_value(answer.termination).unwrap();
    println!(
        "{},{percent},{},{strategy},{solver},{seconds},{},{},{},{},{:.3},{cpu:.2},{}",
        instance.name(),
        budgets[0].unwrap_or_default(),
        termination.as_str().unwrap(),
        number(added(time)),
        number(added(answer.lower_bound)),
        number(gap),
        answer.build.as_secs_f64(),
        answer.note.replace(',', ";")
    );
}
