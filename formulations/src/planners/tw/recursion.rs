//! The recursion: whatever is wanted of a part of the tree, with little more kept than the bags above it.

use super::Operators;
use super::decomposition::Tree;
use crate::search::clock::Clock;
use crate::search::sweep::OUT_OF_TIME;

/// Longest sequence.
const LONGEST: usize = 4_000_000;

/// Runs after which all that is wanted has been made.
///
/// # Errors
/// The sequence is too long, or the time is over.
pub fn sequence(graph: &Operators<'_>, clock: Clock) -> Result<Vec<usize>, &'static str> {
    let tree = Tree::new(graph, clock).ok_or(OUT_OF_TIME)?;
    let mut recursion = Recursion {
        graph,
        tree,
        clock,
        runs: Vec::new(),
        ran: vec![false; graph.len()],
        there: vec![false; graph.len()],
        seen: vec![0; graph.len()],
        calls: 0,
    };
    let wanted: Vec<usize> = (0..graph.len()).filter(|&at| graph.wanted(at)).collect();
    recursion.make(0, &wanted)?;
    Ok(recursion.runs)
}

struct Recursion<'a> {
    graph: &'a Operators<'a>,
    tree: Tree,
    clock: Clock,
    runs: Vec<usize>,
    /// By operator.
    ran: Vec<bool>,
    there: Vec<bool>,
    /// The call that last looked at an operator.
    seen: Vec<usize>,
    calls: usize,
}

impl Recursion<'_> {
    /// Whether it is not to be made: it may not run again, has run, and stays.
    fn is_done(&self, operator: usize) -> bool {
        self.ran[operator] && self.graph.once(operator)
    }

    /// Makes operators' results in a part of the tree, given all that they read from above it.
    fn make(&mut self, part: usize, wanted: &[usize]) -> Result<(), &'static str> {
        let wanted: Vec<usize> = wanted.iter().copied().filter(|&at| !self.is_done(at)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let targets = self.targets(part, &wanted);
        let children = self.tree.parts[part].children.clone();
        for &operator in &targets {
            if self.is_done(operator) {
                continue;
            }
            let mut made = Vec::new();
            for &child in &children {
                let reads = self.graph.reads[operator].iter();
                let below: Vec<usize> = reads.copied().filter(|&read| self.tree.is_inside(child, read)).collect();
                self.make(child, &below)?;
                made.extend(below);
            }
            self.run(operator)?;
            for below in made {
                self.release(below);
            }
        }
        for &child in &children {
            let below: Vec<usize> = wanted.iter().copied().filter(|&at| self.tree.is_inside(child, at)).collect();
            self.make(child, &below)?;
        }
        for operator in targets {
            if wanted.binary_search(&operator).is_err() {
                self.release(operator);
            }
        }
        Ok(())
    }

    /// Those of a part's bag that it takes to make what is wanted, within the part and what is below it; in topological order.
    fn targets(&mut self, part: usize, wanted: &[usize]) -> Vec<usize> {
        self.calls += 1;
        let mut stack = wanted.to_vec();
        let mut targets = Vec::new();
        while let Some(at) = stack.pop() {
            if std::mem::replace(&mut self.seen[at], self.calls) == self.calls {
                continue;
            }
            if self.tree.part_of[at] == part {
                targets.push(at);
            }
            let reads = self.graph.reads[at].iter().copied();
            stack.extend(reads.filter(|&read| self.tree.is_inside(part, read) && !self.is_done(read)));
        }
        targets.sort_unstable();
        targets
    }

    /// Runs an operator, and then what reads it, may not run again and is read by nobody, if it can.
    fn run(&mut self, operator: usize) -> Result<(), &'static str> {
        if self.is_done(operator) {
            return Ok(());
        }
        if self.runs.len() >= LONGEST {
            return Err("took too many runs");
        }
        if self.runs.len().is_multiple_of(1024) && self.clock.is_over() {
            return Err(OUT_OF_TIME);
        }
        self.runs.push(operator);
        (self.ran[operator], self.there[operator]) = (true, true);
        for at in 0..self.graph.readers[operator].len() {
            let reader = self.graph.readers[operator][at];
            let last = self.graph.once(reader) && self.graph.readers[reader].is_empty();
            if last && !self.ran[reader] && self.graph.reads[reader].iter().all(|&read| self.there[read]) {
                self.run(reader)?;
            }
        }
        Ok(())
    }

    fn release(&mut self, operator: usize) {
        self.there[operator] &= self.graph.once(operator);
    }
}
