//! `kusumoto-2019` against every increasing sequence of lower sets of small graphs, and its claims
//! against the simulator.

use std::collections::HashSet;

use crate::common::{Dice, dice, empty, network, operator, tensor};
use crate::networks::{self, ONE};
use fixedbitset::FixedBitSet;
use proptest::prelude::*;
use remat_core::format::{ImplementationDocument, InstanceDocument, Phase, TensorKind};
use remat_core::{Instance, simulate};
use remat_formulations::kusumoto::chen;
use remat_formulations::kusumoto::family;
use remat_formulations::kusumoto::graph::{Graph, Node};
use remat_formulations::kusumoto::program::{self, Goal};
use remat_formulations::kusumoto::search::Search;
use remat_formulations::kusumoto::steps::{LastGroup, Memory, Steps};
use remat_formulations::kusumoto::strategy::{self, Liveness};
use remat_formulations::search::clock::Clock;
use remat_formulations::{Answer, Limits, NoStarts, Termination};

fn unlimited() -> Clock {
    Clock::start(None)
}

/// A random graph: each node reads some earlier nodes (or the input), may be a sink, and its backward
/// reads its output or its inputs; the gradients of a node with several readers are summed.
fn branching(dice: &Dice) -> InstanceDocument {
    let mut document = empty("branching");
    let n = u32::try_from(dice.layers.len()).expect("small");
    document.tensors.push(tensor(0, 3, TensorKind::Input));
    let bits = |i: u32| dice.layers[i as usize].3;
    let inputs_of = |i: u32| -> Vec<u32> { (0..i).filter(|&j| bits(i) >> j & bits(i) >> (j + 9) & 1 == 1).collect() };
    let readers_of = |i: u32| -> Vec<u32> { (i + 1..n).filter(|&j| inputs_of(j).contains(&i)).collect() };
    // Tensors: node i makes 1 + i, its summed gradient is 50 + i, that of its parameters 80 + i, and the
    // backward of j makes 100 + 20 j + i for node i.
    let partial = |from: u32, to: u32| 100 + 20 * from + to;
    let value = |i: u32| if i == u32::MAX { 0 } else { 1 + i };
    for i in 0..n {
        let (bytes, time, workspace, _) = dice.layers[i as usize];
        let last = i + 1 == n;
        document.tensors.push(tensor(value(i), bytes, if last { TensorKind::Output } else { TensorKind::Activation }));
        let mut inputs: Vec<_> = inputs_of(i).into_iter().map(value).collect();
        if inputs.is_empty() {
            inputs.push(0);
        }
        let mut forward = operator(i, if last { Phase::Loss } else { Phase::Forward }, inputs, vec![value(i)]);
        forward.implementations = vec![ImplementationDocument::plain("default", time, workspace)];
        if time % 3 == 0 {
            forward.op_type = "aten.convolution".into();
        }
        document.operators.push(forward);
    }
    let mut next = n;
    for i in (0..n).rev() {
        let (bytes, time, workspace, _) = dice.layers[i as usize];
        let readers = readers_of(i);
        if readers.len() > 1 {
            document.tensors.push(tensor(50 + i, bytes, TensorKind::Gradient));
            let parts = readers.iter().map(|&j| partial(j, i)).collect();
            document.operators.push(operator(next, Phase::Backward, parts, vec![50 + i]));
            next += 1;
        }
        let mut inputs: Vec<_> =
            if bits(i) >> 31 & 1 == 1 { vec![value(i)] } else { inputs_of(i).into_iter().map(value).collect() };
        match readers[..] {
            [] => {}
            [reader] => inputs.push(partial(reader, i)),
            _ => inputs.push(50 + i),
        }
        document.tensors.push(tensor(80 + i, 1, TensorKind::ParamGradient));
        let mut outputs = vec![80 + i];
        for &j in &inputs_of(i) {
            document.tensors.push(tensor(partial(i, j), dice.layers[j as usize].0, TensorKind::Gradient));
            outputs.push(partial(i, j));
        }
        let mut backward = operator(next, Phase::Backward, inputs, outputs);
        backward.differentiates = Some(i);
        backward.implementations = vec![ImplementationDocument::plain("default", 2 * time, workspace)];
        document.operators.push(backward);
        next += 1;
    }
    document.order = (0..next).collect();
    document
}

/// Every increasing sequence of lower sets that ends in V, by masks.
fn sequences(graph: &Graph) -> Vec<Vec<u32>> {
    let n = graph.nodes.len();
    let is_lower = |mask: &u32| {
        (0..n).filter(|v| mask >> v & 1 == 1).all(|v| graph.nodes[v].predecessors.iter().all(|p| mask >> p & 1 == 1))
    };
    let sets: Vec<u32> = (1..1 << n).filter(is_lower).collect();
    let mut complete = Vec::new();
    let mut open: Vec<Vec<u32>> = vec![vec![]];
    while let Some(prefix) = open.pop() {
        let last = prefix.last().copied().unwrap_or(0);
        for &set in sets.iter().filter(|&&set| set & last == last && set != last) {
            let longer: Vec<u32> = prefix.iter().copied().chain([set]).collect();
            if set + 1 == 1 << n { complete.push(longer) } else { open.push(longer) }
        }
    }
    complete
}

/// Equations (1) and (2), read aloud; with what the instance keeps for the whole iteration and the
/// gradients of parameters made so far.
fn by_definition(graph: &Graph, times: &[u64], sequence: &[u32], last_group: LastGroup) -> (u64, u64) {
    let n = graph.nodes.len();
    let has = |set: u32, v: usize| set >> v & 1 == 1;
    let bytes = |set: u32| (0..n).filter(|&v| has(set, v)).map(|v| graph.nodes[v].bytes).sum::<u64>();
    let image = |set: u32, next: &dyn Fn(usize) -> Vec<usize>| {
        (0..n).filter(|&v| has(set, v)).flat_map(next).fold(0_u32, |image, v| image | 1 << v)
    };
    let after = |set: u32| image(set, &|v| graph.nodes[v].successors.clone());
    let before = |set: u32| image(set, &|v| graph.nodes[v].predecessors.clone());
    let all = (1_u32 << n) - 1;
    let boundary = |set: u32| before(all & !set) & set;
    let (mut overhead, mut peak, mut union, mut previous) = (0, 0, 0_u32, 0_u32);
    for &set in sequence {
        let group = set & !previous;
        let made: u64 = graph
            .results
            .iter()
            .filter(|result| graph.backward[result.maker].after.iter().all(|&v| !has(previous, v)))
            .map(|result| result.bytes)
            .sum();
        let memory = bytes(union) + 2 * bytes(group) + bytes(after(set) & !set) + bytes(before(after(set)) & !set);
        peak = peak.max(memory + graph.base_bytes + made);
        if set != all || last_group == LastGroup::Recompute {
            overhead += (0..n).filter(|&v| has(group & !boundary(set), v)).map(|v| times[v]).sum::<u64>();
        }
        union |= boundary(set);
        previous = set;
    }
    (overhead, peak)
}

/// The graph without what equation (2) does not know of: no gradients and no workspaces.
fn as_in_the_paper(graph: &Graph) -> Graph {
    let nodes = graph.nodes.iter().map(|node| Node { workspace: 0, ..node.clone() }).collect();
    Graph { nodes, gradients: vec![], late: vec![], ..graph.clone() }
}

fn positions(steps: &Steps<'_>, sequence: &[u32]) -> Vec<usize> {
    let mask = |set: &FixedBitSet| set.ones().fold(0_u32, |mask, v| mask | 1 << v);
    sequence.iter().map(|&wanted| steps.sets.iter().position(|set| mask(set) == wanted).expect("all sets")).collect()
}

fn answers(instance: &Instance, budgets: &[Option<u64>], given: &[(&str, &str)]) -> Vec<Answer> {
    networks::answers("kusumoto-2019", instance, budgets, given, &NoStarts, ONE)
}

/// From what is always there to what the most needs.
fn budgets(instance: &Instance) -> Vec<Option<u64>> {
    let least = instance.base_bytes();
    let most = answers(instance, &[None], &[("objective", "memory-centric")])[0].claimed.expect("a claim").peak_bytes;
    (1..=8).map(|k| Some(least + (most - least) * k / 8)).chain([None]).collect()
}

fn time(answer: &Answer) -> u64 {
    answer.claimed.map_or(u64::MAX, |claimed| claimed.time)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_exact_program_finds_the_best_of_all_sequences(
        dice in dice(1..6),
        memory in prop::sample::select(vec![Memory::Instance, Memory::Larger]),
        as_in_paper in prop::bool::ANY,
        last_group in prop::sample::select(vec![LastGroup::Recompute, LastGroup::Keep]),
    ) {
        let instance = Instance::new(&branching(&dice)).expect("valid");
        let mut graph = Graph::new(&instance).expect("supported");
        if as_in_paper {
            graph = as_in_the_paper(&graph);
        }
        let times: Vec<_> = graph.nodes.iter().map(|node| node.time).collect();
        let sets = family::all(&graph, 1000, unlimited()).expect("few");
        let steps = Steps::new(&graph, sets, &times, (memory, last_group), u64::MAX, unlimited()).expect("no limit");
        let mut costs = Vec::new();
        for sequence in sequences(&graph) {
            let cost = program::evaluate(&steps, &positions(&steps, &sequence));
            if as_in_paper && memory == Memory::Larger {
                prop_assert_eq!(cost, by_definition(&graph, &times, &sequence, last_group));
            }
            costs.push(cost);
        }
        let least = costs.iter().map(|cost| cost.1).min().expect("at least one");
        prop_assert_eq!(program::least_budget(&steps, unlimited()), Ok(least));
        let most = costs.iter().map(|cost| cost.1).max().expect("at least one");
        for budget in (least.saturating_sub(1)..=most).step_by(2).chain([u64::MAX]) {
            let fitting = || costs.iter().filter(|cost| cost.1 <= budget).map(|cost| cost.0);
            for (goal, best) in [(Goal::TimeCentric, fitting().min()), (Goal::MemoryCentric, fitting().max())] {
                let found = Search::new(&steps, budget, goal).best(unlimited()).expect("no limit");
                let cost = found.map(|sequence| program::evaluate(&steps, &sequence));
                prop_assert_eq!(cost.map(|cost| cost.0), best, "{:?} within {}", goal, budget);
                prop_assert!(cost.is_none_or(|cost| cost.1 <= budget));
            }
        }
    }

    #[test]
    fn claims_hold_with_and_without_liveness(
        dice in dice(1..9),
        branches in any::<bool>(),
        dp in prop::sample::select(vec!["exact", "approximate"]),
        objective in prop::sample::select(vec!["time-centric", "memory-centric"]),
        memory in prop::sample::select(vec!["larger", "instance"]),
        last_group in prop::sample::select(vec!["recompute", "keep"]),
        costs in prop::sample::select(vec!["times", "unit"]),
    ) {
        let document = if branches || dice.layers.len() < 2 { branching(&dice) } else { network(&dice) };
        let instance = Instance::new(&document).expect("valid");
        let budgets = budgets(&instance);
        let given = [("dp", dp), ("objective", objective), ("memory", memory), ("last-group", last_group), ("costs", costs)];
        let with = |liveness| answers(&instance, &budgets, &[&given[..], &[("liveness", liveness)]].concat());
        for (on, off) in with("on").iter().zip(&with("off")) {
            prop_assert_eq!(on.claimed, off.claimed);
            let (Some(on_schedule), Some(off_schedule)) = (&on.schedule, &off.schedule) else {
                prop_assert!(on.schedule.is_none() && off.schedule.is_none());
                continue;
            };
            let on_peak = simulate(&instance, on_schedule).expect("legal").peak_bytes;
            let off_peak = simulate(&instance, off_schedule).expect("legal").peak_bytes;
            let claimed = on.claimed.expect("a schedule comes with a claim").peak_bytes;
            prop_assert!(on_peak <= off_peak && off_peak <= claimed, "{} {} {}", on_peak, off_peak, claimed);
            prop_assert!(on.budget.is_none_or(|budget| claimed <= budget));
        }
    }

    #[test]
    fn exact_beats_approximate_and_time_centric_beats_memory_centric(dice in dice(1..9)) {
        let instance = Instance::new(&branching(&dice)).expect("valid");
        let budgets = budgets(&instance);
        let exact = answers(&instance, &budgets, &[]);
        for (dp, other) in [("exact", "memory-centric"), ("approximate", "time-centric"), ("approximate", "memory-centric")] {
            for (exact, other) in exact.iter().zip(answers(&instance, &budgets, &[("dp", dp), ("objective", other)])) {
                prop_assert!(time(exact) <= time(&other));
                prop_assert!(exact.termination == Termination::Optimal || other.schedule.is_none());
            }
        }
        let coarse = |dp| answers(&instance, &budgets, &[("dp", dp), ("objective", "memory-centric")]);
        for (exact, approximate) in coarse("exact").iter().zip(&coarse("approximate")) {
            prop_assert!(approximate.schedule.is_none() || time(exact) >= time(approximate));
        }
    }
}

/// A large node read by three small ones: autograd makes three gradients of the large one's size in the
/// small ones' group, equation (2) counts those of the small ones.
#[test]
fn equation_2_alone_can_be_less_than_the_strategy_needs() {
    let reads = |nodes: u32| nodes | nodes << 9;
    let small = (1, 1, 0, reads(1));
    let layers = vec![(10, 1, 0, 0), small, small, small, (1, 1, 0, reads(0b1110))];
    let instance = Instance::new(&branching(&Dice { layers })).expect("valid");
    let graph = Graph::new(&instance).expect("supported");
    let times = vec![1; 5];
    let peak = |counted: &Graph| {
        let sets = family::all(counted, 1000, unlimited()).expect("few");
        let settings = (Memory::Larger, LastGroup::Recompute);
        let steps = Steps::new(counted, sets, &times, settings, u64::MAX, unlimited()).expect("no limit");
        let sequence = positions(&steps, &[0b1, 0b11111]);
        let sets: Vec<_> = sequence.iter().map(|&set| &steps.sets[set]).collect();
        let group_of = strategy::groups(&graph, &sets);
        let schedule = strategy::schedule(&instance, &graph, &group_of, LastGroup::Recompute, Liveness::Off);
        (program::evaluate(&steps, &sequence).1, simulate(&instance, &schedule).expect("legal").peak_bytes)
    };
    let ((equation, simulated), (larger, _)) = (peak(&as_in_the_paper(&graph)), peak(&graph));
    assert!(equation < simulated && simulated <= larger, "{equation} {simulated} {larger}");
}

/// A chain of convolutions and others, with times that no rounding leaves alone.
fn uneven() -> Instance {
    let layer = |k: u64| (10 + 7 * k % 11, 100 + 13 * k % 29, k % 3, 0);
    Instance::new(&network(&Dice { layers: (0..8).map(layer).collect() })).expect("valid")
}

#[test]
fn rounded_times_cost_at_most_a_step_per_node_and_are_no_proof() {
    let instance = uneven();
    let budgets = budgets(&instance);
    let exact = answers(&instance, &budgets, &[]);
    let total: u64 = Graph::new(&instance).expect("supported").nodes.iter().map(|node| node.time).sum();
    for steps in [1, 5, 50] {
        let rounded = answers(&instance, &budgets, &[("time-steps", &steps.to_string())]);
        for (exact, rounded) in exact.iter().zip(&rounded) {
            assert_eq!(exact.schedule.is_some(), rounded.schedule.is_some());
            if exact.schedule.is_some() {
                assert_eq!((exact.termination, rounded.termination), (Termination::Optimal, Termination::Feasible));
                assert!(time(exact) <= time(rounded));
                assert!(time(rounded) <= time(exact) + 8 * (total / steps).max(1), "{steps} steps");
            }
        }
    }
}

#[test]
fn the_least_budget_has_a_plan_and_one_byte_less_has_none() {
    let instance = uneven();
    let least = &answers(&instance, &[None], &[("budget", "least")])[0];
    let peak = least.claimed.expect("there is always a plan").peak_bytes;
    let near = answers(&instance, &[Some(peak), Some(peak - 1)], &[]);
    assert_eq!(near[0].claimed, least.claimed);
    assert_eq!((near[1].termination, near[1].schedule.is_none()), (Termination::Infeasible, true));
    let below = &answers(&instance, &[Some(peak - 1)], &[("budget", "least")])[0];
    assert!(below.schedule.is_none());
}

#[test]
fn a_time_limit_that_has_passed_stops_both_programs() {
    let instance = fan(10);
    let limits = Limits { time: Some(std::time::Duration::ZERO), ..ONE };
    for (dp, objective) in [("exact", "time-centric"), ("exact", "memory-centric")] {
        let given = [("dp", dp), ("objective", objective)];
        let answer = networks::answers("kusumoto-2019", &instance, &[None], &given, &NoStarts, limits).remove(0);
        assert_eq!((answer.termination, answer.schedule.is_none()), (Termination::TimeLimit, true), "{dp} {objective}");
    }
}

#[test]
fn chens_segments_end_at_articulation_points() {
    // 0 -> 1 -> {2, 3} -> 4 -> 5: without 1 or 4 the graph falls apart.
    let reads = |nodes: u32| nodes | nodes << 9;
    let layer = |bytes: u64, from: u32| (bytes, 1, 0, reads(from));
    let layers = vec![layer(4, 0), layer(5, 1), layer(6, 2), layer(7, 2), layer(8, 12), layer(9, 16)];
    let instance = Instance::new(&branching(&Dice { layers })).expect("valid");
    let graph = Graph::new(&instance).expect("supported");
    let points = chen::articulation_points(&graph);
    assert_eq!(points, HashSet::from([1, 4]));
    let order = chen::depth_first_order(&graph);
    let place = |node: usize| order.iter().position(|&other| other == node).expect("all nodes");
    for (node, described) in graph.nodes.iter().enumerate() {
        assert!(described.predecessors.iter().all(|&before| place(before) < place(node)));
    }
    let found: Vec<_> = chen::segmentations(&graph).into_iter().map(|found| found.group_of).collect();
    let (all, two, one) = (vec![0, 0, 1, 1, 1, 2], vec![0, 0, 0, 0, 0, 1], vec![0; 6]);
    assert_eq!(found, [one, all, two], "from coarse to fine");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn chens_segments_never_beat_the_exact_program_where_it_keeps_to_the_claim(dice in dice(1..9)) {
        let instance = Instance::new(&branching(&dice)).expect("valid");
        let budgets = budgets(&instance);
        let (instance, budgets) = (&instance, &budgets[..]);
        let chen = networks::answers("kusumoto-chen", instance, budgets, &[("liveness", "off")], &NoStarts, ONE);
        // The exact program plans by its claim, which may be more than what is simulated: without a budget
        // nothing is between them.
        let exact = answers(instance, &[None], &[]);
        for (answer, budget) in chen.iter().zip(budgets) {
            let Some(schedule) = &answer.schedule else { continue };
            let simulated = simulate(instance, schedule).expect("legal");
            prop_assert_eq!(simulated.time, answer.claimed.expect("a claim").time);
            prop_assert!(budget.is_none_or(|budget| simulated.peak_bytes <= budget));
            prop_assert!(simulated.time >= time(&exact[0]));
        }
        prop_assert!(chen.last().is_some_and(|answer| answer.schedule.is_some()));
    }
}

/// n nodes that read the input, and one that reads them all: 2^n + 1 lower sets, the empty one included.
fn fan(n: u32) -> Instance {
    let layer = |k: u32| (5, 1, 0, if k == n { u32::MAX } else { 0 });
    Instance::new(&branching(&Dice { layers: (0..=n).map(layer).collect() })).expect("valid")
}

#[test]
fn too_many_lower_sets_are_a_stop_with_a_reason_and_the_approximate_answer() {
    let instance = fan(12);
    let stopped = &answers(&instance, &[None], &[("max-lower-sets", "4096")])[0];
    assert_eq!((stopped.termination, stopped.schedule.is_some()), (Termination::NodeLimit, true));
    assert!(stopped.note.starts_with("more lower sets than max-lower-sets; "), "{}", stopped.note);
    assert!(stopped.note.ends_with("of 14 pruned lower sets"), "{}", stopped.note);
    let all = &answers(&instance, &[None], &[("max-lower-sets", "5000")])[0];
    assert!(all.note.ends_with("of 4097 lower sets"), "{}", all.note);
}

/// GoogLeNet as the paper counts it, 134 nodes, sizes in elements per image.
struct Inception {
    document: InstanceDocument,
    backward: Vec<(u32, Vec<u32>)>,
}

impl Inception {
    /// A node of some elements that reads others, and the time of a convolution or of anything else.
    fn node(&mut self, inputs: &[u32], elements: u64, convolution: bool) -> u32 {
        let id = u32::try_from(self.document.operators.len()).expect("small");
        let value = id + 1;
        self.document.tensors.push(tensor(value, elements, TensorKind::Activation));
        let mut forward = operator(id, Phase::Forward, inputs.to_vec(), vec![value]);
        forward.op_type = if convolution { "aten.convolution" } else { "aten.relu" }.into();
        forward.implementations =
            vec![ImplementationDocument::plain("default", elements * if convolution { 10 } else { 1 }, 0)];
        self.document.operators.push(forward);
        self.backward.push((id, inputs.to_vec()));
        value
    }

    fn convolution(&mut self, input: u32, elements: u64) -> u32 {
        let made = self.node(&[input], elements, true);
        self.node(&[made], elements, false)
    }

    fn google_net() -> Instance {
        let mut net = Self { document: empty("googlenet"), backward: Vec::new() };
        net.document.tensors.push(tensor(0, 3 * 224 * 224, TensorKind::Input));
        let mut last = net.convolution(0, 64 * 112 * 112);
        last = net.node(&[last], 64 * 56 * 56, false);
        last = net.convolution(last, 64 * 56 * 56);
        last = net.convolution(last, 192 * 56 * 56);
        last = net.node(&[last], 192 * 28 * 28, false);
        let modules: [(u64, [u64; 7]); 9] = [
            (28, [192, 64, 96, 128, 16, 32, 32]),
            (28, [256, 128, 128, 192, 32, 96, 64]),
            (14, [480, 192, 96, 208, 16, 48, 64]),
            (14, [512, 160, 112, 224, 24, 64, 64]),
            (14, [512, 128, 128, 256, 24, 64, 64]),
            (14, [512, 112, 144, 288, 32, 64, 64]),
            (14, [528, 256, 160, 320, 32, 128, 128]),
            (7, [832, 256, 160, 320, 32, 128, 128]),
            (7, [832, 384, 192, 384, 48, 128, 128]),
        ];
        for (side, [channels, one, reduce3, three, reduce5, five, pool]) in modules {
            let area = side * side;
            let a = net.convolution(last, one * area);
            let b = net.convolution(last, reduce3 * area);
            let b = net.convolution(b, three * area);
            let c = net.convolution(last, reduce5 * area);
            let c = net.convolution(c, five * area);
            let d = net.node(&[last], channels * area, false);
            let d = net.convolution(d, pool * area);
            last = net.node(&[a, b, c, d], (one + three + five + pool) * area, false);
        }
        net.finish()
    }

    /// The mirrored backward: one gradient per node, of the node's size, that the backwards of its readers share.
    fn finish(mut self) -> Instance {
        let n = u32::try_from(self.document.operators.len()).expect("small");
        self.document.tensors[n as usize].kind = TensorKind::Output;
        for (node, inputs) in std::mem::take(&mut self.backward).into_iter().rev() {
            let id = u32::try_from(self.document.operators.len()).expect("small");
            let mut reads = inputs.clone();
            let readers = (node + 1..n).filter(|&r| self.document.operators[r as usize].inputs.contains(&(node + 1)));
            reads.extend(readers.map(|reader| 10_000 + 200 * reader + node));
            let mut outputs = vec![1000 + node];
            self.document.tensors.push(tensor(1000 + node, 1, TensorKind::ParamGradient));
            for &input in inputs.iter().filter(|&&input| input > 0) {
                let bytes = self.document.tensors[input as usize].bytes;
                self.document.tensors.push(tensor(10_000 + 200 * node + input - 1, bytes, TensorKind::Gradient));
                outputs.push(10_000 + 200 * node + input - 1);
            }
            let mut backward = operator(id, Phase::Backward, reads, outputs);
            backward.differentiates = Some(node);
            self.document.operators.push(backward);
        }
        self.document.order = (0..2 * n).collect();
        Instance::new(&self.document).expect("valid")
    }
}

#[test]
#[ignore = "prints the running times on GoogLeNet"]
#[allow(clippy::print_stderr, reason = "a measurement, run by hand")]
fn google_net() {
    let instance = Inception::google_net();
    let graph = as_in_the_paper(&Graph::new(&instance).expect("supported"));
    let unit = |op_type: &str| if op_type.contains("conv") { 10 } else { 1 };
    for (label, times) in [
        ("unit", graph.nodes.iter().map(|n| unit(&instance.operator(n.operator).op_type)).collect::<Vec<u64>>()),
        ("times", graph.nodes.iter().map(|n| n.time).collect()),
    ] {
        for exact in [false, true] {
            let started = std::time::Instant::now();
            let sets =
                if exact { family::all(&graph, 1 << 20, unlimited()).expect("few") } else { family::pruned(&graph) };
            let steps = Steps::new(&graph, sets, &times, (Memory::Larger, LastGroup::Recompute), u64::MAX, unlimited())
                .expect("no limit");
            let built = started.elapsed().as_secs_f64();
            let least = program::least_budget(&steps, unlimited()).expect("no limit");
            let bisected = started.elapsed().as_secs_f64() - built;
            eprintln!(
                "{label} exact {exact}: {} nodes, {} lower sets, built {built:.3} s, least budget {least} {bisected:.3} s",
                graph.nodes.len(),
                steps.sets.len()
            );
            for (goal, tenths) in
                [(Goal::TimeCentric, 10), (Goal::MemoryCentric, 10), (Goal::TimeCentric, 12), (Goal::TimeCentric, 15)]
            {
                let started = std::time::Instant::now();
                let found = Search::new(&steps, least / 10 * tenths + 10, goal).best(unlimited()).expect("no limit");
                let cost = program::evaluate(&steps, &found.expect("feasible"));
                let percent = 100.0 * cost.0 as f64 / times.iter().sum::<u64>() as f64;
                eprintln!("  {goal:?} {tenths}: {:.3} s, overhead {percent:.1} %", started.elapsed().as_secs_f64());
            }
        }
    }
}
