//! The buffers of a schedule: one for every copy of a tensor, one for every workspace.
//!
//! A moment is the position of a step. A buffer lives from the step that makes its tensor to the step that frees it, both
//! included; a workspace lives for one step. An in-place implementation makes no buffer: the output goes on in
//! that of the input, and where an older copy of the output was still there, that one's buffer ends.

use std::collections::HashMap;

use remat_core::simulate::{Observer, SimulationError, simulate_observed};
use remat_core::{Instance, OperatorId, Schedule, Simulation, Step, TensorId};

use crate::problem::{Buffer, Problem, ProblemError};

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Tensors one after the other, each from a step on; more than one where operators work in place.
    Tensors(Vec<(u64, TensorId)>),
    /// The workspace of an operator.
    Workspace(OperatorId),
}

/// The buffers of a schedule.
#[derive(Clone, Debug)]
pub struct Lifetimes {
    /// In the order in which they are allocated, with exact sizes; those of no size are left out.
    pub buffers: Vec<Buffer>,
    /// What each holds.
    pub contents: Vec<Content>,
    /// Bytes outside of the buffers, occupied all the time.
    pub fixed_bytes: u64,
    /// What the simulator says of the schedule.
    pub simulation: Simulation,
}

impl Lifetimes {
    /// The buffers of a schedule.
    ///
    /// # Errors
    /// The schedule is illegal.
    pub fn new(instance: &Instance, schedule: &Schedule) -> Result<Self, SimulationError> {
        let mut recorder =
            Recorder { instance, schedule, step: 0, buffers: vec![], contents: vec![], open: HashMap::new() };
        let simulation = simulate_observed(instance, schedule, &mut recorder)?;
        let end = (schedule.steps.len() as u64).max(1);
        for at in std::mem::take(&mut recorder.open).into_values() {
            recorder.buffers[at].upper = end;
        }
        let all = recorder.buffers.into_iter().zip(recorder.contents);
        // What is made and overwritten in place within no step, or has no size, takes no address.
        let (buffers, contents) = all.filter(|(buffer, _)| buffer.size > 0 && buffer.lower < buffer.upper).unzip();
        Ok(Self { buffers, contents, fixed_bytes: instance.fixed_bytes(), simulation })
    }

    /// The problem of giving the buffers addresses, at some alignment.
    ///
    /// # Errors
    /// The alignment is 0, or the sizes overflow.
    pub fn problem(&self, alignment: u64) -> Result<Problem, ProblemError> {
        Problem::new(self.buffers.clone(), alignment)
    }
}

/// Writes down what the simulator does.
struct Recorder<'a> {
    instance: &'a Instance,
    schedule: &'a Schedule,
    step: usize,
    buffers: Vec<Buffer>,
    contents: Vec<Content>,
    /// Buffer of each resident tensor.
    open: HashMap<TensorId, usize>,
}

impl Recorder<'_> {
    /// Opens a buffer at the current step.
    fn open(&mut self, id: String, size: u64, content: Content) -> usize {
        let lower = self.step as u64;
        self.buffers.push(Buffer { id, lower, upper: lower + 1, size });
        self.contents.push(content);
        self.buffers.len() - 1
    }

    /// The output that takes a tensor's buffer over at the current step.
    fn heir(&self, tensor: TensorId) -> Option<TensorId> {
        let &Step::Compute { operator, implementation } = self.schedule.steps.get(self.step)? else { return None };
        let pair = self.instance.operator(operator).implementations[implementation].in_place?;
        (pair.input == tensor).then_some(pair.output)
    }
}

impl Observer for Recorder<'_> {
    fn allocated(&mut self, tensor: TensorId) {
        if self.open.contains_key(&tensor) {
            // It took a buffer over.
            return;
        }
        let file = self.instance.tensor(tensor);
        let step = self.step;
        let content = Content::Tensors(vec![(step as u64, tensor)]);
        let buffer = self.open(format!("t{}@{step}", file.file_id), file.bytes, content);
        self.open.insert(tensor, buffer);
    }

    fn dropped(&mut self, tensor: TensorId) {
        let Some(buffer) = self.open.remove(&tensor) else { return };
        let now = self.step as u64;
        let Some(output) = self.heir(tensor) else {
            self.buffers[buffer].upper = now;
            return;
        };
        if let Content::Tensors(tensors) = &mut self.contents[buffer] {
            tensors.push((now, output));
        }
        if let Some(older) = self.open.insert(output, buffer) {
            self.buffers[older].upper = now;
        }
    }

    fn during(&mut self, _bytes: u64, workspace: u64) {
        if let (true, Some(&Step::Compute { operator, .. })) = (workspace > 0, self.schedule.steps.get(self.step)) {
            let id = format!("w{}@{}", self.instance.operator(operator).file_id, self.step);
            self.open(id, workspace, Content::Workspace(operator));
        }
        self.step += 1;
    }
}
