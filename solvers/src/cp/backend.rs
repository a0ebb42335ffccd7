//! What every constraint solver looks like from outside, and the list of those that there are.

use crate::backend::SolverError;
use crate::cp::by_mip::ByMip;
use crate::cp::cp_sat::CpSat;
use crate::cp::model::CpModel;
use crate::cp::request::{CpOutcome, CpRequest};

/// A constraint solver.
pub trait CpBackend: Sync {
    /// Kebab-case id.
    fn id(&self) -> &'static str;
    /// Whether it is there, and if not, what would bring it.
    ///
    /// # Errors
    /// Why not.
    fn available(&self) -> Result<(), String> {
        Ok(())
    }
    /// Whether it keeps to [`CpRequest::emphasis`].
    fn has_emphasis(&self) -> bool {
        false
    }
    /// Solves a model.
    ///
    /// # Errors
    /// The solver could not be asked at all; running out of time or patience is an outcome.
    fn solve(&self, model: &CpModel, request: &CpRequest<'_>) -> Result<CpOutcome, SolverError>;
}

/// Every constraint solver.
pub static CP_BACKENDS: &[&dyn CpBackend] = &[
    &CpSat,
    &ByMip { id: "highs", solver: &crate::highs::Highs },
    &ByMip { id: "microlp", solver: &crate::microlp::Microlp },
];

/// The backend with an id.
///
/// # Errors
/// There is none; names those that there are.
pub fn cp_backend(id: &str) -> Result<&'static dyn CpBackend, SolverError> {
    let known = || CP_BACKENDS.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(", ");
    let found = CP_BACKENDS.iter().copied().find(|backend| backend.id() == id);
    found.ok_or_else(|| SolverError::Unknown { name: id.into(), known: known() })
}

/// The solution that a hint says, where it names every variable and breaks nothing.
pub(crate) fn hinted(model: &CpModel, request: &CpRequest<'_>) -> Option<Vec<i64>> {
    let mut values = vec![None; model.domains.len()];
    for &(variable, value) in request.hint {
        values[variable.index()] = Some(value);
    }
    let full: Vec<i64> = values.into_iter().collect::<Option<_>>()?;
    (!request.hint.is_empty() && model.broken(&full).is_none()).then_some(full)
}
