//! Memory over time: add to a range, ask for the peak.
//!
//! [`Peak`] is the range-add/range-max segment tree of section 2.1.1, bottom-up and without lazy
//! pushes: every node holds its subtree's maximum *less its parent's*, so that each pair of siblings has
//! a 0 for its maximum, an update climbs two paths that join, and the root holds the peak. [`Soft`] adds the logaddexp tree of appendix C.2, in the same form. METHODOLOGY.md
//! says which other trees were tried.

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

/// The maximum.
#[derive(Clone, Debug)]
pub struct Peak {
    /// Root at 1, children of i at 2i and 2i + 1, one unused leaf before the first time.
    nodes: Vec<i64>,
    leaves: usize,
    length: u32,
}

impl Peak {
    /// Bytes at a time.
    pub fn at(&self, time: u32) -> i64 {
        let mut node = self.leaves + 1 + time as usize;
        let mut sum = 0;
        while node > 0 {
            sum += self.nodes[node];
            node >>= 1;
        }
        sum
    }

    /// Makes the larger of two siblings 0 and hands it to their parent.
    #[inline]
    fn pull(&mut self, node: usize) {
        let pair = node & !1;
        let (left, right) = (self.nodes[pair], self.nodes[pair + 1]);
        let most = left.max(right);
        self.nodes[pair] = left - most;
        self.nodes[pair + 1] = right - most;
        self.nodes[pair >> 1] += most;
    }
}

impl Profile for Peak {
    fn new(length: u32, _: i64) -> Self {
        let leaves = (length as usize + 2).next_power_of_two();
        Self { nodes: vec![0; 2 * leaves], leaves, length }
    }

    #[inline]
    fn add(&mut self, from: u32, to: u32, bytes: i64) {
        let (mut left, mut right) = (self.leaves + from as usize, self.leaves + 1 + to as usize);
        while left ^ right != 1 {
            if left & 1 == 0 {
                self.nodes[left + 1] += bytes;
            }
            if right & 1 == 1 {
                self.nodes[right - 1] += bytes;
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

    #[inline]
    fn occupy(&mut self, _: u32, _: bool) {}

    #[inline]
    fn peak(&self) -> i64 {
        self.nodes[1]
    }

    #[inline]
    fn felt(&self) -> f64 {
        self.nodes[1] as f64
    }

    fn witness(&self) -> Option<u32> {
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.nodes[2 * node] != 0);
        }
        let time = node.checked_sub(self.leaves + 1)?;
        u32::try_from(time).ok().filter(|&time| time < self.length)
    }
}

/// The logarithm of the sum of powers of 2 of the memory at all times at which a node runs.
#[derive(Clone, Debug)]
pub struct Soft {
    exact: Peak,
    nodes: Vec<f64>,
    /// Bytes of 1: a tenth of the largest value.
    unit: f64,
}

/// Where no node runs, memory is less by this.
const ABSENT: f64 = 1_048_576.0;

/// log2(2^a + 2^b).
#[inline]
fn log_add_exp(a: f64, b: f64) -> f64 {
    let (most, less) = if a > b { (a, b) } else { (b, a) };
    let gap = less - most;
    if gap < -60.0 { most } else { most + gap.exp2().ln_1p() * std::f64::consts::LOG2_E }
}

impl Soft {
    #[inline]
    fn pull(&mut self, node: usize) {
        let pair = node & !1;
        let sum = log_add_exp(self.nodes[pair], self.nodes[pair + 1]);
        self.nodes[pair] -= sum;
        self.nodes[pair + 1] -= sum;
        self.nodes[pair >> 1] += sum;
    }

    fn shift(&mut self, from: u32, to: u32, amount: f64) {
        let leaves = self.exact.leaves;
        let (mut left, mut right) = (leaves + from as usize, leaves + 1 + to as usize);
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

impl Profile for Soft {
    fn new(length: u32, largest: i64) -> Self {
        let exact = Peak::new(length, largest);
        let mut nodes = vec![0.0; 2 * exact.leaves];
        nodes[exact.leaves..].fill(-ABSENT);
        let mut soft = Self { nodes, unit: (largest.max(1) as f64) / 10.0, exact };
        for node in (1..soft.exact.leaves).rev() {
            soft.pull(2 * node);
        }
        soft
    }

    fn add(&mut self, from: u32, to: u32, bytes: i64) {
        self.exact.add(from, to, bytes);
        self.shift(from, to, bytes as f64 / self.unit);
    }

    fn occupy(&mut self, time: u32, runs: bool) {
        self.shift(time, time + 1, if runs { ABSENT } else { -ABSENT });
    }

    fn peak(&self) -> i64 {
        self.exact.peak()
    }

    fn felt(&self) -> f64 {
        self.nodes[1].max(0.0) * self.unit
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
