//! What every solver looks like from outside, and the list of those built in.

use thiserror::Error;

use crate::model::{Model, RowBlock};
use crate::outcome::Outcome;
use crate::request::{Observer, Request};

/// A solver.
pub trait Backend: Sync {
    /// Kebab-case id.
    fn id(&self) -> &'static str;
    /// Whether it is there, and if not, what would bring it.
    ///
    /// # Errors
    /// Why not.
    fn available(&self) -> Result<(), String> {
        Ok(())
    }
    /// Solver and version.
    fn version(&self) -> String;
    /// Whether it keeps to [`Request::cutoff`].
    fn cuts_off(&self) -> bool {
        false
    }
    /// Solves a model.
    ///
    /// # Errors
    /// The solver could not be asked at all; running out of time, memory or patience is an outcome.
    fn solve(&self, model: &Model, request: &Request<'_>) -> Result<Outcome, SolverError>;
    /// A session of its own, where it has any: each solve starts where the last ended. Callers use [`session()`].
    ///
    /// # Errors
    /// The backend does not take the model.
    fn session(&self, _model: &Model) -> Result<Option<Box<dyn Session>>, SolverError> {
        Ok(None)
    }
}

/// A model inside a solver, to which rows may be added.
pub trait Session {
    /// Adds rows.
    ///
    /// # Errors
    /// The solver does not take them.
    fn add_rows(&mut self, rows: &RowBlock) -> Result<(), SolverError>;
    /// Solves the model as it stands. An observer hears nothing where every solve starts anew.
    ///
    /// # Errors
    /// The solver could not be asked at all.
    fn solve(&mut self, request: &Request<'_>, observer: Option<Observer<'_>>) -> Result<Outcome, SolverError>;
}

/// A session for solvers that have none: every solve starts anew.
struct Anew {
    backend: &'static dyn Backend,
    model: Model,
}

impl Session for Anew {
    fn add_rows(&mut self, rows: &RowBlock) -> Result<(), SolverError> {
        self.model.rows.append(rows);
        Ok(())
    }

    fn solve(&mut self, request: &Request<'_>, _: Option<Observer<'_>>) -> Result<Outcome, SolverError> {
        self.backend.solve(&self.model, request)
    }
}

/// A session: rows may be added between solves. With a backend that has none every solve starts anew.
///
/// # Errors
/// The backend does not take the model.
pub fn session(backend: &'static dyn Backend, model: &Model) -> Result<Box<dyn Session>, SolverError> {
    Ok(backend.session(model)?.unwrap_or_else(|| Box::new(Anew { backend, model: model.clone() })))
}

/// A solver could not be asked.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SolverError {
    /// An option, the model or a start was refused.
    #[error("{solver} refuses {what} (status {status})")]
    Rejected {
        /// Id of the backend.
        solver: &'static str,
        /// What it refuses.
        what: String,
        /// Its return code.
        status: i32,
    },
    /// It is not installed.
    #[error("{why}")]
    Missing {
        /// Id of the backend.
        solver: &'static str,
        /// Where it was looked for, and what would bring it.
        why: String,
    },
    /// No backend is called so.
    #[error("no solver {name:?} is built in; there is {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that would do.
        known: String,
    },
}

/// Every backend; the first is the default.
pub static BACKENDS: &[&dyn Backend] = &[
    &crate::highs::Highs,
    &crate::cbc::Cbc,
    #[cfg(feature = "cbc")]
    &crate::cbc::linked::Linked,
    &crate::microlp::Microlp,
];

/// The backend with an id.
///
/// # Errors
/// There is none, and then those that there are are named; or it is not installed.
pub fn backend(id: &str) -> Result<&'static dyn Backend, SolverError> {
    let known = || BACKENDS.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(", ");
    let found = BACKENDS.iter().copied().find(|backend| backend.id() == id);
    let backend = found.ok_or_else(|| SolverError::Unknown { name: id.into(), known: known() })?;
    backend.available().map_err(|why| SolverError::Missing { solver: backend.id(), why })?;
    Ok(backend)
}

/// The start, where it satisfies the model: no solver is handed another, since each does something else with it.
pub(crate) fn usable_start<'a>(model: &Model, request: &Request<'a>) -> Option<&'a [f64]> {
    request.start.filter(|values| model.violation(values).max() <= request.tolerance)
}
