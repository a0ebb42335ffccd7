//! Limits on time are kept by the methods; the harness kills who does not.

use std::process::Command;

use crate::checkout::{Checkout, rows};

/// Wall seconds of a row.
const SECONDS: &str = "2";

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
