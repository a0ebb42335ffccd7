//! Dijkstra over single steps: each rule of docs/reference/model.md and of the class where it is needed, nothing else.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use remat_core::format::{Phase, TensorKind};
use remat_core::{Instance, TensorId};
use remat_formulations::Class;
use remat_formulations::method::claim::{Implementations, Memory, Modes as Words, Order, Runs, fixed_implementations};
use remat_formulations::monet::settings::Modes;
use remat_formulations::staged::graph::allowed;

/// Bits of a count of runs.
const BITS: usize = 4;

/// What is resident, how often each operator ran (as far as it matters), and one more than the position that ran again
/// last since the last first run.
type State = (u64, u64, usize);

/// The least time of a schedule of a class of [`Order::Free`], [`Order::Given`] or [`Order::Stages`] within a budget.
pub fn least_time(instance: &Instance, class: &Class, budget: u64) -> Option<u64> {
    let search = Search::new(instance, class, budget);
    let start = (search.inputs, 0, 0);
    if search.bytes(search.inputs) > budget {
        return None;
    }
    let mut queue = BinaryHeap::from([(Reverse(0_u64), start)]);
    let mut seen = HashSet::new();
    while let Some((Reverse(time), state)) = queue.pop() {
        if !seen.insert(state) {
            continue;
        }
        if search.is_end(state) {
            return Some(time);
        }
        queue.extend(search.moves(state).into_iter().map(|(took, after)| (Reverse(time + took), after)));
    }
    None
}

struct Search<'a> {
    instance: &'a Instance,
    class: &'a Class,
    budget: u64,
    inputs: u64,
    fixed: Option<Vec<(usize, Option<usize>)>>,
    /// By operator and implementation, where not all may be chosen.
    allowed: Option<Vec<Vec<bool>>>,
    most: u64,
}

fn bit(tensor: TensorId) -> u64 {
    1 << tensor.index()
}

impl<'a> Search<'a> {
    fn new(instance: &'a Instance, class: &'a Class, budget: u64) -> Self {
        assert!(instance.tensors().len() <= 64 && instance.operators().len() <= 64 / BITS, "small instances only");
        let is_input = |id: &TensorId| instance.tensor(*id).kind == TensorKind::Input;
        let fixed = (class.implementations == Implementations::One).then(|| fixed_implementations(instance)).flatten();
        let allowed = match class.implementations {
            Implementations::Modes { modes, in_place } => {
                let any = |one| modes == Words::All || modes == one;
                let (algorithms, outputs) = (any(Words::Conv), any(Words::OutputActivated));
                let intermediates = any(Words::IntermediateActivated);
                Some(allowed(instance, Modes { algorithms, outputs, intermediates, in_place, recompute: true }))
            }
            _ => None,
        };
        Self {
            instance,
            class,
            budget,
            allowed,
            inputs: instance.tensor_ids().filter(is_input).map(bit).sum(),
            fixed,
            // Where any number is allowed, only whether an operator ran matters.
            most: match class.runs {
                Runs::Any => 1,
                Runs::AtMost(most) => most.min((1 << BITS) - 1),
            },
        }
    }

    fn bytes(&self, resident: u64) -> u64 {
        let there = self.instance.tensor_ids().filter(|&id| resident & bit(id) != 0);
        self.instance.fixed_bytes() + there.map(|id| self.instance.tensor(id).bytes).sum::<u64>()
    }

    fn runs(counts: u64, operator: usize) -> u64 {
        counts >> (BITS * operator) & ((1 << BITS) - 1)
    }

    fn is_end(&self, (resident, counts, _): State) -> bool {
        let instance = self.instance;
        let must = |at: usize| {
            let operator = &instance.operators()[at];
            operator.phase == Phase::Backward || operator.updates_state || self.class.order != Order::Free
        };
        (0..instance.operators().len()).all(|at| !must(at) || Self::runs(counts, at) > 0)
            && instance.tensor_ids().all(|id| !instance.is_result(id) || resident & bit(id) != 0)
    }

    fn moves(&self, (resident, counts, since): State) -> Vec<(u64, State)> {
        let instance = self.instance;
        let free = instance.tensor_ids().map(bit).filter(|bit| resident & bit & !self.inputs != 0);
        let mut moves: Vec<(u64, State)> = free.map(|bit| (0, (resident & !bit, counts, since))).collect();
        let next = instance.order().iter().position(|id| Self::runs(counts, id.index()) == 0);
        for (position, &id) in instance.order().iter().enumerate() {
            let operator = instance.operator(id);
            let ran = Self::runs(counts, id.index());
            let in_turn = match (self.class.order, ran > 0) {
                (Order::Free, _) | (Order::Given, true) => true,
                (_, false) => next == Some(position),
                (_, true) => position >= since && next.is_some(),
            };
            let again = ran == 0 || operator.recomputable && (ran < self.most || self.class.runs == Runs::Any);
            if !in_turn || !again {
                continue;
            }
            let counts = if ran < self.most { counts + (1 << (BITS * id.index())) } else { counts };
            let since = match self.class.order {
                Order::Stages if ran > 0 => position + 1,
                _ => 0,
            };
            for (variant, way) in operator.implementations.iter().enumerate() {
                let chosen = self.allowed.as_ref().is_none_or(|allowed| allowed[id.index()][variant]);
                let chosen = chosen
                    && self.fixed.as_ref().is_none_or(|fixed| {
                        let (first, again) = fixed[id.index()];
                        if ran == 0 { first == variant } else { again == Some(variant) }
                    });
                let state = operator.updates_state && way.recompute != (ran > 0);
                if !chosen || state || way.reads.iter().any(|&read| resident & bit(read) == 0) {
                    continue;
                }
                let gone = way.in_place.map_or(0, |pair| bit(pair.input));
                let after = operator.makes(variant).fold(resident & !gone, |set, made| set | bit(made));
                let workspace = if self.class.memory == Memory::WithoutWorkspace { 0 } else { way.workspace_bytes };
                if self.bytes(after) + workspace <= self.budget {
                    moves.push((way.time, (after, counts, since)));
                }
            }
        }
        moves
    }
}
