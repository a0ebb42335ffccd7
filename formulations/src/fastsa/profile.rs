//! Memory over time: add to a range, ask for the peak.
//!
//! [`Peak`] is the range-add/range-max segment tree of section 2.1.1, bottom-up and without lazy
//! pushes: every node holds its subtree's maximum *less its parent's*, so that each pair of siblings has
//! a 0 for its maximum, an update climbs two paths that join, and the root holds the peak. [`Soft`] adds the
//! logaddexp tree of appendix C.2, in the same form. docs/findings/annealing.md says which other trees were tried.

use std::ops::{Add, AddAssign, Sub, SubAssign};

/// What the annealer asks of memory over time.
pub trait Profile {
    /// Nothing in memory at any of `length` times; the largest value has `largest` bytes.
    fn new(length: u32, largest: i64) -> Self;
    /// Adds bytes to the times from `from` to `to`, `to` excluded.
    fn add(&mut self, from: u32, to: u32, bytes: i64);
    /// Says whether a node runs at a time.
    fn occupy(&mut self, time: u32, runs: bool);
    /// Bytes at the peak.
    fn peak(&self) -> i64;
    /// The peak as the objective function sees it.
    fn felt(&self) -> f64;
    /// A time at which the peak is reached, where the objective function sees the peak and nothing else.
    fn witness(&self) -> Option<u32>;
}

/// What a tree adds up, and how it joins the values of two halves.
trait Joined: Copy + Add<Output = Self> + Sub<Output = Self> + AddAssign + SubAssign {
    /// Nothing.
    const ZERO: Self;
    /// The value of two halves together; adding the same to both adds it to the result.
    fn join(self, other: Self) -> Self;
}

impl Joined for i64 {
    const ZERO: Self = 0;

    #[inline]
    fn join(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Joined for f64 {
    const ZERO: Self = 0.0;

    /// log2(2^a + 2^b).
    #[inline]
    fn join(self, other: Self) -> Self {
        let (most, less) = if self > other { (self, other) } else { (other, self) };
        let gap = less - most;
        if gap < -60.0 { most } else { most + gap.exp2().ln_1p() * std::f64::consts::LOG2_E }
    }
}

/// A segment tree: root at 1, children of i at 2i and 2i + 1, one unused leaf before the first time. Every node
/// holds its subtree's value less its parent's.
#[derive(Clone, Debug)]
struct Tree<N> {
    nodes: Vec<N>,
    leaves: usize,
}

impl<N: Joined> Tree<N> {
    /// The same value at all times.
    fn new(length: u32, value: N) -> Self {
        let leaves = (length as usize + 2).next_power_of_two();
        let mut tree = Self { nodes: vec![N::ZERO; 2 * leaves], leaves };
        tree.nodes[leaves..].fill(value);
        for node in (1..leaves).rev() {
            tree.pull(2 * node);
        }
        tree
    }

    /// Makes the value of two siblings together 0 and hands it to their parent.
    #[inline]
    fn pull(&mut self, node: usize) {
        let pair = node & !1;
        let joined = self.nodes[pair].join(self.nodes[pair + 1]);
        self.nodes[pair] -= joined;
        self.nodes[pair + 1] -= joined;
        self.nodes[pair >> 1] += joined;
    }

    #[inline]
    fn add(&mut self, from: u32, to: u32, amount: N) {
        let (mut left, mut right) = (self.leaves + from as usize, self.leaves + 1 + to as usize);
        while left ^ right != 1 {
            if left & 1 == 0 {
                self.nodes[left + 1] += amount;
            }
            if right & 1 == 1 {
                self.nodes[right - 1] += amount;
            }
            self.pull(left);
            self.pull(right);
            left >>= 1;
            right >>= 1;
        }
        while left > 1 {
            self.pull(left);
            left >>= 1;
        }
    }
}

/// The maximum.
#[derive(Clone, Debug)]
pub struct Peak {
    tree: Tree<i64>,
    length: u32,
}

impl Peak {
    /// Bytes at a time.
    pub fn at(&self, time: u32) -> i64 {
        let mut node = self.tree.leaves + 1 + time as usize;
        let mut sum = 0;
        while node > 0 {
            sum += self.tree.nodes[node];
            node >>= 1;
        }
        sum
    }
}

impl Profile for Peak {
    fn new(length: u32, _: i64) -> Self {
        Self { tree: Tree::new(length, 0), length }
    }

    #[inline]
    fn add(&mut self, from: u32, to: u32, bytes: i64) {
        self.tree.add(from, to, bytes);
    }

    #[inline]
    fn occupy(&mut self, _: u32, _: bool) {}

    #[inline]
    fn peak(&self) -> i64 {
        self.tree.nodes[1]
    }

    #[inline]
    fn felt(&self) -> f64 {
        self.peak() as f64
    }

    fn witness(&self) -> Option<u32> {
        let mut node = 1;
        while node < self.tree.leaves {
            node = 2 * node + usize::from(self.tree.nodes[2 * node] != 0);
        }
        let time = node.checked_sub(self.tree.leaves + 1)?;
        u32::try_from(time).ok().filter(|&time| time < self.length)
    }
}

/// The logarithm of the sum of powers of 2 of the memory at all times at which a node runs.
#[derive(Clone, Debug)]
pub struct Soft {
    exact: Peak,
    tree: Tree<f64>,
    /// Bytes of 1: a tenth of the largest value.
    unit: f64,
}

/// Where no node runs, memory is less by this.
const ABSENT: f64 = 1_048_576.0;

impl Profile for Soft {
    fn new(length: u32, largest: i64) -> Self {
        let unit = largest.max(1) as f64 / 10.0;
        Self { exact: Peak::new(length, largest), tree: Tree::new(length, -ABSENT), unit }
    }

    fn add(&mut self, from: u32, to: u32, bytes: i64) {
        self.exact.add(from, to, bytes);
        self.tree.add(from, to, bytes as f64 / self.unit);
    }

    fn occupy(&mut self, time: u32, runs: bool) {
        self.tree.add(time, time + 1, if runs { ABSENT } else { -ABSENT });
    }

    fn peak(&self) -> i64 {
        self.exact.peak()
    }

    fn felt(&self) -> f64 {
        self.tree.nodes[1].max(0.0) * self.unit
    }

    fn witness(&self) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_tree_is_the_array() {
        let mut random = Random::new(1);
        for length in [1, 2, 3, 7, 8, 9, 100] {
            let mut tree = Peak::new(length, 1);
            let mut array = vec![0_i64; length as usize];
            for _ in 0..2_000 {
                let (a, b) = (random.below(length), random.below(length));
                let (from, to) = (a.min(b), a.max(b) + 1);
                let bytes = i64::from(random.below(1000));
                tree.add(from, to, bytes);
                array[from as usize..to as usize].iter_mut().for_each(|entry| *entry += bytes);
                let most = array.iter().copied().max().expect("not empty");
                assert_eq!(tree.peak(), most);
                let witness = tree.witness().expect("above 0, or the only one");
                assert_eq!((array[witness as usize], tree.at(witness)), (most, most));
                assert_eq!(tree.at(a), array[a as usize]);
            }
        }
    }

    #[test]
    fn the_soft_tree_is_the_logarithm_of_the_sum() {
        let mut random = Random::new(2);
        let length = 37;
        let mut tree = Soft::new(length, 100);
        let (mut array, mut runs) = (vec![0.0_f64; length as usize], vec![false; length as usize]);
        for _ in 0..2_000 {
            let (a, b) = (random.below(length), random.below(length));
            let (from, to) = (a.min(b), a.max(b) + 1);
            let bytes = i64::from(random.below(100));
            tree.add(from, to, bytes);
            array[from as usize..to as usize].iter_mut().for_each(|entry| *entry += bytes as f64 / 10.0);
            runs[a as usize] ^= true;
            tree.occupy(a, runs[a as usize]);
            let most = array.iter().fold(0.0, |most: f64, &entry| most.max(entry));
            let powers = array.iter().zip(&runs).filter(|&(_, &runs)| runs).map(|(entry, _)| (entry - most).exp2());
            let sum: f64 = powers.sum();
            if sum > 0.0 {
                let expected = 10.0 * (most + sum.log2());
                assert!((tree.felt() - expected.max(0.0)).abs() < 1e-3, "{} against {expected}", tree.felt());
            }
        }
    }
}
