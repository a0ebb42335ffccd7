//! CBC as a process: the program is found when it is asked for, so that no build depends on it.
//!
//! What it does otherwise than one might think: it overruns its time limit where a linear program is slow, so it is
//! watched and killed; after a limit it leaves a fractional vector behind where it has found no other; and it has called
//! feasible models infeasible, so its word for that is not taken (`opinion.rs`). The program rather than the library: it
//! can be killed, it ends alone where it crashes, and its library is not safe to use from two threads.
//!
//! It ignores a cutoff and the wish for an interior-point method, and tells nothing while it runs: its log has numbers, but no
//! vectors. What presolve leaves is not read.
//!
//! Model, start and solution travel through memory that the system shares (memfd), so nothing is left on a disk.

#[cfg(feature = "cbc")]
pub mod linked;
mod opinion;
mod program;
mod said;

use std::time::Instant;

use crate::backend::{Backend, SolverError, usable_start};
use crate::model::{Kind, Model};
use crate::outcome::{Outcome, Stop};
use crate::request::Request;
use program::PROGRAM;
use said::Said;

/// CBC, the program.
pub struct Cbc;

const ID: &str = "cbc";

impl Backend for Cbc {
    fn id(&self) -> &'static str {
        ID
    }

    fn available(&self) -> Result<(), String> {
        PROGRAM.as_ref().map(drop).map_err(Clone::clone)
    }

    fn version(&self) -> String {
        PROGRAM.as_ref().map_or_else(|_| "CBC, not installed".into(), |program| program.version.clone())
    }

    fn solve(&self, model: &Model, request: &Request<'_>) -> Result<Outcome, SolverError> {
        let failed = |what: String| SolverError::Rejected { solver: ID, what, status: -1 };
        let program = PROGRAM.as_ref().map_err(|why| SolverError::Missing { solver: ID, why: why.clone() })?;
        let given = usable_start(model, request);
        // The constant is added here: readers disagree on its sign.
        let bare = Model { offset: 0.0, ..relaxed(model, request) };
        let call = program.prepare(&bare, given).map_err(|error| failed(format!("the model ({error})")))?;
        let began = Instant::now();
        let left = |began: Instant| request.time.map(|time| time.saturating_sub(began.elapsed()));
        let ended = call.run(&options(request), left(began), request.interrupt);
        let ended = ended.map_err(|error| failed(format!("to start ({error})")))?;
        let said = Said::of(&ended);
        let (stop, raw_status) = opinion::checked(model, request, left(began), said.stop, &said.words, given.is_some());
        let found = ended.values.filter(|values| stop != Stop::Infeasible && satisfies(values, model, request));
        let incumbent = better(model, given, found);
        let objective = incumbent.as_deref().map(|values| model.objective(values));
        let mixed = bare.has_integers();
        let dual_bound = match stop {
            Stop::Infeasible | Stop::Unbounded | Stop::InfeasibleOrUnbounded | Stop::Error | Stop::MemoryLimit => None,
            Stop::Optimal if !mixed => objective,
            // Within these it stops.
            Stop::Optimal => objective.map(|value| value - request.absolute_gap),
            _ if mixed => said.bound.map(|bound| bound + model.offset),
            _ => None,
        };
        let stop = match (stop, objective) {
            (Stop::Optimal, None) => Stop::Error,
            (Stop::Optimal, Some(objective)) => Outcome::finished(objective, dual_bound, request.absolute_gap),
            (stop, _) => stop,
        };
        Ok(Outcome {
            objective,
            incumbent,
            dual_bound,
            raw_status,
            nodes: said.nodes.filter(|_| mixed),
            solve_seconds: began.elapsed().as_secs_f64(),
            ..Outcome::empty(stop, model.size(), self.version())
        })
    }
}

/// The model without integrality, where that is asked for.
fn relaxed(model: &Model, request: &Request<'_>) -> Model {
    let kinds = if request.relaxation { vec![Kind::Continuous; model.columns()] } else { model.kinds.clone() };
    Model { kinds, ..model.clone() }
}

fn options(request: &Request<'_>) -> Vec<(&'static str, String)> {
    let mut options = vec![
        ("ratioGap", "0".into()),
        ("allowableGap", request.absolute_gap.to_string()),
        ("primalTolerance", request.tolerance.to_string()),
        ("integerTolerance", request.integrality().to_string()),
        ("threads", if request.threads > 1 { request.threads } else { 0 }.to_string()),
        ("randomCbcSeed", (request.seed & 0x7fff_ffff).to_string()),
    ];
    options.extend(request.nodes.map(|nodes| ("maxNodes", nodes.min(2_147_483_647).to_string())));
    options
}

/// Whether a vector is one: after a limit CBC leaves a fractional one behind when it has found none.
fn satisfies(values: &[f64], model: &Model, request: &Request<'_>) -> bool {
    let violation = model.violation(values);
    let integrality = if request.relaxation { 0.0 } else { violation.integrality };
    // Twice: CBC measures violations of the scaled model.
    let worst = violation.bound.max(violation.row).max(integrality);
    worst <= 2.0 * request.tolerance.max(1e-6)
}

/// The better one of what CBC found and an accepted start.
fn better(model: &Model, start: Option<&[f64]>, found: Option<Vec<f64>>) -> Option<Vec<f64>> {
    match (start, found) {
        (Some(start), Some(found)) if model.objective(start) < model.objective(&found) => Some(start.to_vec()),
        (Some(start), None) => Some(start.to_vec()),
        (_, found) => found,
    }
}
