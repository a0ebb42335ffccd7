//! A plan: the address of every buffer of a schedule, its file, and the check that it is one.
//!
//! The check walks through the schedule by itself: it shares with [`crate::lifetimes`] the simulator and nothing else.

use std::collections::{BTreeMap, HashMap};

use remat_core::simulate::{Observer, SimulationError, simulate_observed};
use remat_core::{Instance, Schedule, Step, TensorId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::check::{Overlap, check};
use crate::lifetimes::{Content, Lifetimes};
use crate::problem::{Buffer, Problem, ProblemError};

/// The value of [`PlanDocument::format`].
pub const FORMAT_NAME: &str = "remat-arena";
/// The value of [`PlanDocument::version`].
pub const FORMAT_VERSION: u32 = 1;

/// A plan file. Sizes and offsets are in the instance's unit of memory, moments are positions of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// Always `remat-arena`.
    pub format: String,
    /// Version of this format: 1.
    pub version: u32,
    /// Name of the instance.
    pub instance: String,
    /// Its hash.
    pub instance_hash: String,
    /// The method that chose the offsets.
    pub method: String,
    /// Offsets and sizes are multiples of this.
    pub alignment: u64,
    /// Size of the arena: no buffer ends above it.
    pub height: u64,
    /// No arena is smaller.
    pub bound: u64,
    /// What is occupied outside of the arena, all the time.
    pub fixed_bytes: u64,
    /// The buffers, in the order in which they begin to live.
    pub buffers: Vec<PlacedDocument>,
}

/// One buffer: alive at the steps `lower..upper`, at the addresses `offset..offset + size` of the arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedDocument {
    /// Name, unique within the plan.
    pub id: String,
    /// First step.
    pub lower: u64,
    /// First step after it.
    pub upper: u64,
    /// Bytes, rounded up to the alignment.
    pub size: u64,
    /// First address.
    pub offset: u64,
    /// The tensors in it, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<HeldDocument>,
    /// Or the operator whose workspace it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_of: Option<u32>,
}

/// A tensor in a buffer, until the next one or the buffer's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldDocument {
    /// Id of the tensor.
    pub tensor: u32,
    /// First step.
    pub from: u64,
}

/// Why a plan is none, or not one of a schedule.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Not a plan file of this version.
    #[error("is {format:?} version {version}; expected {FORMAT_NAME:?} version {FORMAT_VERSION}")]
    Header {
        /// Format found.
        format: String,
        /// Version found.
        version: u32,
    },
    /// Made for another instance.
    #[error("was made for instance {found:?}, but this one is {expected}; name the instance that it belongs to")]
    OtherInstance {
        /// Hash in the plan.
        found: String,
        /// Hash of the instance.
        expected: String,
    },
    /// The buffers make no problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// Two buffers share an address, or one is out of place.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// A size is not rounded up.
    #[error("buffer {id:?} has {size} bytes, which is no multiple of the alignment {alignment}")]
    Size {
        /// The buffer.
        id: String,
        /// Its size.
        size: u64,
        /// The alignment.
        alignment: u64,
    },
    /// The schedule is illegal.
    #[error("illegal schedule: {0}")]
    Schedule(#[from] SimulationError),
    /// The plan and the schedule differ.
    #[error("step {step}: {what}")]
    Step {
        /// Position, from 0.
        step: u64,
        /// What is wrong there.
        what: String,
    },
}

impl PlanDocument {
    /// The plan that puts the buffers of a schedule at some offsets.
    pub fn new(instance: &Instance, lifetimes: &Lifetimes, problem: &Problem, offsets: &[u64], method: &str) -> Self {
        let held = |&(from, tensor): &(u64, TensorId)| HeldDocument { tensor: instance.tensor(tensor).file_id, from };
        let placed = problem.buffers().iter().zip(&lifetimes.contents).zip(offsets);
        let buffers = placed.map(|((Buffer { id, lower, upper, size }, content), &offset)| PlacedDocument {
            id: id.clone(),
            lower: *lower,
            upper: *upper,
            size: *size,
            offset,
            tensors: match content {
                Content::Tensors(tensors) => tensors.iter().map(held).collect(),
                Content::Workspace(_) => vec![],
            },
            workspace_of: match content {
                Content::Tensors(_) => None,
                Content::Workspace(operator) => Some(instance.operator(*operator).file_id),
            },
        });
        Self {
            format: FORMAT_NAME.into(),
            version: FORMAT_VERSION,
            instance: instance.name().into(),
            instance_hash: instance.hash().to_string(),
            method: method.into(),
            alignment: problem.alignment(),
            height: problem.height(offsets),
            bound: problem.bound(),
            fixed_bytes: lifetimes.fixed_bytes,
            buffers: buffers.collect(),
        }
    }

    /// Checks that no two buffers share an address at a moment, that offsets and sizes are aligned, and that all end below
    /// the plan's height and, with the fixed bytes, below a capacity.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, capacity: Option<u64>) -> Result<(), PlanError> {
        if self.format != FORMAT_NAME || self.version != FORMAT_VERSION {
            return Err(PlanError::Header { format: self.format.clone(), version: self.version });
        }
        let alignment = self.alignment;
        let uneven = self.buffers.iter().find(|buffer| alignment > 0 && !buffer.size.is_multiple_of(alignment));
        if let Some(PlacedDocument { id, size, .. }) = uneven {
            return Err(PlanError::Size { id: id.clone(), size: *size, alignment });
        }
        let placed = self.buffers.iter().filter(|buffer| buffer.size > 0);
        let (buffers, offsets): (Vec<Buffer>, Vec<u64>) = placed
            .map(|PlacedDocument { id, lower, upper, size, offset, .. }| {
                (Buffer { id: id.clone(), lower: *lower, upper: *upper, size: *size }, *offset)
            })
            .unzip();
        let problem = Problem::new(buffers, alignment)?;
        check(&problem, &offsets, Some(self.height))?;
        match capacity {
            Some(capacity) => Ok(check(&problem, &offsets, Some(capacity.saturating_sub(self.fixed_bytes)))?),
            None => Ok(()),
        }
    }

    /// Checks that the plan is one of a schedule: at every step each resident tensor and the workspace have a buffer
    /// that is large enough, and no tensor moves.
    ///
    /// # Errors
    /// The first step at which it is not.
    pub fn check_against(&self, instance: &Instance, schedule: &Schedule) -> Result<(), PlanError> {
        let expected = instance.hash().to_string();
        if self.instance_hash != expected {
            return Err(PlanError::OtherInstance { found: self.instance_hash.clone(), expected });
        }
        let mut walker = Walker {
            instance,
            schedule,
            plan: self,
            stays: self.stays(),
            resident: BTreeMap::new(),
            fresh: vec![],
            step: 0,
            wrong: None,
        };
        simulate_observed(instance, schedule, &mut walker)?;
        match walker.wrong {
            Some((step, what)) => Err(PlanError::Step { step, what }),
            None => Ok(()),
        }
    }

    /// Where each tensor, by its id in the file, stays: first step, first step after it, position of the buffer.
    fn stays(&self) -> HashMap<u32, Vec<(u64, u64, usize)>> {
        let mut stays: HashMap<u32, Vec<(u64, u64, usize)>> = HashMap::new();
        for (at, buffer) in self.buffers.iter().enumerate() {
            let nexts = buffer.tensors.iter().skip(1).map(|held| held.from).chain([buffer.upper]);
            for (held, until) in buffer.tensors.iter().zip(nexts) {
                stays.entry(held.tensor).or_default().push((held.from.max(buffer.lower), until.min(buffer.upper), at));
            }
        }
        stays
    }
}

/// Walks through a schedule with a plan in hand.
struct Walker<'a> {
    instance: &'a Instance,
    schedule: &'a Schedule,
    plan: &'a PlanDocument,
    stays: HashMap<u32, Vec<(u64, u64, usize)>>,
    /// Resident tensors, and the buffer of each at the step before.
    resident: BTreeMap<TensorId, Option<usize>>,
    /// What was dropped since the last step, and from where.
    fresh: Vec<(TensorId, Option<usize>)>,
    step: u64,
    wrong: Option<(u64, String)>,
}

impl Walker<'_> {
    /// The buffers that hold a tensor now.
    fn holders(&self, tensor: TensorId) -> Vec<usize> {
        let stays = self.stays.get(&self.instance.tensor(tensor).file_id);
        let now = stays.into_iter().flatten().filter(|(from, until, _)| (*from..*until).contains(&self.step));
        now.map(|&(_, _, at)| at).collect()
    }

    fn look(&mut self, workspace: u64) -> Result<(), String> {
        let name = |tensor: TensorId| format!("tensor {}", self.instance.tensor(tensor).file_id);
        let step = usize::try_from(self.step).ok().and_then(|at| self.schedule.steps.get(at)).copied();
        let computes = match step {
            Some(Step::Compute { operator, implementation }) => Some((operator, implementation)),
            _ => None,
        };
        let pair = computes.and_then(|(id, way)| self.instance.operator(id).implementations[way].in_place);
        let mut now = BTreeMap::new();
        for (&tensor, &before) in &self.resident {
            let bytes = self.instance.tensor(tensor).bytes;
            if bytes == 0 {
                now.insert(tensor, None);
                continue;
            }
            let [holder] = self.holders(tensor)[..] else {
                return Err(format!("{} is in {} buffers; expected one", name(tensor), self.holders(tensor).len()));
            };
            let buffer = &self.plan.buffers[holder];
            if buffer.size < bytes {
                return Err(format!("{} has {bytes} bytes, its buffer {:?} {}", name(tensor), buffer.id, buffer.size));
            }
            let taken = pair.filter(|pair| pair.output == tensor).map(|pair| pair.input);
            let source = match taken {
                Some(input) => self.fresh.iter().rev().find(|(dropped, _)| *dropped == input).and_then(|(_, at)| *at),
                None => before,
            };
            if source.is_some_and(|source| source != holder) {
                let from = source.map_or("", |at| &self.plan.buffers[at].id);
                return Err(format!("{} moves from buffer {from:?} to {:?}", name(tensor), buffer.id));
            }
            now.insert(tensor, Some(holder));
        }
        if let Some((operator, _)) = computes.filter(|_| workspace > 0) {
            let operator = self.instance.operator(operator).file_id;
            let serves = |buffer: &&PlacedDocument| {
                buffer.workspace_of == Some(operator)
                    && (buffer.lower..buffer.upper).contains(&self.step)
                    && buffer.size >= workspace
            };
            if self.plan.buffers.iter().find(serves).is_none() {
                return Err(format!("the workspace of operator {operator}, {workspace} bytes, has no buffer"));
            }
        }
        self.resident = now;
        Ok(())
    }
}

impl Observer for Walker<'_> {
    fn allocated(&mut self, tensor: TensorId) {
        self.resident.insert(tensor, None);
    }

    fn dropped(&mut self, tensor: TensorId) {
        let buffer = self.resident.remove(&tensor).flatten();
        self.fresh.push((tensor, buffer));
    }

    fn during(&mut self, _bytes: u64, workspace: u64) {
        if self.wrong.is_none() {
            self.wrong = self.look(workspace).err().map(|what| (self.step, what));
        }
        self.fresh.clear();
        self.step += 1;
    }
}
