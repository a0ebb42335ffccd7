//! Whether offsets are a packing: quadratic, and nothing but the definition.

use thiserror::Error;

use crate::problem::Problem;

/// Why offsets are no packing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Overlap {
    /// There is not one offset for each buffer.
    #[error("there are {found} offsets for {expected} buffers; give each buffer one")]
    Count {
        /// Buffers.
        expected: usize,
        /// Offsets.
        found: usize,
    },
    /// An offset is no multiple of the alignment.
    #[error("buffer {id:?} begins at {offset}, which is no multiple of the alignment {alignment}")]
    Alignment {
        /// The buffer.
        id: String,
        /// Where it begins.
        offset: u64,
        /// The alignment.
        alignment: u64,
    },
    /// A buffer ends above the capacity.
    #[error("buffer {id:?} ends at {end}, above the capacity {capacity}")]
    Capacity {
        /// The buffer.
        id: String,
        /// First address above it.
        end: u128,
        /// The capacity.
        capacity: u64,
    },
    /// Two buffers hold one address at one moment.
    #[error("buffers {first:?} and {second:?} both hold address {address} at moment {moment}")]
    Shared {
        /// One buffer.
        first: String,
        /// The other.
        second: String,
        /// The first address that both hold.
        address: u64,
        /// The first moment at which they do.
        moment: u64,
    },
}

/// Checks offsets, one for each buffer, against the definition of a packing.
///
/// # Errors
/// The first buffer, or pair of buffers, that breaks a rule.
pub fn check(problem: &Problem, offsets: &[u64], capacity: Option<u64>) -> Result<(), Overlap> {
    let mut first = None;
    violations(problem, offsets, capacity, |found| {
        first.get_or_insert(found);
    });
    first.map_or(Ok(()), Err)
}

/// Hands on every buffer, and then every pair of buffers, that breaks the definition of a packing.
pub fn violations(problem: &Problem, offsets: &[u64], capacity: Option<u64>, mut found: impl FnMut(Overlap)) {
    let buffers = problem.buffers();
    if offsets.len() != buffers.len() {
        return found(Overlap::Count { expected: buffers.len(), found: offsets.len() });
    }
    let alignment = problem.alignment();
    // Without a capacity, addresses are still of 64 bits.
    let capacity = capacity.unwrap_or(u64::MAX);
    let end = |at: usize| u128::from(offsets[at]) + u128::from(buffers[at].size);
    for (at, (buffer, &offset)) in buffers.iter().zip(offsets).enumerate() {
        let id = || buffer.id.clone();
        if !offset.is_multiple_of(alignment) {
            found(Overlap::Alignment { id: id(), offset, alignment });
        }
        if end(at) > u128::from(capacity) {
            found(Overlap::Capacity { id: id(), end: end(at), capacity });
        }
    }
    for (first, one) in buffers.iter().enumerate() {
        for (second, two) in buffers.iter().enumerate().skip(first + 1) {
            let (address, moment) = (offsets[first].max(offsets[second]), one.lower.max(two.lower));
            if one.overlaps(two) && u128::from(address) < end(first).min(end(second)) {
                found(Overlap::Shared { first: one.id.clone(), second: two.id.clone(), address, moment });
            }
        }
    }
}
