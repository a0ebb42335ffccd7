//! Rows of what is kept as sets of bits.

use fixedbitset::FixedBitSet;

/// The columns of a row that are kept.
pub fn bits(row: &[bool]) -> FixedBitSet {
    let mut bits = FixedBitSet::with_capacity(row.len());
    row.iter().enumerate().for_each(|(at, &there)| bits.set(at, there));
    bits
}

/// The last member of a set before a position.
pub fn last_before(bits: &FixedBitSet, end: usize) -> Option<usize> {
    const WORD: usize = usize::BITS as usize;
    let words = bits.as_slice();
    let (word, rest) = (end / WORD, end % WORD);
    let mask = |at: usize| if at == word { (1 << rest) - 1 } else { usize::MAX };
    let last = (0..words.len().min(word + 1)).rev().find(|&at| words[at] & mask(at) != 0)?;
    let members = words[last] & mask(last);
    Some(last * WORD + WORD - 1 - members.leading_zeros() as usize)
}
