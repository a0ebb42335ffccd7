//! A row is a function of its key: the answer to a budget is the same whether a method is asked for it alone or
//! together with others, in whatever order. Held against every method, without time limits.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::networks::{self, ONE, shipped};
use remat_core::Instance;
use remat_core::generate::{RandomKind, random_chain};
use remat_formulations::{
    Answer, BudgetUse, Context, Limits, METHODS, Method, NoStarts, Parameters, Registered, Starts,
};

/// Methods that do not keep this yet, and why. A line goes when its method is mended.
const VIOLATORS: [(&str, &str); 0] = [];

/// Methods that prove what they say, which takes long on a network.
const SLOW: [&str; 13] = [
    "auto",
    "checkmate-ilp",
    "checkmate-lp",
    "checkmate-rounding",
    "free-order-bound",
    "monet",
    "monet-lp",
    "moccasin",
    "oracle",
    "rockmate",
    "h-ilp",
    "hiremate",
    "rotor-options",
];

/// Settings that keep a search without a time limit short.
fn settings(method: &str) -> Vec<BTreeMap<String, String>> {
    let settings: &[&[(&str, &str)]] = match method {
        "auto" => &[&[("iterations", "5000")]],
        "fastsa" => &[&[("iterations", "5000"), ("second-iterations", "5000")]],
        "rotor-options" => &[&[("questions", "12")]],
        "rockmate" => &[&[("peaks", "3"), ("saves", "3")]],
        "h-ilp" => &[&[("nodes", "4"), ("operators", "6"), ("questions", "6")]],
        "hiremate" => &[&[("nodes", "4"), ("operators", "6"), ("peaks", "2"), ("saves", "2")]],
        "rotor-persistent" | "revolve" | "rotor-weak" => &[&[], &[("slots", "60")]],
        _ => &[&[]],
    };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    settings.iter().map(|given| given.iter().map(owned).collect()).collect()
}

fn instances(method: &str) -> Vec<Instance> {
    let chain = |stages, seed, kind| Instance::new(&random_chain("chain", stages, seed, kind)).expect("valid");
    let mut instances = vec![chain(4, 1, RandomKind::Small), networks::instance(1), networks::instance_of(2, 2)];
    if !SLOW.contains(&method) {
        instances.extend([shipped("small/rotor-rr9302-figure2-n10.json"), chain(12, 2, RandomKind::Big)]);
        instances.push(shipped("resnet/resnet18-224-b32.json.zst"));
        instances.push(Instance::new(&networks::encoded()).expect("valid"));
    }
    instances
}

/// Seven budgets from less than anything needs to more than store-all's peak.
fn budgets(instance: &Instance) -> Vec<Option<u64>> {
    let peak = networks::store_all_peak(instance);
    [10, 30, 45, 60, 75, 90, 110].map(|percent| Some(peak * percent / 100)).to_vec()
}

/// What of an answer is no measurement.
fn said(answer: Answer) -> Answer {
    Answer { build: Duration::ZERO, solve: Duration::ZERO, ..answer }
}

fn ask(
    method: &dyn Method,
    instance: &Instance,
    given: &BTreeMap<String, String>,
    budgets: &[Option<u64>],
) -> Vec<Answer> {
    let parameters = Parameters::new(method.about().parameters, given).expect("settings of the method");
    // Others would wait for all mutations of what they start from.
    let asks = ["auto", "rotor-options", "rockmate", "h-ilp", "hiremate"].contains(&method.id());
    let starts: &dyn Starts = if asks { &Registered } else { &NoStarts };
    let context = Context { starts, ..Context::new(instance, &parameters, budgets, Limits { seed: 5, ..ONE }) };
    let answers = method.answers(&context);
    answers
        .unwrap_or_else(|error| panic!("{} on {}: {error}", method.id(), instance.name()))
        .into_iter()
        .map(said)
        .collect()
}

/// The first answer that depends on what else is asked, in words.
fn dependence(method: &dyn Method, instance: &Instance, given: &BTreeMap<String, String>) -> Option<String> {
    let budgets = budgets(instance);
    let alone: Vec<_> = budgets.iter().map(|&budget| ask(method, instance, given, &[budget]).remove(0)).collect();
    let orders: [Vec<usize>; 3] = [(0..7).collect(), (0..7).rev().collect(), vec![4, 1, 5]];
    for order in orders {
        let asked: Vec<_> = order.iter().map(|&at| budgets[at]).collect();
        let together = ask(method, instance, given, &asked);
        for (&at, together) in order.iter().zip(together) {
            if together != alone[at] {
                let told = |answer: &Answer| {
                    format!(
                        "{:?} {:?} bound {:?} ({})",
                        answer.termination, answer.claimed, answer.lower_bound, answer.note
                    )
                };
                return Some(format!(
                    "{} {given:?} on {} at {:?}: alone {}, with {asked:?} {}",
                    method.id(),
                    instance.name(),
                    budgets[at],
                    told(&alone[at]),
                    told(&together)
                ));
            }
        }
    }
    None
}

#[test]
fn an_answer_does_not_depend_on_the_other_budgets_that_are_asked() {
    let mut wrong = Vec::new();
    for method in METHODS.iter().filter(|method| method.about().budgets == BudgetUse::Used) {
        let mut found = Vec::new();
        for instance in instances(method.id()) {
            if method.supports(&instance).is_ok() {
                found.extend(settings(method.id()).iter().filter_map(|given| dependence(*method, &instance, given)));
            }
        }
        if !VIOLATORS.iter().any(|(id, _)| *id == method.id()) {
            wrong.extend(found);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
