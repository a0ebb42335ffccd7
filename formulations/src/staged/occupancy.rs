//! A schedule in stages as the set of its later runs, with what each value occupies: whole stages, from a run of its
//! producer to the last stage that reads it before the next one. Bytes and prices are counted by stage, so that what a
//! change is worth is known from sums over spans of stages, without a look at the stages between.
//!
//! The bytes of a stage are those of everything that is there at some moment of it: never less than its peak, workspaces
//! aside. [`Stages::peaks`] is exact.

use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

/// Later runs, the stages that values occupy, and a price of a byte in each stage.
pub struct Occupancy<'a> {
    joint: &'a Joint,
    /// Most later runs of one operator.
    most: usize,
    /// Stages of the later runs of each position, ascending.
    later: Vec<Vec<u32>>,
    /// Stages in which some run reads each value, ascending, one for each run; the number of stages for a result.
    uses: Vec<Vec<u32>>,
    /// By stage, bytes that come with it less those that went with the one before.
    change: Vec<i64>,
    /// By stage, the sum of the prices of all stages before it.
    before: Vec<f64>,
    /// Toggles that can be taken back.
    journal: Vec<(usize, usize)>,
}

/// A value around a stage.
struct Around {
    /// The last stage before it in which the value is made or read.
    before: usize,
    /// Whether it is made again in this stage.
    made: bool,
    /// How many runs read it in this stage.
    readers: usize,
    /// Whether it is read after it before it is made again.
    read_after: bool,
}

impl Around {
    /// Whether it is there in the stage anyway.
    fn is_there(&self) -> bool {
        self.made || self.is_wanted()
    }

    /// Whether a copy that is made in the stage is read.
    fn is_wanted(&self) -> bool {
        self.readers > 0 || self.read_after
    }
}

impl<'a> Occupancy<'a> {
    /// What values occupy in some stages, with at most so many runs of one operator; everything is free.
    pub fn new(joint: &'a Joint, stages: &Stages, copies: u64) -> Self {
        let end = joint.len();
        let mut uses = vec![Vec::new(); joint.values.len()];
        for (position, operator) in joint.operators.iter().enumerate() {
            for &value in &operator.first[0].reads {
                uses[value].push(small(position));
            }
        }
        for (uses, value) in uses.iter_mut().zip(&joint.values) {
            uses.extend(value.result.then_some(small(end)));
        }
        let mut occupancy = Self {
            joint,
            most: usize::try_from(copies).unwrap_or(usize::MAX).saturating_sub(1),
            later: vec![Vec::new(); end],
            uses,
            change: vec![0; end + 2],
            before: vec![0.0; end + 2],
            journal: Vec::new(),
        };
        for value in 0..joint.values.len() {
            occupancy.count(value, 1);
        }
        for (stage, position) in stages.later_runs() {
            occupancy.toggle(position, stage);
        }
        occupancy.keep();
        occupancy
    }

    /// The same as stages.
    pub fn stages(&self) -> Stages {
        let later = self.later.iter().enumerate();
        let runs = later.flat_map(|(position, later)| later.iter().map(move |&stage| (stage as usize, position)));
        Stages::with_later_runs(self.joint, runs)
    }

    /// Bytes of what is there in each stage at some moment.
    pub fn bytes(&self) -> Vec<i64> {
        let mut sum = self.joint.base_bytes.cast_signed();
        let mut bytes = self.change[..self.joint.len()].to_vec();
        for bytes in &mut bytes {
            sum += *bytes;
            *bytes = sum;
        }
        bytes
    }

    /// Sets the price of a byte in each stage, in units of time.
    pub fn set_prices(&mut self, prices: impl Iterator<Item = f64>) {
        let end = self.joint.len();
        let mut sum = 0.0;
        for (before, price) in self.before[1..=end].iter_mut().zip(prices) {
            sum += price;
            *before = sum;
        }
        // Results are there after the last stage, which costs nothing.
        self.before[end + 1] = sum;
    }

    /// The stage of one of the later runs of a position.
    pub fn later_run(&self, position: usize, index: usize) -> Option<usize> {
        self.later[position].get(index).map(|&stage| stage as usize)
    }

    /// Whether an operator runs again in a stage.
    pub fn runs_again(&self, position: usize, stage: usize) -> bool {
        self.later[position].contains(&small(stage))
    }

    /// Whether an operator may run once more.
    pub fn has_room(&self, position: usize) -> bool {
        self.later[position].len() < self.most
    }

    /// The first stage from one on in which a value is read.
    fn next_use(&self, value: usize, from: usize) -> Option<usize> {
        let uses = &self.uses[value];
        let next = *uses.get(up_to(uses, from))? as usize;
        (next < self.joint.len()).then_some(next)
    }

    /// Stages that read a value, of which it costs more than so much that it is there since the stage before that made or read
    /// it; or anything, where that is a later run that nothing reads before.
    pub fn gaps(&self, value: usize, cost: f64, found: &mut Vec<usize>) {
        let (later, end) = (&self.later[self.joint.values[value].producer], self.joint.len());
        let (mut before, mut idle, mut next) = (self.joint.values[value].producer, false, 0);
        for stage in self.uses[value].iter().map(|&stage| stage as usize).filter(|&stage| stage < end) {
            while let Some(run) = later.get(next).map(|&run| run as usize).filter(|&run| run <= stage) {
                (before, idle, next) = (run, true, next + 1);
            }
            if stage > before {
                let gap = self.span(value, before + 1, stage);
                if gap > cost || idle && gap > 0.0 {
                    found.push(stage);
                }
            }
            (before, idle) = (stage, false);
        }
    }

    /// The later run with which an operator's copy before a stage begins, if it ends there, too: if nothing reads it.
    pub fn idle_run(&self, position: usize, stage: usize) -> Option<usize> {
        let later = &self.later[position];
        let run = *later.get(up_to(later, stage).checked_sub(1)?)? as usize;
        let read = |&value: &usize| self.next_use(value, run).is_some_and(|read| read < stage);
        (!self.joint.operators[position].makes.iter().any(read)).then_some(run)
    }

    /// The later run after a stage.
    pub fn next_run(&self, position: usize, stage: usize) -> Option<usize> {
        let later = &self.later[position];
        later.get(up_to(later, stage + 1)).map(|&run| run as usize)
    }

    /// Adds a later run, or takes it away where it is; the change of time and price together.
    pub fn toggle(&mut self, position: usize, stage: usize) -> f64 {
        self.journal.push((position, stage));
        self.switch(position, stage)
    }

    /// How far the journal is.
    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Takes back all toggles since a mark.
    pub fn undo(&mut self, mark: usize) {
        while self.journal.len() > mark {
            let Some((position, stage)) = self.journal.pop() else { return };
            self.switch(position, stage);
        }
    }

    /// Forgets the journal: what was done stays.
    pub fn keep(&mut self) {
        self.journal.clear();
    }

    /// What it costs that an operator's values are there from where they were last until a stage, this one left out, as
    /// far as something reads them from then on.
    pub fn bridge(&self, position: usize, stage: usize) -> f64 {
        let cost = |&value: &usize| {
            let around = self.around(value, stage);
            if around.is_wanted() { self.span(value, around.before + 1, stage) } else { 0.0 }
        };
        self.joint.operators[position].makes.iter().map(cost).sum()
    }

    /// What it costs that a value that an operator reads is there in a stage, if only that brings it there.
    pub fn extension(&self, value: usize, stage: usize) -> f64 {
        let around = self.around(value, stage);
        if around.is_there() { 0.0 } else { self.span(value, around.before + 1, stage + 1) }
    }

    /// What is saved at most where a later run goes: its time, and what it reads and nothing else does from then on.
    pub fn release(&self, position: usize, stage: usize) -> f64 {
        let Some(again) = self.joint.again(position) else { return 0.0 };
        let saved = |&value: &usize| {
            let around = self.around(value, stage);
            let from = if around.made { stage } else { around.before + 1 };
            if around.readers > 1 || around.read_after { 0.0 } else { self.span(value, from, stage + 1) }
        };
        again.time as f64 + again.reads.iter().map(saved).sum::<f64>()
    }

    /// What is lost at least where a later run goes.
    pub fn worth(&self, position: usize, stage: usize) -> f64 {
        self.bridge(position, stage) - self.release(position, stage)
    }

    /// Where an operator may not run once more, the later run that is worth the least.
    pub fn least_worth(&self, position: usize) -> Option<usize> {
        if self.has_room(position) {
            return None;
        }
        let worth = |&stage: &u32| (self.worth(position, stage as usize), stage as usize);
        self.later[position].iter().map(worth).min_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, stage)| stage)
    }

    /// An estimate of what it costs to run an operator again in a stage, beside the price of what it makes: its time, and
    /// for all that it reads either that it stays or, so many operators deep, that it is made again. Any number from the
    /// limit on means too much.
    pub fn estimate(&self, position: usize, stage: usize, limit: f64, depth: usize) -> f64 {
        let Some(again) = self.joint.again(position) else { return f64::INFINITY };
        let mut sum = again.time as f64;
        for &value in &again.reads {
            if sum >= limit {
                return sum;
            }
            let mut least = self.extension(value, stage);
            let producer = self.joint.values[value].producer;
            if least > 0.0 && depth > 0 {
                let beside = self.made_early(value, stage);
                let cost = self.estimate(producer, stage, least.min(limit - sum) - beside, depth - 1) + beside;
                least = least.min(cost);
            }
            sum += least;
        }
        sum
    }

    /// What it costs to make a value in a stage, beside its producer's run: that it is there in the stage, and that another
    /// run goes if one has to; or that it is there until the producer's next run, which this one then is instead of.
    fn made_early(&self, value: usize, stage: usize) -> f64 {
        let producer = self.joint.values[value].producer;
        let again = self.joint.again(producer);
        if let Some((next, again)) = self.next_run(producer, stage).zip(again) {
            return self.span(value, stage, next) - again.time as f64;
        }
        let gone = self.least_worth(producer).map_or(0.0, |run| self.worth(producer, run));
        self.span(value, stage, stage + 1) + gone
    }

    /// The price of a value in stages from one to another, the last left out.
    fn span(&self, value: usize, from: usize, to: usize) -> f64 {
        self.joint.values[value].bytes as f64 * (self.before[to] - self.before[from.min(to)])
    }

    fn around(&self, value: usize, stage: usize) -> Around {
        let producer = self.joint.values[value].producer;
        let (later, uses) = (&self.later[producer], &self.uses[value]);
        let now = small(stage);
        let run = up_to(later, stage);
        let made = later.get(run) == Some(&now);
        let remade = later.get(run + usize::from(made));
        let first = up_to(uses, stage);
        let next = first + uses[first..].iter().take_while(|&&read| read == now).count();
        let of = |list: &[u32], count: usize| count.checked_sub(1).map_or(producer, |last| list[last] as usize);
        Around {
            before: of(later, run).max(of(uses, first)),
            made,
            readers: next - first,
            read_after: uses.get(next).is_some_and(|read| remade.is_none_or(|remade| read < remade)),
        }
    }

    fn switch(&mut self, position: usize, stage: usize) -> f64 {
        let joint = self.joint;
        let operator = &joint.operators[position];
        let Some(again) = operator.again.first() else { return 0.0 };
        let touched = || operator.makes.iter().chain(&again.reads).copied();
        let mut price: f64 = -touched().map(|value| self.count(value, -1)).sum::<f64>();
        let (at, now) = (up_to(&self.later[position], stage), small(stage));
        let there = self.later[position].get(at) == Some(&now);
        if there {
            self.later[position].remove(at);
        } else {
            self.later[position].insert(at, now);
        }
        for &value in &again.reads {
            let uses = &mut self.uses[value];
            let at = up_to(uses, stage);
            if there {
                uses.remove(at);
            } else {
                uses.insert(at, now);
            }
        }
        price += touched().map(|value| self.count(value, 1)).sum::<f64>();
        price + if there { -(again.time as f64) } else { again.time as f64 }
    }

    /// Adds a value's bytes wherever it is, or takes them away; the price of where it is.
    fn count(&mut self, value: usize, sign: i64) -> f64 {
        let joint = self.joint;
        let (later, uses) = (&self.later[joint.values[value].producer], &self.uses[value]);
        let bytes = sign * joint.values[value].bytes.cast_signed();
        let (mut start, mut from, mut price) = (joint.values[value].producer, 0, 0.0);
        for copy in 0..=later.len() {
            let next = later.get(copy).map(|&next| next as usize);
            let to = next.map_or(uses.len(), |next| from + up_to(&uses[from..], next));
            let last = if to > from { uses[to - 1] as usize } else { start };
            self.change[start] += bytes;
            self.change[last + 1] -= bytes;
            price += self.before[last + 1] - self.before[start];
            (start, from) = (next.unwrap_or(start), to);
        }
        price * joint.values[value].bytes as f64
    }
}

/// A stage as it is kept in lists.
fn small(stage: usize) -> u32 {
    u32::try_from(stage).expect("instances hold fewer than 2^32 operators")
}

/// How many of some ascending stages are before one.
fn up_to(stages: &[u32], stage: usize) -> usize {
    let stage = small(stage);
    stages.partition_point(|&other| other < stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};
    use remat_core::generate::random::random;

    fn joints() -> impl Iterator<Item = (u64, Joint)> {
        (0..20).filter_map(|seed| {
            let document =
                if seed % 2 == 0 { layered("l", &Layered::moccasin(40, 0.4), seed) } else { random("r", 4, seed) };
            Some((seed, Joint::new(&Instance::new(&document).expect("valid")).ok()?))
        })
    }

    /// Time of later runs, and bytes times prices.
    fn value(joint: &Joint, occupancy: &Occupancy<'_>, prices: &[f64]) -> f64 {
        let fresh = Occupancy::new(joint, &occupancy.stages(), u64::MAX);
        assert_eq!(fresh.bytes(), occupancy.bytes());
        let stages = occupancy.stages();
        let bytes = occupancy.bytes();
        let paid: f64 = bytes.iter().zip(prices).map(|(&bytes, price)| bytes as f64 * price).sum();
        stages.time(joint) as f64 + paid
    }

    #[test]
    fn a_toggle_says_what_it_changes_and_can_be_taken_back() {
        for (seed, joint) in joints() {
            let mut dice = Random::new(seed);
            let mut occupancy = Occupancy::new(&joint, &Stages::store_all(&joint), u64::MAX);
            let prices: Vec<f64> = (0..joint.len()).map(|_| dice.unit()).collect();
            occupancy.set_prices(prices.iter().copied());
            let count = u32::try_from(joint.len()).expect("small");
            for _ in 0..100 {
                let position = dice.below(count - 1) as usize;
                let stage = position + 1 + dice.below(count - 1 - u32::try_from(position).expect("small")) as usize;
                let before = value(&joint, &occupancy, &prices);
                let mark = occupancy.mark();
                let change = occupancy.toggle(position, stage);
                let after = value(&joint, &occupancy, &prices);
                assert!((before + change - after).abs() < 1e-6 * after, "seed {seed}: {before} + {change}, {after}");
                if dice.below(3) == 0 {
                    occupancy.undo(mark);
                    assert!((value(&joint, &occupancy, &prices) - before).abs() < 1e-9 * before);
                }
            }
        }
    }

    #[test]
    fn bytes_of_a_stage_are_never_less_than_its_peak_without_transients() {
        for (seed, joint) in joints() {
            let mut dice = Random::new(seed);
            let mut occupancy = Occupancy::new(&joint, &Stages::store_all(&joint), u64::MAX);
            let count = u32::try_from(joint.len()).expect("small");
            for _ in 0..30 {
                let position = dice.below(count - 1) as usize;
                let stage = position + 1 + dice.below(count - 1 - u32::try_from(position).expect("small")) as usize;
                occupancy.toggle(position, stage);
            }
            let mut peaks = vec![0; joint.len()];
            occupancy.stages().walk(&joint, |stage, _, _, bytes| peaks[stage] = peaks[stage].max(bytes.cast_signed()));
            assert!(occupancy.bytes().iter().zip(&peaks).all(|(bytes, peak)| bytes >= peak), "seed {seed}");
        }
    }
}
