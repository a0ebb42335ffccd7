//! The model as published: retention intervals on the event grid, by a constraint solver.

use remat_solvers::cp::model::{Event, IntervalParts};
use remat_solvers::cp::{CpModel, Interval, Literal, Rule, Variable};

use crate::moccasin::blocks::{gcd, time_unit, whole};
use crate::setting;
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

setting! {
    /// how strategy=as-published states memory
    pub enum Memory("memory") = Cumulative { Cumulative = "cumulative", Reservoir = "reservoir" }
}

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// max(peak, budget).
    Memory,
    /// Durations of the copies beyond the first.
    Duration,
}

/// One copy of an operator.
struct Copy {
    start: Variable,
    /// None: it is there in any case.
    present: Option<Literal>,
}

/// The model.
pub struct Published<'a> {
    joint: &'a Joint,
    /// The constraint program.
    pub model: CpModel,
    copies: Vec<Vec<Copy>>,
    /// Ends of each value's retention intervals, by copy of its producer.
    ends: Vec<Vec<Variable>>,
    intervals: Vec<(Interval, u64)>,
    capacity: Variable,
    memory_unit: u64,
    time_unit: u64,
}

/// Number of the event at which a position runs in a stage.
fn event(stage: usize, position: usize) -> i64 {
    i64::try_from(stage * (stage + 1) / 2 + position).expect("event grids stay small")
}

impl<'a> Published<'a> {
    /// Builds the model of a phase of a task; `room` and `most` are what the budget and store-all leave beside what is
    /// there all the time.
    pub fn new(task: &'a Task<'_>, (room, most): (u64, u64), memory: Memory, phase: Phase) -> Self {
        let joint = &*task.joint;
        let runs = || joint.operators.iter().flat_map(|operator| operator.again.iter().chain(&operator.first));
        let sizes = joint.values.iter().map(|value| value.bytes).chain(runs().map(|way| way.transient));
        let memory_unit = sizes.fold(0, gcd).max(1);
        let time_unit = time_unit(joint);
        let mut model = CpModel::default();
        // Sizes are multiples of the unit, so the budget may be rounded down.
        let upper = if phase == Phase::Memory { most.max(room) } else { room } / memory_unit;
        let lower = if phase == Phase::Memory { room / memory_unit } else { 0 };
        let capacity = model.variable(whole(lower), whole(upper));
        let mut published =
            Self { joint, model, copies: vec![], ends: vec![], intervals: vec![], capacity, memory_unit, time_unit };
        published.starts(task.copies.and_then(|copies| usize::try_from(copies).ok()).unwrap_or(usize::MAX));
        published.retention();
        published.transients();
        published.precedence();
        published.memory(memory);
        match phase {
            Phase::Memory => published.model.objective = vec![(capacity, 1)],
            Phase::Duration => published.durations(),
        }
        published
    }

    fn end_of_grid(&self) -> i64 {
        event(self.joint.len(), 0)
    }

    /// Copy c of operator i starts at event (t, i) of some stage t, the first one in stage i; copy c is
    /// there only where copy c - 1 is.
    fn starts(&mut self, most: usize) {
        for (position, operator) in self.joint.operators.iter().enumerate() {
            let first = self.model.variable(event(position, position), event(position, position));
            let mut copies = vec![Copy { start: first, present: None }];
            let last = self.joint.last_run(position);
            let later = if operator.again.is_empty() { 0 } else { last - position };
            for _ in 1..most.min(later + 1) {
                let moments: Vec<i64> = (position + 1..=last).map(|stage| event(stage, position)).collect();
                let start = self.model.variable(moments[0], moments[moments.len() - 1]);
                let present = Literal::from(self.model.boolean());
                if moments.len() > 1 {
                    self.model.rule(Rule::Among { variable: start, values: moments });
                }
                if let Some(before) = copies.last().and_then(|copy| copy.present) {
                    self.model.rule(Rule::Clause(vec![!present, before]));
                }
                copies.push(Copy { start, present: Some(present) });
            }
            self.copies.push(copies);
        }
    }

    /// A retention interval for each copy and value: from the copy's start, and over before the next copy.
    fn retention(&mut self) {
        let end_of_grid = self.end_of_grid();
        for value in &self.joint.values {
            let mut ends = Vec::new();
            let copies = &self.copies[value.producer];
            for (at, copy) in copies.iter().enumerate() {
                let end = self.model.variable(1, end_of_grid);
                let size = self.model.variable(1, end_of_grid);
                let parts = IntervalParts { start: copy.start, size, end, present: copy.present };
                self.intervals.push((self.model.interval(parts), value.bytes));
                if let Some(next) = copies.get(at + 1) {
                    let terms = vec![(end, 1), (next.start, -1)];
                    self.model.enforced(next.present.into_iter().collect(), at_most(terms, 0));
                }
                ends.push(end);
            }
            if value.result {
                // Some copy stays to the end.
                let stays = ends.iter().zip(copies).map(|(&end, copy)| {
                    let stays = Literal::from(self.model.boolean());
                    self.model.enforced(vec![stays], at_most(vec![(end, -1)], -end_of_grid));
                    if let Some(there) = copy.present {
                        self.model.rule(Rule::Clause(vec![!stays, there]));
                    }
                    stays
                });
                let stays = stays.collect();
                self.model.rule(Rule::Clause(stays));
            }
            self.ends.push(ends);
        }
    }

    /// What is there during a run only: workspace and what nobody reads.
    fn transients(&mut self) {
        for (operator, copies) in self.joint.operators.iter().zip(&self.copies) {
            for (at, copy) in copies.iter().enumerate() {
                let way = if at == 0 { operator.first.first() } else { operator.again.first() };
                let bytes = way.map_or(0, |way| way.transient);
                if bytes > 0 {
                    let (lower, upper) = self.model.domains[copy.start.index()];
                    let (size, end) = (self.model.variable(1, 1), self.model.variable(lower + 1, upper + 1));
                    let parts = IntervalParts { start: copy.start, size, end, present: copy.present };
                    self.intervals.push((self.model.interval(parts), bytes));
                }
            }
        }
    }

    /// At each present start of j, each value that it reads is covered by one of its retention intervals.
    fn precedence(&mut self) {
        for position in 0..self.joint.len() {
            for copy in 0..self.copies[position].len() {
                let way = match copy {
                    0 => Some(self.joint.first(position)),
                    _ => self.joint.again(position),
                };
                for &value in way.map_or(&[][..], |way| &way.reads) {
                    self.covered(position, copy, value);
                }
            }
        }
    }

    fn covered(&mut self, position: usize, copy: usize, value: usize) {
        let Copy { start: moment, present } = self.copies[position][copy];
        let mut clause: Vec<Literal> = present.into_iter().map(|present| !present).collect();
        for (source, &end) in self.copies[self.joint.values[value].producer].iter().zip(&self.ends[value]) {
            let covers = Literal::from(self.model.boolean());
            // The value is made before, and is still there during the run.
            self.model.enforced(vec![covers], at_most(vec![(source.start, 1), (moment, -1)], -1));
            self.model.enforced(vec![covers], at_most(vec![(moment, 1), (end, -1)], -1));
            if let Some(there) = source.present {
                self.model.rule(Rule::Clause(vec![!covers, there]));
            }
            clause.push(covers);
        }
        self.model.rule(Rule::Clause(clause));
    }

    fn memory(&mut self, memory: Memory) {
        let scaled = |bytes: u64| whole(bytes / self.memory_unit);
        let demands: Vec<(Interval, i64)> =
            self.intervals.iter().map(|&(interval, bytes)| (interval, scaled(bytes))).collect();
        if memory == Memory::Cumulative {
            self.model.rule(Rule::Cumulative { demands, capacity: self.capacity });
            return;
        }
        // The level is what is left: the reservoir starts full and must not run dry.
        let mut events = Vec::new();
        for (interval, demand) in demands {
            let parts = self.model.intervals[interval.index()];
            events.push(Event { time: parts.start, change: -demand, active: parts.present });
            events.push(Event { time: parts.end, change: demand, active: parts.present });
        }
        let upper = self.model.domains[self.capacity.index()].1;
        self.model.rule(Rule::Reservoir { events, from: Some(self.capacity), lower: 0, upper });
    }

    fn durations(&mut self) {
        for (operator, copies) in self.joint.operators.iter().zip(&self.copies) {
            let time = operator.again.first().map_or(0, |run| run.time) / self.time_unit;
            for present in copies.iter().filter_map(|copy| copy.present) {
                self.model.objective.push((present.variable, whole(time)));
            }
        }
    }

    /// What one unit of the objective of phase 2 is worth.
    pub fn time_unit(&self) -> u64 {
        self.time_unit
    }

    /// What one unit of the objective of phase 1 is worth.
    pub fn memory_unit(&self) -> u64 {
        self.memory_unit
    }

    /// The stages that a solution says.
    pub fn stages(&self, values: &[i64]) -> Stages {
        let later = self.copies.iter().enumerate().flat_map(|(position, copies)| {
            let there = copies[1..].iter().filter(|copy| copy.present.is_some_and(|there| there.holds(values)));
            there.map(move |copy| {
                let moment = values[copy.start.index()];
                let stage = (position..self.joint.len()).find(|&stage| event(stage, position) == moment);
                (stage.expect("starts lie on the grid"), position)
            })
        });
        Stages::with_later_runs(self.joint, later)
    }

    /// Starts, presences and ends that say what the stages say.
    pub fn hint(&self, stages: &Stages) -> Vec<(Variable, i64)> {
        let mut hint = Vec::new();
        let mut runs = vec![0; self.joint.len()];
        let mut ends: Vec<Vec<i64>> = self.ends.iter().map(|ends| vec![1; ends.len()]).collect();
        for (stage, row) in stages.runs.iter().enumerate() {
            for &position in row {
                let now = event(stage, position);
                let Some(copy) = self.copies[position].get(runs[position]) else { return Vec::new() };
                hint.push((copy.start, now));
                hint.extend(copy.present.map(|present| (present.variable, 1)));
                runs[position] += 1;
                for &value in &self.joint.operators[position].makes {
                    ends[value][runs[position] - 1] = now + 1;
                }
                for &value in self.joint.run(stage, position).map_or(&[][..], |way| &way.reads) {
                    ends[value][runs[self.joint.values[value].producer] - 1] = now + 1;
                }
            }
        }
        for (position, copies) in self.copies.iter().enumerate() {
            let absent = copies.iter().skip(runs[position]).filter_map(|copy| copy.present);
            hint.extend(absent.map(|present| (present.variable, 0)));
        }
        for (value, ends) in ends.iter().enumerate() {
            let last = runs[self.joint.values[value].producer];
            for (copy, &end) in ends.iter().enumerate().take(last) {
                let stays = self.joint.values[value].result && copy + 1 == last;
                hint.push((self.ends[value][copy], if stays { self.end_of_grid() } else { end }));
            }
        }
        hint
    }
}

fn at_most(terms: Vec<(Variable, i64)>, upper: i64) -> Rule {
    Rule::Linear { terms, lower: i64::MIN, upper }
}
