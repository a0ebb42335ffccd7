//! A schedule in stages as the set of its later runs, with the memory at every run kept current.
//!
//! In a fixed topological order any set of later runs is legal: a value stays from each run of its
//! producer to the last reader before the next one. Only memory can be wrong, so a search may walk over
//! all sets. A change touches the values that the operator makes and reads, and nothing else.

use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

/// A moment: stage and position of a run, in the order of time.
type Moment = u64;

/// After everything: until then results stay.
const END: Moment = Moment::MAX;

fn moment(stage: usize, position: usize) -> Moment {
    (stage as u64) << 32 | position as u64
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
    /// Bytes that are there from before each moment.
    across: Vec<i64>,
    /// Bytes of the run itself.
    made: Vec<i64>,
    /// What the budget leaves beside what is always there.
    room: i64,
    time: u64,
    /// Values touched by the change in hand.
    touched: Vec<usize>,
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
        let made = own.iter().map(|own| own[0]).chain([0]).collect();
        let mut timeline = Self {
            joint,
            readers,
            own,
            later: vec![Vec::new(); joint.len()],
            across: vec![0; moments.len()],
            moments,
            made,
            // Without a budget there is room for all sums, which are below 2^53.
            room: i64::try_from(budget.saturating_sub(joint.base_bytes)).unwrap_or(i64::MAX),
            time: 0,
            touched: Vec::new(),
        };
        for value in 0..joint.values.len() {
            timeline.count(value, 1);
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
        let room = self.room;
        self.across.iter().zip(&self.made).map(|(across, made)| (across + made - room).max(0)).sum()
    }

    /// The runs that exceed the budget: their places in time.
    pub fn over(&self) -> impl Iterator<Item = usize> {
        let over = |&at: &usize| self.across[at] + self.made[at] > self.room;
        (0..self.moments.len()).filter(over)
    }

    /// Where the next run of a value's reader is, if the value is there at a place in time and idle then.
    pub fn idle_until(&self, value: usize, place: usize) -> Option<usize> {
        let now = self.moments[place];
        let mut found = None;
        self.intervals(value, |start, end, next_read| {
            if start < now && now < end && found.is_none() {
                found = next_read(now);
            }
        });
        // Read at that very moment, or only to be kept to the end.
        found.filter(|&next| next != now && next != END).map(|next| (next >> 32) as usize)
    }

    /// Stages in which some run reads a value.
    pub fn read_stages(&self, value: usize, found: &mut Vec<usize>) {
        for reader in &self.readers[value] {
            if reader.first {
                found.push(reader.position);
            }
            if reader.again {
                found.extend(&self.later[reader.position]);
            }
        }
    }

    /// Adds a later run in a stage, or takes it away where it is.
    pub fn toggle(&mut self, position: usize, stage: usize) {
        let joint = self.joint;
        let Some(again) = &joint.operators[position].again else { return };
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        touched.extend(joint.operators[position].makes.iter().chain(&again.reads));
        for &value in &touched {
            self.count(value, -1);
        }
        let now = moment(stage, position);
        let place = self.place(now);
        if let Some(at) = self.later[position].iter().position(|&known| known == stage) {
            self.later[position].remove(at);
            self.moments.remove(place);
            self.across.remove(place);
            self.made.remove(place);
            self.time -= again.time;
        } else {
            let at = self.later[position].partition_point(|&known| known < stage);
            self.later[position].insert(at, stage);
            self.moments.insert(place, now);
            // What crosses the gap here crosses this run too.
            self.across.insert(place, self.across[place]);
            self.made.insert(place, self.own[position][1]);
            self.time += again.time;
        }
        for &value in &touched {
            self.count(value, 1);
        }
        self.touched = touched;
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

    /// Adds a value's bytes wherever it is there, or takes them away.
    fn count(&mut self, value: usize, sign: i64) {
        let bytes = sign * signed(self.joint.values[value].bytes);
        let mut spans: [(Moment, Moment); 4] = [(0, 0); 4];
        let mut known = 0;
        let mut further = Vec::new();
        self.intervals(value, |start, end, _| {
            if known < spans.len() {
                spans[known] = (start, end);
                known += 1;
            } else {
                further.push((start, end));
            }
        });
        for &(start, end) in spans[..known].iter().chain(&further) {
            // From after the run that makes it to its last reader.
            let (from, to) = (self.place(start) + 1, self.place(end));
            if from <= to {
                for across in &mut self.across[from..=to] {
                    *across += bytes;
                }
            }
        }
    }

    /// Calls `visit` for every copy of a value: when it is made, when it is read last, and a function that
    /// says when it is read next from some moment on.
    fn intervals(&self, value: usize, mut visit: impl FnMut(Moment, Moment, &dyn Fn(Moment) -> Option<Moment>)) {
        let description = &self.joint.values[value];
        let producer = description.producer;
        let later = &self.later[producer];
        let mut start = moment(producer, producer);
        for copy in 0..=later.len() {
            let next = later.get(copy).map(|&stage| moment(stage, producer));
            let bound = next.unwrap_or(END);
            let mut end = if next.is_none() && description.result { END } else { start };
            self.reads(value, |read| {
                if start < read && read < bound {
                    end = end.max(read);
                }
            });
            let next_read = |from: Moment| {
                let mut soonest = (end == END).then_some(END);
                self.reads(value, |read| {
                    if from <= read && read < bound {
                        soonest = Some(soonest.map_or(read, |soonest| soonest.min(read)));
                    }
                });
                soonest
            };
            visit(start, end, &next_read);
            let Some(next) = next else { break };
            start = next;
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
