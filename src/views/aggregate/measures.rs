//! The measures by which runs are compared, over plain numbers. Nothing here knows a record.
//!
//! No crate is used: those at hand have the plain means, none the shift, the penalties and the gaps that
//! make the difference here, and what is left after that is a line each.

use crate::views::trajectory::Step;

/// The shift of means of planning seconds: runs of a hundredth and of a tenth of a second count as alike.
pub const SHIFT_SECONDS: f64 = 1.0;

/// (prod (v_i + s))^(1/n) - s; the geometric mean where s is 0. None of no values.
pub fn shifted_geometric_mean(values: &[f64], shift: f64) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| (value + shift).ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp() - shift)
}

/// The mean of some values; none of no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Seconds of a run with a penalty: those of an answered one, so many times its limit of any other (PAR2:
/// twice). None where there is no limit to count by.
pub fn penalised(answered: Option<f64>, limit: Option<f64>, factor: f64) -> Option<f64> {
    answered.or(limit.map(|limit| factor * limit))
}

/// Berthold's primal gap of a time to the best known one: (c - best) / c, and 1 without a schedule.
pub fn primal_gap(time: Option<u64>, best: u64) -> f64 {
    match time {
        None => 1.0,
        Some(time) if time <= best => 0.0,
        Some(time) => (time - best) as f64 / time as f64,
    }
}

/// Integral of the primal gap from 0 to `horizon`, in seconds: how long one would have waited for nothing.
pub fn primal_integral(incumbents: &[Step], best: u64, horizon: f64) -> f64 {
    let begins = std::iter::once((0.0, 1.0)).chain(incumbents.iter().map(|&(at, t)| (at, primal_gap(Some(t), best))));
    let ends = incumbents.iter().map(|step| step.0).chain(std::iter::once(horizon));
    begins.zip(ends).map(|((from, gap), to)| gap * (to.min(horizon) - from.min(horizon)).max(0.0)).sum()
}

/// The first moment at which the incumbent's primal gap to a reference is at most so much.
pub fn seconds_to_primal_gap(incumbents: &[Step], reference: u64, gap: f64) -> Option<f64> {
    incumbents.iter().find(|step| primal_gap(Some(step.1), reference) <= gap).map(|step| step.0)
}

/// Dolan and Moré's performance profile: of the ratios to the best of each case (none: no schedule), the
/// share that is at most r, for each r at which it changes, from 1 on.
pub fn profile(ratios: &[Option<f64>]) -> Vec<(f64, f64)> {
    let mut known: Vec<f64> = ratios.iter().copied().flatten().collect();
    known.sort_by(f64::total_cmp);
    let mut steps: Vec<(f64, f64)> = vec![(1.0, 0.0)];
    for (index, ratio) in known.into_iter().enumerate() {
        let share = (index + 1) as f64 / ratios.len() as f64;
        match steps.last_mut() {
            Some(last) if ratio <= last.0 => last.1 = share,
            _ => steps.push((ratio, share)),
        }
    }
    steps
}

/// The share of a profile at a ratio.
pub fn share_at(profile: &[(f64, f64)], ratio: f64) -> f64 {
    // A ratio computed from equal times may miss its round value by a rounding.
    profile.iter().take_while(|step| step.0 <= ratio * (1.0 + 1e-12)).last().map_or(0.0, |step| step.1)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "tests")]
mod tests {
    use super::*;

    fn close(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-12)
    }

    #[test]
    fn the_shift_takes_weight_from_small_values() {
        assert!(close(shifted_geometric_mean(&[1.0, 100.0], 0.0), 10.0));
        // (0 + 1) (3 + 1) = 4, its root 2, less 1.
        assert!(close(shifted_geometric_mean(&[0.0, 3.0], 1.0), 1.0));
        assert_eq!(shifted_geometric_mean(&[], 1.0), None);
        assert!(close(mean(&[1.0, 2.0, 6.0]), 3.0));
    }

    #[test]
    fn an_unanswered_run_costs_its_limit_times_the_penalty() {
        assert_eq!(penalised(Some(3.0), Some(10.0), 2.0), Some(3.0));
        assert_eq!(penalised(None, Some(10.0), 2.0), Some(20.0));
        assert_eq!(penalised(None, None, 2.0), None);
    }

    #[test]
    fn the_primal_integral_is_the_area_above_the_incumbents() {
        // Nothing until 1 s, a gap of one half until 3 s, then the best.
        let incumbents = [(1.0, 200), (3.0, 100)];
        assert!(close(Some(primal_integral(&incumbents, 100, 10.0)), 1.0 + 0.5 * 2.0));
        assert!(close(Some(primal_integral(&incumbents, 100, 2.0)), 1.0 + 0.5));
        assert!(close(Some(primal_integral(&incumbents, 100, 0.5)), 0.5));
        assert!(close(Some(primal_integral(&[], 100, 10.0)), 10.0));
        assert!(close(Some(primal_gap(Some(125), 100)), 0.2));
    }

    #[test]
    fn a_primal_gap_is_reached_by_the_first_schedule_so_close() {
        let incumbents = [(1.0, 120), (2.0, 104), (8.0, 101)];
        let times = [0.05, 0.02, 0.01, 0.001].map(|gap| seconds_to_primal_gap(&incumbents, 100, gap));
        assert_eq!(times, [Some(2.0), Some(8.0), Some(8.0), None]);
    }

    #[test]
    fn a_profile_counts_cases_without_a_schedule_as_never_reached() {
        let steps = profile(&[Some(1.0), Some(1.5), None, Some(1.0)]);
        assert_eq!(steps, [(1.0, 0.5), (1.5, 0.75)]);
        assert_eq!([0.9, 1.0, 1.4, 1.5, 99.0].map(|ratio| share_at(&steps, ratio)), [0.0, 0.5, 0.5, 0.75, 0.75]);
        assert_eq!(profile(&[None, Some(2.0)]), [(1.0, 0.0), (2.0, 0.5)]);
    }
}
