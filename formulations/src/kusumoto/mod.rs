//! `kusumoto-2019`: recomputation by sequences of lower sets of the forward graph.
//!
//! [`graph`] reads the paper's nodes off an instance, [`family`] enumerates lower sets,
//! [`steps`] prices the steps between them, which [`scan`] finds, [`program`] is Algorithm 1: the least budget by the
//! passes of [`reach`], the best sequence by [`search`] within the bounds of [`knapsack`]; [`strategy`] turns a sequence of
//! lower sets into a schedule. [`chen`] is the method that it was compared with.

pub mod chen;
pub mod family;
pub mod graph;
pub mod knapsack;
pub mod program;
pub mod reach;
pub mod scan;
pub mod search;
pub mod steps;
pub mod strategy;

use std::time::Duration;

use fixedbitset::FixedBitSet;
use remat_core::Instance;

use crate::method::claim::{self, Kept, Runs, Time};
use crate::method::parameters::Parameters;
use crate::method::{
    About, Answer, BudgetUse, Claim, Claimed, Class, Context, Method, MethodError, SkipReason, Termination,
};
use crate::search::clock::Clock;
use crate::{setting, settings};
use family::Stop;
use graph::Graph;
use program::Goal;
use search::Search;
use steps::{LastGroup, Memory, Steps};
use strategy::Liveness;

/// The best canonical strategy for a budget.
///
/// # Problem
/// The general recomputation problem (section 3): an increasing sequence of lower sets L_1, ..., L_k = V
/// of the forward graph with the least overhead (1), `objective=time-centric`, or the greatest,
/// `objective=memory-centric` (section 4.4), whose peak (2) meets the budget. Forward, group
/// V_i = L_i \ L_{i-1} keeps its boundary and nothing else; backward, each group is recomputed once.
///
/// # Variables
/// opt(L, t), the least m = M(U_i) of a sequence that ends in L with overhead t; here, per lower set,
/// the pairs (t, m) that no other pair of that set makes superfluous.
///
/// # Constraints
/// Equation (2), M(U_{i-1}) + 2 M(V_i) + M(delta+(L_i) \ L_i) + M(delta-(delta+(L_i)) \ L_i) <= B, in
/// Algorithm 1. `dp=exact`: over all lower sets; `dp=approximate`: over L^v, the nodes from which v is
/// reachable, for every v, and V.
///
/// # Size
/// At most lower sets squared times the pairs per set; up to the number of nodes of them for the approximate
/// program, up to 2^nodes for the exact one. With more than `max-lower-sets`, or more than half of the time
/// allows, the answer is that of the approximate program, with `node_limit` or `time_limit`.
///
/// # Departures from the paper
/// A node is a forward operator (loss included), M_v the bytes of all that it makes, saved tensors
/// included: a cached node is not recomputed, so all of it is cached. T_v is 10 for a convolution and 1
/// otherwise (`costs=unit`), or the instance's times (`costs=times`, the default; `time-steps` rounds them up, for there are as many pairs as there are different sums). Backward operators run in the group of
/// the operator that they differentiate; sums of gradients in the first group (groups go backwards) in
/// which all that they add is there. Edges also lead from a node to every later one whose backward
/// reads it.
///
/// To (2) are added the fixed bytes, the inputs, the results of forward operators, and the gradients
/// of parameters made so far. The paper's computation graph pulls: the gradient of v is made from those
/// of its successors, in v's group, and (2) counts the latter. Autograd pushes: an operator's backward
/// makes the gradients of all its inputs in its own group. What then is alive is counted too: all that
/// the operators of V_i make forward and backward, the gradients (and forward tensors) from later
/// groups that are still read, and the largest workspace. `memory=larger` (the default) takes, per group, the larger of (2)
/// and that sum; `memory=instance` the latter alone, which no schedule exceeds without liveness analysis, and many
/// stay below.
///
/// The family of the approximate program lacks V where the graph has several sinks; it is added. "min"
/// becomes "max" in line 17 of Algorithm 1, not 15 as Appendix A says. The boundary of V is empty, so
/// by (1) the last group is recomputed too; `last-group=keep` does not.
///
/// # Claim
/// Exact and time-centric: no canonical strategy whose claimed peak meets the budget has less overhead
/// in the chosen costs; `infeasible` means that there is no such strategy. Otherwise a heuristic.
/// `liveness=off` frees only at the ends of groups, as the paper's strategy does; `on` after each last
/// read. The claimed peak is the same for both.
///
/// # Reference
/// Kusumoto et al., "A Graph Theoretic Framework of Recomputation Algorithms for Memory-Efficient
/// Backpropagation", NeurIPS 2019 (kusumoto-neurips-2019), sections 3 and 4, Algorithm 1.
pub struct Kusumoto;

setting! {
    /// over all lower sets, or over one per node
    enum Program("dp") = Exact { Exact = "exact", Approximate = "approximate" }
}

setting! {
    /// the instance's times, or the paper's: 10 for a convolution, 1 otherwise
    enum Costs("costs") = Times { Times = "times", Unit = "unit" }
}

setting! {
    /// round times up to that part of the forward pass, which bounds time and memory of the program; auto: exact
    TimeSteps("time-steps"): auto or number from 1 to 1_000_000
}

setting! {
    /// plan for the budget, or for the least that has a plan, as in the paper
    pub enum PlanFor("budget") = Given { Given = "given", Least = "least" }
}

setting! {
    /// lower sets beyond which the exact program does not start; the answer is the approximate program's then
    MaxLowerSets("max-lower-sets"): number from 2 to 10_000_000 = 50000
}

impl Method for Kusumoto {
    fn about(&self) -> About {
        About {
            id: "kusumoto-2019",
            title: "best sequence of lower sets of the forward graph, each group recomputed once",
            reference: "kusumoto-neurips-2019, equations (1) and (2), Algorithm 1",
            parameters: settings![Program, Goal, Costs, TimeSteps, Liveness, Memory, PlanFor, LastGroup, MaxLowerSets],
            budgets: BudgetUse::Used,
        }
    }

    fn claim(&self, parameters: &Parameters) -> Claim {
        let class = Class {
            runs: Runs::AtMost(2),
            kept: match parameters.get::<LastGroup>() {
                LastGroup::Keep => Kept::LastGroupKept,
                LastGroup::Recompute => Kept::LowerSets,
            },
            memory: match parameters.get::<Memory>() {
                Memory::Instance => claim::Memory::Groups,
                Memory::Larger => claim::Memory::Equation2,
            },
            time: match parameters.get::<Costs>() {
                Costs::Unit => Time::UnitCosts,
                Costs::Times => Time::Equation1,
            },
            ..Class::ALL
        };
        let asked = (parameters.get::<Program>(), parameters.get::<Goal>(), parameters.get::<PlanFor>());
        let exact = asked == (Program::Exact, Goal::TimeCentric, PlanFor::Given);
        if exact && !rounded(parameters) { Claim::optimum(class) } else { Claim::heuristic(class) }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Graph::new(instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let part = |quarters| Clock::start(context.limits.time.map(|time| time / 4 * quarters));
        // The last quarter is for the best sequence.
        let (for_family, for_steps, clock) = (part(2), part(3), Clock::start(context.limits.time));
        let graph = Graph::new(context.instance)?;
        let parameters = context.parameters;
        let times = times(context.instance, &graph, parameters);
        let last_group = parameters.get::<LastGroup>();
        let settings = (parameters.get::<Memory>(), last_group);
        let plan_for_least = parameters.get::<PlanFor>() == PlanFor::Least;
        let family = Family::new(&graph, parameters, for_family);
        let built = (|| {
            let most = if plan_for_least { least_of_pruned(&graph, &times, settings, clock)? } else { u64::MAX };
            match Steps::new(&graph, family.sets, &times, settings, most, for_steps) {
                Err(stop) if family.exact => {
                    let sets = family::pruned(&graph);
                    Ok((Steps::new(&graph, sets, &times, settings, most, clock)?, false, Some(stop)))
                }
                steps => Ok((steps?, family.exact, family.stop)),
            }
        })();
        let (steps, exact, stop) = match built {
            Ok(built) => built,
            Err(stop) => {
                context.answer_each(|_, budget| Ok(stopped(budget, stop)));
                return Ok(());
            }
        };
        let least = plan_for_least.then(|| program::least_budget(&steps, clock));
        let build = clock.elapsed();
        let mut planner = Planner {
            context,
            graph: &graph,
            steps: &steps,
            exact,
            stop,
            goal: parameters.get::<Goal>(),
            last_group,
            liveness: parameters.get::<Liveness>(),
            // As much for each budget as if it were the only one.
            search: context.limits.time.map(|time| time.saturating_sub(build)),
            build,
        };
        context.answer_each(|_, budget| planner.answer(budget, least));
        Ok(())
    }
}

/// Whether times are rounded up, so that an optimum is one of rounded times only.
fn rounded(parameters: &Parameters) -> bool {
    parameters.get::<TimeSteps>().is_some() && parameters.get::<Costs>() == Costs::Times
}

/// T_v; rounded where asked for.
fn times(instance: &Instance, graph: &Graph, parameters: &Parameters) -> Vec<u64> {
    let unit = parameters.get::<Costs>() == Costs::Unit;
    let time = |node: &graph::Node| {
        let convolution = instance.operator(node.operator).op_type.contains("conv");
        match unit {
            true if convolution => 10,
            true => 1,
            false => node.time,
        }
    };
    let times: Vec<u64> = graph.nodes.iter().map(time).collect();
    let total: u64 = times.iter().sum();
    match parameters.get::<TimeSteps>() {
        Some(steps) if !unit => times.iter().map(|&time| time.next_multiple_of((total / steps).max(1))).collect(),
        _ => times,
    }
}

/// The least budget of the pruned family, which is few sets: that of all lower sets is no more, so steps that need more
/// are left out.
fn least_of_pruned(graph: &Graph, times: &[u64], settings: (Memory, LastGroup), clock: Clock) -> Result<u64, Stop> {
    program::least_budget(&Steps::new(graph, family::pruned(graph), times, settings, u64::MAX, clock)?, clock)
}

/// The lower sets that sequences are made of.
struct Family {
    sets: Vec<FixedBitSet>,
    /// Whether they are all.
    exact: bool,
    /// What kept them from being all, where that was asked for.
    stop: Option<Stop>,
}

impl Family {
    fn new(graph: &Graph, parameters: &Parameters, clock: Clock) -> Self {
        let most = parameters.count::<MaxLowerSets>();
        let pruned = |stop| Self { sets: family::pruned(graph), exact: false, stop };
        if parameters.get::<Program>() == Program::Approximate {
            return pruned(None);
        }
        match family::all(graph, most, clock) {
            Ok(sets) => Self { sets, exact: true, stop: None },
            Err(stop) => pruned(Some(stop)),
        }
    }
}

fn stopped(budget: Option<u64>, stop: Stop) -> Answer {
    let (termination, note) = match stop {
        Stop::LowerSets => (Termination::NodeLimit, "more lower sets than max-lower-sets"),
        Stop::Time => (Termination::TimeLimit, ""),
    };
    Answer { note: note.into(), ..Answer::without_schedule(budget, termination) }
}

/// Answers budgets from one family.
struct Planner<'a> {
    context: &'a Context<'a>,
    graph: &'a Graph,
    steps: &'a Steps<'a>,
    exact: bool,
    stop: Option<Stop>,
    goal: Goal,
    last_group: LastGroup,
    liveness: Liveness,
    search: Option<Duration>,
    build: Duration,
}

impl Planner<'_> {
    fn answer(&mut self, budget: Option<u64>, least: Option<Result<u64, Stop>>) -> Result<Answer, MethodError> {
        let clock = Clock::start(self.search);
        let within = budget.unwrap_or(u64::MAX);
        // Planning for the least budget: nothing where the budget is less than that.
        let target = match least {
            None => Ok(Some(within)),
            Some(least) => least.map(|least| Some(least).filter(|&least| least <= within)),
        };
        let (sequence, stop) = match target {
            Err(stop) => (None, Some(stop)),
            Ok(None) => (None, self.stop),
            Ok(Some(target)) => {
                let mut search = Search::new(self.steps, target, self.goal);
                match search.best(clock) {
                    Ok(sequence) => (sequence, self.stop),
                    Err(stop) => (search.incumbent, Some(stop)),
                }
            }
        };
        let parameters = self.context.parameters;
        let rounded = rounded(parameters);
        let termination = match (&sequence, self.exact) {
            (None, true) => Termination::Infeasible,
            (None, false) => Termination::NotFound,
            (Some(_), true) if self.goal == Goal::TimeCentric && !rounded && least.is_none() => Termination::Optimal,
            (Some(_), _) => Termination::Feasible,
        };
        let mut answer = match stop {
            Some(stop) => stopped(budget, stop),
            None => Answer::without_schedule(budget, termination),
        };
        let whence =
            format!("{} {}", self.steps.sets.len(), if self.exact { "lower sets" } else { "pruned lower sets" });
        let words = sequence.as_ref().map_or(whence.clone(), |groups| format!("{} groups of {whence}", groups.len()));
        if sequence.is_some() || stop.is_none() {
            let before = if answer.note.is_empty() { String::new() } else { format!("{}; ", answer.note) };
            answer.note = before + &words;
        }
        if let Some(sequence) = sequence {
            let sets: Vec<_> = sequence.iter().map(|&position| &self.steps.sets[position]).collect();
            let (instance, group_of) = (self.context.instance, strategy::groups(self.graph, &sets));
            let schedule = strategy::schedule(instance, self.graph, &group_of, self.last_group, self.liveness);
            let (_, peak_bytes) = program::evaluate(self.steps, &sequence);
            answer.claimed = Some(Claimed { peak_bytes, ..Claimed::simulated(instance, &schedule)? });
            answer.schedule = Some(schedule);
        }
        Ok(Answer { build: std::mem::take(&mut self.build), solve: clock.elapsed(), ..answer })
    }
}
