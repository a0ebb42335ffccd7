//! A schedule in stages: which operators run in which stage. From it follow what is kept, the time,
//! the peak that Checkmate's model claims, and the schedule.

use remat_core::liveness::with_liveness;
use remat_core::{Instance, Schedule};

use crate::method::Claimed;
use crate::staged::joint::Joint;

/// The matrix R: `runs[t]` are the positions that run in stage t, ascending; the last one is t.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Positions by stage.
    pub runs: Vec<Vec<usize>>,
}

impl Stages {
    /// Every operator once.
    pub fn store_all(joint: &Joint) -> Self {
        Self { runs: (0..joint.len()).map(|stage| vec![stage]).collect() }
    }

    /// Every operator once, and later runs: stage and position of each.
    pub fn with_later_runs(joint: &Joint, later: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut stages = Self::store_all(joint);
        later.into_iter().for_each(|(stage, position)| stages.runs[stage].push(position));
        stages.runs.iter_mut().for_each(|runs| runs.sort_unstable());
        stages
    }

    /// The least computation with which `kept` (the matrix S) is valid: phase two of the rounding.
    /// What cannot be made again is kept even if `kept` says otherwise.
    pub fn complete(joint: &Joint, kept: impl Fn(usize, usize) -> bool) -> Self {
        let (count, end) = (joint.values.len(), joint.len());
        let row = |stage: usize| -> Vec<bool> {
            let wanted = |value: usize| stage > joint.values[value].producer && kept(stage, value);
            let keep = |value: usize| {
                joint.must_keep(stage, value) || if stage < end { wanted(value) } else { joint.values[value].result }
            };
            (0..count).map(keep).collect()
        };
        let mut runs = vec![Vec::new(); end];
        let mut next = row(end);
        for stage in (0..end).rev() {
            let mut keep = row(stage);
            let mut run = vec![false; stage + 1];
            run[stage] = true;
            for value in 0..count {
                let producer = joint.values[value].producer;
                if producer <= stage && next[value] && !keep[value] {
                    make(joint, stage, value, &mut run, &mut keep);
                }
            }
            for position in (0..=stage).rev() {
                let reads = joint.run(stage, position).filter(|_| run[position]).map_or(&[][..], |way| &way.reads);
                for &value in reads {
                    if !keep[value] {
                        make(joint, stage, value, &mut run, &mut keep);
                    }
                }
            }
            runs[stage] = (0..=stage).filter(|&position| run[position]).collect();
            next = keep;
        }
        Self { runs }
    }

    /// Which values are kept into which stage, no longer than needed (S).
    pub fn kept(&self, joint: &Joint) -> Vec<Vec<bool>> {
        let mut kept = Vec::with_capacity(joint.len() + 1);
        self.kept_backwards(joint, |_, row| kept.push(row.to_vec()));
        kept.reverse();
        kept
    }

    /// Calls `visit` with the rows of S one by one, from the end to stage 0.
    pub fn kept_backwards(&self, joint: &Joint, mut visit: impl FnMut(usize, &[bool])) {
        let mut needed: Vec<bool> = joint.values.iter().map(|value| value.result).collect();
        visit(joint.len(), &needed);
        for (stage, runs) in self.runs.iter().enumerate().rev() {
            for &position in runs.iter().rev() {
                for &value in &joint.operators[position].makes {
                    needed[value] = false;
                }
                for &value in joint.run(stage, position).map_or(&[][..], |way| &way.reads) {
                    needed[value] = true;
                }
            }
            visit(stage, &needed);
        }
    }

    /// All runs: stage and position.
    fn all_runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.runs.iter().enumerate().flat_map(|(stage, runs)| runs.iter().map(move |&position| (stage, position)))
    }

    /// Time of all runs.
    pub fn time(&self, joint: &Joint) -> u64 {
        self.all_runs().filter_map(|(stage, position)| joint.run(stage, position)).map(|way| way.time).sum()
    }

    /// Most runs of one operator.
    pub fn most_runs(&self) -> u64 {
        let mut runs = vec![0; self.runs.len()];
        self.runs.iter().flatten().for_each(|&position| runs[position] += 1);
        runs.into_iter().max().unwrap_or(0)
    }

    /// What runs again: stage and position.
    pub fn later_runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.all_runs().filter(|&(stage, position)| position < stage)
    }

    /// Time and peak as the model counts them.
    pub fn claim(&self, joint: &Joint) -> Claimed {
        let peaks = self.peaks(joint).into_iter().map(|(bytes, _)| bytes);
        Claimed { time: self.time(joint), peak_bytes: peaks.fold(joint.base_bytes, u64::max) }
    }

    /// Calls `visit` for every run with its stage, its position, what is there during it, and the bytes
    /// of that (without what is there during the run only).
    pub fn walk(&self, joint: &Joint, mut visit: impl FnMut(usize, usize, &[bool], u64)) {
        let runs: Vec<(usize, usize)> = self.all_runs().collect();
        let mut drops = Self::drops(joint, &runs);
        let mut there = vec![false; joint.values.len()];
        let mut bytes = joint.base_bytes;
        for (at, &(stage, position)) in runs.iter().enumerate() {
            for &value in &joint.operators[position].makes {
                bytes += if there[value] { 0 } else { joint.values[value].bytes };
                there[value] = true;
            }
            visit(stage, position, &there, bytes);
            while let Some((_, value)) = drops.pop_if(|&mut (run, _)| run == at) {
                there[value] = false;
                bytes -= joint.values[value].bytes;
            }
        }
    }

    /// After which run each copy of a value is dropped: the last that reads it, or the one that makes it; the last first.
    fn drops(joint: &Joint, runs: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut needed: Vec<bool> = joint.values.iter().map(|value| value.result).collect();
        let mut drops = Vec::new();
        for (at, &(stage, position)) in runs.iter().enumerate().rev() {
            for &value in &joint.operators[position].makes {
                if !std::mem::take(&mut needed[value]) {
                    drops.push((at, value));
                }
            }
            for &value in joint.run(stage, position).map_or(&[][..], |way| &way.reads) {
                if !std::mem::replace(&mut needed[value], true) {
                    drops.push((at, value));
                }
            }
        }
        drops
    }

    /// The peak of each stage, and the position at which it is.
    pub fn peaks(&self, joint: &Joint) -> Vec<(u64, usize)> {
        let mut peaks = vec![(0, 0); joint.len()];
        self.walk(joint, |stage, position, _, bytes| {
            let bytes = bytes + joint.run(stage, position).map_or(0, |way| way.transient);
            if bytes > peaks[stage].0 {
                peaks[stage] = (bytes, position);
            }
        });
        peaks
    }

    /// The schedule.
    pub fn schedule(&self, instance: &Instance, joint: &Joint) -> Schedule {
        let compute = |(stage, position): (usize, usize)| {
            Some((joint.operators[position].id, joint.run(stage, position)?.implementation))
        };
        with_liveness(instance, &self.all_runs().filter_map(compute).collect::<Vec<_>>())
    }
}

/// Has a value made in a stage, or kept into it where it cannot be made again.
fn make(joint: &Joint, stage: usize, value: usize, run: &mut [bool], keep: &mut [bool]) {
    let producer = joint.values[value].producer;
    if joint.run(stage, producer).is_some() {
        run[producer] = true;
    } else {
        keep[value] = true;
    }
}
