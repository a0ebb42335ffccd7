//! Methods of one's own: programs that a suite names.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::checkout::{Checkout, rows};

/// A checkout whose suite `own` has a program of these words on a tiny chain.
fn checkout(command: &str) -> Checkout {
    let checkout = Checkout::new();
    let suite = format!(
        "name = 'own'\ntitle = 't'\nanalysis = 'a'\ninstances = ['small/counter']\nbudgets = ['0.8x', '1.0x']\n\
         [limits]\ntime_seconds = 20\nthreads = 1\n[[methods]]\nid = 'mine'\ncommand = [{command}]\n"
    );
    std::fs::write(checkout.path("instances/suites/own.toml"), suite).unwrap();
    checkout
}

/// The same with a program in Python that is shipped, and its arguments.
fn checkout_with(program: &str, arguments: &str) -> Checkout {
    let checkout = checkout(&format!("'python3', '{program}'{arguments}"));
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances/programs").join(program);
    std::fs::copy(shipped, checkout.path("instances/suites").join(program)).unwrap();
    checkout
}

/// Whether programs in Python can be tried; says so where they cannot.
fn has_python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no python3");
    }
    there
}

/// A program that answers as `sh` makes of a script, and its rows.
fn answered(script: &str) -> (Checkout, Vec<HashMap<String, String>>) {
    let checkout = checkout(&format!("'sh', '-c', '''cat > /dev/null; {script}'''"));
    checkout.ok("run --suite own --no-plots");
    let rows = rows(&checkout.path("results/own/records.csv"));
    (checkout, rows)
}

/// Endings and errors of the rows that a program comes to.
fn endings(command: &str) -> Vec<(String, String)> {
    let checkout = checkout(command);
    assert_eq!(checkout.bench("run --suite own --no-plots").code, Some(1));
    let rows = rows(&checkout.path("results/own/records.csv"));
    rows.into_iter().map(|row| (row["termination"].clone(), row["error"].clone())).collect()
}

#[test]
fn the_example_in_python_meets_budgets_and_the_simulator_says_so() {
    if !has_python() {
        return;
    }
    let checkout = checkout_with("own_method.py", "");
    let text = std::fs::read_to_string(checkout.path("instances/suites/own.toml")).unwrap();
    std::fs::write(checkout.path("instances/suites/own.toml"), text.replace("small/counter", "small/*")).unwrap();
    // Nobody knows whether the program is the same as the last time: its rows are not cached.
    for flag in ["", " --force"] {
        let run = format!("run --suite own --no-plots{flag}");
        let done = checkout.command(&run).env("BENCH_CACHE", checkout.path("cache")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let rows = rows(&checkout.path("results/own/records.csv"));
        let solved: Vec<_> = rows.iter().filter(|row| row["termination"] == "feasible").collect();
        assert!(solved.len() >= 3 && rows.len() == 4, "{rows:?}");
        assert!(solved.iter().all(|row| row["claimed_peak"] == row["simulated_peak"]), "{rows:?}");
        assert!(rows.iter().all(|row| row["error"].is_empty() && row["cached"] == "false"), "{rows:?}");
        assert!(solved.iter().any(|row| row["recomputations"] != "0"), "{rows:?}");
    }
}

#[test]
fn the_shipped_suite_ends_without_an_error_and_runs_batch_norms_again() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let done = Command::new(env!("CARGO_BIN_EXE_bench"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "--suite", "own-method", "--no-plots", "--out"])
        .arg(&out)
        .env("BENCH_CACHE", "")
        .env_remove("BENCH_TEST_FAULT")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows = rows(&out.join("records.csv"));
    assert!(rows.iter().all(|row| row["error"].is_empty()), "{rows:?}");
    let again = |row: &&_| {
        let row: &HashMap<String, String> = row;
        row["method"] == "own-method" && row["instance"] == "resnet18-224-b32" && row["recomputations"] != "0"
    };
    assert!(rows.iter().filter(again).any(|row| row["termination"] == "feasible"), "{rows:?}");
}

#[test]
fn schedules_in_files_are_rows_of_a_table() {
    if !has_python() {
        return;
    }
    let checkout = checkout_with("from_files.py", ", 'mine'");
    let missing = checkout.bench("run --suite own --no-plots");
    assert_eq!(missing.code, Some(1));
    let without = rows(&checkout.path("results/own/records.csv"));
    assert!(without.iter().all(|row| row["error"].contains("there is no folder ")), "{without:?}");
    std::fs::create_dir(checkout.path("mine")).unwrap();
    checkout.ok("solve counter --method rotor-persistent --budget 80% -o mine/counter@0.8x.json");
    checkout.ok("run --suite own --no-plots --force");
    let rows = rows(&checkout.path("results/own/records.csv"));
    let ended: Vec<_> = rows.iter().map(|row| (row["budget"].as_str(), row["termination"].as_str())).collect();
    assert_eq!(ended, [("0.8x", "feasible"), ("1.0x", "not_found")]);
    assert_eq!(rows[1]["note"], "there is no mine/counter@1.0x.json");
    // A schedule of another instance is a row that failed.
    checkout.ok("solve random --method store-all -o mine/counter@1.0x.json");
    assert_eq!(checkout.bench("run --suite own --no-plots --force").code, Some(1));
    let rows = self::rows(&checkout.path("results/own/records.csv"));
    assert!(rows[1]["error"].contains("was made for random ("), "{}", rows[1]["error"]);
}

#[test]
fn each_way_to_go_wrong_is_one_row_with_one_clear_error() {
    let done = r#"{"kind": "done"}"#;
    let said = |lines: &str| format!("'sh', '-c', '''cat > /dev/null; echo '{lines}' '''");
    let optimal = format!(r#"{{"kind": "answer", "index": 0, "termination": "optimal"}}'; echo '{done}"#);
    let interrupted = optimal.replace("optimal", "interrupted");
    let empty = format!(r#"{{"kind": "answer", "index": 0, "termination": "feasible"}}'; echo '{done}"#);
    let beyond = format!(r#"{{"kind": "answer", "index": 7, "termination": "not_found"}}'; echo '{done}"#);
    let cases = [
        ("'no-such-program'".to_owned(), "cannot start \"no-such-program\": No such file or directory"),
        ("'sh', '-c', 'echo oh dear >&2; exit 3'".into(), "ended with exit code 3: oh dear"),
        (said("hello"), "the program wrote something that is no message: expected"),
        (said("{}"), "the program wrote something that is no message: missing field `kind`"),
        ("'true'".into(), "the program ended early without a word"),
        (said(done), "the program gave no answer"),
        (said(&optimal), "a program of one's own proves nothing"),
        (said(&interrupted), "a program of one's own proves nothing"),
        (said(&empty), "says that it has a schedule, but returns none"),
        (said(&beyond), "the program answers budget 7 of"),
    ];
    for (command, words) in cases {
        let endings = endings(&command);
        assert_eq!(endings.len(), 2, "{command}");
        for (ending, error) in endings {
            assert_eq!(ending, "error", "{command}: {error}");
            assert!(error.starts_with(words), "{command}: {error}");
        }
    }
}

#[test]
fn seconds_that_cannot_be_fail_their_row() {
    let answer = |seconds: &str| format!(r#"{{"kind": "answer", "index": 0, "termination": "not_found", {seconds}}}"#);
    for (line, words) in [
        (answer(r#""solve_seconds": -1e308"#), "a number of seconds cannot be: solve_seconds is -1e308, and"),
        (answer(r#""build_seconds": 1e300"#), "a number of seconds cannot be: build_seconds is 1e300, and"),
        (
            r#"{"kind": "progress", "index": 0, "point": {"seconds": -5}}"#.into(),
            "a number of seconds cannot be: the seconds of its progress is -5.0, and",
        ),
    ] {
        let command = format!("'sh', '-c', '''cat > /dev/null; echo '{line}'; echo '{{\"kind\": \"done\"}}' '''");
        for (ending, error) in endings(&command) {
            assert!(ending == "error" && error.starts_with(words), "{line}: {error}");
        }
    }
}

#[test]
fn a_program_that_goes_wrong_keeps_what_it_answered_before_and_fails_one_row() {
    let answer = |at: usize| format!(r#"echo '{{"kind": "answer", "index": {at}, "termination": "not_found"}}'; "#);
    let (both, done) = (answer(0) + &answer(1), r#"echo '{"kind": "done"}'"#);
    for (tail, words) in [
        (format!("echo hello; {done}"), "the program wrote something that is no message: expected"),
        (
            format!(r#"echo '{{"kind": "answr"}}'; {done}"#),
            "the program wrote something that is no message: unknown variant",
        ),
        ("true".into(), "the program ended without a last message of the kind \"done\""),
        (format!("{done}; exit 3"), "ended with exit code 3"),
        (format!(r#"{done}; printf "caf\351\n""#), "the program wrote something that is no message: expected"),
    ] {
        let ended = endings(&format!("'sh', '-c', '''cat > /dev/null; {both} {tail} '''"));
        assert_eq!(ended[0], ("not_found".into(), String::new()), "{tail}");
        assert!(ended[1].0 == "error" && ended[1].1.starts_with(words), "{tail}: {ended:?}");
    }
    // What comes after is not believed.
    for first in ["echo hello", r#"printf "caf\351\n""#] {
        for (ending, error) in endings(&format!("'sh', '-c', '''cat > /dev/null; {first}; {both} {done} '''")) {
            let words = "the program wrote something that is no message";
            assert!(ending == "error" && error.starts_with(words), "{error}");
        }
    }
}

#[test]
fn the_seconds_of_an_answer_count_from_the_one_before() {
    let answer =
        |at: usize| format!(r#"sleep 0.3; echo '{{"kind": "answer", "index": {at}, "termination": "not_found"}}'; "#);
    let progress = r#"echo '{"kind": "progress", "index": 1, "point": {"seconds": 0.31}}'; "#;
    let (checkout, rows) = answered(&format!("{}{progress}{}echo '{{\"kind\": \"done\"}}'", answer(0), answer(1)));
    for row in rows {
        let [wall, solve] = ["wall_seconds", "solve_seconds"].map(|column| row[column].parse::<f64>().unwrap());
        assert!(solve >= 0.29 && solve < wall - 0.29, "{solve} of {wall}");
    }
    let trace = self::rows(&checkout.path("results/own/traces/counter/mine@1.0x.csv"));
    assert!(trace[0]["seconds"].parse::<f64>().unwrap() < 0.02, "{trace:?}");
}

#[test]
fn what_a_program_leaves_behind_is_not_waited_for() {
    let answer = |at: usize| format!(r#"echo '{{"kind": "answer", "index": {at}, "termination": "not_found"}}'; "#);
    let started = Instant::now();
    let script = format!("setsid sleep 15 & {}{}echo '{{\"kind\": \"done\"}}'", answer(0), answer(1));
    let (_, rows) = answered(&script);
    assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());
    assert!(rows.len() == 2 && rows.iter().all(|row| row["termination"] == "not_found"), "{rows:?}");
}

#[test]
fn a_program_out_of_memory_says_so_in_the_words_of_its_language() {
    for words in
        ["MemoryError", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 GiB", "failed to spawn thread"]
    {
        let (_, rows) = answered(&format!("echo {words} >&2; exit 1"));
        assert!(rows.iter().all(|row| row["termination"] == "memory_limit"), "{rows:?}");
    }
}

#[test]
fn a_suite_gives_a_program_an_id_of_its_own_and_no_parameters() {
    for (wrong, words) in [
        ("id = 'revolve'", "expected an id of letters, digits and hyphens that no other method has"),
        ("id = 'a b'", "expected an id of letters, digits and hyphens that no other method has"),
        ("id = 'mine'\nparameters = { depth = 3 }", "put its settings there, instead of parameters and sweep"),
    ] {
        let checkout = checkout("'true'");
        let path = checkout.path("instances/suites/own.toml");
        let text = std::fs::read_to_string(&path).unwrap().replace("id = 'mine'", wrong);
        std::fs::write(&path, text).unwrap();
        let refused = checkout.bench("run --suite own");
        assert!(refused.code == Some(2) && refused.stderr.contains(words), "{}", refused.stderr);
    }
}
