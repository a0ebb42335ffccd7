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

#[cfg(feature = "faults")]
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
    let mut entries = files(&checkout.path("cache"));
    entries.retain(|path| path.extension().is_some_and(|extension| extension == "zst"));
    let [file] = entries.as_slice() else { panic!("{entries:?}") };
    std::fs::write(file, "torn").unwrap();
    assert_eq!(taken(&checkout, &format!("{chosen} --out b")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out c")), 1, "it was mended");
}

/// The files of a folder and below.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn an_entry_is_refused_if_anything_in_it_was_changed_or_it_comes_from_elsewhere() {
    let checkout = Checkout::new();
    let chosen = "run --suite mini --methods checkmate-ilp --instances counter --budgets 1.0x";
    assert_eq!(taken(&checkout, &format!("{chosen} --out a")), 0);
    let mut entries = files(&checkout.path("cache"));
    entries.retain(|path| path.extension().is_some_and(|extension| extension == "zst"));
    let [path] = entries.as_slice() else { panic!("{entries:?}") };
    let original: serde_json::Value = remat_core::io::read_json(path).unwrap();
    let record = original["entry"].as_str().unwrap();
    for (from, to) in [
        ("\"termination\":\"optimal\"", "\"termination\":\"feasible\""),
        ("\"seed\":0", "\"seed\":1"),
        ("\"lower_bound\":", "\"lower_bound\":1"),
        ("\"note\":\"", "\"note\":\"not "),
    ] {
        let mut changed = original.clone();
        assert!(record.contains(from), "{record}");
        changed["entry"] = record.replacen(from, to, 1).into();
        remat_core::io::write_json(path, &changed).unwrap();
        assert_eq!(taken(&checkout, &format!("{chosen} --out b --force")), 0, "{to}");
        assert_eq!(taken(&checkout, &format!("{chosen} --out c --force")), 1, "it was mended");
    }
    // The same entry under another folder's secret.
    std::fs::write(checkout.path("cache/secret"), [7; 32]).unwrap();
    assert_eq!(taken(&checkout, &format!("{chosen} --out b --force")), 0);
    // A damaged secret is replaced.
    std::fs::write(checkout.path("cache/secret"), "").unwrap();
    assert_eq!(taken(&checkout, &format!("{chosen} --out b --force")), 0);
    assert_eq!(taken(&checkout, &format!("{chosen} --out b --force")), 1);
    assert_eq!(rows(&checkout.path("a/records.csv"))[0]["note"], rows(&checkout.path("c/records.csv"))[0]["note"]);
}

#[test]
fn files_that_nobody_finished_are_removed_once_they_are_old() {
    let checkout = Checkout::new();
    let folder = checkout.path("cache/ab");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, age) in [("new", 0), ("old", 7200)] {
        let file = std::fs::File::create(folder.join(format!("{name}.json.zst.1.partial"))).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
    }
    taken(&checkout, "run --suite mini --methods store-all --instances counter --out a");
    assert!(folder.join("new.json.zst.1.partial").exists() && !folder.join("old.json.zst.1.partial").exists());
}

#[test]
fn a_folder_that_cannot_be_the_cache_is_named_once() {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("cache"), "in the way of a folder").unwrap();
    let done: Done = cached(&checkout, "run --suite mini --methods store-all --out a").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let warnings: Vec<_> = done.stderr.lines().filter(|line| line.contains("/cache: cannot be the cache: ")).collect();
    assert!(warnings.len() == 1 && warnings[0].starts_with("warning: "), "{}", done.stderr);
}

#[test]
fn a_value_written_otherwise_is_the_same_setting() {
    let checkout = Checkout::new();
    let run = |value: &str, more: &str| {
        format!(
            "run --suite mini --instances counter --methods rotor-persistent[slots={value}] --out a --no-plots {more}"
        )
    };
    checkout.ok(&run("0500", ""));
    let done = checkout.ok(&run("+500", "--resume"));
    assert!(done.stderr.contains("0 runs for 0 rows"), "{}", done.stderr);
    assert!(rows(&checkout.path("a/records.csv")).iter().all(|row| row["parameters"].contains("slots=500")));
}
