//! Whether a plan is one, and one of a schedule.
//!
//! The check walks through the schedule by itself: it shares with [`crate::lifetimes`] the simulator and nothing else.

use std::collections::{BTreeMap, HashMap, HashSet};

use remat_core::simulate::{Observer, SimulationError, simulate_observed};
use remat_core::{Instance, Schedule, Step, TensorId};
use thiserror::Error;

use crate::check::{self, Overlap};
use crate::plan::{FORMAT_NAME, FORMAT_VERSION, PlacedDocument, PlanDocument};
use crate::problem::{Buffer, Problem, ProblemError};

/// How many violations are listed one by one; pairs of buffers are quadratic in number.
pub const LISTED: usize = 10_000;

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
    /// It counts other bytes outside of the arena than the instance has.
    #[error("has {found} fixed bytes, but the instance has {expected}; make the plan anew with bench allocate")]
    Fixed {
        /// Bytes in the plan.
        found: u64,
        /// Bytes of the instance.
        expected: u64,
    },
    /// It says that no arena is as low as its own.
    #[error("says that no arena is lower than {bound}, but its own buffers end at {end}")]
    Bound {
        /// The plan's bound.
        bound: u64,
        /// Where its last buffer ends.
        end: u64,
    },
    /// The arena is allocated as a whole.
    #[error("an arena of {height} and {fixed} fixed bytes are more than {capacity}")]
    Capacity {
        /// The arena's height.
        height: u64,
        /// Bytes outside of it.
        fixed: u64,
        /// The capacity.
        capacity: u64,
    },
    /// The buffers make no problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// Two buffers share an address, or one is out of place.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// A buffer holds several things at the same time.
    #[error(
        "buffer {0:?} holds several things at a time: expected one tensor after the other within its life, or a workspace"
    )]
    Several(String),
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
        /// Position, from 0: the first step where a violation lasts.
        step: u64,
        /// What the plan has no place for.
        subject: Subject,
        /// What is wrong there.
        what: String,
    },
}

/// What a plan has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A tensor, by its id in the file.
    Tensor(u32),
    /// The workspace of an operator, by its id in the file.
    Workspace(u32),
}

/// What is wrong with a plan.
#[derive(Debug, Default)]
pub struct Violations {
    /// The first of them, at most [`LISTED`].
    pub listed: Vec<PlanError>,
    /// How many there are.
    pub count: usize,
}

impl Violations {
    /// Takes one more in.
    pub fn add(&mut self, found: PlanError) {
        self.count += 1;
        if self.listed.len() < LISTED {
            self.listed.push(found);
        }
    }

    /// The first, if there is one.
    fn first(mut self) -> Result<(), PlanError> {
        if self.listed.is_empty() { Ok(()) } else { Err(self.listed.swap_remove(0)) }
    }
}

impl PlanDocument {
    /// Checks that no two buffers share an address at a moment, that offsets and sizes are aligned, that all end below
    /// the plan's height, and that this is with the fixed bytes within a capacity.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, capacity: Option<u64>) -> Result<(), PlanError> {
        let mut found = Violations::default();
        self.alone(capacity, &mut found);
        found.first()
    }

    /// Checks that the plan is one of a schedule: the instance and its fixed bytes are the plan's, at every step each
    /// resident tensor and the workspace have a buffer that is large enough, and no tensor moves.
    ///
    /// # Errors
    /// The first step at which it is not.
    pub fn check_against(&self, instance: &Instance, schedule: &Schedule) -> Result<(), PlanError> {
        let mut found = Violations::default();
        self.beside(instance, schedule, &mut found);
        found.first()
    }

    /// Everything that is wrong: what [`Self::check`] looks for and, where there is a schedule, [`Self::check_against`].
    /// What is wrong for several steps on end is one violation.
    pub fn violations(&self, capacity: Option<u64>, of: Option<(&Instance, &Schedule)>) -> Violations {
        let mut found = Violations::default();
        let is_plan = self.alone(capacity, &mut found);
        if let Some((instance, schedule)) = of.filter(|_| is_plan) {
            self.beside(instance, schedule, &mut found);
        }
        found
    }

    /// Returns whether the file says that it is a plan.
    fn alone(&self, capacity: Option<u64>, found: &mut Violations) -> bool {
        let is_plan = self.format == FORMAT_NAME && self.version == FORMAT_VERSION;
        if is_plan {
            self.look(capacity, found);
        } else {
            found.add(PlanError::Header { format: self.format.clone(), version: self.version });
        }
        is_plan
    }

    fn look(&self, capacity: Option<u64>, found: &mut Violations) {
        let Self { alignment, bound, height, .. } = *self;
        let before = found.count;
        for PlacedDocument { id, size, lower, upper, tensors, workspace_of, .. } in &self.buffers {
            if alignment > 0 && !size.is_multiple_of(alignment) {
                found.add(PlanError::Size { id: id.clone(), size: *size, alignment });
            }
            let rises = tensors.is_sorted_by(|held, next| held.from < next.from);
            let within = tensors.iter().all(|held| (*lower..*upper).contains(&held.from));
            if !(rises && within) || !tensors.is_empty() && workspace_of.is_some() {
                found.add(PlanError::Several(id.clone()));
            }
        }
        let (mut ids, mut comparable) = (HashSet::new(), true);
        for PlacedDocument { id, lower, upper, .. } in &self.buffers {
            let (lower, upper) = (*lower, *upper);
            if lower >= upper {
                comparable = false;
                found.add(ProblemError::Lifetime { id: id.clone(), lower, upper }.into());
            }
            if !ids.insert(id) {
                comparable = false;
                found.add(ProblemError::Twice(id.clone()).into());
            }
        }
        if !comparable {
            return;
        }
        let placed = self.buffers.iter().filter(|buffer| buffer.size > 0);
        let (buffers, offsets): (Vec<Buffer>, Vec<u64>) = placed
            .map(|PlacedDocument { id, lower, upper, size, offset, .. }| {
                (Buffer { id: id.clone(), lower: *lower, upper: *upper, size: *size }, *offset)
            })
            .unzip();
        let problem = match Problem::new(buffers, alignment) {
            Ok(problem) => problem,
            // Without a problem there is nothing to compare.
            Err(error) => return found.add(error.into()),
        };
        check::violations(&problem, &offsets, Some(height), |overlap| found.add(overlap.into()));
        // Buffers that meet may well end below it.
        let end = problem.height(&offsets);
        if bound > end && found.count == before {
            found.add(PlanError::Bound { bound, end });
        }
        let fixed = self.fixed_bytes;
        if let Some(capacity) =
            capacity.filter(|&capacity| u128::from(fixed) + u128::from(height) > u128::from(capacity))
        {
            found.add(PlanError::Capacity { height, fixed, capacity });
        }
    }

    fn beside(&self, instance: &Instance, schedule: &Schedule, found: &mut Violations) {
        let expected = instance.hash().to_string();
        if self.instance_hash != expected {
            // Steps and sizes of another instance mean nothing here.
            return found.add(PlanError::OtherInstance { found: self.instance_hash.clone(), expected });
        }
        if self.fixed_bytes != instance.fixed_bytes() {
            found.add(PlanError::Fixed { found: self.fixed_bytes, expected: instance.fixed_bytes() });
        }
        let mut walker = Walker {
            instance,
            schedule,
            plan: self,
            stays: self.stays(),
            resident: BTreeMap::new(),
            fresh: vec![],
            step: 0,
            lasting: HashSet::new(),
            found,
        };
        if let Err(error) = simulate_observed(instance, schedule, &mut walker) {
            found.add(error.into());
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
    /// Tensors that had no buffer, or one that is too small, at the step before: that is said once.
    lasting: HashSet<TensorId>,
    found: &'a mut Violations,
}

impl Walker<'_> {
    /// The buffers that hold a tensor now.
    fn holders(&self, tensor: TensorId) -> Vec<usize> {
        let stays = self.stays.get(&self.instance.tensor(tensor).file_id);
        let now = stays.into_iter().flatten().filter(|(from, until, _)| (*from..*until).contains(&self.step));
        now.map(|&(_, _, at)| at).collect()
    }

    fn tell(&mut self, subject: Subject, what: String) {
        self.found.add(PlanError::Step { step: self.step, subject, what });
    }

    fn look(&mut self, workspace: u64) {
        let step = usize::try_from(self.step).ok().and_then(|at| self.schedule.steps.get(at)).copied();
        let computes = match step {
            Some(Step::Compute { operator, implementation }) => Some((operator, implementation)),
            _ => None,
        };
        let pair = computes.and_then(|(id, way)| self.instance.operator(id).implementations[way].in_place);
        let (mut now, mut lasting) = (BTreeMap::new(), HashSet::new());
        for (tensor, before) in std::mem::take(&mut self.resident) {
            let taken = pair.filter(|pair| pair.output == tensor).map(|pair| pair.input);
            let source = match taken {
                Some(input) => self.fresh.iter().rev().find(|(dropped, _)| *dropped == input).and_then(|(_, at)| *at),
                None => before,
            };
            let holder = match self.holder(tensor, source) {
                Ok(holder) => holder,
                Err(Wrong { holder, lasts, what }) => {
                    let known = lasts && self.lasting.contains(&tensor);
                    if lasts {
                        lasting.insert(tensor);
                    }
                    if !known {
                        self.tell(Subject::Tensor(self.instance.tensor(tensor).file_id), what);
                    }
                    holder
                }
            };
            now.insert(tensor, holder);
        }
        (self.resident, self.lasting) = (now, lasting);
        if let Some((operator, _)) = computes.filter(|_| workspace > 0) {
            let operator = self.instance.operator(operator).file_id;
            let serves = |buffer: &&PlacedDocument| {
                buffer.workspace_of == Some(operator)
                    && (buffer.lower..buffer.upper).contains(&self.step)
                    && buffer.size >= workspace
            };
            if self.plan.buffers.iter().find(serves).is_none() {
                let what = format!("the workspace of operator {operator}, {workspace} bytes, has no buffer");
                self.tell(Subject::Workspace(operator), what);
            }
        }
    }

    /// The buffer of a resident tensor, which was in `source` before; none where it has no size.
    fn holder(&self, tensor: TensorId, source: Option<usize>) -> Result<Option<usize>, Wrong> {
        let file = self.instance.tensor(tensor);
        let (bytes, name) = (file.bytes, format!("tensor {}", file.file_id));
        if bytes == 0 {
            return Ok(None);
        }
        let holders = self.holders(tensor);
        let [holder] = holders[..] else {
            let what = format!("{name} is in {} buffers; expected one", holders.len());
            return Err(Wrong { holder: None, lasts: true, what });
        };
        let buffer = &self.plan.buffers[holder];
        if buffer.size < bytes {
            let what = format!("{name} has {bytes} bytes, its buffer {:?} {}", buffer.id, buffer.size);
            return Err(Wrong { holder: Some(holder), lasts: true, what });
        }
        if let Some(source) = source.filter(|&source| source != holder) {
            let what = format!("{name} moves from buffer {:?} to {:?}", self.plan.buffers[source].id, buffer.id);
            return Err(Wrong { holder: Some(holder), lasts: false, what });
        }
        Ok(Some(holder))
    }
}

/// What is wrong with a tensor's place at a step.
struct Wrong {
    /// The buffer that it is in all the same.
    holder: Option<usize>,
    /// Whether the next step says so again.
    lasts: bool,
    what: String,
}

impl Observer for Walker<'_> {
    fn allocated(&mut self, tensor: TensorId) {
        self.resident.insert(tensor, None);
    }

    fn dropped(&mut self, tensor: TensorId) {
        let buffer = self.resident.remove(&tensor).flatten();
        self.fresh.push((tensor, buffer));
        self.lasting.remove(&tensor);
    }

    fn during(&mut self, _bytes: u64, workspace: u64) {
        self.look(workspace);
        self.fresh.clear();
        self.step += 1;
    }
}
