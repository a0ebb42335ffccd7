//! HiGHS, embedded: the default backend.
//!
//! What it does otherwise than one might think: the time limit is overrun in presolve; there is no
//! memory limit (run it in a child process); interruption is coarse at the root; PDLP says optimal
//! with violations of several times the tolerance, so its objective is not kept as a bound; a vector left
//! from an earlier run is completed in a run of its own, whose bounds the callbacks pass on; after an early limit its own log shows no incumbent although the start is kept.

mod callback;
mod raw;

use std::time::Instant;

use highs_sys as ffi;

use crate::backend::{Backend, Session, SolverError, usable_start};
use crate::model::{Model, RowBlock};
use crate::outcome::{Outcome, Size, Stop};
use crate::request::{Observer, Request};
use callback::Hooks;
use raw::{Handle, ID};

/// HiGHS.
pub struct Highs;

impl Backend for Highs {
    fn id(&self) -> &'static str {
        ID
    }

    fn version(&self) -> String {
        raw::version()
    }

    fn cuts_off(&self) -> bool {
        true
    }

    fn solve(&self, model: &Model, request: &Request<'_>) -> Result<Outcome, SolverError> {
        HighsSession::new(model)?.solve(request, None)
    }

    fn session(&self, model: &Model) -> Result<Option<Box<dyn Session>>, SolverError> {
        Ok(Some(Box::new(HighsSession::new(model)?)))
    }
}

/// A model inside HiGHS, and a copy of it to check starts against.
struct HighsSession {
    handle: Handle,
    model: Model,
}

/// The step of presolve that enumerates solutions of single rows, as a bit of those that are left out. After what it fixes HiGHS
/// up to 1.15 may lose rows that say "one of these", and called a feasible model infeasible (its issue 3216).
const ENUMERATION: u64 = 1 << 16;

impl HighsSession {
    fn new(model: &Model) -> Result<Self, SolverError> {
        let mut handle = Handle::new()?;
        handle.pass(model)?;
        Ok(Self { handle, model: model.clone() })
    }

    /// Whether this request is about a mixed-integer program.
    fn mixed(&self, request: &Request<'_>) -> bool {
        !request.relaxation && self.model.has_integers()
    }

    /// The cutoff, where it counts.
    fn cutoff(&self, request: &Request<'_>) -> Option<f64> {
        request.cutoff.filter(|_| self.mixed(request))
    }

    fn set_options(&mut self, request: &Request<'_>) -> Result<(), SolverError> {
        let (cutoff, mixed) = (self.cutoff(request), self.mixed(request));
        let handle = &mut self.handle;
        handle.set_double("time_limit", request.time.map_or(f64::INFINITY, |time| time.as_secs_f64()))?;
        handle.set_int("mip_max_nodes", request.nodes.unwrap_or(u64::MAX))?;
        handle.set_double("mip_rel_gap", 0.0)?;
        handle.set_double("mip_abs_gap", request.absolute_gap)?;
        handle.set_double("primal_feasibility_tolerance", request.tolerance)?;
        handle.set_double("mip_feasibility_tolerance", request.integrality())?;
        handle.set_int("threads", request.threads as u64)?;
        handle.set_text("parallel", if request.threads > 1 { "on" } else { "off" })?;
        handle.set_int("random_seed", request.seed & 0x7fff_ffff)?;
        handle.set_bool("solve_relaxation", request.relaxation)?;
        handle.set_double("objective_bound", cutoff.unwrap_or(f64::INFINITY))?;
        // To show that nothing is within a cutoff takes no points. Nodes are cheap beside a careful choice of where to branch.
        for heuristic in ["rins", "rens", "root_reduced_cost"] {
            handle.set_bool(&format!("mip_heuristic_run_{heuristic}"), cutoff.is_none())?;
        }
        handle.set_bool("mip_allow_restart", cutoff.is_none())?;
        let default = 8;
        handle.set_int("mip_pscost_minreliable", if cutoff.is_some() { 0 } else { default })?;
        handle.set_int("presolve_rule_off", ENUMERATION)?;
        let interior_point = request.interior_point && !mixed;
        handle.set_text("run_crossover", if interior_point { "off" } else { "on" })?;
        handle.set_text("solver", if interior_point { "ipm" } else { "choose" })
    }

    /// Presolves for its sizes, outside of the time limit: a presolve that was cut short says nothing.
    fn presolve(&mut self, request: &Request<'_>) -> Result<(Option<f64>, Option<Size>), SolverError> {
        if !request.measure_presolve {
            return Ok((None, None));
        }
        self.handle.set_double("time_limit", f64::INFINITY)?;
        let began = Instant::now();
        let size = self.handle.presolve();
        let seconds = began.elapsed().as_secs_f64();
        self.set_options(request)?;
        Ok((Some(seconds), size))
    }

    /// Why HiGHS stopped, in our words and in its own.
    fn stop(&self, request: &Request<'_>, status: i32, bound: Option<f64>) -> (Stop, String) {
        let stop = match status {
            ffi::MODEL_STATUS_OPTIMAL if self.mixed(request) => {
                Outcome::finished(self.handle.objective(), bound, request.absolute_gap)
            }
            ffi::MODEL_STATUS_MODEL_EMPTY if bound.is_none() => Stop::Infeasible,
            ffi::MODEL_STATUS_OPTIMAL | ffi::MODEL_STATUS_MODEL_EMPTY => Stop::Optimal,
            ffi::MODEL_STATUS_INFEASIBLE => Stop::Infeasible,
            ffi::MODEL_STATUS_UNBOUNDED => Stop::Unbounded,
            ffi::MODEL_STATUS_UNBOUNDED_OR_INFEASIBLE => Stop::InfeasibleOrUnbounded,
            ffi::MODEL_STATUS_REACHED_TIME_LIMIT => Stop::TimeLimit,
            ffi::MODEL_STATUS_REACHED_SOLUTION_LIMIT => Stop::NodeLimit,
            ffi::MODEL_STATUS_REACHED_INTERRUPT | INTERRUPTED_BY_USER => Stop::Interrupted,
            ffi::MODEL_STATUS_REACHED_MEMORY_LIMIT => Stop::MemoryLimit,
            _ => Stop::Error,
        };
        (stop, words(status).to_owned())
    }
}

/// `HighsModelStatus::kHighsInterrupt`, which the C interface does not name.
const INTERRUPTED_BY_USER: i32 = 19;

/// HiGHS's names of its statuses.
fn words(status: i32) -> &'static str {
    const WORDS: [&str; 20] = [
        "Not Set",
        "Load error",
        "Model error",
        "Presolve error",
        "Solve error",
        "Postsolve error",
        "Empty",
        "Optimal",
        "Infeasible",
        "Primal infeasible or unbounded",
        "Unbounded",
        "Bound on objective reached",
        "Target for objective reached",
        "Time limit reached",
        "Iteration limit reached",
        "Unknown",
        "Solution limit reached",
        "Interrupted by user",
        "Memory limit reached",
        "Interrupted by HiGHS",
    ];
    usize::try_from(status).ok().and_then(|at| WORDS.get(at)).copied().unwrap_or("a status of a later version")
}

impl Session for HighsSession {
    fn add_rows(&mut self, rows: &RowBlock) -> Result<(), SolverError> {
        self.model.rows.append(rows);
        self.handle.add_rows(rows)
    }

    fn solve(&mut self, request: &Request<'_>, mut observer: Option<Observer<'_>>) -> Result<Outcome, SolverError> {
        self.set_options(request)?;
        let (presolve_seconds, presolved) = self.presolve(request)?;
        if self.mixed(request) {
            // HiGHS would complete the vector of the last solve in a run of its own, with what is whole
            // fixed, and report the bounds of that run as if they were those of the model.
            self.handle.forget()?;
        }
        if let Some(values) = usable_start(&self.model, request) {
            self.handle.set_start(values)?;
        }
        let began = Instant::now();
        let mixed = self.mixed(request);
        let cutoff = self.cutoff(request).unwrap_or(f64::INFINITY);
        let (observer, interrupt) = (observer.as_mut(), request.interrupt);
        let mut hooks = Hooks { observer, interrupt, stop: false, cutoff, told: f64::NEG_INFINITY, began };
        let mut returned = self.handle.run(&mut hooks);
        if !mixed && !request.interior_point && self.handle.model_status() == ffi::MODEL_STATUS_UNKNOWN {
            // From the basis of an earlier solve the simplex method may come to no result; from none it does.
            self.handle.forget()?;
            if let Some(time) = request.time {
                self.handle.set_double("time_limit", time.saturating_sub(began.elapsed()).as_secs_f64())?;
            }
            returned = self.handle.run(&mut hooks);
        }
        let solve_seconds = began.elapsed().as_secs_f64();

        let status = self.handle.model_status();
        // A model without columns is empty to HiGHS, whatever its rows ask: they are looked at here.
        let empty = status == ffi::MODEL_STATUS_MODEL_EMPTY;
        let feasible = match status {
            ffi::MODEL_STATUS_MODEL_EMPTY => self.model.violation(&[]).max() <= request.tolerance,
            ffi::MODEL_STATUS_INFEASIBLE => false,
            _ => self.handle.has_feasible_vector(),
        };
        let objective = feasible.then(|| if empty { self.model.offset } else { self.handle.objective() });
        // A start beyond the cutoff comes back as the best point.
        let objective = objective.filter(|&objective| objective <= cutoff);
        let proved = empty || status == ffi::MODEL_STATUS_OPTIMAL;
        let dual_bound = if mixed {
            self.handle.info("mip_dual_bound").map(|bound| bound.min(cutoff))
        } else {
            objective.filter(|_| proved)
        };
        let (stop, words) = self.stop(request, status, dual_bound);
        let (stop, dual_bound) = match stop {
            Stop::Optimal | Stop::GapReached | Stop::Infeasible if objective.is_none() && cutoff.is_finite() => {
                (Stop::Cutoff, Some(cutoff))
            }
            _ => (stop, dual_bound),
        };
        let raw_status = if returned == ffi::STATUS_ERROR { format!("{words} (run failed)") } else { words };
        Ok(Outcome {
            stop,
            linear: request.relaxation.then(|| self.handle.linear()).flatten(),
            incumbent: objective.map(|_| self.handle.values()),
            objective,
            dual_bound,
            raw_status,
            nodes: self.handle.nodes().filter(|_| mixed),
            presolve_seconds,
            solve_seconds,
            size: self.handle.size(),
            presolved,
            solver: raw::version(),
        })
    }
}
