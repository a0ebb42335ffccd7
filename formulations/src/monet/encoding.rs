//! The exact model for other solvers, with every memory row that can bind, and the schedule that a solution says.

use remat_core::Instance;
use remat_solvers::{Kind, Model};

use crate::checkmate::INTEGRALITY;
use crate::method::formulation::{DecodeError, Encoding, LinearEncoding};
use crate::method::parameters::Parameters;
use crate::method::{Claimed, MethodError, SkipReason};
use crate::monet::graph::Graph;
use crate::monet::model::Linear;
use crate::monet::released;
use crate::monet::settings::{Count, modes};
use crate::monet::task::Task;
use crate::search::incumbent::Judge;
use crate::search::separation::Relaxation;

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
    if parameters.get::<Count>() == Count::AsReleased {
        return released::encoding::encode(instance, parameters, budget, relaxed);
    }
    let graph = Graph::new(instance, modes(parameters));
    let (model, kinds, facts, names) = {
        let task = Task { instance, graph: &graph, budget, one: None };
        let mut linear = Linear::exact(&graph, task.room());
        linear.add_all();
        if linear.has_hopeless_row() || budget.is_some_and(|budget| budget < graph.base_bytes) {
            return Err(hopeless(budget));
        }
        let facts = facts(&linear, relaxed);
        let mut model = std::mem::take(&mut linear.model);
        let kinds = model.kinds.clone();
        if relaxed {
            model.kinds.fill(Kind::Continuous);
        }
        (model, kinds, facts, linear.named())
    };
    let read = move |vector: &[f64]| {
        check_whole(&kinds, relaxed, vector)?;
        let task = Task { instance, graph: &graph, budget, one: None };
        // Columns lie where they lay.
        let found = Linear::exact(&graph, task.room()).plan(vector, budget.unwrap_or(u64::MAX));
        let illegal = || DecodeError::Response("the solution makes an operator run again that must not".into());
        let found = found.ok_or_else(illegal)?;
        match task.admit(&found) {
            Ok(Ok(admitted)) => Ok(admitted),
            // Within the tolerances of a solver it may be over the budget; the simulator says so.
            _ => Ok((found.schedule(instance, &graph), Claimed { time: found.time(), peak_bytes: found.peak() })),
        }
    };
    Ok(Box::new(LinearEncoding { model, names: Box::new(names), facts, read: Box::new(read) }))
}

/// There is no model: no row of it could hold.
pub fn hopeless(budget: Option<u64>) -> MethodError {
    let budget = budget.map_or_else(String::new, |budget| format!(" {budget}"));
    let message = format!("some stage needs more than the budget{budget} whatever is chosen: infeasible, no model");
    MethodError::Unsupported(SkipReason(message))
}

/// Whether a vector can be read as a schedule.
///
/// # Errors
/// It is one of the relaxation, or a whole column is too far from a whole number.
pub fn check_whole(kinds: &[Kind], relaxed: bool, vector: &[f64]) -> Result<(), DecodeError> {
    if relaxed {
        return Err(DecodeError::Relaxation);
    }
    let whole = vector.iter().zip(kinds).filter(|&(_, &kind)| kind == Kind::Integer);
    let away = whole.map(|(value, _)| (value - value.round()).abs()).fold(0.0, f64::max);
    if away > INTEGRALITY { Err(DecodeError::Fractional(away)) } else { Ok(()) }
}

fn facts(linear: &Linear<'_>, relaxed: bool) -> Vec<(&'static str, String)> {
    let Model { costs, rows, .. } = &linear.model;
    let what = if relaxed { "the relaxation, all memory rows that can bind" } else { "all memory rows that can bind" };
    vec![
        ("formulation", what.to_owned()),
        ("size", format!("{} columns, {} rows, {} nonzeros", costs.len(), rows.len(), rows.values.len())),
        (
            "columns",
            "r_t_i_w: the operator at position i of the order runs in stage t by implementation w; s_t_a: value a is kept \
             into stage t; m_c: at least the larger of two sums"
                .to_owned(),
        ),
        ("time not in the objective (each operator's first run, the fastest way)", linear.fixed_time().to_string()),
        ("time of one unit of the objective", linear.scale().time.to_string()),
        ("memory of one unit of a memory row", linear.scale().memory.to_string()),
    ]
}
