//! A chain with its memory counted in slots: everything rounded up, so that what fits in slots fits
//! in bytes.

use remat_core::chain::Chain;

/// Sizes of a chain in slots, and the memory limits of Theorem 4.8 that they imply.
///
/// Stages count from 0; a memory limit `m` never includes the input of the subchain it is given to.
/// Overheads may be negative, limits too small for anything are then zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlottedChain {
    /// Passing forward time of each stage (u_f).
    pub forward_time: Vec<u64>,
    /// Size of each stage's input (w_a^{l-1}).
    pub input: Vec<usize>,
    /// Saving alternatives of each stage.
    pub savings: Vec<Vec<SlottedSaving>>,
    /// Limit of the first passing forward beyond the phase's gradients: w_a^s + o_f^s.
    first: Vec<i64>,
    /// Limit of a later one: w_a^{j-1} + w_a^j + o_f^j.
    through: Vec<i64>,
    /// Gradients in memory before the backward of each stage (w_delta, and what finished ones left).
    phase: Vec<i64>,
}

/// One alternative in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlottedSaving {
    /// u_f + u_b: forward and backward time.
    pub time: u64,
    /// w_abar.
    pub saved: usize,
    /// w_abar + o_f.
    forward: i64,
    /// w_abar + everything that the backward needs besides.
    backward: i64,
}

impl SlottedChain {
    /// Rounds every size of a chain up to slots of `unit` bytes each (RR-9302; the text of
    /// rotor-toms-2024, section 5.2, says down, which would break the limit).
    pub fn new(chain: &Chain, unit: u64) -> Self {
        let unit = unit.max(1).cast_signed();
        let signed = |bytes: i64| (bytes + (unit - 1)).div_euclid(unit);
        let slots = |bytes: u64| signed(bytes.cast_signed());
        let size = |bytes: u64| usize::try_from(slots(bytes)).expect("sizes are not negative");
        let kept_after = chain.kept_after();
        let savings = |(index, stage): (usize, &remat_core::chain::Stage)| {
            let others = slots(stage.gradient_bytes)
                + slots(chain.gradient_out_of(index))
                + slots(kept_after[index] + stage.kept_bytes);
            let saving = |s: &remat_core::chain::Saving| SlottedSaving {
                time: s.forward_time + s.backward_time,
                saved: size(s.saved_bytes),
                forward: slots(s.saved_bytes) + signed(s.forward_overhead),
                backward: slots(s.saved_bytes) + others + signed(s.backward_overhead),
            };
            stage.savings.iter().map(saving).collect()
        };
        let stages = || chain.stages.iter().enumerate();
        let first =
            |(_, stage): (_, &remat_core::chain::Stage)| slots(stage.activation_bytes) + signed(stage.passing_overhead);
        Self {
            forward_time: chain.stages.iter().map(|stage| stage.forward_time).collect(),
            input: (0..chain.len()).map(|index| size(chain.input_of(index))).collect(),
            savings: stages().map(savings).collect(),
            first: stages().map(first).collect(),
            through: stages().map(|(index, stage)| slots(chain.input_of(index)) + first((index, stage))).collect(),
            phase: stages().map(|(index, stage)| slots(stage.gradient_bytes) + slots(kept_after[index])).collect(),
        }
    }

    /// Number of stages, the loss included.
    pub fn len(&self) -> usize {
        self.input.len()
    }

    /// Whether there is no stage.
    pub fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// m_all^{s,t}: least memory to run `F_all` and `B` of a stage in the phase of stage `t`.
    pub fn all_limit(&self, t: usize, saving: &SlottedSaving) -> usize {
        at_least_zero((self.phase[t] + saving.forward).max(saving.backward))
    }

    /// Least memory to run the passing forward of stage `j` in the phase of stage `l` while nothing is
    /// kept: its input, its output and its overhead beside the gradients.
    pub fn through_limit(&self, j: usize, l: usize) -> usize {
        at_least_zero(self.phase[l] + self.through[j])
    }

    /// Memory that saving stage `s` takes from the next stage's account, when both count the input of
    /// the stage that they start from: w_a^{s-1} + w_abar^s - w_a^s.
    pub fn saved_shift(&self, s: usize, saving: &SlottedSaving) -> usize {
        (self.input[s] + saving.saved).saturating_sub(self.input.get(s + 1).copied().unwrap_or(0))
    }

    /// m_none^{s,t} for every `t`, for one `s`: least memory to run the forwards from `s` to below `t`.
    pub fn passing_limits(&self, s: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut reach = self.first[s];
        (s + 1..self.len()).map(move |t| {
            if t > s + 1 {
                reach = reach.max(self.through[t - 1]);
            }
            (t, at_least_zero(self.phase[t] + reach))
        })
    }
}

fn at_least_zero(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(0)
}
