//! Algorithm 1 over lists of (t, m) pairs none of which is worse than another, and the least budget.

use std::time::Instant;

use super::family::{Steps, Stop};

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
    let allowances = allowances(steps, budget, deadline)?;
    let last = steps.sets.len() - 1;
    if allowances[0].most.is_none() {
        return Ok(None);
    }
    let mut lists: Vec<List> = vec![List::default(); steps.sets.len()];
    lists[0].entries.push(Entry { cost: 0, cached: 0, from: (0, 0) });
    let mut buffer = Vec::new();
    for from in 0..last {
        if out_of_time(deadline) {
            return Err(Stop::Time);
        }
        let mut list = std::mem::take(&mut lists[from]);
        list.prune();
        for step in steps.from(from, &mut buffer) {
            let to = step.to as usize;
            let Some(limit) = limit(budget, step.need, step.cached, allowances[to].most) else { continue };
            let enough = allowances[to].enough;
            let time = step.time.cast_signed();
            let time = if goal == Goal::TimeCentric { time } else { -time };
            if list.entries.len() > 1000 && out_of_time(deadline) {
                return Err(Stop::Time);
            }
            let fitting = list.entries.partition_point(|entry| entry.cached > limit);
            for (index, entry) in list.entries.iter().enumerate().skip(fitting) {
                let from = (position(from), position(index));
                // Below `enough` the cache makes no difference any more.
                let cached = (entry.cached + step.cached).max(enough);
                let reached = Entry { cost: entry.cost + time, cached, from };
                lists[to].push(reached);
            }
        }
        lists[from] = list;
    }
    lists[last].prune();
    Ok(lists[last].entries.first().map(|entry| path(&lists, last, *entry)))
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

fn out_of_time(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
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
fn limit(budget: u64, need: u64, cached: u64, allowance: Option<u64>) -> Option<u64> {
    Some(budget.checked_sub(need)?.min(allowance?.checked_sub(cached)?))
}

/// What earlier groups may have cached when a lower set is reached.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// The most with which some way to go on meets the budget; none where there is no way.
    most: Option<u64>,
    /// With no more than this, every way that any cache leaves open is open; zero where there is no such bound.
    enough: u64,
}

fn allowances(steps: &Steps<'_>, budget: u64, deadline: Option<Instant>) -> Result<Vec<Allowance>, Stop> {
    let last = steps.sets.len() - 1;
    let mut allowances = vec![Allowance { most: Some(u64::MAX), enough: u64::MAX }; steps.sets.len()];
    let mut buffer = Vec::new();
    for from in (0..last).rev() {
        if out_of_time(deadline) {
            return Err(Stop::Time);
        }
        let mut allowance = Allowance { most: None, enough: u64::MAX };
        for step in steps.from(from, &mut buffer) {
            let after = allowances[step.to as usize];
            let Some(most) = limit(budget, step.need, step.cached, after.most) else { continue };
            allowance.most = allowance.most.max(Some(most));
            allowance.enough = allowance.enough.min(most).min(after.enough.saturating_sub(step.cached));
        }
        allowances[from] = allowance;
    }
    Ok(allowances)
}

/// The least budget that some sequence meets.
///
/// Per lower set, the pairs (budget, m) of ways to reach it none of which is worse than another; budgets
/// below the bound that holds for all sequences are as good as the bound, so the lists stay short.
///
/// # Errors
/// The moment has come.
pub fn least_budget(steps: &Steps<'_>, deadline: Option<Instant>) -> Result<u64, Stop> {
    let last = steps.sets.len() - 1;
    // One group for everything is a sequence.
    let most = steps.most().min(steps.step(0, last).need);
    let bound = bound(steps, deadline)?;
    if bound >= most {
        return Ok(most);
    }
    let mut lists: Vec<List> = vec![List::default(); steps.sets.len()];
    lists[0].entries.push(Entry { cost: bound.cast_signed(), cached: 0, from: (0, 0) });
    let mut buffer = Vec::new();
    for from in 0..last {
        if out_of_time(deadline) {
            return Err(Stop::Time);
        }
        let mut list = std::mem::take(&mut lists[from]);
        list.prune();
        if list.entries.is_empty() {
            continue;
        }
        for step in steps.from(from, &mut buffer) {
            for entry in &list.entries {
                let budget = (entry.cached + step.need).cast_signed().max(entry.cost);
                if budget <= most.cast_signed() {
                    let cached = entry.cached + step.cached;
                    lists[step.to as usize].offer(Entry { cost: budget, cached, from: (0, 0) });
                }
            }
        }
    }
    lists[last].prune();
    Ok(lists[last].entries.first().map_or(most, |entry| entry.cost.unsigned_abs()))
}

/// No sequence needs less: whatever it is, where it reaches a set it has cached that set's boundary.
fn bound(steps: &Steps<'_>, deadline: Option<Instant>) -> Result<u64, Stop> {
    let last = steps.sets.len() - 1;
    let mut least = vec![u64::MAX; steps.sets.len()];
    least[last] = 0;
    let mut buffer = Vec::new();
    for from in (0..last).rev() {
        if out_of_time(deadline) {
            return Err(Stop::Time);
        }
        let boundary = steps.boundary_bytes(from);
        let over = |step: &super::family::Step| (step.need + boundary).max(least[step.to as usize]);
        least[from] = steps.from(from, &mut buffer).iter().map(over).min().unwrap_or(u64::MAX);
    }
    Ok(least[0])
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
