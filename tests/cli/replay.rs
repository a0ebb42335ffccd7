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
while IFS="$(printf '\t')" read -r instance schedule record plan; do
    case $instance in /*) ;; *) instance=$root/$instance record=$root/$record plan=${plan:+$root/$plan} ;; esac
    [ -f "$instance" ] || exit 8
    [ -z "$plan" ] || [ -f "$plan" ] || exit 7
    arena=${plan:+'"arena": {"height_bytes": 30, "beside_bytes": 5, "equal_to_plain": true},'}
    [ ! -f "$record" ] || continue
    mkdir -p "$(dirname "$record")"
    head='"format": "remat-replay", "version": 1, "device": {"kind": "'$device'", "name": "Stand-in"}'
    case $schedule in
    *rotor-persistent*) echo "{$head, \"error\": \"step 3 reads nothing\"}" ;;
    *) echo "{$head, $arena \"framework\": {\"name\": \"none\", \"version\": \"0\"},
        \"equality\": {\"equal\": true, \"bitwise\": 2, \"within_tolerance\": 1},
        \"time_ns\": {\"median\": 100, \"spread\": 1}, \"over_store_all\": {\"executed\": 1.5, \"simulated\": 1.25},
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

/// Executions of `rotor-persistent` fail, which is said at the end.
fn replayed(output: &std::process::Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && words.contains(" failed or differ; columns executed_error"), "{words}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_with_replay_fills_executed_csv_once() {
    let checkout = Checkout::new();
    let executor = Executor::new(&checkout);
    let shown = replayed(&executor.run(&checkout, "run --suite mini --replay cpu --details"));
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
    assert_eq!((&*measured["executed_over_store_all"], &*measured["simulated_over_store_all"]), ("1.5", "1.25"));
    assert_eq!(executor.runs(), executed.len());

    replayed(&executor.run(&checkout, "replay results/mini --device cpu"));
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
fn a_network_made_anew_under_its_name_is_executed_anew() {
    let checkout = Checkout::new();
    let executor = Executor::new(&checkout);
    let run = |more: &str| checkout.ok(&format!("run --suite mini --instances counter --no-plots {more}"));
    let replay = || replayed(&executor.run(&checkout, "replay results/mini"));
    run("");
    replay();
    let once = executor.runs();
    // Another network under the name, whose rows go by the same file names.
    checkout.ok("instances generate figure4 --n 6 -o instances/small/counter.json");
    std::fs::remove_file(checkout.path("results/mini/records.csv")).unwrap();
    run("");
    replay();
    assert_eq!(executor.runs(), 2 * once);
    // A fresh start keeps nothing of either.
    run("--force");
    assert!(!checkout.path("results/mini/replays").exists());
}

#[test]
fn a_folder_that_is_packed_into_twice_holds_what_the_second_pack_says() {
    let checkout = Checkout::new();
    let pack = |method: &str| {
        checkout.ok(&format!("run --suite mini --methods {method} --no-plots --out {method}"));
        checkout.ok(&format!("replay {method} --pack pack"));
        let list = std::fs::read_to_string(checkout.path("pack/list.tsv")).unwrap();
        list.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    for method in ["store-all", "sequential"] {
        let lines = pack(method);
        assert!(lines.len() > 2);
        for line in lines.iter().filter(|line| !line[1].starts_with("baseline:")) {
            let read =
                |path: &str| remat_core::io::read_json::<serde_json::Value>(&checkout.path("pack").join(path)).unwrap();
            let made_by = read(&line[1])["method"].as_str().unwrap().to_owned();
            assert!(made_by.starts_with(method), "{line:?}: {made_by}");
            assert_eq!(read(&line[0])["name"], read(&line[1])["instance"]);
        }
    }
    // The networks of the second pack are those of its rows, whatever lay there under their names.
    checkout.ok("instances generate figure4 --n 6 -o instances/small/counter.json");
    std::fs::remove_dir_all(checkout.path("sequential")).unwrap();
    let lines = pack("sequential");
    for line in lines.iter().filter(|line| !line[1].starts_with("baseline:")) {
        checkout.ok(&format!("verify pack/{} pack/{}", line[0], line[1]));
    }
}

#[test]
fn with_arena_every_schedule_goes_with_its_plan_and_has_rows_of_its_own() {
    let checkout = Checkout::new();
    let executor = Executor::new(&checkout);
    success(&executor.run(&checkout, "run --suite mini"));
    replayed(&executor.run(&checkout, "replay results/mini"));
    let refused = executor.run(&checkout, "replay results/mini --arena");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("is not there; make the plans with `bench allocate --results "), "{words}");
    success(&executor.run(&checkout, "allocate --results results/mini --threads 1"));
    let before = executor.runs();
    replayed(&executor.run(&checkout, "replay results/mini --arena"));
    let executed = rows(&checkout.path("results/mini/executed.csv"));
    let (arena, plain): (Vec<_>, Vec<_>) = executed.iter().partition(|row| row["device"] == "cpu-arena");
    assert_eq!(arena.len(), rows(&checkout.path("results/mini/plans.csv")).len());
    assert_eq!((executor.runs() - before, plain.len()), (arena.len(), arena.len() + 2), "no framework's own ways");
    let measured = arena.iter().find(|row| row["method"] == "store-all").unwrap();
    assert_eq!((&*measured["executed_arena_bytes"], &*measured["executed_beside_bytes"]), ("30", "5"));
    assert!(plain.iter().all(|row| row["executed_arena_bytes"].is_empty()));
    let table = success(&executor.run(&checkout, "table results/mini --show replay --format csv"));
    assert!(table.contains("\ncpu,store-all,") && table.contains("\ncpu-arena,store-all,"), "{table}");

    success(&executor.run(&checkout, "replay results/mini --arena --pack pack"));
    let list = std::fs::read_to_string(checkout.path("pack/list.tsv")).unwrap();
    for line in list.lines() {
        let parts: Vec<_> = line.split('\t').collect();
        assert!(parts.len() == 4 && checkout.path("pack").join(parts[3]).is_file(), "{line}");
    }
    success(&executor.run(&checkout, "replay results/mini --arena --device cuda --pack gpu"));
    assert_eq!(std::fs::read_to_string(checkout.path("gpu/list.tsv")).unwrap(), list);
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
