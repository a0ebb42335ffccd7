//! The chain model of rotor-toms-2024, section 3: stages with a saving and a passing forward, and one
//! backward; sequences of them; what a sequence costs by Definitions 3.2 to 3.4.
//!
//! Indices: stage `l` of the paper (1-based, the loss included) is `stages[l - 1]`. This file must not
//! know of instances: [`crate::chain_view`] derives a chain from one and expands sequences back.

use thiserror::Error;

/// A chain of stages, the loss being the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Bytes occupied throughout, besides the input.
    pub fixed_bytes: u64,
    /// w_a^0: bytes of the chain's input, resident throughout.
    pub input_bytes: u64,
    /// w_delta^0: bytes of the gradient that the first stage's backward makes for the input.
    pub input_gradient_bytes: u64,
    /// Stages 1 to L + 1.
    pub stages: Vec<Stage>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name for people.
    pub name: String,
    /// u_f of a passing forward (`F_ck`, `F_none`).
    pub forward_time: u64,
    /// w_a: bytes of the output.
    pub activation_bytes: u64,
    /// w_delta: bytes of the gradients that the next stage's backward hands to this one's.
    pub gradient_bytes: u64,
    /// Bytes that stay after the stage's backward until the end: parameter gradients, outputs.
    pub kept_bytes: u64,
    /// o_f of a passing forward: its own peak beyond input and output. Negative where the model
    /// counts more than is ever alive at once.
    pub passing_overhead: i64,
    /// Ways to save what the backward needs, at least one; they differ in time and bytes.
    pub savings: Vec<Saving>,
}

/// One way to run a stage's forward so that its backward can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// Name for people.
    pub name: String,
    /// u_f of this `F_all`.
    pub forward_time: u64,
    /// u_b of the backward that goes with it.
    pub backward_time: u64,
    /// w_abar: bytes of everything kept for the backward, the output included, the input not.
    pub saved_bytes: u64,
    /// o_f of this `F_all`.
    pub forward_overhead: i64,
    /// o_b of the backward that goes with it.
    pub backward_overhead: i64,
}

/// One operation of a sequence (Table 1 of rotor-toms-2024); `stage` counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChainStep {
    /// `F_none`: replaces the stage's input by its output.
    Pass {
        /// The stage.
        stage: usize,
    },
    /// `F_ck`: makes the output and keeps the input.
    Checkpoint {
        /// The stage.
        stage: usize,
    },
    /// `F_all`: makes and keeps everything the backward needs; keeps the input.
    Save {
        /// The stage.
        stage: usize,
        /// Position in [`Stage::savings`].
        saving: usize,
    },
    /// `B`: uses up what `F_all` kept, the stage's own input activation and the incoming gradient.
    Backward {
        /// The stage.
        stage: usize,
    },
}

/// What a sequence costs in the chain model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainCost {
    /// Makespan (Definition 3.2).
    pub time: u64,
    /// Memory requirement (Definition 3.4), fixed bytes and input included.
    pub peak_bytes: u64,
}

/// A sequence that Definition 3.1 does not call valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChainError {
    /// A forward needs its input.
    #[error("operation {at}: the input of stage {stage} is not in memory")]
    MissingInput {
        /// Position in the sequence.
        at: usize,
        /// The stage, from 0.
        stage: usize,
    },
    /// `F_none` drops its input, which is impossible when that is part of what `F_all` kept.
    #[error("operation {at}: stage {stage} cannot drop an input that the previous stage saved")]
    DropsSaved {
        /// Position in the sequence.
        at: usize,
        /// The stage, from 0.
        stage: usize,
    },
    /// A backward needs what `F_all` keeps.
    #[error("operation {at}: the backward of stage {stage} lacks what a saving forward keeps")]
    NotSaved {
        /// Position in the sequence.
        at: usize,
        /// The stage, from 0.
        stage: usize,
    },
    /// Backwards run from the last stage to the first.
    #[error("operation {at}: the backward of stage {stage} is out of turn")]
    OutOfTurn {
        /// Position in the sequence.
        at: usize,
        /// The stage, from 0.
        stage: usize,
    },
    /// The sequence ends before the first stage's backward.
    #[error("the sequence leaves out {0} backwards")]
    Unfinished(usize),
}

impl Chain {
    /// L + 1: the number of stages, the loss included.
    pub fn len(&self) -> usize {
        self.stages.len()
    }
    /// Whether there is no stage at all.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
    /// w_a^{stage - 1}, `stage` counting from 0: the bytes of a stage's input.
    pub fn input_of(&self, stage: usize) -> u64 {
        stage.checked_sub(1).map_or(self.input_bytes, |previous| self.stages[previous].activation_bytes)
    }
    /// w_delta^{stage - 1}, `stage` counting from 0: the bytes that a stage's backward hands on.
    pub fn gradient_out_of(&self, stage: usize) -> u64 {
        stage.checked_sub(1).map_or(self.input_gradient_bytes, |previous| self.stages[previous].gradient_bytes)
    }
    /// For each stage, the bytes that the backwards of all *later* stages leave until the end.
    pub fn kept_after(&self) -> Vec<u64> {
        let mut sum = 0;
        let mut kept: Vec<u64> = Vec::with_capacity(self.len());
        for stage in self.stages.iter().rev() {
            kept.push(sum);
            sum += stage.kept_bytes;
        }
        kept.reverse();
        kept
    }

    /// The sequence without recomputation: save everything, then go back. One saving per stage.
    pub fn store_all(&self, saving: impl Fn(usize) -> usize) -> Vec<ChainStep> {
        let forward = (0..self.len()).map(|stage| ChainStep::Save { stage, saving: saving(stage) });
        let backward = (0..self.len()).rev().map(|stage| ChainStep::Backward { stage });
        forward.chain(backward).collect()
    }

    /// Makespan and memory requirement of a sequence; a makespan of `u64::MAX` stands for all from there on.
    ///
    /// # Errors
    /// The first operation whose operands are not in memory.
    pub fn evaluate(&self, sequence: &[ChainStep]) -> Result<ChainCost, ChainError> {
        let mut memory = Memory::new(self);
        let mut cost = ChainCost { time: 0, peak_bytes: 0 };
        for (at, &step) in sequence.iter().enumerate() {
            let (time, bytes) = memory.apply(at, step)?;
            cost.time = cost.time.saturating_add(time);
            cost.peak_bytes = cost.peak_bytes.max(bytes);
        }
        match memory.remaining {
            0 => Ok(cost),
            remaining => Err(ChainError::Unfinished(remaining)),
        }
    }
}

/// What is materialised between two operations.
struct Memory<'a> {
    chain: &'a Chain,
    kept_after: Vec<u64>,
    /// `inputs[l]`: the input of stage l (that is, a^{l-1}) is materialised on its own.
    inputs: Vec<bool>,
    /// The saving that stage l was run with, while what it kept is there.
    saved: Vec<Option<usize>>,
    /// Bytes of `inputs`, `saved` and the fixed bytes.
    bytes: u64,
    /// Stages whose backward is still to come; the next one is the highest of them.
    remaining: usize,
}

impl<'a> Memory<'a> {
    fn new(chain: &'a Chain) -> Self {
        let mut inputs = vec![false; chain.len() + 1];
        inputs[0] = true;
        Self {
            chain,
            kept_after: chain.kept_after(),
            inputs,
            saved: vec![None; chain.len()],
            bytes: chain.fixed_bytes + chain.input_bytes,
            remaining: chain.len(),
        }
    }

    /// Gradients in memory during the current phase, with what finished backwards left.
    fn phase_bytes(&self) -> u64 {
        let last = self.remaining - 1;
        self.chain.stages[last].gradient_bytes + self.kept_after[last]
    }

    fn apply(&mut self, at: usize, step: ChainStep) -> Result<(u64, u64), ChainError> {
        let (ChainStep::Pass { stage }
        | ChainStep::Checkpoint { stage }
        | ChainStep::Save { stage, .. }
        | ChainStep::Backward { stage }) = step;
        if stage >= self.remaining {
            return Err(ChainError::OutOfTurn { at, stage });
        }
        let input_saved = stage > 0 && self.saved[stage - 1].is_some();
        if !self.inputs[stage] && !input_saved {
            return Err(ChainError::MissingInput { at, stage });
        }
        let description = &self.chain.stages[stage];
        match step {
            ChainStep::Pass { .. } | ChainStep::Checkpoint { .. } => {
                let drops = matches!(step, ChainStep::Pass { .. }) && stage > 0;
                if drops && input_saved {
                    return Err(ChainError::DropsSaved { at, stage });
                }
                self.materialise(stage + 1);
                let during = self.bytes.saturating_add_signed(description.passing_overhead) + self.phase_bytes();
                if drops {
                    self.release(stage);
                }
                Ok((description.forward_time, during))
            }
            ChainStep::Save { saving, .. } => {
                let option = &description.savings[saving];
                self.release(stage + 1);
                if let Some(earlier) = self.saved[stage].replace(saving) {
                    self.bytes -= description.savings[earlier].saved_bytes;
                }
                self.bytes += option.saved_bytes;
                let during = self.bytes.saturating_add_signed(option.forward_overhead) + self.phase_bytes();
                Ok((option.forward_time, during))
            }
            ChainStep::Backward { .. } => self.backward(at, stage),
        }
    }

    fn backward(&mut self, at: usize, stage: usize) -> Result<(u64, u64), ChainError> {
        if stage + 1 != self.remaining {
            return Err(ChainError::OutOfTurn { at, stage });
        }
        let Some(saving) = self.saved[stage] else {
            return Err(ChainError::NotSaved { at, stage });
        };
        let description = &self.chain.stages[stage];
        let option = &description.savings[saving];
        let transient = self.phase_bytes() + description.kept_bytes + self.chain.gradient_out_of(stage);
        let during = (self.bytes + transient).saturating_add_signed(option.backward_overhead);
        self.saved[stage] = None;
        self.bytes -= option.saved_bytes;
        if stage > 0 {
            self.release(stage);
        }
        self.remaining -= 1;
        Ok((option.backward_time, during))
    }

    /// Makes the input of a stage resident on its own, unless it is there as part of what was saved.
    fn materialise(&mut self, stage: usize) {
        let part_of_saved = self.saved[stage - 1].is_some();
        if !self.inputs[stage] && !part_of_saved {
            self.inputs[stage] = true;
            self.bytes += self.chain.input_of(stage);
        }
    }

    fn release(&mut self, stage: usize) {
        if std::mem::take(&mut self.inputs[stage]) {
            self.bytes -= self.chain.input_of(stage);
        }
    }
}
