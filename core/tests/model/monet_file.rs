//! Profiles of MONeT become instances: a small file by hand, and the authors'.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic where they fail, and say what they skip")]

use std::path::Path;

use remat_core::format::{InstanceDocument, Origin, TensorKind};
use remat_core::io::{read_instance, read_json};
use remat_core::liveness::with_liveness;
use remat_core::monet_file::{MonetError, MonetFile, instance_of};
use remat_core::plan::Plan;
use remat_core::{Instance, simulate};
use serde_json::{Value, json};

/// A node with one number everywhere; `more` overrides.
fn node(id: u32, kind: &str, bytes: u64, ms: f64, more: &Value) -> Value {
    let mut node = json!({
        "id": id, "kind": kind, "op": format!("aten::op{id}"), "mem_bytes": bytes, "fixed_mem_bytes": 1000,
        "deps": [{"fwd": [], "bwd": []}], "ws_mib": [0.0], "ms": [ms], "re_ws_mib": [0.0], "re_ms": [ms],
        "ip_ws_mib": [0.0], "ip_ms": [ms],
    });
    let fields = node.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    node
}

/// conv -> relu (in place, mask) -> norm -> add(conv, norm) -> loss, and back.
fn profile() -> Value {
    const MIB: f64 = 1_048_576.0;
    let conv = json!({"ws_mib": [0.5, 0.0, 0.25], "ms": [1.5, -1000.0, 2.000_000_1], "re_ws_mib": [0.5, 0.0, 0.25],
        "re_ms": [1.5, -1000.0, 2.000_000_1], "ip_ws_mib": [0.0], "ip_ms": [0.0]});
    let relu = json!({"inbound": [0], "deps": [{"fwd": [0], "bwd": []}], "intermediates": [[1, 2]],
        "ws_mib": [0.0, 64.0 / MIB], "ms": [1.0, 1.25], "re_ws_mib": [0.0, 64.0 / MIB], "re_ms": [1.0, 1.25],
        "ip_ws_mib": [-1024.0 / MIB, -960.0 / MIB], "ip_ms": [0.5, 0.75]});
    let norm = json!({"inbound": [1], "deps": [{"fwd": [1], "bwd": []}], "re_ms": [0.875], "re_ws_mib": [16.0 / MIB]});
    let add = json!({"inbound": [0, 3], "deps": [{"fwd": [0, 3], "bwd": []}]});
    let back = |fwd: u32, reads: Value, more: Value| {
        let mut all = json!({"fwd_node": fwd, "deps": [reads], "part": "ip_grad"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let two = json!({"ws_mib": [-1024.0 / MIB], "grad_shapes": [[-1, 128], [-1, 128]]});
    let relu_back = json!({"deps": [{"fwd": [0], "bwd": [7]}, {"fwd": [2], "bwd": [7]}], "ws_mib": [-1024.0 / MIB, -768.0 / MIB],
        "ms": [3.0, 3.5], "grad_shapes": [[-1, 128]]});
    json!({"model": "by hand", "batch": 2, "mode": "all", "loss": 5, "conv_list": [0], "inplace_list": [[1, 0], [2, 0]],
    "nodes": [
        node(0, "forward", 1024, 0.0, &conv),
        node(1, "forward", 1024, 0.0, &relu),
        node(2, "intermediate", 32, 0.25, &json!({"inbound": [1]})),
        node(3, "forward", 1024, 1.0, &norm),
        node(4, "forward", 1024, 1.0, &add),
        node(5, "loss", 8, 0.0, &json!({"inbound": [4], "deps": [{"fwd": [4], "bwd": []}]})),
        node(6, "backward", 2048, 0.25, &back(4, json!({"fwd": [5], "bwd": []}), two)),
        node(7, "backward", 1024, 0.5, &back(3, json!({"fwd": [1], "bwd": [6]}), json!({"grad_shapes": [[-1, 128]]}))),
        node(8, "backward", 1024, 0.0, &back(1, json!({}), relu_back)),
        node(9, "backward", 0, 1.0, &back(0, json!({"fwd": [], "bwd": [6, 8]}), json!({"stored_param_grad_bytes": 400}))),
    ]})
}

fn converted(profile: Value) -> Result<InstanceDocument, MonetError> {
    let file: MonetFile = serde_json::from_value(profile).expect("a profile");
    instance_of("by-hand", &file, &Origin::Exact {})
}

#[test]
fn a_profile_becomes_an_instance_with_its_implementations() {
    let document = converted(profile()).unwrap();
    let instance = Instance::new(&document).unwrap();
    let ways = |id: usize| {
        let ways = instance.operators()[id].implementations.iter();
        ways.map(|way| (way.name.as_str(), way.time, way.workspace_bytes, way.saves.len())).collect::<Vec<_>>()
    };
    assert_eq!(ways(0), [("cudnn:0", 1_500_000, 524_288, 0), ("cudnn:2", 2_000_001, 262_144, 0)]);
    assert_eq!(
        ways(1),
        [
            ("default", 1_000_000, 0, 0),
            ("saves:1", 1_250_000, 32, 1),
            ("default:in-place", 500_000, 0, 0),
            ("saves:1:in-place", 750_000, 32, 1)
        ]
    );
    assert_eq!(ways(2), [("default", 1_000_000, 0, 0), ("recompute", 875_000, 16, 0)]);
    assert!(instance.operators()[2].updates_state && instance.operators()[2].implementations[1].recompute);
    // The two gradients of the sum are two tensors, of which the first takes over nothing: the loss is no gradient.
    assert_eq!(instance.operators()[5].outputs.len(), 2);
    assert_eq!(ways(5), [("variant0", 250_000, 0, 0)]);
    // Of the gradient of relu's output there is one reader, so that it may be overwritten.
    let names: Vec<_> = ways(7).iter().map(|way| (way.0, way.2)).collect();
    assert_eq!(names, [("variant0", 0), ("variant0:in-place", 0), ("variant1", 0), ("variant1:in-place", 256)]);
    assert_eq!((instance.fixed().parameters, instance.input_bytes()), (400, 600));
    assert_eq!(instance.bytes_of(|tensor| tensor.kind == TensorKind::ParamGradient), 400);
    let notes = instance.provenance().notes.join("; ");
    assert!(notes.contains("1 convolution algorithms failed") && notes.contains("6:op6, 8:op8"), "{notes}");
}

#[test]
fn storing_all_runs_every_operator_once_and_each_part_of_a_gradient_goes_to_its_reader() {
    let instance = Instance::new(&converted(profile()).unwrap()).unwrap();
    let schedule = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
    let simulation = simulate(&instance, &schedule).unwrap();
    assert_eq!(simulation.time, 1_500_000 + 1_000_000 * 3 + 250_000 + 500_000 + 3_000_000 + 1_000_000);
    let reads = |operator: usize| instance.operators()[operator].implementations[0].reads.clone();
    let parts = &instance.operators()[5].outputs;
    assert!(reads(6).contains(&parts[1]) && !reads(6).contains(&parts[0]));
    assert!(reads(8).contains(&parts[0]) && !reads(8).contains(&parts[1]));
}

#[test]
fn what_makes_no_instance_is_named() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut profile = profile();
        change(&mut profile);
        converted(profile).unwrap_err().to_string()
    };
    let cases = [
        changed(&|p| p["nodes"][0]["ms"] = json!([-1000.0, -1000.0, -1000.0])),
        changed(&|p| p["nodes"][3]["ws_mib"] = json!([0.1])),
        changed(&|p| p["nodes"][7]["deps"][0]["bwd"] = json!([9])),
        changed(&|p| p["nodes"][4]["kind"] = json!("backward")),
        changed(&|p| p["nodes"][8]["ms"] = json!([3.0])),
        changed(&|p| p["nodes"] = json!([])),
        changed(&|p| p["loss"] = json!(77)),
        changed(&|p| p["loss"] = json!(u32::MAX)),
        changed(&|p| {
            p["loss"] = json!(u32::MAX - 1);
            p["nodes"][6]["fwd_node"] = json!(u32::MAX - 1);
        }),
        changed(&|p| p["nodes"][6]["fwd_node"] = json!(u32::MAX)),
        changed(&|p| p["inplace_list"] = json!([[5, u32::MAX]])),
        changed(&|p| p["inplace_list"] = json!([[5, 3]])),
        changed(&|p| p["nodes"][9]["stored_param_grad_bytes"] = json!(u64::MAX)),
        changed(&|p| p["nodes"][6]["mem_bytes"] = json!(u64::MAX)),
    ];
    let expected = [
        "node 0: all 3 algorithms failed (negative times); profile it again",
        "node 3: ws_mib of variant 0 is 0.1; expected MiB that are a whole number of bytes",
        "node 7: deps.bwd names node 9, which is no earlier backward node",
        "node 4: is \"backward\"; expected forward or intermediate",
        "node 8: ms of variant 1 is missing; expected a number",
        "nodes is empty; a profile has at least the node of the loss",
        "loss is 77, but the nodes are 0 to 9; set it to the id of the node of kind \"loss\"",
        "loss is 4294967295, but the nodes are 0 to 9; set it to the id of the node of kind \"loss\"",
        "loss is 4294967294, but the nodes are 0 to 9; set it to the id of the node of kind \"loss\"",
        "node 6: fwd_node names node 4294967295, which is no forward node",
        "node 5: inplace_list names node 4294967295, which is no input of it",
        "node 5: inplace_list names node 3, which is no input of it",
        "node 9: stored_param_grad_bytes is 18446744073709551615; expected at most 2^53 bytes",
        "node 6: mem_bytes is 18446744073709551615; expected at most 2^53 bytes",
    ];
    assert_eq!(cases, expected);
}

#[test]
fn shapes_whose_sizes_overflow_make_one_gradient_and_no_panic() {
    let mut profile = profile();
    profile["nodes"][6]["grad_shapes"] = json!([[-1, i64::MAX], [(1_u64 << 61) - 1]]);
    assert!(converted(profile.clone()).is_ok());
    profile["nodes"][6]["grad_shapes"] = json!([[(1_u64 << 61) - 1], [(1_u64 << 61) - 1], [(1_u64 << 61) - 1]]);
    profile["nodes"][4]["inbound"] = json!([0, 1, 3]);
    assert!(converted(profile).is_ok());
}

/// 0.01 ms, rounded up as MONeT does.
fn units(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(10_000)
}

#[test]
fn storing_all_of_the_authors_profiles_agrees_with_their_sums() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sums = std::fs::read_to_string(root.join("results/published/monet-profiles.csv")).unwrap();
    for line in sums.lines().skip(1) {
        let (name, sums) = line.split_once(',').unwrap();
        let sums: Vec<u64> = sums.split(',').map(|sum| sum.parse().unwrap()).collect();
        let &[forward, _, _, backward] = sums.as_slice() else { panic!("{line}: expected four sums") };
        let instance = read_instance(&root.join(format!("instances/published/monet/{name}.json.zst"))).unwrap();
        let schedule = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
        let simulation = simulate(&instance, &schedule).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(simulation.recomputations(), 0);
        let of_side = |in_forward: bool| {
            let chosen = schedule.steps.iter().filter_map(|step| match *step {
                remat_core::Step::Compute { operator, implementation } => {
                    Some((instance.operator(operator), implementation))
                }
                _ => None,
            });
            let side = chosen.filter(|(operator, _)| operator.phase.is_forward() == in_forward);
            side.map(|(operator, way)| units(operator.implementations[way].time)).sum::<u64>()
        };
        assert_eq!((of_side(true), of_side(false)), (forward, backward), "{name}");
    }
}

/// Needs the authors' own files: an instance has their numbers in other units.
#[test]
fn the_importer_keeps_every_time_and_workspace_of_the_authors_profiles() {
    let Some(folder) = std::env::var_os("BENCH_REFERENCE_DATA") else {
        eprintln!(
            "SKIPPED: BENCH_REFERENCE_DATA is not set, so imported numbers are not compared with the authors' files"
        );
        return;
    };
    let files = std::fs::read_dir(Path::new(&folder).join("monet-p100")).unwrap().flatten().map(|file| file.path());
    let profiles: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".json.gz")).collect();
    assert!(profiles.len() >= 30);
    for path in profiles {
        let value: Value = read_json(&path).unwrap();
        let nodes = value["nodes"].clone();
        let file: MonetFile = serde_json::from_value(value).unwrap();
        let instance = Instance::new(&instance_of("profile", &file, &Origin::Exact {}).unwrap()).unwrap();
        for operator in instance.operators() {
            for way in &operator.implementations {
                let at: usize = way.name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
                let plain = ["default", "cudnn", "variant"].iter().any(|word| way.name.starts_with(word));
                if plain && way.in_place.is_none() {
                    let published = &nodes[operator.file_id as usize]["int"];
                    assert_eq!(published["cost"][at].as_u64(), Some(units(way.time)), "{} {}", operator.name, way.name);
                    let workspace = published["ws_kib"][at].as_i64().map(|size| size.max(0).unsigned_abs());
                    assert_eq!(workspace, Some(way.workspace_bytes.div_ceil(1024)), "{} {}", operator.name, way.name);
                }
            }
        }
    }
}
