//! Checkmate's linear models as the search sees them: over blocks of stages, exact, or of a neighbourhood.

use std::borrow::Cow;
use std::collections::BTreeSet;

use remat_solvers::{Model, RowBlock};

use crate::checkmate::coarse::Coarse;
use crate::checkmate::compact::{Compact, Rows};
use crate::checkmate::plain::Plain;
use crate::method::MethodError;
use crate::search::blocks::Block;
use crate::search::incumbent::Kept;
use crate::search::problem::{Effort, Offer, Open, Staged};
use crate::search::separation::{Pass, Relaxation};
use crate::staged::anneal::{Plan, anneal, offering};
use crate::staged::joint::Value;
use crate::staged::prices;
use crate::staged::repair::Repair;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// Up to so many columns of R and S the exact model is within reach.
const SMALL: usize = 50_000;
/// Most operators with which repair is worth its time; beyond, annealing alone is faster.
const REPAIRED: usize = 400;

/// A linear model of schedules in stages.
pub enum Linear {
    /// As published.
    Plain(Plain),
    /// The reduced one.
    Compact(Compact),
    /// Over blocks of stages.
    Coarse(Coarse),
}

impl Relaxation for Linear {
    fn model(&self) -> &Model {
        match self {
            Self::Plain(plain) => &plain.model,
            Self::Compact(compact) => &compact.model,
            Self::Coarse(coarse) => &coarse.model,
        }
    }

    fn fixed_time(&self) -> u64 {
        match self {
            Self::Plain(plain) => plain.fixed_time(),
            Self::Compact(compact) => compact.fixed_time(),
            Self::Coarse(coarse) => coarse.fixed_time(),
        }
    }

    fn time_unit(&self) -> f64 {
        match self {
            Self::Plain(plain) => plain.time_unit(),
            Self::Compact(compact) => compact.time_unit(),
            Self::Coarse(coarse) => coarse.time_unit(),
        }
    }

    fn separate(&mut self, point: &[f64], _: Pass) -> RowBlock {
        let (rows, model) = match self {
            // Has all of its rows.
            Self::Plain(_) => return RowBlock::default(),
            Self::Compact(compact) => (compact.violated(point), &mut compact.model),
            Self::Coarse(coarse) => (coarse.violated(point), &mut coarse.model),
        };
        model.rows.append(&rows);
        rows
    }
}

impl Task<'_> {
    /// Stages that keep what is said, and run what that needs.
    pub(super) fn stages_of(&self, kept: &Kept) -> Stages {
        Stages::complete(&self.joint, |stage, value| kept[stage][value])
    }
}

impl Staged for Task<'_> {
    type Relaxation<'p>
        = Linear
    where
        Self: 'p;

    fn capacity(&self) -> u64 {
        self.budget_bytes()
    }

    fn needs(&self, stages: &Stages) -> Vec<u64> {
        stages.peaks(&self.joint, self.workspace).into_iter().map(|(bytes, _)| bytes).collect()
    }

    fn kept<'s>(&self, stages: &'s Stages) -> Cow<'s, Kept> {
        Cow::Owned(stages.kept(&self.joint))
    }

    fn store_all(&self) -> Option<Stages> {
        Some(Stages::store_all(&self.joint))
    }

    fn complete(&self, kept: Kept) -> Option<Stages> {
        Some(self.stages_of(&kept))
    }

    fn improve(&self, start: &Stages, effort: Effort, offer: Offer<'_, Stages>) -> Result<(), MethodError> {
        if self.meets(start) {
            offer(start.clone())?;
        }
        if self.joint.len() <= REPAIRED && self.copies.is_none() {
            let repair = Repair {
                joint: &self.joint,
                budget: self.budget_bytes(),
                workspace: self.workspace,
                clock: effort.clock,
            };
            if let Some(repaired) = repair.improve(start) {
                offer(repaired)?;
            }
        }
        if let Some(number) = effort.round.checked_sub(2) {
            offering(offer, |better| prices::course(self, effort.clock.share(2), effort.seed, number, better))?;
        }
        let Plan { moves, initial, last } = Plan::of(&self.joint);
        // More from search to search.
        let moves = (moves / 4) << effort.round.min(6);
        let plan = Plan { moves, initial: initial * effort.heat, last };
        offering(offer, |better| anneal(self, effort.clock, plan, start, effort.seed, better))
    }

    /// Two blocks that meet where store-all needs most.
    fn first_blocks(&self) -> Vec<Block> {
        let needs = self.needs(&Stages::store_all(&self.joint));
        let worst = (0..needs.len()).max_by_key(|&stage| (needs[stage], std::cmp::Reverse(stage))).unwrap_or(0);
        let whole = Block { first: 0, last: needs.len() - 1 };
        if worst < whole.last {
            vec![Block { last: worst, ..whole }, Block { first: worst + 1, ..whole }]
        } else {
            vec![whole]
        }
    }

    fn over(&self, blocks: &[Block], _: Option<&Linear>) -> Linear {
        Linear::Coarse(Coarse::new(self, blocks.to_vec()))
    }

    /// Whether an operator runs again twice in the block, which the relaxation counts once.
    fn costs_more(&self, relaxation: &Linear, _: &[f64], stages: &Stages, block: usize) -> bool {
        let Linear::Coarse(coarse) = relaxation else { return false };
        let Block { first, last } = coarse.blocks[block];
        let mut seen = BTreeSet::new();
        let mut again = (first..=last).flat_map(|stage| stages.runs[stage].iter().filter(move |&&at| at < stage));
        again.any(|&position| !seen.insert(position))
    }

    fn exact(&self) -> Linear {
        Linear::Compact(Compact::new(self, Rows::Lazy))
    }

    fn is_small(&self) -> bool {
        let stages = |value: &Value| value.last_use.min(self.joint.len() - 1).saturating_sub(value.producer);
        self.joint.values.iter().map(stages).sum::<usize>() <= SMALL
    }

    fn within(&self, around: &Stages, open: &Open) -> Option<Linear> {
        Some(Linear::Compact(Compact::within(self, around, open)))
    }

    fn expand(&self, relaxation: &Linear, point: &[f64]) -> Option<Stages> {
        let joint = &self.joint;
        match relaxation {
            Linear::Plain(plain) => plain.stages(point, super::INTEGRALITY).ok(),
            Linear::Compact(compact) => {
                Some(Stages::complete(joint, |stage, value| compact.kept(stage, value, point) >= 0.5))
            }
            Linear::Coarse(coarse) => Some(self.stages_of(&coarse.expand(point, |value| value >= 0.5))),
        }
    }

    fn point(&self, relaxation: &Linear, stages: &Stages) -> Vec<f64> {
        match relaxation {
            // The published model is given no start.
            Linear::Plain(_) => Vec::new(),
            Linear::Compact(compact) => compact.vector(stages),
            Linear::Coarse(coarse) => coarse.vector(stages),
        }
    }

    fn stages(&self) -> usize {
        self.joint.len()
    }

    fn columns(&self) -> usize {
        self.joint.values.len()
    }

    fn is_free(&self, stage: usize, column: usize) -> bool {
        let value = &self.joint.values[column];
        stage < self.joint.len()
            && stage > value.producer
            && stage <= value.last_use
            && !self.joint.must_keep(stage, column)
    }

    fn neighbours(&self, column: usize) -> Vec<usize> {
        let operators = &self.joint.operators;
        let value = &self.joint.values[column];
        let made = value.readers.iter().flat_map(|&reader| &operators[reader].makes);
        made.chain(&operators[value.producer].first.reads).copied().collect()
    }

    fn repeated(&self, stages: &Stages) -> Vec<(usize, usize, u64)> {
        let run = |(stage, position): (usize, usize)| {
            let time = self.joint.run(stage, position)?.time;
            Some((stage, *self.joint.operators[position].makes.first()?, time))
        };
        stages.later_runs().filter_map(run).collect()
    }
}
