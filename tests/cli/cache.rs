//! Rows that need not be computed again.

use std::process::Command;

use crate::checkout::{Checkout, Done, rows};

fn cached(checkout: &Checkout, arguments: &str) -> Command {
    let mut command = checkout.command(arguments);
    command.env("BENCH_CACHE", checkout.path("cache"));
    command
}

/// Runs a command with a cache; returns how many rows it took from there.
fn taken(checkout: &Checkout, arguments: &str) -> usize {
    let done: Done = cached(checkout, arguments).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let line = done.stderr.lines().find(|line| line.contains(" taken from "));
    line.map_or(0, |line| line.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn a_second_run_elsewhere_takes_every_row_and_says_so() {
    let checkout = Checkout::new();
    assert_eq!(taken(&checkout, "run --suite mini --out first"), 0);
    let first = rows(&checkout.path("first/records.csv"));
    assert_eq!(taken(&checkout, "run --suite mini --out second"), first.len());
    let second = rows(&checkout.path("second/records.csv"));
    for (first, second) in first.iter().zip(&second) {
        assert_eq!((first["cached"].as_str(), second["cached"].as_str()), ("false", "true"));
        for column in ["instance", "method", "budget", "simulated_time", "wall_seconds", "timestamp", "sources"] {
            assert_eq!(first[column], second[column], "{column}");
        }
    }
    checkout.ok("check second");
    assert_eq!(checkout.ok("table first").stdout, checkout.ok("table second").stdout);
    assert_eq!(taken(&checkout, "run --suite mini --out third --fresh"), 0);
}

#[test]
fn other_limits_other_budgets_and_other_contents_are_other_rows() {
    let checkout = Checkout::new();
    let chosen = "run --suite mini --methods rotor-persistent --instances counter";
    assert_eq!(taken(&checkout, &format!("{chosen} --out a")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out b --time-limit 1000")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out c --cpu-limit 1000")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out d --memory-limit 64GiB")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out e --threads 2")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out f --budgets 0.6x,0.7x")), 1);
    checkout.ok("instances generate figure4 --n 6 -o instances/small/counter.json");
    assert_eq!(taken(&checkout, &format!("{chosen} --out g")), 0);
}

#[test]
fn what_failed_is_run_again_and_so_it_is_on_request_when_resumed() {
    let checkout = Checkout::new();
    let chosen = "run --suite mini --methods rotor-persistent --instances counter";
    let mut command = cached(&checkout, &format!("{chosen} --out a"));
    let done: Done = command.env("BENCH_TEST_FAULT", "rotor-persistent:abort").output().unwrap().into();
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert_eq!(taken(&checkout, &format!("{chosen} --out b")), 0);
    let again = checkout.bench(&format!("{chosen} --out a --resume"));
    assert_eq!(again.code, Some(1), "an error stays one: {}", again.stderr);
    let done = checkout.ok(&format!("{chosen} --out a --resume --retry-errors"));
    assert!(done.stderr.contains("1 run for 2 rows"), "{}", done.stderr);
    assert_eq!(checkout.ok("table a").stdout, checkout.ok("table b").stdout);
    let again = checkout.ok(&format!("{chosen} --out a --resume --retry-errors"));
    assert!(again.stderr.contains("0 runs for 0 rows"), "{}", again.stderr);
}

#[test]
fn an_entry_that_does_not_hold_is_not_believed() {
    let checkout = Checkout::new();
    let chosen = "run --suite mini --methods store-all --instances counter";
    assert_eq!(taken(&checkout, &format!("{chosen} --out a")), 0);
    let folders = std::fs::read_dir(checkout.path("cache")).unwrap();
    let file = std::fs::read_dir(folders.flatten().next().unwrap().path()).unwrap().flatten().next().unwrap().path();
    std::fs::write(file, "torn").unwrap();
    assert_eq!(taken(&checkout, &format!("{chosen} --out b")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out c")), 1, "it was mended");
}
