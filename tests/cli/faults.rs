//! Methods that crash, hang, lie or say nothing: each is a row, and the other runs go on.

use std::collections::BTreeMap;

use crate::checkout::{Checkout, rows};

const METHOD: &str = "rotor-persistent";

/// Runs the suite with a fault; returns termination and error of the faulty method's rows.
fn outcomes(fault: &str, more: &str) -> Vec<(String, String)> {
    let checkout = Checkout::new();
    let done = checkout.with_fault(&format!("{METHOD}:{fault}"), &format!("run --suite mini {more}"));
    let rows = rows(&checkout.path("results/mini/records.csv"));
    let (faulty, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row["method"] == METHOD);
    assert_eq!(faulty.len(), 4, "two instances, two budgets");
    assert!(!others.is_empty() && others.iter().all(|row| row["termination"] == "feasible"));
    let errors = faulty.iter().filter(|row| row["termination"] == "error").count();
    assert_eq!(done.code, Some(i32::from(errors > 0)), "{}", done.stderr);
    if errors > 0 {
        let expected = format!(
            "error: {errors} of {} rows ended in an error; see column error of results/mini/records.csv",
            4 + others.len()
        );
        assert_eq!(done.last_error(), expected);
    }
    assert!(faulty.iter().all(|row| row["overhead"].is_empty() || row["termination"] == "error"));
    faulty.into_iter().map(|row| (row["termination"].clone(), row["error"].clone())).collect()
}

fn all(outcomes: &[(String, String)], termination: &str, error: &str) {
    for (found, words) in outcomes {
        assert_eq!(found, termination, "{words}");
        assert!(words.contains(error), "{words:?} does not contain {error:?}");
    }
}

#[test]
fn a_worker_that_aborts_is_a_row() {
    all(&outcomes("abort", ""), "error", "killed by signal 6 (SIGABRT)");
}

#[test]
fn a_worker_that_panics_is_a_row_with_its_words() {
    all(&outcomes("panic", ""), "error", "a panic on purpose");
}

#[test]
fn a_worker_that_hangs_is_killed_at_its_limit_and_is_a_row() {
    all(&outcomes("hang", "--time-limit 0.5"), "time_limit", "killed: still running after the limit of 0.5 s");
}

#[test]
fn a_worker_that_uses_up_its_cpu_time_in_a_child_of_its_own_is_killed_with_it() {
    let checkout = Checkout::new();
    let done = checkout.with_fault(
        &format!("{METHOD}:burn"),
        "run --suite mini --instances counter --methods rotor-persistent --cpu-limit 0.5 --details",
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for row in rows(&checkout.path("results/mini/records.csv")) {
        assert_eq!(row["termination"], "cpu_limit");
        assert_eq!(row["error"], "killed: used more CPU time than the limit of 0.5 s");
        assert_eq!(row["cpu_limit_seconds"], "0.5");
        // The child used nearly all of it, and counts.
        assert!(row["cpu_seconds"].parse::<f64>().unwrap() >= 0.5, "{}", row["cpu_seconds"]);
    }
    assert!(done.stdout.contains("timeout"), "{}", done.stdout);
}

#[test]
fn the_logs_of_solvers_are_kept_and_only_those() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods checkmate-ilp,store-all");
    let folder = checkout.path("results/mini/logs/counter");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert!(text.starts_with("# bench 2") && text.contains(": checkmate-ilp at 0.6x 1.0x\n"), "{text}");
    assert!(text.contains("Running HiGHS"), "{text}");
}

#[test]
fn a_worker_out_of_memory_is_a_row() {
    all(
        &outcomes("oom", "--memory-limit 1GiB"),
        "memory_limit",
        "out of memory: memory allocation of 1099511627776 bytes failed",
    );
}

#[test]
fn what_a_solver_prints_by_itself_does_not_spoil_its_answers() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods revolve --out clean");
    let done = checkout.with_fault("revolve:garbage", "run --suite mini --methods revolve --out noisy");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let results = |folder: &str| {
        let rows = rows(&checkout.path(&format!("{folder}/records.csv")));
        rows.into_iter().map(|row| (row["simulated_time"].clone(), row["error"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(results("noisy"), results("clean"));
}

#[test]
fn a_worker_without_answers_is_a_row() {
    all(&outcomes("silent", ""), "error", "returns no answers");
}

#[test]
fn an_illegal_schedule_is_a_failed_row_that_names_the_step() {
    all(&outcomes("illegal", ""), "error", "illegal schedule: step 0");
}

#[test]
fn a_wrong_claim_is_a_failed_row() {
    all(&outcomes("claim", ""), "error", "the claimed one 0");
}

#[test]
fn parallel_jobs_write_the_same_rows() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --out one");
    checkout.ok("run --suite mini --out three --jobs 3 --threads 1");
    let results = |folder: &str| {
        let mut rows: Vec<_> = rows(&checkout.path(&format!("{folder}/records.csv")))
            .into_iter()
            .map(|row| {
                ["instance", "method", "parameters", "budget", "termination", "simulated_time"].map(|c| row[c].clone())
            })
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(results("one"), results("three"));
}

#[test]
fn what_a_worker_reported_before_it_was_killed_is_kept() {
    let checkout = Checkout::new();
    let done = checkout.with_fault(&format!("{METHOD}:hang-late"), "run --suite mini --time-limit 0.5");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let mut rows = rows(&checkout.path("results/mini/records.csv"));
    rows.retain(|row| row["method"] == METHOD);
    assert_eq!(rows.len(), 4, "two instances, two budgets");
    for row in rows {
        assert_eq!(row["termination"], "time_limit");
        assert!(row["error"].starts_with("killed: still running"), "{}", row["error"]);
        assert!(!row["simulated_time"].is_empty() && row["lower_bound"] == "1");
        let file = format!("{}/{METHOD}[{}]@{}", row["instance"], row["parameters"], row["budget"]);
        assert!(checkout.path(&format!("results/mini/schedules/{file}.json.zst")).exists(), "{file}");
        let trace = std::fs::read_to_string(checkout.path(&format!("results/mini/traces/{file}.csv"))).unwrap();
        let last = trace.lines().last().unwrap();
        let numbers = format!("{},{},1,1,", row["claimed_time"], row["claimed_peak"]);
        assert!(trace.starts_with("seconds,claimed_time,"), "{trace}");
        assert!(last.ends_with(&numbers), "{last} is not {numbers}");
    }
}

#[test]
fn a_bound_of_an_unknown_class_takes_no_schedule_away() {
    let checkout = Checkout::new();
    // Of `auto` a bound may be one on fewer schedules than it looks for, and it says so only at the end.
    let done = checkout.with_fault("auto:hang-high", "solve counter --method auto --budget 0.8x --time-limit 0.5");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("termination    time_limit"), "{}", done.stdout);
    assert!(done.stdout.contains("lower bound    -"), "{}", done.stdout);
}

/// Rows of the method, without what is measured, after a run with a fault.
fn rows_with(checkout: &Checkout, fault: &str, out: &str, more: &str) -> Vec<BTreeMap<String, String>> {
    let arguments =
        format!("run --suite mini --methods {METHOD} --instances counter --budgets 0.6x,0.8x,1.0x --out {out} {more}");
    checkout.with_fault(fault, &arguments);
    let measured = ["build_seconds", "solve_seconds", "wall_seconds", "cpu_seconds", "peak_rss_bytes", "timestamp"];
    let settings = ["time_limit_seconds", "cpu_limit_seconds"];
    let kept = |(name, _): &(String, String)| !measured.contains(&&**name) && !settings.contains(&&**name);
    rows(&checkout.path(&format!("{out}/records.csv")))
        .into_iter()
        .map(|row| row.into_iter().filter(kept).collect())
        .collect()
}

#[test]
fn a_panic_a_hang_and_burnt_time_at_one_budget_are_that_budgets_and_the_others_rows_are_what_they_would_be() {
    let checkout = Checkout::new();
    let expected = rows_with(&checkout, "", "undisturbed", "");
    assert_eq!(expected.len(), 3);
    for (at, row) in expected.iter().enumerate() {
        let bytes = &row["budget_size"];
        for (kind, more, termination, words) in [
            ("panic-at", "", "error", "a panic on purpose at "),
            ("hang-at", "--time-limit 0.4", "time_limit", "killed: still running after the limit of 0.4 s"),
        ] {
            let found = rows_with(&checkout, &format!("{METHOD}:{kind}-{bytes}"), &format!("{kind}-{at}"), more);
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                if index == at {
                    assert_eq!(found["termination"], termination);
                    assert!(
                        found["error"].contains(words) && !found["error"].contains("budgets"),
                        "{}",
                        found["error"]
                    );
                } else {
                    assert_eq!(found, expected, "{kind} at budget {at}");
                }
            }
        }
    }
}

/// It was an error: zstd says so in words of its own, and only where the instance is read.
#[test]
fn memory_that_is_lacking_while_the_instance_is_decompressed_is_its_limit() {
    let checkout = Checkout::new();
    let done = checkout.bench("solve random --method store-all --memory-limit 12MB --format json");
    let row: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(row["termination"], "memory_limit", "{row}");
}

#[test]
fn a_method_that_dies_is_the_error_of_solve() {
    let done = Checkout::new().with_fault("revolve:abort", "solve counter --method revolve");
    assert_eq!(done.code, Some(1));
    assert!(done.last_error().contains("SIGABRT"), "{}", done.stderr);
}
