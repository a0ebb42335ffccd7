//! CBC's word on infeasibility, checked: it has called models infeasible that were not, so another solver is asked
//! within the time that is left, and where that one does not agree nothing is claimed.

use std::time::Duration;

use crate::backend::Backend;
use crate::highs::Highs;
use crate::model::Model;
use crate::outcome::Stop;
use crate::request::Request;

/// What the second solver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opinion {
    /// No vector satisfies the model.
    Infeasible,
    /// A vector does.
    Feasible,
    /// It does not know, for this reason.
    Open(Stop),
}

/// Why CBC stopped, believed only where that may be, and its words with those of the second solver.
pub fn checked(
    model: &Model,
    request: &Request<'_>,
    time: Option<Duration>,
    claimed: Stop,
    words: &str,
    started: bool,
) -> (Stop, String) {
    if !matches!(claimed, Stop::Infeasible | Stop::InfeasibleOrUnbounded) {
        return (claimed, words.to_owned());
    }
    // A start that was accepted is a vector that satisfies the model.
    let opinion = if started { Opinion::Feasible } else { ask(model, request, time) };
    match opinion {
        Opinion::Infeasible => (Stop::Infeasible, format!("{words}; HiGHS agrees that it is infeasible")),
        Opinion::Feasible if claimed == Stop::InfeasibleOrUnbounded && may_be_unbounded(model) => {
            (Stop::Unbounded, format!("{words}; a vector satisfies it"))
        }
        Opinion::Feasible => (Stop::Error, format!("{words}; but a vector satisfies the model within the tolerance")),
        Opinion::Open(stop) => {
            (stop, format!("{words}; not believed, for HiGHS has not confirmed it in the time left"))
        }
    }
}

/// Asks HiGHS for any vector within the rows and bounds.
fn ask(model: &Model, request: &Request<'_>, time: Option<Duration>) -> Opinion {
    if time.is_some_and(|time| time.is_zero()) {
        return Opinion::Open(Stop::TimeLimit);
    }
    let any = Model { costs: vec![0.0; model.columns()], ..model.clone() };
    let question = Request {
        time,
        tolerance: request.tolerance,
        threads: request.threads,
        seed: request.seed,
        relaxation: request.relaxation,
        interrupt: request.interrupt,
        ..Request::default()
    };
    let Ok(outcome) = Highs.solve(&any, &question) else { return Opinion::Open(Stop::Error) };
    match (outcome.stop, outcome.incumbent) {
        (_, Some(_)) => Opinion::Feasible,
        (Stop::Infeasible, None) => Opinion::Infeasible,
        (stop @ (Stop::TimeLimit | Stop::Interrupted | Stop::MemoryLimit), None) => Opinion::Open(stop),
        (_, None) => Opinion::Open(Stop::Error),
    }
}

/// Whether some column can lower the objective without end, as far as bounds tell.
fn may_be_unbounded(model: &Model) -> bool {
    let free = |column: usize| {
        let (cost, lower, upper) = (model.costs[column], model.lower[column], model.upper[column]);
        (cost > 0.0 && lower == f64::NEG_INFINITY) || (cost < 0.0 && upper == f64::INFINITY)
    };
    (0..model.columns()).any(free)
}
