//! What the backend `cbc` does about a program that hangs, lies or is not there. Programs that misbehave are scripts that
//! a child process of this test is given in place of CBC.
#![expect(clippy::unwrap_used, reason = "tests panic where they fail")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use remat_solvers::{Kind, Model, Request, Stop, backend};

/// Says which part a child process plays.
const PART: &str = "SOLVERS_TEST_CBC_PART";

/// One whole column from 0 to 1, at least a half of it: 1.
fn model() -> Model {
    let mut model = Model::default();
    let x = model.column(0.0, 1.0, 1.0, Kind::Integer);
    model.at_least(0.5, [(x, 1.0)]);
    model
}

/// A model without a solution.
fn infeasible() -> Model {
    let mut model = model();
    model.at_most(0.25, [(remat_solvers::Column::from_index(0), 1.0)]);
    model
}

/// Not a test by itself: what the child processes of the others do.
#[test]
fn child_that_asks_a_program() {
    let Ok(part) = std::env::var(PART) else { return };
    let time = Some(Duration::from_secs(1));
    let began = Instant::now();
    let asked =
        |model: &Model, time| backend("cbc").and_then(|cbc| cbc.solve(model, &Request { time, ..Request::default() }));
    match part.as_str() {
        "hangs" => {
            let outcome = asked(&model(), time).unwrap();
            assert_eq!((outcome.stop, outcome.incumbent), (Stop::TimeLimit, None), "{}", outcome.raw_status);
            assert!(outcome.raw_status.contains("killed"), "{}", outcome.raw_status);
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        }
        "lies" => {
            let outcome = asked(&model(), time).unwrap();
            assert_eq!(outcome.stop, Stop::Error, "{}", outcome.raw_status);
            assert!(outcome.raw_status.contains("a vector satisfies the model"), "{}", outcome.raw_status);
            assert_eq!(asked(&infeasible(), time).unwrap().stop, Stop::Infeasible);
            let unchecked = asked(&infeasible(), Some(Duration::ZERO)).unwrap();
            assert_eq!(unchecked.stop, Stop::TimeLimit, "{}", unchecked.raw_status);
        }
        "crashes" => {
            let outcome = asked(&model(), time).unwrap();
            assert_eq!(outcome.stop, Stop::Error);
            assert!(outcome.raw_status.ends_with("something went wrong"), "{}", outcome.raw_status);
        }
        "missing" => {
            let error = asked(&model(), time).unwrap_err().to_string();
            assert!(error.starts_with("CBC is not installed (scripts/setup.sh --tests"), "{error}");
            assert!(error.ends_with("looked for /nowhere/cbc"), "{error}");
        }
        "waits" => {
            asked(&model(), None).unwrap();
        }
        other => panic!("no part {other:?}"),
    }
}

/// A program of so many lines of shell; it says that it is CBC where it is asked for its version.
fn script(name: &str, lines: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("remat-cbc-{name}-{}", std::process::id()));
    let text = format!("#!/bin/sh\nif [ \"$1\" = -quit ]; then echo CBC of a test; exit; fi\n{lines}\n");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn child(part: &str, program: &std::path::Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cbc::child_that_asks_a_program", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env("BENCH_CBC", program).env("RUST_BACKTRACE", "0");
    command
}

fn play(part: &str, lines: &str) {
    let program = script(part, lines);
    let Output { status, stdout, stderr } = child(part, &program).output().unwrap();
    std::fs::remove_file(program).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{part}: {}\n{}", text(&stdout), text(&stderr));
}

#[test]
fn a_program_that_never_returns_is_killed() {
    // Deaf to the signal that asks it to stop.
    play("hangs", "trap '' INT\nwhile :; do sleep 1 & wait; done");
}

#[test]
fn infeasible_is_not_believed_until_another_solver_agrees() {
    let answer = "for word; do if [ \"$before\" = -solution ]; then echo 'Infeasible - objective value 0' > \"$word\"; fi; before=$word; done";
    play("lies", answer);
}

#[test]
fn a_program_that_crashes_is_an_error_with_its_last_words() {
    play("crashes", "echo something went wrong >&2\nexit 3");
}

#[test]
fn a_program_that_is_not_there_is_named_with_what_brings_it() {
    let output = child("missing", std::path::Path::new("/nowhere/cbc")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_program_does_not_outlive_the_process_that_asked_it() {
    let mark = std::env::temp_dir().join(format!("remat-cbc-mark-{}", std::process::id()));
    let program = script("waits", &format!("echo $$ > {}\nexec sleep 1000", mark.display()));
    let mut asking = child("waits", &program)
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let wait_until = |what: &str, happened: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !happened() {
            assert!(began.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let number = || std::fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse::<u32>().ok());
    wait_until("the program runs", &|| number().is_some());
    let stat = format!("/proc/{}/stat", number().unwrap());
    asking.kill().unwrap();
    asking.wait().unwrap();
    wait_until("the program is gone", &|| std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(mark).unwrap();
}
