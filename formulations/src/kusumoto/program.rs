//! What is optimised, the least budget that has a sequence, and what a sequence costs.

use super::family::Stop;
use super::reach::Reach;
use super::steps::Steps;
use crate::search::clock::Clock;
use crate::setting;

setting! {
    /// the least overhead, or the greatest: with liveness analysis, coarse groups need the least memory (section 4.4)
    pub enum Goal("objective") = TimeCentric { TimeCentric = "time-centric", MemoryCentric = "memory-centric" }
}

/// The least budget that some sequence meets: bisection, unless nothing is below the largest budget, which one pass
/// says: the pruned family's least budget is often that of all sets.
///
/// # Errors
/// The time is over.
pub fn least_budget(steps: &Steps<'_>, clock: Clock) -> Result<u64, Stop> {
    let suffices = |budget| Ok(Reach::new(steps, budget, clock)?.ends(steps));
    // One group for everything is a sequence.
    let most = steps.most().min(steps.need(0, steps.sets.len() - 1));
    if most == 0 || !suffices(most - 1)? {
        return Ok(most);
    }
    let (mut low, mut high) = (0, most - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if suffices(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(high)
}

/// Overhead (1) and peak (2) of a sequence.
pub fn evaluate(steps: &Steps<'_>, sequence: &[usize]) -> (u64, u64) {
    let (mut time, mut peak, mut cached, mut from) = (0, 0, 0, 0);
    for &to in sequence {
        let (more, overhead) = steps.price(from, to);
        time += overhead;
        peak = peak.max(cached + steps.need(from, to));
        cached += more;
        from = to;
    }
    (time, peak)
}
