//! Passes over a sequence of runs: what there is room for is kept, and what is there does not run again.

use std::collections::BTreeSet;

use super::Operators;
use crate::search::clock::Clock;
use crate::search::sweep::OUT_OF_TIME;

/// Rounds of keeping and tidying.
const ROUNDS: usize = 6;

/// The sequence that is left where memory up to a limit keeps what it can.
///
/// # Errors
/// The time is over.
pub fn keep(graph: &Operators<'_>, sequence: &[usize], limit: u64, clock: Clock) -> Result<Vec<usize>, &'static str> {
    let mut sequence = tidy(graph, sequence);
    for _ in 0..ROUNDS {
        if clock.is_over() {
            return Err(OUT_OF_TIME);
        }
        let next = tidy(graph, &fill(graph, &sequence, limit));
        if next == sequence {
            break;
        }
        sequence = next;
    }
    Ok(sequence)
}

/// Leaves out runs whose results nobody reads before they are made again.
fn tidy(graph: &Operators<'_>, sequence: &[usize]) -> Vec<usize> {
    let mut wanted: Vec<bool> = (0..graph.len()).map(|at| graph.wanted(at)).collect();
    let mut kept: Vec<usize> = sequence
        .iter()
        .rev()
        .copied()
        .filter(|&at| {
            let needed = std::mem::take(&mut wanted[at]);
            if needed {
                graph.reads[at].iter().for_each(|&read| wanted[read] = true);
            }
            needed
        })
        .collect();
    kept.reverse();
    kept
}

/// One pass: what goes stays on a list until there is no room, and a run whose result is there is left out.
fn fill(graph: &Operators<'_>, sequence: &[usize], limit: u64) -> Vec<usize> {
    let (goes_after, last_read) = ends(graph, sequence);
    let mut state = State {
        graph,
        memory: 0,
        there: vec![false; graph.len()],
        may_go: BTreeSet::new(),
        key: vec![None; graph.len()],
    };
    let mut ran = vec![false; graph.len()];
    let mut kept = Vec::new();
    let mut goes = goes_after.iter().peekable();
    for (at, &operator) in sequence.iter().enumerate() {
        state.stay(operator);
        if !state.there[operator] {
            let described = &graph.joint.operators[operator];
            let run = graph.joint.way(operator, ran[operator]);
            let bytes: u64 = described.makes.iter().map(|&value| graph.joint.values[value].bytes).sum();
            state.make_room(bytes.saturating_add(run.transient), limit);
            state.memory += if ran[operator] { state.passing(operator) } else { bytes };
            (state.there[operator], ran[operator]) = (true, true);
            kept.push(operator);
        }
        while let Some(&(_, gone)) = goes.next_if(|(after, _)| *after == at) {
            let wanted = last_read[gone].is_some_and(|last| last > at);
            state.let_go(gone, wanted);
        }
    }
    kept
}

/// What goes after each run, ascending, and the last run that reads an operator's results.
fn ends(graph: &Operators<'_>, sequence: &[usize]) -> (Vec<(usize, usize)>, Vec<Option<usize>>) {
    let mut goes = Vec::new();
    let mut last_read: Vec<Option<usize>> = vec![None; graph.len()];
    // Going backwards: whether the copy that is there is read again before it is made anew.
    let mut read_later = vec![false; graph.len()];
    for (at, &operator) in sequence.iter().enumerate().rev() {
        if !std::mem::take(&mut read_later[operator]) {
            goes.push((at, operator));
        }
        for &read in &graph.reads[operator] {
            if !std::mem::replace(&mut read_later[read], true) {
                goes.push((at, read));
            }
            last_read[read].get_or_insert(at);
        }
    }
    goes.reverse();
    (goes, last_read)
}

struct State<'a> {
    graph: &'a Operators<'a>,
    memory: u64,
    there: Vec<bool>,
    /// By time per byte as bits, and operator.
    may_go: BTreeSet<(u64, usize)>,
    key: Vec<Option<u64>>,
}

impl State<'_> {
    /// Bytes of what an operator makes and nobody needs at the end.
    fn passing(&self, operator: usize) -> u64 {
        let values = self.graph.joint.operators[operator].makes.iter().map(|&value| &self.graph.joint.values[value]);
        values.filter(|value| !value.result).map(|value| value.bytes).sum()
    }

    fn stay(&mut self, operator: usize) {
        if let Some(key) = self.key[operator].take() {
            self.may_go.remove(&(key, operator));
        }
    }

    /// Puts an operator's results on the list, unless they are read later and cannot be made again.
    fn let_go(&mut self, operator: usize, wanted: bool) {
        let again = self.graph.joint.again(operator);
        let priority = match again {
            _ if !wanted => 0.0,
            Some(run) => run.time as f64 / self.passing(operator) as f64,
            None => return,
        };
        self.stay(operator);
        // Numbers from 0 are in the order of their bits.
        let key = priority.to_bits();
        self.key[operator] = Some(key);
        self.may_go.insert((key, operator));
    }

    fn make_room(&mut self, bytes: u64, limit: u64) {
        while self.memory.saturating_add(bytes) > limit {
            let Some((_, operator)) = self.may_go.pop_first() else { break };
            self.key[operator] = None;
            self.there[operator] = false;
            self.memory -= self.passing(operator);
        }
    }
}
