//! `torch-mincut` and `torch-budget`: what `torch.compile` saves between forward and backward pass.
//!
//! [`graph`] is the joint graph, [`operators`] PyTorch's lists, [`cut`] its rules and the minimum cut over [`flow`],
//! [`choose`] the memory budget with the knapsacks of [`knapsack`] and the counter of [`flops`].

pub mod choose;
pub mod cut;
pub mod flops;
pub mod flow;
pub mod graph;
pub mod knapsack;
pub mod operators;

use std::collections::HashSet;

use remat_core::plan::Plan;
use remat_core::{Instance, Schedule};

use super::planner::Planner;
use super::saved::schedule;
use crate::method::claim::{Order, Runs};
use crate::method::parameters::Parameters;
use crate::method::{About, BudgetUse, Class, Context, MethodError, SkipReason};
use crate::search::separation::{Solver, Solving};
use crate::search::sweep::{Sweep, coarse_to_fine};
use crate::store_all::{out_of_place, store_all};
use crate::{setting, settings};
use choose::Chooser;
use cut::{Bans, minimum_cut};
use graph::Graph;

/// The minimum cut with which `torch.compile` divides an iteration.
///
/// # Problem
/// Which values of the forward pass are saved for the backward pass, and which are recomputed there: the cheapest
/// vertex cut between what must not be recomputed and what the gradients of the loss need.
///
/// # Variables
/// Per value v, whether it is saved. Saving costs trunc(bytes 1.1^d), d the least number of edges from v to the backward
/// pass, at least 1 and at most 100; twice that where every reader can be fused with v.
///
/// # Constraints
/// Inputs are never recomputed. Views aside, neither is an operator
///
/// * that is not on PyTorch's list of recomputable ones (`operators`);
/// * that the backward pass reads with one that it does not fuse with;
/// * whose result has less than a quarter of the bytes that it reads;
/// * that is fusible with a value, but reads it after one on the way that is not;
/// * at the end of a chain of fusible operators that is longer than 100 positions.
///
/// Of several minimum cuts the one nearest the backward pass is taken.
///
/// # Size
/// One maximum flow on two vertices per value.
///
/// # Departures from the paper
/// * PyTorch cuts graphs of operators after decomposition; instances hold normalisations, softmax and losses whole. With
///   `operators=decomposed` they count as what they decompose into (recomputable and fusible), with `listed` as PyTorch's
///   lists have them: kept. On decomposed graphs both are the same, and the saved values are PyTorch's own.
/// * Parameters are no tensors here. They cost PyTorch nothing to save, and enter its rules only through the sizes
///   that a reduction reads.
/// * An instance folds views into their storage; PyTorch may save a view beside its base, and counts both.
/// * What may not run again in the instance is saved. Random operators are saved too, as PyTorch's lists have it.
/// * PyTorch fuses what it recomputes; here every operator takes its own time, and peaks are of unfused graphs.
/// * A value whose producer runs again for another result is replaced by the new copy.
///
/// # Claim
/// Heuristic. There is no budget: PyTorch's own default is one schedule.
///
/// # Reference
/// PyTorch 2.15.0, `torch/_functorch/partitioners.py`, `min_cut_rematerialization_partition`.
pub struct TorchMincut;

/// The memory budget of `torch.compile` (`activation_memory_budget`).
///
/// # Problem
/// Which values are saved, given b between 0 and 1: b = 1 is `torch-mincut`, b = 0 saves the inputs only. PyTorch's b is
/// no limit on the peak. Here every b of a grid is tried, and of the schedules whose simulated peak is within the
/// budget the fastest is the answer; the peak is not monotone in b, so that nothing is bisected.
///
/// # Variables
/// b; and per operator that must not be recomputed whatever fuses with it, whether it is saved all the same.
///
/// # Constraints
/// With S1 the default, S2 the cut that recomputes whatever is on PyTorch's list, and S3 the one that recomputes all but
/// random and compute-intensive operators: S2 or else S3 if its share (bytes - inputs) / (S1 - inputs) is below b. Else a
/// knapsack of capacity b over the operators that S3 keeps, largest first: their shares of bytes, and their
/// runtimes by `estimator`. What it leaves out may be recomputed; S3's cut is made once more.
///
/// # Size
/// At most 1025 knapsacks, cuts and simulations; equal ones are done once. They go from coarse to fine, so that a sweep that
/// runs out of time has seen the whole range.
///
/// # Departures from the paper
/// * Those of `torch-mincut`. The scale of b lacks the parameters that PyTorch counts on both sides.
/// * `estimator=time` takes the instance's times where PyTorch measures on a GPU; `flops` counts matrix products and
///   convolutions by the shapes of the instance, everything else as 1, and attention kernels as 1 too.
/// * `solver=dp` rounds each size to the nearest 1/10000 and adds runtimes in single precision, as PyTorch does: it may exceed
///   its capacity, and may leave out what would fit. `greedy` fails in PyTorch on values without bytes; here they come
///   first. `ilp` counts a variable above one half as saved, PyTorch only one that is exactly 1.
/// * `dp_knapsack_sliding_hirschberg` is not here: it hands one half of the items a unit more capacity than there is (PyTorch
///   issue 197871), and is otherwise `dp` in less memory.
///
/// # Claim
/// Heuristic.
///
/// # Reference
/// PyTorch 2.15.0, `torch/_functorch/partitioners.py`, `choose_saved_values_set`, and
/// `torch/_functorch/_activation_checkpointing/knapsack.py`.
pub struct TorchBudget;

setting! {
    /// how normalisations, softmax and losses count: as what Inductor decomposes them into, or by PyTorch's lists alone
    pub enum Operators("operators") = Decomposed { Decomposed = "decomposed", Listed = "listed" }
}

setting! {
    /// PyTorch's activation_memory_budget in thousandths; auto: all multiples of 1/1024
    pub BudgetPermille("b-permille"): auto or number from 0 to 1_000
}

setting! {
    /// how the knapsack is solved: PyTorch's dynamic program, by runtime per byte, or as an integer program
    pub enum Knapsack("solver") = Dp { Dp = "dp", Greedy = "greedy", Ilp = "ilp" }
}

setting! {
    /// what recomputing costs: floating-point operations, the instance's times, or 1 per operator
    pub enum Estimator("estimator") = Flops { Flops = "flops", Time = "time", Unit = "unit" }
}

/// Schedules of a partitioned iteration: no operator runs more than twice.
const CLASS: Class = Class { order: Order::Free, runs: Runs::AtMost(2), ..Class::STAGES };

/// Steps of the grid of budgets.
const GRID: usize = 1024;

/// The joint graph, and the implementations.
pub struct Traced {
    graph: Graph,
    plan: Plan,
}

impl Traced {
    fn new(instance: &Instance, parameters: &Parameters) -> Result<Self, SkipReason> {
        let plan = Plan::fastest(instance);
        store_all(instance, &plan)?;
        out_of_place(instance, &plan)?;
        let graph = Graph::new(instance, &plan, parameters.get::<Operators>() == Operators::Decomposed)?;
        Ok(Self { graph, plan })
    }

    /// The schedule that saves the values of some vertices, and how many bytes they have.
    fn saving(&self, instance: &Instance, saved: &[usize]) -> (Schedule, String) {
        let vertices = saved.iter().map(|&at| &self.graph.vertices[at]);
        let values: Vec<_> = vertices.filter_map(|vertex| vertex.operator.and(vertex.value)).collect();
        let mut is_saved = vec![false; instance.tensors().len()];
        for value in &values {
            is_saved[value.index()] = true;
        }
        let bytes: u64 = values.iter().map(|&value| instance.tensor(value).bytes).sum();
        (schedule(instance, &self.plan, &is_saved), format!("{} values of {bytes} bytes saved", values.len()))
    }
}

impl Planner for TorchMincut {
    const CLASS: Class = CLASS;
    type View<'a> = Traced;

    fn about(&self) -> About {
        About {
            id: "torch-mincut",
            title: "what torch.compile saves by default",
            reference: "PyTorch 2.15.0, torch/_functorch/partitioners.py",
            parameters: settings![Operators],
            budgets: BudgetUse::Ignored,
        }
    }

    fn view(&self, instance: &Instance, parameters: &Parameters) -> Result<Traced, SkipReason> {
        Traced::new(instance, parameters)
    }

    fn plan(&self, traced: Traced, context: &Context<'_>) -> Result<(), MethodError> {
        let mut sweep = Sweep::new(context);
        let nothing = vec![false; traced.graph.vertices.len()];
        let cut = minimum_cut(&traced.graph, Bans::DEFAULT, &nothing).ok_or_else(choose::uncuttable)?;
        let (schedule, words) = traced.saving(context.instance, &cut.saved);
        sweep.offer(&schedule, &words)?;
        sweep.answer("");
        Ok(())
    }
}

impl Planner for TorchBudget {
    const CLASS: Class = CLASS;
    type View<'a> = Traced;

    fn about(&self) -> About {
        About {
            id: "torch-budget",
            title: "torch.compile's memory budget: the fastest of its grid within the peak",
            reference: "PyTorch 2.15.0, torch/_functorch/partitioners.py and _activation_checkpointing/knapsack.py",
            parameters: settings![Knapsack, Estimator, Operators, BudgetPermille],
            budgets: BudgetUse::Used,
        }
    }

    fn view(&self, instance: &Instance, parameters: &Parameters) -> Result<Traced, SkipReason> {
        Traced::new(instance, parameters)
    }

    fn plan(&self, traced: Traced, context: &Context<'_>) -> Result<(), MethodError> {
        let mut sweep = Sweep::new(context);
        let knapsack = context.parameters.get::<Knapsack>();
        let solver = remat_solvers::backend(Solver::Highs.word());
        let solver = solver.map_err(|error| MethodError::Internal(error.to_string()))?;
        let solving = Solving { solver, threads: context.limits.threads, seed: context.limits.seed };
        let estimator = context.parameters.get::<Estimator>();
        let Traced { graph, plan } = &traced;
        let mut chooser = Chooser::new(context.instance, plan, graph, estimator, knapsack, solving)?;
        let budgets: Vec<f64> = match context.parameters.get::<BudgetPermille>() {
            Some(permille) => vec![permille as f64 / 1000.0],
            None => coarse_to_fine(GRID).into_iter().map(|step| step as f64 / GRID as f64).collect(),
        };
        let mut seen = HashSet::new();
        for budget in budgets {
            if sweep.is_over() {
                break;
            }
            let choice = chooser.choose(budget)?;
            if seen.insert(choice.saved.clone()) {
                let (schedule, words) = traced.saving(context.instance, &choice.saved);
                sweep.offer(&schedule, &format!("b = {budget}: {}, {words}", choice.step))?;
            }
        }
        let words = format!("{} different schedules", sweep.tried());
        sweep.answer(&words);
        Ok(())
    }
}
