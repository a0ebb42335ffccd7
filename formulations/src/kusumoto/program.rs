//! Algorithm 1 over lists of (t, m) pairs none of which is worse than another, and the least budget.

use std::time::Instant;

use super::family::Stop;
use super::steps::{Step, Steps};
use super::viable::{Reach, Viable, check};

/// What is optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The least computational overhead.
    TimeCentric,
    /// The greatest: with liveness analysis, coarse groups need the least memory (section 4.4).
    MemoryCentric,
}

/// A way to reach a lower set.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// t, negated where the greatest is sought.
    cost: i64,
    /// m = M(U_i).
    cached: u64,
    /// The lower set before and the entry there.
    from: (u32, u32),
}

/// An increasing sequence of lower sets, as positions in the family, the empty set left out; none
/// where no sequence meets the budget.
///
/// # Errors
/// The moment has come.
pub fn solve(
    steps: &Steps<'_>,
    budget: u64,
    goal: Goal,
    deadline: Option<Instant>,
) -> Result<Option<Vec<usize>>, Stop> {
    let Some(viable) = Viable::new(steps, budget, deadline)? else { return Ok(None) };
    best(steps, &viable, goal, deadline).map(Some)
}

/// The best of the sequences that a budget leaves.
///
/// # Errors
/// The moment has come.
pub fn best(
    steps: &Steps<'_>,
    viable: &Viable<'_, '_>,
    goal: Goal,
    deadline: Option<Instant>,
) -> Result<Vec<usize>, Stop> {
    let enough = enough(steps, viable, deadline)?;
    let last = steps.sets.len() - 1;
    let mut lists: Vec<List> = vec![List::default(); steps.sets.len()];
    lists[0].entries.push(Entry { cost: 0, cached: 0, from: (0, 0) });
    let mut buffer = Vec::new();
    for from in 0..last {
        let mut list = std::mem::take(&mut lists[from]);
        if list.entries.is_empty() {
            continue;
        }
        check(deadline)?;
        list.prune();
        for step in viable.from(from, &mut buffer) {
            let to = step.to as usize;
            let Some(limit) = limit(viable, step) else { continue };
            let time = step.time.cast_signed();
            let time = if goal == Goal::TimeCentric { time } else { -time };
            if list.entries.len() > 1000 {
                check(deadline)?;
            }
            let fitting = list.entries.partition_point(|entry| entry.cached > limit);
            for (index, entry) in list.entries.iter().enumerate().skip(fitting) {
                let from = (position(from), position(index));
                // Below `enough` the cache makes no difference any more.
                let cached = (entry.cached + step.cached).max(enough[to]);
                lists[to].offer(Entry { cost: entry.cost + time, cached, from });
            }
        }
        lists[from] = list;
    }
    lists[last].prune();
    let entry = *lists[last].entries.first().expect("viable steps lead to V");
    Ok(path(&lists, last, entry))
}

fn path(lists: &[List], last: usize, entry: Entry) -> Vec<usize> {
    let mut path = vec![last];
    let mut from = entry.from;
    while from.0 > 0 {
        path.push(from.0 as usize);
        from = lists[from.0 as usize].entries[from.1 as usize].from;
    }
    path.reverse();
    path
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("lists and families stay far below 2^32")
}

/// Entries in order of cost, those that are no better than another one left out now and then.
#[derive(Clone, Debug, Default)]
struct List {
    entries: Vec<Entry>,
    pruned: usize,
}

impl List {
    fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() > 2 * self.pruned + 256 {
            self.prune();
        }
    }

    /// As `push`, unless an entry at the front, where the best usually are, is no worse.
    fn offer(&mut self, entry: Entry) {
        let mut front = self.entries.iter().take(4);
        if !front.any(|known| known.cost <= entry.cost && known.cached <= entry.cached) {
            self.push(entry);
        }
    }

    /// Leaves costs ascending and caches descending, both strictly.
    fn prune(&mut self) {
        self.entries.sort_unstable_by_key(|entry| (entry.cost, entry.cached));
        let mut least = None;
        self.entries.retain(|entry| {
            let better = least.is_none_or(|least| entry.cached < least);
            if better {
                least = Some(entry.cached);
            }
            better
        });
        self.pruned = self.entries.len();
    }
}

/// The most that may be cached before a step.
fn limit(viable: &Viable<'_, '_>, step: &Step) -> Option<u64> {
    let after = viable.most(step.to as usize)?;
    Some(viable.budget().checked_sub(step.need)?.min(after.checked_sub(step.cached)?))
}

/// By set: with no more than this cached, every way that any cache leaves open is open; zero where there is no
/// such bound.
fn enough(steps: &Steps<'_>, viable: &Viable<'_, '_>, deadline: Option<Instant>) -> Result<Vec<u64>, Stop> {
    let last = steps.sets.len() - 1;
    let mut enough = vec![u64::MAX; steps.sets.len()];
    let mut buffer = Vec::new();
    for from in (0..last).rev() {
        check(deadline)?;
        let of = |step: &Step| {
            let limit = limit(viable, step).unwrap_or(0);
            limit.min(enough[step.to as usize].saturating_sub(step.cached))
        };
        enough[from] = viable.from(from, &mut buffer).iter().map(of).min().unwrap_or(u64::MAX);
    }
    Ok(enough)
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
