//! Every method's optimum, bound and `infeasible` against an exhaustive search of exactly the class that it claims.
//!
//! The registry is iterated, each method with its defaults and with one other setting drawn per instance, on random
//! instances with everything that the format knows. A method that claims a new class needs a search for it in [`truth`].

mod lower_sets;
pub mod steps;

use std::collections::BTreeMap;

use crate::chains::search as sequences;
use crate::networks::{self, some_of};
use remat_core::Instance;
use remat_core::chain_view::ChainView;
use remat_core::generate::random::random;
use remat_formulations::contradiction::{Brief, Said, budgets, contradictions, settings, threads};
use remat_formulations::method::claim::{Kept, Memory, Order, Strength, Time};
use remat_formulations::random::Random;
use remat_formulations::{BudgetUse, Class, Context, Limits, METHODS, MethodError, Termination, find};

/// What an exhaustive search of a class says of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    /// The least time, as the class counts time; none where there is no schedule.
    Least(Option<u64>),
    /// The same, give or take: the simulated times of the schedules that are best as the class counts.
    Between(u64, u64),
    /// Nothing: the class counts memory or time in a way of its own.
    Unknown,
}

fn truth(instance: &Instance, class: &Class, budget: u64) -> Truth {
    match (class.order, class.kept) {
        // What the options are depends on the settings: options.rs searches all sequences over them.
        (Order::Chain, Kept::Options) => Truth::Unknown,
        (Order::Chain, kept) => {
            let search = match kept {
                Kept::Weak => sequences::Class::WeaklyPersistent,
                Kept::SaveLast => sequences::Class::SaveLast,
                _ => sequences::Class::Persistent,
            };
            let view = ChainView::new(instance).expect("supported");
            let least = sequences::best(&view.chain, budget, search).map(|(time, ..)| time);
            if matches!(class.memory, Memory::Slots(_)) { Truth::Unknown } else { Truth::Least(least) }
        }
        (_, Kept::LowerSets | Kept::LastGroupKept) if class.time == Time::Equation1 => {
            match lower_sets::least_overhead(instance, class, budget) {
                None => Truth::Least(None),
                Some((least, most)) => Truth::Between(least, most),
            }
        }
        // As MONeT's program counts: monet_released.rs has an exhaustive search of its stages.
        (_, Kept::LowerSets | Kept::LastGroupKept) | (Order::Passes, _) => Truth::Unknown,
        _ => Truth::Least(steps::least_time(instance, class, budget)),
    }
}

/// What the exhaustive search of its class says against an answer.
fn refute(said: &Said, truth: Truth) -> Option<String> {
    let Said { answer, claim, .. } = said;
    let (least, most) = match truth {
        Truth::Least(time) => (time, time),
        Truth::Between(least, most) => (Some(least), Some(most)),
        Truth::Unknown => return None,
    };
    let time = answer.claimed.map(|claimed| claimed.time);
    if answer.termination == Termination::Infeasible && least.is_some() {
        return Some(format!("infeasible, and the class has a schedule of {least:?}"));
    }
    if answer.lower_bound.zip(least).is_some_and(|(bound, least)| bound > least) {
        return Some(format!("its bound is {:?}, and the class has a schedule of {least:?}", answer.lower_bound));
    }
    if answer.termination == Termination::Optimal && claim.strength == Strength::Optimum {
        let optimal =
            time.is_some_and(|time| least.is_some_and(|least| time >= least) && most.is_some_and(|most| time <= most));
        if !optimal {
            return Some(format!("optimal with {time:?}, and the least of the class is {least:?} to {most:?}"));
        }
    }
    None
}

#[test]
fn every_claim_holds_against_an_exhaustive_search_of_its_class() {
    let mut wrong = Vec::new();
    let (mut answers, mut optimal, mut infeasible) = (0, 0, 0);
    for seed in some_of(0..80) {
        let layers = 2 + u32::try_from(seed % 2).expect("small");
        let instance = Instance::new(&random("random", layers, seed)).expect("valid");
        if instance.operators().len() > 9 || instance.tensors().len() > 18 {
            continue;
        }
        let budgets: Vec<Option<u64>> = budgets(&instance).into_iter().map(Some).collect();
        let limits = Limits { time: None, threads: threads(seed), seed: 0 };
        let mut said: Vec<Vec<Said>> = vec![vec![]; budgets.len()];
        let mut known: BTreeMap<(String, usize), Truth> = BTreeMap::new();
        for method in METHODS.iter().filter(|method| method.supports(&instance).is_ok()) {
            if method.about().budgets == BudgetUse::Ignored {
                continue;
            }
            for parameters in settings(*method, usize::try_from(seed).expect("small")) {
                let claim = method.claim(&parameters);
                let who = format!("{}[{parameters}]", method.id());
                let context = Context { starts: &Brief, ..Context::new(&instance, &parameters, &budgets, limits) };
                let found = match method.answers(&context) {
                    Ok(found) => found,
                    // A solver that is not built in, or an instance that this setting does not support.
                    Err(MethodError::Unsupported(_) | MethodError::Parameter { .. }) => continue,
                    Err(error) => {
                        wrong.push(format!("seed {seed}, {who}: {error}"));
                        continue;
                    }
                };
                for (at, answer) in found.into_iter().enumerate() {
                    let budget = budgets[at].expect("all are given");
                    let claim = answer.claim.unwrap_or(claim);
                    let class = claim.class;
                    let truth =
                        *known.entry((class.to_string(), at)).or_insert_with(|| truth(&instance, &class, budget));
                    answers += 1;
                    optimal += usize::from(answer.termination == Termination::Optimal);
                    infeasible += usize::from(answer.termination == Termination::Infeasible);
                    let said_here = Said { who: who.clone(), claim, answer };
                    wrong.extend(refute(&said_here, truth).map(|words| {
                        format!("seed {seed}, budget {budget}, {who}, {claim}: {words} ({:?})", said_here.answer.note)
                    }));
                    said[at].push(said_here);
                }
            }
        }
        for (said, budget) in said.iter().zip(&budgets) {
            let budget = budget.expect("all are given");
            let words = contradictions(&instance, budget, said);
            wrong.extend(words.into_iter().map(|words| format!("seed {seed}, budget {budget}: {words}")));
        }
    }
    let count = wrong.len();
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{count} of {answers} wrong:\n{}", wrong.join("\n"));
    assert!(optimal > answers / 10 && infeasible > answers / 20, "{answers} {optimal} {infeasible}");
}

/// A random network whose sizes have many digits; equal ones stay equal.
fn with_large_sizes(layers: u32, seed: u64) -> Instance {
    let mut document = random("random", layers, seed);
    let mut dice = Random::new(seed);
    let large: Vec<u64> = (0..64).map(|bytes| bytes << 23 | u64::from(dice.below(1 << 23))).collect();
    let sizes = document.tensors.iter_mut().map(|tensor| &mut tensor.bytes);
    let ways = document.operators.iter_mut().flat_map(|operator| &mut operator.implementations);
    for bytes in sizes.chain(ways.map(|way| &mut way.workspace_bytes)).filter(|bytes| **bytes > 0) {
        *bytes = large[usize::try_from(*bytes).expect("small")];
    }
    Instance::new(&document).expect("valid")
}

/// Solvers take what is whole within a tolerance for whole, and drop what is beside it: there no proof may be lost in exact bytes.
#[test]
fn proofs_hold_a_few_bytes_below_the_peak_of_a_schedule() {
    let mut wrong = Vec::new();
    let (mut answers, mut proved) = (0, 0);
    for seed in some_of(0..250) {
        let instance = with_large_sizes(2 + u32::try_from(seed % 2).expect("small"), seed);
        if instance.operators().len() > 9 || instance.tensors().len() > 18 {
            continue;
        }
        let about: Vec<Option<u64>> = budgets(&instance).into_iter().map(Some).collect();
        let found = networks::solve("oracle", &instance, &about, &[]);
        let mut peaks: Vec<u64> = found.iter().filter_map(|answer| Some(answer.claimed?.peak_bytes)).collect();
        peaks.dedup();
        let budgets: Vec<Option<u64>> = peaks.iter().flat_map(|&peak| [Some(peak - 1), Some(peak - 7)]).collect();
        let plain = [("strategy", "plain")];
        for (id, given) in [
            ("free-order-bound", &[][..]),
            ("monet", &[]),
            ("monet", &plain),
            ("checkmate-ilp", &[]),
            ("checkmate-ilp", &plain),
            ("moccasin", &[]),
        ] {
            let method = find(id).expect("registered");
            if method.supports(&instance).is_err() {
                continue;
            }
            for (answer, budget) in networks::solve(id, &instance, &budgets, given).into_iter().zip(&budgets) {
                let (claim, budget) = (answer.claim.unwrap_or(method.usual_claim()), budget.expect("all are given"));
                answers += 1;
                proved += usize::from(matches!(answer.termination, Termination::Optimal | Termination::Infeasible));
                let said = Said { who: id.into(), claim, answer };
                let words = refute(&said, truth(&instance, &claim.class, budget));
                wrong.extend(words.map(|words| format!("seed {seed}, budget {budget}, {id} {given:?}: {words}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {answers} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(proved > answers / 2, "{proved} of {answers} proved");
}

#[test]
fn texts_of_claims_can_be_read_back() {
    for method in METHODS {
        let text = method.usual_claim().to_string();
        assert_eq!(text.parse(), Ok(method.usual_claim()), "{text}");
        for seed in 0..40 {
            for parameters in settings(*method, seed) {
                let claim = method.claim(&parameters);
                assert_eq!(claim.to_string().parse(), Ok(claim), "{claim}");
                // Another answer of the same class may be about other options.
                assert_eq!(claim.class.contains(&claim.class), claim.class.kept != Kept::Options, "{claim}");
            }
        }
    }
    assert_eq!(
        find("moccasin").map(|m| m.usual_claim().to_string()).as_deref(),
        Some("optimum: stages, at most 2 runs each, one implementation")
    );
}
