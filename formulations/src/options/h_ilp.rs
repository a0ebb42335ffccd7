//! `h-ilp` and `hiremate`: blocks with options on several levels, for graphs that are no chain.
//!
//! [`partition`](super::partition) says what is a block, [`frontier`](mod@super::frontier) asks for options,
//! [`upper`](super::upper) makes the level above, and `monet` plans the top.

use std::time::{Duration, Instant};

use remat_core::Instance;
use remat_core::chain_view::StageOption;
use remat_core::format::Phase;
use remat_core::liveness::{Compute, with_liveness};
use remat_core::plan::Plan;

use super::block::Block;
use super::frontier::{Goal, Known};
use super::partition::Partition;
use super::upper::Upper;
use super::{PARTS, Peaks, Questions, Saves, Tolerance, frontier, grid, layers, method, plan_blocks};
use crate::method::parameters::{ParameterSpec, Parameters};
use crate::method::report::{Progress, Reporter};
use crate::method::setting::Setting;
use crate::method::{
    About, Answer, BudgetUse, Claim, Claimed, Class, Context, Limits, Method, MethodError, SkipReason, Termination,
};
use crate::search::clock::Clock;
use crate::{setting, settings};

setting! {
    /// most operators of a block, of both passes
    pub Operators("operators"): number from 1 to 1_000_000 = 250
}
setting! {
    /// nodes of a level at which neighbouring blocks are no longer merged; a level with half as many more has one above it
    pub Nodes("nodes"): number from 1 to 1_000_000 = 60
}
setting! {
    /// most options of a block that the level above chooses from
    pub Choice("options"): number from 1 to 1_000_000 = 8
}
/// Blocks with options and a program above them, for graphs that are no chain: `HiRemate`, and the same with all options
/// that matter.
///
/// # Problem
/// Forward operators in a row make a block, with the backward operators that go with them. A schedule runs the forwards of
/// all blocks, then their backwards; before each of these, forwards of blocks may run again. Least time within a budget,
/// where each run of a forward and each backward uses an option of its block.
///
/// # Variables
/// Those of `monet` on the level above, where a block is two operators, its forward and its backward, and has its options
/// for implementations. What an option's forward keeps for its backward is one tensor (the paper's phantom).
///
/// # Constraints
/// Those of `monet`. An option's backward reads its phantom and the inputs, outputs and gradients that its operators read.
/// The workspace of an option is what it needs beside that, simulated; an input counts until the block is over.
///
/// # Size
/// Equal blocks are planned once. A level has about `nodes` nodes, each with `options` implementations at most.
///
/// # Departures from the paper
/// * The paper's partition also merges branches that meet again; here blocks are neighbours in the instance's order, merged
///   by the same rule. A block of one operator stays what it is, with its implementations.
/// * `h-ilp` leaves a chain of blocks of at most `operators` operators, half of them in equal layers, to `rotor-options`;
///   the authors' partition leaves chains to their chain program likewise, which is the row `rockmate`. `hiremate` never does.
/// * `h-ilp` has the options of `rotor-options`: the frontier of saved bytes, peak and time. `hiremate` has the authors'
///   grid: 4 peaks, 6 saved bytes for each.
/// * Of the options as many as `options` go up, the extremes first and then those furthest from the ones chosen in saved
///   bytes, before all others those that save less than every faster one. The authors share 100 among the blocks of a level, at most 20: `options=5`.
/// * The authors' sizes are 20 nodes in a block and 30 on top. A node is an operator with its backward there, and two
///   operators here: `operators=40` and `nodes=60`. These defaults are those of the authors' code (rockmate 2.0.0), not
///   of the paper's text; its graphs have fewer nodes, since views and cheap operators are merged before.
/// * The authors give a question 60 s and the top 600 s or more. Here the options have half of the time of one budget at
///   most, the top what is left.
/// * The level above is planned by `monet` and counts sub-steps of an option by its peak alone; the paper's program has
///   terms that correct the count where an input goes or an output comes within an option.
///
/// # Claim
/// Heuristic: the count of the upper level is never below the simulator's, but may be above it, and most options of a
/// block are left out.
///
/// # Reference
/// Zhao, Hellard, Eyraud-Dubois, Gusak, Beaumont, "HiRemate: Hierarchical Approach for Efficient Re-materialization of
/// Neural Networks", ICML 2025.
pub struct OverBlocks {
    id: &'static str,
    title: &'static str,
    parameters: &'static [ParameterSpec],
    goal: fn(&Parameters) -> Goal,
    /// Whether chains of layers go to the chain program.
    layers: bool,
}

/// All options that matter.
pub static H_ILP: OverBlocks = OverBlocks {
    id: "h-ilp",
    title: "options of blocks, and a program over the blocks of any graph",
    parameters: settings![Operators, Nodes, Choice, Tolerance, Questions],
    goal: frontier,
    layers: true,
};

/// The authors' grid and sizes.
pub static HIREMATE: OverBlocks = OverBlocks {
    id: "hiremate",
    title: "a grid of options of blocks, and a program over the blocks of any graph",
    parameters: &[
        ParameterSpec { default: "40", ..Operators::SPEC },
        Nodes::SPEC,
        ParameterSpec { default: "5", ..Choice::SPEC },
        ParameterSpec { default: "4", ..Peaks::SPEC },
        ParameterSpec { default: "6", ..Saves::SPEC },
    ],
    goal: grid,
    layers: false,
};

impl Method for OverBlocks {
    fn about(&self) -> About {
        About {
            id: self.id,
            title: self.title,
            reference: "HiRemate (Zhao et al., ICML 2025)",
            parameters: self.parameters,
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, _: &Parameters) -> Claim {
        Claim::heuristic(Class::ALL)
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        let mut phases = instance.operators().iter().map(|operator| operator.phase);
        let reason = || SkipReason("blocks begin with forward operators, and the instance has none".into());
        if phases.any(Phase::is_forward) { Ok(()) } else { Err(reason()) }
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let began = Instant::now();
        if self.layers && layers::repeat(context.instance, context.parameters.count::<Operators>()) {
            let time = context.limits.time.map(|time| time.saturating_sub(began.elapsed()));
            return in_a_chain(context, Limits { time, ..context.limits });
        }
        let levels = Levels::new(context, (self.goal)(context.parameters))?;
        let build = began.elapsed();
        context.answer_each(|index, budget| {
            let left = context.limits.time.map(|time| time.saturating_sub(build));
            let answer = levels.answer(context, budget, left)?;
            Ok(if index == 0 { Answer { build, ..answer } } else { answer })
        });
        Ok(())
    }
}

/// What a proof about a level is worth below it: it counts more than the simulator does.
fn unproved(termination: Termination) -> Termination {
    match termination {
        Termination::Optimal | Termination::GapReached => Termination::Feasible,
        Termination::Infeasible => Termination::NotFound,
        other => other,
    }
}

/// Answers where layers repeat in a chain, by the chain program over them.
fn in_a_chain(context: &Context<'_>, limits: Limits) -> Result<(), MethodError> {
    let method = method(context, "rotor-options")?;
    let given = ["tolerance", "questions"].map(|name| (name.to_owned(), context.parameters.word(name).to_owned()));
    let parameters = Parameters::new(method.about().parameters, &given.into());
    let parameters = parameters.map_err(|error| MethodError::Internal(error.to_string()))?;
    method.solve(&Context { parameters: &parameters, limits, reporter: &InAChain(context.reporter), ..*context })
}

/// Passes on what the chain program answers, and not what it proves of its own class.
struct InAChain<'a>(&'a dyn Reporter);

impl Reporter for InAChain<'_> {
    fn report(&self, index: usize, progress: Progress) {
        self.0.report(index, Progress { lower_bound: None, ..progress });
    }

    fn answer(&self, index: usize, answer: &Answer) {
        let note = format!("layers in a chain, by rotor-options: {}", answer.note);
        let termination = unproved(answer.termination);
        self.0.answer(index, &Answer { termination, lower_bound: None, note, ..answer.clone() });
    }

    fn wants_more(&self, index: usize) -> bool {
        self.0.wants_more(index)
    }
}

/// The levels above an instance.
struct Levels {
    /// From the lowest on.
    levels: Vec<Upper>,
    remark: String,
}

impl Levels {
    fn new(context: &Context<'_>, goal: Goal) -> Result<Self, MethodError> {
        let nodes = context.parameters.count::<Nodes>();
        let clock = Clock::start(context.limits.time).share(PARTS);
        let mut levels = Self { levels: Vec::new(), remark: String::new() };
        loop {
            let below = levels.top(context.instance);
            let count = below.operators().len();
            let enough = if levels.levels.is_empty() { nodes } else { nodes + nodes / 2 };
            if count <= enough {
                break;
            }
            let partition = Partition::new(below, context.parameters.count::<Operators>(), nodes);
            let (upper, remark) = level(context, below, &partition, goal, clock)?;
            // Where nothing merges, there is nothing to gain from a level more.
            if upper.instance.operators().len() * 10 > count * 9 {
                break;
            }
            levels.remark = format!("{}{remark}; ", levels.remark);
            levels.levels.push(upper);
        }
        let nodes = levels.top(context.instance).operators().len();
        levels.remark = format!("{}{nodes} nodes on top", levels.remark);
        Ok(levels)
    }

    fn top<'a>(&'a self, instance: &'a Instance) -> &'a Instance {
        self.levels.last().map_or(instance, |upper| &upper.instance)
    }

    fn answer(
        &self,
        context: &Context<'_>,
        budget: Option<u64>,
        time: Option<Duration>,
    ) -> Result<Answer, MethodError> {
        let instance = context.instance;
        let began = Instant::now();
        let store_all = with_liveness(instance, &Plan::fastest(instance).store_all(instance));
        let fits = |claimed: Claimed| budget.is_none_or(|budget| claimed.peak_bytes <= budget);
        if Claimed::simulated(instance, &store_all).is_ok_and(fits) {
            let note = "nothing recomputed; no solver asked".into();
            return Ok(Answer { budget, note, ..Answer::of(instance, store_all, began)? });
        }
        let method = method(context, "monet")?;
        let top = self.top(instance);
        method.supports(top)?;
        let parameters = Parameters::defaults(method.about().parameters);
        let budgets = [budget];
        let limits = Limits { time, ..context.limits };
        let above = Context::new(top, &parameters, &budgets, limits);
        let answer = method.answers(&above)?.pop();
        let answer = answer.ok_or_else(|| MethodError::Internal("no answer of the level on top".into()))?;
        let termination = unproved(answer.termination);
        let above = answer
            .claimed
            .map_or_else(String::new, |claimed| format!("; {} bytes as counted there", claimed.peak_bytes));
        let note = format!("{}{above}: {}", self.remark, answer.note);
        let Some(schedule) = answer.schedule else {
            return Ok(Answer { note, solve: began.elapsed(), ..Answer::without_schedule(budget, termination) });
        };
        let runs: Vec<Compute> =
            self.levels.iter().rev().fold(schedule.runs().collect(), |runs, upper| upper.expand(&runs));
        let found = Answer::of(instance, with_liveness(instance, &runs), began)?;
        if let Some(claimed) = found.claimed.filter(|&claimed| !fits(claimed)) {
            return Err(MethodError::Internal(format!("the level on top needs less than its schedule: {claimed:?}")));
        }
        Ok(Answer { budget, termination, note, ..found })
    }
}

/// The level above some blocks; and what to say of it.
fn level(
    context: &Context<'_>,
    instance: &Instance,
    partition: &Partition,
    goal: Goal,
    clock: Clock,
) -> Result<(Upper, String), MethodError> {
    let blocks = partition.blocks.iter().zip(partition.boundaries(instance));
    let blocks = blocks.map(|(block, boundary)| match block.forward.len() {
        1 => None,
        _ => Block::new(instance, block, &boundary).ok(),
    });
    let blocks: Vec<Option<Block>> = blocks.collect();
    let (found, remark) = plan_blocks(context, &blocks, goal, clock)?;
    let options = blocks.iter().zip(found).map(|(block, known)| -> Vec<StageOption> {
        let known = spread(known, context.parameters.count::<Choice>()).into_iter();
        known.filter_map(|known| Some(block.as_ref()?.option("", &known.computes))).collect()
    });
    let options: Vec<Vec<StageOption>> = options.collect();
    let upper = Upper::new(instance, partition, &options).map_err(|error| MethodError::TooLarge(error.to_string()))?;
    Ok((upper, remark))
}

/// So many options of a block: the fastest, the one that saves least, then those furthest from the ones chosen in saved
/// bytes; those first that save less than all faster ones.
fn spread(mut known: Vec<Known>, most: usize) -> Vec<Known> {
    known.sort_by_key(|known| (known.point.time, known.point.saved, known.point.peak));
    let mut least = u64::MAX;
    let (gains, others): (Vec<Known>, Vec<Known>) = known.into_iter().partition(|known| {
        let before = least;
        least = least.min(known.point.saved);
        known.point.saved < before
    });
    let mut chosen: Vec<Known> = Vec::with_capacity(most);
    for mut left in [gains, others] {
        while !left.is_empty() && chosen.len() < most {
            let distance = |known: &Known| {
                let saved = |other: &Known| known.point.saved.abs_diff(other.point.saved);
                chosen.iter().map(saved).min().unwrap_or(0)
            };
            let at = match chosen.len() {
                0 => 0,
                1 => left.len() - 1,
                _ => (0..left.len()).rev().max_by_key(|&at| distance(&left[at])).unwrap_or(0),
            };
            chosen.push(left.remove(at));
        }
    }
    chosen
}
