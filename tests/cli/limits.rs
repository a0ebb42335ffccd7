//! Limits on time are kept by the methods; the harness kills who does not.

use std::process::Command;

use crate::checkout::{Checkout, rows};

/// Wall seconds of a row.
const SECONDS: &str = "2";

#[test]
fn a_resumed_run_has_the_limits_of_the_rows_that_it_keeps() {
    let checkout = Checkout::new();
    let run = "run --suite mini --instances counter --methods store-all,rotor-persistent --no-plots";
    checkout.ok(&format!("{run} --time-limit 50"));
    let text = std::fs::read_to_string(checkout.path("results/mini/records.csv")).unwrap();
    for (given, words) in [
        (
            "--time-limit 80",
            "--time-limit 50 and 1 thread, and this run has --time-limit 80 and 1 thread; give the same limits",
        ),
        (
            "--time-limit 50 --memory-limit 1GiB",
            "and this run has --time-limit 50 --memory-limit 1073741824 and 1 thread; give",
        ),
        (
            "",
            "store-all on counter was made with --time-limit 50 and 1 thread, and this run has no limits and 1 thread; give the same limits",
        ),
    ] {
        let done = checkout.bench(&format!("{run} {given} --resume"));
        assert!(done.code == Some(2) && done.last_error().contains(words), "{}", done.stderr);
    }
    assert_eq!(std::fs::read_to_string(checkout.path("results/mini/records.csv")).unwrap(), text);
    checkout.ok(&format!("{run} --time-limit 50 --resume"));
    // Of rows that it does not keep, the limits are their own.
    checkout.ok("run --suite mini --instances counter --methods sequential --no-plots --time-limit 80 --resume");
    let tables = std::fs::read_to_string(checkout.path("results/mini/tables.md")).unwrap();
    assert!(tables.contains("rotor-persistent") && tables.contains("sequential"), "{tables}");
}

/// Says who is killed at a limit of two seconds on a network of thousands of operators. Alone on a machine:
/// `cargo test -p bench --test cli -- --ignored nobody_is_killed`.
#[test]
#[ignore = "measures times: minutes, on an idle machine"]
fn nobody_is_killed_at_a_limit_on_a_network_of_thousands_of_operators() {
    let checkout = Checkout::new();
    let methods: serde_json::Value = serde_json::from_str(&checkout.ok("methods --format json").stdout).unwrap();
    let ids: Vec<_> = methods.as_array().unwrap().iter().map(|method| method["id"].as_str().unwrap()).collect();
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/resnet/resnet1001-224-b1.json.zst");
    std::fs::copy(library, checkout.path("instances/small/resnet1001-224-b1.json.zst")).unwrap();
    let chosen = ids.join(",");
    let mut command: Command =
        checkout.command("run --suite mini --instances resnet1001* --budgets 0.7x,0.5x --out limits --no-plots");
    let done = command.args(["--time-limit", SECONDS, "--methods", &chosen]).output().unwrap();
    let rows = rows(&checkout.path("limits/records.csv"));
    assert!(rows.len() > ids.len(), "{}", String::from_utf8_lossy(&done.stderr));
    let killed = rows.iter().filter(|row| row["error"].starts_with("killed: still running"));
    let killed: Vec<_> = killed.map(|row| format!("{} at {}", row["method"], row["budget"])).collect();
    assert!(killed.is_empty(), "{}", killed.join("\n"));
}
