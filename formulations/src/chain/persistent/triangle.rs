//! A value for every subchain `s..=t`.

use std::ops::{Index, IndexMut};

/// Upper triangle of an n by n matrix, row by row.
#[derive(Clone, Debug)]
pub struct Triangle<T> {
    n: usize,
    values: Vec<T>,
}

impl<T: Clone> Triangle<T> {
    /// All subchains of `n` stages with one value.
    pub fn new(n: usize, value: T) -> Self {
        Self { n, values: vec![value; n * (n + 1) / 2] }
    }

    fn position(&self, s: usize, t: usize) -> usize {
        debug_assert!(s <= t && t < self.n);
        s * self.n - s * s.saturating_sub(1) / 2 + t - s
    }
}

impl<T: Clone> Index<(usize, usize)> for Triangle<T> {
    type Output = T;
    fn index(&self, (s, t): (usize, usize)) -> &T {
        &self.values[self.position(s, t)]
    }
}

impl<T: Clone> IndexMut<(usize, usize)> for Triangle<T> {
    fn index_mut(&mut self, (s, t): (usize, usize)) -> &mut T {
        let position = self.position(s, t);
        &mut self.values[position]
    }
}
