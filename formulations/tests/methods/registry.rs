//! What every method owes: checked for all that the registry lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::networks;
use remat_core::io::read_instance;
use remat_core::{Instance, simulate};
use remat_formulations::method::claim::Strength;
use remat_formulations::{BudgetUse, Context, Limits, METHODS, Method, Parameters, Termination};

/// Methods that call a solver, which may take hours on a network: here they get the small instances only.
const SOLVER_BACKED: [&str; 13] = [
    "auto",
    "checkmate-ilp",
    "checkmate-lp",
    "checkmate-rounding",
    "free-order-bound",
    "monet",
    "monet-lp",
    "moccasin",
    "moccasin-reordered",
    "rockmate",
    "h-ilp",
    "hiremate",
    "rotor-options",
];

fn instances() -> Vec<Instance> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances");
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in ["small", "resnet"] {
        paths.extend(std::fs::read_dir(root.join(folder)).expect("the folder is there").flatten().map(|e| e.path()));
    }
    paths.sort();
    // Of the large networks one is enough here.
    paths.retain(|path| !path.to_string_lossy().contains("resnet1"));
    paths.iter().map(|path| read_instance(path).expect("shipped instances are valid")).collect()
}

/// A network with Gist's encodings, which no shipped one has.
fn encoded() -> Instance {
    Instance::new(&networks::encoded()).expect("valid")
}

/// Defaults, but for methods that work for as long as they are told to.
fn given(method: &str) -> BTreeMap<String, String> {
    let pairs: &[(&str, &str)] = match method {
        "auto" => &[("iterations", "20000")],
        "fastsa" => &[("iterations", "20000"), ("second-iterations", "20000")],
        "rotor-options" => &[("questions", "20")],
        "rockmate" => &[("peaks", "3"), ("saves", "3")],
        "h-ilp" => &[("nodes", "20"), ("questions", "20")],
        "hiremate" => &[("nodes", "20"), ("peaks", "2"), ("saves", "3")],
        _ => &[],
    };
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn answers(method: &dyn Method, instance: &Instance, budgets: &[Option<u64>]) -> Vec<remat_formulations::Answer> {
    let parameters = Parameters::new(method.about().parameters, &given(method.id())).expect("defaults are accepted");
    let limits = Limits { time: None, threads: 1, seed: 0 };
    let context = Context { starts: &networks::Brief, ..Context::new(instance, &parameters, budgets, limits) };
    method.answers(&context).expect("a supported instance is solved")
}

#[test]
fn ids_are_unique_and_kebab_case() {
    let ids: BTreeSet<_> = METHODS.iter().map(|method| method.id()).collect();
    assert_eq!(ids.len(), METHODS.len());
    let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(ids.iter().all(|id| id.chars().all(kebab)), "{ids:?}");
}

#[test]
fn every_method_cites() {
    for method in METHODS {
        let about = method.about();
        let texts = [about.title, about.reference];
        assert!(texts.iter().all(|text| text.len() > 10), "{}: {texts:?}", method.id());
    }
}

#[test]
fn every_method_supports_some_instance() {
    let instances: Vec<Instance> = instances().into_iter().chain([encoded()]).collect();
    for method in METHODS {
        assert!(instances.iter().any(|instance| method.supports(instance).is_ok()), "{}", method.id());
    }
}

#[test]
fn schedules_are_legal_meet_their_budgets_and_cost_at_most_what_is_claimed() {
    for instance in instances().into_iter().chain([encoded()]) {
        let store_all = answers(METHODS[0], &instance, &[None])[0].claimed.expect("store-all always answers");
        let part = |k: u64| Some(store_all.peak_bytes / 10 * k);
        let affordable =
            |method: &&&dyn Method| instance.operators().len() < 100 || !SOLVER_BACKED.contains(&method.id());
        for method in METHODS.iter().filter(|method| method.supports(&instance).is_ok()).filter(affordable) {
            let defaults = Parameters::new(method.about().parameters, &BTreeMap::new()).expect("its defaults");
            let budgets: Vec<_> = match method.about().budgets {
                BudgetUse::Ignored => vec![None],
                BudgetUse::Used => networks::some_of(1..12).map(part).chain([None]).collect(),
            };
            let answers = answers(*method, &instance, &budgets);
            assert_eq!(answers.len(), budgets.len());
            let mut cheapest = u64::MAX;
            for (answer, budget) in answers.iter().zip(budgets) {
                let name = format!("{} on {} within {budget:?}", method.id(), instance.name());
                assert_eq!(answer.budget, budget, "{name}");
                let bound_only = method.usual_claim().strength == Strength::Bound;
                assert!(
                    answer.lower_bound.is_none_or(|bound| bound >= store_all.time),
                    "{name}: a bound below store-all"
                );
                let Some(schedule) = &answer.schedule else {
                    assert!(budget.is_some() || bound_only, "{name}: nothing with unlimited memory");
                    let nothing = if bound_only { Termination::BoundOnly } else { Termination::NotFound };
                    assert!([Termination::Infeasible, nothing].contains(&answer.termination), "{name}");
                    continue;
                };
                assert!(!bound_only, "{name}: a schedule from a method that gives bounds");
                let claimed = answer.claimed.expect("a schedule comes with a claim");
                let simulation = simulate(&instance, schedule).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(simulation.time <= claimed.time, "{name}: time");
                assert!(simulation.peak_bytes <= claimed.peak_bytes, "{name}: peak");
                assert!(budget.is_none_or(|budget| simulation.peak_bytes <= budget), "{name}: budget");
                assert!(claimed.time >= store_all.time, "{name}: faster than store-all");
                // What is drawn for one budget says nothing of another; a best schedule of the method's class does.
                let is_best = answer.termination == Termination::Optimal && answer.claim.is_none();
                let monotone = is_best || !method.is_random(&defaults);
                assert!(!monotone || claimed.time <= cheapest, "{name}: more memory costs more time");
                cheapest = claimed.time;
            }
        }
    }
}

#[test]
fn rotor_is_never_slower_than_the_methods_that_it_generalises() {
    for instance in instances() {
        let by = |id| {
            let method = remat_formulations::find(id).expect("registered");
            let store_all = answers(METHODS[0], &instance, &[None])[0].claimed.expect("store-all always answers");
            let budgets: Vec<_> = (2..=10).map(|k| Some(store_all.peak_bytes / 10 * k)).collect();
            answers(method, &instance, &budgets)
        };
        for (rotor, revolve) in by("rotor-persistent").iter().zip(by("revolve")) {
            if let (Some(rotor), Some(revolve)) = (rotor.claimed, revolve.claimed) {
                assert!(rotor.time <= revolve.time, "{}", instance.name());
            }
        }
    }
}

#[test]
fn the_smallest_method_in_stages_has_less_than_the_lines_that_contributing_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/checkmate");
    let lines = |name: &str| std::fs::read_to_string(root.join(name)).expect("it is there").lines().count();
    let count = lines("relaxation.rs") + lines("ilp.rs");
    assert!(count < 400, "{count} lines");
}
