//! Answers to one budget of one instance, held against the simulator and against each other.
//!
//! What is proved of a class holds for every schedule of it, whoever found it. For tests and `bench fuzz`, with the
//! settings and budgets that they try. Builds on claims and the simulator; knows no method but through the registry.

use std::collections::BTreeMap;
use std::time::Duration;

use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::{Instance, Simulation, simulate};

use crate::method::claim::{Implementations, Kept, Memory, Order, Time};
use crate::method::parameters::{ParameterKind, Parameters};
use crate::method::{Answer, Claim, Class, Method, Starts, Termination};
use crate::registry::Registered;
use crate::search::incumbent::least_proving;

/// An answer, whose it is, and what is claimed of it.
#[derive(Clone, Debug)]
pub struct Said {
    /// The method with its parameters.
    pub who: String,
    /// What it claims.
    pub claim: Claim,
    /// What it answers.
    pub answer: Answer,
}

/// A legal schedule that is within the budget.
struct Found {
    time: u64,
    /// The class that it is seen to be in.
    seen: Class,
}

impl Claim {
    /// What an answer proves of the times of the claimed class: no schedule of it is faster. `u64::MAX` where there is none.
    pub fn proved(&self, answer: &Answer, time: Option<u64>) -> Option<u64> {
        let optimal = time.filter(|_| answer.termination == Termination::Optimal && self.proves()).map(least_proving);
        match answer.termination {
            Termination::Infeasible => Some(u64::MAX),
            _ if self.class.time != Time::Exact => None,
            _ => answer.lower_bound.max(optimal),
        }
    }
}

impl Class {
    /// The class without what cannot be seen of a schedule.
    fn visible(self) -> Self {
        let order = match self.order {
            Order::Passes | Order::Chain => Order::Free,
            other => other,
        };
        let implementations = match self.implementations {
            Implementations::One => Implementations::One,
            _ => Implementations::Chosen,
        };
        Self { order, implementations, kept: Kept::Any, memory: Memory::Simulated, time: Time::Exact, ..self }
    }
}

/// Methods that work for as long as they are told to work little here.
const SHORT: [(&str, &str); 8] = [
    ("iterations", "300"),
    ("second-iterations", "300"),
    ("reheat-iterations", "300"),
    ("questions", "12"),
    ("peaks", "3"),
    ("saves", "3"),
    ("nodes", "4"),
    ("operators", "6"),
];

/// Starts from the methods of the registry, which get a hundredth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brief;

impl Starts for Brief {
    fn method(&self, id: &str) -> Option<&'static dyn Method> {
        Registered.method(id)
    }

    fn most(&self) -> Option<Duration> {
        Some(Duration::from_millis(10))
    }
}

/// A method's defaults, and one other setting, by `draw`: another word for a parameter that takes words, or a number of
/// copies or slots.
pub fn settings(method: &dyn Method, draw: usize) -> Vec<Parameters> {
    let specs = method.about().parameters;
    let takes_number =
        |name: &str| specs.iter().any(|spec| spec.name == name && !matches!(spec.kind, ParameterKind::Choice(_)));
    let short = SHORT.iter().filter(|(name, _)| takes_number(name));
    let short: BTreeMap<String, String> = short.map(|&(name, value)| (name.into(), value.into())).collect();
    let others: Vec<(&str, &str)> = specs
        .iter()
        .flat_map(|spec| match (spec.kind, spec.name) {
            (ParameterKind::Choice(words), name) => words.iter().map(|&word| (name, word)).collect(),
            (_, name @ "copies") => vec![(name, "1"), (name, "2"), (name, "3")],
            (_, name @ "slots") => vec![(name, "20")],
            _ => vec![],
        })
        .collect();
    let other = others.get(draw % others.len().max(1));
    let other = other.map(|&(name, word)| {
        let mut given = short.clone();
        given.insert(name.into(), word.into());
        given
    });
    let given = std::iter::once(short).chain(other);
    given.filter_map(|given| Parameters::new(specs, &given).ok()).collect()
}

/// Threads for the instance of a seed: with several, solvers say other things on the way. One for four seeds, two for the next
/// four, since the number of layers often follows the seed modulo two or four.
pub fn threads(seed: u64) -> usize {
    if seed % 8 < 4 { 1 } else { 2 }
}

/// Budgets from six tenths of what store-all needs beyond what is always there, to all of it.
pub fn budgets(instance: &Instance) -> Vec<u64> {
    let store_all = with_liveness(instance, &Plan::fastest(instance).store_all(instance));
    let least = instance.base_bytes();
    let tensors = || instance.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>() + instance.fixed_bytes();
    let most = simulate(instance, &store_all).map_or_else(|_| tensors(), |simulation| simulation.peak_bytes);
    (6..=10)
        .map(|part| least + most.saturating_sub(least) / 10 * part + most.saturating_sub(least) % 10 * part / 10)
        .collect()
}

/// Everything that is wrong with some answers to a budget; `u64::MAX` stands for none.
pub fn contradictions(instance: &Instance, budget: u64, said: &[Said]) -> Vec<String> {
    let mut wrong = Vec::new();
    let found: Vec<Option<Found>> = said.iter().map(|said| look(instance, budget, said, &mut wrong)).collect();
    for (prover, own) in said.iter().zip(&found) {
        let Some(bound) = prover.claim.proved(&prover.answer, own.as_ref().map(|found| found.time)) else { continue };
        let class = &prover.claim.class;
        for (other, found) in said.iter().zip(&found) {
            let Some(found) = found else { continue };
            let inside = class.contains(&found.seen) || class.contains(&other.claim.class);
            if inside && found.time < bound {
                let proved = if bound == u64::MAX { "no schedule".into() } else { format!("none faster than {bound}") };
                wrong.push(format!(
                    "{} proves that there is {proved} in the class {class}, and {} has one of {} in {}",
                    prover.who, other.who, found.time, found.seen
                ));
            }
        }
    }
    wrong
}

/// Holds an answer against the simulator, and gives its schedule where it is within the budget.
fn look(instance: &Instance, budget: u64, said: &Said, wrong: &mut Vec<String>) -> Option<Found> {
    let Said { who, claim, answer } = said;
    let mut say = |words: String| wrong.push(format!("{who}: {words}"));
    // A method that starts from another one's schedule may learn late that the instance is not for it.
    if answer.termination == Termination::Error && !answer.note.starts_with("not supported") {
        say(answer.note.clone());
    }
    let promises = matches!(answer.termination, Termination::Optimal | Termination::GapReached | Termination::Feasible);
    let Some(schedule) = &answer.schedule else {
        if promises {
            say(format!("ends {} without a schedule", answer.termination));
        }
        return None;
    };
    let simulation: Simulation = match simulate(instance, schedule) {
        Ok(simulation) => simulation,
        Err(error) => {
            say(format!("illegal schedule: {error}"));
            return None;
        }
    };
    let (time, peak) = (simulation.time, simulation.peak_bytes);
    let counts_all = Class::ALL.memory_contains(&claim.class);
    if let Some(claimed) = answer.claimed
        && (time > claimed.time || counts_all && peak > claimed.peak_bytes)
    {
        say(format!("claims {claimed:?}, simulated {time} and {peak}"));
    }
    let seen = Class::of(instance, schedule);
    if !claim.class.visible().contains(&seen) {
        say(format!("claims {}, and its schedule is of the class {seen}", claim.class));
    }
    if peak > budget {
        if counts_all {
            say(format!("over budget: {peak}, not {budget}"));
        }
        return None;
    }
    if answer.lower_bound.is_some_and(|bound| bound > time) {
        say(format!("its bound is {:?}, and its schedule takes {time}", answer.lower_bound));
    }
    Some(Found { time, seen })
}
