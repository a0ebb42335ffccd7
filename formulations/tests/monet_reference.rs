//! MONeT on the authors' P100 profiles: what Gurobi proved optimal there is found here.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use remat_core::format::Origin;
use remat_core::io::read_json;
use remat_core::monet_file::{MonetFile, instance_of};
use remat_core::{Instance, simulate};
use remat_formulations::{Answer, Context, Limits, Parameters, Progress, Reporter, Termination, find};

const GIB: u64 = 1 << 30;

/// An instance of the authors' profiles, where they are at hand.
fn profile(name: &str) -> Option<Instance> {
    let Some(folder) = std::env::var_os("BENCH_REFERENCE_DATA") else {
        eprintln!("SKIPPED: BENCH_REFERENCE_DATA is not set, so MONeT is not compared with what Gurobi reached");
        return None;
    };
    let path = Path::new(&folder).join("monet-p100").join(format!("{name}.json.gz"));
    let file: MonetFile = read_json(&path).expect("a profile");
    let document = instance_of(name, &file, &Origin::Exact).expect("an instance");
    Some(Instance::new(&document).expect("valid"))
}

fn solve(instance: &Instance, budget: u64, given: &[(&str, &str)]) -> Answer {
    let method = find("monet").expect("registered");
    let given: BTreeMap<String, String> = given.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let parameters = Parameters::new(method.about().parameters, &given).expect("parameters of monet");
    let limits = Limits { time: Some(Duration::from_secs(600)), threads: 1, seed: 0 };
    let budgets = [Some(budget)];
    let answers = method.solve(&Context::new(instance, &parameters, &budgets, limits)).expect("solved");
    answers.into_iter().next().expect("one answer per budget")
}

/// Prints what comes, with the time.
struct Printer(std::time::Instant);

impl Reporter for Printer {
    fn report(&self, _index: usize, progress: Progress) {
        let seconds = self.0.elapsed().as_secs_f64();
        let time = progress.incumbent.map(|(_, claimed)| claimed.time);
        eprintln!("{seconds:8.1} s  schedule {time:?}  bound {:?} {:?}", progress.lower_bound, progress.effort);
    }

    fn answer(&self, _index: usize, answer: &Answer) {
        eprintln!("{:8.1} s  {:?}: {}", self.0.elapsed().as_secs_f64(), answer.termination, answer.note);
    }
}

/// `MONET_CELL='resnet50_184_inplace_normal 8 strategy=relaxed' cargo test --test monet_reference -- --ignored --nocapture`
#[test]
#[ignore = "a measurement: it asserts nothing"]
fn measure_one_cell() {
    let Ok(cell) = std::env::var("MONET_CELL") else { return };
    let words: Vec<&str> = cell.split_whitespace().collect();
    let Some(instance) = profile(words[0]) else { return };
    let method = find("monet").expect("registered");
    let mut given: BTreeMap<String, String> = [("rules".to_owned(), "as-released".to_owned())].into();
    given.extend(
        words[2..].iter().filter_map(|word| word.split_once('=')).map(|(name, value)| (name.into(), value.into())),
    );
    let parameters = Parameters::new(method.about().parameters, &given).expect("parameters of monet");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few gibibytes")]
    let budgets = [Some((words[1].parse::<f64>().expect("GiB") * GIB as f64) as u64)];
    let limits = Limits { time: Some(Duration::from_secs(840)), threads: 2, seed: 0 };
    let printer = Printer(std::time::Instant::now());
    let context = Context { reporter: &printer, ..Context::new(&instance, &parameters, &budgets, limits) };
    method.solve(&context).expect("solved");
}

fn assert_optimum(name: &str, gib: u64, objective: u64, strategy: &str) {
    let Some(instance) = profile(name) else { return };
    let answer = solve(&instance, gib * GIB, &[("rules", "as-released"), ("strategy", strategy)]);
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
        assert_optimum("vgg16_176_inplace_normal", gib, objective, "lazy");
    }
}

#[test]
fn vgg16_at_8_9_and_10_gib_with_convolution_algorithms() {
    for (gib, objective) in [(8, 140_419), (9, 137_065), (10, 133_314)] {
        assert_optimum("vgg16_176_inplace_conv_normal", gib, objective, "lazy");
    }
}

#[test]
fn u_net_at_10_gib_without_alternatives() {
    assert_optimum("un_11_inplace_normal", 10, 190_944, "lazy");
}
