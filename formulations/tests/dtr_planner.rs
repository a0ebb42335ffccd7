//! `dtr` against what its authors' simulator answers, and its traps.
//!
//! The logs are not here (their repository has no licence): with BENCH_REFERENCE_DATA naming the folder that has `dtr/` in it, every
//! overhead of `simrd_reference.txt` and `simrd_inversion.txt` is computed again.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use remat_formulations::planners::dtr::Heuristic;
use remat_formulations::planners::dtr::log;
use remat_formulations::planners::dtr::online::{Action, End, run};
use remat_formulations::planners::dtr::program::{Call, Event, Program};
use remat_formulations::search::clock::Clock;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("BENCH_REFERENCE_DATA").map(|folder| PathBuf::from(folder).join("dtr"));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("SKIPPED: BENCH_REFERENCE_DATA names no folder with dtr/ in it");
    }
    folder
}

fn heuristic(name: &str) -> Heuristic {
    match name {
        "DTR" => Heuristic::Dtr,
        "DTREqClass" => Heuristic::Eq,
        "DTRLocal" => Heuristic::Local,
        "MSPS" => Heuristic::Msps,
        "LRU" => Heuristic::Lru,
        "LargestStorage" => Heuristic::Size,
        other => panic!("unknown heuristic {other}"),
    }
}

/// Compares every row of a file: outcome, time over base time to six digits, most memory in bytes.
fn compare(file: &str, limit: u64) -> usize {
    let Some(folder) = folder() else { return 0 };
    let logs: BTreeMap<&str, Program> = [("ResNet-32", "resnet32-56.log"), ("U-Net", "unet-6.log")]
        .into_iter()
        .map(|(name, file)| {
            (name, log::read(&std::fs::read_to_string(folder.join(file)).expect("there")).expect("a log"))
        })
        .collect();
    let text = std::fs::read_to_string(folder.join(file)).expect("there");
    let (mut rows, mut wrong) = (0, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("a word");
        let (name, _batch, h, _ratio, budget, end, overhead, most) =
            (next(), next(), next(), next(), next(), next(), next(), next());
        let program = &logs[name];
        let base = program.time();
        let outcome =
            run(program, heuristic(h), budget.parse().expect("bytes"), base * (limit - 1), Clock::start(None));
        let word = match outcome.end {
            End::Done => "ok",
            End::OutOfMemory => "OOM",
            End::Thrash => "thrash",
            End::Stopped => "stopped",
        };
        // Their clock starts at 1.
        let ours =
            (word.to_owned(), format!("{:.6}", (outcome.time + 1) as f64 / base as f64), outcome.most.to_string());
        rows += 1;
        if ours != (end.to_owned(), overhead.to_owned(), most.to_owned()) {
            wrong.push(format!("{line}: ours {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {rows} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    rows
}

#[test]
fn every_overhead_of_the_authors_simulator_comes_out_to_six_digits() {
    let rows = compare("simrd_reference.txt", 2);
    assert!(rows == 0 || rows == 108, "{rows}");
}

#[test]
fn more_memory_may_be_worse_as_for_the_authors_simulator() {
    let rows = compare("simrd_inversion.txt", 60);
    assert!(rows == 0 || rows == 20, "{rows}");
}

/// A chain of operators of time 1 and size 1, each reading the last; the last one reads some of them again.
fn chain(length: usize, again: &[usize]) -> Program {
    let mut program = Program::default();
    for call in 0..length {
        let mut reads: Vec<usize> = call.checked_sub(1).into_iter().collect();
        if call + 1 == length {
            reads.extend(again);
        }
        let made = program.storage(1, call);
        program.calls.push(Call { reads, makes: vec![made], bytes: 1, workspace: 0, time: 1, again: Some(1) });
        program.events.push(Event::Call(call));
    }
    program.events.push(Event::Pin(length - 1));
    program
}

fn dropped(program: &Program, heuristic: Heuristic, budget: u64) -> Vec<usize> {
    let outcome = run(program, heuristic, budget, u64::MAX, Clock::start(None));
    let drops = outcome.actions.iter().filter_map(|action| match action {
        Action::Drop(storage) => Some(*storage),
        Action::Run(..) => None,
    });
    drops.collect()
}

#[test]
fn of_equal_costs_the_last_that_came_goes() {
    // All have size 1: of 0, 1 and 2 (3 reads 2, which is locked), 1 came last.
    assert_eq!(dropped(&chain(4, &[]), Heuristic::Size, 3), [1]);
    // By the last access they differ: 0 was wanted first.
    assert_eq!(dropped(&chain(4, &[]), Heuristic::Lru, 3), [0]);
}

#[test]
fn what_is_missing_is_made_again_from_the_last_that_is_there() {
    let program = chain(6, &[1]);
    let outcome = run(&program, Heuristic::Lru, 3, u64::MAX, Clock::start(None));
    assert_eq!(outcome.end, End::Done);
    assert!(outcome.actions.contains(&Action::Run(1, false)), "{:?}", outcome.actions);
    assert!(outcome.most <= 3 && outcome.time > 6);
    assert_eq!(run(&program, Heuristic::Lru, 3, 0, Clock::start(None)).end, End::Thrash);
    assert_eq!(run(&program, Heuristic::Lru, 1, u64::MAX, Clock::start(None)).end, End::OutOfMemory);
    let over = Clock::start(Some(Duration::ZERO));
    assert_eq!(run(&program, Heuristic::Lru, 3, u64::MAX, over).end, End::Stopped);
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    for (text, line, what) in [
        ("", 0, "no annotation START"),
        ("no json", 1, "expected"),
        ("{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n{\"INSTRUCTION\":\"JUMP\"}", 2, "JUMP"),
        (
            "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n{\"INSTRUCTION\":\"COPY\",\"SRC\":\"x\",\"DST\":\"y\"}",
            2,
            "x",
        ),
        (
            "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x\"}",
            2,
            "MEMORY",
        ),
    ] {
        let error = log::read(text).expect_err("no log");
        assert!(error.line == line && error.what.contains(what), "{text:?}: {error}");
    }
}
