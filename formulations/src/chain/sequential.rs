//! `sequential`: what `torch.utils.checkpoint.checkpoint_sequential` does.

use std::collections::BTreeMap;

use remat_core::Instance;
use remat_core::chain::{Chain, ChainStep};
use remat_core::chain_view::{ChainView, StageOperators};
use remat_core::format::Phase;

use super::method::{self, ChainProgram};
use crate::method::claim::Memory;
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason, Termination};
use crate::{setting, settings};

/// Equal segments, each recomputed once as a whole; the last one kept.
///
/// # Problem
/// None: the schedule is fixed by the number of segments k. The L stages of the network are cut into
/// segments of floor(L / k); all but the last keep only their input and are recomputed, saving
/// everything, when their backward comes. The last segment takes what remains, and runs once. Stages of
/// the loss alone (a log-softmax is one) are no modules of the network: they do not count in L.
///
/// The profiler's tests run `checkpoint_sequential` and this schedule of the same network: each block runs as
/// often, and the same bytes are kept from the forward to the backward pass, for every k.
///
/// # Claim
/// Baseline: exactly the schedule that the framework executes.
///
/// # Size
/// O(L).
///
/// # Reference
/// `torch.utils.checkpoint.checkpoint_sequential`; Chen et al. 2016; rotor-toms-2024, section 5.4,
/// which tries k = 2 to 2 sqrt(L).
pub struct Sequential;

setting! {
    /// number of segments; at most the number of stages below the loss
    Segments("segments"): number from 1 to 1_000_000 = 2
}

impl Method for Sequential {
    fn about(&self) -> About {
        About {
            id: "sequential",
            title: "PyTorch's checkpoint_sequential: equal segments, each recomputed once",
            reference: "torch.utils.checkpoint.checkpoint_sequential; rotor-toms-2024, section 5.4",
            parameters: settings![Segments],
            budgets: BudgetUse::Ignored,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::baseline(Class { memory: Memory::Simulated, ..Class::CHAIN })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        match network_stages(instance, &method::view(instance)?) {
            0..2 => Err(SkipReason("fewer than two stages below the loss: nothing to cut".into())),
            _ => Ok(()),
        }
    }

    /// k = 2 to 2 sqrt(L), as in rotor-toms-2024.
    fn sweep(&self, instance: &Instance) -> Vec<BTreeMap<String, String>> {
        let stages = ChainView::new(instance).map_or(0, |view| network_stages(instance, &view));
        let most = (2..=stages).take_while(|k| k * k <= 4 * stages).last().unwrap_or(1);
        (2..=most).map(|k| BTreeMap::from([("segments".into(), k.to_string())])).collect()
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let mut program = ChainProgram::new(context)?;
        let stages = network_stages(context.instance, &program.view);
        let segments = context.parameters.count::<Segments>();
        if segments > stages {
            let message = format!("{segments} segments, but there are {stages} stages below the loss");
            return Err(MethodError::Parameter { name: "segments", message });
        }
        let sequence = sequence(&program.view.chain, stages, segments);
        context.answer(0, &program.answer(None, Termination::Feasible, &sequence, String::new())?);
        Ok(())
    }
}

/// L: the stages up to the last one below the loss's own that runs an operator of the network.
fn network_stages(instance: &Instance, view: &ChainView) -> usize {
    let below = view.chain.len() - 1;
    let of_network =
        |stage: &StageOperators| stage.forward.iter().any(|&id| instance.operator(id).phase == Phase::Forward);
    view.stages[..below].iter().rposition(of_network).map_or(below, |last| last + 1)
}

/// The sequence with L stages of the network and a number of segments, at least 1 and at most L.
fn sequence(chain: &Chain, stages: usize, segments: usize) -> Vec<ChainStep> {
    let loss = chain.len() - 1;
    let size = stages / segments;
    let last = (segments - 1) * size;
    let save = |stage| ChainStep::Save { stage, saving: 0 };
    let backward = |stage| ChainStep::Backward { stage };
    let keeps_input = |stage| {
        if stage % size == 0 { ChainStep::Checkpoint { stage } } else { ChainStep::Pass { stage } }
    };
    let mut sequence: Vec<_> = (0..last).map(keeps_input).collect();
    sequence.extend((last..=loss).map(save));
    sequence.extend((last..=loss).rev().map(backward));
    for start in (0..last).step_by(size).rev() {
        sequence.extend((start..start + size).map(save));
        sequence.extend((start..start + size).rev().map(backward));
    }
    sequence
}
