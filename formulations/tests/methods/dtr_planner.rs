//! `dtr` against what its authors' simulator answers, and its traps.
//!
//! The logs are not here (their repository has no licence): with BENCH_REFERENCE_DATA naming the folder that has `dtr/` in it, every
//! overhead of `simrd_reference.txt` and `simrd_inversion.txt` is computed again.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{empty, operator, tensor};
use remat_core::format::TensorKind::{self, Activation, Input, Output};
use remat_core::format::{Origin, Phase};
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::{Instance, Step, simulate};
use remat_formulations::planners::dtr::Heuristic;
use remat_formulations::planners::dtr::online::{Action, End, run};
use remat_formulations::planners::dtr::program::{Call, Event, Program};
use remat_formulations::planners::dtr::{import, log};
use remat_formulations::search::clock::Clock;
use remat_formulations::{Context, Limits, Parameters, find};

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
            (name, log::read(&std::fs::read_to_string(folder.join(file)).expect("there")).expect("a log").program)
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
fn coop_lets_neighbours_go_where_the_others_let_go_what_costs_least() {
    // Storages of 1 byte at addresses 0 to 4, read long ago; then one of 2 bytes. The dearest is at address 2.
    let mut program = Program::default();
    for (call, (bytes, time)) in [(1, 1), (1, 9), (1, 20), (1, 9), (1, 1), (2, 1)].into_iter().enumerate() {
        let made = program.storage(bytes, call);
        program.calls.push(Call { reads: vec![], makes: vec![made], bytes, workspace: 0, time, again: Some(time) });
        program.events.push(Event::Call(call));
    }
    // The budget has no hole: 0 and 1 lie side by side; lru takes 0 and 1 too, size the last two of equal bytes.
    assert_eq!(dropped(&program, Heuristic::Coop, 5), [0, 1]);
    assert_eq!(dropped(&program, Heuristic::Size, 5), [4, 3]);
    // By cost alone the first and the last would go, which are no neighbours: 1 / 40 and 1 / 1 against 9 / 39.
    assert_eq!(dropped(&program, Heuristic::Local, 5), [0, 1]);
}

#[test]
fn coop_counts_what_was_made_together_and_not_what_was_made_from_it() {
    // One operator makes 0 and 1. 2 is made from 0, 3 from 2; 4 wants room.
    let mut program = Program::default();
    let sizes: [&[u64]; 4] = [&[1, 1], &[1], &[1], &[3]];
    let reads: [&[usize]; 4] = [&[], &[0], &[2], &[]];
    for (call, (sizes, reads)) in sizes.iter().zip(reads).enumerate() {
        let makes: Vec<usize> = sizes.iter().map(|&bytes| program.storage(bytes, call)).collect();
        let bytes = sizes.iter().sum();
        program.calls.push(Call { reads: reads.to_vec(), makes, bytes, workspace: 0, time: 5, again: Some(5) });
        program.events.push(Event::Call(call));
    }
    let outcome = run(&program, Heuristic::Coop, 4, u64::MAX, Clock::start(None));
    assert_eq!((outcome.end, outcome.most), (End::Done, 4));
    assert_eq!(dropped(&program, Heuristic::Coop, 4), [0, 1, 2]);
}

#[test]
fn coop_gets_through_the_authors_logs_within_its_arena() {
    let Some(folder) = folder() else { return };
    for (file, peak) in [("resnet32-56.log", 10_061_179_152_u64), ("unet-6.log", 8_415_764_640)] {
        let text = std::fs::read_to_string(folder.join(file)).expect("there");
        let program = log::read(&text).expect("a log").program;
        for tenths in 6..10 {
            let budget = peak / 10 * tenths;
            let outcome = run(&program, Heuristic::Coop, budget, program.time(), Clock::start(None));
            assert_eq!(outcome.end, End::Done, "{file} {tenths}");
            assert!(outcome.most <= budget, "{file} {tenths}: {} of {budget}", outcome.most);
        }
    }
}

const LOG: &str = concat!(
    "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n",
    "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"w\"}\n{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"w\",\"MEMORY\":\"7\"}\n",
    "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"mm\",\"TIME\":\"5\",\"ARGS\":[\"w\"],\"RESULT\":[\"a\"]}\n",
    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"a\",\"MEMORY\":\"10\"}\n{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"a\",\"ALIAS\":\"-1\"}\n",
    "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"view\",\"TIME\":\"1\",\"ARGS\":[\"a\"],\"RESULT\":[\"v\"]}\n",
    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"v\",\"MEMORY\":\"10\"}\n{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"v\",\"ALIAS\":\"0\"}\n",
    "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"a\"}\n",
    "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"BACKWARD\"}\n",
    "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"sum\",\"TIME\":\"2\",\"ARGS\":[\"v\"],\"RESULT\":[\"b\"]}\n",
    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"b\",\"MEMORY\":\"4\"}\n{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"b\",\"ALIAS\":\"-1\"}\n",
    "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"v\"}\n",
);

#[test]
fn a_log_becomes_an_instance_whose_views_take_no_bytes_and_hold_their_storage() {
    let document = import::instance_of("log", LOG, &Origin::Exact {}).expect("a log");
    let instance = Instance::new(&document).expect("valid");
    let shown: Vec<_> = instance.tensors().iter().map(|tensor| (tensor.bytes, tensor.kind)).collect();
    assert_eq!(shown, [(7, Input), (10, Activation), (0, Activation), (4, Output)]);
    let phases: Vec<_> =
        instance.operators().iter().map(|operator| (operator.op_type.as_str(), operator.phase)).collect();
    assert_eq!(phases, [("mm", Phase::Forward), ("view", Phase::Forward), ("sum", Phase::Backward)]);
    assert!(instance.operators().iter().all(|operator| operator.recomputable));
    let store_all = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
    let simulation = simulate(&instance, &store_all).expect("legal");
    assert_eq!((simulation.time, simulation.peak_bytes), (8, 21));
}

#[test]
fn the_authors_logs_become_instances_with_their_time_and_at_most_their_memory() {
    let Some(folder) = folder() else { return };
    for (file, time, peak) in
        [("resnet32-56.log", 291_905_487_u64, 10_061_179_152_u64), ("unet-6.log", 435_278_292, 8_415_764_640)]
    {
        let text = std::fs::read_to_string(folder.join(file)).expect("there");
        let document = import::instance_of(file, &text, &Origin::Exact {}).expect("a log");
        let instance = Instance::new(&document).expect("valid");
        let store_all = with_liveness(&instance, &Plan::fastest(&instance).store_all(&instance));
        let simulation = simulate(&instance, &store_all).expect("legal");
        assert!(simulation.time == time && simulation.peak_bytes <= peak, "{file}: {simulation:?}");
        assert!(simulation.peak_bytes > peak / 10 * 9, "{file}: {} of {peak}", simulation.peak_bytes);
    }
}

#[test]
fn an_operator_without_results_runs_and_what_cannot_be_made_again_stays_for_who_may_read_it_again() {
    // 0 makes what must not be made again, 1 and 2 read it; the backward operator 4 makes nothing, and wants 1 again.
    let mut document = empty("once");
    document.tensors = vec![
        tensor(0, 1, TensorKind::Input),
        tensor(1, 5, TensorKind::Activation),
        tensor(2, 10, TensorKind::Activation),
        tensor(3, 20, TensorKind::Activation),
        tensor(4, 1, TensorKind::Output),
    ];
    document.operators = vec![
        operator(0, Phase::Forward, vec![0], vec![1]),
        operator(1, Phase::Forward, vec![1], vec![2]),
        operator(2, Phase::Forward, vec![0], vec![3]),
        operator(3, Phase::Loss, vec![3], vec![4]),
        operator(4, Phase::Backward, vec![2, 4], vec![]),
    ];
    document.operators[0].recomputable = Some(false);
    document.order = vec![0, 1, 2, 3, 4];
    let instance = Instance::new(&document).expect("valid");
    let method = find("dtr").expect("registered");
    for h in ["dtr", "eq", "local", "msps", "lru", "size", "coop"] {
        let given = std::collections::BTreeMap::from([("h".to_owned(), h.to_owned())]);
        let parameters = Parameters::new(method.about().parameters, &given).expect("parameters");
        let limits = Limits { time: None, threads: 1, seed: 0 };
        let answers = method.answers(&Context::new(&instance, &parameters, &[Some(30)], limits)).expect("supported");
        let schedule = answers[0].schedule.as_ref().unwrap_or_else(|| panic!("{h}: {}", answers[0].note));
        let runs = |id: usize| {
            let runs = schedule.steps.iter();
            runs.filter(|step| matches!(step, Step::Compute { operator, .. } if operator.index() == id)).count()
        };
        assert_eq!([0, 1, 4].map(runs), [1, 2, 1], "{h}");
    }
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    for (text, line, what) in [
        ("", 1, "\"START\"} until here"),
        ("[\"CALL\"]", 1, "expected an object"),
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
