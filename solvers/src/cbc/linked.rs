//! CBC's library through its C interface, behind the cargo feature `cbc` (system library coinor-libcbc-dev): what the
//! program of the same name ([`super::Cbc`]) is measured against. No watchdog reaches into it. One solve at a time: of five
//! threads that solve at once under a time limit, one may stay in the dual simplex for ever (CBC 2.10.8).
//!
//! What it does otherwise than one might think: its seconds are CPU seconds unless told otherwise; a
//! limit without an incumbent still leaves a fractional vector behind; it forgets a start when a
//! limit comes early, so the start is kept here; and it may call a model infeasible that has nothing better than its
//! start, so then it is asked again without. It prints a few words even when silent, so standard output is not safe from it.
//!
//! Beyond what the program lacks: it cannot be stopped from outside, it tells an unbounded linear program only by elimination,
//! and out of memory its C++ exception ends the process.

use std::ffi::{CString, c_int};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use coin_cbc::raw::{self, SecondaryStatus, Status};

use super::opinion;
use crate::backend::{Backend, SolverError, usable_start};
use crate::model::{Kind, Model};
use crate::outcome::{Outcome, Stop};
use crate::request::Request;

/// CBC, the library.
pub struct Linked;

const ID: &str = "cbc-linked";

/// Held while the library works.
static ALONE: Mutex<()> = Mutex::new(());

impl Backend for Linked {
    fn id(&self) -> &'static str {
        ID
    }

    fn version(&self) -> String {
        format!("CBC {}, linked", raw::Model::version())
    }

    fn solve(&self, model: &Model, request: &Request<'_>) -> Result<Outcome, SolverError> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cbc = load(model, request, request.time);
        let given = usable_start(model, request);
        if let Some(values) = given {
            cbc.set_initial_solution(values);
        }
        let began = Instant::now();
        cbc.solve();
        let beyond_the_start = given.is_some() && cbc.is_proven_infeasible();
        if beyond_the_start {
            // The start, which was checked, is a cutoff to CBC, and "infeasible" is what it may call the rest.
            let left = request.time.map(|time| time.saturating_sub(began.elapsed()));
            cbc = load(model, request, left);
            cbc.solve();
        }
        let solve_seconds = began.elapsed().as_secs_f64();
        let mixed = model.has_integers() && !request.relaxation;
        let in_time = request.time.is_none_or(|time| solve_seconds < time.as_secs_f64());
        let (claimed, words) = stop(&cbc, mixed, in_time);
        let left = request.time.map(|time| time.saturating_sub(began.elapsed()));
        let (stop, raw_status) = opinion::checked(model, request, left, claimed, &words, beyond_the_start);
        let incumbent = super::better(model, given, incumbent(&cbc, model, request, stop));
        let objective = incumbent.as_deref().map(|values| model.objective(values));
        let bound = match stop {
            Stop::Infeasible | Stop::Unbounded | Stop::InfeasibleOrUnbounded | Stop::Error => None,
            Stop::Optimal if !mixed => objective,
            _ if mixed => Some(cbc.best_possible_value() + model.offset).filter(|value| value.abs() < 1e49),
            _ => None,
        };
        let finished = |objective| Outcome::finished(objective, bound, request.absolute_gap);
        Ok(Outcome {
            stop: if stop == Stop::Optimal && mixed { objective.map_or(stop, finished) } else { stop },
            objective,
            incumbent,
            dual_bound: bound,
            raw_status,
            solve_seconds,
            ..Outcome::empty(stop, model.size(), self.version())
        })
    }
}

fn set(cbc: &mut raw::Model, name: &str, value: &str) {
    let text = |word: &str| CString::new(word).expect("parameters hold no NUL");
    cbc.set_parameter(&text(name), &text(value));
}

/// CBC with the model by columns, and every parameter set.
fn load(model: &Model, request: &Request<'_>, time: Option<Duration>) -> raw::Model {
    let mut cbc = raw::Model::new();
    let (starts, rows, values) = by_columns(model);
    cbc.load_problem(
        model.columns(),
        model.rows.len(),
        &starts,
        &rows,
        &values,
        Some(&model.lower),
        Some(&model.upper),
        Some(&model.costs),
        Some(&model.rows.lower),
        Some(&model.rows.upper),
    );
    cbc.set_obj_sense(raw::Sense::Minimize);
    for column in 0..model.columns() {
        if model.kinds[column] == Kind::Integer && !request.relaxation {
            cbc.set_integer(column);
        }
    }
    let level = u8::from(crate::log::wanted());
    cbc.set_log_level(level.into());
    set(&mut cbc, "log", &level.to_string());
    set(&mut cbc, "slog", "0");
    set(&mut cbc, "timeMode", "elapsed");
    if let Some(time) = time {
        set(&mut cbc, "seconds", &time.as_secs_f64().to_string());
    }
    for (name, value) in super::options(request) {
        set(&mut cbc, name, &value);
    }
    cbc
}

/// The matrix by columns: where each begins, the row of each term, its coefficient.
fn by_columns(model: &Model) -> (Vec<c_int>, Vec<c_int>, Vec<f64>) {
    let int = |number: usize| c_int::try_from(number).expect("models index in 31 bits");
    let (mut starts, mut rows, mut values) = (vec![0], vec![], vec![]);
    for terms in model.rows.by_column(model.columns()) {
        rows.extend(terms.iter().map(|&(row, _)| int(row)));
        values.extend(terms.iter().map(|&(_, value)| value));
        starts.push(int(rows.len()));
    }
    (starts, rows, values)
}

/// Why it stopped, and its own words.
fn stop(cbc: &raw::Model, mixed: bool, in_time: bool) -> (Stop, String) {
    let (status, secondary) = (cbc.status(), cbc.secondary_status());
    let raw_status = format!("{status:?}, {secondary:?}");
    let stop = if mixed { stop_of_search(cbc, status, secondary) } else { stop_of_relaxation(cbc, in_time) };
    (stop, raw_status)
}

fn stop_of_search(cbc: &raw::Model, status: Status, secondary: SecondaryStatus) -> Stop {
    if cbc.is_proven_infeasible() || secondary == SecondaryStatus::LinearRelaxationInfeasible {
        return Stop::Infeasible;
    }
    if cbc.is_continuous_unbounded() || secondary == SecondaryStatus::LinearRelaxationUnbounded {
        return Stop::Unbounded;
    }
    match secondary {
        SecondaryStatus::StoppedOnTime => Stop::TimeLimit,
        SecondaryStatus::StoppedOnNodes => Stop::NodeLimit,
        SecondaryStatus::StoppedOnUserEvent => Stop::Interrupted,
        SecondaryStatus::StoppedOnGap => Stop::GapReached,
        _ if status == Status::Finished && cbc.is_proven_optimal() => Stop::Optimal,
        _ => Stop::Error,
    }
}

/// Linear programs leave the status of the search at "unlaunched", and unbounded ones are "proven
/// infeasible" there: only the initial solve tells.
fn stop_of_relaxation(cbc: &raw::Model, in_time: bool) -> Stop {
    if cbc.is_initial_solve_proven_optimal() {
        Stop::Optimal
    } else if cbc.is_initial_solve_proven_primal_infeasible() {
        Stop::Infeasible
    } else if cbc.is_initial_solve_abandoned() {
        Stop::Error
    } else if in_time {
        // What is left is dual infeasibility, which the C interface does not report.
        Stop::InfeasibleOrUnbounded
    } else {
        Stop::TimeLimit
    }
}

/// The vector, if it is one: after a limit CBC leaves a fractional one behind when it has found none.
fn incumbent(cbc: &raw::Model, model: &Model, request: &Request<'_>, stop: Stop) -> Option<Vec<f64>> {
    let stopped = matches!(stop, Stop::Infeasible | Stop::Unbounded | Stop::InfeasibleOrUnbounded);
    if stopped || cbc.obj_value().abs() > 1e49 {
        return None;
    }
    let values = cbc.col_solution();
    super::satisfies(values, model, request).then(|| values.to_vec())
}
