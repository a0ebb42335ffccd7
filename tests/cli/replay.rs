//! `bench replay` with a stand-in for the executor: a script that writes records without torch. The real one
//! is tested by the profiler's tests, on real networks.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::checkout::{Checkout, rows};

/// Writes a record for each line of the list that has none; the schedule's name makes it fail.
const EXECUTOR: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "-u -m remat_profiler replay-batch" ] || exit 9
root=$(dirname "$5")
device=$7
while IFS="$(printf '\t')" read -r instance schedule record; do
    case $instance in /*) ;; *) instance=$root/$instance record=$root/$record ;; esac
    [ -f "$instance" ] || exit 8
    [ ! -f "$record" ] || continue
    mkdir -p "$(dirname "$record")"
    head='"format": "remat-replay", "version": 1, "device": {"kind": "'$device'", "name": "Stand-in"}'
    case $schedule in
    *rotor-persistent*) echo "{$head, \"error\": \"step 3 reads nothing\"}" ;;
    *) echo "{$head, \"framework\": {\"name\": \"none\", \"version\": \"0\"},
        \"equality\": {\"equal\": true, \"bitwise\": 2, \"within_tolerance\": 1},
        \"time_ns\": {\"median\": 100, \"spread\": 1},
        \"memory\": {\"allocated_peak_bytes\": 50, \"storage_peak_bytes\": 40}, \"notes\": [\"a note\"]}" ;;
    esac > "$record"
    echo "$record" >> "$RAN"
done < "$5"
"#;

struct Executor {
    script: PathBuf,
    ran: PathBuf,
}

impl Executor {
    fn new(checkout: &Checkout) -> Self {
        let script = checkout.path("python");
        std::fs::write(&script, EXECUTOR).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { script, ran: checkout.path("ran.txt") }
    }

    fn run(&self, checkout: &Checkout, command: &str) -> std::process::Output {
        let mut started = checkout.command(command);
        started.env("REMAT_PYTHON", &self.script).env("RAN", &self.ran).output().unwrap()
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(&self.ran).unwrap_or_default().lines().count()
    }
}

fn success(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_with_replay_fills_executed_csv_once() {
    let checkout = Checkout::new();
    let executor = Executor::new(&checkout);
    let shown = success(&executor.run(&checkout, "run --suite mini --replay cpu --details"));
    assert!(shown.contains("Simulated against executed"), "{shown}");
    let solved = rows(&checkout.path("results/mini/records.csv"));
    let solved = solved.iter().filter(|row| !row["simulated_time"].is_empty()).count();
    let executed = rows(&checkout.path("results/mini/executed.csv"));
    let plain = executed.iter().filter(|row| row["method"] == "pytorch:plain").count();
    assert_eq!(executed.len(), solved + plain);
    assert_eq!(plain, 2, "one for each instance");
    let failed: Vec<_> = executed.iter().filter(|row| !row["executed_error"].is_empty()).collect();
    assert!(
        !failed.is_empty()
            && failed.iter().all(|row| row["method"] == "rotor-persistent" && row["executed_time_ns"].is_empty())
    );
    let measured = executed.iter().find(|row| row["method"] == "store-all").unwrap();
    assert_eq!((&*measured["executed_peak_bytes"], &*measured["executed_equal"]), ("50", "true"));
    assert_eq!(executor.runs(), executed.len());

    success(&executor.run(&checkout, "replay results/mini --device cpu"));
    assert_eq!(executor.runs(), executed.len(), "what is there is not run again");
    let table = success(&executor.run(&checkout, "table results/mini --show replay --format csv"));
    assert!(table.starts_with("device,method,executions,equal,") && table.contains("cpu,rotor-persistent,"), "{table}");
}

#[test]
fn a_packed_folder_is_replayed_elsewhere_and_brought_back() {
    let checkout = Checkout::new();
    let executor = Executor::new(&checkout);
    success(&executor.run(&checkout, "run --suite mini"));
    success(&executor.run(&checkout, "replay results/mini --device cuda --pack pack"));
    let list = std::fs::read_to_string(checkout.path("pack/list.tsv")).unwrap();
    assert!(list.lines().all(|line| line.starts_with("instances/") && line.contains("\trecords/")), "{list}");
    for line in list.lines() {
        let parts: Vec<_> = line.split('\t').collect();
        assert!(checkout.path("pack").join(parts[0]).is_file(), "{line}");
        assert!(parts[1].starts_with("baseline:") || checkout.path("pack").join(parts[1]).is_file(), "{line}");
    }
    let elsewhere = std::process::Command::new(&executor.script)
        .args(["-u", "-m", "remat_profiler", "replay-batch", "pack/list.tsv", "--device", "cuda"])
        .current_dir(checkout.path("."))
        .env("RAN", &executor.ran)
        .status();
    assert!(elsewhere.unwrap().success());
    success(&executor.run(&checkout, "replay results/mini --device cuda --from pack"));
    let executed = rows(&checkout.path("results/mini/executed.csv"));
    assert_eq!(executed.len(), list.lines().count());
    assert!(executed.iter().all(|row| row["device"] == "cuda"));
}

#[test]
fn what_cannot_be_replayed_is_one_line() {
    let checkout = Checkout::new();
    let executor = Executor::new(&checkout);
    success(&executor.run(&checkout, "run --suite mini"));
    let mut command = checkout.command("replay results/mini");
    let output = command.env("REMAT_PYTHON", "/nowhere/python").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("error: the executor cannot be started"), "{words}");
    let output = executor.run(&checkout, "replay results/mini --from nothing");
    assert_eq!(output.status.code(), Some(2));
    let output = executor.run(&checkout, "table results/mini --show replay");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && words.contains("nothing was executed; run bench replay"), "{words}");
}
