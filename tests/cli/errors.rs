//! Mistakes of users: one line each, with the exit code that the help promises.

use crate::checkout::{Checkout, rows};

/// What `bench` says to each mistake; exit code 2 throughout.
#[test]
fn every_mistake_gets_one_line_that_says_what_helps() {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("empty.toml"), "name = 'empty'\ntitle = ''\n").unwrap();
    std::fs::write(checkout.path("typo.toml"), crate::checkout::SUITE.replace("budgets", "budget")).unwrap();
    std::fs::write(checkout.path("bad-size.toml"), crate::checkout::SUITE.replace("0.6x", "lots")).unwrap();
    let list = crate::checkout::SUITE
        .replace("id = \"rotor-persistent\"", "id = \"fastsa\"\nparameters = { iterations = [] }");
    std::fs::write(checkout.path("empty-list.toml"), list).unwrap();
    let number = crate::checkout::SUITE.replace("\"0.6x\"", "0.6");
    std::fs::write(checkout.path("bare-number.toml"), number).unwrap();
    std::fs::write(checkout.path("nothing.json"), "{}").unwrap();
    let text = std::fs::read_to_string(checkout.path("instances/small/counter.json")).unwrap();
    let mut broken: serde_json::Value = serde_json::from_str(&text).unwrap();
    broken["order"].as_array_mut().unwrap().reverse();
    std::fs::write(checkout.path("broken.json"), broken.to_string()).unwrap();
    std::fs::write(checkout.path("list.json"), r#"{"instances": [{"fweight": [1]}, {"chain": {}}]}"#).unwrap();
    let mistakes = [
        "run --suite minni",
        "run --suite missing.toml",
        "run --suite empty.toml",
        "run --suite typo.toml",
        "run --suite bad-size.toml",
        "run --suite bare-number.toml",
        "run --suite empty-list.toml",
        "run --suite mini --partition long",
        "run --suite mini --methods rotor",
        "run --suite mini --methods rotor-persistent[slots=many]",
        "run --suite mini --methods rotor-persistent[slot=5]",
        "run --suite mini --methods rotor-persistent[slots",
        "run --suite mini --instances resnet*",
        "run --suite mini --instances [",
        "solve countr --method revolve",
        "solve nothing.json --method revolve",
        "solve missing.json --method revolve",
        "solve counter --method checkmate",
        "solve counter --method revolve --budget 999999999999999999x",
        "verify counter missing.json",
        "verify counter nothing.json",
        "table missing",
        "plot missing",
        "fuzz broken.json",
        "instances show nothing.json",
        "instances import nothing.json -o out.json",
        "instances import instances/small/counter.json -o out.json",
        "instances import list.json -o out.json",
        "instances import list.json -o out.json --index 2",
        "instances import list.json -o out.json --index 0",
        "instances generate figure4 --n 5",
        "instances generate figure4 --n 5 -o out.txt",
    ];
    let mut transcript = Vec::new();
    for mistake in mistakes {
        let done = checkout.bench(mistake);
        assert_eq!(done.code, Some(2), "bench {mistake}\n{}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "bench {mistake}\n{}", done.stderr);
        transcript.push(format!("$ bench {mistake}\n{}\n", done.stderr));
    }
    insta::assert_snapshot!("mistakes", transcript.concat());
}

/// These are found by the parser of the command line, which adds a usage line.
#[test]
fn bad_flags_and_values_are_refused_with_the_usage() {
    let checkout = Checkout::new();
    let mistakes = [
        "frobnicate",
        "run --suit mini",
        "run",
        "run --suite mini --budgets 8apples",
        "solve counter --budget -3x",
        "run --suite mini --budgets 4PiB,0.3333333333333333333x",
        "fuzz --instances 0",
        "fuzz instances/small/counter.json --instances 3",
        "plot results --check",
        "allocate --results results --format json",
        "allocate * --best-known results --format json",
        "run --suite mini --jobs 0",
        "run --suite mini --time-limit -3",
        "run --suite mini --time-limit soon",
        "run --suite mini --time-limit 1e19",
        "run --suite mini --memory-limit 0.5x",
        "run --suite mini --resume --force",
        "run --suite mini --format pdf",
        "solve counter --method revolve[",
        "instances generate figure4 --n 1 -o out.json",
    ];
    let mut transcript = Vec::new();
    for mistake in mistakes {
        let done = checkout.bench(mistake);
        assert_eq!(done.code, Some(2), "bench {mistake}\n{}", done.stderr);
        transcript.push(format!("$ bench {mistake}\n{}\n", done.stderr));
    }
    insta::assert_snapshot!("usage", transcript.concat());
}

#[test]
fn what_is_asked_for_twice_runs_once() {
    let checkout = Checkout::new();
    let suite = crate::checkout::SUITE.to_owned() + "[[methods]]\nid = \"store-all\"\n";
    std::fs::write(checkout.path("instances/suites/mini.toml"), suite).unwrap();
    let run = "run --suite mini --instances counter --list";
    for (methods, runs) in
        [("store-all,store-all", "1 run\n"), ("store-all", "1 run\n"), ("fastsa --seeds 0,1,1", "2 runs\n")]
    {
        let listed = checkout.ok(&format!("{run} --methods {methods}")).stdout;
        assert!(listed.ends_with(runs), "{listed}");
    }
}

#[test]
fn an_unwritable_output_is_found_before_any_work() {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("file"), "").unwrap();
    let done = checkout.bench("run --suite mini --out file/below");
    assert_eq!(done.code, Some(1));
    assert_eq!(
        done.stderr,
        "error: file/below: cannot make the folder: Not a directory (os error 20); choose another folder with --out\n"
    );
    let done = checkout.bench("solve counter --method store-all -o no/such/folder.json");
    assert_eq!(done.code, Some(1));
    assert!(done.last_error().starts_with("error: no/such/folder.json: cannot write: No such file"), "{}", done.stderr);
}

/// Each output is looked at before the search, and the schedule is there whatever becomes of the rest.
#[test]
fn no_search_is_lost_for_a_wrong_output() {
    let checkout = Checkout::new();
    let solve = "solve counter --method store-all -o s.json";
    for (more, words) in [
        ("--trace no/x.svg", "error: no/x.svg: cannot write: No such file"),
        ("--arena x.txt", "error: x.txt: unknown kind of file"),
        ("--arena no/p.json", "error: no/p.json: cannot write: No such file"),
        ("--arena s.json", "error: s.json: this command reads or writes that file already; name another"),
    ] {
        let done = checkout.bench(&format!("{solve} {more}"));
        assert!(done.last_error().starts_with(words), "{more}: {}", done.stderr);
        assert!(done.stdout.is_empty() && !checkout.path("s.json").exists(), "{more}: it was solved before");
    }
    let done = checkout.bench("solve counter --method store-all -o instances/small/counter.json");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.last_error().contains("reads or writes that file already"), "{}", done.stderr);
    checkout.ok("instances show counter");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let done: crate::checkout::Done = checkout.command(solve).stdout(full).output().unwrap().into();
    assert!(done.last_error().contains("cannot write to standard output"), "{}", done.stderr);
    checkout.ok("verify counter s.json");
}

#[test]
fn a_limit_on_files_that_is_no_number_is_refused() {
    let checkout = Checkout::new();
    for limit in ["abc", "nan", "-1"] {
        let output = checkout.command("instances list").env("BENCH_MAX_FILE_MIB", limit).output().unwrap();
        let words = format!("error: BENCH_MAX_FILE_MIB is {limit:?}; expected a whole number of MiB, at least 1\n");
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(2), words));
    }
}

#[test]
fn a_full_disk_ends_the_run_with_one_error_and_keeps_the_rows() {
    let checkout = Checkout::new();
    let bench = env!("CARGO_BIN_EXE_bench");
    // Files may grow to two blocks of 1,024 bytes, and the signal that would end the process is ignored.
    let script = format!("ulimit -f 2; trap '' XFSZ; exec '{bench}' run --suite mini --out out");
    let output =
        std::process::Command::new("bash").args(["-c", &script]).current_dir(checkout.path("")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let errors: Vec<_> = stderr.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(
        errors,
        [
            "error: out/records.csv: cannot write: File too large (os error 27); the rows written so far are kept: make room, then continue with --resume"
        ]
    );
    let kept = rows(&checkout.path("out/records.csv"));
    assert!(!kept.is_empty());
    checkout.ok("run --suite mini --out out --resume");
    checkout.ok("run --suite mini --out whole");
    assert_eq!(rows(&checkout.path("out/records.csv")).len(), rows(&checkout.path("whole/records.csv")).len());
    assert_eq!(rows(&checkout.path("out/records.csv"))[..kept.len()], kept);
}

#[test]
fn results_are_never_overwritten_by_accident() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    let before = std::fs::read(checkout.path("results/mini/records.csv")).unwrap();
    let done = checkout.bench("run --suite mini");
    assert_eq!(done.code, Some(2));
    let count = rows(&checkout.path("results/mini/records.csv")).len();
    assert_eq!(
        done.stderr,
        format!(
            "error: results/mini/records.csv: has {count} rows already; continue it with --resume, write elsewhere with --out, or start afresh with --force\n"
        )
    );
    assert_eq!(std::fs::read(checkout.path("results/mini/records.csv")).unwrap(), before);
    checkout.ok("run --suite mini --force");
}

#[test]
fn records_of_another_make_are_refused() {
    let checkout = Checkout::new();
    std::fs::create_dir_all(checkout.path("results/mini")).unwrap();
    std::fs::write(checkout.path("results/mini/records.csv"), "a,b\n1,2\n").unwrap();
    for command in ["run --suite mini --resume", "table results/mini"] {
        let done = checkout.bench(command);
        assert_eq!(done.code, Some(2));
        assert!(done.stderr.contains("its columns are not those of this version"), "{}", done.stderr);
    }
}

/// The same names meant other things, so that nothing may be read as if it were new.
#[test]
fn rows_of_an_earlier_version_are_named_as_such() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all");
    let path = checkout.path("results/mini/records.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("simulated_time,", "simulated_time_ns,").replace("\n3,", "\n2,")).unwrap();
    for command in ["table results/mini", "run --suite mini --methods store-all --resume", "best --update results/mini"]
    {
        let done = checkout.bench(command);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(
            done.last_error().contains("its columns are of version 2, and this bench reads version 3"),
            "{}",
            done.stderr
        );
    }
    checkout.ok("run --suite mini --methods store-all --force");
}
