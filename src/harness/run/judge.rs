//! The harness's verdict on an answer: the schedule is simulated here, and nothing that a method says
//! about it is believed.

use remat_core::{Instance, Simulation, simulate};
use remat_formulations::{Claim, Class, Termination};

use super::job::AnswerDocument;

/// What is to be recorded of an answer.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The method's termination, or `error`.
    pub termination: Termination,
    /// What the simulator says, where the schedule is legal.
    pub simulation: Option<Simulation>,
    /// The class that a legal schedule is in.
    pub class: Option<Class>,
    /// What is wrong with the answer; empty if nothing is.
    pub error: String,
}

/// Checks an answer.
pub fn judge(instance: &Instance, budget: Option<u64>, claim: Claim, answer: &AnswerDocument) -> Verdict {
    let (simulation, class, error) = match simulation(instance, answer) {
        Ok(simulated) => {
            let (simulation, class) = simulated.unzip();
            let covered = class.is_some_and(|class| claim.class.contains(&class));
            let error = contradiction(budget, answer, simulation.as_ref(), covered).unwrap_or_default();
            (simulation, class, error)
        }
        Err(error) => (None, None, error),
    };
    let termination = if error.is_empty() { answer.termination } else { Termination::Error };
    Verdict { termination, simulation, class, error }
}

fn simulation(instance: &Instance, answer: &AnswerDocument) -> Result<Option<(Simulation, Class)>, String> {
    let Some(document) = &answer.schedule else { return Ok(None) };
    let schedule = document.resolve(instance).map_err(|error| format!("unreadable schedule: {error}"))?;
    let simulation = simulate(instance, &schedule).map_err(|error| format!("illegal schedule: {error}"))?;
    Ok(Some((simulation, Class::of(instance, &schedule))))
}

/// The first thing that the method says and the simulator refutes. A bound says nothing of a schedule that is not in
/// the class that it covers.
fn contradiction(
    budget: Option<u64>,
    answer: &AnswerDocument,
    simulation: Option<&Simulation>,
    covered: bool,
) -> Option<String> {
    let promises = matches!(answer.termination, Termination::Optimal | Termination::GapReached | Termination::Feasible);
    let Some(simulation) = simulation else {
        return promises.then(|| "says that it has a schedule, but returns none".into());
    };
    let (time, peak) = (simulation.time, simulation.peak_bytes);
    let over = |limit: Option<u64>, value: u64| limit.filter(|&limit| value > limit);
    if let Some(budget) = over(budget, peak) {
        return Some(format!("over budget: the simulated peak is {peak}, the budget {budget}"));
    }
    if let Some(claimed) = over(answer.claimed_peak_bytes, peak) {
        return Some(format!("wrong claim: the simulated peak is {peak}, the claimed one {claimed}"));
    }
    if let Some(claimed) = over(answer.claimed_time, time) {
        return Some(format!("wrong claim: the simulated time is {time}, the claimed one {claimed}"));
    }
    if let Some(bound) = answer.lower_bound.filter(|&bound| covered && bound > time) {
        return Some(format!("wrong bound: the simulated time is {time}, the lower bound {bound}"));
    }
    None
}
