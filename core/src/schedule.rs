//! A schedule: what every method returns, and its file format.
//!
//! In memory, steps name operators and tensors by dense id; in files by the instance's own ids and by
//! the implementation's name. Legality is the simulator's business, not this file's.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::instance::{Instance, OperatorId, TensorId};

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run an operator with one of its implementations (by position).
    Compute {
        /// The operator.
        operator: OperatorId,
        /// Position in [`crate::Operator::implementations`].
        implementation: usize,
    },
    /// Drop a tensor from memory.
    Free(TensorId),
}

/// The steps of one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// In order of execution.
    pub steps: Vec<Step>,
}

impl Schedule {
    /// Number of compute steps.
    pub fn computes(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Compute { .. })).count()
    }
}

/// The value of [`ScheduleDocument::format`].
pub const FORMAT_NAME: &str = "remat-schedule";
/// The value of [`ScheduleDocument::version`].
pub const FORMAT_VERSION: u32 = 1;

/// A schedule file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleDocument {
    /// Always `remat-schedule`.
    pub format: String,
    /// Version of this format: 1.
    pub version: u32,
    /// Name of the instance.
    pub instance: String,
    /// Hash of the instance, as `bench instances show` prints it; checked on reading where present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_hash: Option<String>,
    /// The method that made the schedule, with its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The budget that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// Duration that the method claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_time: Option<u64>,
    /// Peak memory that the method claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_peak_bytes: Option<u64>,
    /// In order of execution.
    pub steps: Vec<StepDocument>,
}

/// One step: either `compute` (with an optional `implementation`) or `free`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepDocument {
    /// Id of the operator to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<u32>,
    /// Name of the implementation; the operator's first one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Id of the tensor to drop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u32>,
}

/// A schedule file that does not fit its instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// Not a schedule file of this version.
    #[error("is {format:?} version {version}; expected {FORMAT_NAME:?} version {FORMAT_VERSION}")]
    Header {
        /// Format found.
        format: String,
        /// Version found.
        version: u32,
    },
    /// Made for another instance.
    #[error("was made for instance {found}, but this one is {expected}; name the instance that it belongs to")]
    OtherInstance {
        /// Hash in the schedule.
        found: String,
        /// Hash of the instance.
        expected: String,
    },
    /// A step is neither a compute nor a free, or both.
    #[error("step {step}: is neither {{\"compute\": ID}} nor {{\"free\": ID}}; give exactly one of them")]
    Shape {
        /// Position, from 0.
        step: usize,
    },
    /// A step names an operator that the instance lacks.
    #[error("step {step}: computes operator {operator}, which the instance does not have")]
    Operator {
        /// Position, from 0.
        step: usize,
        /// Id in the file.
        operator: u32,
    },
    /// A step names an implementation that the operator lacks.
    #[error("step {step}: operator {operator} has no implementation {implementation:?}; it has {known}")]
    Implementation {
        /// Position, from 0.
        step: usize,
        /// Id in the file.
        operator: u32,
        /// Name in the file.
        implementation: String,
        /// Names that it has.
        known: String,
    },
    /// A step names a tensor that the instance lacks.
    #[error("step {step}: frees tensor {tensor}, which the instance does not have")]
    Tensor {
        /// Position, from 0.
        step: usize,
        /// Id in the file.
        tensor: u32,
    },
}

impl ScheduleDocument {
    /// The document of a schedule; the caller fills in method, budget and claims.
    pub fn new(instance: &Instance, schedule: &Schedule) -> Self {
        let document = |step: &Step| match *step {
            Step::Free(tensor) => {
                StepDocument { free: Some(instance.tensor(tensor).file_id), ..StepDocument::default() }
            }
            Step::Compute { operator, implementation } => {
                let operator = instance.operator(operator);
                let name = || operator.implementations[implementation].name.clone();
                StepDocument {
                    compute: Some(operator.file_id),
                    implementation: (implementation > 0).then(name),
                    free: None,
                }
            }
        };
        Self {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            instance: instance.name().into(),
            instance_hash: Some(instance.hash().to_string()),
            method: None,
            budget_bytes: None,
            claimed_time: None,
            claimed_peak_bytes: None,
            steps: schedule.steps.iter().map(document).collect(),
        }
    }

    /// The schedule, with dense ids.
    ///
    /// # Errors
    /// The document belongs to another instance or names what this one lacks.
    pub fn resolve(&self, instance: &Instance) -> Result<Schedule, ScheduleError> {
        if self.format != FORMAT_NAME || self.version != FORMAT_VERSION {
            return Err(ScheduleError::Header { format: self.format.clone(), version: self.version });
        }
        let expected = instance.hash().to_string();
        if let Some(found) = self.instance_hash.as_ref().filter(|&found| *found != expected) {
            return Err(ScheduleError::OtherInstance { found: found.clone(), expected });
        }
        let operators: HashMap<u32, OperatorId> =
            instance.operator_ids().map(|id| (instance.operator(id).file_id, id)).collect();
        let tensors: HashMap<u32, TensorId> =
            instance.tensor_ids().map(|id| (instance.tensor(id).file_id, id)).collect();
        let resolve = |(step, document): (usize, &StepDocument)| match document {
            StepDocument { compute: Some(id), implementation, free: None } => {
                let operator = *operators.get(id).ok_or(ScheduleError::Operator { step, operator: *id })?;
                let implementation = resolve_implementation(instance, step, operator, implementation.as_deref())?;
                Ok(Step::Compute { operator, implementation })
            }
            StepDocument { compute: None, implementation: None, free: Some(id) } => {
                tensors.get(id).map(|&tensor| Step::Free(tensor)).ok_or(ScheduleError::Tensor { step, tensor: *id })
            }
            _ => Err(ScheduleError::Shape { step }),
        };
        let steps = self.steps.iter().enumerate().map(resolve).collect::<Result<_, _>>()?;
        Ok(Schedule { steps })
    }
}

fn resolve_implementation(
    instance: &Instance,
    step: usize,
    operator: OperatorId,
    name: Option<&str>,
) -> Result<usize, ScheduleError> {
    let operator = instance.operator(operator);
    let Some(name) = name else { return Ok(0) };
    operator.implementation_named(name).ok_or_else(|| ScheduleError::Implementation {
        step,
        operator: operator.file_id,
        implementation: name.into(),
        known: operator.implementations.iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}
