//! The values that PyTorch saves with a memory budget (`choose_saved_values_set`).

use std::collections::HashMap;

use remat_core::Instance;
use remat_core::plan::Plan;
use remat_solvers::{Model, Request};

use super::cut::{Bans, Cut, minimum_cut};
use super::graph::{FAR, Graph};
use super::knapsack::{Item, Table, greedy};
use super::{Estimator, Knapsack, flops};
use crate::method::MethodError;
use crate::search::separation::Solving;

/// What depends on no budget.
pub struct Chooser<'a> {
    graph: &'a Graph,
    inputs: u64,
    default: Cut,
    listed: Cut,
    fewest: Cut,
    /// What the knapsack decides about, and its items.
    candidates: Vec<usize>,
    items: Vec<Item>,
    packing: Packing,
    /// The cut for each choice of the knapsack.
    known: HashMap<Vec<bool>, Vec<usize>>,
}

/// How the knapsack is filled.
enum Packing {
    Table(Table),
    Whole(Solving),
    Greedy,
}

/// The saved vertices for one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Ascending.
    pub saved: Vec<usize>,
    /// Which of PyTorch's steps chose them.
    pub step: &'static str,
}

impl<'a> Chooser<'a> {
    /// The three cuts, and the items of the knapsack.
    ///
    /// # Errors
    /// Something that the backward pass needs can be neither saved nor recomputed.
    pub fn new(
        instance: &Instance,
        plan: &Plan,
        graph: &'a Graph,
        estimator: Estimator,
        solver: Knapsack,
        solving: Solving,
    ) -> Result<Self, MethodError> {
        let nothing = vec![false; graph.vertices.len()];
        let cut = |bans| minimum_cut(graph, bans, &nothing).ok_or_else(uncuttable);
        let (default, listed, fewest) = (cut(Bans::DEFAULT)?, cut(Bans::LISTED)?, cut(Bans::FEWEST)?);
        let inputs = graph.vertices.iter().filter(|vertex| vertex.operator.is_none()).map(|vertex| vertex.bytes).sum();
        let decides = |at: &usize| {
            let vertex = &graph.vertices[*at];
            vertex.operator.is_some() && vertex.distance < FAR && !vertex.once
        };
        let mut candidates: Vec<usize> = fewest.banned.iter().copied().filter(decides).collect();
        candidates.sort_by_key(|&at| std::cmp::Reverse(graph.vertices[at].bytes));
        let scale = gigabytes(graph, &default.saved) - inputs as f64 / 1e9;
        let item = |&at: &usize| {
            let vertex = &graph.vertices[at];
            let runtime = vertex.operator.map_or(1.0, |id| match estimator {
                Estimator::Unit => 1.0,
                Estimator::Flops => flops::flops(instance, id).unwrap_or(0).max(1) as f64,
                Estimator::Time => {
                    let way = plan.saving_again[id.index()].unwrap_or(plan.saving[id.index()]);
                    instance.operator(id).implementations[way].time as f64
                }
            });
            Item { memory: vertex.bytes as f64 / 1e9 / scale, runtime }
        };
        let items: Vec<Item> = candidates.iter().map(item).collect();
        let packing = match solver {
            Knapsack::Dp if scale > 0.0 => Packing::Table(Table::new(&items)),
            Knapsack::Ilp => Packing::Whole(solving),
            Knapsack::Dp | Knapsack::Greedy => Packing::Greedy,
        };
        let known = HashMap::new();
        Ok(Self { graph, inputs, default, listed, fewest, candidates, items, packing, known })
    }

    /// What is saved with a budget between 0 and 1.
    ///
    /// # Errors
    /// The solver fails, or something can be neither saved nor recomputed.
    pub fn choose(&mut self, budget: f64) -> Result<Choice, MethodError> {
        if budget <= 0.0 {
            let inputs = (0..self.graph.vertices.len()).filter(|&at| self.graph.vertices[at].operator.is_none());
            return Ok(Choice { saved: inputs.collect(), step: "inputs only" });
        }
        let (least, most) = (self.inputs as f64 / 1e9, gigabytes(self.graph, &self.default.saved));
        let ratio = |cut: &Cut| (gigabytes(self.graph, &cut.saved) - least) / (most - least);
        let fixed = if budget >= 1.0 || most <= least {
            Some((&self.default, "default"))
        } else if ratio(&self.listed) < budget {
            Some((&self.listed, "recomputable operators only"))
        } else if ratio(&self.fewest) < budget || self.items.is_empty() {
            Some((&self.fewest, "all but compute-intensive operators"))
        } else {
            None
        };
        if let Some((cut, step)) = fixed {
            return Ok(Choice { saved: cut.saved.clone(), step });
        }
        let kept = self.knapsack(budget)?;
        if !self.known.contains_key(&kept) {
            let mut allowed = vec![false; self.graph.vertices.len()];
            self.candidates.iter().zip(&kept).for_each(|(&at, kept)| allowed[at] = !kept);
            let cut = minimum_cut(self.graph, Bans::FEWEST, &allowed).ok_or_else(uncuttable)?;
            self.known.insert(kept.clone(), cut.saved);
        }
        Ok(Choice { saved: self.known[&kept].clone(), step: "knapsack" })
    }

    fn knapsack(&self, capacity: f64) -> Result<Vec<bool>, MethodError> {
        match &self.packing {
            Packing::Table(table) => Ok(table.saved(capacity)),
            Packing::Whole(solving) => whole(&self.items, capacity, solving),
            Packing::Greedy => Ok(greedy(&self.items, capacity)),
        }
    }
}

fn gigabytes(graph: &Graph, saved: &[usize]) -> f64 {
    let bytes: u64 = saved.iter().map(|&at| graph.vertices[at].bytes).sum();
    bytes as f64 / 1e9
}

/// What the minimum cut says where there is none.
pub(super) fn uncuttable() -> MethodError {
    MethodError::Internal("something that the backward pass needs can be neither saved nor recomputed".into())
}

/// The knapsack as an integer program.
fn whole(items: &[Item], capacity: f64, solving: &Solving) -> Result<Vec<bool>, MethodError> {
    let mut model = Model::with_capacity(items.len(), 1, items.len());
    let most = items.iter().map(|item| item.runtime).fold(1.0, f64::max);
    let columns: Vec<_> = items.iter().map(|item| model.binary(-item.runtime / most)).collect();
    model.at_most(capacity, columns.iter().copied().zip(items.iter().map(|item| item.memory)));
    let request = Request { threads: solving.threads, seed: solving.seed, ..Request::default() };
    let outcome = solving.solver.solve(&model, &request)?;
    let point =
        outcome.incumbent.ok_or_else(|| MethodError::Internal(format!("the knapsack: {}", outcome.raw_status)))?;
    Ok(point.into_iter().map(|value| value > 0.5).collect())
}
