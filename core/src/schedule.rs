//! A schedule: what every method returns, and its file format.
//!
//! In memory, steps name operators and tensors by dense id; in files by the instance's own ids and by
//! the implementation's name. Legality is the simulator's business, not this file's.

use std::collections::HashMap;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::instance::{Instance, OperatorId, TensorId};
use crate::liveness::Compute;
use crate::object;

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
    /// Copy a resident tensor to the host; it stays resident until it is freed.
    Offload(TensorId),
    /// Copy a tensor back from the host, where an earlier step has put it.
    Fetch(TensorId),
}

/// How fast tensors are copied between device and host, in bytes per thousand units of time: MB/s
/// where times are nanoseconds. An assumption of the schedule, not a fact about the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferRates {
    /// From device to host.
    pub offload: NonZeroU64,
    /// From host to device.
    pub fetch: NonZeroU64,
}

impl TransferRates {
    /// Duration of an offload, rounded up; none beyond 64 bits.
    pub fn offload_time(self, bytes: u64) -> Option<u64> {
        duration(bytes, self.offload)
    }

    /// Duration of a fetch, rounded up; none beyond 64 bits.
    pub fn fetch_time(self, bytes: u64) -> Option<u64> {
        duration(bytes, self.fetch)
    }
}

fn duration(bytes: u64, rate: NonZeroU64) -> Option<u64> {
    u64::try_from((u128::from(bytes) * 1000).div_ceil(u128::from(rate.get()))).ok()
}

/// The steps of one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// In order of execution.
    pub steps: Vec<Step>,
    /// Rates of transfers; needed where a step is one.
    pub rates: Option<TransferRates>,
}

impl Schedule {
    /// A schedule without transfers.
    pub fn new(steps: Vec<Step>) -> Self {
        Self { steps, rates: None }
    }

    /// What it runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = Compute> + '_ {
        self.steps.iter().filter_map(|step| match *step {
            Step::Compute { operator, implementation } => Some((operator, implementation)),
            Step::Free(_) | Step::Offload(_) | Step::Fetch(_) => None,
        })
    }

    /// Number of compute steps.
    pub fn computes(&self) -> usize {
        self.runs().count()
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
    /// Rates of transfers between device and host; needed where a step is an offload or a fetch.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object::optional")]
    pub transfer_rates: Option<TransferRates>,
    /// In order of execution.
    #[serde(deserialize_with = "object::list")]
    pub steps: Vec<StepDocument>,
}

/// One step: one of `compute` (with an optional `implementation`), `free`, `offload` and `fetch`.
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
    /// Id of the tensor to copy to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<u32>,
    /// Id of the tensor to copy back from the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<u32>,
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
    #[error(
        "was made for {} ({}), not for {} ({expected}); name the instance that it belongs to",
        made_for.escape_debug(),
        found.escape_debug(),
        name.escape_debug()
    )]
    OtherInstance {
        /// Name in the schedule.
        made_for: String,
        /// Hash in the schedule.
        found: String,
        /// Name of the instance.
        name: String,
        /// Hash of the instance.
        expected: String,
    },
    /// Made for an instance of another name, and there is no hash that would say more.
    #[error(
        "was made for instance {found:?}, but this one is {expected:?}; name the instance that it belongs to, or give its instance_hash"
    )]
    OtherName {
        /// Name in the schedule.
        found: String,
        /// Name of the instance.
        expected: String,
    },
    /// A step is none of the four, or several of them.
    #[error(
        "step {step}: is not one of {{\"compute\": ID}}, {{\"free\": ID}}, {{\"offload\": ID}} and {{\"fetch\": ID}}; give exactly one"
    )]
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
    #[error("step {step}: {verb} tensor {tensor}, which the instance does not have")]
    Tensor {
        /// Position, from 0.
        step: usize,
        /// `frees`, `offloads` or `fetches`.
        verb: &'static str,
        /// Id in the file.
        tensor: u32,
    },
    /// A step is a transfer, but nobody knows how long it takes.
    #[error("step {step}: {verb} a tensor, but the schedule has no transfer_rates; give bytes per 1000 units of time")]
    Rates {
        /// Position, from 0.
        step: usize,
        /// `offloads` or `fetches`.
        verb: &'static str,
    },
}

impl ScheduleDocument {
    /// The document of a schedule; the caller fills in method, budget and claims.
    pub fn new(instance: &Instance, schedule: &Schedule) -> Self {
        let id = |tensor: TensorId| Some(instance.tensor(tensor).file_id);
        let document = |step: &Step| match *step {
            Step::Free(tensor) => StepDocument { free: id(tensor), ..StepDocument::default() },
            Step::Offload(tensor) => StepDocument { offload: id(tensor), ..StepDocument::default() },
            Step::Fetch(tensor) => StepDocument { fetch: id(tensor), ..StepDocument::default() },
            Step::Compute { operator, implementation } => {
                let operator = instance.operator(operator);
                let name = || operator.implementations[implementation].name.clone();
                StepDocument {
                    compute: Some(operator.file_id),
                    implementation: (implementation > 0).then(name),
                    ..StepDocument::default()
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
            transfer_rates: schedule.rates,
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
            let (made_for, name) = (self.instance.clone(), instance.name().into());
            return Err(ScheduleError::OtherInstance { made_for, found: found.clone(), name, expected });
        }
        if self.instance_hash.is_none() && self.instance != instance.name() {
            return Err(ScheduleError::OtherName { found: self.instance.clone(), expected: instance.name().into() });
        }
        let names = Names {
            instance,
            operators: instance.operator_ids().map(|id| (instance.operator(id).file_id, id)).collect(),
            tensors: instance.tensor_ids().map(|id| (instance.tensor(id).file_id, id)).collect(),
            implementations: implementations(instance),
            has_rates: self.transfer_rates.is_some(),
        };
        let steps = self.steps.iter().enumerate().map(|(step, document)| names.resolve(step, document));
        Ok(Schedule { steps: steps.collect::<Result<_, _>>()?, rates: self.transfer_rates })
    }
}

/// Names of implementations in a message.
const SHOWN: usize = 20;

/// What the ids of a file stand for.
struct Names<'a> {
    instance: &'a Instance,
    operators: HashMap<u32, OperatorId>,
    tensors: HashMap<u32, TensorId>,
    /// Position of each implementation.
    implementations: HashMap<(OperatorId, &'a str), usize>,
    has_rates: bool,
}

fn implementations(instance: &Instance) -> HashMap<(OperatorId, &str), usize> {
    let of = |id: OperatorId| {
        let named = instance.operator(id).implementations.iter().enumerate();
        named.map(move |(position, implementation)| ((id, implementation.name.as_str()), position))
    };
    instance.operator_ids().flat_map(of).collect()
}

impl Names<'_> {
    fn resolve(&self, step: usize, document: &StepDocument) -> Result<Step, ScheduleError> {
        match *document {
            StepDocument { compute: Some(id), ref implementation, free: None, offload: None, fetch: None } => {
                let operator = *self.operators.get(&id).ok_or(ScheduleError::Operator { step, operator: id })?;
                let name = implementation.as_deref();
                let implementation = self.implementation(step, operator, name)?;
                Ok(Step::Compute { operator, implementation })
            }
            StepDocument { compute: None, implementation: None, free: Some(id), offload: None, fetch: None } => {
                self.tensor(step, "frees", id).map(Step::Free)
            }
            StepDocument { compute: None, implementation: None, free: None, offload: Some(id), fetch: None } => {
                self.transferred(step, "offloads", id).map(Step::Offload)
            }
            StepDocument { compute: None, implementation: None, free: None, offload: None, fetch: Some(id) } => {
                self.transferred(step, "fetches", id).map(Step::Fetch)
            }
            _ => Err(ScheduleError::Shape { step }),
        }
    }

    fn implementation(&self, step: usize, id: OperatorId, name: Option<&str>) -> Result<usize, ScheduleError> {
        let Some(name) = name else { return Ok(0) };
        self.implementations.get(&(id, name)).copied().ok_or_else(|| {
            let operator = self.instance.operator(id);
            let known: Vec<_> = operator.implementations.iter().take(SHOWN).map(|v| v.name.as_str()).collect();
            let more = if operator.implementations.len() > SHOWN { ", ..." } else { "" };
            ScheduleError::Implementation {
                step,
                operator: operator.file_id,
                implementation: name.into(),
                known: known.join(", ") + more,
            }
        })
    }

    fn tensor(&self, step: usize, verb: &'static str, id: u32) -> Result<TensorId, ScheduleError> {
        self.tensors.get(&id).copied().ok_or(ScheduleError::Tensor { step, verb, tensor: id })
    }

    fn transferred(&self, step: usize, verb: &'static str, id: u32) -> Result<TensorId, ScheduleError> {
        let tensor = self.tensor(step, verb, id)?;
        if self.has_rates { Ok(tensor) } else { Err(ScheduleError::Rates { step, verb }) }
    }
}
