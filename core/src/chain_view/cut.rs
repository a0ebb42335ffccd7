//! Where an instance is cut into stages, and which operators belong to which.

use super::{NoChain, StageOperators};
use crate::format::Phase;
use crate::instance::{Instance, OperatorId, TensorId};
use crate::plan::Plan;

/// The stages of an instance, first to last.
pub fn stages(instance: &Instance, plan: &Plan) -> Result<Vec<StageOperators>, NoChain> {
    let trunk = Trunk::new(instance)?;
    Ok(Levels::new(instance, plan, &trunk).stages(instance))
}

/// Whether an operator that reads nothing computed starts a path through the network. Constants do
/// not, nor does what the loss makes of the labels: both follow their readers.
fn starts_a_path(instance: &Instance, id: OperatorId) -> bool {
    instance.operator(id).phase == Phase::Forward && instance.operator(id).reads().next().is_some()
}

fn producer(instance: &Instance, tensor: TensorId) -> Option<OperatorId> {
    instance.tensor(tensor).producer
}

/// The cut tensors, and where the forward operators stand between them.
struct Trunk {
    is_cut: Vec<bool>,
    /// The number of cut tensors through which every path to an operator passes; none for backward ones.
    levels: Vec<Option<usize>>,
}

impl Trunk {
    fn new(instance: &Instance) -> Result<Self, NoChain> {
        let order = instance.order().iter().copied();
        let forward: Vec<_> = order.filter(|&id| instance.operator(id).phase.is_forward()).collect();
        let last = *forward.last().ok_or(NoChain::NoForward)?;
        let paths = Paths::new(instance, &forward);
        let is_cut = paths.cut_tensors(&forward, last);
        let levels = paths.levels(&forward, &is_cut);
        Ok(Self { is_cut, levels })
    }
}

/// The paths from the input through the forward operators, in the instance's order.
struct Paths<'a> {
    instance: &'a Instance,
    /// Operators that begin a path.
    starts: Vec<bool>,
    /// Operators to which a path leads.
    reached: Vec<bool>,
}

impl<'a> Paths<'a> {
    fn new(instance: &'a Instance, forward: &[OperatorId]) -> Self {
        let none = vec![false; instance.operators().len()];
        let mut paths = Self { instance, starts: none.clone(), reached: none };
        for &id in forward {
            let mut makers = paths.computed(id).map(|(_, maker)| maker).peekable();
            let starts = makers.peek().is_none() && starts_a_path(instance, id);
            let reached = starts || makers.any(|maker| paths.reached[maker.index()]);
            (paths.starts[id.index()], paths.reached[id.index()]) = (starts, reached);
        }
        paths
    }

    /// What an operator reads of what forward operators make, with its makers.
    fn computed(&self, id: OperatorId) -> impl Iterator<Item = (TensorId, OperatorId)> + use<'a> {
        let instance = self.instance;
        let made = move |read: TensorId| Some((read, producer(instance, read)?));
        instance.operator(id).reads().filter_map(made).filter(|(_, maker)| instance.operator(*maker).phase.is_forward())
    }

    /// The same along paths.
    fn along(&self, id: OperatorId) -> impl Iterator<Item = (TensorId, OperatorId)> + '_ {
        self.computed(id).filter(|(_, maker)| self.reached[maker.index()])
    }

    /// The tensors through which all paths to the last operator pass. Only operators and tensors on such a path
    /// matter; each of them has a position in the order, and a tensor lies on all paths if no step of one
    /// leads from before its position to behind it.
    fn cut_tensors(&self, forward: &[OperatorId], last: OperatorId) -> Vec<bool> {
        let mut is_cut = vec![false; self.instance.tensors().len()];
        let mut leads_on = vec![false; self.instance.operators().len()];
        leads_on[last.index()] = self.reached[last.index()];
        // Per tensor, the position of its last reader.
        let mut last_reader = vec![None; self.instance.tensors().len()];
        for (position, &id) in forward.iter().enumerate().rev().filter(|(_, id)| self.reached[id.index()]) {
            if leads_on[id.index()] {
                for (read, maker) in self.along(id) {
                    leads_on[maker.index()] = true;
                    last_reader[read.index()].get_or_insert(position);
                }
            }
        }
        let on_a_path = || forward.iter().enumerate().filter(|(_, id)| leads_on[id.index()]);
        let starts = on_a_path().filter(|(_, id)| self.starts[id.index()]);
        // Steps from before the operator at hand lead no further than this.
        let mut furthest = starts.map(|(position, _)| position).next_back().unwrap_or(0);
        for (position, &id) in on_a_path() {
            let operator = self.instance.operator(id);
            let mut made: Vec<TensorId> =
                operator.made().filter(|tensor| last_reader[tensor.index()].is_some()).collect();
            made.sort_unstable();
            made.dedup();
            if let (&[only], true) = (&made[..], furthest <= position) {
                is_cut[only.index()] = true;
            }
            furthest = made.iter().filter_map(|tensor| last_reader[tensor.index()]).fold(furthest, usize::max);
        }
        is_cut
    }

    /// The level of every forward operator.
    fn levels(&self, forward: &[OperatorId], is_cut: &[bool]) -> Vec<Option<usize>> {
        let mut levels: Vec<Option<usize>> = vec![None; self.instance.operators().len()];
        for &id in forward.iter().filter(|id| self.reached[id.index()]) {
            let above = |(read, maker): (TensorId, OperatorId)| {
                Some(levels[maker.index()]? + usize::from(is_cut[read.index()]))
            };
            levels[id.index()] = Some(self.along(id).filter_map(above).min().unwrap_or(0));
        }
        // What no path leads to goes with the first of its readers.
        let mut readers: Vec<Option<usize>> = vec![None; levels.len()];
        for &id in forward.iter().rev() {
            let level = *levels[id.index()].get_or_insert(readers[id.index()].unwrap_or(0));
            for (_, maker) in self.computed(id) {
                let least = readers[maker.index()].get_or_insert(level);
                *least = level.min(*least);
            }
        }
        levels
    }
}

/// The stage of every operator, with boundaries given up where the backward pass does not respect them.
struct Levels {
    of: Vec<usize>,
    /// `given_up[l]`: to which level the boundaries from l on are given up, as far as noted at l.
    given_up: Vec<usize>,
}

impl Levels {
    fn new(instance: &Instance, plan: &Plan, trunk: &Trunk) -> Self {
        let top = trunk.levels.iter().flatten().copied().max().unwrap_or(0);
        let of = trunk.levels.iter().map(|level| level.unwrap_or(top)).collect();
        let mut levels = Self { of, given_up: (0..=top).collect() };
        let is_backward = |id: OperatorId| !instance.operator(id).phase.is_forward();
        for &id in instance.order().iter().filter(|&&id| is_backward(id)) {
            levels.of[id.index()] = levels.backward_level(instance, id, top);
        }
        levels.give_up_unread_cuts(instance, plan, trunk);
        for &id in instance.order() {
            let operator = instance.operator(id);
            let variants = [plan.saving[id.index()], plan.passing[id.index()]];
            for read in variants.into_iter().flat_map(|v| &operator.implementations[v].reads) {
                if let Some(maker) = producer(instance, *read) {
                    let gradient = is_backward(id) && is_backward(maker);
                    levels.respect(id, maker, gradient, trunk.is_cut[read.index()]);
                }
            }
        }
        levels
    }

    /// A saving forward keeps its stage's output. Where no backward reads that tensor (the sum before
    /// a rectifier, say), a boundary there would keep it in vain.
    fn give_up_unread_cuts(&mut self, instance: &Instance, plan: &Plan, trunk: &Trunk) {
        let mut unread = trunk.is_cut.clone();
        for &id in instance.order().iter().filter(|&&id| !instance.operator(id).phase.is_forward()) {
            for read in &instance.operator(id).implementations[plan.saving[id.index()]].reads {
                unread[read.index()] = false;
            }
        }
        for tensor in instance.tensor_ids().filter(|id| unread[id.index()]) {
            if let Some(maker) = producer(instance, tensor) {
                let level = self.of[maker.index()];
                self.give_up(level, level + 1);
            }
        }
    }

    /// A backward operator runs with the forward operator that it differentiates, or as early as it can.
    fn backward_level(&self, instance: &Instance, id: OperatorId, top: usize) -> usize {
        if let Some(forward) = instance.operator(id).differentiates {
            return self.of[forward.index()];
        }
        let makers: Vec<_> = instance.operator(id).reads().filter_map(|t| producer(instance, t)).collect();
        let backward = makers.iter().filter(|m| !instance.operator(**m).phase.is_forward());
        let earliest = backward.map(|m| self.of[m.index()]).min();
        earliest.or_else(|| makers.iter().map(|m| self.of[m.index()]).max()).unwrap_or(top)
    }

    /// Gives up the boundaries between a reader and the maker of what it reads, where the chain model
    /// does not hand such a tensor across.
    fn respect(&mut self, reader: OperatorId, maker: OperatorId, gradient: bool, cut: bool) {
        let (reader, maker) = (self.of[reader.index()], self.of[maker.index()]);
        let (low, high) = match (gradient, cut) {
            // Gradients flow from later stages to earlier ones, across any number of boundaries.
            (true, _) if maker >= reader => return,
            // A stage reads the cut tensor below it, in both passes.
            (false, true) if maker < reader => (maker + 1, reader),
            _ => (maker.min(reader), maker.max(reader)),
        };
        self.give_up(low, high);
    }

    /// Gives up the boundaries between two levels.
    fn give_up(&mut self, low: usize, high: usize) {
        self.given_up[low] = self.given_up[low].max(high);
    }

    fn stages(&self, instance: &Instance) -> Vec<StageOperators> {
        let mut stage_of_level = Vec::with_capacity(self.given_up.len());
        let (mut count, mut given_up) = (0, 0);
        for (level, &to) in self.given_up.iter().enumerate() {
            // The boundary below this level.
            count += usize::from(level == 0 || given_up < level);
            stage_of_level.push(count - 1);
            given_up = given_up.max(to);
        }
        let stage_of: Vec<usize> = self.of.iter().map(|&level| stage_of_level[level]).collect();
        StageOperators::of_groups(instance, &stage_of, count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::generate::layered::{Layered, layered};

    /// The operators that a path leads to when one tensor is taken away.
    fn reached_without(instance: &Instance, paths: &Paths<'_>, forward: &[OperatorId], cut: TensorId) -> Vec<bool> {
        let mut reached = paths.starts.clone();
        for &id in forward {
            let mut on_the_way = paths.computed(id).filter(|&(read, maker)| read != cut && reached[maker.index()]);
            let leads_here = on_the_way.next().is_some();
            reached[id.index()] |= leads_here;
        }
        assert_eq!(reached.len(), instance.operators().len());
        reached
    }

    proptest! {
        #[test]
        fn cut_tensors_are_those_without_which_no_path_reaches_the_end(
            nodes in 3..40_u32,
            width in 0.02..0.6_f64,
            skips in 0.0..0.3_f64,
            seed in 0..1_000_000_u64,
        ) {
            let parameters = Layered { skips, ..Layered::moccasin(nodes, width) };
            let instance = Instance::new(&layered("layered", &parameters, seed)).expect("valid");
            // The source reads nothing: a path begins at each of its readers.
            let forward = instance.order();
            let paths = Paths::new(&instance, forward);
            let last = *forward.last().expect("there are operators");
            let is_cut = paths.cut_tensors(forward, last);
            let levels = paths.levels(forward, &is_cut);
            let mut expected = vec![0; instance.operators().len()];
            for id in instance.tensor_ids() {
                let reached = reached_without(&instance, &paths, forward, id);
                let cuts = paths.reached[last.index()] && !reached[last.index()];
                prop_assert_eq!(is_cut[id.index()], cuts, "tensor {}", id.index());
                for (level, reached) in expected.iter_mut().zip(reached) {
                    *level += usize::from(cuts && !reached);
                }
            }
            for &id in forward.iter().filter(|id| paths.reached[id.index()]) {
                prop_assert_eq!(levels[id.index()], Some(expected[id.index()]), "operator {}", id.index());
            }
        }
    }
}
