//! `kusumoto-chen`: Chen's algorithm as Kusumoto et al. configured it for their comparison.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use remat_core::{Instance, Schedule, simulate};

use super::graph::Graph;
use super::set::Set;
use super::steps::LastGroup;
use super::strategy::{self, Liveness};
use crate::method::parameters::{ParameterKind, ParameterSpec};
use crate::method::{About, Answer, BudgetUse, Claim, Claimed, Context, Method, MethodError, SkipReason, Termination};

/// Segments between articulation points, each recomputed once.
///
/// # Problem
/// Chen et al.'s memory planning (Algorithm 3 there): along a topological order, a segment ends at the first
/// candidate splitting point after more than b bytes; what the splitting points make is kept, the rest is
/// recomputed, segment by segment. b decides between memory and the number of splits.
///
/// # Variables
/// b; every value that leads to another segmentation is tried.
///
/// # Constraints
/// Appendix B of kusumoto-neurips-2019: the order is that of a depth-first search of the forward graph, the
/// candidates are its articulation points: nodes without which it falls apart.
///
/// # Size
/// O(V (V + E)) for the articulation points, then one simulation per segmentation.
///
/// # Departures from the paper
/// Nodes, edges and sizes are those of `kusumoto-2019`, and so is the execution: forward, what crosses the
/// end of a segment is kept (the splitting point, and what else the order leads across); backward, each
/// segment, the last one too, is recomputed once. The text does not say which b was
/// taken; here, for a budget, that of the fastest schedule whose simulated peak meets it (`budget=given`),
/// or of the one with the least peak (`budget=least`).
///
/// # Claim
/// Heuristic.
///
/// # Reference
/// Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, Algorithm 3;
/// kusumoto-neurips-2019, Appendix B.
pub struct KusumotoChen;

const PARAMETERS: &[ParameterSpec] = &[
    super::choice("liveness", "on", &["on", "off"], "free after each last read, or at the ends of segments"),
    super::choice(
        "budget",
        "given",
        &["given", "least"],
        "the fastest segmentation that meets the budget, or the one with the least peak",
    ),
    super::choice(
        "last-group",
        "recompute",
        &["recompute", "keep"],
        "whether the last segment is recomputed, as Chen's Algorithm 2 does",
    ),
    ParameterSpec {
        name: "most-segmentations",
        default: "1000",
        kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
        help: "where b leads to more segmentations, so many of them are tried, evenly spread",
    },
];

impl Method for KusumotoChen {
    fn id(&self) -> &'static str {
        "kusumoto-chen"
    }

    fn about(&self) -> About {
        About {
            title: "Chen's segments between articulation points, as Kusumoto et al. ran them",
            claim: Claim::Heuristic,
            claim_text: "each segment recomputed once; the best of all thresholds",
            reference: "kusumoto-neurips-2019, Appendix B; Chen et al. 2016, Algorithm 3",
            parameters: PARAMETERS,
            budgets: BudgetUse::Used,
        }
    }

    fn supports(&self, instance: &Instance) -> Result<(), SkipReason> {
        Graph::new(instance).map(|_| ())
    }

    fn solve(&self, context: &Context<'_>) -> Result<(), MethodError> {
        let started = Instant::now();
        let graph = Graph::new(context.instance)?;
        let most = context.parameters.integer("most-segmentations").and_then(|most| usize::try_from(most).ok());
        let segmentations = segmentations(&graph, most.unwrap_or(usize::MAX));
        let build = started.elapsed();
        let runs = runs(context, &graph, &segmentations)?;
        let least = context.parameters.word("budget") == "least";
        let mut build = Some(build);
        context.answer_each(|_, budget| {
            let meets = |run: &&Run| budget.is_none_or(|budget| run.claimed.peak_bytes <= budget);
            let (time, peak) = (|run: &Run| run.claimed.time, |run: &Run| run.claimed.peak_bytes);
            let key = |run: &&Run| if least { (peak(run), time(run)) } else { (time(run), peak(run)) };
            let best = runs.iter().filter(meets).min_by_key(key);
            let note = best.map(|run| format!("{} segments, {} segmentations", run.segments, runs.len()));
            Ok(Answer {
                budget,
                termination: if best.is_some() { Termination::Feasible } else { Termination::NotFound },
                schedule: best.map(|run| run.schedule.clone()),
                claimed: best.map(|run| run.claimed),
                lower_bound: None,
                build: build.take().unwrap_or(Duration::ZERO),
                solve: started.elapsed(),
                note: note.unwrap_or_default(),
            })
        });
        Ok(())
    }
}

/// A segmentation, run.
struct Run {
    segments: usize,
    schedule: Schedule,
    claimed: Claimed,
}

fn runs(context: &Context<'_>, graph: &Graph, segmentations: &[Vec<Set>]) -> Result<Vec<Run>, MethodError> {
    let is = |name: &str, word: &str| context.parameters.word(name) == word;
    let liveness = if is("liveness", "off") { Liveness::Off } else { Liveness::On };
    let last_group = if is("last-group", "keep") { LastGroup::Keep } else { LastGroup::Recompute };
    let started = Instant::now();
    let mut runs = Vec::new();
    for sets in segmentations {
        if context.limits.time.is_some_and(|time| started.elapsed() >= time) {
            break;
        }
        let sets: Vec<&Set> = sets.iter().collect();
        let schedule = strategy::schedule(context.instance, graph, &sets, last_group, liveness);
        let cost = simulate(context.instance, &schedule).map_err(|error| MethodError::Internal(error.to_string()))?;
        let claimed = Claimed { time: cost.time, peak_bytes: cost.peak_bytes };
        runs.push(Run { segments: sets.len(), schedule, claimed });
    }
    Ok(runs)
}

/// The lower sets after each segment, V last, for every b that leads to other segments; of more than `most`
/// some, evenly spread.
pub fn segmentations(graph: &Graph, most: usize) -> Vec<Vec<Set>> {
    let order = depth_first_order(graph);
    let candidates = articulation_points(graph);
    let mut found = BTreeSet::new();
    let mut threshold = Some(0);
    while let Some(bytes) = threshold {
        let (ends, next) = segments(graph, &order, &candidates, bytes);
        found.insert(ends);
        threshold = next;
    }
    let step = found.len().div_ceil(most).max(1);
    let sets = |ends: Vec<usize>| {
        let mut set = Set::empty(graph.nodes.len());
        let mut from = 0;
        let prefix = |end: usize| {
            order[from..=end].iter().for_each(|&node| set.insert(node));
            from = end + 1;
            set.clone()
        };
        ends.into_iter().map(prefix).collect()
    };
    found.into_iter().step_by(step).map(sets).collect()
}

/// Algorithm 3 for one b: positions in the order where segments end, the last node's included, and the
/// least larger b with which one of them would end later.
fn segments(graph: &Graph, order: &[usize], candidates: &[bool], most: u64) -> (Vec<usize>, Option<u64>) {
    let mut ends = Vec::new();
    let mut next: Option<u64> = None;
    let mut bytes = 0;
    for (position, &node) in order.iter().enumerate() {
        bytes += graph.nodes[node].bytes;
        if position + 1 == order.len() {
            ends.push(position);
        } else if candidates[node] && bytes > most {
            ends.push(position);
            next = Some(next.map_or(bytes, |next| next.min(bytes)));
            bytes = 0;
        }
    }
    (ends, next)
}

/// A topological order: the reverse of the order in which a depth-first search leaves the nodes.
pub fn depth_first_order(graph: &Graph) -> Vec<usize> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut left = Vec::with_capacity(seen.len());
    for root in (0..seen.len()).filter(|&node| graph.nodes[node].predecessors.is_empty()) {
        let mut path = vec![(root, 0)];
        seen[root] = true;
        while let Some((node, position)) = path.pop() {
            let Some(&next) = graph.nodes[node].successors.get(position) else {
                left.push(node);
                continue;
            };
            path.push((node, position + 1));
            if !std::mem::replace(&mut seen[next], true) {
                path.push((next, 0));
            }
        }
    }
    left.reverse();
    left
}

/// For each node, whether the graph has more parts without it.
pub fn articulation_points(graph: &Graph) -> Vec<bool> {
    let whole = parts(graph, None);
    let lonely = |node: usize| graph.nodes[node].predecessors.is_empty() && graph.nodes[node].successors.is_empty();
    (0..graph.nodes.len()).map(|node| !lonely(node) && parts(graph, Some(node)) > whole).collect()
}

/// Number of connected parts of the graph, edges taken both ways, without a node.
fn parts(graph: &Graph, without: Option<usize>) -> usize {
    let mut seen = vec![false; graph.nodes.len()];
    if let Some(node) = without {
        seen[node] = true;
    }
    let mut count = 0;
    for root in 0..seen.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        count += 1;
        let mut pending = vec![root];
        while let Some(node) = pending.pop() {
            let node = &graph.nodes[node];
            for &next in node.successors.iter().chain(&node.predecessors) {
                if !std::mem::replace(&mut seen[next], true) {
                    pending.push(next);
                }
            }
        }
    }
    count
}
