//! The LP text of each of Checkmate's formulations on a graph of four nodes, for the eye.

use std::collections::BTreeMap;
use std::sync::Arc;

use remat_core::Instance;
use remat_core::format::Origin;
use remat_core::node_link::{NodeLinkFile, instance_of};
use remat_formulations::search::blocks::Block;
use remat_formulations::search::problem::Staged;
use remat_formulations::search::separation::{Pass, Relaxation};
use remat_formulations::staged::joint::Joint;
use remat_formulations::staged::task::Task;
use remat_formulations::{Format, Parameters, find};
use remat_solvers::export::write_lp;
use remat_solvers::model::Numbered;

/// Two layers and their backward operators: 0 -> 1 -> 2 -> 3 and 0 -> 3.
fn graph() -> Instance {
    let text = r#"{"nodes": [
        {"id": 0, "cost_cpu": 3, "cost_ram": 4}, {"id": 1, "cost_cpu": 2, "cost_ram": 5},
        {"id": 2, "cost_cpu": 4, "cost_ram": 5, "backward": true}, {"id": 3, "cost_cpu": 6, "cost_ram": 1, "backward": true}],
        "links": [[0, 1], [1, 2], [2, 3], [0, 3]]}"#;
    let file: NodeLinkFile = serde_json::from_str(text).expect("node-link JSON");
    Instance::new(&instance_of("four", &file, &Origin::Exact {}).expect("a graph")).expect("valid")
}

fn text(method: &str, given: &[(&str, &str)]) -> String {
    let instance = graph();
    let method = find(method).expect("registered");
    let given: BTreeMap<_, _> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let parameters = Parameters::new(method.about().parameters, &given).expect("its parameters");
    let formulation = method.formulation().expect("is one model");
    let encoding = formulation(&instance, &parameters, Some(10)).expect("feasible");
    let mut out = Vec::new();
    encoding.write(Format::Lp, &mut out, &encoding.facts()).expect("memory takes everything");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_published_program_of_four_nodes() {
    insta::assert_snapshot!(text("checkmate-ilp", &[("strategy", "plain")]));
}

#[test]
fn the_reduced_program_of_four_nodes() {
    insta::assert_snapshot!(text("checkmate-ilp", &[]));
}

#[test]
fn the_relaxation_of_four_nodes() {
    insta::assert_snapshot!(text("checkmate-lp", &[]));
}

#[test]
fn the_coarse_relaxation_of_four_nodes_in_two_blocks() {
    let instance = graph();
    let joint = Arc::new(Joint::new(&instance).expect("supported"));
    let task = Task::new(&instance, joint, Some(10));
    let blocks = vec![Block { first: 0, last: 1 }, Block { first: 2, last: 3 }];
    let mut coarse = task.over(&blocks, None);
    let nothing = vec![0.0; coarse.model().columns()];
    coarse.separate(&nothing, Pass::Whole, 1);
    let mut out = Vec::new();
    write_lp(&mut out, coarse.model(), &Numbered, &[]).expect("memory takes everything");
    insta::assert_snapshot!(String::from_utf8(out).expect("text"));
}
