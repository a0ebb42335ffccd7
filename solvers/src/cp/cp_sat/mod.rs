//! CP-SAT of OR-Tools, through the C interface of the shared library in the PyPI package `ortools`.
//!
//! [`library`] finds and loads it; without it this backend says so and nothing else changes. Seen in
//! 9.15: values are garbage while the status is Unknown; large models overrun their limit in presolve;
//! there is no callback, so nothing is heard before the end; invalid bytes abort the process, hence models
//! are built by [`crate::cp::proto`] alone.

pub mod library;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quick_protobuf::BytesReader;

use crate::backend::SolverError;
use crate::cp::backend::{CpBackend, hinted};
use crate::cp::model::CpModel;
use crate::cp::proto::{Message, Value, model_message};
use crate::cp::request::{CpOutcome, CpRequest, Emphasis};
use crate::outcome::Stop;
use library::LIBRARY;

/// CP-SAT.
pub struct CpSat;

const ID: &str = "cp-sat";

impl CpBackend for CpSat {
    fn id(&self) -> &'static str {
        ID
    }

    fn available(&self) -> Result<(), String> {
        LIBRARY.as_ref().map(drop).map_err(Clone::clone)
    }

    fn has_emphasis(&self) -> bool {
        true
    }

    fn solve(&self, model: &CpModel, request: &CpRequest<'_>) -> Result<CpOutcome, SolverError> {
        let library = LIBRARY.as_ref().map_err(|why| SolverError::Missing { solver: ID, why: why.clone() })?;
        let began = Instant::now();
        let bytes = model_message(model, request.hint).bytes();
        let left = request.time.map(|time| time.saturating_sub(began.elapsed()));
        let stopped = || request.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let reply = library.solve(&bytes, &parameters(request, left).bytes(), &stopped);
        let response = Response::read(&reply).map_err(|error| SolverError::Rejected {
            solver: ID,
            what: format!("to answer in the expected form: {error}"),
            status: -1,
        })?;
        Ok(outcome(model, request, response, stopped(), began.elapsed()))
    }
}

/// Id, and the version of the library that would be loaded, or what would bring it.
pub fn installed() -> (&'static str, Result<String, String>) {
    (ID, library::find().map(|path| library::version(&path)))
}

/// `SatParameters` (sat_parameters.proto) of a request.
fn parameters(request: &CpRequest<'_>, time: Option<Duration>) -> Message {
    let threads = i64::try_from(request.threads).unwrap_or(1);
    let mut message = Message::default()
        .with("num_workers", 206, Value::Integer(threads))
        .with("random_seed", 31, Value::Integer(i64::try_from(request.seed & 0x7fff_ffff).unwrap_or(0)))
        .with("log_search_progress", 41, Value::Bool(true))
        .with("log_to_stdout", 186, Value::Bool(crate::log::wanted()))
        .with("log_to_response", 187, Value::Bool(true));
    if let Some(time) = time {
        message = message.with("max_time_in_seconds", 36, Value::Double(time.as_secs_f64()));
    }
    match request.emphasis {
        Emphasis::Default => message,
        Emphasis::Cores => {
            message.with("optimize_with_core", 83, Value::Bool(true)).with("linearization_level", 90, Value::Integer(0))
        }
        Emphasis::Relaxation => message.with("linearization_level", 90, Value::Integer(2)),
    }
}

/// What is read of `CpSolverResponse`.
#[derive(Debug, Default)]
struct Response {
    status: i64,
    solution: Vec<i64>,
    bound: Option<f64>,
    conflicts: u64,
    log: String,
}

impl Response {
    fn read(bytes: &[u8]) -> quick_protobuf::Result<Self> {
        let mut response = Self::default();
        let mut reader = BytesReader::from_bytes(bytes);
        while !reader.is_eof() {
            let tag = reader.next_tag(bytes)?;
            match (tag >> 3, tag & 7) {
                (1, 0) => response.status = reader.read_int64(bytes)?,
                (2, 2) => response.solution = reader.read_packed(bytes, BytesReader::read_int64)?,
                (4, 1) => response.bound = Some(reader.read_double(bytes)?),
                (11, 0) => response.conflicts = reader.read_uint64(bytes)?,
                (26, 2) => reader.read_string(bytes)?.clone_into(&mut response.log),
                _ => reader.read_unknown(bytes, tag)?,
            }
        }
        Ok(response)
    }
}

fn outcome(
    model: &CpModel,
    request: &CpRequest<'_>,
    mut response: Response,
    stopped: bool,
    took: Duration,
) -> CpOutcome {
    let (stop, name) = match response.status {
        4 => (Stop::Optimal, "OPTIMAL"),
        3 => (Stop::Infeasible, "INFEASIBLE"),
        1 => (Stop::Error, "MODEL_INVALID"),
        status => {
            let limit = if stopped { Stop::Interrupted } else { Stop::TimeLimit };
            (limit, if status == 2 { "FEASIBLE" } else { "UNKNOWN" })
        }
    };
    // With any other status the vector is garbage.
    let solved = matches!(response.status, 2 | 4);
    response.solution.truncate(model.domains.len());
    let broken = model.broken(&response.solution).filter(|_| solved);
    let mut values = (solved && broken.is_none()).then_some(response.solution);
    let mut raw_status = broken.map_or_else(|| name.to_owned(), |what| format!("{name}, but {what}"));
    let stop = if raw_status == name { stop } else { Stop::Error };
    // A hint that solves the model is a solution, also where the search had no time to look at it.
    let worth = values.as_ref().map_or(i64::MAX, |values| model.objective_of(values));
    let better = hinted(model, request).filter(|hint| model.objective_of(hint) < worth);
    if better.is_some() && !matches!(stop, Stop::Infeasible | Stop::Error) {
        values = better;
        raw_status.push_str(", hint kept");
    }
    let objective = values.as_ref().map(|values| model.objective_of(values));
    let bound = match stop {
        Stop::Optimal => objective,
        Stop::Infeasible | Stop::Error => None,
        _ => response.bound.and_then(|bound| safe_bound(model, bound)),
    };
    CpOutcome {
        stop,
        values,
        objective,
        bound,
        raw_status,
        seconds: took.as_secs_f64(),
        conflicts: Some(response.conflicts),
        solver: version(&response.log).unwrap_or_else(|| "CP-SAT".into()),
    }
}

/// What the head of its log says, as `CP-SAT 9.15.6755`.
fn version(log: &str) -> Option<String> {
    let version = log.lines().find_map(|line| line.strip_prefix("Starting CP-SAT solver v"))?;
    Some(format!("CP-SAT {}", version.trim()))
}

/// The whole number that a bound in floating point proves. It is no bound at all before the solver has
/// one; then the objective's own range is.
fn safe_bound(model: &CpModel, bound: f64) -> Option<i64> {
    let least: i64 = model
        .objective
        .iter()
        .map(|&(variable, factor)| {
            let (lower, upper) = model.domains[variable.index()];
            (factor * lower).min(factor * upper)
        })
        .sum();
    if !bound.is_finite() || bound.abs() >= 9e15 || model.objective.is_empty() {
        return (!model.objective.is_empty()).then_some(least);
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to be below 2^53")]
    let proved = (bound - 1e-6).ceil() as i64;
    Some(proved.max(least))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_read_from_the_log() {
        let log = "\nStarting CP-SAT solver v9.15.6755\nParameters: num_workers: 1\n";
        assert_eq!(super::version(log).as_deref(), Some("CP-SAT 9.15.6755"));
    }
}
