//! The improved model: memory is stated at some events of some stages only, and the stages in between
//! are one block each.
//!
//! A stage with a memory row is *hot*. Between hot stages nothing limits memory, so whatever runs again
//! there may as well run at the beginning, and once: a maximal run of cold stages is one block with one
//! decision per operator. The optimum of this model is therefore exactly that of the whole problem
//! without the missing memory rows: a lower bound, and the optimum as soon as [`Blocks::expand`] finds
//! places within the budget. Rows that it violates are added ([`Rows`]), their stages become hot.

use std::collections::{BTreeMap, BTreeSet};

use remat_solvers::cp::{CpModel, Literal, Rule, Variable};

use crate::staged::joint::Joint;
use crate::staged::stages::Stages;
use crate::staged::task::Task;

/// Memory rows: by stage, the positions at which memory is limited.
pub type Rows = BTreeMap<usize, BTreeSet<usize>>;

/// A zero-one variable or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    Zero,
    One,
    Literal(Literal),
}

impl Term {
    fn holds(self, values: &[i64]) -> bool {
        match self {
            Self::Zero => false,
            Self::One => true,
            Self::Literal(literal) => literal.holds(values),
        }
    }
}

/// The model.
pub struct Blocks<'a> {
    joint: &'a Joint,
    /// The constraint program.
    pub model: CpModel,
    /// First and last stage of each block.
    spans: Vec<(usize, usize)>,
    /// R: by block, which operators of earlier blocks run again.
    run: Vec<Vec<Term>>,
    /// S: by block, which values are kept into it; the last entry is the end of the iteration.
    keep: Vec<Vec<Term>>,
    room: u64,
    /// X: by value, block and first reader that counts.
    there: BTreeMap<(usize, usize, usize), Term>,
    /// The two terms of which each X is the maximum, in the order of their making.
    maxima: Vec<(Variable, Term, Term)>,
    time_unit: u64,
}

impl<'a> Blocks<'a> {
    /// Builds the model of a task with some memory rows.
    pub fn new(task: &'a Task<'_>, rows: &Rows) -> Self {
        let joint = &*task.joint;
        let mut blocks = Self {
            joint,
            model: CpModel::default(),
            spans: spans(joint.len(), rows),
            run: Vec::new(),
            keep: Vec::new(),
            room: task.budget_bytes().saturating_sub(joint.base_bytes),
            there: BTreeMap::new(),
            maxima: Vec::new(),
            time_unit: time_unit(joint),
        };
        blocks.variables();
        blocks.copies(task.copies);
        blocks.precedence();
        for block in 0..blocks.spans.len() {
            let (stage, _) = blocks.spans[block];
            for &position in rows.get(&stage).into_iter().flatten() {
                blocks.memory(block, stage, position);
            }
        }
        blocks
    }

    /// Number of blocks of the model with some memory rows.
    pub fn count(task: &Task<'_>, rows: &Rows) -> usize {
        spans(task.joint.len(), rows).len()
    }

    /// What one unit of the objective is worth.
    pub fn time_unit(&self) -> u64 {
        self.time_unit
    }

    /// R and S where they are not constants.
    fn variables(&mut self) {
        let joint = self.joint;
        for block in 0..=self.spans.len() {
            let start = self.spans.get(block).map_or(joint.len(), |span| span.0);
            let keep = (0..joint.values.len()).map(|value| self.keep_term(start, value)).collect();
            self.keep.push(keep);
            let Some(&(start, end)) = self.spans.get(block) else { break };
            let mut run = vec![Term::Zero; joint.len()];
            for (position, term) in run.iter_mut().enumerate().take(end + 1) {
                if position >= start {
                    *term = Term::One;
                } else if joint.again(position).is_some() && start <= joint.last_run(position) {
                    let variable = self.model.boolean();
                    let time = joint.again(position).map_or(0, |run| run.time);
                    self.model.objective.push((variable, whole(time / self.time_unit)));
                    *term = Term::Literal(variable.into());
                }
            }
            self.run.push(run);
        }
    }

    fn keep_term(&mut self, start: usize, value: usize) -> Term {
        match self.joint.forced(start, value) {
            Some(true) => Term::One,
            Some(false) => Term::Zero,
            None => Term::Literal(self.model.boolean().into()),
        }
    }

    /// At most C runs of each operator.
    fn copies(&mut self, copies: Option<u64>) {
        let Some(copies) = copies else { return };
        for position in 0..self.joint.len() {
            let literals: Vec<Literal> = self.run.iter().filter_map(|run| literal(run[position])).collect();
            if literals.len() as u64 >= copies {
                if copies == 2 {
                    self.model.rule(Rule::AtMostOne(literals));
                } else {
                    let terms = literals.iter().map(|literal| (literal.variable, 1)).collect();
                    self.model.at_most(terms, whole(copies - 1));
                }
            }
        }
    }

    /// What runs finds its inputs, and what is kept was there.
    fn precedence(&mut self) {
        let joint = self.joint;
        for block in 0..self.spans.len() {
            let (start, end) = self.spans[block];
            for position in 0..=end {
                let runs = self.run[block][position];
                let operator = &joint.operators[position];
                let way = if position < start { operator.again.first() } else { operator.first.first() };
                let Some(way) = way.filter(|_| runs != Term::Zero) else { continue };
                for &value in &way.reads {
                    let made = self.run[block][joint.values[value].producer];
                    self.implies(runs, [made, self.keep[block][value]]);
                }
            }
            for (value, description) in joint.values.iter().enumerate().filter(|(_, v)| v.producer <= end) {
                let made = self.run[block][description.producer];
                self.implies(self.keep[block + 1][value], [made, self.keep[block][value]]);
            }
        }
    }

    /// One of two terms holds wherever the first does.
    fn implies(&mut self, condition: Term, terms: [Term; 2]) {
        if condition == Term::Zero || terms.contains(&Term::One) {
            return;
        }
        let mut clause: Vec<Literal> = terms.into_iter().filter_map(literal).collect();
        clause.extend(literal(condition).map(|literal| !literal));
        self.model.rule(Rule::Clause(clause));
    }

    /// Memory while a position runs in a hot stage.
    fn memory(&mut self, block: usize, stage: usize, position: usize) {
        let joint = self.joint;
        if self.run[block][position] == Term::Zero {
            return;
        }
        let mut terms: BTreeMap<Variable, u64> = BTreeMap::new();
        let mut constant = 0;
        let mut add = |bytes: u64, term: Term| match term {
            Term::Zero => {}
            Term::One => constant += bytes,
            Term::Literal(literal) => *terms.entry(literal.variable).or_default() += bytes,
        };
        for (at, value) in joint.values.iter().enumerate().filter(|(_, v)| v.producer <= stage && v.bytes > 0) {
            let term = self.there(block, stage, position, at);
            add(value.bytes, term);
        }
        let transient = joint.run(stage, position).map_or(0, |way| way.transient);
        add(transient, self.run[block][position]);
        let Some(left) = self.room.checked_sub(constant) else {
            // What is there in any case is too much.
            self.model.rule(Rule::Clause(Vec::new()));
            return;
        };
        if terms.values().sum::<u64>() > left {
            let unit = terms.values().fold(0, |unit, &bytes| gcd(unit, bytes)).max(1);
            let terms = terms.into_iter().filter(|&(_, bytes)| bytes > 0);
            self.model.at_most(terms.map(|(v, bytes)| (v, whole(bytes / unit))).collect(), whole(left / unit));
        }
    }

    /// Whether a value is there while a position runs in a hot stage.
    fn there(&mut self, block: usize, stage: usize, position: usize, at: usize) -> Term {
        let value = &self.joint.values[at];
        if position < value.producer {
            return self.keep[block][at];
        }
        if self.keep[block][at] == Term::Zero && self.run[block][value.producer] == Term::Zero {
            return Term::Zero;
        }
        let mut term = self.keep[block + 1][at];
        for &reader in value.readers.iter().rev().filter(|&&reader| position <= reader && reader <= stage) {
            let reads = self.joint.run(stage, reader).is_some_and(|way| way.reads.contains(&at));
            let runs = self.run[block][reader];
            if reads && runs != Term::Zero {
                term = self.maximum((at, block, reader), runs, term);
            }
        }
        if position == value.producer {
            term = self.maximum((at, block, position), self.run[block][position], term);
        }
        term
    }

    /// A term that is at least both, one for each key.
    fn maximum(&mut self, key: (usize, usize, usize), left: Term, right: Term) -> Term {
        match (left, right) {
            (Term::One, _) | (_, Term::One) => Term::One,
            (Term::Zero, term) | (term, Term::Zero) => term,
            _ => {
                if let Some(&known) = self.there.get(&key) {
                    return known;
                }
                let variable = self.model.boolean();
                let term = Term::Literal(variable.into());
                for part in [left, right].into_iter().filter_map(literal) {
                    self.model.rule(Rule::Clause(vec![!part, variable.into()]));
                }
                self.there.insert(key, term);
                self.maxima.push((variable, left, right));
                term
            }
        }
    }

    /// The values that say what the stages say: a solution where they meet all rows.
    pub fn hint(&self, stages: &Stages) -> Vec<(Variable, i64)> {
        let kept = stages.kept(self.joint);
        let mut values = vec![0; self.model.domains.len()];
        for (block, run) in self.run.iter().enumerate() {
            let (start, end) = self.spans[block];
            for stage in start..=end {
                for &position in stages.runs[stage].iter().filter(|&&position| position < start) {
                    set(&mut values, run[position]);
                }
            }
            for (value, &term) in self.keep[block].iter().enumerate() {
                if kept[start][value] {
                    set(&mut values, term);
                }
            }
        }
        for &(variable, left, right) in &self.maxima {
            values[variable.index()] = i64::from(left.holds(&values) || right.holds(&values));
        }
        values.into_iter().enumerate().map(|(at, value)| (Variable::from_index(at), value)).collect()
    }

    /// Stages that say what a solution says: in each cold block everything runs again either at its
    /// beginning or as late as it is needed, whichever has the smaller peak.
    pub fn expand(&self, values: &[i64]) -> Stages {
        let mut candidates = [false, true].map(|late| self.place(values, late));
        let peaks = candidates.each_ref().map(|stages| stages.peaks(self.joint));
        for &(start, end) in &self.spans {
            let highest = |peaks: &[(u64, usize)]| peaks[start..=end].iter().map(|peak| peak.0).max();
            if highest(&peaks[1]) < highest(&peaks[0]) {
                for stage in start..=end {
                    candidates[0].runs[stage] = std::mem::take(&mut candidates[1].runs[stage]);
                }
            }
        }
        let [stages, _] = candidates;
        stages
    }

    fn place(&self, values: &[i64], late: bool) -> Stages {
        let mut stages = Stages::store_all(self.joint);
        for (block, &(start, end)) in self.spans.iter().enumerate() {
            let mut place: BTreeMap<usize, usize> = BTreeMap::new();
            for position in (0..start).rev().filter(|&position| self.run[block][position].holds(values)) {
                let made = &self.joint.operators[position].makes;
                let readers = made.iter().flat_map(|&value| {
                    let readers = self.joint.values[value].readers.iter();
                    readers.filter(move |&&reader| self.reads(reader, value, start))
                });
                let uses = readers.filter_map(|&reader| match reader {
                    reader if reader < start => place.get(&reader).copied(),
                    reader => (reader <= end).then_some(reader),
                });
                let needed = uses.min().unwrap_or(end);
                place.insert(position, if late { needed } else { start });
            }
            for (position, stage) in place {
                let at = stages.runs[stage].len() - 1;
                stages.runs[stage].insert(at, position);
            }
        }
        stages
    }

    /// Whether a reader reads a value in a block that begins at a stage.
    fn reads(&self, reader: usize, value: usize, start: usize) -> bool {
        let operator = &self.joint.operators[reader];
        let way = if reader < start { operator.again.first() } else { operator.first.first() };
        way.is_some_and(|way| way.reads.contains(&value))
    }
}

fn set(values: &mut [i64], term: Term) {
    if let Term::Literal(literal) = term {
        values[literal.variable.index()] = 1;
    }
}

fn literal(term: Term) -> Option<Literal> {
    match term {
        Term::Literal(literal) => Some(literal),
        Term::Zero | Term::One => None,
    }
}

/// Hot stages by themselves, and the longest runs of cold ones.
fn spans(stages: usize, rows: &Rows) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for stage in 0..stages {
        let hot = rows.contains_key(&stage);
        match spans.last_mut() {
            Some(last) if !hot && !rows.contains_key(&last.0) => last.1 = stage,
            _ => spans.push((stage, stage)),
        }
    }
    spans
}

/// Greatest common divisor.
pub fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

/// The largest time of which all later runs take a multiple.
pub fn time_unit(joint: &Joint) -> u64 {
    let again = joint.operators.iter().flat_map(|operator| &operator.again);
    again.fold(0, |unit, run| gcd(unit, run.time)).max(1)
}

/// A number that is small enough.
pub fn whole(number: u64) -> i64 {
    i64::try_from(number).expect("sums of times and sizes stay below 2^63")
}
