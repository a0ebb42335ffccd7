//! Random proposals of mutations: the paper's three, the fourth of its appendix B.3, changes of the
//! implementation, and aimed ones. Whether they keep the rules is not asked here (`mutate.rs`).

use super::graph::{Graph, NONE, Node};
use super::mutate::Mutation;
use super::profile::Profile;
use super::state::{NOP, State, Step};
use crate::random::Random;

/// What may be proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Add computation.
    Add,
    /// Remove computation.
    Remove,
    /// Rotating sequence.
    Rotate,
    /// Run a step with another implementation.
    Change,
    /// Flip fetch (appendix B.3): fetch something right before it is read, or no longer.
    Fetch,
}

/// Draws proposals.
#[derive(Clone, Debug)]
pub struct Proposer {
    kinds: Vec<Kind>,
    /// Nodes that may be added.
    addable: Vec<u32>,
    /// By value, the node that makes it; empty unless proposals are aimed.
    maker: Vec<u32>,
}

/// Which proposals are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// Only the order may change (appendix B.2).
    pub reorder_only: bool,
    /// Half of all additions and rotations are drawn where they may be of use, which is not in the paper:
    /// what a step reads is computed shortly before it, and a step moves by a distance of any magnitude.
    pub aimed: bool,
}

impl Proposer {
    /// A proposer of mutations of some kinds.
    pub fn new<P: Profile>(state: &State<'_, P>, Aim { reorder_only, aimed }: Aim) -> Self {
        let nodes = &state.graph.nodes;
        let transfer = |node: &Node| state.graph.transfer(node.first_variant).is_some();
        let may_be_added = |(_, node): &(u32, &Node)| node.recomputable && !transfer(node);
        let addable: Vec<u32> = (0_u32..).zip(nodes).filter(may_be_added).map(|(at, _)| at).collect();
        let mut kinds = Vec::new();
        if !reorder_only && !addable.is_empty() {
            kinds.extend([Kind::Add, Kind::Remove]);
        }
        kinds.push(Kind::Rotate);
        if !reorder_only && nodes.iter().any(|node| node.variants > 1) {
            kinds.push(Kind::Change);
        }
        if !state.graph.transfers.is_empty() {
            kinds.push(Kind::Fetch);
        }
        let maker = if aimed { makers(state.graph) } else { Vec::new() };
        Self { kinds, addable, maker }
    }

    /// A random proposal; none where what was drawn is none.
    #[inline]
    pub fn propose<P: Profile>(&self, state: &State<'_, P>, random: &mut Random) -> Option<Mutation> {
        let kind = random.pick(&self.kinds);
        // Steps are spread anew long before; with a fixed length, there is no room left.
        if matches!(kind, Kind::Add | Kind::Fetch) && 4 * state.occupied.len() > 3 * state.sequence.len() {
            return None;
        }
        let aimed = !self.maker.is_empty() && random.below(2) == 0;
        if kind == Kind::Add && aimed {
            return self.added_for_a_reader(state, random);
        }
        // Results are read by no step, and a fetch may be of use long before the reader.
        if kind == Kind::Fetch && random.below(4) == 0 {
            let transfer = random.pick(&state.graph.transfers);
            let variant = state.graph.fetch_of[transfer.value as usize];
            return Some(Mutation { add: Some(Step { time: free_time(state, random), variant }), remove: None });
        }
        if kind == Kind::Add {
            let time = free_time(state, random);
            let node = random.pick(&self.addable);
            let variant = any_variant(state, node, random);
            return Some(Mutation { add: Some(Step { time, variant }), remove: None });
        }
        if state.occupied.is_empty() {
            return None;
        }
        let time = random.pick(&state.occupied);
        let variant = state.sequence[time as usize];
        let remove = Some(Step { time, variant });
        let add = match kind {
            Kind::Rotate if aimed => {
                let distance = any_distance(state, random);
                let time = if random.below(2) == 0 { time.checked_sub(distance)? } else { time + distance };
                if time >= state.length() || state.sequence[time as usize] != NOP {
                    return None;
                }
                Some(Step { time, variant })
            }
            Kind::Rotate => Some(Step { time: free_time(state, random), variant }),
            Kind::Change => {
                let other = any_variant(state, state.graph.variants[variant as usize].node, random);
                if other == variant {
                    return None;
                }
                Some(Step { time, variant: other })
            }
            Kind::Fetch if state.graph.transfer(variant).is_none() => {
                return fetched_before(state, Step { time, variant }, random);
            }
            _ => None,
        };
        Some(Mutation { add, remove })
    }

    /// One more run of what makes something that a step reads, some time before it.
    fn added_for_a_reader<P: Profile>(&self, state: &State<'_, P>, random: &mut Random) -> Option<Mutation> {
        if state.occupied.is_empty() {
            return None;
        }
        let reader = random.pick(&state.occupied);
        let reads = state.graph.reads(state.sequence[reader as usize]);
        if reads.is_empty() {
            return None;
        }
        let node = self.maker[random.pick(reads).value()];
        let time = reader.checked_sub(any_distance(state, random))?;
        if node == NONE || state.sequence[time as usize] != NOP {
            return None;
        }
        let variant = any_variant(state, node, random);
        Some(Mutation { add: Some(Step { time, variant }), remove: None })
    }
}

/// By value, the node that may be added to make it.
fn makers(graph: &Graph) -> Vec<u32> {
    let mut maker = vec![NONE; graph.values.len()];
    for (node, description) in (0_u32..).zip(&graph.nodes) {
        let fetches = graph.transfer(description.first_variant).is_some();
        for variant in graph.variants_of(node as usize).filter(|_| description.recomputable && !fetches) {
            graph.makes(variant).iter().for_each(|&value| maker[value as usize] = node);
        }
    }
    maker
}

/// A distance between times, of any magnitude: its logarithm is uniform.
#[inline]
fn any_distance<P: Profile>(state: &State<'_, P>, random: &mut Random) -> u32 {
    let magnitude = random.below(u32::BITS - state.length().leading_zeros());
    1 + random.below(1 << magnitude)
}

/// A fetch of something that a step reads, right before it, if there is room.
fn fetched_before<P: Profile>(state: &State<'_, P>, step: Step, random: &mut Random) -> Option<Mutation> {
    let reads = state.graph.reads(step.variant);
    if reads.is_empty() {
        return None;
    }
    let variant = state.graph.fetch_of[random.pick(reads).value()];
    let time = step.time.checked_sub(1)?;
    let free = variant != NONE && state.sequence[time as usize] == NOP;
    free.then_some(Mutation { add: Some(Step { time, variant }), remove: None })
}

/// A random time at which nothing runs. At most three quarters of the times are taken, so few draws are in vain.
#[inline]
fn free_time<P: Profile>(state: &State<'_, P>, random: &mut Random) -> u32 {
    loop {
        let time = random.below(state.length());
        if state.sequence[time as usize] == NOP {
            return time;
        }
    }
}

#[inline]
fn any_variant<P: Profile>(state: &State<'_, P>, node: u32, random: &mut Random) -> u32 {
    let node = &state.graph.nodes[node as usize];
    node.first_variant + if node.variants > 1 { random.below(node.variants) } else { 0 }
}
