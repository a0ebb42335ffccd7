//! What every table is made of: memory for its entries, the sums that entries carry, and why there is none.

use std::marker::PhantomData;

use memmap2::MmapMut;
use thiserror::Error;

use super::slots::SlottedChain;
use crate::search::clock::Clock;
use crate::vectors::{Cost, Vectors};

/// Why there is no table.
#[derive(Debug, Error)]
pub enum TableError {
    /// Times do not fit the cost type.
    #[error("times do not fit the table's cells")]
    Times,
    /// The deadline came first.
    #[error("there was no time for a table")]
    Deadline,
    /// The memory for it is not to be had.
    #[error("no memory for a table of {bytes} bytes ({source}); fewer slots make it smaller")]
    Memory {
        /// Its size.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

/// How a table is computed.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// With which instructions.
    pub vectors: Vectors,
    /// While there is time.
    pub clock: Clock,
}

impl Default for Execution {
    /// The widest vectors, and no limit of time.
    fn default() -> Self {
        Self { vectors: Vectors::best(), clock: Clock::start(None) }
    }
}

impl Execution {
    /// The same within some time.
    pub fn within(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    pub(crate) fn check(self) -> Result<(), TableError> {
        if self.clock.is_over() { Err(TableError::Deadline) } else { Ok(()) }
    }
}

/// One region of memory for all rows, on huge pages where the system has them: a tile of all the rows
/// that a block reads touches more small pages than a processor remembers.
pub(crate) struct Storage<C> {
    map: MmapMut,
    cells: PhantomData<C>,
}

impl<C: Cost> Storage<C> {
    pub(crate) fn new(length: usize) -> Result<Self, TableError> {
        let bytes = length * size_of::<C>();
        let map = MmapMut::map_anon(bytes).map_err(|source| TableError::Memory { bytes, source })?;
        #[cfg(target_os = "linux")]
        {
            // Advice: without huge pages the table is slower and otherwise the same.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map, cells: PhantomData })
    }

    pub(crate) fn entries(&self) -> &[C] {
        bytemuck::cast_slice(&self.map)
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [C] {
        bytemuck::cast_slice_mut(&mut self.map)
    }
}

/// Passing forward times before each stage; none when a time does not fit the cost type.
pub fn passing_before<C: Cost>(chain: &SlottedChain) -> Option<Vec<C>> {
    let mut sum = 0;
    let mut before = Vec::with_capacity(chain.len());
    for (&time, savings) in chain.forward_time.iter().zip(&chain.savings) {
        before.push(C::new(sum)?);
        sum += time;
        C::new(savings.iter().map(|saving| saving.time).max().unwrap_or(0).max(time))?;
    }
    C::new(sum)?;
    Some(before)
}
