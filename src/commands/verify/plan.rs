//! The check of a plan of addresses, and what is reported of it.

use std::path::Path;

use remat_allocation::confirm::{PlanError, Subject, Violations};
use remat_allocation::plan::PlanDocument;
use remat_allocation::problem::ProblemError;
use remat_allocation::{Overlap, Problem, check};
use remat_core::io::read_json;
use remat_core::{Instance, Schedule};
use serde::Serialize;

use crate::commands::allocate::read_csv;
use crate::ground::failure::Failure;
use crate::ground::text;

/// What is said of a plan.
#[derive(Debug, Serialize)]
pub struct PlanReport {
    file: String,
    /// Whether it keeps all rules.
    valid: bool,
    /// Whether a schedule was walked through with it.
    against_schedule: bool,
    buffers: usize,
    alignment: u64,
    height: u64,
    /// Memory that is enough, fixed bytes included; null where none is named.
    capacity: Option<u64>,
    /// How many rules are broken, where.
    violation_count: usize,
    /// The first 10,000 of them.
    violations: Vec<Violation>,
}

/// One rule that is broken, and where.
#[derive(Debug, Default, Serialize)]
struct Violation {
    rule: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buffers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor: Option<u32>,
    /// Whose workspace it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    /// The first address that two buffers hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
}

impl PlanReport {
    /// Checks a file: by itself, and against the schedule where there is one.
    ///
    /// # Errors
    /// It cannot be read, or there is nothing in it to check.
    pub fn of(path: &Path, of: Option<(&Instance, &Schedule)>, capacity: Option<u64>) -> Result<Self, Failure> {
        let wrong = |words: &str| Failure::failed(format!("{}: {words}", path.display()));
        let report = |buffers, alignment, height, found: Violations| Self {
            file: path.display().to_string(),
            valid: found.count == 0,
            against_schedule: of.is_some(),
            buffers,
            alignment,
            height,
            capacity,
            violation_count: found.count,
            violations: found.listed.iter().map(Violation::of).collect(),
        };
        if path.extension().is_some_and(|ending| ending == "csv") {
            if of.is_some() {
                return Err(wrong(
                    "does not say what its buffers hold; check it without a schedule, or give a .json plan",
                ));
            }
            let (problem, offsets) = read_csv(path, 1)?;
            let offsets = offsets.ok_or_else(|| {
                wrong("has no offsets, so there is nothing to check; give a number in the column offset of each line")
            })?;
            let height = problem.height(&offsets);
            return Ok(report(problem.count(), 1, height, listed(&problem, &offsets, capacity)));
        }
        let plan: PlanDocument = read_json(path)?;
        Ok(report(plan.buffers.len(), plan.alignment, plan.height, plan.violations(capacity, of)))
    }

    /// The line for people.
    ///
    /// # Errors
    /// The plan breaks a rule.
    pub fn line(&self) -> Result<String, Failure> {
        let Some(first) = self.violations.first() else {
            let (buffers, height) = (text::count(self.buffers, "buffer"), self.height);
            return Ok(format!("plan            {buffers} in {height}, no two at one address at one moment"));
        };
        let more = match self.violation_count - 1 {
            0 => String::new(),
            more => format!(" (and {}; --format json lists all)", text::count(more, "more violation")),
        };
        Err(Failure::failed(format!("{}: {}{more}", self.file, first.message)))
    }
}

/// What is wrong with a packing that has no schedule.
fn listed(problem: &Problem, offsets: &[u64], capacity: Option<u64>) -> Violations {
    let mut found = Violations::default();
    check::violations(problem, offsets, capacity, |overlap| found.add(overlap.into()));
    found
}

impl Violation {
    fn of(error: &PlanError) -> Self {
        let buffer = |rule, id: &String| Self { rule, buffers: vec![id.clone()], ..Self::default() };
        let plain = |rule| Self { rule, ..Self::default() };
        let located = match error {
            PlanError::Header { .. } => plain("format"),
            PlanError::OtherInstance { .. } => plain("instance"),
            PlanError::Fixed { .. } => plain("fixed-bytes"),
            PlanError::Bound { .. } => plain("bound"),
            PlanError::Capacity { .. } => plain("capacity"),
            PlanError::Several(id) => buffer("content", id),
            PlanError::Problem(ProblemError::Lifetime { id, .. }) => buffer("lifetime", id),
            PlanError::Problem(ProblemError::Twice(id)) => buffer("id", id),
            PlanError::Problem(_) => plain("sizes"),
            PlanError::Size { id, .. } => buffer("size", id),
            PlanError::Overlap(Overlap::Count { .. }) => plain("offsets"),
            PlanError::Overlap(Overlap::Alignment { id, .. }) => buffer("alignment", id),
            PlanError::Overlap(Overlap::Capacity { id, .. }) => buffer("capacity", id),
            PlanError::Overlap(Overlap::Shared { first, second, address, moment }) => Self {
                rule: "shared-address",
                buffers: vec![first.clone(), second.clone()],
                address: Some(*address),
                step: Some(*moment),
                ..Self::default()
            },
            PlanError::Schedule(_) => plain("schedule"),
            PlanError::Step { step, subject, .. } => {
                let (tensor, operator) = match *subject {
                    Subject::Tensor(id) => (Some(id), None),
                    Subject::Workspace(id) => (None, Some(id)),
                };
                Self { rule: "place", tensor, operator, step: Some(*step), ..Self::default() }
            }
        };
        Self { message: error.to_string(), ..located }
    }
}
