//! Runs that end before their time, and how they are continued.

use std::io::BufRead;
use std::process::{Command, Stdio};

use crate::checkout::{Checkout, rows};
use crate::misbehaviour::{Hanging, is_gone, wait_until};

const RECORDS: &str = "results/mini/records.csv";

/// The table, which holds no times of day.
fn table(checkout: &Checkout, folder: &str) -> String {
    let mut lines: Vec<_> =
        checkout.ok(&format!("table {folder} --format csv")).stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_resumed_run_repeats_nothing() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all");
    let first = rows(&checkout.path(RECORDS));
    checkout.ok("run --suite mini --resume");
    let all = rows(&checkout.path(RECORDS));
    assert_eq!(all[..first.len()], first);
    let bytes = std::fs::read(checkout.path(RECORDS)).unwrap();
    let done = checkout.ok("run --suite mini --resume");
    assert!(done.stderr.contains(&format!("0 runs for 0 rows, to results/mini; {} rows there already", all.len())));
    assert_eq!(std::fs::read(checkout.path(RECORDS)).unwrap(), bytes);
}

#[test]
fn a_budget_more_runs_only_that_budget() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    let before = rows(&checkout.path(RECORDS)).len();
    let done = checkout.ok("run --suite mini --resume --budgets 0.6x,0.8x,1.0x");
    assert!(done.stderr.contains("2 runs for 2 rows"), "{}", done.stderr);
    assert_eq!(rows(&checkout.path(RECORDS)).len(), before + 2);
}

#[test]
fn a_torn_last_line_is_mended() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    let expected = table(&checkout, "results/mini");
    let bytes = std::fs::read(checkout.path(RECORDS)).unwrap();
    std::fs::write(checkout.path(RECORDS), &bytes[..bytes.len() - 40]).unwrap();
    let done = checkout.ok("run --suite mini --resume");
    assert!(done.stderr.contains("1 run for 1 row,"), "{}", done.stderr);
    assert_eq!(table(&checkout, "results/mini"), expected);
}

#[test]
fn after_kill_9_the_worker_is_gone_and_resume_gives_the_same_table() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --out whole");
    let mut hanging = checkout.start_hanging("run --suite mini", RECORDS);
    let worker = hanging.worker().unwrap();
    let status = || checkout.ok("status results/mini").stdout;
    let all = rows(&checkout.path("whole/records.csv")).len();
    let open = all - rows(&checkout.path(RECORDS)).len();
    assert!(status().ends_with(&format!("\n{open} not there yet: a bench run is at work on them\n")), "{}", status());
    signal(hanging.child.id(), "KILL");
    hanging.child.wait().unwrap();
    wait_until("the worker is gone", || is_gone(worker));
    assert!(status().ends_with("not there yet: no bench run is at work; --resume goes on\n"), "{}", status());
    checkout.ok("run --suite mini --resume --methods store-all");
    // One of the other instance.
    assert!(status().contains(&format!("\n{} not there yet", open - 1)), "{}", status());
    checkout.ok("run --suite mini --resume");
    assert_eq!(status(), format!("0 queued, 0 running, {all} done, 0 failed\n"));
    assert_eq!(table(&checkout, "results/mini"), table(&checkout, "whole"));
}

#[test]
fn rows_that_another_run_was_to_make_stay_missing() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent");
    let text = std::fs::read_to_string(checkout.path(RECORDS)).unwrap();
    let all = text.lines().count() - 1;
    // As an interrupted run leaves them.
    let first: String = text.split_inclusive('\n').take(2).collect();
    std::fs::write(checkout.path(RECORDS), first).unwrap();
    checkout.ok("run --suite mini --methods store-all --resume");
    let status = checkout.ok("status results/mini").stdout;
    assert!(status.contains(&format!("3 done, 0 failed\n{} not there yet", all - 1)), "{status}");
    // Of an instance that is another one by now nothing is to come.
    std::fs::remove_file(checkout.path("instances/small/random.json.zst")).unwrap();
    checkout.ok("instances generate random-chain --stages 8 --seed 4 --kind small0 -o instances/small/random.json.zst");
    checkout.ok("run --suite mini --resume");
    let status = checkout.ok("status results/mini").stdout;
    assert_eq!(status.lines().count(), 1, "{status}");
    assert_eq!(checkout.ok("status results/mini/records.csv").stdout, status);
    // A run that never came to a row, as where a cluster refuses it, is one all the same.
    std::fs::create_dir(checkout.path("refused")).unwrap();
    std::fs::write(checkout.path("refused/manifest.jsonl"), "").unwrap();
    assert_eq!(checkout.bench("status refused").code, Some(2));
    let manifest = std::fs::read_to_string(checkout.path("results/mini/manifest.jsonl")).unwrap();
    let mut session: serde_json::Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    session.as_object_mut().unwrap().retain(|field, _| field != "to_come");
    std::fs::write(checkout.path("refused/manifest.jsonl"), format!("{session}\n")).unwrap();
    assert_eq!(checkout.ok("status refused").stdout, "0 queued, 0 running, 0 done, 0 failed\n");
}

#[test]
fn what_was_answered_before_kill_9_is_not_asked_again() {
    let checkout = Checkout::new();
    let run = "run --suite mini --methods rotor-persistent --instances counter --budgets 0.6x,0.8x,1.0x";
    checkout.ok(&format!("{run} --out whole"));
    let expected = rows(&checkout.path("whole/records.csv"));
    // Hangs at the last budget; a resumed run in which the method only dies has the rows of the first two.
    let fault = format!("rotor-persistent:hang-at-{}", expected[2]["budget_size"]);
    let start = |arguments: &str| {
        let mut command = checkout.command(arguments);
        command.env("BENCH_TEST_FAULT", &fault).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut child = start(run);
    let text = || {
        let mut files = std::fs::read_dir(checkout.path("results/mini/unfinished/counter")).ok()?;
        std::fs::read_to_string(files.next()?.ok()?.path()).ok()
    };
    let answers = || text().unwrap_or_default().matches("\"kind\":\"answer\"").count();
    wait_until("two budgets are answered", || answers() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(rows(&checkout.path(RECORDS)).is_empty());
    let done = checkout.with_fault("rotor-persistent:abort", &format!("{run} --resume"));
    assert!(done.stderr.contains("1 of 3 rows ended in an error"), "{}", done.stderr);
    let found = rows(&checkout.path(RECORDS));
    for (found, expected) in found.iter().zip(&expected).take(2) {
        for column in ["budget", "termination", "simulated_time", "simulated_peak", "lower_bound", "note", "error"] {
            assert_eq!(found[column], expected[column], "{column}");
        }
        assert!(found["wall_seconds"].parse::<f64>().unwrap() > 0.0);
        assert!(found["peak_rss_bytes"].parse::<u64>().unwrap() > 0);
    }
    assert!(found[2]["error"].contains("SIGABRT"), "{}", found[2]["error"]);
    assert!(!checkout.path("results/mini/unfinished").exists());
    // Of another question nothing is taken up.
    let mut child = start(&format!("{run} --force"));
    wait_until("two budgets are answered", || answers() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let done = checkout.with_fault("rotor-persistent:abort", &format!("{run} --resume --time-limit 60"));
    assert!(done.stderr.contains("3 of 3 rows ended in an error"), "{}", done.stderr);
}

#[test]
fn what_is_taken_up_has_the_trace_of_its_own_process_and_a_row_for_each_of_two_equal_budgets() {
    let checkout = Checkout::new();
    let run = "run --suite mini --methods rotor-persistent --instances counter --budgets 0.6x,0.601x,0.8x,1.0x";
    checkout.ok(&format!("{run} --out whole"));
    let sizes: Vec<_> =
        rows(&checkout.path("whole/records.csv")).iter().map(|row| row["budget_size"].clone()).collect();
    assert_eq!(sizes[0], sizes[1]);
    let mut command = checkout.command(run);
    let fault = format!("rotor-persistent:hang-at-{}", sizes[3]);
    let mut child = command.env("BENCH_TEST_FAULT", fault).stderr(Stdio::null()).spawn().unwrap();
    let path = || Some(std::fs::read_dir(checkout.path("results/mini/unfinished/counter")).ok()?.next()?.ok()?.path());
    let text = || path().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    wait_until("three budgets are answered", || text().matches("\"kind\":\"answer\"").count() == 3);
    child.kill().unwrap();
    child.wait().unwrap();

    // As if another process had been killed before, and this one had said what it knew of the third budget.
    let progress = |seconds: f64| {
        let message = format!(r#"{{"kind":"progress","index":2,"point":{{"seconds":{seconds}}},"schedule":null}}"#);
        format!("{{\"budget\":{},\"message\":{message}}}\n", sizes[2])
    };
    let text = text();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let given = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["message"]["given_after"].as_f64().unwrap()
    };
    let (begun, answered) = (given(lines[2]), given(lines[3]));
    let (torn, told) = (progress(7.0) + "{\"budget\"", progress(begun.midpoint(answered)));
    let edited = [lines[0], &torn, "\n\n", lines[1], lines[2], &told, lines[3]].concat();
    std::fs::write(path().unwrap(), edited).unwrap();

    checkout.ok(&format!("{run} --resume"));
    let found: Vec<_> = rows(&checkout.path(RECORDS)).iter().map(|row| row["budget"].clone()).collect();
    assert_eq!(found, ["0.6x", "0.601x", "0.8x", "1.0x"]);
    let mut traces = std::fs::read_dir(checkout.path("results/mini/traces/counter")).unwrap().flatten();
    let trace = traces.find(|entry| entry.file_name().to_string_lossy().contains("@0.8x")).unwrap();
    let seconds: Vec<f64> = rows(&trace.path()).iter().map(|point| point["seconds"].parse().unwrap()).collect();
    assert!(seconds.len() == 1 && (seconds[0] - (answered - begun) / 2.0).abs() < 1e-9, "{seconds:?}");
}

#[test]
fn after_kill_9_what_the_worker_started_is_gone_too() {
    let checkout = Checkout::new();
    let mut command = checkout.command("run --suite mini --methods rotor-persistent --instances counter");
    let mut child = command
        .env("BENCH_TEST_FAULT", "rotor-persistent:burn")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let children = |process: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        texts.collect::<String>().split_whitespace().find_map(|id| id.parse().ok())
    };
    let mut started = None;
    wait_until("the worker has started another process", || {
        started = children(child.id()).and_then(|worker| Some((worker, children(worker)?)));
        started.is_some()
    });
    let (worker, other) = started.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("both are gone", || is_gone(worker) && is_gone(other));
}

#[test]
fn an_interrupt_kills_the_worker_keeps_the_rows_and_says_how_to_go_on() {
    let checkout = Checkout::new();
    let hanging = checkout.start_hanging("run --suite mini", RECORDS);
    let worker = hanging.worker().unwrap();
    let kept = rows(&checkout.path(RECORDS)).len();
    signal(hanging.child.id(), "INT");
    let output = hanging.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(is_gone(worker));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = format!("error: interrupted after {kept} rows; continue with the same command and --resume");
    assert_eq!(stderr.lines().last(), Some(expected.as_str()));
    assert_eq!(rows(&checkout.path(RECORDS)).len(), kept);
    checkout.ok("run --suite mini --resume");
}

#[test]
fn an_interrupt_after_the_last_row_ends_the_run_at_once() {
    let checkout = Checkout::new();
    let suite = checkout.path("instances/suites/mini.toml");
    let text = std::fs::read_to_string(&suite).unwrap();
    std::fs::write(&suite, text.replace("title", "ratios = true\npublished = 'figures.csv'\ntitle")).unwrap();
    // Figures that are never written: the tables wait for them.
    assert!(Command::new("mkfifo").arg(checkout.path("figures.csv")).status().unwrap().success());
    let mut command = checkout.command("run --suite mini --methods store-all");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("all rows are there", || rows(&checkout.path(RECORDS)).len() == 2);
    let mut status = None;
    wait_until("the run has ended", || {
        signal(child.id(), "INT");
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
}

#[test]
fn an_interrupted_solve_saves_and_shows_what_it_has() {
    let checkout = Checkout::new();
    let mut command = checkout.command("solve counter --method rotor-persistent --budget 0.8x -o best.json");
    command.env("BENCH_TEST_FAULT", "rotor-persistent:hang-late").stdout(Stdio::piped()).stderr(Stdio::piped());
    let hanging = Hanging { child: command.spawn().unwrap() };
    wait_until("the worker is there", || hanging.worker().is_some());
    // It reports a schedule in far less; on a slow day there is none yet, which is said.
    std::thread::sleep(std::time::Duration::from_secs(1));
    signal(hanging.child.id(), "INT");
    let output = hanging.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(stdout.contains("termination    interrupted"), "{stdout}");
    let expected = if checkout.path("best.json").exists() {
        checkout.ok("verify counter best.json");
        "error: interrupted; that is the best schedule until then"
    } else {
        "error: interrupted; there was no schedule yet"
    };
    assert_eq!(stderr.lines().last(), Some(expected));
}

#[test]
fn two_writers_are_refused() {
    let checkout = Checkout::new();
    let mut hanging = checkout.start_hanging("run --suite mini", RECORDS);
    for option in ["", "--resume", "--force"] {
        let done = checkout.bench(&format!("run --suite mini {option}"));
        assert_eq!(done.code, Some(1));
        assert_eq!(
            done.stderr,
            "error: results/mini: another bench run is writing here; wait for it, or choose another folder with --out\n"
        );
    }
    signal(hanging.child.id(), "TERM");
    assert_eq!(hanging.child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_sweep_killed_twenty_times_ends_with_the_table_of_an_undisturbed_one() {
    let checkout = Checkout::new();
    let started = std::time::Instant::now();
    checkout.ok("run --suite mini --out whole");
    let whole = started.elapsed();
    // Kills spread over the length of an undisturbed run, by a generator that every run repeats.
    let mut random = 1_u32;
    for _ in 0..20 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut child = checkout
            .command("run --suite mini --resume")
            .stdout(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(random >> 16) / 65536.0));
        // It may have come to its end before.
        let _ = child.kill();
        child.wait().unwrap();
    }
    checkout.ok("run --suite mini --resume");
    assert_eq!(table(&checkout, "results/mini"), table(&checkout, "whole"));
    checkout.ok("check results/mini");
}

#[test]
fn a_fresh_start_leaves_nothing_of_the_rows_that_it_drops() {
    let checkout = Checkout::new();
    let run = "run --suite mini --instances counter --budgets 0.6x";
    checkout.ok(&format!("{run} --methods fastsa[iterations=5000,second-iterations=5000],checkmate-ilp"));
    let folder = |name: &str| checkout.path(&format!("results/mini/{name}/counter"));
    assert!(folder("traces").is_dir() && folder("logs").is_dir() && folder("schedules").is_dir());
    checkout.ok("allocate --results results/mini --threads 1");
    std::fs::write(checkout.path("results/mini/executed.csv"), "instance\n").unwrap();
    std::fs::create_dir(checkout.path("results/mini/replays")).unwrap();
    let others = ["plots", "report.html", "plans", "plans.csv", "executed.csv", "replays"];
    let others = others.map(|name| checkout.path(&format!("results/mini/{name}")));
    assert!(others.iter().all(|path| path.exists()));
    checkout.ok(&format!("{run} --methods store-all --no-plots --force"));
    assert!(!folder("traces").exists() && !folder("logs").exists());
    assert!(others.iter().all(|path| !path.exists()), "{others:?}");
    assert_eq!(std::fs::read_dir(folder("schedules")).unwrap().count(), 1);
}

#[test]
fn a_fresh_start_that_is_killed_leaves_no_row_without_its_schedule() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all --no-plots");
    // So many that they take a while to remove.
    let many = checkout.path("results/mini/schedules/many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..20_000 {
        std::fs::write(many.join(number.to_string()), "").unwrap();
    }
    let mut child = checkout
        .command("run --suite mini --methods store-all --no-plots --force")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("schedules are removed", || std::fs::read_dir(&many).map_or(0, Iterator::count) < 20_000);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(checkout.path("results/mini/schedules").exists(), "killed too late to show anything");
    assert_eq!(rows(&checkout.path(RECORDS)), []);
}

#[test]
fn a_row_without_a_schedule_leaves_none_of_an_earlier_one() {
    let checkout = Checkout::new();
    let run = "run --suite mini --methods rotor-persistent --instances counter --budgets 0.6x --no-plots";
    checkout.ok(run);
    let kept = || std::fs::read_dir(checkout.path("results/mini/schedules/counter")).unwrap().count();
    assert_eq!(kept(), 1);
    std::fs::remove_file(checkout.path(RECORDS)).unwrap();
    checkout.with_fault("rotor-persistent:abort", run);
    assert!(rows(&checkout.path(RECORDS))[0]["error"].contains("killed by signal 6"));
    assert_eq!(kept(), 0);
}

#[test]
fn what_a_kill_left_half_written_goes_with_the_next_run() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all");
    let left = ["schedules/counter/a.json.zst.123.partial", "traces/counter/b.csv.partial"];
    let left = left.map(|name| checkout.path(&format!("results/mini/{name}")));
    for path in &left {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "half").unwrap();
    }
    checkout.ok("run --suite mini --methods store-all --resume");
    assert!(left.iter().all(|path| !path.exists()));
}

#[test]
fn without_a_terminal_lines_say_how_far_a_run_is() {
    let checkout = Checkout::new();
    let mut hanging = checkout.start_hanging("run --suite mini", RECORDS);
    let mut lines = std::io::BufReader::new(hanging.child.stderr.take().unwrap()).lines();
    // Comes ten seconds after the start.
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains(" runs after "))).unwrap();
    assert!(line.starts_with("5 of 12 runs after 1"), "{line}");
    assert!(line.contains("; now counter rotor-persistent ("), "{line}");
    signal(hanging.child.id(), "INT");
    hanging.child.wait().unwrap();
}
