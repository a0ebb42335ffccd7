//! The canonical strategy of a sequence of lower sets, as a schedule.

use fixedbitset::FixedBitSet;
use remat_core::instance::{Instance, TensorId};
use remat_core::liveness::{Compute, with_liveness};
use remat_core::{Schedule, Step};

use super::graph::Graph;
use super::steps::LastGroup;
use crate::setting;

setting! {
    /// on: free after each last read; off: as the strategy says, at the ends of groups
    pub enum Liveness("liveness") = On { On = "on", Off = "off" }
}

/// The group of each node, V_i by i, of a sequence of lower sets, V last.
pub fn groups(graph: &Graph, sequence: &[&FixedBitSet]) -> Vec<usize> {
    let last = sequence.len() - 1;
    (0..graph.nodes.len()).map(|node| sequence.partition_point(|set| !set.contains(node)).min(last)).collect()
}

/// The schedule of nodes in groups, each of which comes after those that it reads.
pub fn schedule(
    instance: &Instance,
    graph: &Graph,
    group_of: &[usize],
    last_group: LastGroup,
    liveness: Liveness,
) -> Schedule {
    let mut run = Run::new(instance, graph, group_of, last_group, liveness);
    let count = run.nodes.len();
    for group in 0..count {
        run.forward(group);
    }
    for group in (0..count).rev() {
        run.backward(group);
    }
    let schedule = Schedule::new(run.steps);
    match liveness {
        Liveness::Off => schedule,
        Liveness::On => with_liveness(instance, &schedule.runs().collect::<Vec<_>>()),
    }
}

struct Run<'a> {
    instance: &'a Instance,
    graph: &'a Graph,
    /// Nodes of each group, V_i, in the instance's order.
    nodes: Vec<Vec<usize>>,
    /// Backward operators of each group, in the instance's order.
    backward: Vec<Vec<usize>>,
    /// Whether the node is in U_k.
    cached: Vec<bool>,
    keep_last: bool,
    liveness: Liveness,
    /// Group of the last backward operator (the lowest) that reads the tensor.
    read_until: Vec<Option<usize>>,
    /// Group of the maker, and whether it is a forward one.
    made_in: Vec<Option<(usize, bool)>>,
    resident: Vec<bool>,
    steps: Vec<Step>,
}

impl<'a> Run<'a> {
    fn new(
        instance: &'a Instance,
        graph: &'a Graph,
        group_of: &[usize],
        last_group: LastGroup,
        liveness: Liveness,
    ) -> Self {
        let count = group_of.iter().max().map_or(0, |last| last + 1);
        let mut run = Self {
            instance,
            graph,
            nodes: vec![Vec::new(); count],
            backward: vec![Vec::new(); count],
            cached: vec![false; graph.nodes.len()],
            keep_last: last_group == LastGroup::Keep,
            liveness,
            read_until: vec![None; instance.tensors().len()],
            made_in: vec![None; instance.tensors().len()],
            resident: vec![false; instance.tensors().len()],
            steps: Vec::new(),
        };
        for (node, &group) in group_of.iter().enumerate() {
            run.nodes[group].push(node);
            // What is in a later boundary is in that of its own group.
            run.cached[node] = graph.nodes[node].successors.iter().any(|&next| group_of[next] > group);
            let operator = instance.operator(graph.nodes[node].operator);
            for variant in 0..operator.implementations.len() {
                operator.makes(variant).for_each(|made| run.made_in[made.index()] = Some((group, true)));
            }
        }
        for (index, backward) in graph.backward.iter().enumerate() {
            let group = backward.after.iter().map(|&node| group_of[node]).min().unwrap_or(0);
            run.backward[group].push(index);
            let operator = instance.operator(backward.operator);
            let variant = graph.plan.saving[backward.operator.index()];
            operator.makes(variant).for_each(|made| run.made_in[made.index()] = Some((group, false)));
            for read in &operator.implementations[variant].reads {
                let until = &mut run.read_until[read.index()];
                *until = Some(until.map_or(group, |until| until.min(group)));
            }
        }
        run
    }

    fn compute(&mut self, (operator, implementation): Compute) {
        self.steps.push(Step::Compute { operator, implementation });
        for made in self.instance.operator(operator).makes(implementation) {
            self.resident[made.index()] = true;
        }
    }

    /// Frees what is dead, unless that is found out for each copy in the end.
    fn free_all(&mut self, dead: impl Fn(&Self, TensorId) -> bool) {
        if self.liveness == Liveness::On {
            return;
        }
        for id in self.instance.tensor_ids() {
            if self.resident[id.index()] && !self.instance.is_result(id) && dead(self, id) {
                self.resident[id.index()] = false;
                self.steps.push(Step::Free(id));
            }
        }
    }

    /// Evaluates V_i, keeps its boundary, discards the rest.
    fn forward(&mut self, group: usize) {
        let keep = self.keep_last && group + 1 == self.nodes.len();
        let graph = self.graph;
        for node in self.nodes[group].clone() {
            let id = graph.nodes[node].operator;
            let variants = if self.cached[node] || keep { &graph.plan.saving } else { &graph.plan.passing };
            self.compute((id, variants[id.index()]));
        }
        if !keep && self.liveness == Liveness::Off {
            let mut discarded = vec![false; self.resident.len()];
            for &node in self.nodes[group].iter().filter(|&&node| !self.cached[node]) {
                let operator = self.instance.operator(graph.nodes[node].operator);
                for variant in 0..operator.implementations.len() {
                    operator.makes(variant).for_each(|made| discarded[made.index()] = true);
                }
            }
            self.free_all(|_, id| discarded[id.index()]);
        }
    }

    /// Recovers V_i from the cache, runs its backward, discards what nothing needs any more.
    fn backward(&mut self, group: usize) {
        let graph = self.graph;
        let kept = self.keep_last && group + 1 == self.nodes.len();
        if !kept {
            for node in self.nodes[group].clone() {
                let id = graph.nodes[node].operator;
                if let (false, false, Some(again)) =
                    (self.cached[node], graph.nodes[node].only_results, graph.plan.saving_again[id.index()])
                {
                    self.compute((id, again));
                }
            }
        }
        for index in self.backward[group].clone() {
            let id = graph.backward[index].operator;
            self.compute((id, graph.plan.saving[id.index()]));
        }
        self.free_all(|run, id| {
            let read_later = run.read_until[id.index()].is_some_and(|until| until < group);
            let earlier = matches!(run.made_in[id.index()], Some((made, true)) if made < group);
            !read_later && !earlier
        });
    }
}
