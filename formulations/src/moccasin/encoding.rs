//! The published model for `bench export` and `bench lift`.

use std::io::{self, Write};

use remat_core::Instance;
use remat_solvers::export::write_cp_model;

use crate::checkmate::joint;
use crate::method::MethodError;
use crate::method::formulation::{DecodeError, Decoded, Encoding, Format};
use crate::method::parameters::Parameters;
use crate::moccasin::Copies;
use crate::moccasin::published::{Memory, Phase, Published};
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// The model for one budget.
///
/// # Errors
/// The instance has no joint graph, or the budget is impossible.
pub fn encode<'a>(
    instance: &'a Instance,
    parameters: &Parameters,
    budget: Option<u64>,
) -> Result<Box<dyn Encoding + 'a>, MethodError> {
    let copies = Some(parameters.get::<Copies>());
    let task = Task { copies, ..Task::new(instance, joint(instance, parameters)?, budget) };
    task.supports_models()?;
    Ok(Box::new(Exchange { task, memory: parameters.get::<Memory>() }))
}

/// Phase 2 of a budget, which is a matter of running phase 1, with what it is made from: CP-SAT's protocol buffer as text,
/// and the way back from a response to a schedule.
struct Exchange<'a> {
    task: Task<'a>,
    memory: Memory,
}

impl Exchange<'_> {
    fn model(&self) -> Published<'_> {
        // More than store-all needs is of no use to anything, and the budget is at least what one operator needs.
        let store_all = self.task.claim(&Stages::store_all(&self.task.joint)).peak_bytes;
        let room = self.task.budget_bytes().min(store_all) - self.task.joint.base_bytes;
        Published::new(&self.task, (room, room), self.memory, Phase::Duration)
    }

    /// The stages that the text form of a `CpSolverResponse` says.
    ///
    /// # Errors
    /// What is wrong with it: no solution in it, or one that breaks the model.
    fn lift(&self, response: &str) -> Result<Stages, String> {
        let published = self.model();
        let lines = response.lines().filter_map(|line| line.trim().strip_prefix("solution:"));
        let numbers = lines.flat_map(|rest| rest.split(['[', ']', ',', ' ']).filter(|word| !word.is_empty()));
        let values: Result<Vec<i64>, _> = numbers.map(str::parse).collect();
        let mut values = values.map_err(|error| format!("a value of the solution is no whole number: {error}"))?;
        if values.is_empty() {
            return Err("has no line `solution: ...`; give CP-SAT's response in text form".into());
        }
        // A reservoir brings a variable of its own along, behind those of the model.
        values.truncate(published.model.domains.len());
        match published.model.broken(&values) {
            Some(what) => Err(format!("is no solution of this model: {what}")),
            None => Ok(published.stages(&values)),
        }
    }
}

impl Encoding for Exchange<'_> {
    fn formats(&self) -> &'static [Format] {
        &[Format::CpModel]
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("model", "the published one, phase 2: least duration within the budget".into()),
            (
                "form",
                "operations_research.sat.CpModelProto as text; `bench lift` reads CpSolverResponse as text".into(),
            ),
            ("time of one unit of the objective", self.model().time_unit().to_string()),
            ("time not in the objective (each operator's first run)", self.task.joint.least_time().to_string()),
        ]
    }

    fn write(&self, _format: Format, out: &mut dyn Write, head: &[(&str, String)]) -> io::Result<()> {
        write_cp_model(out, &self.model().model, head)
    }

    fn decode(&self, text: &str) -> Result<Decoded, DecodeError> {
        let stages = self.lift(text).map_err(DecodeError::Response)?;
        let status =
            text.lines().find_map(|line| line.trim().strip_prefix("status:")).map(|word| word.trim().to_owned());
        let schedule = stages.schedule(self.task.instance, &self.task.joint);
        Ok(Decoded { schedule, claimed: self.task.claim(&stages), status })
    }
}
