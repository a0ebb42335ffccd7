//! A schedule in stages as the set of its later runs, with the memory at every run kept current.
//!
//! In a fixed topological order any set of later runs is legal: a value stays from each run of its
//! producer to the last reader before the next one. Only memory can be wrong, so a search may walk over
//! all sets. A change touches the values that its operators make and read, and of these only the runs
//! during which they are there now and were not before, or the reverse. The last change can be taken back.

use std::ops::Range;

use crate::random::Random;
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;
use crate::vectors::{Job, Lanes, Vectors};

/// A moment: stage and position of a run, in the order of time.
type Moment = u64;

/// After everything: until then results stay.
const END: Moment = Moment::MAX;

fn moment(stage: usize, position: usize) -> Moment {
    (stage as u64) << 32 | position as u64
}

fn stage_of(moment: Moment) -> usize {
    (moment >> 32) as usize
}

/// Who reads a value, and in which of its runs.
#[derive(Clone, Copy)]
struct Reader {
    position: usize,
    first: bool,
    again: bool,
}

/// Later runs and the memory that they lead to.
pub struct Timeline<'a> {
    joint: &'a Joint,
    readers: Vec<Vec<Reader>>,
    /// What is there during a first and a later run only because of it: what it makes, and transients.
    own: Vec<[i64; 2]>,
    /// Stages of the later runs of each position, ascending.
    later: Vec<Vec<usize>>,
    /// When something runs, ascending; the last one is [`END`].
    moments: Vec<Moment>,
    /// Bytes at each moment beyond the budget; less than 0 where there is room.
    beyond: Vec<i64>,
    /// The sum of what is beyond it.
    excess: i64,
    time: u64,
    vectors: Vectors,
    /// How the last change is taken back.
    log: Log,
}

/// How a change is taken back.
#[derive(Default)]
struct Log {
    /// Excess and time before it.
    before: (i64, u64),
    /// Runs that were added or taken away.
    toggles: Vec<Toggle>,
    /// Places whose sums were raised, and by how much.
    raises: Vec<(Range<usize>, i64)>,
}

/// A run that was added or taken away.
struct Toggle {
    position: usize,
    stage: usize,
    /// Its place in time.
    place: usize,
    /// What was beyond the budget at it just before it was taken away; none if it was added.
    beyond: Option<i64>,
    /// Raises of the change that came before it.
    raises: usize,
}

impl<'a> Timeline<'a> {
    /// The later runs of some stages within a budget.
    pub fn new(joint: &'a Joint, stages: &Stages, budget: u64) -> Self {
        let readers = (0..joint.values.len()).map(|value| readers(joint, value)).collect();
        let own = joint.operators.iter().map(|operator| {
            let made: u64 = operator.makes.iter().map(|&value| joint.values[value].bytes).sum();
            let with = |transient: u64| signed(made + transient);
            [&operator.first, &operator.again].map(|ways| with(ways.first().map_or(0, |way| way.transient)))
        });
        let own: Vec<[i64; 2]> = own.collect();
        let mut moments: Vec<Moment> = (0..joint.len()).map(|stage| moment(stage, stage)).collect();
        moments.push(END);
        // Without a budget there is room for all sums, which are below 2^53.
        let room = budget.saturating_sub(joint.base_bytes).min(1 << 60).cast_signed();
        let beyond: Vec<i64> = own.iter().map(|own| own[0]).chain([0]).map(|bytes| bytes - room).collect();
        let mut timeline = Self {
            joint,
            readers,
            own,
            later: vec![Vec::new(); joint.len()],
            excess: beyond.iter().map(|&beyond| beyond.max(0)).sum(),
            beyond,
            moments,
            time: 0,
            vectors: Vectors::best(),
            log: Log::default(),
        };
        for (value, description) in joint.values.iter().enumerate() {
            let made = moment(description.producer, description.producer);
            let mut until = if description.result { END } else { made };
            timeline.reads(value, |read| until = until.max(read));
            timeline.hold(value, made, until, true);
        }
        timeline.change(stages.later_runs().map(|(stage, position)| (position, stage)));
        timeline
    }

    /// Stages of the later runs of a position.
    pub fn later(&self, position: usize) -> &[usize] {
        &self.later[position]
    }

    /// Whether a position runs again in a stage.
    pub fn runs_again(&self, position: usize, stage: usize) -> bool {
        self.later[position].contains(&stage)
    }

    /// Time of all later runs.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Bytes beyond the budget, summed over all runs.
    pub fn excess(&self) -> i64 {
        self.excess
    }

    /// The place in time of a run that exceeds the budget, if any does: one drawn, or where few do the next one after it.
    pub fn some_over(&self, random: &mut Random) -> Option<usize> {
        /// Draws before one looks.
        const DRAWS: usize = 8;
        if self.excess == 0 {
            return None;
        }
        let mut draw = || random.index(self.beyond.len());
        let is_over = |&beyond: &i64| beyond > 0;
        let drawn = (0..DRAWS).map(|_| draw()).find(|&at| is_over(&self.beyond[at]));
        drawn.or_else(|| {
            let from = draw();
            let after = self.beyond[from..].iter().position(is_over).map(|at| from + at);
            after.or_else(|| self.beyond[..from].iter().position(is_over))
        })
    }

    /// Where the next run of a value's reader is, if the value is there at a place in time and idle then.
    pub fn idle_until(&self, value: usize, place: usize) -> Option<usize> {
        let (now, producer) = (self.moments[place], self.joint.values[value].producer);
        if now <= moment(producer, producer) {
            return None;
        }
        let remade = self.later[producer].iter().map(|&stage| moment(stage, producer)).find(|&remade| remade >= now);
        let mut next = remade.unwrap_or(END);
        self.reads(value, |read| next = if now <= read { next.min(read) } else { next });
        // Read or made at that very moment, not read before it is made again, or only to be kept to the end.
        (next != now && next != END && Some(next) != remade).then(|| stage_of(next))
    }

    /// Stages in which some run reads a value.
    pub fn read_stages(&self, value: usize, found: &mut Vec<usize>) {
        self.reads(value, |read| found.push(stage_of(read)));
    }

    /// The time that a change would add.
    pub fn time_of(&self, change: &[(usize, usize)]) -> i64 {
        let time = |&(position, stage): &(usize, usize)| {
            let time = self.joint.again(position).map_or(0, |again| signed(again.time));
            if self.runs_again(position, stage) { -time } else { time }
        };
        change.iter().map(time).sum()
    }

    /// For each position and stage adds a later run, or takes it away where it is.
    pub fn change(&mut self, change: impl IntoIterator<Item = (usize, usize)>) {
        self.log.before = (self.excess, self.time);
        self.log.toggles.clear();
        self.log.raises.clear();
        for (position, stage) in change {
            self.toggle(position, stage);
        }
    }

    /// Takes the last change back, once.
    pub fn take_back(&mut self) {
        while let Some(Toggle { position, stage, place, beyond, raises }) = self.log.toggles.pop() {
            let later = &mut self.later[position];
            let at = later.partition_point(|&known| known < stage);
            if let Some(beyond) = beyond {
                later.insert(at, stage);
                self.moments.insert(place, moment(stage, position));
                self.beyond.insert(place, beyond);
            }
            for (places, bytes) in self.log.raises.drain(raises..) {
                self.beyond[places].iter_mut().for_each(|beyond| *beyond -= bytes);
            }
            if beyond.is_none() {
                later.remove(at);
                self.moments.remove(place);
                self.beyond.remove(place);
            }
        }
        (self.excess, self.time) = self.log.before;
    }

    /// Adds a later run in a stage, or takes it away where it is.
    fn toggle(&mut self, position: usize, stage: usize) {
        let joint = self.joint;
        let Some(again) = joint.again(position) else { return };
        let now = moment(stage, position);
        let place = self.place(now);
        let at = self.later[position].partition_point(|&known| known < stage);
        let is_there = self.later[position].get(at) == Some(&stage);
        let raises = self.log.raises.len();
        if is_there {
            self.later[position].remove(at);
        } else {
            self.insert(place, now);
        }
        for &value in &joint.operators[position].makes {
            self.split(value, now, is_there);
        }
        for &value in &again.reads {
            self.read(value, now, is_there);
        }
        if !is_there {
            self.later[position].insert(at, stage);
        }
        let beyond = is_there.then(|| {
            self.moments.remove(place);
            self.beyond.remove(place)
        });
        if let Some(beyond) = beyond {
            self.excess -= beyond.max(0);
            self.time -= again.time;
        } else {
            self.time += again.time;
        }
        self.log.toggles.push(Toggle { position, stage, place, beyond, raises });
    }

    /// A value is made again at a moment, or no longer; that run is not among the known ones. What is read from then on need
    /// not be kept until then, or must be.
    fn split(&mut self, value: usize, now: Moment, is_whole: bool) {
        let (copy, is_last) = self.copy(value, stage_of(now));
        let (mut until, mut is_read) = (moment(copy.start, self.joint.values[value].producer), is_last);
        self.reads_in(value, copy, |read| if read < now { until = until.max(read) } else { is_read = true });
        if is_read {
            self.hold(value, until, now, is_whole);
        }
    }

    /// A value is read at a moment by one more run, or by one less; that run is not among the known ones.
    fn read(&mut self, value: usize, now: Moment, is_less: bool) {
        let (copy, is_last) = self.copy(value, stage_of(now));
        let mut until = if is_last { END } else { moment(copy.start, self.joint.values[value].producer) };
        self.reads_in(value, copy, |read| until = until.max(read));
        if until < now {
            self.hold(value, until, now, !is_less);
        }
    }

    /// The stages of the copy of a value that there is in a stage, made in the first of them; and whether it stays to the end.
    fn copy(&self, value: usize, stage: usize) -> (Range<usize>, bool) {
        let description = &self.joint.values[value];
        let later = &self.later[description.producer];
        let next = later.partition_point(|&made| made <= stage);
        let first = next.checked_sub(1).map_or(description.producer, |at| later[at]);
        let end = later.get(next).copied();
        (first..end.unwrap_or(self.joint.len()), description.result && end.is_none())
    }

    /// Holds a value after one moment up to another, or no longer.
    fn hold(&mut self, value: usize, from: Moment, to: Moment, is_held: bool) {
        let bytes = signed(self.joint.values[value].bytes);
        let bytes = if is_held { bytes } else { -bytes };
        let places = self.place(from) + 1..self.place(to) + 1;
        self.excess += self.vectors.run(Raise { sums: &mut self.beyond[places.clone()], bytes });
        self.log.raises.push((places, bytes));
    }

    /// The same as stages.
    pub fn stages(&self) -> Stages {
        let later = self.later.iter().enumerate();
        let runs = later.flat_map(|(position, later)| later.iter().map(move |&stage| (stage, position)));
        Stages::with_later_runs(self.joint, runs)
    }

    fn place(&self, moment: Moment) -> usize {
        self.moments.partition_point(|&known| known < moment)
    }

    /// Bytes of a run itself.
    fn own(&self, moment: Moment) -> i64 {
        let (stage, position) = (stage_of(moment), (moment & 0xffff_ffff) as usize);
        if moment == END { 0 } else { self.own[position][usize::from(stage != position)] }
    }

    /// A moment before the one at a place: what is there across the gap is there at it.
    fn insert(&mut self, place: usize, now: Moment) {
        let beyond = self.beyond[place] - self.own(self.moments[place]) + self.own(now);
        self.moments.insert(place, now);
        self.beyond.insert(place, beyond);
        self.excess += beyond.max(0);
    }

    /// Calls `visit` for every run that reads a value.
    fn reads(&self, value: usize, visit: impl FnMut(Moment)) {
        self.reads_in(value, 0..self.joint.len(), visit);
    }

    /// Calls `visit` for every run in some stages that reads a value.
    fn reads_in(&self, value: usize, stages: Range<usize>, mut visit: impl FnMut(Moment)) {
        for reader in &self.readers[value] {
            if reader.first && stages.contains(&reader.position) {
                visit(moment(reader.position, reader.position));
            }
            if reader.again {
                let later = self.later[reader.position].iter().filter(|stage| stages.contains(stage));
                later.for_each(|&stage| visit(moment(stage, reader.position)));
            }
        }
    }
}

/// Adds bytes to some sums; by how much that changes the sum of those above 0.
struct Raise<'s> {
    sums: &'s mut [i64],
    bytes: i64,
}

impl Job<i64> for Raise<'_> {
    type Out = i64;

    #[inline(always)]
    fn run<V: Lanes<i64>>(self) -> i64 {
        let mut change = 0;
        for sum in self.sums {
            let before = (*sum).max(0);
            *sum += self.bytes;
            change += (*sum).max(0) - before;
        }
        change
    }
}

fn readers(joint: &Joint, value: usize) -> Vec<Reader> {
    let reader = |&position: &usize| {
        let operator = &joint.operators[position];
        let again = operator.again.first().is_some_and(|way| way.reads(value));
        Reader { position, first: operator.first[0].reads(value), again }
    };
    joint.values[value].readers.iter().map(reader).collect()
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("sums of sizes stay below 2^63")
}

#[cfg(test)]
mod tests {
    use remat_core::Instance;
    use remat_core::generate::layered::{Layered, layered};

    use super::*;

    #[test]
    fn time_and_excess_are_those_of_the_stages_after_any_changes_and_after_those_that_are_taken_back() {
        let instance = Instance::new(&layered("layered", &Layered::moccasin(40, 0.4), 3)).expect("valid");
        let joint = Joint::new(&instance).expect("supported");
        let store_all = Stages::store_all(&joint).claim(&joint);
        let budget = store_all.peak_bytes * 7 / 10;
        let mut timeline = Timeline::new(&joint, &Stages::store_all(&joint), budget);
        let mut random = Random::new(11);
        for number in 0..600 {
            let runs = 1 + random.below(3);
            let mut change: Vec<(usize, usize)> = (0..runs)
                .map(|_| {
                    let position = random.below(38);
                    (position as usize, (position + 1 + random.below(39 - position)) as usize)
                })
                .collect();
            change.sort_unstable();
            change.dedup();
            let (time, before) = (timeline.time().cast_signed() + timeline.time_of(&change), timeline.stages());
            timeline.change(change);
            assert_eq!(timeline.time().cast_signed(), time);
            if number % 2 == 0 {
                timeline.take_back();
                assert_eq!(timeline.stages(), before);
            }
            let stages = timeline.stages();
            let mut excess = 0;
            stages.walk(&joint, |_, _, _, bytes| excess += signed(bytes.saturating_sub(budget)));
            assert_eq!(timeline.excess(), excess);
            assert_eq!(store_all.time + timeline.time(), stages.claim(&joint).time);
            let over = stages.peaks(&joint).iter().any(|peak| peak.0 > budget);
            assert_eq!(timeline.some_over(&mut random).is_some(), over);
        }
    }
}
