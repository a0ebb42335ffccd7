//! The published formulation: R, S, FREE and U over the lower triangles of stages and operators.
//!
//! Every constraint family is its own function. Where one operator makes several values, S and FREE
//! are per value, and an auxiliary A\[t,a\] >= R - S says that a is allocated, for a run that makes a
//! value that is there already takes no more memory for it.

use std::sync::Arc;

use remat_solvers::{Column, Kind, Model, Names};

use crate::search::incumbent::Kept;
use crate::search::term::{Scale, Sum, Term};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

/// The published model.
#[derive(Clone)]
pub struct Plain {
    joint: Arc<Joint>,
    /// The model.
    pub model: Model,
    /// How memory and time are scaled.
    pub scale: Scale,
    capacity: f64,
    run: Vec<Vec<Term>>,
    keep: Vec<Vec<Term>>,
    labels: Vec<Label>,
}

/// Name of a column: R, S, FREE, U or A, the stage, and one or two indices.
type Label = (&'static str, usize, usize, Option<usize>);

impl Plain {
    /// Builds the model for a budget; none means unlimited.
    pub fn new(joint: &Arc<Joint>, budget: Option<u64>) -> Self {
        let unlimited = || Stages::store_all(joint).claim(joint).peak_bytes;
        let room = budget.unwrap_or_else(unlimited).saturating_sub(joint.base_bytes);
        let longest = joint.operators.iter().flat_map(|operator| &operator.again).map(|way| way.time).max();
        let scale = Scale::new(room, longest.unwrap_or(0));
        let (n, v) = (joint.len(), joint.values.len());
        let edges: usize = joint.values.iter().map(|value| value.readers.len() + 1).sum();
        let mut plain = Self {
            joint: Arc::clone(joint),
            model: Model::with_capacity(n * (n + v + edges / 2), n * (2 * edges + v + n), n * (6 * edges + 3 * v)),
            scale,
            capacity: scale.bytes(room),
            run: Vec::new(),
            keep: Vec::new(),
            labels: Vec::new(),
        };
        plain.variables();
        for stage in 0..n {
            plain.dependencies(stage);
            plain.retention(stage + 1);
            let free = plain.free(stage);
            plain.memory(stage, &free);
        }
        plain
    }

    /// Time of all first runs, unscaled: not part of the model's objective.
    pub fn fixed_time(&self) -> u64 {
        self.joint.least_time()
    }

    /// R and S: zero-one, R\[t,t\] = 1, nothing above the diagonal (equations 1d and 8).
    fn variables(&mut self) {
        let joint = Arc::clone(&self.joint);
        for stage in 0..=joint.len() {
            let keep = joint.values.iter().enumerate().map(|(at, value)| match (stage == joint.len(), value.result) {
                (true, true) => Term::One,
                (false, _) if stage > value.producer => {
                    self.column(("S", stage, at, None), (0.0, 1.0), 0.0, Kind::Integer)
                }
                _ => Term::Zero,
            });
            let keep = keep.collect();
            self.keep.push(keep);
            if stage == joint.len() {
                break;
            }
            let mut run = Vec::with_capacity(stage + 1);
            for position in 0..=stage {
                let (lower, upper, cost) = match joint.run(stage, position) {
                    _ if position == stage => (1.0, 1.0, 0.0),
                    Some(way) => (0.0, 1.0, self.scale.duration(way.time)),
                    None => (0.0, 0.0, 0.0),
                };
                run.push(self.column(("R", stage, position, None), (lower, upper), cost, Kind::Integer));
            }
            self.run.push(run);
        }
    }

    fn column(&mut self, label: Label, bounds: (f64, f64), cost: f64, kind: Kind) -> Term {
        self.labels.push(label);
        Term::Column(self.model.column(bounds.0, bounds.1, cost, kind))
    }

    fn at_most(&mut self, sum: Sum, upper: f64) {
        self.model.at_most(upper - sum.constant, sum.terms);
    }

    /// R\[t,j\] <= R\[t,i\] + S\[t,i\] (equation 1b).
    fn dependencies(&mut self, stage: usize) {
        let joint = Arc::clone(&self.joint);
        for position in 0..=stage {
            for &value in joint.run(stage, position).map_or(&[][..], |way| &way.reads) {
                let made = self.run[stage][joint.values[value].producer];
                let sum = Sum::of([(1.0, self.run[stage][position]), (-1.0, made), (-1.0, self.keep[stage][value])]);
                self.at_most(sum, 0.0);
            }
        }
    }

    /// S\[t,i\] <= R\[t-1,i\] + S\[t-1,i\] (equation 1c); into the end for results.
    fn retention(&mut self, stage: usize) {
        for (at, value) in self.joint.values.iter().enumerate().filter(|(_, value)| value.producer < stage) {
            let kept = self.keep[stage][at];
            if kept != Term::Zero {
                let made = self.run[stage - 1][value.producer];
                let sum = Sum::of([(1.0, kept), (-1.0, made), (-1.0, self.keep[stage - 1][at])]);
                let upper = -sum.constant;
                self.model.at_most(upper, sum.terms);
            }
        }
    }

    /// FREE\[t,i,k\] and its two inequalities, as (value, k, variable), by k.
    fn free(&mut self, stage: usize) -> Vec<(usize, usize, Term)> {
        let joint = Arc::clone(&self.joint);
        let mut free = Vec::new();
        for (at, value) in joint.values.iter().enumerate().filter(|(_, value)| value.producer <= stage) {
            let reads = |&reader: &usize| joint.run(stage, reader).is_some_and(|way| way.reads.contains(&at));
            let readers: Vec<usize> = value
                .readers
                .iter()
                .copied()
                .filter(|&reader| reader <= stage)
                .filter(|reader| reads(reader))
                .collect();
            for position in std::iter::once(value.producer).chain(readers.iter().copied()) {
                let later = readers.iter().filter(|&&reader| reader > position);
                let mut hazards = Sum::of(later.map(|&reader| (1.0, self.run[stage][reader])));
                hazards.add(1.0, self.keep[stage + 1][at]);
                hazards.constant += 1.0;
                hazards.add(-1.0, self.run[stage][position]);
                let most = hazards.terms.len() as f64 + hazards.constant - 1.0;
                let label = ("FREE", stage, at, Some(position));
                let variable = self.column(label, (0.0, 1.0), 0.0, Kind::Integer);
                // 1 - FREE <= hazards
                let mut first = Sum::of([(-1.0, variable)]);
                first.terms.extend(hazards.terms.iter().map(|&(column, factor)| (column, -factor)));
                first.constant = 1.0 - hazards.constant;
                self.at_most(first, 0.0);
                // hazards <= kappa (1 - FREE)
                let mut second = hazards;
                second.add(most, variable);
                self.at_most(second, most);
                free.push((at, position, variable));
            }
        }
        free.sort_by_key(|&(_, position, _)| position);
        free
    }

    /// U\[t,k\] (its recursion), within the budget.
    fn memory(&mut self, stage: usize, free: &[(usize, usize, Term)]) {
        let joint = Arc::clone(&self.joint);
        let mut freed = free.iter().peekable();
        let mut previous = Sum::default();
        for (at, value) in joint.values.iter().enumerate() {
            previous.add(self.scale.bytes(value.bytes), self.keep[stage][at]);
        }
        for position in 0..=stage {
            let bounds = (0.0, self.capacity);
            let memory = self.column(("U", stage, position, None), bounds, 0.0, Kind::Continuous);
            let mut sum = std::mem::take(&mut previous);
            sum.add(-1.0, memory);
            for &value in &joint.operators[position].makes {
                let allocated = self.allocated(stage, position, value);
                // R stands once in the row even if it allocates several values.
                sum.add(self.scale.bytes(joint.values[value].bytes), allocated);
            }
            sum.merge();
            self.model.equal(-sum.constant, sum.terms);
            let transient = joint.run(stage, position).map_or(0, |way| way.transient);
            if transient > 0 {
                let runs = self.run[stage][position];
                self.at_most(Sum::of([(1.0, memory), (self.scale.bytes(transient), runs)]), self.capacity);
            }
            previous.add(1.0, memory);
            while let Some(&(value, _, variable)) = freed.next_if(|&&(_, at, _)| at == position) {
                previous.add(-self.scale.bytes(joint.values[value].bytes), variable);
            }
        }
    }

    /// Whether a run allocates a value: R itself, or A where it may be there already.
    fn allocated(&mut self, stage: usize, position: usize, value: usize) -> Term {
        let runs = self.run[stage][position];
        if position == stage || self.joint.operators[position].makes.len() == 1 {
            return runs;
        }
        let allocated = self.column(("A", stage, value, None), (0.0, 1.0), 0.0, Kind::Continuous);
        self.at_most(Sum::of([(1.0, runs), (-1.0, self.keep[stage][value]), (-1.0, allocated)]), 0.0);
        allocated
    }

    /// What a vector keeps.
    pub fn kept(&self, values: &[f64]) -> Kept {
        self.keep.iter().map(|row| row.iter().map(|term| term.value(values) >= 0.5).collect()).collect()
    }

    /// The stages that a vector says: R, rounded after checking that it is whole.
    ///
    /// # Errors
    /// The largest distance from a whole number, if it exceeds the tolerance.
    pub fn stages(&self, values: &[f64], tolerance: f64) -> Result<Stages, f64> {
        let run = |row: &Vec<Term>| row.iter().map(|term| term.value(values)).collect();
        let rows: Vec<Vec<f64>> = self.run.iter().map(run).collect();
        let worst = rows.iter().flatten().map(|value| (value - value.round()).abs()).fold(0.0, f64::max);
        let whole = |row: &Vec<f64>| (0..row.len()).filter(|&position| row[position].round() >= 1.0).collect();
        if worst <= tolerance { Ok(Stages { runs: rows.iter().map(whole).collect() }) } else { Err(worst) }
    }
}

impl Names for Plain {
    fn column(&self, column: Column) -> String {
        let (letter, stage, index, last) = self.labels[column.index()];
        let last = last.map(|last| format!("_{last}")).unwrap_or_default();
        format!("{letter}_{stage}_{index}{last}")
    }
}
