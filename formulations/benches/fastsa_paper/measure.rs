//! What is measured: annealings of single seeds at single budgets, without the sharing between budgets that
//! `bench solve` has.

use crate::common::cpu_seconds;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use remat_core::generate::layered::{Layered, layered};
use remat_core::io::read_instance;
use remat_core::{Instance, Simulation, simulate};
use remat_formulations::Parameters;
use remat_formulations::fastsa::anneal::{Best, Observer, Rank, Trace};
use remat_formulations::fastsa::graph::Operators;
use remat_formulations::fastsa::group::{Groups, group};
use remat_formulations::fastsa::objective::{Goal, Objective};
use remat_formulations::fastsa::profile::{Peak, Soft};
use remat_formulations::fastsa::run::{Annealed, Problem, Task};
use remat_formulations::fastsa::settings::{PARAMETERS, Preset, Settings};

use crate::repository;
use crate::rows::{Row, append, distinct, has, read, row, text};

/// The paper's settings; then three more annealings of the best schedule, shorter than the default.
pub const MODELS: (&str, &str) = ("fastsa[reheats=3]", "reheats=3,reheat-iterations=500000");
/// The paper's settings; then one long annealing with aimed proposals, so that all together has the paper's count.
pub const LONG: (&str, &str) =
    ("fastsa[proposals=aimed;reheats=1]", "proposals=aimed,reheats=1,reheat-iterations=20000000");
/// The paper's settings for budgets that have to be met, but for the length of the first stage.
pub const PAPER: (&str, &str) = ("fastsa[objective=elu]", "objective=elu,iterations=3000000,second-iterations=2000000");
/// Not in the paper: no groups, no early end, aimed proposals; as many mutations as in the paper.
pub const AIMED: (&str, &str) = (
    "fastsa[objective=elu;proposals=aimed]",
    "objective=elu,proposals=aimed,grouping=off,early-stop=off,initial-ppm=3000",
);
/// The same for RL 4, where that misses the budget: a byte beyond it counts six times. The default does that by itself.
pub const HEAVY: (&str, &str) = (
    "fastsa[objective=elu;proposals=aimed;penalty=6]",
    "objective=elu,proposals=aimed,grouping=off,early-stop=off,initial-ppm=3000,heavier",
);
/// Stands for the penalty and a final temperature of 3000 millionths of the initial one.
const HEAVIER: &str = ",heavier";

/// A graph, ready to be annealed under some settings.
struct Subject<'a> {
    instance: &'a Instance,
    operators: Operators,
    groups: OnceLock<Groups>,
    settings: Settings,
    /// The order of the instance.
    given: Simulation,
}

impl<'a> Subject<'a> {
    /// Under the paper's settings but for those given, and those of RL 4 that are no settings of the method.
    fn new(instance: &'a Instance, spec: &str) -> Self {
        let (spec, heavy) = spec.strip_suffix(HEAVIER).map_or((spec, false), |spec| (spec, true));
        let spec = format!("preset=paper,{spec}");
        let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given: BTreeMap<String, String> = spec.split(',').filter_map(pair).collect();
        let mut settings = Settings::new(&Parameters::new(PARAMETERS, &given).expect("known parameters"));
        if heavy {
            (settings.penalty, settings.last) = (6.0, 3e-3);
        }
        let operators = Operators::new(instance, settings.alternatives, settings.rates).expect("supported");
        let schedule = operators.graph.schedule(instance, &operators.start, settings.rates);
        let given = simulate(instance, &schedule).expect("the given order is legal");
        Self { instance, operators, groups: OnceLock::new(), settings, given }
    }

    pub fn budget(&self, percent: u64) -> u64 {
        let bytes = u128::from(self.given.peak_bytes) * u128::from(percent) / 100;
        u64::try_from(bytes).expect("a share of the peak")
    }

    fn anneal(&self, task: &Task<'_>, seed: u64, part: u64) -> Annealed {
        // The bytes of model inputs matter for which nodes are fused.
        let inputs = |variant| self.operators.input_bytes(self.instance, variant);
        let groups = || self.groups.get_or_init(|| group(&self.operators, inputs));
        let problem = Problem {
            operators: &self.operators,
            groups: &groups,
            settings: self.settings,
            start: None,
            rescue: &|| None,
        };
        let found = if self.settings.soft {
            problem.run::<Soft>(task, seed, part)
        } else {
            problem.run::<Peak>(task, seed, part)
        };
        let schedule = self.operators.graph.schedule(self.instance, &found.variants, self.settings.rates);
        let simulation = simulate(self.instance, &schedule).expect("legal");
        assert_eq!((simulation.time, simulation.peak_bytes), (found.rank.1, found.rank.2), "the claim is simulated");
        found
    }

    /// Cost increase and memory, in per cent of the given order's.
    fn shares(&self, rank: Rank) -> (f64, f64) {
        let cost = 100.0 * (rank.1 as f64 / self.given.time as f64 - 1.0);
        (cost, 100.0 * rank.2 as f64 / self.given.peak_bytes as f64)
    }

    fn row(&self, name: &str, percent: u64, variant: &str, seed: u64, rank: Rank, effort: (u64, Option<f64>)) -> Row {
        let (cost, memory) = self.shares(rank);
        let seconds = effort.1.map_or(String::new(), |seconds| format!("{seconds:.3}"));
        println!("{name} {percent} % {variant} seed {seed}: {cost:.2} % at {memory:.1} %, CPU seconds: {seconds}");
        row(&[
            ("graph", name.into()),
            ("operators", self.operators.start.len().to_string()),
            ("budget_percent", percent.to_string()),
            ("variant", variant.into()),
            ("seed", seed.to_string()),
            ("met", (rank.0 == 0).to_string()),
            ("cost_increase_percent", format!("{cost:.4}")),
            ("memory_percent", format!("{memory:.4}")),
            ("mutations", effort.0.to_string()),
            ("cpu_seconds", seconds),
        ])
    }

    /// Anneals once and adds the row; with reheats, the row before them has no figure of its own for the effort.
    fn cell(&self, part: &str, name: &str, percent: u64, variant: &str, seed: u64) {
        let key = [("graph", name.to_owned()), ("budget_percent", percent.to_string()), ("variant", variant.into())];
        if has(part, &[key.as_slice(), &[("seed", seed.to_string())]].concat()) {
            return;
        }
        let began = cpu_seconds();
        let found = self.anneal(&task(self.budget(percent)), seed, 0);
        let mutations: u64 = found.tallies.iter().map(|tally| tally.iterations).sum();
        let effort = (mutations, Some(cpu_seconds() - began));
        if part != "tables"
            && let Preset::Paper { reheats: (reheats @ 1.., each), .. } = self.settings.preset
        {
            let before = format!("{variant} before reheats");
            let effort = (mutations - reheats * each, None);
            append(part, &self.row(name, percent, &before, seed, found.rank_before_reheats, effort));
        }
        append(part, &self.row(name, percent, variant, seed, found.rank, effort));
    }
}

fn task(budget: u64) -> Task<'static> {
    Task { budget, deadline: None, observer: None, trace: None }
}

pub fn shipped(path: &str) -> Instance {
    read_instance(&repository().join("instances").join(path)).expect("shipped instances are valid")
}

/// The names of the models of Tables 3 to 5 with an ending.
pub fn names(ending: &str) -> Vec<String> {
    let folder = repository().join("instances/fastsa");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("shipped")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".json.zst").map(str::to_owned))
        .filter(|name| name.ends_with("-unit") == (ending == "-unit"))
        .collect();
    names.sort();
    names
}

/// The models of Tables 3 to 5 with an ending, at half and a quarter of their peak (Figures 4, 10 and 11).
pub fn models(part: &str, ending: &str, seeds: u64, (variant, spec): (&str, &str)) {
    let names = names(ending);
    for seed in 0..seeds {
        for name in &names {
            let instance = shipped(&format!("fastsa/{name}.json.zst"));
            let subject = Subject::new(&instance, spec);
            for percent in [50, 25] {
                subject.cell(part, name, percent, variant, seed);
            }
        }
    }
}

/// A graph of Tables 1 and 2, by the name of the paper's row.
fn table_graph(name: &str) -> Instance {
    let key = match name {
        "RL 1" => "published/moccasin/rl1-n100",
        "RL 2" => "published/moccasin/rl2-n250",
        "RL 3" => "published/moccasin/rl3-n500",
        "RL 4" => "published/moccasin/rl4-n1000",
        "CM 1" => "published/checkmate/fcn8-train",
        "CM 2" => "published/checkmate/resnet50-train",
        "VGG11" => "fastsa/vgg11-224-b512-unit",
        "ResNet18" => "fastsa/resnet18-224-b512-unit",
        other => panic!("{other} is no graph of the tables"),
    };
    shipped(&format!("{key}.json.zst"))
}

/// Tables 1 and 2.
pub fn tables() {
    let cells = read("published/fastsa-tables.csv");
    let graphs = distinct(&cells, "graph").into_iter();
    let instances: Vec<(String, Instance)> = graphs.map(|name| (name.clone(), table_graph(&name))).collect();
    for seed in 0..5 {
        for (name, instance) in &instances {
            let variants = if name == "RL 4" { [PAPER, AIMED, HEAVY].as_slice() } else { &[PAPER, AIMED] };
            for &(variant, spec) in variants {
                let subject = Subject::new(instance, spec);
                for row in cells.iter().filter(|row| text(row, "graph") == name) {
                    let percent = text(row, "budget_percent").parse().expect("whole numbers");
                    subject.cell("tables", name, percent, variant, seed);
                }
            }
        }
    }
}

/// Figure 9: budgets from 15 to 100 %, five seeds.
pub fn stability() {
    for name in ["resnet18-224-b512-unit", "vit-small-patch16-224-b512-unit"] {
        let instance = shipped(&format!("fastsa/{name}.json.zst"));
        let subject = Subject::new(&instance, "second-iterations=1000000,iterations=3000000");
        for seed in 0..5 {
            for step in 3..=20 {
                subject.cell("stability", name, 5 * step, "fastsa", seed);
            }
        }
    }
}

/// Collects the points of a convergence.
#[derive(Default)]
struct Points(Mutex<Vec<(u64, f64, f64, u64)>>);

impl Trace for Points {
    fn at(&self, iterations: u64, objective: f64, memory: f64, cost: u64) {
        self.0.lock().expect("one thread").push((iterations, objective, memory, cost));
    }
}

/// Figures 7 and 8: the objective against the mutations of both stages.
pub fn convergence() {
    let long = "early-stop=off,iterations=4000000,second-iterations=1000000";
    // What is there whatever is recomputed (parameters and their gradients) is more than 10 %.
    let llama = shipped("fastsa/llama-7b-2048-b8-unit.json.zst");
    let beyond_fixed = |subject: &Subject<'_>| {
        let fixed = subject.operators.least_peak;
        fixed + (subject.given.peak_bytes - fixed) / 10
    };
    for (series, more) in [("with groups", ""), ("without groups", ",grouping=off")] {
        let subject = Subject::new(&llama, &format!("{long}{more}"));
        let rows = converge("7", &subject, series, beyond_fixed(&subject));
        for row in &rows {
            append("convergence", row);
        }
    }
    let vit = shipped("fastsa/vit-small-patch16-224-b512-unit.json.zst");
    for (series, more) in [("max", ""), ("logaddexp", ",tree=logaddexp")] {
        let subject = Subject::new(&vit, &format!("{long}{more},iterations=2000000"));
        let rows = converge("8", &subject, series, subject.budget(25));
        for row in &rows {
            append("convergence", row);
        }
    }
}

fn converge(figure: &str, subject: &Subject<'_>, series: &str, budget: u64) -> Vec<Row> {
    if has("convergence", &[("figure", figure.into()), ("series", series.into())]) {
        return Vec::new();
    }
    let points = Points::default();
    let began = cpu_seconds();
    let found = subject.anneal(&Task { trace: Some(&points), ..task(budget) }, 0, 0);
    let (cost, memory) = subject.shares(found.rank);
    println!("figure {figure}, {series}: {cost:.2} % at {memory:.1} %, {:.1} s", cpu_seconds() - began);
    let goal = Goal::new(Objective::Product, budget);
    let (mut offset, mut last) = (0, 0);
    let points = points.0.into_inner().expect("one thread");
    let row = |(iterations, objective, memory, cost): (u64, f64, f64, u64)| {
        // The second stage counts from nothing again.
        offset += if iterations < last { last } else { 0 };
        last = iterations;
        row(&[
            ("figure", figure.into()),
            ("series", series.into()),
            ("budget_percent", format!("{:.2}", 100.0 * budget as f64 / subject.given.peak_bytes as f64)),
            ("mutations", (offset + iterations).to_string()),
            ("objective", format!("{:.6}", objective / goal.value(budget as f64, subject.given.time))),
            ("memory_percent", format!("{:.3}", 100.0 * memory / subject.given.peak_bytes as f64)),
            ("cost_increase_percent", format!("{:.3}", 100.0 * (cost as f64 / subject.given.time as f64 - 1.0))),
        ])
    };
    points.into_iter().map(row).collect()
}

/// CPU seconds of the quality runs.
const LONGEST: f64 = 30.0;

/// Notes when better schedules within the budget come.
struct Clock {
    began: f64,
    better: Mutex<Vec<(f64, u64)>>,
}

impl Observer for Clock {
    fn better(&self, (_, cost, _): Rank, _: &Best, _: u64) {
        let mut better = self.better.lock().expect("one thread");
        if better.last().is_none_or(|&(_, known)| cost < known) {
            better.push((cpu_seconds() - self.began, cost));
        }
    }
}

/// The best cost after 1, 3, 10 and 30 CPU seconds of annealings with one seed after another.
pub fn quality() {
    let layered =
        |nodes, width| Instance::new(&layered("layered", &Layered::moccasin(nodes, width), 1)).expect("valid");
    let aimed =
        "proposals=aimed,grouping=off,early-stop=off,initial-ppm=3000,iterations=4000000,second-iterations=1000000";
    let models = "reheats=3,reheat-iterations=1000000";
    let subjects = [
        ("layered-n100", layered(100, 0.27), 80, aimed),
        ("layered-n500", layered(500, 0.36), 90, aimed),
        ("vit-small", shipped("fastsa/vit-small-patch16-224-b512-unit.json.zst"), 25, models),
        ("llama-7b", shipped("fastsa/llama-7b-2048-b8-unit.json.zst"), 25, models),
    ];
    for (name, instance, percent, spec) in &subjects {
        if has("quality", &[("graph", (*name).into())]) {
            continue;
        }
        let subject = Subject::new(instance, spec);
        let clock = Clock { began: cpu_seconds(), better: Mutex::new(Vec::new()) };
        let mut part = 0;
        while cpu_seconds() - clock.began < LONGEST {
            subject.anneal(&Task { observer: Some(&clock), ..task(subject.budget(*percent)) }, 0, part);
            part += 1;
        }
        let better = clock.better.into_inner().expect("one thread");
        for seconds in [1.0, 3.0, 10.0, LONGEST] {
            let known = better.iter().filter(|&&(at, _)| at <= seconds).map(|&(_, cost)| cost).min();
            let cost = known.map(|cost| 100.0 * (cost as f64 / subject.given.time as f64 - 1.0));
            println!("{name} at {percent} % after {seconds} s: {cost:?}");
            append(
                "quality",
                &row(&[
                    ("graph", (*name).into()),
                    ("operators", subject.operators.start.len().to_string()),
                    ("budget_percent", percent.to_string()),
                    ("cpu_seconds", seconds.to_string()),
                    ("cost_increase_percent", cost.map_or(String::new(), |cost| format!("{cost:.4}"))),
                    ("annealings", part.to_string()),
                ]),
            );
        }
    }
}
