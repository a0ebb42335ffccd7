//! What a solution runs, one after the other, and which first runs of the path end intervals: one at first, and more where
//! what runs in an interval does not fit.

use crate::free_order::graph::{Graph, Node};
use crate::free_order::model::{Chosen, Intervals};

/// The point to begin with: where memory is greatest if everything is kept and runs once, in the instance's order.
pub fn first_points(graph: &Graph) -> Vec<usize> {
    let way = |node: &Node| node.ways.iter().position(|way| !way.recompute).unwrap_or(0);
    let runs = graph.nodes.iter().enumerate().filter(|(_, node)| node.must);
    let runs: Vec<Chosen> = runs.map(|(at, node)| Chosen { at, way: way(node), again: false }).collect();
    let needs = needs(graph, &runs, Ends { carried: &|_| false, stays: &|tensor| graph.tensors[tensor].result });
    let worst = (0..needs.len()).max_by_key(|&at| (needs[at], std::cmp::Reverse(at)));
    worst.map(|worst| point(graph, 0, graph.path.len(), runs[worst].at)).into_iter().collect()
}

/// Of some operators of the path the last one that runs no later than an operator, or else the first.
fn point(graph: &Graph, from: usize, until: usize, operator: usize) -> usize {
    from + graph.path[from..until].partition_point(|&at| at <= operator).saturating_sub(1)
}

/// A run in its turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The operator whose first run it comes before, or is.
    before: usize,
    /// The run.
    pub run: Chosen,
}

/// What a solution runs, by interval.
pub fn turns(graph: &Graph, relaxation: &Intervals<'_>, values: &[f64]) -> Vec<Vec<Turn>> {
    let mut ran = vec![false; graph.nodes.len()];
    let of_interval = |interval: usize| {
        let mut runs = relaxation.chosen(interval, values);
        for run in &mut runs {
            run.again &= relaxation.has_home(run.at) || ran[run.at];
        }
        for run in &runs {
            ran[run.at] = true;
        }
        with_ends(relaxation, interval, values, |ends| in_turn(graph, &runs, ends))
    };
    (0..=relaxation.points.len()).map(of_interval).collect()
}

/// Has runs that would take over a buffer which is read again later make one of their own, where the operator can; whether all
/// take as long as before.
pub fn leave_buffers(graph: &Graph, runs: &mut [Chosen]) -> bool {
    let mut same = true;
    let mut wanted: Vec<bool> = graph.tensors.iter().map(|tensor| tensor.result).collect();
    for run in runs.iter_mut().rev() {
        let ways = &graph.nodes[run.at].ways;
        if ways[run.way].basic.over.is_some_and(|tensor| wanted[tensor]) {
            let twins = (0..ways.len()).filter(|&way| ways[way].is_like_out_of_place(&ways[run.way]));
            let twin = twins.min_by_key(|&way| ways[way].basic.time).unwrap_or(run.way);
            same &= ways[twin].basic.time <= ways[run.way].basic.time;
            run.way = twin;
        }
        ways[run.way].basic.makes.iter().for_each(|&tensor| wanted[tensor] = false);
        ways[run.way].basic.reads.iter().for_each(|&tensor| wanted[tensor] = true);
    }
    same
}

/// Points of the path, at most one in each interval, where what a solution runs there exceeds the budget most.
pub fn finer(
    graph: &Graph,
    relaxation: &Intervals<'_>,
    budget: u64,
    values: &[f64],
    turns: &[Vec<Turn>],
) -> Vec<usize> {
    let mut finer = Vec::new();
    for (interval, turns) in turns.iter().enumerate() {
        let (from, until) = relaxation.inside(interval);
        if from >= until {
            continue;
        }
        let runs: Vec<Chosen> = turns.iter().map(|turn| turn.run).collect();
        let needs = with_ends(relaxation, interval, values, |ends| needs(graph, &runs, ends));
        let worst = (0..needs.len()).max_by_key(|&at| (needs[at], std::cmp::Reverse(at)));
        if let Some(worst) = worst.filter(|&worst| needs[worst] > i128::from(budget)) {
            finer.push(point(graph, from, until, turns[worst].before));
        }
    }
    finer
}

/// A point in the middle of each interval that has operators of the path inside.
pub fn middles(relaxation: &Intervals<'_>) -> Vec<usize> {
    let all = (0..=relaxation.points.len()).map(|interval| relaxation.inside(interval));
    all.filter(|(from, until)| from < until).map(|(from, until)| usize::midpoint(from, until)).collect()
}

/// Something of an interval that depends on what a solution has there when it begins and ends.
fn with_ends<T>(relaxation: &Intervals<'_>, interval: usize, values: &[f64], what: impl FnOnce(Ends<'_>) -> T) -> T {
    let before = interval.checked_sub(1);
    what(Ends {
        carried: &|tensor| before.is_some_and(|before| relaxation.is_there(before, tensor, values)),
        stays: &|tensor| relaxation.is_there(interval, tensor, values),
    })
}

/// What is there when an interval begins, and when it ends.
#[derive(Clone, Copy)]
struct Ends<'e> {
    carried: &'e dyn Fn(usize) -> bool,
    stays: &'e dyn Fn(usize) -> bool,
}

/// The runs of an interval one after the other, each with the operator whose turn it is: first runs as they are given, and
/// before each of them those of other operators that it is the first to need, directly or through others. What has run for
/// the first time in the interval, too, runs again before the last that needs it.
fn in_turn(graph: &Graph, runs: &[Chosen], ends: Ends<'_>) -> Vec<Turn> {
    let end = runs.len().saturating_sub(1);
    let mut late = vec![false; graph.nodes.len()];
    let mut places = vec![end; graph.nodes.len()];
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| !run.again) {
        (late[run.at], places[run.at]) = (true, at);
    }
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_unstable_by_key(|&at| std::cmp::Reverse((runs[at].at, runs[at].again)));
    let mut place = vec![0; runs.len()];
    for &at in &order {
        let Chosen { at: operator, way, again } = runs[at];
        let way = &graph.nodes[operator].ways[way];
        place[at] = match again {
            false => at,
            true if late[operator] && way.basic.makes.iter().any(|&tensor| (ends.stays)(tensor)) => end,
            true => places[operator],
        };
        for &tensor in way.basic.reads.iter().filter(|&&tensor| !(ends.carried)(tensor)) {
            let producer = graph.tensors[tensor].producer;
            let other = places[producer];
            places[producer] = if late[producer] { other.max(place[at]) } else { other.min(place[at]) };
        }
    }
    order.sort_unstable_by_key(|&at| (place[at], !runs[at].again, runs[at].at));
    order.into_iter().map(|at| Turn { before: runs[place[at]].at, run: runs[at] }).collect()
}

/// Memory during each of the runs of an interval, one after the other; what is read no more in it and not there at its end is
/// freed, and so is what is made again.
fn needs(graph: &Graph, runs: &[Chosen], ends: Ends<'_>) -> Vec<i128> {
    // By tensor, when it is read or made.
    let mut touches: Vec<Vec<(usize, bool)>> = vec![Vec::new(); graph.tensors.len()];
    for (at, run) in runs.iter().enumerate() {
        let way = &graph.nodes[run.at].ways[run.way];
        way.basic.reads.iter().for_each(|&tensor| touches[tensor].push((at, false)));
        way.basic.makes.iter().for_each(|&tensor| touches[tensor].push((at, true)));
    }
    let mut changes = vec![0_i128; runs.len() + 1];
    let mut there = |tensor: usize, from: usize, last: usize| {
        changes[from] += i128::from(graph.tensors[tensor].bytes);
        changes[last + 1] -= i128::from(graph.tensors[tensor].bytes);
    };
    for (tensor, touches) in touches.iter().enumerate() {
        // Since when it is there, and its last use.
        let mut open = (ends.carried)(tensor).then_some((0, None));
        for &(at, makes) in touches {
            if makes {
                if let Some((from, Some(last))) = open {
                    there(tensor, from, last);
                }
                open = Some((at, Some(at)));
            } else if let Some((_, last)) = &mut open {
                *last = Some(at);
            }
        }
        let Some((from, last)) = open else { continue };
        if let Some(last) = if (ends.stays)(tensor) { Some(runs.len() - 1) } else { last } {
            there(tensor, from, last);
        }
    }
    let mut bytes = i128::from(graph.base_bytes);
    let need = |(run, change): (&Chosen, i128)| {
        bytes += change;
        bytes + graph.nodes[run.at].ways[run.way].beside
    };
    runs.iter().zip(changes).map(need).collect()
}

#[cfg(test)]
mod tests {
    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};
    use remat_core::generate::random::random;

    use super::*;
    use crate::random::Random;

    #[test]
    fn what_a_run_reads_is_carried_or_made_before_it_and_first_runs_keep_their_order() {
        let mut late = 0;
        for seed in 0..20 {
            let instance = Instance::new(&layered("layered", &Layered::moccasin(40, 0.4), seed)).expect("valid");
            let graph = Graph::new(&instance);
            let mut random = Random::new(seed);
            let mut runs = Vec::new();
            for at in 0..graph.nodes.len() {
                let kinds = match random.below(4) {
                    0 => &[][..],
                    1 => &[true],
                    2 => &[false],
                    _ => &[false, true],
                };
                runs.extend(kinds.iter().map(|&again| Chosen { at, way: 0, again }));
            }
            let carried: Vec<bool> = graph.tensors.iter().map(|_| random.below(3) == 0).collect();
            let stays: Vec<bool> = graph.tensors.iter().map(|_| random.below(3) == 0).collect();
            let ends = Ends { carried: &|tensor| carried[tensor], stays: &|tensor| stays[tensor] };
            let turns = in_turn(&graph, &runs, ends);
            assert_eq!(turns.len(), runs.len());
            let firsts = |runs: &mut dyn Iterator<Item = Chosen>| runs.filter(|run| !run.again).collect::<Vec<_>>();
            assert_eq!(firsts(&mut turns.iter().map(|turn| turn.run)), firsts(&mut runs.iter().copied()));
            let place = |producer: usize| turns.iter().position(|turn| turn.run.at == producer);
            for (at, Turn { run, .. }) in turns.iter().enumerate() {
                for &tensor in graph.nodes[run.at].ways[0].basic.reads.iter().filter(|&&tensor| !carried[tensor]) {
                    assert!(place(graph.tensors[tensor].producer).is_none_or(|place| place < at), "{seed}: {run:?}");
                }
            }
            late += turns.iter().zip(&runs).filter(|(turn, run)| turn.run != **run).count();
        }
        assert!(late > 0, "nothing was put off");
    }

    #[test]
    fn what_is_read_later_is_taken_over_only_where_there_is_no_other_way() {
        let (mut mended, mut in_place) = (0, 0);
        for seed in 0..300 {
            let instance = Instance::new(&random("random", 3, seed)).expect("valid");
            let graph = Graph::new(&instance);
            // Ways in place come last.
            let way = |node: &Node| node.ways.iter().rposition(|way| !way.recompute).unwrap_or(0);
            let runs = graph.nodes.iter().enumerate().map(|(at, node)| Chosen { at, way: way(node), again: false });
            let before: Vec<Chosen> = runs.collect();
            let mut runs = before.clone();
            leave_buffers(&graph, &mut runs);
            mended += before.iter().zip(&runs).filter(|(before, run)| before != run).count();
            for (at, run) in runs.iter().enumerate() {
                let ways = &graph.nodes[run.at].ways;
                let Some(tensor) = ways[run.way].basic.over else { continue };
                let reads = |later: &Chosen| graph.nodes[later.at].ways[later.way].basic.reads.contains(&tensor);
                let wanted = graph.tensors[tensor].result || runs[at + 1..].iter().any(reads);
                assert!(!wanted || !ways.iter().any(|way| way.is_like_out_of_place(&ways[run.way])), "{seed}: {run:?}");
                in_place += 1;
            }
        }
        assert!(mended > 0 && in_place > 0, "{mended} mended, {in_place} in place");
    }
}
