//! MONeT on the authors' P100 profiles: what Gurobi proved optimal there is found here.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use remat_core::format::Origin;
use remat_core::io::read_json;
use remat_core::monet_file::{MonetFile, instance_of};
use remat_core::{Instance, simulate};
use remat_formulations::{Answer, Context, Limits, Parameters, Termination, find};

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
