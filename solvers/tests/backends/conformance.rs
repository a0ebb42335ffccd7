//! Every backend that is installed against every status. What a backend lacks stands in [`LACKS`]; all else is tried.
#![expect(clippy::print_stderr, reason = "what is skipped is said aloud")]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use remat_solvers::backend::session;
use remat_solvers::request::Observer;
use remat_solvers::{BACKENDS, Backend, Column, Kind, Model, Outcome, Progress, Request, Stop};

/// Knapsack: of values 10, 13, 7, 8 and weights 3, 4, 2, 3 at most 6: the best is 20 (13 + 7).
fn knapsack() -> Model {
    let mut model = Model { offset: 100.0, ..Model::default() };
    let columns: Vec<_> = [-10.0, -13.0, -7.0, -8.0].into_iter().map(|cost| model.binary(cost)).collect();
    model.at_most(6.0, columns.into_iter().zip([3.0, 4.0, 2.0, 3.0]));
    model
}

/// 2x = 1 for whole x, hidden from simple bound arguments by a second variable.
fn infeasible() -> Model {
    let mut model = Model::default();
    let (x, y) = (model.column(0.0, 9.0, 1.0, Kind::Integer), model.column(0.0, 9.0, 1.0, Kind::Integer));
    model.equal(7.0, [(x, 2.0), (y, 2.0)]);
    model
}

fn unbounded() -> Model {
    let mut model = Model::default();
    let x = model.column(0.0, f64::INFINITY, -1.0, Kind::Continuous);
    let y = model.column(0.0, f64::INFINITY, 0.0, Kind::Continuous);
    model.at_most(1.0, [(x, 1.0), (y, -1.0)]);
    model
}

/// Whole numbers from 0 to below a range, the same for the same seed.
fn dice(seed: u64) -> impl FnMut(u64) -> f64 {
    let mut state = seed;
    move |range| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % range) as f64
    }
}

/// Market split (Cornuejols and Dawande): equal halves of random demands in several markets at once.
/// Hard for branch and bound; with slack it is always feasible, without it finding a vector is all
/// there is to do.
fn market_split(markets: usize, customers: usize, slack: bool) -> Model {
    let mut next = dice(7);
    let mut model = Model::default();
    let columns: Vec<_> = (0..customers).map(|_| model.binary(0.0)).collect();
    for _ in 0..markets {
        let demands: Vec<f64> = columns.iter().map(|_| next(100)).collect();
        let half = (demands.iter().sum::<f64>() / 2.0).floor();
        let mut terms: Vec<_> = columns.iter().copied().zip(demands).collect();
        if slack {
            let (over, under) =
                (model.column(0.0, 1e6, 1.0, Kind::Continuous), model.column(0.0, 1e6, 1.0, Kind::Continuous));
            terms.extend([(over, -1.0), (under, 1.0)]);
        }
        model.equal(half, terms);
    }
    model
}

/// What not every backend can do.
#[derive(Clone, Copy, PartialEq)]
enum Ability {
    /// Keeps a proved bound when it stops early.
    DualBound,
    NodeLimit,
    /// Tells unbounded from infeasible.
    ToldApart,
    /// Stops when asked from outside.
    Interrupt,
    /// Tells incumbents and bounds while it runs.
    Progress,
    /// Says that memory ran out, or ends the process with words that do.
    OutOfMemory,
    PresolvedSize,
}

/// What a backend lacks.
const LACKS: [(&str, &[Ability]); 3] = [
    ("cbc", &[Ability::Progress, Ability::PresolvedSize]),
    (
        "cbc-linked",
        &[Ability::ToldApart, Ability::Interrupt, Ability::Progress, Ability::OutOfMemory, Ability::PresolvedSize],
    ),
    (
        "microlp",
        &[Ability::DualBound, Ability::NodeLimit, Ability::Interrupt, Ability::Progress, Ability::PresolvedSize],
    ),
];

fn can(backend: &dyn Backend, ability: Ability) -> bool {
    !LACKS.iter().any(|(id, lacks)| *id == backend.id() && lacks.contains(&ability))
}

/// The backends that are there; those that are not say so.
fn backends() -> impl Iterator<Item = &'static dyn Backend> {
    BACKENDS.iter().copied().filter(|backend| {
        let available = backend.available();
        available.inspect_err(|why| eprintln!("SKIPPED: {} in the conformance suite: {why}", backend.id())).is_ok()
    })
}

/// No request here goes without a limit: the one that never returns would keep the suite.
const MOST: Duration = Duration::from_secs(120);

fn solve(backend: &dyn Backend, model: &Model, mut request: Request<'_>) -> Outcome {
    request.time = request.time.or(Some(MOST));
    let outcome = backend.solve(model, &request).unwrap_or_else(|error| panic!("{}: {error}", backend.id()));
    assert_eq!(outcome.incumbent.is_some(), outcome.objective.is_some(), "{}", backend.id());
    if let Some(values) = outcome.incumbent.as_ref().filter(|_| !request.relaxation) {
        assert!(model.violation(values).max() < 1e-5, "{}: an incumbent is feasible", backend.id());
    }
    outcome
}

fn observed(backend: &'static dyn Backend, model: &Model, mut request: Request<'_>, observer: Observer<'_>) -> Outcome {
    request.time = request.time.or(Some(MOST));
    session(backend, model).expect("a model").solve(&request, Some(observer)).expect("solves")
}

fn close(left: Option<f64>, right: f64) -> bool {
    left.is_some_and(|left| (left - right).abs() < 1e-5)
}

#[test]
fn every_backend_finds_and_proves_an_optimum() {
    for backend in backends() {
        let outcome = solve(backend, &knapsack(), Request::default());
        assert_eq!(outcome.stop, Stop::Optimal, "{}: {}", backend.id(), outcome.raw_status);
        assert!(close(outcome.objective, 80.0) && close(outcome.dual_bound, 80.0), "{}: {outcome:?}", backend.id());
        assert_eq!((outcome.size.rows, outcome.size.columns, outcome.size.nonzeros), (1, 4, 4));
        assert!(!outcome.solver.is_empty());
    }
}

#[test]
fn a_model_without_columns_is_decided_by_its_rows() {
    for backend in backends() {
        for relaxation in [false, true] {
            let asked = || Request { relaxation, ..Request::default() };
            let mut model = Model { offset: 5.0, ..Model::default() };
            model.at_most(3.0, []);
            let outcome = solve(backend, &model, asked());
            assert_eq!(outcome.stop, Stop::Optimal, "{}: {}", backend.id(), outcome.raw_status);
            assert!(close(outcome.objective, 5.0) && close(outcome.dual_bound, 5.0), "{}: {outcome:?}", backend.id());
            model.at_least(1.0, []);
            let outcome = solve(backend, &model, asked());
            assert_eq!(outcome.stop, Stop::Infeasible, "{}: {}", backend.id(), outcome.raw_status);
            assert!(outcome.incumbent.is_none() && outcome.dual_bound.is_none(), "{}: {outcome:?}", backend.id());
        }
    }
}

#[test]
fn every_backend_relaxes_when_asked_to() {
    for backend in backends() {
        let request = Request { relaxation: true, ..Request::default() };
        let outcome = solve(backend, &knapsack(), request);
        assert_eq!(outcome.stop, Stop::Optimal, "{}: {}", backend.id(), outcome.raw_status);
        // 7 + 10 + a quarter of 13.
        assert!(close(outcome.objective, 100.0 - 20.25), "{}: {outcome:?}", backend.id());
        assert!(close(outcome.dual_bound, 100.0 - 20.25), "{}: {outcome:?}", backend.id());
    }
}

#[test]
fn bounds_that_converge_slowly_are_no_proof_of_infeasibility() {
    // Its point is (1, 0, 0, 0, 1, 0), or x2 = 1 too; CBC's tightening of bounds approaches it for ever.
    let mut model = Model::default();
    let x: Vec<Column> = (0..6).map(|_| model.column(0.0, 1.0, 0.0, Kind::Continuous)).collect();
    model.at_most(0.0, [(x[2], -1.0), (x[3], 1.0)]);
    model.at_most(-1.0, [(x[0], -1.0), (x[1], -1.0)]);
    model.equal(1.0, [(x[0], 1.0), (x[1], 1.0)]);
    model.at_most(6.0, [(x[0], 6.0), (x[1], 7.0), (x[3], 1.0)]);
    model.at_most(0.0, [(x[3], -1.0), (x[5], 1.0)]);
    model.at_most(-1.0, [(x[4], -1.0), (x[5], -1.0)]);
    model.equal(1.0, [(x[0], 1.0), (x[1], 1.0)]);
    model.at_least(1.0, [(x[2], 1.0), (x[4], 1.0)]);
    for backend in backends() {
        let outcome = solve(backend, &model, Request { relaxation: true, ..Request::default() });
        assert_eq!(outcome.stop, Stop::Optimal, "{}: {}", backend.id(), outcome.raw_status);
    }
}

#[test]
fn every_backend_proves_infeasibility() {
    for backend in backends() {
        let outcome = solve(backend, &infeasible(), Request::default());
        assert_eq!(outcome.stop, Stop::Infeasible, "{}: {}", backend.id(), outcome.raw_status);
        assert_eq!(outcome.incumbent, None);
        let mut model = infeasible();
        model.at_least(19.0, [(Column::from_index(0), 1.0), (Column::from_index(1), 1.0)]);
        let outcome = solve(backend, &model, Request { relaxation: true, ..Request::default() });
        assert_eq!(outcome.stop, Stop::Infeasible, "{}: {}", backend.id(), outcome.raw_status);
    }
}

#[test]
fn every_backend_proves_unboundedness() {
    for backend in backends() {
        let outcome = solve(backend, &unbounded(), Request::default());
        let told = can(backend, Ability::ToldApart) && outcome.stop == Stop::Unbounded;
        assert!(told || outcome.stop == Stop::InfeasibleOrUnbounded, "{}: {}", backend.id(), outcome.raw_status);
    }
}

#[test]
fn every_backend_stops_in_time_with_an_incumbent() {
    for backend in backends() {
        let request = Request { time: Some(Duration::from_secs(2)), ..Request::default() };
        let began = Instant::now();
        let model = market_split(5, 40, true);
        let outcome = solve(backend, &model, request);
        assert_eq!(outcome.stop, Stop::TimeLimit, "{}: {}", backend.id(), outcome.raw_status);
        assert!(outcome.incumbent.is_some(), "{}", backend.id());
        assert!(began.elapsed() < Duration::from_secs(20), "{}", backend.id());
        if can(backend, Ability::DualBound) {
            let (objective, bound) = (outcome.objective.expect("above"), outcome.dual_bound.expect("is kept"));
            assert!(bound <= objective + 1e-6, "{}: {bound} > {objective}", backend.id());
        }
    }
}

#[test]
fn every_backend_stops_in_time_without_an_incumbent() {
    for backend in backends() {
        let request = Request { time: Some(Duration::from_secs(1)), ..Request::default() };
        let outcome = solve(backend, &market_split(5, 40, false), request);
        assert_eq!(outcome.stop, Stop::TimeLimit, "{}: {}", backend.id(), outcome.raw_status);
        assert_eq!((outcome.incumbent, outcome.objective), (None, None), "{}", backend.id());
    }
}

#[test]
fn node_limits_are_kept_where_there_are_any() {
    for backend in backends().filter(|backend| can(*backend, Ability::NodeLimit)) {
        let request = Request { nodes: Some(3), time: Some(Duration::from_secs(60)), ..Request::default() };
        let outcome = solve(backend, &market_split(4, 30, true), request);
        assert_eq!(outcome.stop, Stop::NodeLimit, "{}: {}", backend.id(), outcome.raw_status);
        assert!(outcome.nodes.is_none_or(|nodes| nodes < 1000), "{}", backend.id());
    }
}

#[test]
fn an_interrupt_from_outside_stops_every_backend_that_says_so() {
    for backend in backends().filter(|backend| can(*backend, Ability::Interrupt)) {
        let flag = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(700));
                flag.store(true, Ordering::Relaxed);
            });
            let time = Some(Duration::from_secs(60));
            let request = Request { interrupt: Some(&flag), time, ..Request::default() };
            solve(backend, &market_split(5, 40, true), request)
        });
        assert_eq!(outcome.stop, Stop::Interrupted, "{}: {}", backend.id(), outcome.raw_status);
        assert!(outcome.dual_bound.is_some() && outcome.solve_seconds < 30.0, "{}", backend.id());
    }
}

#[test]
fn progress_is_told_as_it_comes_and_an_observer_may_stop_the_search() {
    for backend in backends().filter(|backend| can(*backend, Ability::Progress)) {
        let (mut incumbents, mut bounds) = (vec![], vec![]);
        let model = market_split(5, 40, true);
        let mut observer = |progress: &Progress<'_>| {
            if let Some(values) = progress.values {
                assert!(model.violation(values).max() < 1e-5);
                incumbents.push(progress.incumbent.expect("an incumbent has an objective"));
            }
            bounds.extend(progress.bound);
            let found = progress.nodes > 20 && incumbents.len() > 1;
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let time = Some(Duration::from_secs(60));
        let outcome = observed(backend, &model, Request { time, ..Request::default() }, &mut observer);
        assert_eq!(outcome.stop, Stop::Interrupted, "{}: {}", backend.id(), outcome.raw_status);
        assert!(incumbents.windows(2).all(|pair| pair[1] < pair[0]), "{incumbents:?}");
        assert!(!bounds.is_empty());
    }
}

#[test]
fn bounds_that_a_session_tells_between_solves_are_bounds() {
    for backend in backends().filter(|backend| can(*backend, Ability::Progress)) {
        let model = market_split(3, 20, true);
        let mut session = session(backend, &model).expect("a model");
        let mut told = 0;
        // A vector of the relaxation is there when the mixed-integer program is solved.
        for (relaxation, seed) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
            let mut bounds = vec![];
            let mut observer = |progress: &Progress<'_>| {
                bounds.extend(progress.bound);
                ControlFlow::Continue(())
            };
            let request = Request { relaxation, seed, ..Request::default() };
            let outcome = session.solve(&request, Some(&mut observer)).expect("solves");
            assert_eq!(outcome.stop, Stop::Optimal, "{}: {}", backend.id(), outcome.raw_status);
            let optimum = outcome.objective.expect("optimal");
            assert!(bounds.iter().all(|&bound| bound <= optimum + 1e-6), "{}: {bounds:?} > {optimum}", backend.id());
            told += bounds.len();
        }
        assert!(told > 0, "{}", backend.id());
    }
}

/// With several threads HiGHS 1.15 takes better vectors over from them one by one, and tells a bound with each that holds only
/// once it has them all.
#[test]
fn bounds_told_while_threads_search_are_bounds() {
    let mut next = dice(5);
    let mut told = 0;
    for round in 0..40 {
        // Ten customers are each served by one of five sites, within what an open site can give.
        let mut model = Model::default();
        let sites: Vec<_> = (0..5).map(|_| model.binary(201.0 + next(100))).collect();
        let customers: Vec<Vec<_>> =
            (0..10).map(|_| sites.iter().map(|_| model.binary(1.0 + next(100))).collect()).collect();
        let needs: Vec<f64> = customers.iter().map(|_| 1.0 + next(100)).collect();
        for customer in &customers {
            model.equal(1.0, customer.iter().map(|&column| (column, 1.0)));
        }
        for (site, &open) in sites.iter().enumerate() {
            let served = customers.iter().zip(&needs).map(|(customer, &need)| (customer[site], need));
            model.at_most(0.0, served.chain([(open, -200.0)]));
        }
        for backend in backends().filter(|backend| can(*backend, Ability::Progress)) {
            let mut bounds = vec![];
            let mut observer = |progress: &Progress<'_>| {
                bounds.extend(progress.bound);
                ControlFlow::Continue(())
            };
            let outcome = observed(backend, &model, Request { threads: 2, ..Request::default() }, &mut observer);
            let optimum = outcome.objective;
            let wrong = bounds.iter().find(|&&bound| optimum.is_some_and(|optimum| bound > optimum + 1e-6));
            assert_eq!(wrong, None, "round {round}, {}: the optimum is {optimum:?}", backend.id());
            told += bounds.len();
        }
    }
    assert!(told > 0);
}

#[test]
fn a_feasible_start_is_accepted_and_never_lost() {
    let model = market_split(5, 40, true);
    // Everything is bought, and the slack takes what is too much.
    let mut start = vec![1.0; 40];
    for row in 0..model.rows.len() {
        let terms: f64 = model.rows.terms(row).take(40).map(|(_, value)| value).sum();
        start.extend([terms - model.rows.upper[row], 0.0]);
    }
    let worth = model.objective(&start);
    for backend in backends() {
        let time = Some(Duration::from_secs(1));
        let outcome = solve(backend, &model, Request { start: Some(&start), time, ..Request::default() });
        assert!(outcome.objective.is_some_and(|objective| objective <= worth + 1e-6), "{}", backend.id());
    }
}

#[test]
fn a_cutoff_is_kept_where_there_are_any() {
    for backend in backends() {
        let best = [0.0, 1.0, 1.0, 0.0];
        for start in [None, Some(&best[..])] {
            let cut =
                |cutoff| solve(backend, &knapsack(), Request { cutoff: Some(cutoff), start, ..Request::default() });
            let beyond = cut(80.5);
            assert!(beyond.stop == Stop::Optimal && close(beyond.objective, 80.0), "{}: {beyond:?}", backend.id());
            let within = cut(79.5);
            let kept = within.stop == Stop::Cutoff && within.incumbent.is_none() && close(within.dual_bound, 79.5);
            let ignored = within.stop == Stop::Optimal && close(within.objective, 80.0);
            assert!(if backend.cuts_off() { kept } else { ignored }, "{}: {within:?}", backend.id());
        }
        let linear = Request { cutoff: Some(0.0), relaxation: true, ..Request::default() };
        assert_eq!(solve(backend, &knapsack(), linear).stop, Stop::Optimal, "{}", backend.id());
    }
}

#[test]
fn a_start_that_breaks_the_model_is_passed_over() {
    for backend in backends() {
        for start in [vec![1.0; 4], vec![0.5, 0.0, 0.0, 0.0], vec![0.0; 3], vec![f64::NAN; 4]] {
            let outcome = solve(backend, &knapsack(), Request { start: Some(&start), ..Request::default() });
            assert_eq!(outcome.stop, Stop::Optimal, "{}", backend.id());
            assert!(close(outcome.objective, 80.0), "{}: {outcome:?}", backend.id());
        }
    }
}

#[test]
fn interior_point_agrees_or_is_passed_over() {
    for backend in backends() {
        let request = Request { relaxation: true, interior_point: true, ..Request::default() };
        let objective = solve(backend, &knapsack(), request).objective;
        assert!(objective.is_some_and(|value| (value - 79.75).abs() < 1e-2), "{}: {objective:?}", backend.id());
    }
}

#[test]
fn presolve_is_measured_on_request() {
    for backend in backends().filter(|backend| can(*backend, Ability::PresolvedSize)) {
        let request = Request { measure_presolve: true, nodes: Some(1), ..Request::default() };
        let outcome = solve(backend, &market_split(3, 20, true), request);
        let size = outcome.presolved.expect("asked for");
        assert!(size.rows <= 3 && size.columns <= 26 && size.nonzeros > 0, "{size:?}");
        assert!(outcome.presolve_seconds.is_some());
    }
}

#[test]
fn a_session_takes_rows_between_solves() {
    for backend in backends() {
        let mut model = knapsack();
        let mut session = session(backend, &model).expect("a model");
        let mut rows = remat_solvers::RowBlock::default();
        let columns: Vec<_> = (0..4).map(Column::from_index).collect();
        rows.push(f64::NEG_INFINITY, 1.0, columns.iter().map(|&column| (column, 1.0)));
        for relaxation in [true, false] {
            let outcome = session.solve(&Request { relaxation, ..Request::default() }, None).expect("solves");
            assert!(close(outcome.objective, if relaxation { 79.75 } else { 80.0 }));
        }
        session.add_rows(&rows).expect("takes rows");
        model.rows.append(&rows);
        for relaxation in [true, false] {
            let again = session.solve(&Request { relaxation, ..Request::default() }, None).expect("solves");
            let anew = solve(backend, &model, Request { relaxation, ..Request::default() });
            assert!(close(again.objective, anew.objective.expect("feasible")));
            assert!(close(again.objective, 87.0));
        }
    }
}

#[test]
fn backends_agree_on_random_programs() {
    let mut next = dice(99);
    for round in 0..60 {
        let mut model = Model::default();
        let columns: Vec<_> = (0..6)
            .map(|at| {
                let kind = if at % 3 == 2 { Kind::Continuous } else { Kind::Integer };
                let (upper, cost) = (1.0 + next(4), next(9) - 4.0);
                model.column(0.0, upper, cost, kind)
            })
            .collect();
        for _ in 0..4 {
            let lower = next(6) - 4.0;
            let terms: Vec<_> =
                columns.iter().map(|&column| (column, next(7) - 3.0)).filter(|term| term.1 != 0.0).collect();
            model.rows.push(lower, lower + 3.0 + next(5), terms);
        }
        let outcomes: Vec<Outcome> = backends().map(|backend| solve(backend, &model, Request::default())).collect();
        for outcome in &outcomes {
            assert_eq!(outcome.stop, outcomes[0].stop, "round {round}: {}", outcome.solver);
            let objective = outcomes[0].objective;
            assert!(objective.is_none_or(|value| close(outcome.objective, value)), "round {round}: {}", outcome.solver);
        }
    }
}

/// Names the backend that a child process runs out of memory with.
const STARVED: &str = "SOLVERS_TEST_STARVED_BACKEND";

/// Not a test by itself: what the child process of the next one does.
#[test]
fn child_that_runs_out_of_memory() {
    let Ok(id) = std::env::var(STARVED) else { return };
    let backend = backends().find(|backend| backend.id() == id).expect("is there");
    let model = market_split(60, 20_000, true);
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = status.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    let limit = pages * 4096 + (8 << 20);
    setrlimit(Resource::RLIMIT_AS, limit, limit).expect("a lower limit is always allowed");
    let outcome = solve(backend, &model, Request { time: Some(Duration::from_secs(60)), ..Request::default() });
    assert_eq!(outcome.stop, Stop::MemoryLimit, "{}", outcome.raw_status);
    assert_eq!((outcome.incumbent, outcome.dual_bound), (None, None));
}

#[test]
fn out_of_memory_is_said_or_ends_the_process_with_words_that_name_it() {
    for backend in backends() {
        let output = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "conformance::child_that_runs_out_of_memory", "--nocapture", "--test-threads=1"])
            .env(STARVED, backend.id())
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("starts");
        let words = String::from_utf8_lossy(&output.stderr);
        let named = ["memory allocation of", "std::bad_alloc", "cannot allocate memory"];
        let named = named.iter().any(|name| words.contains(name));
        let gap = !can(backend, Ability::OutOfMemory);
        assert!(output.status.success() || named || gap, "{}: {:?}: {words}", backend.id(), output.status);
    }
}
