//! Every increasing sequence of lower sets.

use remat_core::{Instance, simulate};
use remat_formulations::Class;
use remat_formulations::kusumoto::family;
use remat_formulations::kusumoto::graph::Graph;
use remat_formulations::kusumoto::program::evaluate;
use remat_formulations::kusumoto::steps::{LastGroup, Memory, Steps};
use remat_formulations::kusumoto::strategy::{self, Liveness};
use remat_formulations::method::claim::{self, Kept};
use remat_formulations::search::clock::Clock;

/// Simulated time and claimed peak of the least overhead by equation (1) within a budget, over all canonical
/// strategies: the least simulated time of those with that overhead, and the greatest.
pub fn least_overhead(instance: &Instance, class: &Class, budget: u64) -> Option<(u64, u64)> {
    let graph = Graph::new(instance).expect("supported");
    let sets = family::all(&graph, usize::MAX, Clock::start(None)).expect("no limit");
    let times: Vec<u64> = graph.nodes.iter().map(|node| node.time).collect();
    let memory = if class.memory == claim::Memory::Groups { Memory::Instance } else { Memory::Larger };
    let last = if class.kept == Kept::LastGroupKept { LastGroup::Keep } else { LastGroup::Recompute };
    let steps = Steps::new(&graph, sets, &times, (memory, last), u64::MAX, Clock::start(None)).expect("no limit");
    let members: Vec<u64> = steps.sets.iter().map(|set| set.ones().fold(0, |mask, v| mask | 1 << v)).collect();
    let all = (1_u64 << graph.nodes.len()) - 1;
    let mut best: Option<(u64, u64, u64)> = None;
    let mut open: Vec<Vec<usize>> = vec![vec![]];
    while let Some(prefix) = open.pop() {
        let reached = prefix.last().map_or(0, |&at| members[at]);
        for (at, _) in members.iter().enumerate().filter(|&(_, &set)| set & reached == reached && set != reached) {
            let longer: Vec<usize> = prefix.iter().copied().chain([at]).collect();
            if members[at] != all {
                open.push(longer);
                continue;
            }
            let (overhead, peak) = evaluate(&steps, &longer);
            if peak <= budget && best.is_none_or(|(least, ..)| overhead <= least) {
                let group =
                    |v: usize| longer.iter().position(|&at| members[at] >> v & 1 == 1).expect("the last has all");
                let groups: Vec<usize> = (0..graph.nodes.len()).map(group).collect();
                let schedule = strategy::schedule(instance, &graph, &groups, last, Liveness::On);
                let time = simulate(instance, &schedule).expect("strategies are legal").time;
                let (least, most) = match best {
                    Some((known, least, most)) if known == overhead => (least.min(time), most.max(time)),
                    _ => (time, time),
                };
                best = Some((overhead, least, most));
            }
        }
    }
    best.map(|(_, least, most)| (least, most))
}
