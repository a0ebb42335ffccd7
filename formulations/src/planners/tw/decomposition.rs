//! A tree decomposition of the graph without directions, balanced.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use super::Operators;
use crate::search::clock::Clock;

/// A balanced tree of separators. Each operator is in one part; below a part, those of its own are there already.
pub struct Tree {
    pub parts: Vec<Part>,
    /// By operator, its part.
    pub part_of: Vec<usize>,
}

/// A part: a bag without what is in the bags above it.
pub struct Part {
    pub children: Vec<usize>,
    /// Parts below it, itself included, are numbered from its own number to this.
    pub end: usize,
}

impl Tree {
    /// The tree of a graph; its root is part 0. None where the time is over.
    pub fn new(graph: &Operators<'_>, clock: Clock) -> Option<Self> {
        let bags = Bags::new(graph, clock)?;
        let mut tree = Self { parts: Vec::new(), part_of: vec![usize::MAX; graph.len()] };
        // Components still to be rooted, with the part above.
        let (mut removed, mut components) = (vec![false; bags.bags.len()], vec![(0, None::<usize>)]);
        while let Some((inside, above)) = components.pop() {
            let root = bags.centre(inside, &removed);
            removed[root] = true;
            let part = tree.parts.len();
            for &at in &bags.bags[root] {
                tree.part_of[at] = tree.part_of[at].min(part);
            }
            tree.parts.push(Part { children: Vec::new(), end: part + 1 });
            if let Some(above) = above {
                tree.parts[above].children.push(part);
            }
            // The last one is next: parts are numbered in depth first order.
            components.extend(bags.beside[root].iter().filter(|&&next| !removed[next]).map(|&next| (next, Some(part))));
        }
        for part in (0..tree.parts.len()).rev() {
            let ends = tree.parts[part].children.iter().map(|&child| tree.parts[child].end);
            tree.parts[part].end = ends.max().unwrap_or(part + 1);
        }
        Some(tree)
    }

    /// Whether an operator is in a part or below it.
    pub fn is_inside(&self, part: usize, operator: usize) -> bool {
        (part..self.parts[part].end).contains(&self.part_of[operator])
    }
}

/// Bags, and the tree that they are in.
struct Bags {
    bags: Vec<Vec<usize>>,
    beside: Vec<Vec<usize>>,
}

impl Bags {
    fn new(graph: &Operators<'_>, clock: Clock) -> Option<Self> {
        let (eliminated, rest) = Elimination::new(graph).run(clock)?;
        let mut bags = Self { bags: vec![rest], beside: vec![Vec::new()] };
        // By operator, the bags that it is in, ascending.
        let mut bags_of: Vec<Vec<usize>> = vec![Vec::new(); graph.len()];
        bags.bags[0].iter().for_each(|&at| bags_of[at].push(0));
        for (operator, neighbours) in eliminated.into_iter().rev() {
            // The first bag that has all neighbours; for those without any the first of all.
            let fewest = neighbours.iter().min_by_key(|&&at| bags_of[at].len());
            let has_all = |bag: &usize| neighbours.iter().all(|&at| bags_of[at].binary_search(bag).is_ok());
            let hung = fewest.and_then(|&at| bags_of[at].iter().copied().find(has_all)).unwrap_or(0);
            let new = bags.bags.len();
            let mut bag = neighbours;
            bag.push(operator);
            bag.sort_unstable();
            for &at in &bag {
                bags_of[at].push(new);
            }
            bags.bags.push(bag);
            bags.beside.push(vec![hung]);
            bags.beside[hung].push(new);
        }
        Some(bags)
    }

    /// The bag of a component that leaves the smallest largest part; of equal ones the first that is met.
    fn centre(&self, inside: usize, removed: &[bool]) -> usize {
        // The component from some bag on: bags with the one that they were reached from.
        let (mut order, mut at) = (vec![(inside, inside)], 0);
        while let Some(&(bag, from)) = order.get(at) {
            order.extend(
                self.beside[bag].iter().filter(|&&next| next != from && !removed[next]).map(|&next| (next, bag)),
            );
            at += 1;
        }
        let mut sizes = std::collections::HashMap::new();
        let mut largest = std::collections::HashMap::new();
        for &(bag, from) in order.iter().rev() {
            let size = *sizes.entry(bag).or_insert(0) + 1;
            sizes.insert(bag, size);
            if bag != from {
                *sizes.entry(from).or_insert(0) += size;
                let most = largest.entry(from).or_insert(0);
                *most = size.max(*most);
            }
        }
        let worst = |bag: usize| (order.len() - sizes[&bag]).max(largest.get(&bag).copied().unwrap_or(0));
        order.iter().map(|&(bag, _)| bag).min_by_key(|&bag| worst(bag)).unwrap_or(inside)
    }
}

/// Vertices with the neighbours that they had when they were taken out.
type Eliminated = Vec<(usize, Vec<usize>)>;

/// Vertices that are taken out one by one, their neighbours made a clique.
struct Elimination {
    /// By vertex, its neighbours.
    rows: Vec<FixedBitSet>,
    /// By (missing edges among the neighbours, neighbours, vertex).
    queue: BTreeSet<(usize, usize, usize)>,
    key: Vec<(usize, usize)>,
}

impl Elimination {
    fn new(graph: &Operators<'_>) -> Self {
        let mut rows = vec![FixedBitSet::with_capacity(graph.len()); graph.len()];
        for (at, reads) in graph.reads.iter().enumerate() {
            for &read in reads {
                rows[at].insert(read);
                rows[read].insert(at);
            }
        }
        let mut elimination = Self { rows, queue: BTreeSet::new(), key: vec![(0, 0); graph.len()] };
        (0..graph.len()).for_each(|at| elimination.enter(at));
        elimination
    }

    /// Those eliminated with their neighbours, in that order, and the clique that is left.
    fn run(mut self, clock: Clock) -> Option<(Eliminated, Vec<usize>)> {
        let mut eliminated = Vec::new();
        while let Some(&(_, degree, at)) = self.queue.first() {
            if degree + 1 == self.queue.len() {
                break;
            }
            if clock.is_over() {
                return None;
            }
            self.leave(at);
            // Fill changes for neighbours of neighbours too, if one of them gets new edges.
            let neighbours = std::mem::take(&mut self.rows[at]);
            let mut dirty = neighbours.clone();
            for neighbour in neighbours.ones() {
                let row = &mut self.rows[neighbour];
                dirty.union_with(row);
                row.union_with(&neighbours);
                row.remove(neighbour);
                row.remove(at);
            }
            dirty.remove(at);
            for vertex in dirty.ones() {
                self.leave(vertex);
                self.enter(vertex);
            }
            eliminated.push((at, neighbours.ones().collect()));
        }
        let rest = self.queue.iter().map(|&(_, _, at)| at).collect::<BTreeSet<usize>>();
        Some((eliminated, rest.into_iter().collect()))
    }

    fn enter(&mut self, at: usize) {
        let row = &self.rows[at];
        // Each missing edge is seen from both ends, and each vertex misses itself.
        let missing = |other: usize| row.difference_count(&self.rows[other]) - 1;
        let fill = row.ones().map(missing).sum::<usize>() / 2;
        let degree = row.count_ones(..);
        self.key[at] = (fill, degree);
        self.queue.insert((fill, degree, at));
    }

    fn leave(&mut self, at: usize) {
        let (fill, degree) = self.key[at];
        self.queue.remove(&(fill, degree, at));
    }
}
