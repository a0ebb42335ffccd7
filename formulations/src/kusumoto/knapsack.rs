//! How little the rest of a time-centric sequence can cost, by what there is room to cache.

use std::cmp::Ordering;

use fixedbitset::FixedBitSet;

use super::steps::Steps;

/// A lower bound for the nodes that are still to come, from the linear knapsack.
///
/// A sequence that goes on from L pays T_v for every node of V \ L that it does not cache, sinks
/// included. What it caches altogether has to fit beside the last group, so beyond what is cached at L there is
/// room for `capacity` - m, and no choice of nodes saves more time than the linear knapsack of that size.
pub struct Knapsack {
    /// By set: T(V \ L).
    outside: Vec<u64>,
    /// What a sequence may cache, most time per byte first.
    items: Vec<Item>,
    /// M(U_k) at most.
    capacity: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    node: usize,
    bytes: u64,
    time: u64,
}

impl Item {
    /// More time per byte comes first.
    fn compare(&self, other: &Self) -> Ordering {
        let product = |time: u64, bytes: u64| u128::from(time) * u128::from(bytes);
        product(other.time, self.bytes).cmp(&product(self.time, other.bytes)).then(self.node.cmp(&other.node))
    }
}

impl Knapsack {
    /// For sequences within a budget.
    pub fn new(steps: &Steps<'_>, budget: u64) -> Self {
        let capacity = budget.saturating_sub(steps.least_beside_cache());
        let weights = steps.weights();
        let items = weights.iter().enumerate().map(|(node, &(bytes, time))| Item { node, bytes, time });
        let useful = |item: &Item| item.time > 0 && item.bytes <= capacity && steps.may_be_saved(item.node);
        let mut items: Vec<_> = items.filter(useful).collect();
        items.sort_unstable_by(Item::compare);
        let all: u64 = weights.iter().map(|weight| weight.1).sum();
        let outside = (0..steps.sets.len()).map(|set| all - steps.times(set).0).collect();
        Self { outside, items, capacity }
    }

    /// The least cost from a set on, for each of some amounts that are cached there, in descending order; none where
    /// they are more than there is room for.
    pub fn bounds(
        &self,
        (position, set): (usize, &FixedBitSet),
        cached: impl Iterator<Item = u64>,
    ) -> Vec<Option<u64>> {
        let mut items = self.items.iter().filter(|item| !set.contains(item.node)).peekable();
        let (mut bytes, mut saved) = (0, 0);
        let bound = |cached: u64| {
            let room = self.capacity.checked_sub(cached)?;
            while let Some(item) = items.next_if(|item| bytes + item.bytes <= room) {
                bytes += item.bytes;
                saved += item.time;
            }
            let part = items
                .peek()
                .map_or(0, |item| u128::from(item.time) * u128::from(room - bytes) / u128::from(item.bytes));
            Some(self.outside[position] - saved - u64::try_from(part).expect("no more than the item's time"))
        };
        cached.map(bound).collect()
    }
}
