//! A chain with its memory counted in slots: which slot a limit falls into, and how many slots further
//! down an account goes on when something is put aside.
//!
//! Two ways. [`SlottedChain::rounded`] is the published one: every size is rounded up for itself, so a
//! sequence that keeps a hundred tensors may lose a hundred slots. [`SlottedChain::aligned`] leaves sizes
//! in bytes and gives each stage a grid of its own: slot i of stage s stands for i * unit - offset(s)
//! bytes, with offsets such that saving a stage leads from grid point to grid point. Then saving loses
//! nothing, and a checkpoint at most one slot. With [`Rounding::Down`] the table's makespans are lower
//! bounds instead of upper ones.

use remat_core::chain::{Chain, Saving, Stage};

/// Which way what is left of an account is rounded to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Sizes up: what fits in slots fits in bytes.
    Up,
    /// Sizes down: what fits in bytes fits in slots.
    Down,
}

/// Whose account a grid serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Memory beside the input of the subchain's first stage (Theorem 4.8).
    BesideInput,
    /// That input included (the floating activation of `weak/table.rs`).
    WithInput,
}

/// Sizes of a chain, and the slots that they lead to.
///
/// Stages count from 0. Overheads may be negative, limits too small for anything are then zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlottedChain {
    /// Passing forward time of each stage (u_f).
    pub forward_time: Vec<u64>,
    /// Saving alternatives of each stage.
    pub savings: Vec<Vec<SlottedSaving>>,
    /// Size of each stage's input (w_a^{l-1}).
    input: Vec<i64>,
    /// Limit of the first passing forward beyond the phase's gradients: w_a^s + o_f^s.
    first: Vec<i64>,
    /// Limit of a later one: w_a^{j-1} + w_a^j + o_f^j.
    through: Vec<i64>,
    /// Gradients in memory before the backward of each stage (w_delta, and what finished ones left).
    phase: Vec<i64>,
    grid: Grid,
    /// Bytes that the sizes are measured in.
    measure: i64,
    /// Slots that checkpoints take, by start and cut; empty where inputs are in the account.
    cuts: Vec<usize>,
}

/// Which slot stands for how much.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grid {
    account: Account,
    rounding: Rounding,
    /// Size of a slot, in the measure of the chain's sizes.
    unit: i64,
    /// Per stage.
    offset: Vec<i64>,
}

/// One alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlottedSaving {
    /// u_f + u_b: forward and backward time.
    pub time: u64,
    /// w_abar.
    saved: i64,
    /// w_abar + o_f.
    forward: i64,
    /// w_abar + everything that the backward needs besides.
    backward: i64,
}

impl SlottedChain {
    /// Rounds every size of a chain up to slots of `unit` bytes each (RR-9302; the text of
    /// rotor-toms-2024, section 5.2, says down, which would break the limit).
    pub fn rounded(chain: &Chain, unit: u64, account: Account) -> Self {
        let unit = unit.max(1).cast_signed();
        let slotted = Self::measured(chain, account, |bytes| (bytes + (unit - 1)).div_euclid(unit));
        Self { measure: unit, ..slotted }.with_cuts()
    }

    /// Sizes in bytes, slots of `unit` bytes.
    pub fn aligned(chain: &Chain, unit: u64, account: Account, rounding: Rounding) -> Self {
        let mut slotted = Self::measured(chain, account, |bytes| bytes);
        slotted.grid.rounding = rounding;
        slotted.grid.unit = unit.max(1).cast_signed();
        slotted.align();
        slotted.with_cuts()
    }

    /// Sizes in some measure, slots of one unit of it.
    fn measured(chain: &Chain, account: Account, measure: impl Fn(i64) -> i64) -> Self {
        let slots = |bytes: u64| measure(bytes.cast_signed());
        let kept_after = chain.kept_after();
        let savings = |(index, stage): (usize, &Stage)| {
            let others = slots(stage.gradient_bytes)
                + slots(chain.gradient_out_of(index))
                + slots(kept_after[index] + stage.kept_bytes);
            let saving = |s: &Saving| SlottedSaving {
                time: s.forward_time + s.backward_time,
                saved: slots(s.saved_bytes),
                forward: slots(s.saved_bytes) + measure(s.forward_overhead),
                backward: slots(s.saved_bytes) + others + measure(s.backward_overhead),
            };
            stage.savings.iter().map(saving).collect()
        };
        let stages = || chain.stages.iter().enumerate();
        let first = |(_, stage): (_, &Stage)| slots(stage.activation_bytes) + measure(stage.passing_overhead);
        let offset = vec![0; chain.len()];
        Self {
            forward_time: chain.stages.iter().map(|stage| stage.forward_time).collect(),
            input: (0..chain.len()).map(|index| slots(chain.input_of(index))).collect(),
            savings: stages().map(savings).collect(),
            first: stages().map(first).collect(),
            through: stages().map(|(index, stage)| slots(chain.input_of(index)) + first((index, stage))).collect(),
            phase: stages().map(|(index, stage)| slots(stage.gradient_bytes) + slots(kept_after[index])).collect(),
            grid: Grid { account, rounding: Rounding::Up, unit: 1, offset },
            measure: 1,
            cuts: Vec::new(),
        }
    }

    /// Chooses offsets: those with which saving the fastest way is exact, unless a checkpoint would then
    /// leave more slots than there were before it. The order of the table does not allow that, and a
    /// hundred small checkpoints would gain a hundred slots.
    fn align(&mut self) {
        let mut offset = 0;
        for stage in 1..self.len() {
            let saved = self.savings[stage - 1].iter().map(|saving| saving.saved).min().unwrap_or(0);
            let exact = (offset + self.fastest(stage - 1).saved).rem_euclid(self.grid.unit);
            offset = exact.min(self.input[stage]).min(offset + saved);
            self.grid.offset[stage] = offset;
        }
        if self.grid.account == Account::WithInput {
            // The same points, the input added, counted from those of the first stage.
            for stage in 0..self.len() {
                let included = self.grid.offset[stage] - self.input[stage] + self.input[0];
                self.grid.offset[stage] = included.rem_euclid(self.grid.unit);
            }
        }
    }

    /// Position of the alternative of a stage that takes the least time; of these, the one that saves least.
    pub fn fastest_position(&self, stage: usize) -> usize {
        let key = |&position: &usize| (self.savings[stage][position].time, self.savings[stage][position].saved);
        (0..self.savings[stage].len()).min_by_key(key).unwrap_or(0)
    }

    /// That alternative.
    pub fn fastest(&self, stage: usize) -> &SlottedSaving {
        &self.savings[stage][self.fastest_position(stage)]
    }

    /// What saving a stage takes from the next stage's account.
    fn put_aside(&self, stage: usize, saving: &SlottedSaving) -> i64 {
        match self.grid.account {
            Account::BesideInput => saving.saved,
            Account::WithInput => self.input[stage] + saving.saved - self.input.get(stage + 1).copied().unwrap_or(0),
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

    /// The input of a stage, in the measure of the sizes.
    pub fn input(&self, stage: usize) -> i64 {
        self.input[stage]
    }

    /// The slot of a budget in bytes, the chain's input included and fixed bytes not: the last that it fills
    /// with [`Rounding::Up`], the first that holds all of it with [`Rounding::Down`]; none where there is not
    /// even room for the input.
    pub fn slot_of_budget(&self, bytes: u64) -> Option<usize> {
        // Sums of budgets and sizes stay in range.
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).min(i64::MAX / 4);
        let beside = bytes.div_euclid(self.measure) - self.input[0];
        let account = if self.grid.account == Account::WithInput { beside + self.input[0] } else { beside };
        let slot = match self.grid.rounding {
            Rounding::Up => account.div_euclid(self.grid.unit),
            Rounding::Down => ceiling(account, self.grid.unit),
        };
        usize::try_from(slot).ok().filter(|_| beside >= 0)
    }

    /// The first slot of stage `s` that stands for a limit or more.
    fn first_slot(&self, s: usize, limit: i64) -> usize {
        let slot = ceiling(limit.max(0) + self.grid.offset[s], self.grid.unit);
        usize::try_from(slot).expect("offsets are not negative")
    }

    /// How many slots before its own an account of stage `s` goes on at stage `c` after `bytes` were put
    /// aside; negative where the grids differ by more than that.
    pub fn slots_between(&self, s: usize, c: usize, bytes: i64) -> i64 {
        let difference = bytes + self.grid.offset[s] - self.grid.offset[c];
        match self.grid.rounding {
            Rounding::Up => ceiling(difference, self.grid.unit),
            Rounding::Down => difference.div_euclid(self.grid.unit),
        }
    }

    fn with_cuts(mut self) -> Self {
        let n = self.len();
        let slots = |s: usize, c: usize| {
            usize::try_from(self.cut_shift(s, c)).expect("offsets are at most a stage's input apart")
        };
        if self.grid.account == Account::BesideInput {
            self.cuts = (0..n * n).map(|at| if at % n > at / n { slots(at / n, at % n) } else { 0 }).collect();
        }
        self
    }

    /// The same where the input of stage `c` is checkpointed beside that of `s`: puts aside whichever of the two the
    /// account of stage `c` does not count.
    pub fn cut_shift(&self, s: usize, c: usize) -> i64 {
        let aside = if self.grid.account == Account::WithInput { s } else { c };
        self.slots_between(s, c, self.input[aside])
    }

    /// The same for each stage `c` (w_a^{c-1}), memory counted beside inputs; zero for stages that do not come after `s`.
    pub fn cut_shifts(&self, s: usize) -> &[usize] {
        &self.cuts[s * self.len()..][..self.len()]
    }

    /// Where stage `s` is saved, memory counted beside inputs.
    pub fn saved_slots(&self, s: usize, saving: &SlottedSaving) -> usize {
        usize::try_from(self.save_shift(s, saving)).expect("offsets are at most what a stage saves apart")
    }

    /// How many slots before its own the account of the next stage goes on where stage `s` is saved.
    pub fn save_shift(&self, s: usize, saving: &SlottedSaving) -> i64 {
        self.slots_between(s, (s + 1).min(self.len() - 1), self.put_aside(s, saving))
    }

    /// What counts beside an account.
    fn input_in_account(&self, s: usize) -> i64 {
        if self.grid.account == Account::WithInput { self.input[s] } else { 0 }
    }

    /// m_all^{s,t}: first slot in which `F_all` and `B` of stage `s` run in the phase of stage `t`.
    pub fn all_limit(&self, s: usize, t: usize, saving: &SlottedSaving) -> usize {
        let limit = (self.phase[t] + saving.forward).max(saving.backward).max(0);
        self.first_slot(s, limit + self.input_in_account(s))
    }

    /// First slot of stage `s` in which the passing forwards of `stages`, up to stage `l`, run in its phase while
    /// nothing is kept: inputs, outputs and overheads beside the gradients.
    pub fn through_limit(&self, s: usize, stages: std::ops::Range<usize>, l: usize) -> usize {
        let most = stages.map(|j| self.through[j]).max().unwrap_or(0);
        self.first_slot(s, self.phase[l] + most)
    }

    /// m_none^{s,t} for every `t`, for one `s`: first slot in which the forwards from `s` to below `t` run.
    pub fn passing_limits(&self, s: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut reach = self.first[s];
        (s + 1..self.len()).map(move |t| {
            if t > s + 1 {
                reach = reach.max(self.through[t - 1]);
            }
            (t, self.first_slot(s, (self.phase[t] + reach).max(0) + self.input_in_account(s)))
        })
    }
}

/// The slot some slots down; none below the first.
pub(super) fn down(slot: usize, shift: i64) -> Option<usize> {
    slot.checked_add_signed((-shift).try_into().ok()?)
}

fn ceiling(value: i64, unit: i64) -> i64 {
    -(-value).div_euclid(unit)
}
