//! What is saved between forward and backward pass: PyTorch's rules about what must not be recomputed, and the minimum
//! cut (`solve_min_cut` in `torch/_functorch/partitioners.py`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flow::Network;
use super::graph::Graph;

/// Which rules forbid recomputing something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "PyTorch's switches, each by itself")]
pub struct Bans {
    /// Users beyond the first that does not fuse.
    pub used_far_apart: bool,
    /// What ends a chain of fusible operators longer than 100.
    pub long_chains: bool,
    /// What the backward pass cannot fuse into its user.
    pub materialized: bool,
    /// What is not on the list of recomputable operators; else only random and compute-intensive ones.
    pub unlisted: bool,
}

impl Bans {
    /// PyTorch's defaults.
    pub const DEFAULT: Self = Self { used_far_apart: true, long_chains: true, materialized: true, unlisted: true };
    /// The first step below the default with a memory budget.
    pub const LISTED: Self = Self { used_far_apart: false, long_chains: false, materialized: false, unlisted: true };
    /// The last step: everything but what is random or compute-intensive.
    pub const FEWEST: Self = Self { unlisted: false, ..Self::LISTED };
}

/// A cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The vertices whose values are saved, ascending.
    pub saved: Vec<usize>,
    /// The vertices that the rules kept from being recomputed, in the order in which they did.
    pub banned: Vec<usize>,
}

/// The minimum cut under some rules; `allowed` are excepted from them.
///
/// None if something is needed by the backward pass that can be neither saved nor recomputed.
pub fn minimum_cut(graph: &Graph, bans: Bans, allowed: &[bool]) -> Option<Cut> {
    let mut rules = Rules { graph, bans, allowed, is_banned: vec![false; graph.vertices.len()], banned: Vec::new() };
    rules.by_vertex();
    if bans.used_far_apart {
        rules.used_far_apart();
    }
    if bans.long_chains {
        rules.long_chains();
    }
    let Rules { is_banned, banned, .. } = rules;
    let saved = cut(graph, &is_banned)?;
    Some(Cut { saved, banned })
}

/// The saved vertices, given what must not be recomputed.
fn cut(graph: &Graph, banned: &[bool]) -> Option<Vec<usize>> {
    let count = graph.vertices.len();
    let (source, sink) = (2 * count, 2 * count + 1);
    let mut network = Network::new(2 * count + 2);
    for (at, vertex) in graph.vertices.iter().enumerate() {
        let (enter, leave) = (2 * at, 2 * at + 1);
        if vertex.after_tangent {
            network.connect(enter, sink, None);
            continue;
        }
        if banned[at] {
            network.connect(source, enter, None);
        }
        network.connect(enter, leave, weight(graph, at));
        vertex.users.iter().for_each(|&user| network.connect(leave, 2 * user, None));
    }
    let sink_side = network.sink_side(source, sink)?;
    let is_cut = |at: &usize| !sink_side[2 * at] && sink_side[2 * at + 1];
    Some((0..count).filter(|at| !graph.vertices[*at].after_tangent).filter(is_cut).collect())
}

/// What saving a value costs; none if it cannot be saved. Values near the backward pass cost less, and twice as much
/// what all users could be fused with.
fn weight(graph: &Graph, at: usize) -> Option<u128> {
    let vertex = &graph.vertices[at];
    vertex.value?;
    let distance = f64::from(vertex.distance.clamp(1, 100));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are below 2^62: PyTorch truncates too"
    )]
    let bytes = (vertex.bytes as f64 * 1.1_f64.powf(distance)) as u128;
    let materialized =
        vertex.operator.is_none() || vertex.returned || !vertex.users.iter().all(|&user| graph.fusible(at, user));
    Some(if materialized { bytes } else { 2 * bytes })
}

struct Rules<'a> {
    graph: &'a Graph,
    bans: Bans,
    allowed: &'a [bool],
    is_banned: Vec<bool>,
    banned: Vec<usize>,
}

impl Rules<'_> {
    /// Keeps a vertex from being recomputed, unless it is a view or excepted.
    fn ban(&mut self, at: usize) {
        let vertex = &self.graph.vertices[at];
        let excepted = vertex.kind.view || self.allowed[at];
        if (!excepted || vertex.once) && !std::mem::replace(&mut self.is_banned[at], true) {
            self.banned.push(at);
        }
    }

    fn by_vertex(&mut self) {
        for (at, vertex) in self.graph.vertices.iter().enumerate() {
            let input = vertex.operator.is_none();
            let stays = vertex.once && !vertex.part;
            if !vertex.after_tangent && (input || stays || (vertex.forward.is_some() && self.is_costly(at))) {
                self.ban(at);
            }
        }
    }

    /// Whether a vertex of the forward pass is too costly to recompute, by what it is and who reads it.
    fn is_costly(&self, at: usize) -> bool {
        let vertex = &self.graph.vertices[at];
        if vertex.part {
            return false;
        }
        let unlisted = if self.bans.unlisted {
            !vertex.kind.recomputable
        } else {
            vertex.kind.random || vertex.kind.compute_intensive
        };
        // A concatenation reads a list, whose sizes PyTorch does not add up.
        let reads = if vertex.kind.concatenation { &[][..] } else { &vertex.reads };
        let read: u64 = reads.iter().map(|&read| self.graph.vertices[read].bytes).sum();
        let reduces = u128::from(vertex.bytes) * 4 < u128::from(read);
        unlisted || (self.bans.materialized && self.is_materialized_backwards(at)) || reduces
    }

    /// Whether something that the forward pass does not need reads a value, or a view of it, and cannot be fused with it;
    /// PyTorch takes returning a value for such a reader.
    fn is_materialized_backwards(&self, at: usize) -> bool {
        if self.graph.vertices[at].kind.view {
            return false;
        }
        let mut views = vec![at];
        let mut seen = views.clone();
        while let Some(view) = views.pop() {
            if self.graph.vertices[view].returned {
                return true;
            }
            for &user in &self.graph.vertices[view].users {
                if !self.graph.is_forward(user) && !self.graph.fusible(view, user) {
                    return true;
                }
                if self.graph.vertices[user].kind.view && !seen.contains(&user) {
                    seen.push(user);
                    views.push(user);
                }
            }
        }
        false
    }

    fn order(&self, at: usize) -> usize {
        self.graph.vertices[at].forward.unwrap_or(usize::MAX)
    }

    fn forward_users(&self, at: usize) -> impl Iterator<Item = usize> + use<'_> {
        self.graph.vertices[at].users.iter().copied().filter(|&user| self.graph.is_forward(user))
    }

    /// Of the users of a value, those that come after something which does not fuse are not recomputed from it.
    fn used_far_apart(&mut self) {
        for at in 0..self.graph.vertices.len() {
            if !self.graph.is_forward(at) {
                continue;
            }
            let users: Vec<usize> = self.forward_users(at).collect();
            let Some(last) = users.iter().map(|&user| self.order(user)).max() else { continue };
            let unfusible = self.first_unfusible(&users, last);
            for user in users {
                if self.order(user) > unfusible && self.graph.fusible(at, user) {
                    self.ban(user);
                }
            }
        }
    }

    /// Position of the first vertex on the way from `starts` that is not fused with what it reads, or else `last`.
    fn first_unfusible(&self, starts: &[usize], last: usize) -> usize {
        let mut reached: BinaryHeap<Reverse<(usize, usize, bool)>> =
            starts.iter().map(|&start| Reverse((self.order(start), start, true))).collect();
        let mut before = None;
        while let Some(Reverse((order, at, fused))) = reached.pop() {
            if !fused {
                return order;
            }
            if before.replace(at) == Some(at) {
                continue;
            }
            for user in self.forward_users(at).filter(|&user| self.order(user) <= last) {
                reached.push(Reverse((self.order(user), user, self.graph.fusible(at, user))));
            }
        }
        last
    }

    /// A chain of fusible operators ends 100 positions after it began.
    fn long_chains(&mut self) {
        let mut visited = vec![false; self.graph.vertices.len()];
        for start in 0..self.graph.vertices.len() {
            let Some(first) = self.graph.vertices[start].forward else { continue };
            let mut reached = BinaryHeap::from([Reverse((first, start))]);
            while let Some(Reverse((order, at))) = reached.pop() {
                if std::mem::replace(&mut visited[at], true) {
                    continue;
                }
                if order > first + 100 && reached.is_empty() {
                    self.ban(at);
                    break;
                }
                for user in self.forward_users(at) {
                    if self.graph.fusible(at, user) && !self.is_banned[user] {
                        reached.push(Reverse((self.order(user), user)));
                    }
                }
            }
        }
    }
}
