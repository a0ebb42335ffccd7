//! What every solver looks like from outside, and the list of those built in.

use thiserror::Error;

use crate::model::{Model, RowBlock};
use crate::outcome::Outcome;
use crate::request::Request;

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
    /// Whether it can do something, and if not, why.
    ///
    /// # Errors
    /// What it does instead.
    fn supports(&self, capability: Capability) -> Result<(), Unsupported>;
    /// Solves a model.
    ///
    /// # Errors
    /// The solver could not be asked at all; running out of time, memory or patience is an outcome.
    fn solve(&self, model: &Model, request: &mut Request<'_>) -> Result<Outcome, SolverError>;
    /// Opens a session: rows may be added between solves, each of which starts where the last ended.
    ///
    /// # Errors
    /// The backend has no sessions, or does not take the model.
    fn session<'a>(&self, _model: &Model) -> Result<Box<dyn Session + 'a>, SolverError> {
        self.supports(Capability::Sessions)?;
        Err(SolverError::Rejected { solver: self.id(), what: "a session".into(), status: -1 })
    }
}

/// A model inside a solver, to which rows may be added.
pub trait Session {
    /// Adds rows.
    ///
    /// # Errors
    /// The solver does not take them.
    fn add_rows(&mut self, rows: &RowBlock) -> Result<(), SolverError>;
    /// Solves the model as it stands.
    ///
    /// # Errors
    /// The solver could not be asked at all.
    fn solve(&mut self, request: &mut Request<'_>) -> Result<Outcome, SolverError>;
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

    fn solve(&mut self, request: &mut Request<'_>) -> Result<Outcome, SolverError> {
        self.backend.solve(&self.model, request)
    }
}

/// A session, of a backend that has none too.
///
/// # Errors
/// The backend does not take the model.
pub fn session(backend: &'static dyn Backend, model: &Model) -> Result<Box<dyn Session>, SolverError> {
    match backend.supports(Capability::Sessions) {
        Ok(()) => backend.session(model),
        Err(_) => Ok(Box::new(Anew { backend, model: model.clone() })),
    }
}

/// Something that not every solver can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Reports a proved bound, also when it stops early.
    DualBound,
    /// Stops after a number of nodes.
    NodeLimit,
    /// Tells unbounded from infeasible.
    ToldApart,
    /// Stops when asked from outside.
    Interrupt,
    /// Reports incumbents and bounds while it runs.
    Progress,
    /// Starts from a given vector.
    Start,
    /// Leaves out what is beyond a cutoff.
    Cutoff,
    /// Says that memory ran out, or ends the process with words that do.
    OutOfMemory,
    /// Reports time and sizes of presolve.
    PresolvedSize,
    /// Takes rows between solves.
    Sessions,
    /// Solves linear programs by an interior-point method alone.
    InteriorPoint,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::DualBound,
        Self::NodeLimit,
        Self::ToldApart,
        Self::Interrupt,
        Self::Progress,
        Self::Start,
        Self::Cutoff,
        Self::OutOfMemory,
        Self::PresolvedSize,
        Self::Sessions,
        Self::InteriorPoint,
    ];
}

/// Something that a backend cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{solver} has no {capability:?}: {reason}")]
pub struct Unsupported {
    /// Id of the backend.
    pub solver: &'static str,
    /// What was asked.
    pub capability: Capability,
    /// Why not, and what happens instead.
    pub reason: &'static str,
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
    /// The backend cannot do this.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
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
