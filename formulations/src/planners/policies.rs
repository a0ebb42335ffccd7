//! `checkpoint-every` and `sac`: policies that users write down by hand, one line per block of a network.

use std::collections::BTreeMap;

use remat_core::plan::Plan;
use remat_core::{Instance, OperatorId};

use super::modules::block;
use super::planner::Planner;
use super::saved::schedule;
use super::torch::operators::{Kind, packet};
use crate::method::claim::Runs;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Class, Context, MethodError, SkipReason};
use crate::search::sweep::Sweep;
use crate::store_all::store_all;
use crate::{setting, settings};

/// Activation checkpointing of whole blocks: every k-th block of a network is recomputed from its input.
///
/// # Problem
/// A block is a module of a list (`layers.3`, `layer1.0`), by the names of the operators. Of a checkpointed block only what
/// the forward pass reads outside of it is kept; its operators run again when the backward pass wants what they made.
/// Everything else is kept. k = 1 is full activation checkpointing.
///
/// # Variables
/// k; with `every=auto` each from 1 to the number of blocks, of which the fastest within the budget counts.
///
/// # Size
/// One simulation per k.
///
/// # Departures from the paper
/// * `torch.utils.checkpoint` runs a block again until it has all that was saved in it; here operators whose results
///   nobody wants do not run again. Random operators run again with the generator's state, as there.
/// * What may not run again in the instance is kept.
///
/// # Claim
/// Heuristic.
///
/// # Reference
/// `torch.utils.checkpoint` on each block, as torchtitan's `FullAC` and its option to checkpoint every k-th layer
/// (`torchtitan/distributed/activation_checkpoint.py`).
pub struct CheckpointEvery;

/// Selective activation checkpointing: within each block the results of costly operators are kept, and of matrix products
/// every second one.
///
/// # Problem
/// A block is a module of a list, as for `checkpoint-every`. Of a block these are kept: what the forward pass reads outside of
/// it, and the results of matrix products, convolutions and attention (PyTorch's list of compute-intensive operators), except, with
/// `every-second-product`, those of every second product with a weight (`mm`, `addmm`), counted in each block from 1. Everything else in
/// a block runs again. What is in no block is kept.
///
/// # Size
/// One simulation.
///
/// # Departures from the paper
/// * torchtitan counts `mm` only, for its layers have no biases; here `addmm` counts too.
/// * Its list has attention kernels that instances hold in parts.
/// * Results of random operators are kept, as its graph trainer does.
///
/// # Claim
/// Heuristic. There is no budget: the policy is one schedule.
///
/// # Reference
/// torchtitan, `torchtitan/distributed/activation_checkpoint.py`, `SelectiveAC`.
pub struct Sac;

setting! {
    /// which blocks are checkpointed: every k-th; auto: the fastest k within the budget
    pub Every("every"): auto or number from 1 to 100_000
}

setting! {
    /// whether every second product with a weight is recomputed
    pub EverySecondProduct("every-second-product"): switch = on
}

/// Schedules in stages in which nothing runs more than twice.
const CLASS: Class = Class { runs: Runs::AtMost(2), ..Class::STAGES };

/// The blocks of an instance.
pub struct Blocks<'a> {
    instance: &'a Instance,
    plan: Plan,
    /// By operator: its block, counted in the order in which blocks begin; none outside of all and in the backward pass.
    block_of: Vec<Option<usize>>,
    count: usize,
}

impl<'a> Blocks<'a> {
    fn new(instance: &'a Instance) -> Result<Self, SkipReason> {
        let mut known = BTreeMap::new();
        let mut block_of = vec![None; instance.operators().len()];
        for &id in instance.order() {
            let operator = instance.operator(id);
            if let Some(name) =
                Some(operator).filter(|operator| operator.phase.is_forward()).and_then(|o| block(&o.name))
            {
                let next = known.len();
                block_of[id.index()] = Some(*known.entry(name).or_insert(next));
            }
        }
        if known.is_empty() {
            return Err(SkipReason("no operator is named after a module of a list, such as layers.3.linear".into()));
        }
        let plan = Plan::fastest(instance);
        store_all(instance, &plan)?;
        Ok(Self { instance, plan, block_of, count: known.len() })
    }

    /// What is kept, by tensor, where of some blocks only some operators keep what they make.
    fn kept(&self, checkpointed: impl Fn(usize) -> bool, keeps: impl Fn(OperatorId) -> bool) -> Vec<bool> {
        let mut kept = vec![true; self.instance.tensors().len()];
        for id in self.instance.operator_ids() {
            if self.block_of[id.index()].is_some_and(&checkpointed) && !keeps(id) {
                for made in self.instance.operator(id).makes(self.plan.saving[id.index()]) {
                    kept[made.index()] = false;
                }
            }
        }
        for id in self.instance.operator_ids().filter(|&id| self.instance.operator(id).phase.is_forward()) {
            for read in &self.instance.operator(id).implementations[self.plan.saving[id.index()]].reads {
                let producer = self.instance.tensor(*read).producer;
                kept[read.index()] |=
                    producer.is_none_or(|from| self.block_of[from.index()] != self.block_of[id.index()]);
            }
        }
        // What the backward pass computes is not saved ahead of it.
        for id in self.instance.operator_ids().filter(|&id| !self.instance.operator(id).phase.is_forward()) {
            for made in self.instance.operator(id).makes(self.plan.saving[id.index()]) {
                kept[made.index()] = false;
            }
        }
        kept
    }
}

impl Planner for CheckpointEvery {
    const CLASS: Class = CLASS;
    type View<'a> = Blocks<'a>;

    fn about(&self) -> About {
        About {
            id: "checkpoint-every",
            title: "every k-th block of a network is recomputed from its input",
            reference: "torch.utils.checkpoint on each block; torchtitan, activation_checkpoint.py",
            parameters: settings![Every],
            budgets: BudgetUse::Used,
        }
    }

    fn view<'a>(&self, instance: &'a Instance, _: &Parameters) -> Result<Blocks<'a>, SkipReason> {
        Blocks::new(instance)
    }

    fn plan(&self, blocks: Blocks<'_>, context: &Context<'_>) -> Result<(), MethodError> {
        let mut sweep = Sweep::new(context);
        let given = context.parameters.get::<Every>().map(|every| usize::try_from(every).unwrap_or(usize::MAX));
        for every in given.map_or(1..=blocks.count, |every| every..=every) {
            if sweep.is_over() {
                break;
            }
            let kept = blocks.kept(|block| (block + 1) % every == 0, |_| false);
            let words = format!("{} blocks checkpointed, every = {every}", blocks.count / every);
            sweep.offer(&schedule(context.instance, &blocks.plan, &kept), &words)?;
        }
        sweep.answer(&format!("{} blocks", blocks.count));
        Ok(())
    }
}

impl Planner for Sac {
    const CLASS: Class = CLASS;
    type View<'a> = Blocks<'a>;

    fn about(&self) -> About {
        About {
            id: "sac",
            title: "in each block costly operators are kept, and every second matrix product",
            reference: "torchtitan, torchtitan/distributed/activation_checkpoint.py",
            parameters: settings![EverySecondProduct],
            budgets: BudgetUse::Ignored,
        }
    }

    fn view<'a>(&self, instance: &'a Instance, _: &Parameters) -> Result<Blocks<'a>, SkipReason> {
        Blocks::new(instance)
    }

    fn plan(&self, blocks: Blocks<'_>, context: &Context<'_>) -> Result<(), MethodError> {
        let (mut sweep, instance) = (Sweep::new(context), context.instance);
        let skips = context.parameters.get::<EverySecondProduct>();
        let mut products = vec![0_usize; blocks.count];
        let mut keeps = vec![false; instance.operators().len()];
        for &id in instance.order() {
            let Some(block) = blocks.block_of[id.index()] else { continue };
            let operator = instance.operator(id);
            let weighted = matches!(packet(&operator.op_type), "aten.mm" | "aten.addmm");
            products[block] += usize::from(weighted);
            let skipped = skips && weighted && products[block].is_multiple_of(2);
            keeps[id.index()] = (Kind::of(&operator.op_type).compute_intensive && !skipped) || operator.random;
        }
        let kept = blocks.kept(|_| true, |id| keeps[id.index()]);
        sweep.offer(&schedule(instance, &blocks.plan, &kept), "")?;
        sweep.answer(&format!("{} blocks", blocks.count));
        Ok(())
    }
}
