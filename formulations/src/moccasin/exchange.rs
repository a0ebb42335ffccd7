//! The published model for other programs: CP-SAT's protocol buffer as text, and the way back from a
//! response to stages. The model is that of phase 2; phase 1 is a matter of running it.

use std::fmt::Write as _;

use remat_solvers::cp::proto::model_message;

use crate::moccasin::published::{Memory, Phase, Published};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

/// Phase 2 of a budget.
pub struct Exchange<'a> {
    published: Published<'a>,
}

impl<'a> Exchange<'a> {
    /// The model within a budget with at most `copies` runs of each operator; none where not even what is
    /// there all the time fits.
    pub fn new(joint: &'a Joint, budget: u64, copies: u64, workspace: bool, memory: Memory) -> Option<Self> {
        let room = budget.checked_sub(joint.base_bytes)?;
        Some(Self { published: Published::new(joint, (room, room), copies, workspace, memory, Phase::Duration) })
    }

    /// `CpModelProto` in text form, behind a head of comments.
    pub fn text(&self, head: &[(&str, String)]) -> String {
        let mut text = String::new();
        for (key, value) in head {
            let _ = writeln!(text, "# {key}: {}", value.replace(['\n', '\r'], " "));
        }
        text.push_str(&model_message(&self.published.model, &[]).text());
        text
    }

    /// The stages that the text form of a `CpSolverResponse` says.
    ///
    /// # Errors
    /// What is wrong with it: no solution in it, or one that breaks the model.
    pub fn lift(&self, response: &str) -> Result<Stages, String> {
        let lines = response.lines().filter_map(|line| line.trim().strip_prefix("solution:"));
        let numbers = lines.flat_map(|rest| rest.split(['[', ']', ',', ' ']).filter(|word| !word.is_empty()));
        let values: Result<Vec<i64>, _> = numbers.map(str::parse).collect();
        let mut values = values.map_err(|error| format!("a value of the solution is no whole number: {error}"))?;
        if values.is_empty() {
            return Err("has no line `solution: ...`; give CP-SAT's response in text form".into());
        }
        // A reservoir brings a variable of its own along, behind those of the model.
        values.truncate(self.published.model.domains.len());
        match self.published.model.broken(&values) {
            Some(what) => Err(format!("is no solution of this model: {what}")),
            None => Ok(self.published.stages(&values)),
        }
    }
}
