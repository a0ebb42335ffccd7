//! What is optimised, the least budget that has a sequence, and what a sequence costs.

use std::time::Instant;

use super::family::Stop;
use super::steps::Steps;
use super::viable::{Reach, Viable};
use crate::setting;

setting! {
    /// the least overhead, or the greatest: with liveness analysis, coarse groups need the least memory (section 4.4)
    pub enum Goal("objective") = TimeCentric { TimeCentric = "time-centric", MemoryCentric = "memory-centric" }
}

/// The least budget that some sequence meets: bisection over the steps that the largest budget leaves, unless
/// nothing is below that budget, which one pass says: the pruned family's least budget is often that of all sets.
///
/// # Errors
/// The moment has come.
pub fn least_budget(steps: &Steps<'_>, deadline: Option<Instant>) -> Result<u64, Stop> {
    // One group for everything is a sequence.
    let mut high = steps.most().min(steps.need(0, steps.sets.len() - 1));
    let Some(below) = high.checked_sub(1) else { return Ok(high) };
    if !Reach::new(steps, below, deadline)?.ends(steps) {
        return Ok(high);
    }
    high = below;
    let Some(mut viable) = Viable::new(steps, high, deadline)? else { return Ok(high) };
    viable.keep(deadline)?;
    let mut low = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        if !viable.ends_within(middle, deadline)? {
            low = middle + 1;
            continue;
        }
        high = middle;
        if !viable.is_kept()
            && let Some(fewer) = Viable::new(steps, high, deadline)?
        {
            viable = fewer;
            viable.keep(deadline)?;
        }
    }
    Ok(high)
}

/// Overhead (1) and peak (2) of a sequence.
pub fn evaluate(steps: &Steps<'_>, sequence: &[usize]) -> (u64, u64) {
    let (mut time, mut peak, mut cached, mut from) = (0, 0, 0, 0);
    for &to in sequence {
        let step = steps.step(from, to);
        time += step.time;
        peak = peak.max(cached + step.need);
        cached += step.cached;
        from = to;
    }
    (time, peak)
}
