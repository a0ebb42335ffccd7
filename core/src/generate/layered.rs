//! Random layered graphs in the manner of Moccasin's Table 1.
//!
//! The recipe stands in words only (Gagrani et al. 2022, appendix A). What it leaves open was read off
//! the two graphs that Moccasin's authors published, n = 100 and n = 500, whose layers, degrees and
//! windows it reproduces; with its parameters the number of edges comes out within a few per cent of
//! the published ones. Departures: sizes are half-normal (of twelve uniform draws, so that they are the
//! same on every machine), which fits both files; the order is that of a random depth-first search.

use std::collections::{BTreeMap, BTreeSet};

use super::Lcg;
use crate::format::{
    ImplementationDocument, InstanceDocument, MemoryUnit, OperatorDocument, Origin, Phase, Provenance, TensorDocument,
    TensorKind, TimeUnit, Units,
};

/// Parameters of a layered graph; Moccasin's names in brackets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layered {
    /// Operators, source and target included (n).
    pub nodes: u32,
    /// Half the mean width of a layer over the root of the number of operators (w).
    pub width: f64,
    /// How far widths vary: between 1 - this and 1 + this times the mean (nlv).
    pub variation: f64,
    /// Share of the pairs of neighbouring layers that are edges, besides the least that connects them (ed).
    pub density: f64,
    /// Share of the edges that skip at least one layer (scd).
    pub skips: f64,
}

impl Layered {
    /// The parameters of Moccasin's Table 1 with n operators.
    pub fn moccasin(nodes: u32, width: f64) -> Self {
        Self { nodes, width, variation: 0.75, density: 0.2, skips: 0.14 }
    }
}

/// A random layered graph: one source, one target, everything between them in layers.
///
/// Durations are 0 to 1000 (source and target 0), sizes multiples of 10. Everything may run again, and
/// the target's value, which depends on all others, must be there at the end.
///
/// # Panics
/// With fewer than 3 nodes; callers bound them.
pub fn layered(name: &str, parameters: &Layered, seed: u64) -> InstanceDocument {
    assert!(parameters.nodes >= 3, "a layered graph has a source, a target and something between");
    let mut random = Lcg::new(seed);
    let layers = layers(parameters, &mut random);
    let edges = edges(parameters, &layers, &mut random);
    let mut reads = vec![Vec::new(); parameters.nodes as usize];
    for &(from, to) in &edges {
        reads[to as usize].push(from);
    }
    let order = depth_first(&edges, parameters.nodes, &mut random);
    document(name, parameters, seed, &reads, order, &mut random)
}

/// The source alone, the layers, the target alone; nodes are numbered from the source to the target.
fn layers(parameters: &Layered, random: &mut Lcg) -> Vec<Vec<u32>> {
    let inner = parameters.nodes - 2;
    let wanted = (f64::from(parameters.nodes).sqrt() / (2.0 * parameters.width)).round();
    let count = whole(wanted).clamp(1, inner);
    let weight = |random: &mut Lcg| 1.0 - parameters.variation + 2.0 * parameters.variation * unit(random);
    let weights: Vec<f64> = (0..count).map(|_| weight(random)).collect();
    let total: f64 = weights.iter().sum();
    let (mut sum, mut last) = (0.0, 0);
    let mut layers = vec![vec![0]];
    for (index, weight) in (1..=count).zip(weights) {
        sum += weight;
        // Every layer, this one and those to come, has at least one node.
        let share = if total > 0.0 { sum / total } else { f64::from(index) / f64::from(count) };
        let end = whole((share * f64::from(inner)).round()).clamp(last + 1, inner - (count - index));
        layers.push((last + 1..=end).collect());
        last = end;
    }
    layers.push(vec![inner + 1]);
    layers
}

/// Edges between neighbouring layers, then those that skip.
fn edges(parameters: &Layered, layers: &[Vec<u32>], random: &mut Lcg) -> BTreeSet<(u32, u32)> {
    let mut edges = BTreeSet::new();
    for pair in layers.windows(2) {
        connect(&pair[0], &pair[1], parameters.density, random, &mut edges);
    }
    let count = whole((edges.len() as f64 * parameters.skips / (1.0 - parameters.skips)).round());
    let inner = layers.len() - 2;
    if inner < 3 {
        return edges;
    }
    for _ in 0..count {
        let from = 1 + below(inner - 2, random);
        let to = from + 2 + below(inner - from - 1, random);
        let pick = |layer: &[u32], random: &mut Lcg| layer[below(layer.len(), random)];
        // A pair that is drawn twice counts once, as in the published graphs.
        edges.insert((pick(&layers[from], random), pick(&layers[to], random)));
    }
    edges
}

/// Every node of the wider layer gets nearly the same number of neighbours, those opposite of it.
fn connect(from: &[u32], to: &[u32], density: f64, random: &mut Lcg, edges: &mut BTreeSet<(u32, u32)>) {
    let (wide, narrow) = if from.len() >= to.len() { (from, to) } else { (to, from) };
    let possible = wide.len() * narrow.len();
    let extra = whole((density * (possible - wide.len()) as f64).round()) as usize;
    let (each, mut rest) = (1 + extra / wide.len(), extra % wide.len());
    for (index, &node) in wide.iter().enumerate() {
        let left = wide.len() - index;
        let more = rest > 0 && below(left, random) < rest;
        rest -= usize::from(more);
        let degree = (each + usize::from(more)).min(narrow.len());
        let opposite = (2 * index * narrow.len() + wide.len()) / (2 * wide.len());
        let start = opposite.saturating_sub((degree - 1) / 2).min(narrow.len() - degree);
        for &other in &narrow[start..start + degree] {
            edges.insert(if from.len() >= to.len() { (node, other) } else { (other, node) });
        }
    }
}

/// A topological order: nodes by descending finish of a depth-first search with shuffled successors.
fn depth_first(edges: &BTreeSet<(u32, u32)>, nodes: u32, random: &mut Lcg) -> Vec<u32> {
    let mut successors = vec![Vec::new(); nodes as usize];
    for &(from, to) in edges {
        successors[from as usize].push(to);
    }
    for list in &mut successors {
        for end in (1..list.len()).rev() {
            list.swap(end, below(end + 1, random));
        }
    }
    let mut seen = vec![false; nodes as usize];
    seen[0] = true;
    let mut stack = vec![0];
    let mut finished = Vec::with_capacity(nodes as usize);
    while let Some(&node) = stack.last() {
        match successors[node as usize].pop() {
            Some(next) if !std::mem::replace(&mut seen[next as usize], true) => stack.push(next),
            Some(_) => {}
            None => finished.extend(stack.pop()),
        }
    }
    finished.reverse();
    finished
}

fn document(
    name: &str,
    parameters: &Layered,
    seed: u64,
    reads: &[Vec<u32>],
    order: Vec<u32>,
    random: &mut Lcg,
) -> InstanceDocument {
    let origin = Origin::Generated { generator: "layered".into(), parameters: named(parameters), seed: Some(seed) };
    let last = parameters.nodes - 1;
    let mut tensors = Vec::new();
    let mut operators = Vec::new();
    for node in 0..parameters.nodes {
        let kind = if node == last { TensorKind::Output } else { TensorKind::Activation };
        let label = format!("n{node}");
        let bytes = half_normal(random);
        tensors.push(TensorDocument::new(node, &label, bytes, kind));
        let time = if node == 0 || node == last { 0 } else { below(1001, random) as u64 };
        operators.push(OperatorDocument {
            inputs: reads[node as usize].clone(),
            outputs: vec![node],
            recomputable: Some(true),
            implementations: vec![ImplementationDocument::plain("default", time, 0)],
            ..OperatorDocument::new(node, label, "node", Phase::Forward)
        });
    }
    let units = Units { time: TimeUnit::Abstract, memory: MemoryUnit::Abstract };
    let document = InstanceDocument::new(name, units, provenance(parameters, &origin));
    InstanceDocument { tensors, operators, order, ..document }
}

fn provenance(parameters: &Layered, origin: &Origin) -> Provenance {
    Provenance::of_graph(
        format!("random layered graph of {} operators", parameters.nodes),
        origin,
        "one output per operator; everything may run again; no workspaces, no parameters",
    )
}

fn named(parameters: &Layered) -> BTreeMap<String, f64> {
    let Layered { nodes, width, variation, density, skips } = *parameters;
    let pairs = [("n", f64::from(nodes)), ("w", width), ("nlv", variation), ("ed", density), ("scd", skips)];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A multiple of 10, half-normal with a scale of 2560: the distance of twelve draws' sum from its mean.
fn half_normal(random: &mut Lcg) -> u64 {
    let sum: u64 = (0..12).map(|_| below(10_000, random) as u64).sum();
    (sum.abs_diff(59_994) * 256).div_ceil(10_000) * 10
}

/// A whole number below a bound.
fn below(bound: usize, random: &mut Lcg) -> usize {
    whole(random.next((0, bound as u64 - 1))) as usize
}

/// A number from 0 to 1.
fn unit(random: &mut Lcg) -> f64 {
    random.next((0, 1 << 30)) / f64::from(1 << 30)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, whole and not negative")]
fn whole(value: f64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instance;

    fn edges_of(nodes: u32, width: f64, seed: u64) -> usize {
        let document = layered("layered", &Layered::moccasin(nodes, width), seed);
        let instance = Instance::new(&document).expect("valid");
        let reads = |operator: &crate::Operator| operator.implementations[0].reads.len();
        assert_eq!(instance.operators().iter().filter(|operator| reads(operator) == 0).count(), 1, "one source");
        instance.operators().iter().map(reads).sum()
    }

    #[test]
    fn edges_are_as_many_as_in_the_published_graphs() {
        for (nodes, width, published) in [(100, 0.27, 236), (250, 0.43, 944), (500, 0.36, 2461), (1000, 0.31, 5875)] {
            let mean = (0..20).map(|seed| edges_of(nodes, width, seed)).sum::<usize>() / 20;
            assert!(mean.abs_diff(published) * 10 < published, "n = {nodes}: {mean} against {published}");
        }
    }

    #[test]
    fn neighbouring_layers_are_connected_as_in_the_published_graphs() {
        // Layers 1 and 2 of the graph with n = 500: 22 and 11 nodes, 66 edges, windows of 3.
        let (from, to): (Vec<u32>, Vec<u32>) = ((0..22).collect(), (22..33).collect());
        let mut edges = BTreeSet::new();
        connect(&from, &to, 0.2, &mut Lcg::new(1), &mut edges);
        let of = |node| edges.iter().filter(|edge| edge.0 == node).map(|edge| edge.1 - 22).collect::<Vec<_>>();
        assert_eq!((edges.len(), of(0), of(6), of(21)), (66, vec![0, 1, 2], vec![2, 3, 4], vec![8, 9, 10]));
    }

    #[test]
    fn tiny_and_narrow_graphs_are_valid() {
        for nodes in 3..12 {
            for width in [0.01, 0.3, 5.0] {
                let parameters = Layered { variation: 1.0, ..Layered::moccasin(nodes, width) };
                let document = layered("tiny", &parameters, u64::from(nodes));
                assert!(Instance::new(&document).is_ok(), "n = {nodes}, w = {width}");
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_graph() {
        let make = |seed| layered("layered", &Layered::moccasin(100, 0.27), seed);
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }
}
