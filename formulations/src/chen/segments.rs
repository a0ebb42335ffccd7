//! From checkpoints to stages: what is kept when (the matrix S), and the least computation with which
//! that is valid (the matrix R). Builds on the joint graph; in time linear in what it returns.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use remat_core::Instance;

use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

/// S, one or two intervals of stages per value.
///
/// The forward operators are cut into segments after each checkpoint. What a checkpoint makes, what the
/// last segment makes, everything of the backward pass and whatever cannot be made again is kept as
/// long as it can be of use. All else is kept until the forward pass has read it for the last time, and
/// then again from the first stage at which the backward pass reads anything of its segment.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Stages into which each value is kept from its first run on; may be empty.
    first: Vec<RangeInclusive<usize>>,
    /// Stages into which it is kept after its segment has run again.
    again: Vec<Option<RangeInclusive<usize>>>,
}

impl Segments {
    /// The segments between checkpoints, which are positions in ascending order.
    pub fn new(instance: &Instance, joint: &Joint, checkpoints: &[usize]) -> Self {
        let is_forward: Vec<bool> =
            joint.operators.iter().map(|operator| instance.operator(operator.id).phase.is_forward()).collect();
        let segment_of = |value: usize| {
            let position = joint.values[value].producer;
            let before = checkpoints.partition_point(|&checkpoint| checkpoint < position);
            let stays = before == checkpoints.len()
                || checkpoints[before] == position
                || !is_forward[position]
                || joint.again(position).is_none()
                || joint.values[value].result;
            (!stays).then_some(before)
        };
        let reads = Reads::new(joint, &is_forward);
        let mut opens: Vec<Option<usize>> = vec![None; checkpoints.len()];
        for value in 0..joint.values.len() {
            if let (Some(segment), Some((first, _))) = (segment_of(value), reads.backward[value]) {
                opens[segment] = Some(opens[segment].map_or(first, |stage| stage.min(first)));
            }
        }
        let (mut first, mut again) = (Vec::new(), Vec::new());
        for (at, value) in joint.values.iter().enumerate() {
            let segment = segment_of(at);
            let until = if segment.is_some() { reads.forward[at] } else { Some(value.last_use) };
            first.push(value.producer + 1..=until.unwrap_or(value.producer));
            let opened = segment.and_then(|segment| opens[segment]);
            again.push(opened.zip(reads.backward[at]).map(|(opened, (_, last))| opened + 1..=last));
        }
        Self { first, again }
    }

    /// Whether a value is kept into a stage (S).
    pub fn kept(&self, stage: usize, value: usize) -> bool {
        self.first[value].contains(&stage) || self.again[value].as_ref().is_some_and(|stages| stages.contains(&stage))
    }

    /// The least computation with which this is valid (R): whatever is needed and not there runs again,
    /// and so does what that needs.
    pub fn stages(&self, joint: &Joint) -> Stages {
        let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); joint.len()];
        for (value, stages) in self.again.iter().enumerate() {
            if let Some(stages) = stages.as_ref().filter(|stages| !stages.is_empty()) {
                wanted[*stages.start() - 1].push(value);
            }
        }
        let runs = wanted.iter().enumerate().map(|(stage, wanted)| self.runs(joint, stage, wanted)).collect();
        Stages { runs }
    }

    /// The positions that run in a stage, after which some values are wanted, ascending.
    fn runs(&self, joint: &Joint, stage: usize, wanted: &[usize]) -> Vec<usize> {
        let mut runs = BTreeSet::from([stage]);
        let mut missing: Vec<usize> = joint.first(stage).reads.iter().chain(wanted).copied().collect();
        while let Some(value) = missing.pop() {
            let producer = joint.values[value].producer;
            if self.kept(stage, value) || !runs.insert(producer) {
                continue;
            }
            // What cannot be made again is kept as long as it can be of use.
            missing.extend(joint.run(stage, producer).iter().flat_map(|way| &way.reads));
        }
        runs.into_iter().collect()
    }
}

/// When each value is read by first runs.
struct Reads {
    /// The last time in the forward pass.
    forward: Vec<Option<usize>>,
    /// The first and the last time in the backward pass.
    backward: Vec<Option<(usize, usize)>>,
}

impl Reads {
    fn new(joint: &Joint, is_forward: &[bool]) -> Self {
        let count = joint.values.len();
        let mut reads = Self { forward: vec![None; count], backward: vec![None; count] };
        for (position, operator) in joint.operators.iter().enumerate() {
            for &value in &operator.first[0].reads {
                if is_forward[position] {
                    reads.forward[value] = Some(position);
                } else {
                    let (first, _) = reads.backward[value].unwrap_or((position, position));
                    reads.backward[value] = Some((first, position));
                }
            }
        }
        reads
    }
}
