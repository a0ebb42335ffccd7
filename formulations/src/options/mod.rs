//! `rotor-options` and `rockmate`: the persistent chain program over blocks, each with several options that an exact program
//! has found.
//!
//! [`block`] makes an instance of a block, [`frontier`] asks for its options, [`layers`] says which stages are a block. The
//! chain view prices options, and `chain/` has the program.

pub mod block;
pub mod draft;
pub mod frontier;
pub mod h_ilp;
pub mod layers;
pub mod partition;
pub mod upper;

use std::collections::HashMap;
use std::time::Instant;

use remat_core::Instance;
use remat_core::chain_view::{ChainView, StageOption};

use crate::chain::method::{ChainProgram, Loss, Slots, TableMib, view};
use crate::chain::rule::Rule;
use crate::chain::solve::Fit;
use crate::method::claim::{Kept, Memory};
use crate::method::parameters::{ParameterSpec, Parameters};
use crate::method::{About, BudgetUse, Claim, Class, Context, Method, MethodError, SkipReason};
use crate::search::clock::Clock;
use crate::{setting, settings};
use block::Block;
use frontier::{Found, Goal, Known, Search};
use layers::Blocks;

setting! {
    /// a missing option of a block gains no more than this, in millionths of the block's time
    pub Tolerance("tolerance"): number from 0 to 1_000_000 = 1000
}
setting! {
    /// most questions to the exact program for a block
    pub Questions("questions"): number from 0 to 1_000_000 = 150
}
setting! {
    /// peaks of the grid
    pub Peaks("peaks"): number from 1 to 1000 = 10
}
setting! {
    /// saved bytes of the grid, for each peak
    pub Saves("saves"): number from 1 to 1000 = 10
}

/// The best memory-persistent sequence over blocks with several options each: Rockmate, and the same with all options that
/// matter.
///
/// # Problem
/// A chain of blocks (stages of the chain view, or some neighbouring ones). An option of a block is a forward that keeps
/// something and a backward that can follow it; inside, operators run again and have implementations. Least time of a
/// memory-persistent sequence within a budget, where each saving forward uses an option of its block.
///
/// # Variables
/// C(s, t, m) of `rotor-persistent`, with K options per stage in the "save" case. Of each option f, b (times), abar (bytes
/// saved), of and ob (overheads of both passes).
///
/// # Constraints
/// Options: the block's operators around one that stands for the rest of the network, as an instance of `checkmate-ilp`
/// (of `monet`, where operators have alternatives). The peak is the budget; the workspace of the one in the middle is the
/// budget less the bytes that may be saved. Above: rotor-toms-2024, Theorem 4.8; Rockmate, section 3.
///
/// # Size
/// Blocks with equal operators, sizes and times are planned once. The table has the O(L^2 S) cells of `rotor-persistent`
/// and O(L^2 S K) operations more.
///
/// # Departures from the paper
/// * `rotor-options` asks along the frontier of saved bytes, peak and time. It begins with saving and with recomputing
///   everything. Then it asks, whatever the peak, between two options where most could be gained over a mixture of both:
///   different blocks use different options, so what two of them mix to is had already. Then it asks in the largest gap
///   between the best option and what is proved, small peaks included, until no missing option could gain more than
///   `tolerance` of the block's time. A question takes at most an eighth of the time left.
/// * `rockmate` asks on the authors' grid: `peaks` from what the largest operator takes to what saving everything does,
///   and for each `saves` from the peak down, until one is impossible. The defaults are those of the paper's experiments.
///   The authors limit each question to 60 s and count in MiB; here all have half of the time, and bytes are exact.
/// * Blocks: a layer where layers repeat (`blocks=auto`), else the stages of the chain view. The authors cut likewise at
///   the tensors that separate the graph.
/// * Options that another is at least as good as in saved bytes, both peaks and time are left out.
/// * The chain program's settings, exact bytes and proved loss are those of `rotor-persistent`.
/// * Half of the time of one budget goes to the options of all; what is not asked then is missing, and the note says so.
///
/// # Claim
/// `optimal`: no memory-persistent sequence over these options is faster. `gap_reached`: none by more than `loss`.
/// `infeasible`: none meets the budget. Nothing is claimed of other options or of schedules that are no such sequences.
///
/// # Reference
/// Zhao, Le Hellard, Eyraud-Dubois, Gusak, Beaumont, "Rockmate: an Efficient, Fast, Automatic and Generic Tool for
/// Re-materialization in PyTorch", ICML 2023, section 3; rotor-toms-2024, Theorem 4.8.
pub struct OverOptions {
    id: &'static str,
    title: &'static str,
    parameters: &'static [ParameterSpec],
    goal: fn(&Parameters) -> Goal,
}

/// All options that matter.
pub static ROTOR_OPTIONS: OverOptions = OverOptions {
    id: "rotor-options",
    title: "optimal memory-persistent sequence over all useful options of blocks",
    parameters: settings![Blocks, Tolerance, Questions, Slots, Loss, TableMib, Fit],
    goal: frontier,
};

/// The authors' grid.
pub static ROCKMATE: OverOptions = OverOptions {
    id: "rockmate",
    title: "optimal memory-persistent sequence over a grid of options of blocks",
    parameters: settings![Blocks, Peaks, Saves, Slots, Loss, TableMib, Fit],
    goal: grid,
};

fn frontier(parameters: &Parameters) -> Goal {
    let questions = parameters.count::<Questions>();
    Goal::Frontier { tolerance: parameters.get::<Tolerance>(), questions }
}

fn grid(parameters: &Parameters) -> Goal {
    Goal::Grid { peaks: parameters.get::<Peaks>(), saves: parameters.get::<Saves>() }
}

impl Method for OverOptions {
    fn about(&self) -> About {
        About {
            id: self.id,
            title: self.title,
            reference: "Rockmate (Zhao et al., ICML 2023), section 3; rotor-toms-2024, Theorem 4.8",
            parameters: self.parameters,
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        let memory = parameters.get::<Slots>().map_or(Memory::Chain, Memory::Slots);
        Claim::optimum(Class { kept: Kept::Options, memory, ..Class::CHAIN })
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        view(instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let began = Instant::now();
        let (view, remark) = self.view(context)?;
        ChainProgram::over(context, view, remark, began.elapsed()).solve(context, Rule::Persistent)
    }
}

/// Parts of the time of one budget, one for the options.
const PARTS: u32 = 2;

impl OverOptions {
    /// The chain view with the options, and what to say of them.
    ///
    /// # Errors
    /// The instance has no chain view, or blocks cannot be planned.
    pub fn view(&self, context: &Context<'_>) -> Result<(ChainView, String), MethodError> {
        let instance = context.instance;
        let clock = Clock::start(context.limits.time).share(PARTS);
        let view = layers::grouped(instance, view(instance)?, context.parameters.get::<Blocks>());
        let (options, remark) = options(context, &view, (self.goal)(context.parameters), clock)?;
        let (view, refused) = view.with_options(instance, options);
        let refused = match refused.first() {
            Some(first) => format!("; {} options left out: {first}", refused.len()),
            None => String::new(),
        };
        Ok((view, format!("{remark}{refused}")))
    }
}

/// A method that plans blocks.
///
/// # Errors
/// It is not at hand.
fn method(context: &Context<'_>, id: &str) -> Result<&'static dyn Method, MethodError> {
    let absent = || SkipReason(format!("plans blocks with {id}, which is not at hand"));
    Ok(context.starts.method(id).ok_or_else(absent)?)
}

/// The options of every stage of a view; and what to say of them.
fn options(
    context: &Context<'_>,
    view: &ChainView,
    goal: Goal,
    clock: Clock,
) -> Result<(Vec<Vec<StageOption>>, String), MethodError> {
    let instance = context.instance;
    let boundaries = view.boundaries(instance);
    let block = |(stage, boundary)| Block::new(instance, stage, boundary).ok();
    let blocks: Vec<Option<Block>> = view.stages.iter().zip(&boundaries).map(block).collect();
    let (found, remark) = plan_blocks(context, &blocks, goal, clock)?;
    let of = |(block, known): (&Option<Block>, Vec<Known>)| {
        let option =
            |(at, known): (usize, Known)| Some(block.as_ref()?.option(&format!("option {at}"), &known.computes));
        known.into_iter().enumerate().filter_map(option).collect()
    };
    Ok((blocks.iter().zip(found).map(of).collect(), remark))
}

/// The options of some blocks, equal ones planned once; and what to say of them. A block that is none has none.
///
/// # Errors
/// The exact program is not at hand, or fails.
fn plan_blocks(
    context: &Context<'_>,
    blocks: &[Option<Block>],
    goal: Goal,
    clock: Clock,
) -> Result<(Vec<Vec<Known>>, String), MethodError> {
    let mut different: HashMap<&str, Found> = HashMap::new();
    // What most of the network is made of comes first, with a share like that part; what it leaves is there for the rest.
    let mut weights: HashMap<&str, usize> = HashMap::new();
    for block in blocks.iter().flatten() {
        *weights.entry(&block.key).or_default() += block.instance.operators().len();
    }
    let mut order: Vec<&Block> = blocks.iter().flatten().collect();
    order.retain(|block| different.insert(&block.key, Found::default()).is_none());
    order.sort_by_key(|block| std::cmp::Reverse(weights[block.key.as_str()]));
    let mut left: usize = weights.values().sum();
    for block in order {
        let weight = weights[block.key.as_str()];
        let share = clock.left().map(|time| time.mul_f64(weight as f64 / left.max(1) as f64));
        left -= weight;
        different.insert(&block.key, Search::options(block, context, goal, Clock::start(share))?);
    }
    let questions: usize = different.values().map(|found| found.asked).sum();
    let cut: usize = different.values().map(|found| found.cut).sum();
    let unfinished = different.values().filter(|found| found.unfinished).count();
    let alone = blocks.iter().filter(|block| block.is_none()).count();
    let words = [
        Some(format!("{} blocks, {} different; {questions} questions", blocks.len(), different.len())),
        (cut > 0).then(|| format!("the time was over for {cut} of these")),
        (unfinished > 0).then(|| format!("options of {unfinished} incomplete")),
        (alone > 0).then(|| format!("{alone} without options")),
    ];
    let remark = words.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let of = |block: &Option<Block>| {
        block.as_ref().map_or_else(Vec::new, |block| different[block.key.as_str()].known.clone())
    };
    Ok((blocks.iter().map(of).collect(), remark))
}
