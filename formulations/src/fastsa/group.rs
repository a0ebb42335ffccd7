//! Node grouping (Algorithm 1, section 2.2.2): nodes whose outputs are larger than their inputs are fused
//! into every node that reads them, and so are recomputed for each.
//!
//! From a sequence of operators to a graph of groups with a sequence of its own, and back.

use std::collections::HashSet;

use remat_core::liveness::Compute;

use super::graph::{Graph, Operators, Parts, Read, index};

/// Operators of all groups together, over those of the sequence: beyond, nothing more is fused. A chain
/// of equal sizes would otherwise become n groups of up to n operators.
const LARGEST_GROWTH: usize = 16;

/// Groups of operators as nodes.
#[derive(Clone, Debug)]
pub struct Groups {
    /// A node for each group.
    pub graph: Graph,
    /// Every group once: variants.
    pub start: Vec<u32>,
}

/// A group under construction.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Positions in the sequence, in the order of execution, repeated where they run again; the last one is
    /// the operator that the group stands for.
    members: Vec<usize>,
    /// Values read that no member makes, ascending.
    reads: Vec<u32>,
    /// Bytes of the model inputs that members read.
    input_bytes: i64,
    fused: bool,
}

/// Groups the operators of the start sequence; `input_bytes` are those of model inputs by variant.
pub fn group(operators: &Operators, input_bytes: impl Fn(u32) -> i64) -> Groups {
    let graph = &operators.graph;
    let mut groups: Vec<Group> = Vec::with_capacity(operators.start.len());
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
    let mut overwritten = vec![false; graph.values.len()];
    for (position, &variant) in operators.start.iter().enumerate() {
        graph.reads(variant).iter().for_each(|read| overwritten[read.value()] |= read.overwrites() == 1);
        let mut reads: Vec<u32> = graph.reads(variant).iter().map(|read| index(read.value())).collect();
        reads.sort_unstable();
        for &value in &reads {
            readers[value as usize].push(position);
        }
        groups.push(Group { members: vec![position], reads, input_bytes: input_bytes(variant), fused: false });
    }
    let mut total = groups.len();
    let limit = total * LARGEST_GROWTH;
    for position in 0..groups.len() {
        // Later, or more than once, what it reads would be gone.
        let reads = &groups[position].reads;
        if reads.iter().any(|&value| overwritten[value as usize]) {
            continue;
        }
        let targets = targets(operators, &groups, &readers, position);
        let more = targets.len().saturating_sub(1) * groups[position].members.len();
        if !targets.is_empty() && total + more <= limit {
            total += more;
            fuse(operators, &mut groups, &mut readers, position, &targets);
        }
    }
    assemble(operators, &groups)
}

/// The groups that a node is to be fused into; none where it stays by itself.
fn targets(operators: &Operators, groups: &[Group], readers: &[Vec<usize>], position: usize) -> Vec<usize> {
    let graph = &operators.graph;
    let bytes = |value: u32| graph.values[value as usize].bytes;
    let group = &groups[position];
    let makes = graph.makes(operators.start[position]);
    let live = |value: u32| readers[value as usize].iter().copied().filter(|&reader| !groups[reader].fused);
    // What nobody reads needs no reader; the paper's condition would never fuse its maker.
    let read: Vec<u32> = makes.iter().copied().filter(|&value| live(value).next().is_some()).collect();
    let Some(&some) = read.first() else { return Vec::new() };
    let inputs: i64 = group.reads.iter().map(|&value| bytes(value)).sum::<i64>() + group.input_bytes;
    let result = |&value: &u32| graph.values[value as usize].result;
    if inputs > makes.iter().map(|&value| bytes(value)).sum() || makes.iter().any(result) {
        return Vec::new();
    }
    let targets: Vec<usize> = live(some).collect();
    let reads_all = |&reader: &usize| read.iter().all(|value| groups[reader].reads.binary_search(value).is_ok());
    let readers_of_all = read.iter().map(|&value| live(value).count()).max();
    let repeatable =
        |&member: &usize| operators.again[graph.variants[operators.start[member] as usize].node as usize].is_some();
    let may_repeat = targets.len() == 1 || group.members.iter().all(repeatable);
    if readers_of_all == Some(targets.len()) && targets.iter().all(reads_all) && may_repeat {
        targets
    } else {
        Vec::new()
    }
}

fn fuse(operators: &Operators, groups: &mut [Group], readers: &mut [Vec<usize>], position: usize, targets: &[usize]) {
    let Group { members, reads, input_bytes, .. } = std::mem::take(&mut groups[position]);
    groups[position].fused = true;
    let makes = operators.graph.makes(operators.start[position]);
    for &target in targets {
        let group = &mut groups[target];
        group.members.splice(0..0, members.iter().copied());
        group.reads.retain(|value| !makes.contains(value));
        group.input_bytes += input_bytes;
        for &value in &reads {
            if let Err(at) = group.reads.binary_search(&value) {
                group.reads.insert(at, value);
                readers[value as usize].push(target);
            }
        }
    }
}

fn assemble(operators: &Operators, groups: &[Group]) -> Groups {
    let graph = &operators.graph;
    let values = graph.values.iter().map(|value| super::graph::Value { overwritable: false, ..*value }).collect();
    let mut grouped = Graph::new(values, graph.base);
    let mut start = Vec::new();
    for group in groups.iter().filter(|group| !group.fused) {
        let variants: Vec<u32> = group.members.iter().map(|&member| operators.start[member]).collect();
        let node = |variant: &u32| graph.node(*variant);
        let repeatable =
            variants.iter().all(|&variant| operators.again[graph.variants[variant as usize].node as usize].is_some());
        let must = variants.iter().any(|variant| node(variant).must);
        start.push(index(grouped.variants.len()));
        grouped.push(repeatable, must, false, &[parts(graph, group, &variants)]);
    }
    // What is made within groups only is not there to be fetched.
    let mut made = vec![false; graph.values.len()];
    for &variant in &start {
        grouped.makes(variant).iter().for_each(|&value| made[value as usize] = true);
    }
    for &transfer in graph.transfers.iter().filter(|transfer| made[transfer.value as usize]) {
        grouped.push_fetch(transfer);
    }
    Groups { graph: grouped, start }
}

/// A group as one node: its cost, what it reads and makes, and what it needs in between (appendix B.1).
fn parts(graph: &Graph, group: &Group, variants: &[u32]) -> Parts {
    let head = *variants.last().expect("a group has its own operator");
    let makes = graph.makes(head).to_vec();
    let bytes = |value: u32| graph.values[value as usize].bytes;
    let around: i64 = group.reads.iter().chain(&makes).map(|&value| bytes(value)).sum();
    let steps: Vec<Compute> = variants.iter().flat_map(|&variant| graph.steps(variant)).copied().collect();
    Parts {
        time: variants.iter().map(|&variant| graph.variants[variant as usize].time).sum(),
        extra: (inner_peak(graph, group, variants) - around).max(0),
        again: false,
        reads: group
            .reads
            .iter()
            .map(|&value| Read::new(value, graph.reads(head).contains(&Read::new(value, true))))
            .collect(),
        makes,
        steps,
    }
}

/// Most memory while the members run one after another, everything that the group reads included.
fn inner_peak(graph: &Graph, group: &Group, variants: &[u32]) -> i64 {
    let bytes = |value: u32| graph.values[value as usize].bytes;
    let size = |values: &[u32]| values.iter().map(|&value| bytes(value)).sum::<i64>();
    // Backwards: is the copy that is alive here read before it is made again?
    let mut wanted: HashSet<u32> = graph.makes(variants[variants.len() - 1]).iter().copied().collect();
    let mut live = size(&group.reads) + wanted.iter().map(|&value| bytes(value)).sum::<i64>();
    let mut peak = 0;
    for &variant in variants.iter().rev() {
        for read in graph.reads(variant).iter().map(|read| index(read.value())) {
            if group.reads.binary_search(&read).is_err() && wanted.insert(read) {
                live += bytes(read);
            }
        }
        let makes = graph.makes(variant);
        let unread: i64 = makes.iter().filter(|&value| !wanted.contains(value)).map(|&value| bytes(value)).sum();
        peak = peak.max(live + unread + graph.variants[variant as usize].extra);
        live -= makes.iter().filter(|&value| wanted.remove(value)).map(|&value| bytes(value)).sum::<i64>();
    }
    peak
}

/// The operators of a sequence of groups, one after another, as variants of the operators' graph.
pub fn decompose(operators: &Operators, groups: &Graph, sequence: &[u32]) -> Vec<u32> {
    let mut ran = vec![false; operators.graph.nodes.len()];
    let mut first = vec![0; ran.len()];
    for &variant in &operators.start {
        first[operators.graph.variants[variant as usize].node as usize] = variant;
    }
    let mut variants = Vec::new();
    for &group in sequence {
        if let Some(transfer) = groups.transfer(group) {
            variants.push(operators.graph.fetch_of[transfer.value as usize]);
        }
        for &(operator, _) in groups.steps(group) {
            let node = operator.index();
            let again = std::mem::replace(&mut ran[node], true);
            variants.push(operators.again[node].filter(|_| again).unwrap_or(first[node]));
        }
    }
    variants
}
