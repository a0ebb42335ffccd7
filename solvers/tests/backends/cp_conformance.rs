//! Every constraint solver against every status, rule and limit; and against each other on random
//! programs. A solver that is not installed is said aloud.
#![allow(clippy::print_stderr, reason = "what is skipped is said aloud")]

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use remat_solvers::Stop;
use remat_solvers::cp::model::{Event, IntervalParts};
use remat_solvers::cp::{CP_BACKENDS, CpBackend, CpModel, CpOutcome, CpRequest, Emphasis, Literal, Rule, Variable};

/// The solvers that are there.
fn backends() -> impl Iterator<Item = &'static dyn CpBackend> {
    CP_BACKENDS.iter().copied().filter(|backend| {
        if let Err(why) = backend.available() {
            eprintln!("skipped {}: {why}", backend.id());
        }
        backend.available().is_ok()
    })
}

fn solve(backend: &dyn CpBackend, model: &CpModel, request: &CpRequest<'_>) -> CpOutcome {
    let outcome = backend.solve(model, request).unwrap_or_else(|error| panic!("{}: {error}", backend.id()));
    assert_eq!(outcome.values.is_some(), outcome.objective.is_some(), "{}", backend.id());
    if let Some(values) = &outcome.values {
        assert_eq!(model.broken(values), None, "{}", backend.id());
        assert_eq!(Some(model.objective_of(values)), outcome.objective, "{}", backend.id());
    }
    let (objective, bound) = (outcome.objective.unwrap_or(i64::MAX), outcome.bound.unwrap_or(i64::MIN));
    assert!(bound <= objective, "{}: bound {bound} above {objective}", backend.id());
    outcome
}

/// Knapsack: of values 10, 13, 7, 8 and weights 3, 4, 2, 3 at most 6: the best is 20 (13 + 7).
fn knapsack() -> CpModel {
    let mut model = CpModel::default();
    let items: Vec<Variable> = (0..4).map(|_| model.boolean()).collect();
    model.at_most(items.iter().copied().zip([3, 4, 2, 3]).collect(), 6);
    model.objective = items.into_iter().zip([-10, -13, -7, -8]).collect();
    model
}

/// Pigeons that each need a hole of their own, and one hole too few.
fn pigeons(holes: usize) -> CpModel {
    let mut model = CpModel::default();
    let sits: Vec<Vec<Literal>> =
        (0..=holes).map(|_| (0..holes).map(|_| Literal::from(model.boolean())).collect()).collect();
    for pigeon in &sits {
        model.rule(Rule::Clause(pigeon.clone()));
    }
    for hole in 0..holes {
        model.rule(Rule::AtMostOne(sits.iter().map(|pigeon| pigeon[hole]).collect()));
    }
    model
}

/// Market split: hard for everybody, feasible with slack.
fn market_split(markets: usize, customers: usize) -> CpModel {
    let mut random = Random(7);
    let mut model = CpModel::default();
    let choices: Vec<Variable> = (0..customers).map(|_| model.boolean()).collect();
    for _ in 0..markets {
        let demands: Vec<i64> = choices.iter().map(|_| random.below(100)).collect();
        let half = demands.iter().sum::<i64>() / 2;
        let (over, under) = (model.variable(0, 10_000), model.variable(0, 10_000));
        let mut terms: Vec<_> = choices.iter().copied().zip(demands).collect();
        terms.extend([(over, -1), (under, 1)]);
        model.rule(Rule::Linear { terms, lower: half, upper: half });
        model.objective.extend([(over, 1), (under, 1)]);
    }
    model
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((word ^ (word >> 31)) % bound).expect("small")
    }
}

#[test]
fn a_backend_that_is_not_listed_is_refused() {
    assert!(remat_solvers::cp::cp_backend("none").is_err());
}

#[test]
fn optimal_is_told_with_every_emphasis() {
    for backend in backends() {
        for emphasis in [Emphasis::Default, Emphasis::Cores, Emphasis::Relaxation] {
            for seed in 0..3 {
                let outcome = solve(backend, &knapsack(), &CpRequest { emphasis, seed, ..CpRequest::default() });
                assert_eq!(outcome.stop, Stop::Optimal, "{}: {}", backend.id(), outcome.raw_status);
                assert_eq!((outcome.objective, outcome.bound), (Some(-20), Some(-20)), "{}", backend.id());
                assert!(outcome.solver.len() > 4 && outcome.seconds > 0.0);
            }
        }
    }
}

#[test]
fn infeasible_is_told_and_leaves_neither_values_nor_bound() {
    for backend in backends() {
        let mut empty = knapsack();
        empty.rule(Rule::Clause(Vec::new()));
        for model in [pigeons(4), empty] {
            let outcome = solve(backend, &model, &CpRequest::default());
            assert_eq!(outcome.stop, Stop::Infeasible, "{}: {}", backend.id(), outcome.raw_status);
            assert_eq!((outcome.values, outcome.bound), (None, None), "{}", backend.id());
        }
    }
}

#[test]
fn the_time_limit_is_kept_and_is_no_proof() {
    for backend in backends() {
        let began = Instant::now();
        let time = Some(Duration::from_millis(1500));
        let outcome = solve(backend, &market_split(6, 60), &CpRequest { time, ..CpRequest::default() });
        assert_eq!(outcome.stop, Stop::TimeLimit, "{}: {}", backend.id(), outcome.raw_status);
        assert!(began.elapsed() < Duration::from_secs(60), "{}", backend.id());
    }
}

#[test]
fn without_time_there_are_no_values_but_a_full_hint_is_kept() {
    let model = market_split(6, 60);
    let values = model.domains.iter().take(60).map(|_| 1);
    let mut values: Vec<i64> = values.collect();
    for constraint in &model.constraints {
        let Rule::Linear { terms, upper, .. } = &constraint.rule else { continue };
        values.extend([terms.iter().take(60).map(|term| term.1).sum::<i64>() - upper, 0]);
    }
    let hint: Vec<(Variable, i64)> =
        values.iter().enumerate().map(|(at, &value)| (Variable::from_index(at), value)).collect();
    let objective = model.objective_of(&values);
    for backend in backends() {
        let time = Some(Duration::from_millis(1));
        let bare = solve(backend, &model, &CpRequest { time, ..CpRequest::default() });
        assert_eq!(bare.stop, Stop::TimeLimit, "{}", backend.id());
        let hinted = solve(backend, &model, &CpRequest { time, hint: &hint, ..CpRequest::default() });
        assert!(hinted.objective.is_some_and(|found| found <= objective), "{}: {}", backend.id(), hinted.raw_status);
        let partial = solve(backend, &knapsack(), &CpRequest { hint: &hint[..2], ..CpRequest::default() });
        assert_eq!(partial.objective, Some(-20), "{}", backend.id());
    }
}

#[test]
fn an_interrupt_stops_the_search() {
    let model = market_split(6, 60);
    // microlp runs on to its time limit.
    for backend in backends().filter(|backend| backend.id() != "microlp") {
        let flag = AtomicBool::new(false);
        let began = Instant::now();
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                flag.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let request =
                CpRequest { interrupt: Some(&flag), time: Some(Duration::from_secs(60)), ..CpRequest::default() };
            solve(backend, &model, &request)
        });
        assert_eq!(outcome.stop, Stop::Interrupted, "{}: {}", backend.id(), outcome.raw_status);
        assert!(began.elapsed() < Duration::from_secs(50), "{}", backend.id());
    }
}

/// Two or three optional tasks on a machine, a tank, and some odd rules; every status occurs.
fn random_program(seed: u64) -> CpModel {
    let mut random = Random(seed);
    let mut model = CpModel::default();
    let horizon = 5 + random.below(4);
    let capacity = model.variable(random.below(3), 3 + random.below(3));
    let (mut demands, mut events) = (Vec::new(), Vec::new());
    for task in 0..3 {
        let (start, end) = (model.variable(0, horizon), model.variable(0, horizon));
        let size = model.variable(random.below(2), 1 + random.below(3));
        let present = (task > 0).then(|| Literal::from(model.boolean()));
        let present = present.map(|present| if random.below(2) == 0 { present } else { !present });
        demands.push((model.interval(IntervalParts { start, size, end, present }), 1 + random.below(3)));
        let change = random.below(5) - 2;
        events.push(Event { time: start, change, active: present.filter(|present| !present.negated) });
        model.objective.extend([(end, random.below(5) - 1), (start, random.below(3) - 1)]);
        model.objective.extend(present.map(|there| (there.variable, random.below(15) - 7)));
        if random.below(3) == 0 {
            let values = (0..horizon).filter(|_| random.below(2) == 0).collect::<Vec<_>>();
            if !values.is_empty() {
                model.rule(Rule::Among { variable: start, values });
            }
        }
        if let Some(present) = present.filter(|_| random.below(2) == 0) {
            let terms = vec![(start, 1), (capacity, 2)];
            model.enforced(vec![present], Rule::Linear { terms, lower: random.below(6), upper: 8 + random.below(4) });
        }
    }
    model.objective.push((capacity, 1 + random.below(4)));
    model.rule(Rule::Cumulative { demands, capacity });
    let from = (random.below(2) == 0).then_some(capacity);
    model.rule(Rule::Reservoir { events, from, lower: -1, upper: 6 });
    model
}

#[test]
fn backends_agree_on_random_programs_with_every_rule() {
    let mut statuses = std::collections::BTreeMap::new();
    for seed in 0..60 {
        let model = random_program(seed);
        let outcomes: Vec<CpOutcome> =
            backends().map(|backend| solve(backend, &model, &CpRequest::default())).collect();
        for outcome in &outcomes {
            let told = (outcome.stop, outcome.objective);
            let first = &outcomes[0];
            let words = [&first.raw_status, &outcome.raw_status];
            assert_eq!(told, (first.stop, first.objective), "seed {seed}: {} {words:?}", outcome.solver);
        }
        *statuses.entry(format!("{:?}", outcomes[0].stop)).or_insert(0) += 1;
    }
    assert!(statuses["Optimal"] > 20, "{statuses:?}");
}
