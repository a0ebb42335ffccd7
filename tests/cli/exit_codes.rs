//! What scripts rely on: the exit codes that `bench --help` documents.

use crate::checkout::{Checkout, Done};

#[test]
fn every_documented_exit_code_is_what_happens() {
    let checkout = Checkout::new();
    let help = checkout.ok("--help").stdout;
    let (_, rest) = help.split_once("Exit codes:\n").unwrap();
    let (section, _) = rest.split_once("\n\n").unwrap();
    let documented: Vec<i32> =
        section.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert_eq!(documented, [0, 1, 2, 130]);

    assert_eq!(checkout.bench("methods").code, Some(0));
    // Work that failed: no schedule, a full disk; an error row is in the tests of faults.
    assert_eq!(checkout.bench("solve counter --method rotor-persistent --budget 3").code, Some(1));
    assert_eq!(checkout.bench("run --suite mini --force --out /dev/null/below").code, Some(1));
    // Arguments and files that are not usable.
    for wrong in [
        "run",
        "solve counter --method nonsense",
        "run --suite mini --cpu-limit 0",
        "status nowhere",
        "run --suite mini --retry-errors",
    ] {
        let done = checkout.bench(wrong);
        assert_eq!(done.code, Some(2), "bench {wrong}: {}", done.stderr);
        assert!(done.stderr.starts_with("error: "), "bench {wrong}: {}", done.stderr);
    }
}

#[test]
fn the_book_documents_the_same_codes() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/records.md")).unwrap();
    let help = Checkout::new().ok("--help").stdout;
    let (_, rest) = help.split_once("Exit codes:\n").unwrap();
    for line in rest.lines().take_while(|line| !line.is_empty()) {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        let row = format!("| {code} | {} |", meaning.trim());
        assert!(page.contains(&row), "docs/reference/records.md lacks {row:?}");
    }
}

#[test]
fn a_cluster_that_is_not_there_is_bad_usage() {
    let checkout = Checkout::new();
    let done: Done = checkout.command("run --suite mini --launcher slurm").env("PATH", "").output().unwrap().into();
    assert_eq!(done.code, Some(2));
    assert!(done.last_error().contains("cannot be started"), "{}", done.stderr);
}
