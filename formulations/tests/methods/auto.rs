//! `auto`: the schedules of all, the bounds of those that prove them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::networks::{ONE, answers, budgets, instance, solve};
use remat_core::format::{OperatorDocument, TensorDocument, TensorKind};
use remat_core::generate::layered::{Layered, layered};
use remat_core::generate::unit::unit_chain;
use remat_core::io::read_instance;
use remat_core::{Instance, Schedule, simulate};
use remat_formulations::method::claim::Order;
use remat_formulations::staged::joint::Joint;
use remat_formulations::{
    Answer, Claim, Class, Context, Limits, Method, Parameters, Progress, Registered, Reporter, Starts, Termination,
    find,
};

const SHORT: [(&str, &str); 1] = [("iterations", "2000")];

/// What the simulator says; a schedule over the budget counts for nothing.
fn time(instance: &Instance, answer: &Answer) -> Option<u64> {
    let simulation = simulate(instance, answer.schedule.as_ref()?).expect("legal");
    let within = answer.budget.is_none_or(|budget| simulation.peak_bytes <= budget);
    within.then_some(simulation.time)
}

#[test]
fn no_method_that_takes_part_is_faster() {
    let mut optimal = 0;
    for seed in 0..8 {
        let instance = instance(seed);
        let budgets = budgets(&Joint::new(&instance).expect("has stages"), 3);
        let times = |id, given: &[(&str, &str)]| -> Vec<Option<u64>> {
            let answers = solve(id, &instance, &budgets, given);
            answers.iter().map(|answer| time(&instance, answer)).collect()
        };
        let answers = solve("auto", &instance, &budgets, &SHORT);
        optimal += answers.iter().filter(|answer| answer.termination == Termination::Optimal).count();
        let auto = times("auto", &SHORT);
        for id in ["linearized-greedy", "rotor-persistent", "checkmate-ilp", "monet"] {
            if find(id).is_some_and(|method| method.supports(&instance).is_err()) {
                continue;
            }
            for ((budget, ours), theirs) in budgets.iter().zip(&auto).zip(times(id, &[])) {
                let worse = theirs.is_some_and(|theirs| ours.is_none_or(|ours| ours > theirs));
                assert!(!worse, "seed {seed}, budget {budget:?}: auto {ours:?}, {id} {theirs:?}");
            }
        }
    }
    assert!(optimal > 10, "{optimal} proved optimal");
}

#[test]
fn an_answer_with_a_bound_says_of_which_class_it_holds_and_every_answer_who_found_the_schedule() {
    let mut named_classes = 0;
    let instance = instance(1);
    let budgets = budgets(&Joint::new(&instance).expect("has stages"), 3);
    for answer in solve("auto", &instance, &budgets, &SHORT).iter().filter(|answer| answer.schedule.is_some()) {
        assert!(answer.note.starts_with("found by "), "{}", answer.note);
        assert_eq!(answer.claim.is_some(), answer.lower_bound.is_some(), "{}", answer.note);
        let Some(claim) = answer.claim else { continue };
        named_classes += 1;
        let named = ["checkmate-ilp", "monet"].map(|id| {
            let method = find(id).expect("registered");
            method.claim(&Parameters::defaults(method.about().parameters))
        });
        assert!(named.contains(&claim), "{claim}");
    }
    assert!(named_classes > 0, "no answer has a bound");
}

#[test]
fn where_an_annealing_finds_a_better_order_the_best_schedule_in_that_order_is_looked_for() {
    let auto = find("auto").expect("registered");
    let given = BTreeMap::from([("iterations".to_owned(), "20000".to_owned())]);
    let parameters = Parameters::new(auto.about().parameters, &given).expect("parameters of the method");
    let (mut looked, mut found) = (0, 0);
    for seed in 0..6 {
        let document = layered("layered", &Layered { width: 0.5, ..Layered::moccasin(14, 0.5) }, seed);
        let instance = Instance::new(&document).expect("valid");
        let budgets = budgets(&Joint::new(&instance).expect("has stages"), 4);
        let limits = Limits { time: Some(Duration::from_secs(3)), threads: 1, seed: 0 };
        let context = Context { starts: &WithoutBound, ..Context::new(&instance, &parameters, &budgets, limits) };
        for answer in auto.answers(&context).expect("answers") {
            let claimed = answer.claimed.map(|claimed| claimed.time);
            assert_eq!(time(&instance, &answer), claimed, "{}", answer.note);
            looked += usize::from(answer.note.contains("checkmate-ilp in another order: "));
            found += usize::from(answer.note.starts_with("found by checkmate-ilp in another order;"));
            // What is proved in that order is not a bound on others.
            let covers = |claim: Claim| claim.class.order == Order::Stages || claim == Claim::optimum(Class::ALL);
            assert!(answer.claim.is_none_or(covers), "{}", answer.note);
        }
    }
    assert!(looked > 0, "{looked} looked for, {found} found");
}

/// A unit chain of 8 layers; the last one has a weight gradient, which is made as soon as can be.
fn with_large_gradient(bytes: u64) -> Instance {
    let mut document = unit_chain("dense-at-the-end", 8);
    let (operator, tensor) = (document.operators[9].clone(), document.tensors[9].clone());
    document.tensors.push(TensorDocument {
        id: 17,
        name: "w8".into(),
        kind: TensorKind::ParamGradient,
        bytes,
        ..tensor
    });
    document.operators.push(OperatorDocument { id: 17, name: "w8".into(), outputs: vec![17], ..operator });
    document.order.insert(10, 17);
    Instance::new(&document).expect("valid")
}

/// The registered methods but for `free-order-bound`.
struct WithoutBound;

impl Starts for WithoutBound {
    fn schedule(&self, _: &str, _: &Context<'_>, _: Option<u64>, _: Option<Duration>) -> Result<Schedule, String> {
        Err("not asked for".into())
    }

    fn method(&self, id: &str) -> Option<&'static dyn Method> {
        Registered.method(id).filter(|method| method.id() != "free-order-bound")
    }
}

#[test]
fn a_schedule_that_is_proved_the_best_of_all_orders_ends_the_work() {
    let parameters = Parameters::defaults(find("auto").expect("registered").about().parameters);
    let instance = with_large_gradient(4);
    let budgets = [Some(9)];
    let limits = Limits { time: Some(Duration::from_secs(3600)), threads: 1, seed: 0 };
    let context = Context { starts: &Registered, ..Context::new(&instance, &parameters, &budgets, limits) };
    // An hour is what would make this test fail.
    let answer = find("auto").expect("registered").answers(&context).expect("answers").remove(0);
    assert_eq!(answer.termination, Termination::Optimal, "{}", answer.note);
    assert_eq!(answer.claim, Some(Claim::optimum(Class::ALL)), "{}", answer.note);
    assert!(!answer.note.contains("fastsa"), "{}", answer.note);
    let oracle = solve("oracle", &instance, &budgets, &[]);
    assert_eq!(time(&instance, &answer), time(&instance, &oracle[0]));
}

#[test]
fn large_results_come_last_where_that_leaves_more_room() {
    let auto = find("auto").expect("registered");
    let parameters = Parameters::defaults(auto.about().parameters);
    // It reads the value of the last layer and the gradient of the loss, of size 1 each.
    for (bytes, waits) in [(2, false), (4, true)] {
        let instance = with_large_gradient(bytes);
        let budgets = [Some(5 + bytes)];
        let limits = Limits { time: Some(Duration::from_secs(60)), threads: 1, seed: 0 };
        let context = Context { starts: &WithoutBound, ..Context::new(&instance, &parameters, &budgets, limits) };
        let answer = auto.answers(&context).expect("answers").remove(0);
        let given = time(&instance, &solve("checkmate-ilp", &instance, &budgets, &[])[0]).expect("found");
        let found = time(&instance, &answer).expect("found");
        assert_eq!(answer.note.contains("large results last"), waits, "{}", answer.note);
        assert!(if waits { found < given } else { found <= given }, "{found}, {given}: {}", answer.note);
    }
}

/// Wants nothing more once it has heard of a schedule.
#[derive(Default)]
struct Content(Mutex<Option<Instant>>);

impl Reporter for Content {
    fn report(&self, _: usize, progress: Progress) {
        if progress.incumbent.is_some() {
            self.0.lock().expect("not poisoned").get_or_insert_with(Instant::now);
        }
    }

    fn answer(&self, _: usize, _: &Answer) {}

    fn wants_more(&self, _: usize) -> bool {
        self.0.lock().expect("not poisoned").is_none()
    }
}

#[test]
fn a_listener_that_wants_nothing_more_ends_annealings_and_searches() {
    let document = layered("layered", &Layered::moccasin(25, 0.4), 1);
    let instance = Instance::new(&document).expect("valid");
    let store_all = solve("store-all", &instance, &[None], &[])[0].claimed.expect("a baseline has a schedule");
    let budgets = [Some(store_all.peak_bytes * 8 / 10)];
    let ids = ["auto", "checkmate-ilp", "moccasin", "fastsa"];
    for (id, threads) in ids.into_iter().flat_map(|id| [(id, 1), (id, 2)]) {
        let method = find(id).expect("registered");
        let parameters = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("defaults");
        let listener = Content::default();
        let limits = Limits { time: Some(Duration::from_secs(3600)), threads, seed: 0 };
        let context = Context {
            reporter: &listener,
            starts: &Registered,
            ..Context::new(&instance, &parameters, &budgets, limits)
        };
        // An hour is what would make this test fail.
        method.solve(&context).expect("solves");
        assert!(!listener.wants_more(0), "{id} found a schedule with {threads} threads");
    }
}

#[test]
fn without_other_methods_nothing_is_found_and_nothing_claimed() {
    let instance = instance(1);
    let parameters = Parameters::defaults(find("auto").expect("registered").about().parameters);
    let limits = Limits { time: None, threads: 1, seed: 0 };
    let context = Context::new(&instance, &parameters, &[Some(1)], limits);
    let answer = find("auto").expect("registered").answers(&context).expect("answers").remove(0);
    assert_eq!((answer.termination, answer.claim), (Termination::NotFound, None::<Claim>));
}

#[test]
fn a_schedule_that_is_in_another_order_alone_and_that_no_annealing_reaches_is_found() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/only-in-another-order.json");
    let instance = read_instance(&path).expect("valid");
    let limits = Limits { time: Some(Duration::from_secs(10)), ..ONE };
    let answer = answers("auto", &instance, &[Some(53)], &[], &Registered, limits).remove(0);
    assert_eq!(time(&instance, &answer), Some(25), "{}", answer.note);
}
