//! Every way through the stages of `MONeT`.

use std::collections::BTreeMap;

use remat_formulations::monet::released::problem::{Problem, Way};

/// A set of nodes as a number.
type Set = usize;

fn has(set: Set, node: usize) -> bool {
    set >> node & 1 == 1
}

/// The exhaustive search: for every stage, every set kept into it, every set that runs, every set of those in
/// place, every variant and every set kept out of it, the rules and equations as the paper states them.
pub struct Twin<'a> {
    pub problem: &'a Problem,
    pub budget: i64,
}

impl Twin<'_> {
    pub fn least_time(&self) -> Option<i64> {
        let problem = self.problem;
        let results = (0..problem.nodes.len()).filter(|&at| problem.nodes[at].result).map(|at| 1 << at).sum::<Set>();
        let mut costs: BTreeMap<Set, i64> = [(0, 0)].into();
        for stage in 0..problem.stages.len() {
            let mut after: BTreeMap<Set, i64> = BTreeMap::new();
            for (&now, &cost) in &costs {
                for (next, time) in self.ways_through(stage, now) {
                    let slot = after.entry(next).or_insert(i64::MAX);
                    *slot = (*slot).min(cost + time);
                }
            }
            // Results stay; what else is kept beyond the last stage was read in it.
            after.retain(|set, _| set & results == results);
            costs = after;
        }
        costs.into_values().min()
    }

    /// Every set that can be kept out of a stage, with the least time.
    fn ways_through(&self, stage: usize, now: Set) -> Vec<(Set, i64)> {
        let nodes = &self.problem.nodes;
        let all = 1 << nodes.len();
        let forced = (0..nodes.len()).filter(|&at| stage == 0 && nodes[at].parent.is_none());
        let forced = forced.map(|at| 1 << at).sum::<Set>();
        let can_overwrite =
            (0..nodes.len()).filter(|&at| self.problem.over(stage, at).is_some()).map(|at| 1 << at).sum::<Set>();
        let mut found = Vec::new();
        for runs in (0..all).filter(|runs| runs & forced == forced && self.legal(stage, now, *runs)) {
            for over in subsets(runs & can_overwrite).filter(|&over| self.legal_in_place(stage, runs, over)) {
                let gone = |at: usize| {
                    (0..nodes.len())
                        .any(|other| has(over, other) && self.problem.over(stage, other).is_some_and(|o| o.node == at))
                };
                let present = (0..nodes.len()).filter(|&at| has(runs, at) && !gone(at)).map(|at| 1 << at).sum::<Set>();
                let overwritten = (0..nodes.len()).filter(|&at| gone(at)).map(|at| 1 << at).sum::<Set>();
                for next in subsets((now | present) & !overwritten) {
                    let times = self.variants(stage).into_iter().filter_map(|variant| {
                        let readable = variant.0.iter().all(|&read| has(present | next, read));
                        readable.then(|| self.time(stage, now, next, runs, over, &variant)).flatten()
                    });
                    found.extend(times.min().map(|time| (next, time)));
                }
            }
        }
        found
    }

    fn variants(&self, stage: usize) -> Vec<(Vec<usize>, Vec<Way>)> {
        let variants = self.problem.stages[stage].variants.iter();
        let variants: Vec<_> = variants.map(|variant| (variant.reads.clone(), variant.ways.clone())).collect();
        if stage == 0 { vec![(vec![], vec![])] } else { variants }
    }

    /// Equation 7, and intermediates with their parents, one at a time.
    fn legal(&self, stage: usize, now: Set, runs: Set) -> bool {
        let nodes = &self.problem.nodes;
        let node = |at: usize| {
            let inputs = nodes[at].inputs.iter().all(|&input| {
                let strict = nodes[at].parent == Some(input);
                has(runs, input) || (has(now, input) && !strict)
            });
            let alone = nodes[at].parent.is_none_or(|parent| {
                (0..nodes.len()).all(|other| other == at || !has(runs, other) || nodes[other].parent != Some(parent))
            });
            inputs && alone && !self.problem.ways(stage, at).is_empty()
        };
        (0..nodes.len()).all(|at| !has(runs, at) || node(at))
    }

    /// What is overwritten has no later reader; an intermediate is in place just where its parent is.
    fn legal_in_place(&self, stage: usize, runs: Set, over: Set) -> bool {
        let nodes = &self.problem.nodes;
        let node = |at: usize| {
            let readers = |target: usize| {
                (at + 1..nodes.len()).any(|other| has(runs, other) && nodes[other].inputs.contains(&target))
            };
            let fits = !has(over, at) || !readers(self.problem.over(stage, at).expect("can").node);
            fits && nodes[at].parent.is_none_or(|parent| !has(runs, at) || has(over, at) == has(over, parent))
        };
        (0..nodes.len()).all(node)
    }

    /// Equations 5, 12 and 13: the least time if everything fits.
    fn time(
        &self,
        stage: usize,
        now: Set,
        next: Set,
        runs: Set,
        over: Set,
        variant: &(Vec<usize>, Vec<Way>),
    ) -> Option<i64> {
        let nodes = &self.problem.nodes;
        let description = &self.problem.stages[stage];
        let size = |set: Set| (0..nodes.len()).filter(|&at| has(set, at)).map(|at| nodes[at].bytes).sum::<i64>();
        let reads = variant.0.iter().map(|&at| 1 << at).sum::<Set>();
        let mut time = 0;
        for at in 0..nodes.len() {
            let below: Set = (1 << at) - 1;
            let passing = description.before + size(((next | reads) & below) | (now & !below));
            if passing > self.budget {
                return None;
            }
            if !has(runs, at) {
                continue;
            }
            let local = self.problem.local[at].iter().map(|&local| 1 << local).sum::<Set>();
            // What the backward operator needs is counted beside the local set.
            let beside = size(reads & !next & local & below);
            let loss = |input: &&usize| stage == 0 && !has(next, **input) && at + 1 == nodes.len();
            let loss: i64 = nodes[at].inputs.iter().filter(loss).map(|&input| nodes[input].bytes).sum();
            let above = now & !below & !(1 << at);
            let there =
                description.before + beside + loss + nodes[at].bytes + size((((next | reads) & below) | local) | above);
            let extra = self.problem.over(stage, at).filter(|_| has(over, at));
            let extra_bytes = extra.map_or(0, |extra| extra.beside);
            let ways =
                self.problem.ways(stage, at).iter().filter(|way| there + way.beside + extra_bytes <= self.budget);
            time += ways.map(|way| way.time).min()? + extra.map_or(0, |extra| extra.time);
        }
        if stage == 0 {
            return Some(time);
        }
        let there = description.during + size(next | reads);
        let ways = variant.1.iter().filter(|way| there + way.beside <= self.budget);
        Some(time + ways.map(|way| way.time).min()?)
    }
}

fn subsets(of: Set) -> impl Iterator<Item = Set> {
    let mut current = Some(of);
    std::iter::from_fn(move || {
        let set = current?;
        current = (set > 0).then(|| (set - 1) & of);
        Some(set)
    })
}
