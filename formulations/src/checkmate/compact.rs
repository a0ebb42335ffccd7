//! The reduced formulation: the same R and S as the published one, without FREE.
//!
//! What it leaves out, and why the optimum stays:
//! * R\[t,i\] and S\[t,a\] of stages after the last in which they can be of use; what cannot be made
//!   again is kept until its last certain use (constants);
//! * FREE: that a is there while k runs in stage t says that some reader j >= k runs or that a is kept
//!   into stage t + 1: X = max of these, stated by lower bounds alone because more memory never helps.
//!   Where the maximum is over one variable, it is that variable;
//! * U: one row per stage and step that can run ([`Rows::All`]), with U as differences, or only the rows
//!   that a solution violates ([`Rows::Lazy`]).
//!
//! In a neighbourhood ([`Compact::within`]) what is not open is constant, and stages at whose ends nothing is open have
//! neither columns nor rows.
//!
//! What it adds: what is run again is used in its stage or kept (a schedule that does neither only
//! wastes time).

use std::sync::Arc;

use remat_solvers::{Column, Kind, Model, Names, Row, RowBlock};

use crate::search::incumbent::Kept;
use crate::search::problem::Open;
use crate::search::term::{Scale, Sum, Term};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// Which memory rows are there from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of them.
    All,
    /// Those of each stage's own operator; more are added when violated.
    Lazy,
}

/// Until which position a value is there in a stage, from its last reader downwards.
#[derive(Clone, Debug)]
struct Life {
    value: usize,
    /// Kept into the stage.
    kept: Term,
    /// At and after the producer's step: up to and with a position, whether it is there.
    spans: Vec<(usize, Term)>,
    /// Kept into the next stage.
    stays: Term,
}

/// What a column means; for names and starts.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Run {
        stage: usize,
        position: usize,
    },
    Keep {
        stage: usize,
        value: usize,
    },
    /// The maximum of two terms.
    There {
        stage: usize,
        value: usize,
        from: usize,
        terms: [Term; 2],
    },
    Memory {
        stage: usize,
        position: usize,
    },
}

/// What is constant in a neighbourhood of a schedule.
struct Around<'a> {
    stages: &'a Stages,
    kept: &'a Kept,
    open: &'a Open,
}

impl Around<'_> {
    /// Which operators can be of use in a stage, whatever is kept where that is open.
    fn useful(&self, joint: &Joint, stage: usize) -> Vec<bool> {
        let mut useful = vec![false; stage + 1];
        useful[stage] = true;
        if !self.open.heads[stage] {
            return useful;
        }
        let may = |stage: usize, value: usize| self.open.cells[stage][value] || self.kept[stage][value];
        let lacks = |stage: usize, value: usize| self.open.cells[stage][value] || !self.kept[stage][value];
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer < stage) {
            useful[value.producer] |= may(stage + 1, at) && lacks(stage, at);
        }
        for position in (0..=stage).rev() {
            let reads = joint.run(stage, position).filter(|_| useful[position]).map_or(&[][..], |way| &way.reads);
            for &value in reads {
                useful[joint.values[value].producer] |= lacks(stage, value);
            }
        }
        useful
    }
}

/// A reduced model.
pub struct Compact {
    joint: Arc<Joint>,
    /// The model.
    pub model: Model,
    scale: Scale,
    capacity: f64,
    workspace: bool,
    run: Vec<Vec<Term>>,
    keep: Vec<Vec<Term>>,
    lives: Vec<Vec<Life>>,
    /// By stage, bytes of what is there throughout whatever the solution: it has no life.
    throughout: Vec<u64>,
    meanings: Vec<Meaning>,
    /// Largest violation of a memory row that counts as none.
    tolerance: f64,
    /// Stages with columns: all, but in a neighbourhood.
    active: Vec<bool>,
    /// Time of later runs that are constant.
    settled_time: u64,
}

impl Compact {
    /// Builds the model for a budget.
    pub fn new(task: &Task<'_>, rows: Rows) -> Self {
        Self::build(task, rows, None)
    }

    /// The model of a neighbourhood: what is not open is constant, as some stages have it.
    pub fn within(task: &Task<'_>, stages: &Stages, open: &Open) -> Self {
        let kept = stages.kept(&task.joint);
        Self::build(task, Rows::Lazy, Some(&Around { stages, kept: &kept, open }))
    }

    fn build(task: &Task<'_>, rows: Rows, around: Option<&Around<'_>>) -> Self {
        let Task { ref joint, budget, workspace, .. } = *task;
        let unlimited = || Stages::store_all(joint).claim(joint, true).peak_bytes;
        let room = budget.unwrap_or_else(unlimited).saturating_sub(joint.base_bytes);
        let longest = joint.operators.iter().filter_map(|operator| operator.again.as_ref()).map(|run| run.time).max();
        let scale = Scale::new(room, longest.unwrap_or(0));
        let mut compact = Self {
            joint: Arc::clone(joint),
            model: Model::default(),
            scale,
            capacity: scale.bytes(room),
            workspace,
            run: Vec::new(),
            keep: Vec::new(),
            lives: Vec::new(),
            throughout: vec![0; joint.len()],
            meanings: Vec::new(),
            tolerance: 1e-5,
            active: (0..joint.len()).map(|stage| around.is_none_or(|around| around.open.touches(stage))).collect(),
            settled_time: 0,
        };
        compact.variables(around);
        compact.precedence();
        compact.at_most_runs(task.copies);
        for stage in 0..joint.len() {
            let lives = if compact.active[stage] { compact.lives_in(stage) } else { Vec::new() };
            compact.lives.push(lives);
        }
        for stage in (0..joint.len()).filter(|&stage| compact.active[stage]).collect::<Vec<_>>() {
            match rows {
                Rows::All => compact.memory_by_differences(stage),
                Rows::Lazy => compact.first_row(stage),
            }
        }
        compact
    }

    /// Time of all first runs and of what is constant, unscaled: not part of the model's objective.
    pub fn fixed_time(&self) -> u64 {
        self.joint.fixed_time() + self.settled_time
    }

    /// What one unit of the objective is worth.
    pub fn time_unit(&self) -> f64 {
        self.scale.time
    }

    /// What one unit of memory is worth.
    pub fn memory_unit(&self) -> f64 {
        self.scale.memory
    }

    fn column(&mut self, meaning: Meaning, upper: f64, cost: f64, kind: Kind) -> Term {
        self.meanings.push(meaning);
        Term::Column(self.model.column(0.0, upper, cost, kind))
    }

    /// R and S where they are not constants (equations 1d and 8, and what the module says).
    fn variables(&mut self, around: Option<&Around<'_>>) {
        let joint = Arc::clone(&self.joint);
        for stage in 0..=joint.len() {
            let keep = (0..joint.values.len()).map(|value| self.keep_term(stage, value, around)).collect();
            self.keep.push(keep);
            if stage == joint.len() {
                break;
            }
            if let Some(around) = around.filter(|_| !self.active[stage]) {
                self.settle(stage, &around.stages.runs[stage]);
                continue;
            }
            let useful = around.map(|around| around.useful(&joint, stage));
            let may = |position: usize| useful.as_ref().is_none_or(|useful| useful[position]);
            let run = (0..=stage)
                .map(|position| match joint.run(stage, position) {
                    _ if position == stage => Term::One,
                    Some(way) if stage <= joint.last_run(position) && may(position) => {
                        let cost = self.scale.duration(way.time);
                        self.column(Meaning::Run { stage, position }, 1.0, cost, Kind::Integer)
                    }
                    _ => Term::Zero,
                })
                .collect();
            self.run.push(run);
        }
    }

    /// A stage in which just this runs.
    fn settle(&mut self, stage: usize, runs: &[usize]) {
        let mut terms = vec![Term::Zero; stage + 1];
        for &position in runs {
            terms[position] = Term::One;
            let way = self.joint.run(stage, position).filter(|_| position < stage);
            self.settled_time += way.map_or(0, |way| way.time);
        }
        self.run.push(terms);
    }

    fn keep_term(&mut self, stage: usize, at: usize, around: Option<&Around<'_>>) -> Term {
        let value = &self.joint.values[at];
        let constant = |kept| if kept { Term::One } else { Term::Zero };
        if stage == self.joint.len() {
            return constant(value.result);
        }
        if self.joint.must_keep(stage, at) {
            return Term::One;
        }
        if stage <= value.producer || stage > value.last_use {
            return Term::Zero;
        }
        if let Some(around) = around.filter(|around| !around.open.cells[stage][at]) {
            return constant(around.kept[stage][at]);
        }
        self.column(Meaning::Keep { stage, value: at }, 1.0, 0.0, Kind::Integer)
    }

    fn row(&mut self, sum: Sum, upper: f64) {
        let bound = upper - sum.constant;
        if !sum.terms.is_empty() || bound < 0.0 {
            self.model.at_most(bound, sum.terms);
        }
    }

    /// Equations 1b and 1c.
    fn precedence(&mut self) {
        let joint = Arc::clone(&self.joint);
        for stage in (0..joint.len()).filter(|&stage| self.active[stage]).collect::<Vec<_>>() {
            for position in 0..=stage {
                let runs = self.run[stage][position];
                if runs == Term::Zero {
                    continue;
                }
                for &value in joint.run(stage, position).map_or(&[][..], |way| &way.reads) {
                    let made = self.run[stage][joint.values[value].producer];
                    let kept = self.keep[stage][value];
                    if made != Term::One && kept != Term::One {
                        self.row(Sum::of([(1.0, runs), (-1.0, made), (-1.0, kept)]), 0.0);
                    }
                }
            }
        }
        for stage in (1..=joint.len()).filter(|&stage| self.active[stage - 1]).collect::<Vec<_>>() {
            for (value, description) in joint.values.iter().enumerate() {
                let kept = self.keep[stage][value];
                if kept == Term::Zero || description.producer >= stage {
                    continue;
                }
                let made = self.run[stage - 1][description.producer];
                let before = self.keep[stage - 1][value];
                if made != Term::One && before != Term::One {
                    self.row(Sum::of([(1.0, kept), (-1.0, made), (-1.0, before)]), 0.0);
                }
            }
        }
    }

    /// At most C runs of each operator, where that is asked for.
    fn at_most_runs(&mut self, copies: Option<u64>) {
        let Some(copies) = copies else { return };
        for position in 0..self.joint.len() {
            let sum = Sum::of(self.run[position..].iter().map(|run| (1.0, run[position])));
            if sum.constant + sum.terms.len() as f64 > copies as f64 {
                self.row(sum, copies as f64);
            }
        }
    }

    /// For each value that can be there in a stage: from when to when, and X where it is needed.
    fn lives_in(&mut self, stage: usize) -> Vec<Life> {
        let joint = Arc::clone(&self.joint);
        let mut lives = Vec::new();
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer <= stage) {
            let (kept, stays) = (self.keep[stage][at], self.keep[stage + 1][at]);
            let made = self.run[stage][value.producer];
            match (kept, made, stays) {
                (Term::Zero, Term::Zero, _) => continue,
                (Term::One, Term::Zero, Term::One) => {
                    self.throughout[stage] += value.bytes;
                    continue;
                }
                _ => {}
            }
            let mut spans = Vec::new();
            let mut there = stays;
            for &reader in value.readers.iter().rev().filter(|&&reader| reader <= stage) {
                let reads = joint.run(stage, reader).is_some_and(|way| way.reads.contains(&at));
                let runs = self.run[stage][reader];
                if reads && runs != Term::Zero {
                    there = self.maximum(stage, at, reader, runs, there);
                    spans.push((reader, there));
                }
            }
            self.made_for_a_reason(at, made, there);
            if made != Term::Zero && (made == Term::One || joint.operators[value.producer].makes.len() > 1) {
                let during = self.maximum(stage, at, value.producer, made, there);
                spans.push((value.producer, during));
            }
            spans.reverse();
            lives.push(Life { value: at, kept, spans, stays });
        }
        lives
    }

    /// A term that is at least both.
    fn maximum(&mut self, stage: usize, value: usize, from: usize, left: Term, right: Term) -> Term {
        match (left, right) {
            (Term::One, _) | (_, Term::One) => Term::One,
            (Term::Zero, term) | (term, Term::Zero) => term,
            (left, right) if left == right => left,
            (left, right) => {
                let meaning = Meaning::There { stage, value, from, terms: [left, right] };
                let there = self.column(meaning, 1.0, 0.0, Kind::Continuous);
                self.row(Sum::of([(1.0, left), (-1.0, there)]), 0.0);
                self.row(Sum::of([(1.0, right), (-1.0, there)]), 0.0);
                there
            }
        }
    }

    /// What makes one value only is run again for that value.
    fn made_for_a_reason(&mut self, value: usize, made: Term, there: Term) {
        let producer = self.joint.values[value].producer;
        if made.column().is_some() && there != Term::One && self.joint.operators[producer].makes.len() == 1 {
            self.row(Sum::of([(1.0, made), (-1.0, there)]), 0.0);
        }
    }

    /// Memory while a position runs in a stage, as far as it is not there all the time.
    fn memory(&self, stage: usize, position: usize) -> Sum {
        let mut sum = Sum { constant: self.scale.bytes(self.throughout[stage]), ..Sum::default() };
        for life in &self.lives[stage] {
            let value = &self.joint.values[life.value];
            sum.add(self.scale.bytes(value.bytes), life.at(value.producer, position));
        }
        let transient = self.joint.run(stage, position).map_or(0, |way| way.transient(self.workspace));
        sum.add(self.scale.bytes(transient), self.run[stage][position]);
        sum.merge();
        sum
    }

    /// Positions that can run in a stage.
    fn steps(&self, stage: usize) -> impl Iterator<Item = usize> + '_ {
        (0..=stage).filter(move |&position| self.run[stage][position] != Term::Zero)
    }

    /// U\[t,k\] as U\[t,k-1\] and what changes, for every step that can run.
    fn memory_by_differences(&mut self, stage: usize) {
        let mut previous: Option<(Term, Vec<Term>)> = None;
        let steps: Vec<usize> = self.steps(stage).collect();
        for position in steps {
            let now: Vec<Term> = self.lives[stage]
                .iter()
                .map(|life| life.at(self.joint.values[life.value].producer, position))
                .collect();
            let memory = self.column(Meaning::Memory { stage, position }, self.capacity, 0.0, Kind::Continuous);
            let mut sum = Sum::of([(-1.0, memory)]);
            let before = previous.as_ref().map(|(_, before)| before);
            match &previous {
                Some((previous, _)) => sum.add(1.0, *previous),
                None => sum.constant += self.scale.bytes(self.throughout[stage]),
            }
            for (at, life) in self.lives[stage].iter().enumerate() {
                let bytes = self.scale.bytes(self.joint.values[life.value].bytes);
                let old = before.map_or(Term::Zero, |before| before[at]);
                if old != now[at] {
                    sum.add(bytes, now[at]);
                    sum.add(-bytes, old);
                }
            }
            sum.merge();
            let constant = sum.constant;
            self.model.equal(-constant, sum.terms);
            let transient = self.joint.run(stage, position).map_or(0, |way| way.transient(self.workspace));
            if transient > 0 {
                let runs = self.run[stage][position];
                self.row(Sum::of([(1.0, memory), (self.scale.bytes(transient), runs)]), self.capacity);
            }
            previous = Some((memory, now));
        }
    }

    fn first_row(&mut self, stage: usize) {
        let sum = self.memory(stage, stage);
        self.row(sum, self.capacity);
    }

    /// The memory rows that a vector violates: of each stage the worst.
    pub fn violated(&self, values: &[f64]) -> RowBlock {
        let mut rows = RowBlock::default();
        for stage in (0..self.joint.len()).filter(|&stage| self.active[stage]) {
            let worst = self
                .steps(stage)
                .map(|position| (self.memory_value(stage, position, values), position))
                .max_by(|left, right| left.0.total_cmp(&right.0));
            if let Some((_, position)) = worst.filter(|(memory, _)| *memory > self.capacity + self.tolerance) {
                let sum = self.memory(stage, position);
                rows.push(f64::NEG_INFINITY, self.capacity - sum.constant, sum.terms);
            }
        }
        rows
    }

    fn memory_value(&self, stage: usize, position: usize, values: &[f64]) -> f64 {
        let lives = self.lives[stage].iter().map(|life| {
            let value = &self.joint.values[life.value];
            self.scale.bytes(value.bytes) * life.at(value.producer, position).value(values)
        });
        let transient = self.joint.run(stage, position).map_or(0, |way| way.transient(self.workspace));
        let throughout = self.scale.bytes(self.throughout[stage]);
        throughout + lives.sum::<f64>() + self.scale.bytes(transient) * self.run[stage][position].value(values)
    }

    /// The stages that a vector says: R, rounded after checking that it is whole.
    ///
    /// # Errors
    /// The largest distance from a whole number, if it exceeds the tolerance.
    pub fn stages(&self, values: &[f64], tolerance: f64) -> Result<Stages, f64> {
        read_stages(&self.run, values, tolerance)
    }

    /// S in a vector.
    pub fn kept(&self, stage: usize, value: usize, values: &[f64]) -> f64 {
        self.keep[stage][value].value(values)
    }

    /// The vector that says what the stages say.
    pub fn vector(&self, stages: &Stages) -> Vec<f64> {
        let kept = stages.kept(&self.joint);
        let mut values: Vec<f64> = Vec::with_capacity(self.meanings.len());
        for meaning in &self.meanings {
            let value = match *meaning {
                Meaning::Run { stage, position } => f64::from(stages.runs[stage].binary_search(&position).is_ok()),
                Meaning::Keep { stage, value } => f64::from(kept[stage][value]),
                Meaning::There { terms: [left, right], .. } => left.value(&values).max(right.value(&values)),
                // Every term that it sums up stands before it.
                Meaning::Memory { stage, position } => {
                    let mut sum = self.memory_value(stage, position, &values);
                    let transient = self.joint.run(stage, position).map_or(0, |way| way.transient(self.workspace));
                    sum -= self.scale.bytes(transient) * self.run[stage][position].value(&values);
                    sum
                }
            };
            values.push(value);
        }
        values
    }
}

impl Life {
    /// Whether the value is there while a position runs.
    fn at(&self, producer: usize, position: usize) -> Term {
        if position < producer {
            return self.kept;
        }
        let span = self.spans.iter().find(|&&(until, _)| position <= until);
        span.map_or(self.stays, |&(_, there)| there)
    }
}

/// R, rounded after checking that it is whole.
pub fn read_stages(run: &[Vec<Term>], values: &[f64], tolerance: f64) -> Result<Stages, f64> {
    let mut worst = 0.0_f64;
    let mut runs = Vec::with_capacity(run.len());
    for row in run {
        let mut chosen = Vec::new();
        for (position, term) in row.iter().enumerate() {
            let value = term.value(values);
            worst = worst.max((value - value.round()).abs());
            if value.round() >= 1.0 {
                chosen.push(position);
            }
        }
        runs.push(chosen);
    }
    if worst <= tolerance { Ok(Stages { runs }) } else { Err(worst) }
}

impl Names for Compact {
    fn column(&self, column: Column) -> String {
        match self.meanings[column.index()] {
            Meaning::Run { stage, position } => format!("R_{stage}_{position}"),
            Meaning::Keep { stage, value } => format!("S_{stage}_{value}"),
            Meaning::There { stage, value, from, .. } => format!("X_{stage}_{value}_{from}"),
            Meaning::Memory { stage, position } => format!("U_{stage}_{position}"),
        }
    }
    fn row(&self, row: Row) -> String {
        format!("c{}", row.index())
    }
}
