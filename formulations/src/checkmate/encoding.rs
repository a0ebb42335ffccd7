//! Checkmate's models for other solvers: which model a parameter setting means, what its columns are,
//! and the stages that a solution says.

use std::rc::Rc;
use std::sync::Arc;

use remat_core::Instance;
use remat_solvers::{Column, Kind, Model, Names, Row};

use crate::checkmate::compact::{Compact, Rows};
use crate::checkmate::plain::Plain;
use crate::checkmate::{INTEGRALITY, tasks};
use crate::method::formulation::{DecodeError, Encoding, LinearEncoding};
use crate::method::parameters::Parameters;
use crate::method::{Context, Limits, MethodError, SkipReason};
use crate::staged::stages::Stages;

/// Either formulation.
enum Either {
    Plain(Plain),
    Compact(Compact),
}

impl Either {
    fn take_model(&mut self) -> Model {
        match self {
            Self::Plain(plain) => std::mem::take(&mut plain.model),
            Self::Compact(compact) => std::mem::take(&mut compact.model),
        }
    }

    fn units(&self) -> (f64, f64) {
        match self {
            Self::Plain(plain) => (plain.time_unit(), plain.memory_unit()),
            Self::Compact(compact) => (compact.time_unit(), compact.memory_unit()),
        }
    }

    fn stages(&self, vector: &[f64]) -> Result<Stages, f64> {
        match self {
            Self::Plain(plain) => plain.stages(vector, INTEGRALITY),
            Self::Compact(compact) => compact.stages(vector, INTEGRALITY),
        }
    }
}

/// Names, shared with the way back.
struct Shared(Rc<Either>);

impl Names for Shared {
    fn column(&self, column: Column) -> String {
        match self.0.as_ref() {
            Either::Plain(plain) => Names::column(plain, column),
            Either::Compact(compact) => Names::column(compact, column),
        }
    }
    fn row(&self, row: Row) -> String {
        format!("c{}", row.index())
    }
}

/// The model of a budget: the published one or the reduced one (with all of its memory rows), whole or
/// relaxed.
///
/// # Errors
/// There is no joint graph, or the budget is below what one operator needs.
pub fn encode<'a>(
    instance: &'a Instance,
    parameters: &Parameters,
    budget: Option<u64>,
    published: bool,
    relaxed: bool,
) -> Result<Box<dyn Encoding + 'a>, MethodError> {
    let limits = Limits { time: None, threads: 1, seed: 0 };
    let task = tasks(&Context::new(instance, parameters, &[], limits))?(budget);
    let (joint, workspace) = (Arc::clone(&task.joint), task.workspace);
    let least = joint.least_peak(workspace);
    if let Some(budget) = budget.filter(|&budget| budget < least) {
        let message = format!("one operator alone needs {least}, more than the budget {budget}: infeasible, no model");
        return Err(MethodError::Unsupported(SkipReason(message)));
    }
    let mut either = if published {
        Either::Plain(Plain::new(&joint, budget, workspace))
    } else {
        Either::Compact(Compact::new(&task, Rows::All))
    };
    let mut model = either.take_model();
    if relaxed {
        model.kinds.fill(Kind::Continuous);
    }
    let either = Rc::new(either);
    let read = {
        let either = Rc::clone(&either);
        move |vector: &[f64]| {
            if relaxed {
                return Err(DecodeError::Relaxation);
            }
            let stages = either.stages(vector).map_err(DecodeError::Fractional)?;
            Ok((stages.schedule(instance, &joint), stages.claim(&joint, workspace)))
        }
    };
    let facts = facts(&either, published, task.joint.fixed_time());
    Ok(Box::new(LinearEncoding { model, names: Box::new(Shared(either)), facts, read: Box::new(read) }))
}

fn facts(either: &Either, published: bool, fixed_time: u64) -> Vec<(&'static str, String)> {
    let (time, memory) = either.units();
    let (what, columns) = if published {
        (
            "published",
            "FREE_t_v_k: v is dropped in stage t after k; U_t_k: memory during k in stage t; A_t_v: a run in stage t allocates v",
        )
    } else {
        ("reduced, all memory rows", "X_t_v_k: v is there in stage t until k; U_t_k: memory during k in stage t")
    };
    vec![
        ("formulation", what.to_owned()),
        (
            "columns",
            format!("R_t_i: operator i of the order runs in stage t; S_t_v: value v is kept into stage t; {columns}"),
        ),
        ("time of one unit of the objective", time.to_string()),
        ("time not in the objective (each operator's first run)", fixed_time.to_string()),
        ("memory of one unit of U", memory.to_string()),
    ]
}
