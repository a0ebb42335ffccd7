//! Store-all, computed by the harness itself: what budgets are fractions of and overheads relative to.

use remat_core::Instance;
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::simulate::{SimulationError, simulate};

/// Simulated time and peak of store-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Time with the fastest implementations.
    pub time: u64,
    /// Peak with the fastest implementations.
    pub peak_bytes: u64,
    /// Time with the framework's default implementations.
    pub default_time: u64,
    /// Peak with the framework's default implementations.
    pub default_peak_bytes: u64,
}

impl Baseline {
    /// Simulates both.
    ///
    /// # Errors
    /// The instance admits no iteration in which every operator runs once.
    pub fn new(instance: &Instance) -> Result<Self, SimulationError> {
        let cost = |plan: &Plan| simulate(instance, &with_liveness(instance, &plan.store_all(instance)));
        let fastest = cost(&Plan::fastest(instance))?;
        let default = cost(&Plan::default_choice(instance))?;
        Ok(Self {
            time: fastest.time,
            peak_bytes: fastest.peak_bytes,
            default_time: default.time,
            default_peak_bytes: default.peak_bytes,
        })
    }
}

/// A value over another; none where the other is zero.
pub fn ratio(value: u64, reference: u64) -> Option<f64> {
    (reference > 0).then(|| value as f64 / reference as f64)
}

/// The part by which a time exceeds another: 0.25 where it is a quarter longer. None where the other is zero.
pub fn overhead(time: u64, reference: u64) -> Option<f64> {
    ratio(time, reference).map(|ratio| ratio - 1.0)
}

/// The same in per cent.
pub fn overhead_percent(time: u64, reference: u64) -> Option<f64> {
    overhead(time, reference).map(|part| 100.0 * part)
}
