//! Offloading (appendix B.3) as more nodes and values: whatever makes a value makes a *copy* of it as well, of
//! no size; a node that reads the copy and makes the value is a fetch. So a fetch comes after a production
//! by the rule that every input is produced before it is read. The offload itself is no node: it
//! follows the first production, and costs its time once if there is any fetch.

use remat_core::liveness::{Action, Compute, with_liveness, with_transfers};
use remat_core::{Instance, Schedule, TransferRates};

use super::graph::{Graph, LARGEST_SUM, NONE, Parts, Read, Value, index};
use crate::method::SkipReason;

/// A value that may be fetched from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The value.
    pub value: u32,
    /// Its copy.
    pub copy: u32,
    /// Duration of the offload c''(v), which counts once, whatever the number of fetches.
    pub offload: u64,
    /// Duration of a fetch c'(v).
    pub fetch: u64,
}

impl Graph {
    /// Adds a node that fetches a value.
    pub fn push_fetch(&mut self, transfer: Transfer) {
        self.fetch_of.resize(self.values.len(), NONE);
        self.fetch_of[transfer.value as usize] = index(self.variants.len());
        let reads = vec![Read::new(transfer.copy, false)];
        let parts = Parts { time: transfer.fetch, reads, makes: vec![transfer.value], ..Parts::default() };
        self.push(true, false, false, &[parts]);
        if let Some(variant) = self.variants.last_mut() {
            variant.transfer = index(self.transfers.len());
        }
        self.transfers.push(transfer);
    }

    /// The transfer that a variant is, if it is one.
    #[inline]
    pub fn transfer(&self, variant: u32) -> Option<&Transfer> {
        self.transfers.get(self.variants[variant as usize].transfer as usize)
    }

    /// The schedule of a sequence of variants.
    pub fn schedule(&self, instance: &Instance, variants: &[u32], rates: Option<TransferRates>) -> Schedule {
        let Some(rates) = rates else {
            let computes: Vec<Compute> = variants.iter().flat_map(|&variant| self.steps(variant)).copied().collect();
            return with_liveness(instance, &computes);
        };
        let fetch = |variant| self.transfer(variant).map(|transfer| self.values[transfer.value as usize].tensor);
        let actions = variants.iter().flat_map(|&variant| {
            let computes = self.steps(variant).iter().copied().map(Action::Compute);
            fetch(variant).map(Action::Fetch).into_iter().chain(computes)
        });
        with_transfers(instance, &actions.collect::<Vec<_>>(), rates)
    }

    /// The variants of a schedule's computes, of a graph with a node for each operator.
    ///
    /// # Errors
    /// The schedule uses an implementation that the graph leaves out.
    pub fn sequence(&self, schedule: &Schedule) -> Result<Vec<u32>, SkipReason> {
        let variant = |compute: Compute| {
            let found = self.variants_of(compute.0.index()).find(|&variant| self.steps(variant) == [compute]);
            found.ok_or_else(|| SkipReason("its schedule uses implementations that are left out here".into()))
        };
        schedule.runs().map(variant).collect()
    }
}

/// Appends copies of all values that have a size.
///
/// # Errors
/// The transfers take too long to be counted.
pub fn transfers(values: &mut Vec<Value>, rates: TransferRates) -> Result<Vec<Transfer>, SkipReason> {
    let (mut transfers, mut sum) = (Vec::new(), 0_u128);
    for value in 0..values.len() {
        let Value { tensor, bytes, .. } = values[value];
        if bytes == 0 {
            continue;
        }
        let bytes = bytes.unsigned_abs();
        let times = rates.offload_time(bytes).zip(rates.fetch_time(bytes));
        sum += times.map_or(u128::from(u64::MAX), |(offload, fetch)| u128::from(offload) + u128::from(fetch));
        let (offload, fetch) = times.unwrap_or_default();
        transfers.push(Transfer { value: index(value), copy: index(values.len()), offload, fetch });
        values.push(Value { tensor, bytes: 0, result: false, overwritable: false });
    }
    if sum > u128::from(LARGEST_SUM) {
        return Err(SkipReason(format!(
            "transfer times sum to {sum}; the annealer counts up to {LARGEST_SUM}, offload at a higher rate"
        )));
    }
    Ok(transfers)
}

/// What makes a value makes its copy; the transfers are in the order of their values.
pub fn make_copies(transfers: &[Transfer], parts: &mut Parts) {
    for at in 0..parts.makes.len() {
        if let Ok(found) = transfers.binary_search_by_key(&parts.makes[at], |transfer| transfer.value) {
            parts.makes.push(transfers[found].copy);
        }
    }
}
