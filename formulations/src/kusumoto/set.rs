//! Sets of nodes as bits.

/// A set of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Set(Box<[u64]>);

impl Set {
    /// Nothing out of `nodes`.
    pub fn empty(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)].into())
    }

    /// All of `nodes`.
    pub fn full(nodes: usize) -> Self {
        let mut set = Self::empty(nodes);
        (0..nodes).for_each(|node| set.insert(node));
        set
    }

    /// The bits, 64 to a word.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Whether a node is in the set.
    pub fn contains(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    /// Adds a node.
    pub fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    /// Adds the nodes of another set.
    pub fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Whether every node is in another set too.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word & !other == 0)
    }

    /// The nodes, ascending.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| bits(word).map(move |bit| 64 * index + bit))
    }

    /// The nodes that another set lacks, ascending.
    pub fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = usize> + 'a {
        let words = self.0.iter().zip(&other.0).enumerate();
        words.flat_map(|(index, (&word, &other))| bits(word & !other).map(move |bit| 64 * index + bit))
    }
}

fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit as usize)
    })
}
