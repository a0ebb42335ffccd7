//! `bench export` and `bench lift`: a model goes out, another solver solves it, a schedule comes back.

use std::ffi::CString;
use std::path::Path;

use crate::checkout::Checkout;

/// A training graph of four layers, in node-link form: what a backward node reads is worth dropping.
const GRAPH: &str = r#"{"graph": {"name": "four layers"},
"nodes": [
 {"id": 0, "cost_cpu": 3, "cost_ram": 10}, {"id": 1, "cost_cpu": 5, "cost_ram": 9},
 {"id": 2, "cost_cpu": 2, "cost_ram": 8}, {"id": 3, "cost_cpu": 4, "cost_ram": 1},
 {"id": 4, "cost_cpu": 4, "cost_ram": 8, "backward": true}, {"id": 5, "cost_cpu": 4, "cost_ram": 9, "backward": true},
 {"id": 6, "cost_cpu": 9, "cost_ram": 10, "backward": true}, {"id": 7, "cost_cpu": 6, "cost_ram": 2, "backward": true}],
"links": [{"source": 0, "target": 1}, {"source": 1, "target": 2}, {"source": 2, "target": 3},
 {"source": 3, "target": 4}, {"source": 4, "target": 5}, {"source": 5, "target": 6}, {"source": 6, "target": 7},
 {"source": 2, "target": 4}, {"source": 1, "target": 5}, {"source": 0, "target": 6}, {"source": 0, "target": 7}]}"#;

fn imported() -> Checkout {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("graph.json"), GRAPH).unwrap();
    checkout.ok("instances import graph.json -o instances/small/layers.json");
    checkout
}

/// What HiGHS answers when it reads a model file, as a user of `highs` would have it.
fn highs(model: &Path, solution: &Path) {
    let text = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: one instance, made, used and destroyed here; the strings live as long.
    unsafe {
        let highs = highs_sys::Highs_create();
        highs_sys::Highs_setBoolOptionValue(highs, c"output_flag".as_ptr(), 0);
        assert_ne!(highs_sys::Highs_readModel(highs, text(model).as_ptr()), highs_sys::STATUS_ERROR);
        assert_eq!(highs_sys::Highs_run(highs), highs_sys::STATUS_OK);
        assert_eq!(highs_sys::Highs_getModelStatus(highs), highs_sys::MODEL_STATUS_OPTIMAL);
        assert_ne!(highs_sys::Highs_writeSolution(highs, text(solution).as_ptr()), highs_sys::STATUS_ERROR);
        highs_sys::Highs_destroy(highs);
    }
}

fn time_of(checkout: &Checkout, command: &str) -> u64 {
    let done = checkout.ok(&format!("{command} --format json"));
    let value: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let time = value["simulated_time"].as_u64().or_else(|| value["time"].as_u64());
    time.unwrap_or_else(|| panic!("{}", done.stdout))
}

#[test]
fn a_node_link_graph_is_imported_as_it_stands() {
    let checkout = imported();
    let shown = checkout.ok("instances show layers").stdout;
    insta::assert_snapshot!("imported_graph", shown);
    std::fs::write(checkout.path("bad.json"), GRAPH.replace("\"target\": 7}]", "\"target\": 70}]")).unwrap();
    let refused = checkout.bench("instances import bad.json -o bad-out.json");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("there is no node 70"), "{}", refused.stderr);
    let itself = checkout.bench("instances import graph.json -o graph.json");
    assert!(itself.last_error().contains("reads or writes that file already"), "{}", itself.stderr);
    assert_eq!(std::fs::read_to_string(checkout.path("graph.json")).unwrap(), GRAPH);
}

#[test]
fn what_another_solver_answers_is_lifted_to_the_schedule_of_our_own() {
    let checkout = imported();
    for (instance, budget) in [("layers", "0.85x"), ("layers", "0.95x"), ("random", "0.8x"), ("counter", "0.85x")] {
        for (strategy, format) in [("plain", "lp"), ("coarse", "mps")] {
            let method = format!("checkmate-ilp[strategy={strategy}]");
            let asked = format!("{instance} --method {method} --budget {budget}");
            let expected = time_of(&checkout, &format!("solve {asked}"));
            checkout.ok(&format!("export {asked} --format {format} -o model.{format}"));
            highs(&checkout.path(&format!("model.{format}")), &checkout.path("model.sol"));
            checkout.ok(&format!("lift model.sol --model model.{format} -o lifted.json"));
            let lifted = time_of(&checkout, &format!("verify {instance} lifted.json --budget {budget}"));
            assert_eq!(lifted, expected, "{asked}");
        }
    }
    let recomputes = checkout.ok("lift model.sol --model model.mps").stdout;
    assert!(recomputes.contains("solver says    Optimal"), "{recomputes}");
    for output in ["model.sol", "model.mps", "instances/small/counter.json"] {
        let itself = checkout.bench(&format!("lift model.sol --model model.mps -o {output}"));
        assert!(itself.last_error().contains("reads or writes that file already"), "{}", itself.stderr);
    }
    // Compressed, the model is found and read just so.
    checkout.ok("export counter --method checkmate-ilp[strategy=coarse] --budget 0.85x -o other.mps.gz");
    std::fs::rename(checkout.path("model.sol"), checkout.path("other.sol")).unwrap();
    assert_eq!(checkout.ok("lift other.sol").stdout, recomputes);
}

#[test]
fn the_head_of_a_model_says_what_it_is_and_lift_says_what_came_back() {
    let checkout = imported();
    checkout.ok("export layers --method checkmate-ilp --budget 0.85x --format lp -o model.lp");
    let text = std::fs::read_to_string(checkout.path("model.lp")).unwrap();
    let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('\\')).collect();
    highs(&checkout.path("model.lp"), &checkout.path("model.sol"));
    let lifted = checkout.ok("lift model.sol").stdout;
    insta::assert_snapshot!("export_and_lift", format!("{}\n\n{lifted}", head.join("\n")));
    // The head says which instance: a change of it is found out.
    let changed = GRAPH.replace("\"cost_cpu\": 9", "\"cost_cpu\": 8");
    std::fs::write(checkout.path("graph.json"), changed).unwrap();
    checkout.ok("instances import graph.json -o instances/small/layers.json");
    let refused = checkout.bench("lift model.sol");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("was made from an instance with hash"), "{}", refused.stderr);
}

#[test]
fn a_solution_that_cannot_be_used_is_one_error() {
    let checkout = imported();
    checkout.ok("export layers --method checkmate-ilp --budget 0.85x -o model.mps");
    let cases = [
        ("", 2, "model.sol: lists no values; expected lines of a name and a number"),
        ("R_1_0 maybe\n", 2, "model.sol: line 1: \"R_1_0 maybe\" is not a name and a number"),
        ("y_1 1\n", 2, "model.sol: line 1: the model has no variable \"y_1\"; is this the solution of another model?"),
        (
            "R_4_0 0.5\n",
            2,
            "model.sol: a zero-one variable is 0.5 away from a whole number; solve the model as a mixed-integer program",
        ),
        ("R_7_0 0\n", 1, "model.sol: the budget is 30, but the simulated peak is 36"),
    ];
    for (text, code, message) in cases {
        std::fs::write(checkout.path("model.sol"), text).unwrap();
        let done = checkout.bench("lift model.sol");
        assert_eq!((done.code, done.last_error()), (Some(code), format!("error: {message}").as_str()));
    }
    let missing = checkout.bench("lift elsewhere.sol");
    assert_eq!(
        missing.last_error(),
        "error: none of elsewhere.mps, elsewhere.lp, elsewhere.cp-model is there; name the exported model with --model"
    );
    let relaxed = "export layers --method checkmate-lp --budget 0.85x -o relaxed.mps";
    checkout.ok(relaxed);
    std::fs::write(checkout.path("relaxed.sol"), "R_4_0 0.5\n").unwrap();
    assert!(checkout.bench("lift relaxed.sol").last_error().contains("the model is a relaxation"));
    let refused = checkout.bench("export layers --method store-all");
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.last_error().contains("is not one model that a solver could be given; these are: checkmate-ilp"),
        "{}",
        refused.stderr
    );
    for (format, name) in [("lp", "m.mps"), ("mps", "m.lp.gz")] {
        let done = checkout.bench(&format!("export layers --method checkmate-ilp --format {format} -o {name}"));
        let words = format!("error: {name}: the model is written as {format}; give --format ");
        assert!(done.code == Some(2) && done.last_error().starts_with(&words), "{}", done.stderr);
    }
    let squeezed = checkout.bench("export layers --method checkmate-ilp -o m.mps.zst");
    assert_eq!(squeezed.last_error(), "error: m.mps.zst: models are compressed by gzip alone; end its name in .gz");
    let impossible = checkout.bench("export layers --method checkmate-ilp --budget 3");
    assert!(impossible.last_error().contains("on layers: one operator alone needs "), "{}", impossible.stderr);
    assert!(impossible.last_error().ends_with("than the budget 3: infeasible, no model"), "{}", impossible.stderr);
    checkout.ok("export layers --method checkmate-ilp --budget 0.85x --format lp -o two.lp");
    checkout.ok("export layers --method checkmate-ilp --budget 0.85x -o two.mps");
    assert_eq!(
        checkout.bench("lift two.sol").last_error(),
        "error: the solution could be of two.mps or of two.lp; say of which with --model"
    );
}

#[test]
fn monets_program_is_exported_and_lifted_to_the_schedule_that_solves_it() {
    let checkout = imported();
    let cases = [("random", "0.8x", "mps"), ("counter", "0.85x", "lp"), ("layers", "0.85x", "mps")];
    for (instance, budget, format) in cases {
        for method in ["monet[strategy=plain]", "monet[in-place=off]", "monet[modes=noop]"] {
            let asked = format!("{instance} --method {method} --budget {budget}");
            checkout.ok(&format!("export {asked} --format {format} -o model.{format}"));
            let expected = time_of(&checkout, &format!("solve {asked}"));
            highs(&checkout.path(&format!("model.{format}")), &checkout.path("model.sol"));
            checkout.ok(&format!("lift model.sol --model model.{format} -o lifted.json"));
            let lifted = time_of(&checkout, &format!("verify {instance} lifted.json --budget {budget}"));
            assert_eq!(lifted, expected, "{asked}");
        }
    }
    let text = std::fs::read_to_string(checkout.path("model.mps")).unwrap();
    assert!(!text.contains(" x_"), "every column has a name of its own");
    let asked = "random --method monet-lp --budget 0.8x";
    checkout.ok(&format!("export {asked} -o relaxed.mps"));
    std::fs::write(checkout.path("relaxed.sol"), "r_1_0_0 0.5\n").unwrap();
    assert!(checkout.bench("lift relaxed.sol").last_error().contains("the model is a relaxation"));
    let impossible = checkout.bench("export random --method monet --budget 3");
    assert!(impossible.last_error().contains("infeasible, no model"), "{}", impossible.stderr);
}

#[test]
fn moccasin_is_exported_for_cp_sat_and_a_response_to_another_model_is_refused() {
    let checkout = imported();
    let asked = "layers --method moccasin --budget 0.85x";
    checkout.ok(&format!("export {asked} --format cp-model -o model.cp-model"));
    let text = std::fs::read_to_string(checkout.path("model.cp-model")).unwrap();
    assert!(text.starts_with("# bench: ") && text.contains("cumulative {"), "{text}");
    std::fs::write(checkout.path("model.txt"), "status: OPTIMAL\nsolution: [1, 2, 3]\n").unwrap();
    let done = checkout.bench("lift model.txt");
    assert_eq!(done.code, Some(2));
    assert!(done.last_error().contains("is no solution of this model"), "{}", done.stderr);
    let done = checkout.bench(&format!("export {asked} --format lp"));
    assert_eq!(done.last_error(), "error: moccasin has no text in the form lp; name another with --format: cp-model");
}
