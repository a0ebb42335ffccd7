//! Rules that choose checkpoints among candidates. Plain numbers: positions and sizes.

use crate::search::sweep::coarse_to_fine;

/// Every floor(sqrt(n))-th of n candidates.
pub fn sqrt(candidates: &[usize]) -> Vec<usize> {
    let every = candidates.len().isqrt().max(1);
    candidates.iter().copied().skip(every - 1).step_by(every).collect()
}

/// Segments by memory: the first candidate at which more than `bytes` (b) have come together since the
/// last checkpoint is the next one.
///
/// `sizes[position]` is what each forward operator makes; positions without a candidate count too.
pub fn greedy(candidates: &[usize], sizes: &[u64], bytes: u64) -> Vec<usize> {
    filled(candidates, sizes, bytes).map(|(position, _)| position).collect()
}

/// Values of b, one for each choice that the greedy rule can come to, ascending from 0: each is the
/// least that leads to its choice. There may be as many as pairs of candidates: once the enumeration has taken
/// `MOST_STEPS`, each is at least twice the one before.
pub fn thresholds(candidates: &[usize], sizes: &[u64]) -> Vec<u64> {
    let mut thresholds = vec![0];
    let mut bytes = 0;
    let mut steps = 0;
    // The choice is the same until b reaches the least that has come together at a checkpoint.
    while let Some(next) = filled(candidates, sizes, bytes).map(|(_, filled)| filled).min() {
        thresholds.push(next);
        steps += sizes.len();
        bytes = if steps < MOST_STEPS { next } else { next.saturating_mul(2) };
    }
    thresholds
}

/// Sizes that [`thresholds`] adds up before it takes larger steps: a second or less.
const MOST_STEPS: usize = 1 << 28;

/// At most so many of a list, evenly spread, first and last among them; from coarse to fine, so that any
/// number of them from the beginning is spread as well.
pub fn spread<T: Copy>(mut all: Vec<T>, most: usize) -> Vec<T> {
    if all.len() > most {
        let last = all.len() - 1;
        all = (0..most).map(|at| all[at * last / (most - 1).max(1)]).collect();
    }
    // The last one has no place in the halving.
    let others = all.len().checked_sub(2).map(coarse_to_fine).unwrap_or_default();
    all.last().copied().into_iter().chain(others.into_iter().map(|place| all[place])).collect()
}

/// The checkpoints, each with the bytes that had come together there.
fn filled<'a>(candidates: &'a [usize], sizes: &'a [u64], bytes: u64) -> impl Iterator<Item = (usize, u64)> + 'a {
    let mut from = 0;
    let mut filled = 0;
    candidates.iter().filter_map(move |&position| {
        filled += sizes[from..=position].iter().sum::<u64>();
        from = position + 1;
        (filled > bytes).then(|| (position, std::mem::take(&mut filled)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqrt_takes_every_third_of_nine_to_fifteen() {
        let nine: Vec<usize> = (0..9).collect();
        assert_eq!(sqrt(&nine), [2, 5, 8]);
        let fifteen: Vec<usize> = (0..15).collect();
        assert_eq!(sqrt(&fifteen), [2, 5, 8, 11, 14]);
        assert_eq!(sqrt(&[4]), [4]);
        assert!(sqrt(&[]).is_empty());
    }

    #[test]
    fn what_is_spread_comes_from_coarse_to_fine_and_each_once() {
        assert_eq!(spread((0..=8).collect(), 100), [8, 0, 4, 2, 6, 1, 3, 5, 7]);
        assert_eq!(spread((0..=80).collect(), 9), [80, 0, 40, 20, 60, 10, 30, 50, 70]);
        for count in 0..40 {
            let mut all = spread((0..count).collect(), 100);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
        assert_eq!(spread(vec![1, 2, 3], 1), [1]);
    }

    #[test]
    fn greedy_fills_segments_beyond_b_and_counts_what_is_no_candidate() {
        let sizes = [3, 1, 4, 1, 5, 9];
        assert_eq!(greedy(&[0, 1, 2, 3, 4], &sizes, 4), [2, 4]);
        assert_eq!(greedy(&[1, 3], &sizes, 4), [3]);
        assert!(greedy(&[1, 3], &sizes, 9).is_empty());
    }

    #[test]
    fn the_thresholds_meet_every_choice_that_any_b_leads_to() {
        let sizes = [3, 1, 4, 1, 5, 9, 2, 6];
        let candidates = [0, 1, 2, 3, 4, 6, 7];
        let thresholds = thresholds(&candidates, &sizes);
        let choices: Vec<_> = thresholds.iter().map(|&bytes| greedy(&candidates, &sizes, bytes)).collect();
        assert!(choices.windows(2).all(|pair| pair[0] != pair[1]), "{choices:?}");
        for bytes in 0..=sizes.iter().sum() {
            let below = thresholds.partition_point(|&threshold| threshold <= bytes);
            assert_eq!(greedy(&candidates, &sizes, bytes), choices[below - 1], "b = {bytes}");
        }
    }
}
