//! A row is a function of its key: fresh, cached, resumed and killed sweeps of every method have the same rows, and traces that
//! end the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::checkout::{Checkout, rows};

/// Columns that are measured, or say where the row was made.
const MEASURED: [&str; 8] = [
    "build_seconds",
    "solve_seconds",
    "wall_seconds",
    "cpu_seconds",
    "peak_rss_bytes",
    "timestamp",
    "cached",
    "git_revision",
];

/// Every method, at budgets of which none is a fraction of another.
fn checkout() -> Checkout {
    let checkout = Checkout::new();
    std::fs::remove_dir_all(checkout.path("instances/small")).unwrap();
    std::fs::create_dir(checkout.path("instances/small")).unwrap();
    checkout.ok("instances generate figure4 --n 3 -o instances/small/counter.json");
    checkout.ok("instances generate random-chain --stages 4 --seed 3 --kind small -o instances/small/random.json");
    let methods: serde_json::Value = serde_json::from_str(&checkout.ok("methods --format json").stdout).unwrap();
    let mut suite = String::from(
        "name = 'all'\ntitle = 't'\nanalysis = 'a'\ninstances = ['small/*']\nbudgets = ['0.55x', '0.7x', '0.85x', '1.0x']\n\
         [limits]\nthreads = 1\nseeds = [0, 7]\n",
    );
    for method in methods.as_array().unwrap() {
        let id = method["id"].as_str().unwrap();
        let parameters = match id {
            "fastsa" => "parameters = { iterations = 3000, second-iterations = 3000 }",
            "rotor-persistent" => "parameters = { slots = ['auto', 2000] }",
            "sequential" => "sweep = true",
            // Its annealing is that of fastsa's defaults, seconds a budget.
            "moccasin-reordered" => "instances = ['small/random.json']",
            _ => "",
        };
        suite.extend(["[[methods]]\nid = '", id, "'\n", parameters, "\n"]);
    }
    std::fs::write(checkout.path("instances/suites/all.toml"), suite).unwrap();
    checkout
}

/// What the rows say, by what they are about.
fn said(checkout: &Checkout, out: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let rows = rows(&checkout.path(&format!("{out}/records.csv"))).into_iter().map(|row| {
        let key = ["instance", "method", "parameters", "budget", "seed"].map(|name| row[name].as_str()).join(" ");
        (key, row.into_iter().filter(|(name, _)| !MEASURED.contains(&name.as_str())).collect())
    });
    rows.collect()
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}

/// How each trace ends, by its file; every trace goes forward in time.
fn traces(checkout: &Checkout, out: &str) -> BTreeMap<PathBuf, BTreeMap<String, String>> {
    let folder = checkout.path(&format!("{out}/traces"));
    let ends = files(&folder).into_iter().map(|path| {
        let points = rows(&path);
        let seconds: Vec<f64> = points.iter().map(|point| point["seconds"].parse().unwrap()).collect();
        assert!(seconds[0] >= 0.0 && seconds.is_sorted(), "{out}: {}: {seconds:?}", path.display());
        let end = points.last().unwrap().clone().into_iter().filter(|(name, _)| name != "seconds").collect();
        (path.strip_prefix(&folder).unwrap().to_owned(), end)
    });
    ends.collect()
}

fn same(
    found: &BTreeMap<String, BTreeMap<String, String>>,
    expected: &BTreeMap<String, BTreeMap<String, String>>,
    how: &str,
) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{how}");
    for (key, row) in expected {
        for (column, value) in row {
            assert_eq!(&found[key][column], value, "{how}: {column} of {key}");
        }
    }
}

#[test]
fn fresh_cached_resumed_and_killed_sweeps_of_every_method_have_the_same_rows() {
    let checkout = checkout();
    let run = "run --suite all --no-plots";
    checkout.ok(&format!("{run} --out fresh"));
    let fresh = said(&checkout, "fresh");
    let methods: std::collections::BTreeSet<_> = fresh.values().map(|row| row["method"].clone()).collect();
    assert!(methods.len() > 15 && fresh.values().all(|row| row["termination"] != "error"), "{methods:?}");

    // Part of the budgets, in another order, comes from the cache.
    let cached = |arguments: &str| {
        let done = checkout.command(arguments).env("BENCH_CACHE", checkout.path("cache")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    cached(&format!("{run} --budgets 0.85x,0.7x --out part"));
    cached(&format!("{run} --out cached"));
    let taken = rows(&checkout.path("cached/records.csv")).iter().filter(|row| row["cached"] == "true").count();
    assert!(taken * 3 > fresh.len() && taken < fresh.len(), "{taken} of {}", fresh.len());
    same(&said(&checkout, "cached"), &fresh, "cached");
    let ends = traces(&checkout, "fresh");
    assert!(ends.len() > 10);
    assert_eq!(traces(&checkout, "cached"), ends);

    // Every other row is gone.
    std::fs::create_dir(checkout.path("resumed")).unwrap();
    let text = std::fs::read_to_string(checkout.path("fresh/records.csv")).unwrap();
    let kept: String = text.split_inclusive('\n').step_by(2).collect();
    std::fs::write(checkout.path("resumed/records.csv"), kept).unwrap();
    checkout.ok(&format!("{run} --out resumed --resume"));
    same(&said(&checkout, "resumed"), &fresh, "resumed");

    let answered = || {
        let journals = files(&checkout.path("killed/unfinished"));
        journals.iter().any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains(r#""kind":"answer""#)))
    };
    let mut taken_up = 0;
    for pause in [0, 100, 250, 400, 700] {
        let mut command = checkout.command(&format!("{run} --out killed --resume"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        while child.try_wait().unwrap().is_none() && !answered() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // It may have come to its end before.
        let _ = child.kill();
        child.wait().unwrap();
        taken_up += usize::from(answered());
    }
    assert!(taken_up > 0, "no kill left answers behind");
    checkout.ok(&format!("{run} --out killed --resume"));
    same(&said(&checkout, "killed"), &fresh, "killed");
    assert_eq!(traces(&checkout, "killed"), ends);
}
