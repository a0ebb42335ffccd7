//! The published model for `bench export` and `bench lift`.

use std::io::{self, Write};

use remat_core::Instance;
use remat_solvers::cp::proto::model_message;

use crate::checkmate::Workspace;
use crate::method::formulation::{DecodeError, Decoded, Encoding, Format};
use crate::method::parameters::Parameters;
use crate::method::{MethodError, SkipReason};
use crate::moccasin::Copies;
use crate::moccasin::published::{Memory, Phase, Published};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

/// The model for one budget.
///
/// # Errors
/// The instance has no joint graph, or the budget is impossible.
pub fn encode<'a>(
    instance: &'a Instance,
    parameters: &Parameters,
    budget: Option<u64>,
) -> Result<Box<dyn Encoding + 'a>, MethodError> {
    let joint = Joint::new(instance)?;
    let workspace = parameters.get::<Workspace>();
    let store_all = Stages::store_all(&joint).claim(&joint, workspace).peak_bytes;
    // More than store-all needs is of no use to anything.
    let budget = budget.map_or(store_all, |budget| budget.min(store_all));
    let least = joint.least_peak(workspace);
    if budget < least {
        let message = format!("one operator alone needs {least}, more than the budget {budget}: infeasible, no model");
        return Err(MethodError::Unsupported(SkipReason(message)));
    }
    let (memory, copies) = (parameters.get::<Memory>(), parameters.get::<Copies>());
    Ok(Box::new(Exchange { instance, joint, budget, copies, workspace, memory }))
}

/// Phase 2 of a budget, which is a matter of running phase 1, with what it is made from: CP-SAT's protocol buffer as text,
/// and the way back from a response to a schedule.
struct Exchange<'a> {
    instance: &'a Instance,
    joint: Joint,
    budget: u64,
    copies: u64,
    workspace: bool,
    memory: Memory,
}

impl Exchange<'_> {
    fn model(&self) -> Published<'_> {
        // The budget is at least what one operator needs.
        let room = self.budget - self.joint.base_bytes;
        Published::new(&self.joint, (room, room), self.copies, self.workspace, self.memory, Phase::Duration)
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
        ]
    }

    fn write(&self, _format: Format, out: &mut dyn Write, head: &[(&str, String)]) -> io::Result<()> {
        for (key, value) in head {
            writeln!(out, "# {key}: {}", value.replace(['\n', '\r'], " "))?;
        }
        out.write_all(model_message(&self.model().model, &[]).text().as_bytes())
    }

    fn decode(&self, text: &str) -> Result<Decoded, DecodeError> {
        let stages = self.lift(text).map_err(DecodeError::Response)?;
        let status =
            text.lines().find_map(|line| line.trim().strip_prefix("status:")).map(|word| word.trim().to_owned());
        let claimed = stages.claim(&self.joint, self.workspace);
        Ok(Decoded { schedule: stages.schedule(self.instance, &self.joint), claimed, status })
    }
}
