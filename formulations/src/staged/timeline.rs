//! A schedule in stages as the set of its later runs, with the memory at every run kept current.
//!
//! In a fixed topological order any set of later runs is legal: a value stays from each run of its
//! producer to the last reader before the next one. Only memory can be wrong, so a search may walk over
//! all sets. A change touches the values that the operator makes and reads, and of these only the runs
//! during which they are there now and were not before, or the reverse.

use crate::chain::kernel::Vectors;
use crate::random::Random;
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

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
    scratch: Scratch,
}

/// What a change uses while it is made.
#[derive(Default)]
struct Scratch {
    /// Values that it touches, and where their spans end in `before`.
    touched: Vec<(usize, usize)>,
    before: Vec<Moment>,
    after: Vec<Moment>,
}

impl<'a> Timeline<'a> {
    /// The later runs of some stages within a budget.
    pub fn new(joint: &'a Joint, stages: &Stages, budget: u64, workspace: bool) -> Self {
        let readers = (0..joint.values.len()).map(|value| readers(joint, value)).collect();
        let own = joint.operators.iter().map(|operator| {
            let made: u64 = operator.makes.iter().map(|&value| joint.values[value].bytes).sum();
            let with = |transient: u64| signed(made + transient);
            [
                with(operator.first.transient(workspace)),
                with(operator.again.as_ref().map_or(0, |r| r.transient(workspace))),
            ]
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
            scratch: Scratch::default(),
        };
        let mut spans = Vec::new();
        for value in 0..joint.values.len() {
            spans.clear();
            timeline.spans(value, &mut spans);
            timeline.change(&[], &spans, signed(joint.values[value].bytes));
        }
        for (stage, position) in stages.later_runs() {
            timeline.toggle(position, stage);
        }
        timeline
    }

    /// Stages of the later runs of a position.
    pub fn later(&self, position: usize) -> &[usize] {
        &self.later[position]
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
        let count = self.beyond.len();
        let mut draw = || random.below(u32::try_from(count).expect("fewer than 2^32 runs")) as usize;
        let is_over = |&at: &usize| self.beyond[at % count] > 0;
        let drawn = (0..DRAWS).map(|_| draw()).find(is_over);
        drawn.or_else(|| {
            let from = draw();
            (from..from + count).find(is_over).map(|at| at % count)
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

    /// Adds a later run in a stage, or takes it away where it is.
    pub fn toggle(&mut self, position: usize, stage: usize) {
        let joint = self.joint;
        let Some(again) = &joint.operators[position].again else { return };
        let now = moment(stage, position);
        let place = self.place(now);
        let at = self.later[position].partition_point(|&known| known < stage);
        let is_there = self.later[position].get(at) == Some(&stage);
        let Scratch { mut touched, mut before, mut after } = std::mem::take(&mut self.scratch);
        touched.clear();
        before.clear();
        for &value in joint.operators[position].makes.iter().chain(&again.reads) {
            self.spans(value, &mut before);
            touched.push((value, before.len()));
        }
        // Spans begin and end at moments that are there while memory changes.
        if is_there {
            self.later[position].remove(at);
        } else {
            self.later[position].insert(at, stage);
            self.insert(place, now);
        }
        let mut begin = 0;
        for &(value, end) in &touched {
            after.clear();
            self.spans(value, &mut after);
            self.change(&before[begin..end], &after, signed(joint.values[value].bytes));
            begin = end;
        }
        if is_there {
            self.moments.remove(place);
            self.excess -= self.beyond.remove(place).max(0);
            self.time -= again.time;
        } else {
            self.time += again.time;
        }
        self.scratch = Scratch { touched, before, after };
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

    /// Adds the bytes of a value where it is there after a change and was not before, and takes them away in the reverse case.
    fn change(&mut self, before: &[Moment], after: &[Moment], bytes: i64) {
        let (mut left, mut right, mut from) = (0, 0, 0);
        while let Some(&to) = before.get(left).into_iter().chain(after.get(right)).min() {
            // Within a span after an odd number of its ends: from after the run that makes the value to its last reader.
            let (was, is) = (left % 2 == 1, right % 2 == 1);
            if was != is {
                let places = self.place(from) + 1..self.place(to) + 1;
                let bytes = if is { bytes } else { -bytes };
                self.excess += raise(self.vectors, &mut self.beyond[places], bytes);
            }
            left += before[left..].iter().take_while(|&&end| end == to).count();
            right += after[right..].iter().take_while(|&&end| end == to).count();
            from = to;
        }
    }

    /// When each copy of a value is made, and when it is read last, in turn and ascending.
    fn spans(&self, value: usize, found: &mut Vec<Moment>) {
        let description = &self.joint.values[value];
        let producer = description.producer;
        let later = &self.later[producer];
        let first = found.len();
        for stage in std::iter::once(producer).chain(later.iter().copied()) {
            found.extend([moment(stage, producer); 2]);
        }
        self.reads(value, |read| {
            // Readers come after the producer in each stage.
            let copy = later.iter().take_while(|&&stage| stage <= stage_of(read)).count();
            let end = &mut found[first + 2 * copy + 1];
            *end = read.max(*end);
        });
        if let Some(end) = found.last_mut().filter(|_| description.result) {
            *end = END;
        }
    }

    /// Calls `visit` for every run that reads a value.
    fn reads(&self, value: usize, mut visit: impl FnMut(Moment)) {
        for reader in &self.readers[value] {
            if reader.first {
                visit(moment(reader.position, reader.position));
            }
            if reader.again {
                for &stage in &self.later[reader.position] {
                    visit(moment(stage, reader.position));
                }
            }
        }
    }
}

/// Adds bytes to some sums; by how much that changes the sum of those above 0.
fn raise(vectors: Vectors, sums: &mut [i64], bytes: i64) -> i64 {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn by_avx512(sums: &mut [i64], bytes: i64) -> i64 {
        raise_with(sums, bytes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn by_avx2(sums: &mut [i64], bytes: i64) -> i64 {
        raise_with(sums, bytes)
    }

    match vectors {
        Vectors::Portable => raise_with(sums, bytes),
        // SAFETY: a value of `Vectors` says that the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { by_avx2(sums, bytes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { by_avx512(sums, bytes) },
    }
}

#[inline(always)]
fn raise_with(sums: &mut [i64], bytes: i64) -> i64 {
    let mut change = 0;
    for sum in sums {
        let before = (*sum).max(0);
        *sum += bytes;
        change += (*sum).max(0) - before;
    }
    change
}

fn readers(joint: &Joint, value: usize) -> Vec<Reader> {
    let reader = |&position: &usize| {
        let operator = &joint.operators[position];
        let again = operator.again.as_ref().is_some_and(|way| way.reads.contains(&value));
        Reader { position, first: operator.first.reads.contains(&value), again }
    };
    joint.values[value].readers.iter().map(reader).collect()
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("sums of sizes stay below 2^63")
}
