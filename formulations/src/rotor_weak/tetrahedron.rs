//! A row of values for every `s <= t <= l`.

/// Rows of equal length, those of one `(s, t)` next to each other.
#[derive(Clone, Debug)]
pub struct Tetrahedron<T> {
    n: usize,
    width: usize,
    /// First row of each `(s, t)`.
    first: Vec<usize>,
    values: Vec<T>,
}

impl<T: Copy> Tetrahedron<T> {
    /// All rows filled with one value.
    pub fn new(n: usize, width: usize, value: T) -> Self {
        let mut first = vec![0; n * n];
        let mut rows = 0;
        for s in 0..n {
            for t in s..n {
                first[s * n + t] = rows;
                rows += n - t;
            }
        }
        Self { n, width, first, values: vec![value; rows * width] }
    }

    /// Bytes of all rows.
    pub fn bytes(n: usize, width: usize) -> usize {
        n * (n + 1) * (n + 2) / 6 * width * size_of::<T>()
    }

    fn start(&self, s: usize, t: usize, l: usize) -> usize {
        debug_assert!(s <= t && t <= l && l < self.n);
        (self.first[s * self.n + t] + l - t) * self.width
    }

    /// The row of `(s, t, l)`.
    pub fn row(&self, s: usize, t: usize, l: usize) -> &[T] {
        &self.values[self.start(s, t, l)..][..self.width]
    }

    /// The row of `(s, t, l)`.
    pub fn row_mut(&mut self, s: usize, t: usize, l: usize) -> &mut [T] {
        let start = self.start(s, t, l);
        &mut self.values[start..][..self.width]
    }
}
