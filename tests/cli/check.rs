//! `bench check`: rows that are not what their schedules say.

use crate::checkout::{Checkout, edit};

const RECORDS: &str = "results/mini/records.csv";

#[test]
fn results_as_written_are_as_recorded() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    let done = checkout.ok("check results/mini");
    assert!(done.stdout.ends_with("rows: each is what the simulator says of its schedule\n"), "{}", done.stdout);
}

#[test]
fn a_row_that_was_edited_is_named() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods store-all");
    let row = &crate::checkout::rows(&checkout.path(RECORDS))[0];
    let time = &row["simulated_time"];
    let text = std::fs::read_to_string(checkout.path(RECORDS)).unwrap();
    std::fs::write(checkout.path(RECORDS), text.replace(&format!(",{time},"), ",1,")).unwrap();
    let done = checkout.bench("check results/mini");
    assert_eq!(done.code, Some(1));
    assert_eq!(
        done.stdout,
        format!("counter store-all seed 0: store_all_time: the row says 1, the simulator {time}\n")
    );
    assert_eq!(done.last_error(), "error: 1 of 1 row not as recorded");
}

#[test]
fn every_column_that_can_be_computed_is_compared() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods rotor-persistent --no-plots");
    let path = checkout.path(RECORDS);
    let text = std::fs::read_to_string(&path).unwrap();
    let row = &crate::checkout::rows(&path)[0];
    for (column, value) in [
        ("store_all_time", "0"),
        ("store_all_peak", "1"),
        ("budget_size", "1"),
        ("simulated_time", "1"),
        ("simulated_peak", "1"),
        ("overhead", "0.0"),
        ("overhead_default", "9.5"),
        ("recomputations", "99"),
    ] {
        edit(&path, column, value);
        let done = checkout.bench("check results/mini");
        assert_eq!(done.code, Some(1), "{column}: {}", done.stdout);
        let named = format!(": {column}: the row says {value}, the simulator {}\n", row[column]);
        assert!(done.stdout.ends_with(&named), "{}", done.stdout);
        assert_eq!(done.last_error(), "error: 1 of 2 rows not as recorded");
        std::fs::write(&path, &text).unwrap();
    }
    edit(&path, "overhead", "NaN");
    let done = checkout.bench("check results/mini");
    assert!(done.code == Some(2) && done.last_error().contains("line 2: overhead is \"NaN\""), "{}", done.stderr);
}

#[test]
fn a_schedule_that_is_gone_is_counted_apart_and_named() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods store-all");
    std::fs::remove_file(checkout.path("results/mini/schedules/counter/store-all[implementations=fastest].json.zst"))
        .unwrap();
    let done = checkout.bench("check results/mini");
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        done.last_error(),
        "error: 1 of 1 row not checked: the schedule file is missing, the first is \
         results/mini/schedules/counter/store-all[implementations=fastest].json.zst; remove its row, and continue the run with --resume, \
         or start it afresh with --force"
    );
}

#[test]
fn instances_that_are_not_found_are_said_once_each() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods rotor-persistent --no-plots");
    std::fs::remove_file(checkout.path("instances/small/counter.json")).unwrap();
    let done = checkout.bench("check results/mini");
    assert_eq!(done.code, Some(1));
    assert_eq!(done.stdout.lines().count(), 1, "{}", done.stdout);
    assert!(done.stdout.starts_with("not checked, 2 rows: no instance \"counter\" with the hash "), "{}", done.stdout);
    assert_eq!(
        done.last_error(),
        "error: 2 of 2 rows not checked: 1 instance not found or not as they were; run inside the checkout"
    );
}

#[test]
fn an_instance_that_has_changed_is_no_basis_for_a_check() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods store-all");
    checkout.ok("instances generate figure4 --n 6 -o instances/small/counter.json");
    let done = checkout.bench("check results/mini");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("has changed: its hash is"), "{}", done.stdout);
}

#[test]
fn the_manifest_says_how_to_repeat_the_run() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all");
    checkout.ok("run --suite mini --resume");
    let text = std::fs::read_to_string(checkout.path("results/mini/manifest.jsonl")).unwrap();
    let sessions: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(sessions.len(), 2);
    let command: Vec<_> = sessions[1]["command"].as_array().unwrap().iter().skip(1).collect();
    assert_eq!(command, ["run", "--suite", "mini", "--resume"]);
    assert!(sessions[0]["solvers"]["highs"].as_str().unwrap().contains("1."), "{text}");
    assert_eq!(sessions[0]["instances"][0]["name"], "counter");
    assert_eq!(sessions[0]["instances"][0]["path"], "instances/small/counter.json");
}
