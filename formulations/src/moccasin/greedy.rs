//! A schedule to start from: drops values over gaps between their uses until everything fits.
//!
//! While some run exceeds the budget, of the values that lie idle during the worst one, the one is
//! dropped whose absence takes most off the excess of all stages per time that it adds; what must then
//! run again follows from it. No proof and no guarantee; milliseconds to seconds.

use std::time::Instant;

use crate::checkmate::joint::Joint;
use crate::checkmate::stages::Stages;
use crate::moccasin::blocks::stage_peaks;

/// A value, and the first and last stage into which it is not kept.
type Gap = (usize, (usize, usize));

/// Most values that are tried per step: fewer on large graphs, where each takes milliseconds.
fn tried(operators: usize) -> usize {
    (8000 / operators.max(1)).clamp(12, 40)
}

/// What a start must meet.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The budget.
    pub budget: u64,
    /// Whether workspaces count.
    pub workspace: bool,
    /// Most runs of one operator (C).
    pub copies: u64,
    /// When to give up.
    pub deadline: Option<Instant>,
}

/// Whether no operator runs more than C times.
pub fn within_copies(joint: &Joint, stages: &Stages, copies: u64) -> bool {
    let mut runs = vec![0; joint.len()];
    for &position in stages.runs.iter().flatten() {
        runs[position] += 1;
    }
    runs.into_iter().all(|runs: u64| runs <= copies)
}

/// Stages within the budget, if the greedy way leads to any.
pub fn greedy(joint: &Joint, limits: Limits) -> Option<Stages> {
    let mut dropped = vec![vec![false; joint.values.len()]; joint.len() + 1];
    let mut stages = Stages::store_all(joint);
    let mut taken = Vec::new();
    loop {
        let peaks = stage_peaks(joint, &stages, limits.workspace);
        let excess = excess(&peaks, limits.budget);
        if excess == 0 {
            return Some(keep_again(joint, limits, dropped, taken, stages));
        }
        let time = stages.claim(joint, limits.workspace).time;
        let (stage, position) = worst(&peaks);
        let mut best: Option<(f64, Vec<Vec<bool>>, Stages, Gap)> = None;
        for (value, gap) in gaps(joint, &stages, stage, position) {
            if limits.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            let mut tried = dropped.clone();
            for row in &mut tried[gap.0..=gap.1] {
                row[value] = true;
            }
            let next = Stages::complete(joint, |stage, value| !tried[stage][value]);
            let left = self::excess(&stage_peaks(joint, &next, limits.workspace), limits.budget);
            if left >= excess || !within_copies(joint, &next, limits.copies) {
                continue;
            }
            let added = next.claim(joint, limits.workspace).time.saturating_sub(time);
            let score = (excess - left) as f64 / (added as f64 + 1e-3 * time as f64 / joint.len() as f64 + 1e-9);
            if best.as_ref().is_none_or(|(best, ..)| score > *best) {
                best = Some((score, tried, next, (value, gap)));
            }
        }
        let (_, now, next, gap) = best?;
        (dropped, stages) = (now, next);
        taken.push(gap);
    }
}

/// Keeps values after all that later steps made superfluous to drop, the earliest dropped first.
fn keep_again(
    joint: &Joint,
    limits: Limits,
    mut dropped: Vec<Vec<bool>>,
    taken: Vec<Gap>,
    mut stages: Stages,
) -> Stages {
    let mut time = stages.claim(joint, limits.workspace).time;
    for (value, (from, to)) in taken {
        if limits.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
        let mut tried = dropped.clone();
        for row in &mut tried[from..=to] {
            row[value] = false;
        }
        let next = Stages::complete(joint, |stage, value| !tried[stage][value]);
        let claim = next.claim(joint, limits.workspace);
        let fits = claim.peak_bytes <= limits.budget && within_copies(joint, &next, limits.copies);
        if fits && claim.time < time {
            (dropped, stages, time) = (tried, next, claim.time);
        }
    }
    stages
}

fn excess(peaks: &[(u64, usize)], budget: u64) -> u128 {
    peaks.iter().map(|(bytes, _)| u128::from(bytes.saturating_sub(budget))).sum()
}

/// Stage and position of the highest peak.
fn worst(peaks: &[(u64, usize)]) -> (usize, usize) {
    let stage = (0..peaks.len()).max_by_key(|&stage| peaks[stage].0).unwrap_or(0);
    (stage, peaks[stage].1)
}

/// Values that are there and idle while a position runs in a stage, and the stages into which they need
/// not be kept then; the largest per time of their producers first.
fn gaps(joint: &Joint, stages: &Stages, stage: usize, position: usize) -> Vec<Gap> {
    let kept = stages.kept(joint);
    let touches = |at: usize, value: usize, from: usize, to: usize| {
        let reads = |&&run: &&usize| joint.run(at, run).is_some_and(|way| way.reads.contains(&value));
        let makes = |&&run: &&usize| joint.values[value].producer == run;
        let within = |&&run: &&usize| (from..=to).contains(&run);
        stages.runs[at].iter().filter(within).any(|run| reads(&run) || makes(&run))
    };
    let mut found = Vec::new();
    for (value, description) in joint.values.iter().enumerate() {
        let stays = kept[stage + 1][value] && description.producer <= stage;
        let again = joint.operators[description.producer].again.as_ref();
        let Some(again) = again.filter(|_| stays && !touches(stage, value, position, stage)) else { continue };
        let in_stage = position > 0 && touches(stage, value, 0, position - 1);
        let mut before = stage;
        while !in_stage && before > 0 && kept[before][value] {
            before -= 1;
            if touches(before, value, 0, before) {
                break;
            }
        }
        let after = (stage + 1..joint.len()).find(|&at| touches(at, value, 0, at));
        if let Some(after) = after {
            let worth = description.bytes as f64 / (again.time as f64 + 1.0);
            found.push((worth, value, (before + 1, after)));
        }
    }
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    found.into_iter().take(tried(joint.len())).map(|(_, value, gap)| (value, gap)).collect()
}
