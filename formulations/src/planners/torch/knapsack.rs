//! Which items to save within a capacity: PyTorch's knapsacks (`torch/_functorch/_activation_checkpointing/knapsack.py`).

use fixedbitset::FixedBitSet;

/// An item: what saving it takes, as a share of what the default saves, and what recomputing it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Share of the capacity 1.
    pub memory: f64,
    /// Runtime by the estimator.
    pub runtime: f64,
}

/// Units of the dynamic program per capacity of 1.
const UNITS: f64 = 10_000.0;

/// The dynamic program for all capacities up to 1, in single precision as PyTorch has it.
///
/// Sizes are rounded to the nearest unit, so that what it saves may exceed its capacity by half a unit per item.
#[derive(Clone, Debug)]
pub struct Table {
    units: Vec<usize>,
    /// Whether an item raises the value of a capacity, by item and unit.
    raises: Vec<FixedBitSet>,
}

impl Table {
    /// The program's table.
    pub fn new(items: &[Item]) -> Self {
        let capacity = units(1.0);
        let mut values = vec![0.0_f32; capacity + 1];
        let (mut all, mut raises) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for item in items {
            let size = units(item.memory);
            #[expect(clippy::cast_possible_truncation, reason = "PyTorch's table is in single precision")]
            let runtime = item.runtime as f32;
            let mut raised = FixedBitSet::with_capacity(capacity + 1);
            // Downwards, so that the values below are those without the item.
            for unit in (size..=capacity).rev() {
                let with = values[unit - size] + runtime;
                let before = values[unit];
                values[unit] = if size == 0 { with } else { before.max(with) };
                raised.set(unit, values[unit].to_bits() != before.to_bits());
            }
            all.push(size);
            raises.push(raised);
        }
        Self { units: all, raises }
    }

    /// Which items are saved at a capacity: from the last item back, those that raise the value.
    pub fn saved(&self, capacity: f64) -> Vec<bool> {
        let mut left = units(capacity);
        let mut saved = vec![false; self.units.len()];
        for item in (0..self.units.len()).rev() {
            if self.raises[item].contains(left) {
                saved[item] = true;
                left -= self.units[item];
            }
        }
        saved
    }
}

/// To the nearest unit, of two the even one.
fn units(memory: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shares are nonnegative, and a cast saturates"
    )]
    let units = (memory * UNITS).round_ties_even() as usize;
    units
}

/// Which items are saved: by runtime per byte, as long as they fit; of equals the earlier one first.
///
/// Items without size, on which PyTorch fails with a division by zero, come first.
pub fn greedy(items: &[Item], capacity: f64) -> Vec<bool> {
    let ratio = |item: &Item| if item.memory > 0.0 { item.runtime / item.memory } else { f64::INFINITY };
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|&left, &right| ratio(&items[right]).total_cmp(&ratio(&items[left])));
    let (mut saved, mut total) = (vec![false; items.len()], 0.0);
    for item in order {
        if total + items[item].memory <= capacity {
            total += items[item].memory;
            saved[item] = true;
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::{Item, Table, greedy};

    fn items(of: &[(f64, f64)]) -> Vec<Item> {
        of.iter().map(|&(memory, runtime)| Item { memory, runtime }).collect()
    }

    #[test]
    fn the_program_saves_what_costs_most_and_of_equal_values_the_earlier_items() {
        let table = Table::new(&items(&[(0.5, 1.0), (0.5, 1.0), (0.6, 3.0)]));
        assert_eq!(table.saved(1.0), [false, false, true]);
        assert_eq!(table.saved(0.55), [true, false, false]);
        assert_eq!(table.saved(0.4), [false, false, false]);
    }

    #[test]
    fn rounding_lets_the_program_exceed_its_capacity() {
        // Ten items of 0.00014 count as one unit each: together 0.0014 in a capacity of 0.001.
        let table = Table::new(&items(&[(0.000_14, 1.0); 10]));
        assert_eq!(table.saved(0.001).iter().filter(|saved| **saved).count(), 10);
    }

    #[test]
    fn what_a_single_precision_sum_swallows_is_recomputed_although_it_would_fit() {
        let table = Table::new(&items(&[(0.1, 1.0e9), (0.1, 1.0)]));
        assert_eq!(table.saved(1.0), [true, false]);
    }

    #[test]
    fn greedy_takes_runtime_per_byte_and_items_without_size_first() {
        let items = items(&[(0.5, 1.0), (0.4, 1.0), (0.0, 0.1), (0.3, 0.9)]);
        assert_eq!(greedy(&items, 0.7), [false, true, true, true]);
    }
}
