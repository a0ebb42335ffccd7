//! Checkmate: `checkmate-ilp`, its relaxation `checkmate-lp`, and `checkmate-rounding`.
//!
//! [`plain`] is the published formulation; the reduced one and the relaxation over blocks of stages are those of all
//! methods in stages (`staged/model/`), over a graph with one implementation for each run. [`relaxation`] is what the search
//! (`search/`) knows of them, [`encoding`] has them for other solvers. The joint graph and its schedules are in `staged/`.

pub mod encoding;
pub mod ilp;
pub mod lp;
pub mod plain;
pub mod relaxation;
pub mod rounding;

use std::sync::Arc;

pub use ilp::CheckmateIlp;
pub use lp::CheckmateLp;
pub use rounding::CheckmateRounding;

use remat_core::Instance;

use crate::method::claim::Memory;
use crate::method::parameters::Parameters;
use crate::method::{Class, Context, MethodError, SkipReason};
use crate::setting;
use crate::staged::joint::Joint;
use crate::staged::task::Task;

setting! {
    /// whether an operator's workspace counts; off as published, and such a schedule may exceed its budget
    pub Workspace("workspace"): switch = on
}

/// The schedules that Checkmate's programs search.
pub fn class(parameters: &Parameters) -> Class {
    let memory = if parameters.get::<Workspace>() { Memory::Simulated } else { Memory::WithoutWorkspace };
    Class { memory, ..Class::STAGES }
}

/// The joint graph of an instance, whose workspaces count if parameters say so.
///
/// # Errors
/// There is none.
pub fn joint(instance: &Instance, parameters: &Parameters) -> Result<Arc<Joint>, SkipReason> {
    let joint = Joint::new(instance)?;
    Ok(Arc::new(if parameters.get::<Workspace>() { joint } else { joint.without_workspaces(instance) }))
}

/// The tasks of a context's budgets, for methods that list [`Workspace`] among their settings.
///
/// # Errors
/// The instance has no joint graph.
pub fn tasks<'a>(context: &Context<'a>) -> Result<impl Fn(Option<u64>) -> Task<'a> + use<'a>, MethodError> {
    let (instance, joint) = (context.instance, joint(context.instance, context.parameters)?);
    Ok(move |budget| Task::new(instance, Arc::clone(&joint), budget))
}
