//! Checkmate's linear models as the search sees them: the one in stages (`staged/model/`), over blocks, exact, or of a
//! neighbourhood; and the published one.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

use remat_solvers::{Model, RowBlock};

use crate::checkmate::plain::Plain;
use crate::method::MethodError;
use crate::method::formulation::INTEGRALITY;
use crate::search::blocks::{Block, two};
use crate::search::incumbent::Kept;
use crate::search::problem::{Effort, Offer, Open, Staged};
use crate::search::separation::{Pass, Relaxation};
use crate::search::term::Scale;
use crate::staged::anneal::{anneal, moves, offering};
use crate::staged::model::{self, Around};
use crate::staged::prices;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// A linear model of schedules in stages.
pub enum Linear<'p> {
    /// As published.
    Plain(Box<Plain>),
    /// The reduced one.
    Staged(Box<model::Linear<'p>>),
}

impl Relaxation for Linear<'_> {
    fn model(&self) -> &Model {
        match self {
            Self::Plain(plain) => &plain.model,
            Self::Staged(linear) => &linear.model,
        }
    }

    fn fixed_time(&self) -> u64 {
        match self {
            Self::Plain(plain) => plain.fixed_time(),
            Self::Staged(linear) => linear.fixed_time(),
        }
    }

    fn scale(&self) -> Scale {
        match self {
            Self::Plain(plain) => plain.scale,
            Self::Staged(linear) => linear.scale(),
        }
    }

    fn memory_rows(&self) -> &[(usize, usize)] {
        match self {
            Self::Plain(_) => &[],
            Self::Staged(linear) => linear.memory_rows(),
        }
    }

    fn separate(&mut self, point: &[f64], pass: Pass, times: usize) -> RowBlock {
        match self {
            // Has all of its rows.
            Self::Plain(_) => RowBlock::default(),
            Self::Staged(linear) => linear.separate(point, pass, times),
        }
    }
}

impl Task<'_> {
    /// The model in stages over blocks, or exact, with the rows that limit the number of runs and those of the condition.
    fn limited<'p>(&self, mut linear: model::Linear<'p>) -> Linear<'p> {
        self.copies.iter().for_each(|&copies| linear.at_most_runs(copies));
        self.condition.iter().for_each(|condition| condition.constrain(&mut linear));
        Linear::Staged(Box::new(linear))
    }

    /// The exact model, whatever the number of runs and the condition.
    pub fn model(&self) -> model::Linear<'_> {
        model::Linear::exact(&self.joint, self.budget)
    }

    /// The same with all of its memory rows.
    pub fn whole(&self) -> model::Linear<'_> {
        let mut linear = self.model();
        linear.add_all();
        linear
    }

    /// Stages that keep what a point says, and run what that needs.
    pub(super) fn stages_of(&self, linear: &Linear<'_>, point: &[f64]) -> Stages {
        let kept = match linear {
            Linear::Plain(plain) => plain.kept(point),
            Linear::Staged(linear) => linear.kept(point),
        };
        Stages::complete(&self.joint, |stage, value| kept[stage][value])
    }
}

impl Staged for Task<'_> {
    type Relaxation<'p>
        = Linear<'p>
    where
        Self: 'p;

    fn capacity(&self) -> u64 {
        self.budget_bytes()
    }

    fn needs(&self, stages: &Stages) -> Vec<u64> {
        stages.peaks(&self.joint).into_iter().map(|(bytes, _)| bytes).collect()
    }

    fn kept<'s>(&self, stages: &'s Stages) -> Cow<'s, Kept> {
        Cow::Owned(stages.kept(&self.joint))
    }

    fn store_all(&self) -> Option<Stages> {
        Some(Stages::store_all(&self.joint))
    }

    fn complete(&self, kept: Kept) -> Option<Stages> {
        Some(Stages::complete(&self.joint, |stage, value| kept[stage][value]))
    }

    fn improve(&self, start: &Stages, effort: Effort<'_>, offer: Offer<'_, Stages>) -> Result<(), MethodError> {
        // All that is offered is within the budget.
        let is_open = Cell::new(effort.any);
        let offer = &mut |stages| {
            is_open.set(false);
            offer(stages)
        };
        if self.meets(start) {
            offer(start.clone())?;
        }
        if let Some(number) = effort.round.checked_sub(2) {
            let effort = Effort { clock: effort.clock.share(2), ..effort };
            offering(offer, |better| prices::course(self, effort, number, better))?;
        }
        // More from search to search.
        let moves = (moves(&self.joint) / 4) << effort.round.min(4);
        let clock = if is_open.get() { effort.clock.share(2) } else { effort.clock };
        offering(offer, |better| anneal(self, Effort { clock, ..effort }, moves, start, better))?;
        if is_open.get() {
            offering(offer, |better| prices::any(self, effort, better))?;
        }
        Ok(())
    }

    fn first_blocks(&self) -> Vec<Block> {
        two(self.joint.len(), &self.needs(&Stages::store_all(&self.joint)))
    }

    fn over<'p>(&'p self, blocks: &[Block], _: Option<&Linear<'p>>) -> Linear<'p> {
        let graph = &self.joint;
        self.limited(model::Linear::new(graph, self.budget, blocks.to_vec()))
    }

    /// Whether an operator runs again twice in the block, which the relaxation counts once.
    fn costs_more(&self, relaxation: &Linear<'_>, _: &[f64], stages: &Stages, block: usize) -> bool {
        let Linear::Staged(linear) = relaxation else { return false };
        let Block { first, last } = linear.blocks[block];
        let mut seen = BTreeSet::new();
        let mut again = (first..=last).flat_map(|stage| stages.runs[stage].iter().filter(move |&&at| at < stage));
        again.any(|&position| !seen.insert(position))
    }

    fn exact(&self) -> Linear<'_> {
        self.limited(self.model())
    }

    fn within(&self, around: &Stages, open: &Open) -> Linear<'_> {
        let graph = &self.joint;
        let around = Around { kept: &around.kept(&self.joint), runs: &|stage| ways(around, stage), open };
        self.limited(model::Linear::within(graph, self.budget, around))
    }

    fn expand(&self, relaxation: &Linear<'_>, point: &[f64]) -> Option<Stages> {
        match relaxation {
            Linear::Plain(plain) => plain.stages(point, INTEGRALITY).ok(),
            Linear::Staged(_) => Some(self.stages_of(relaxation, point)),
        }
    }

    fn point(&self, relaxation: &Linear<'_>, stages: &Stages) -> Vec<f64> {
        // The published model is given no start.
        let Linear::Staged(linear) = relaxation else { return Vec::new() };
        let (starts, mut kept) = (linear.starts(), Vec::new());
        stages.kept_backwards(&self.joint, |stage, row| {
            if starts.binary_search(&stage).is_ok() {
                kept.push(row.to_vec());
            }
        });
        let kept: Vec<&[bool]> = kept.iter().rev().map(Vec::as_slice).collect();
        linear.point(|stage| ways(stages, stage), &kept)
    }

    fn stages(&self) -> usize {
        self.joint.len()
    }

    fn columns(&self) -> usize {
        self.joint.values.len()
    }

    fn forced(&self, stage: usize, column: usize) -> Option<bool> {
        self.joint.forced(stage, column)
    }

    fn neighbours(&self, column: usize) -> Vec<usize> {
        self.joint.neighbours(column)
    }

    fn repeated(&self, stages: &Stages) -> Vec<(usize, usize, u64)> {
        let run = |(stage, position): (usize, usize)| {
            let time = self.joint.run(stage, position)?.time;
            Some((stage, *self.joint.operators[position].makes.first()?, time))
        };
        stages.later_runs().filter_map(run).collect()
    }
}

/// What runs in a stage, each run in the one way that there is.
fn ways(stages: &Stages, stage: usize) -> Vec<model::Run> {
    stages.runs[stage].iter().map(|&position| (position, 0)).collect()
}
