//! Checkmate's models for other solvers: which model a parameter setting means, what its columns are,
//! and the stages that a solution says.

use remat_core::Instance;

use crate::checkmate::joint;
use crate::checkmate::plain::Plain;
use crate::method::MethodError;
use crate::method::formulation::{DecodeError, Encoding, INTEGRALITY, LinearEncoding};
use crate::method::parameters::Parameters;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

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
    let task = Task::new(instance, joint(instance, parameters)?, budget);
    task.supports_models()?;
    let plain = published.then(|| Plain::new(&task.joint, task.budget));
    let answer = {
        let task = task.clone();
        move |stages: &Stages| (stages.schedule(instance, &task.joint), task.claim(stages))
    };
    if let Some(mut plain) = plain {
        let (model, facts) = (std::mem::take(&mut plain.model), facts(&plain));
        let names = plain.clone();
        let read = move |vector: &[f64]| {
            plain.stages(vector, INTEGRALITY).map(|stages| answer(&stages)).map_err(DecodeError::Fractional)
        };
        return Ok(LinearEncoding::boxed(model, names, facts, relaxed, read));
    }
    let mut linear = task.whole();
    let (model, facts, names) = (std::mem::take(&mut linear.model), linear.facts(false), linear.named(false));
    drop(linear);
    let read = move |vector: &[f64]| {
        // Columns lie where they lay.
        let runs = task.model().runs(vector).into_iter().flatten();
        let runs = runs.map(|runs| runs.into_iter().map(|(position, _)| position).collect());
        Ok(answer(&Stages { runs: runs.collect() }))
    };
    Ok(LinearEncoding::boxed(model, names, facts, relaxed, read))
}

fn facts(plain: &Plain) -> Vec<(&'static str, String)> {
    vec![
        ("formulation", "published".to_owned()),
        (
            "columns",
            "R_t_i: operator i of the order runs in stage t; S_t_v: value v is kept into stage t; FREE_t_v_k: v is dropped \
             in stage t after k; U_t_k: memory during k in stage t; A_t_v: a run in stage t allocates v"
                .to_owned(),
        ),
        ("time of one unit of the objective", plain.scale.time.to_string()),
        ("time not in the objective (each operator's first run)", plain.fixed_time().to_string()),
        ("memory of one unit of U", plain.scale.memory.to_string()),
    ]
}
