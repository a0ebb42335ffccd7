//! The exact model for other solvers, with every memory row that can bind, and the schedule that a solution says.

use remat_core::Instance;

use crate::method::formulation::{DecodeError, Encoding, LinearEncoding};
use crate::method::parameters::Parameters;
use crate::method::{Claimed, MethodError, SkipReason};
use crate::monet::released;
use crate::monet::settings::{Rules, modes};
use crate::monet::task::Task;
use crate::search::incumbent::Judge;
use crate::search::problem::Staged;
use crate::staged::graph::Graph;
use crate::staged::model::Linear;

/// The model of a budget, whole or relaxed. Every strategy answers for this one.
///
/// # Errors
/// The instance has no such view, or nothing at all is within the budget.
pub fn encode<'a>(
    instance: &'a Instance,
    parameters: &Parameters,
    budget: Option<u64>,
    relaxed: bool,
) -> Result<Box<dyn Encoding + 'a>, MethodError> {
    if parameters.get::<Rules>() == Rules::AsReleased {
        return released::encoding::encode(instance, parameters, budget, relaxed);
    }
    let graph = Graph::new(instance, modes(parameters));
    let (model, facts, names) = {
        let mut linear = Linear::exact(&graph, budget);
        linear.add_all();
        if linear.has_hopeless_row() || budget.is_some_and(|budget| budget < graph.base_bytes) {
            return Err(hopeless(budget));
        }
        let mut facts = linear.facts(true);
        facts.extend(relaxed.then(without_paths));
        (std::mem::take(&mut linear.model), facts, linear.named(true))
    };
    let read = move |vector: &[f64]| {
        let task = Task { instance, graph: &graph, budget, one: None };
        // Columns lie where they lay.
        let found = task.expand(&task.exact(), vector);
        let illegal = || DecodeError::Response("the solution makes an operator run again that must not".into());
        let found = found.ok_or_else(illegal)?;
        match task.admit(&found) {
            Ok(Ok(admitted)) => Ok(admitted),
            // Within the tolerances of a solver it may be over the budget; the simulator says so.
            _ => Ok((found.schedule(instance, &graph), Claimed { time: found.time(), peak_bytes: found.peak() })),
        }
    };
    Ok(LinearEncoding::boxed(model, names, facts, relaxed, read))
}

/// What the relaxed model lacks.
pub fn without_paths() -> (&'static str, String) {
    ("not in the model", "the rows of paths that monet-lp adds; its bound may be higher".to_owned())
}

/// There is no model: no row of it could hold.
pub fn hopeless(budget: Option<u64>) -> MethodError {
    let budget = budget.map_or_else(String::new, |budget| format!(" {budget}"));
    let message = format!("some stage needs more than the budget{budget} whatever is chosen: infeasible, no model");
    MethodError::Unsupported(SkipReason(message))
}
