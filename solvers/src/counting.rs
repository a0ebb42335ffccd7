//! Counts of columns that are alike: where a network repeats its layers, branch and bound decides how many of them do
//! something before it decides which.
//!
//! Columns are alike when they have the same bounds and cost, the same coefficient in every long row (a row of memory, say),
//! and lie alike in short rows, as far as [`ROUNDS`] of colour refinement see. A whole column counts each class; it takes the
//! place of the class in long rows and in the objective. A sum of whole columns is whole whatever they mean, so solutions
//! and optimum are those of the model without counts, and how well classes are chosen matters only for speed. That branching
//! on such sums undoes symmetry is known for groups that are exact (Ostrowski et al. 2011, orbital branching); here layers
//! at either end differ a little, and still count.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::ControlFlow;

use crate::backend::{Backend, Session, SolverError, session};
use crate::model::{Column, Kind, Model, RowBlock};
use crate::outcome::Outcome;
use crate::request::{Observer, Progress, Request};

/// How far around a column its place is looked at: in rows and columns by turns.
const ROUNDS: usize = 2;
/// Terms from which on a row is long.
const LONG: usize = 50;
/// Fewest columns worth a count.
const FEWEST: usize = 3;
/// Terms of all rows up to which columns are compared.
const MOST: usize = 2_000_000;

/// A session whose mixed-integer solves have counts. Vectors, bounds and rows are those of the model without them.
pub struct Counting {
    backend: &'static dyn Backend,
    session: Box<dyn Session>,
    model: Model,
    /// Once a mixed-integer solve has been asked for.
    counts: Option<Counts>,
}

impl Counting {
    /// A session with a model.
    ///
    /// # Errors
    /// The backend does not take it.
    pub fn new(backend: &'static dyn Backend, model: &Model) -> Result<Self, SolverError> {
        Ok(Self { backend, session: session(backend, model)?, model: model.clone(), counts: None })
    }
}

impl Session for Counting {
    fn add_rows(&mut self, rows: &RowBlock) -> Result<(), SolverError> {
        match &self.counts {
            None => {
                self.model.rows.append(rows);
                self.session.add_rows(rows)
            }
            Some(counts) => self.session.add_rows(&counts.rows(rows)),
        }
    }

    fn solve(&mut self, request: &Request<'_>, mut observer: Option<Observer<'_>>) -> Result<Outcome, SolverError> {
        if self.counts.is_none() && !request.relaxation {
            let counts = Counts::new(&self.model);
            if !counts.classes.is_empty() {
                self.session = session(self.backend, &counts.model(&self.model))?;
            }
            self.model = Model::default();
            self.counts = Some(counts);
        }
        let Some(counts) = self.counts.as_ref().filter(|counts| !counts.classes.is_empty()) else {
            return self.session.solve(request, observer);
        };
        let start = request.start.map(|start| counts.extended(start));
        let mut hear = |event: &Progress<'_>| {
            let values = event.values.map(|values| &values[..counts.columns]);
            observer.as_mut().map_or(ControlFlow::Continue(()), |observer| observer(&Progress { values, ..*event }))
        };
        let request = Request { start: start.as_deref(), ..*request };
        let mut outcome = self.session.solve(&request, Some(&mut hear))?;
        outcome.linear = None;
        if let Some(incumbent) = &mut outcome.incumbent {
            incumbent.truncate(counts.columns);
        }
        Ok(outcome)
    }
}

/// Classes of columns that are alike.
struct Counts {
    /// Columns of the model without counts.
    columns: usize,
    classes: Vec<Vec<usize>>,
    /// By column, its class.
    class_of: Vec<Option<usize>>,
}

impl Counts {
    fn new(model: &Model) -> Self {
        let classes = if model.nonzeros() > MOST { Vec::new() } else { classes(model) };
        let mut class_of = vec![None; model.columns()];
        for (class, members) in classes.iter().enumerate() {
            for &member in members {
                class_of[member] = Some(class);
            }
        }
        Self { columns: model.columns(), classes, class_of }
    }

    /// The model with a count of each class.
    fn model(&self, model: &Model) -> Model {
        let mut counted = Model { rows: self.rows(&model.rows), ..model.clone() };
        for (class, members) in self.classes.iter().enumerate() {
            let first = members[0];
            let many = members.len() as f64;
            let (lower, upper) = (many * model.lower[first], many * model.upper[first]);
            let count = counted.column(lower, upper, model.costs[first], Kind::Integer);
            debug_assert_eq!(count, self.count(class), "counts follow the columns");
            for &member in members {
                counted.costs[member] = 0.0;
            }
            let terms = members.iter().map(|&member| (Column::from_index(member), 1.0));
            counted.rows.push(0.0, 0.0, terms.chain([(count, -1.0)]));
        }
        counted
    }

    fn count(&self, class: usize) -> Column {
        Column::from_index(self.columns + class)
    }

    /// Rows with counts in the place of classes, in those that are long.
    fn rows(&self, rows: &RowBlock) -> RowBlock {
        let mut counted = RowBlock::default();
        for row in 0..rows.len() {
            let mut terms: Vec<(Column, f64)> = rows.terms(row).collect();
            if terms.len() >= LONG {
                self.count_in(&mut terms);
            }
            counted.push(rows.lower[row], rows.upper[row], terms);
        }
        counted
    }

    fn count_in(&self, terms: &mut Vec<(Column, f64)>) {
        // By class, how many of its columns are there, all with one coefficient.
        let mut there: HashMap<usize, (usize, f64)> = HashMap::new();
        for &(column, value) in &*terms {
            let Some(class) = self.class_of[column.index()] else { continue };
            let (number, first) = there.entry(class).or_insert((0, value));
            *number += usize::from(first.to_bits() == value.to_bits());
        }
        there.retain(|&class, &mut (number, _)| number == self.classes[class].len());
        terms.retain(|(column, _)| self.class_of[column.index()].is_none_or(|class| !there.contains_key(&class)));
        let mut whole: Vec<_> = there.into_iter().collect();
        whole.sort_unstable_by_key(|&(class, _)| class);
        terms.extend(whole.into_iter().map(|(class, (_, value))| (self.count(class), value)));
    }

    /// A vector with its counts.
    fn extended(&self, values: &[f64]) -> Vec<f64> {
        let count = |members: &Vec<usize>| members.iter().map(|&member| values[member]).sum();
        values.iter().copied().chain(self.classes.iter().map(count)).collect()
    }
}

/// Columns that are alike and lie in a long row, in order.
fn classes(model: &Model) -> Vec<Vec<usize>> {
    let (columns, rows) = (model.columns(), model.rows.len());
    let is_long: Vec<bool> = (0..rows).map(|row| model.rows.terms(row).count() >= LONG).collect();
    let by_column = model.rows.by_column(columns);
    let bounds = |lower: f64, upper: f64| (lower.to_bits(), upper.to_bits());
    let of_column = |column: usize| {
        let whole = model.kinds[column] == Kind::Integer;
        (model.costs[column].to_bits(), bounds(model.lower[column], model.upper[column]), whole)
    };
    // Each long row is of a colour of its own.
    let of_row = |row: usize| (bounds(model.rows.lower[row], model.rows.upper[row]), is_long[row].then_some(row));
    let mut column_colours = colours((0..columns).map(of_column));
    let mut row_colours = colours((0..rows).map(of_row));
    for _ in 0..ROUNDS {
        row_colours = colours((0..rows).map(|row| {
            let terms = model.rows.terms(row).filter(|_| !is_long[row]);
            let mut seen: Vec<_> =
                terms.map(|(column, value)| (column_colours[column.index()], value.to_bits())).collect();
            seen.sort_unstable();
            (row_colours[row], seen)
        }));
        column_colours = colours((0..columns).map(|column| {
            let mut seen: Vec<_> =
                by_column[column].iter().map(|&(row, value)| (row_colours[row], value.to_bits())).collect();
            seen.sort_unstable();
            (column_colours[column], seen)
        }));
    }
    let mut classes: Vec<Vec<usize>> = Vec::new();
    let useful = |column: &usize| {
        model.kinds[*column] == Kind::Integer && by_column[*column].iter().any(|&(row, _)| is_long[row])
    };
    for column in (0..columns).filter(useful) {
        let colour = column_colours[column];
        if classes.len() <= colour {
            classes.resize(colour + 1, Vec::new());
        }
        classes[colour].push(column);
    }
    classes.retain(|members| members.len() >= FEWEST);
    classes
}

/// Equal keys get equal colours, numbered by their first occurrence.
fn colours<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut known = HashMap::new();
    keys.map(|key| {
        let next = known.len();
        *known.entry(key).or_insert(next)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::backend;
    use crate::outcome::Stop;

    /// Layers of two columns, the second of which needs the first; a row of memory over all of them. Costs and sizes of a
    /// layer are those of one of a few kinds.
    fn layers(kinds: &[usize], seed: u64) -> Model {
        let mut state = seed;
        let mut drawn = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as f64
        };
        let kinds_drawn: Vec<[f64; 4]> = (0..3).map(|_| std::array::from_fn(|_| 1.0 + drawn(90))).collect();
        let mut model = Model::default();
        let mut memory = Vec::new();
        for &kind in kinds {
            let [gain, more, bytes, more_bytes] = kinds_drawn[kind];
            let (first, second) = (model.binary(-gain), model.binary(-more));
            model.at_most(0.0, [(second, 1.0), (first, -1.0)]);
            memory.extend([(first, bytes), (second, more_bytes)]);
        }
        let all: f64 = memory.iter().map(|(_, bytes)| bytes).sum();
        model.at_most((all * 0.4).floor(), memory);
        model
    }

    #[test]
    fn layers_of_a_kind_are_alike_and_others_are_not() {
        let kinds: Vec<usize> = (0..30).map(|layer| layer % 3).collect();
        let found = classes(&layers(&kinds, 1));
        let of_kind = |kind: usize, which: usize| -> Vec<usize> {
            (0..30).filter(|layer| layer % 3 == kind).map(|layer| 2 * layer + which).collect()
        };
        let expected: Vec<_> = (0..3).flat_map(|kind| [of_kind(kind, 0), of_kind(kind, 1)]).collect();
        assert_eq!(found, expected);
        // Too short a row to be worth it.
        assert!(classes(&layers(&kinds[..20], 1)).is_empty());
    }

    #[test]
    fn counts_change_neither_optimum_nor_vectors_nor_starts() {
        let highs = backend("highs").expect("built in");
        for (seed, many) in (0..20).zip(30..) {
            let kinds: Vec<usize> = (0..many).map(|layer| (layer * layer) % 3).collect();
            let mut model = layers(&kinds, seed);
            let mut session = Counting::new(highs, &model).expect("a model");
            let relaxed = session.solve(&Request { relaxation: true, ..Request::default() }, None).expect("solves");
            let start = vec![0.0; model.columns()];
            for round in 0..3 {
                let mut heard = 0;
                let mut observer = |event: &Progress<'_>| {
                    heard += event.values.map_or(0, <[f64]>::len);
                    ControlFlow::Continue(())
                };
                let request = Request { start: Some(&start), ..Request::default() };
                let counted = session.solve(&request, Some(&mut observer)).expect("solves");
                let plain = highs.solve(&model, &Request::default()).expect("solves");
                assert_eq!(counted.stop, Stop::Optimal);
                let objective = counted.objective.expect("optimal");
                assert!((objective - plain.objective.expect("optimal")).abs() < 1e-6, "{seed} {round}");
                assert!(relaxed.objective.expect("solved") <= objective + 1e-6);
                let vector = counted.incumbent.expect("optimal");
                assert!(model.violation(&vector).max() < 1e-6, "{seed} {round}");
                assert!((model.objective(&vector) - objective).abs() < 1e-6);
                assert_eq!(heard % model.columns(), 0);
                // Fewer layers than were chosen, as a row over some of them that comes later.
                let chosen: Vec<_> = (0..model.columns()).filter(|&column| vector[column] > 0.5).collect();
                let mut rows = RowBlock::default();
                let terms = chosen.iter().map(|&column| (Column::from_index(column), 1.0));
                rows.push(f64::NEG_INFINITY, chosen.len() as f64 - 1.0, terms);
                session.add_rows(&rows).expect("rows");
                model.rows.append(&rows);
            }
        }
    }
}
