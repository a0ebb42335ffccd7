//! Constraint programs by mixed-integer programming: every rule spelled out in rows, for any backend of
//! that layer. A hint counts where it is a whole solution. Exact for clauses and linear rules; conditions become big-M rows over the domains' ranges,
//! cumulative and reservoir a row per moment with a binary per pair of intervals or events, which is
//! right and small only for small models.

use std::time::{Duration, Instant};

use crate::backend::{Backend, SolverError};
use crate::cp::backend::{CpBackend, hinted};
use crate::cp::model::{CpModel, Event, Interval, Literal, Rule, Variable};
use crate::cp::request::{CpOutcome, CpRequest};
use crate::model::{Column, Kind, Model, RowBlock};
use crate::outcome::{Outcome, Stop};
use crate::request::Request;

/// A mixed-integer backend as a constraint solver.
pub struct ByMip {
    /// Id of the mixed-integer backend.
    pub id: &'static str,
    /// That backend.
    pub solver: &'static dyn Backend,
}

impl CpBackend for ByMip {
    fn id(&self) -> &'static str {
        self.id
    }

    fn solve(&self, model: &CpModel, request: &CpRequest<'_>) -> Result<CpOutcome, SolverError> {
        let began = Instant::now();
        let hint = hinted(model, request);
        let mut rows = Rows::of(model);
        // Columns beyond the model's own have no value in a hint: only models without them can start.
        let whole = hint.as_ref().filter(|values| values.len() == rows.model.columns());
        let start: Option<Vec<f64>> = whole.map(|values| values.iter().map(|&value| value as f64).collect());
        loop {
            let asked = Request {
                time: request.time.map(|time| time.saturating_sub(began.elapsed()).max(Duration::from_millis(1))),
                threads: request.threads,
                seed: request.seed,
                start: start.as_deref(),
                interrupt: request.interrupt,
                absolute_gap: 0.5 * rows.unit.min(1.0),
                ..Request::default()
            };
            let mut outcome = self.solver.solve(&rows.model, &asked)?;
            let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
            let covers = outcome.incumbent.as_ref().filter(|_| solved).map(|point| rows.broken(point));
            let in_time = request.time.is_none_or(|time| began.elapsed() < time);
            match covers.filter(|covers| !covers.is_empty()) {
                Some(covers) if in_time => rows.model.rows.append(&covers),
                left => {
                    outcome.stop = if left.is_some() { Stop::TimeLimit } else { outcome.stop };
                    return Ok(translate(model, &rows, hint, outcome, began.elapsed()));
                }
            }
        }
    }
}

fn translate(model: &CpModel, rows: &Rows<'_>, hint: Option<Vec<i64>>, outcome: Outcome, took: Duration) -> CpOutcome {
    let whole = |values: &Vec<f64>| -> Vec<i64> {
        #[expect(clippy::cast_possible_truncation, reason = "integer columns within finite domains")]
        let value = |value: &f64| value.round() as i64;
        values.iter().take(model.domains.len()).map(value).collect()
    };
    let found = outcome.incumbent.as_ref().map(whole);
    let broken = found.as_ref().and_then(|values| model.broken(values));
    let mut values = found.filter(|_| broken.is_none());
    let mut stop = outcome.stop;
    let mut raw_status = outcome.raw_status;
    if let Some(what) = broken {
        // A solution of the coarser rows, and none in whole numbers: what is proved is a bound.
        raw_status = format!("{raw_status}, but {what}");
        stop = if stop == Stop::Optimal { Stop::GapReached } else { stop };
    }
    let worth = values.as_ref().map_or(i64::MAX, |values| model.objective_of(values));
    let better = hint.filter(|hint| stop != Stop::Infeasible && model.objective_of(hint) < worth);
    values = better.or(values);
    let objective = values.as_ref().map(|values| model.objective_of(values));
    #[expect(clippy::cast_possible_truncation, reason = "bounds lie within the objective's range of whole numbers")]
    let proved = |bound: f64| {
        let bound = bound / rows.unit;
        (bound - 1e-6 * bound.abs().max(rows.largest_cost as f64).max(1.0)).ceil() as i64
    };
    let bound = match stop {
        // The solver's optimum is one within its tolerances.
        Stop::Optimal => objective.map(|objective| objective.min(outcome.dual_bound.map_or(objective, proved))),
        Stop::Infeasible | Stop::Error => None,
        _ => outcome.dual_bound.filter(|bound| bound.is_finite()).map(proved),
    };
    CpOutcome {
        stop: if stop == Stop::GapReached && bound.is_some() && bound == objective { Stop::Optimal } else { stop },
        values,
        objective,
        bound,
        raw_status,
        seconds: took.as_secs_f64(),
        conflicts: outcome.nodes,
        solver: outcome.solver,
    }
}

/// A sum of columns and a constant.
#[derive(Clone, Default)]
struct Sum {
    terms: Vec<(Column, f64)>,
    constant: f64,
}

impl Sum {
    fn add(&mut self, factor: f64, variable: Variable) {
        self.terms.push((Column::from_index(variable.index()), factor));
    }

    /// Adds a multiple of a literal.
    fn literal(&mut self, factor: f64, literal: Literal) {
        if literal.negated {
            self.constant += factor;
            self.add(-factor, literal.variable);
        } else {
            self.add(factor, literal.variable);
        }
    }

    /// Adds up the factors of equal columns: a column may occur once in a row.
    fn merged(mut self) -> Self {
        self.terms.sort_by_key(|&(column, _)| column);
        self.terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        self
    }
}

/// The largest factor of a row, in units to which factors are rounded: a unit is 119 times what 10^-9 is of it.
const GRAIN: f64 = 8_388_608.0;

/// The rows of a constraint program.
struct Rows<'a> {
    source: &'a CpModel,
    model: Model,
    /// What one unit of the objective became.
    unit: f64,
    /// Largest factor of the objective.
    largest_cost: u64,
    /// Rows of binary columns that are rounded in the model, as they are.
    exact: RowBlock,
}

impl<'a> Rows<'a> {
    fn of(source: &'a CpModel) -> Self {
        let largest_cost = source.objective.iter().map(|(_, factor)| factor.unsigned_abs()).max().unwrap_or(0);
        let mut rows = Self { source, model: Model::default(), unit: 1.0, largest_cost, exact: RowBlock::default() };
        for &(lower, upper) in &source.domains {
            rows.model.column(lower as f64, upper as f64, 0.0, Kind::Integer);
        }
        // Solvers' tolerances are absolute: a power of two brings costs into their range.
        while largest_cost as f64 * rows.unit > 16_384.0 {
            rows.unit /= 2.0;
        }
        for &(variable, factor) in &source.objective {
            rows.model.costs[variable.index()] += factor as f64 * rows.unit;
        }
        for constraint in &source.constraints {
            match &constraint.rule {
                Rule::Linear { terms, lower, upper } => {
                    let mut sum = Sum::default();
                    for &(variable, factor) in terms {
                        sum.add(factor as f64, variable);
                    }
                    rows.between(&constraint.enforced, &sum, *lower, *upper);
                }
                Rule::Among { variable, values } => rows.among(*variable, values),
                Rule::Clause(literals) => {
                    let mut sum = Sum::default();
                    for &literal in literals {
                        sum.literal(1.0, literal);
                    }
                    for &literal in &constraint.enforced {
                        sum.literal(1.0, !literal);
                    }
                    rows.at_least(sum, 1.0);
                }
                Rule::AtMostOne(literals) => {
                    let mut sum = Sum::default();
                    for &literal in literals {
                        sum.literal(-1.0, literal);
                    }
                    rows.at_least(sum, -1.0);
                }
                Rule::Cumulative { demands, capacity } => rows.cumulative(demands, *capacity),
                Rule::Reservoir { events, from, lower, upper } => rows.reservoir(events, *from, (*lower, *upper)),
            }
        }
        rows
    }

    fn at_least(&mut self, sum: Sum, lower: f64) {
        let mut sum = sum.merged();
        // Large bytes are scaled like large costs, and rounded, so that sums differ by more than what a solver takes for whole.
        let largest = sum.terms.iter().map(|(_, factor)| factor.abs()).fold(0.0, f64::max);
        let (mut scale, mut unit) = (1.0, 1.0);
        while largest * scale > 16_384.0 {
            scale /= 2.0;
        }
        while largest / unit > GRAIN {
            unit *= 2.0;
        }
        let columns =
            || sum.terms.iter().map(|(column, _)| (self.model.lower[column.index()], self.model.upper[column.index()]));
        if columns().any(|(lower, _)| lower < 0.0) {
            unit = 1.0;
        }
        if unit > 1.0 && columns().all(|(_, upper)| upper <= 1.0) {
            let terms = sum.terms.iter().map(|&(column, factor)| (column, -factor));
            self.exact.push(f64::NEG_INFINITY, sum.constant - lower, terms);
        }
        // Upwards: the row becomes weaker.
        let rounded = |bytes: f64| (bytes / unit).ceil() * unit * scale;
        for (_, factor) in &mut sum.terms {
            *factor = rounded(*factor);
        }
        self.model.at_least(rounded(lower - sum.constant), sum.terms);
    }

    /// Rows against a point of the rounded model that is none of the exact one.
    fn broken(&self, point: &[f64]) -> RowBlock {
        let whole: Vec<f64> = point.iter().map(|value| value.round()).collect();
        self.exact.covers(&whole, point)
    }

    /// Least and greatest value of a sum over the domains.
    fn range(&self, sum: &Sum) -> (f64, f64) {
        sum.terms.iter().fold((sum.constant, sum.constant), |(least, most), &(column, factor)| {
            let (lower, upper) = (self.model.lower[column.index()], self.model.upper[column.index()]);
            let ends = (factor * lower, factor * upper);
            (least + ends.0.min(ends.1), most + ends.0.max(ends.1))
        })
    }

    /// `lower <= sum <= upper` where all literals hold.
    fn between(&mut self, enforced: &[Literal], sum: &Sum, lower: i64, upper: i64) {
        let (least, most) = self.range(sum);
        let relaxed = |row: &mut Sum, slack: f64| {
            for &literal in enforced {
                row.literal(slack, !literal);
            }
        };
        if lower as f64 > least {
            let mut row = sum.clone();
            relaxed(&mut row, lower as f64 - least);
            self.at_least(row, lower as f64);
        }
        if (upper as f64) < most {
            let terms = sum.terms.iter().map(|&(column, factor)| (column, -factor)).collect();
            let mut row = Sum { terms, constant: -sum.constant };
            relaxed(&mut row, most - upper as f64);
            self.at_least(row, -(upper as f64));
        }
    }

    fn binary(&mut self) -> Literal {
        Literal::from(Variable::from_index(self.model.binary(0.0).index()))
    }

    /// A literal that is true exactly where `left <= right`.
    fn no_later(&mut self, left: Variable, right: Variable) -> Literal {
        let literal = self.binary();
        let mut difference = Sum::default();
        difference.add(1.0, left);
        difference.add(-1.0, right);
        let difference = difference.merged();
        self.between(&[literal], &difference, i64::MIN, 0);
        self.between(&[!literal], &difference, 1, i64::MAX);
        literal
    }

    /// A literal that is true where all of these are, and false elsewhere.
    fn all(&mut self, literals: &[Literal]) -> Literal {
        let both = self.binary();
        let mut reason = Sum::default();
        reason.literal(1.0, both);
        for &literal in literals {
            reason.literal(1.0, !literal);
            let mut sum = Sum::default();
            sum.literal(1.0, literal);
            sum.literal(1.0, !both);
            self.at_least(sum, 1.0);
        }
        self.at_least(reason, 1.0);
        both
    }

    /// A binary per value.
    fn among(&mut self, variable: Variable, values: &[i64]) {
        let (mut chosen, mut value) = (Sum::default(), Sum::default());
        value.add(-1.0, variable);
        for &candidate in values {
            let literal = self.binary();
            chosen.literal(1.0, literal);
            value.literal(candidate as f64, literal);
        }
        self.between(&[], &chosen, 1, 1);
        self.between(&[], &value.merged(), 0, 0);
    }

    /// Usage is greatest at some start: a row for each.
    fn cumulative(&mut self, demands: &[(Interval, i64)], capacity: Variable) {
        for &(at, _) in demands {
            let moment = self.source.intervals[at.index()].start;
            let mut sum = Sum::default();
            sum.add(1.0, capacity);
            for &(interval, demand) in demands {
                let parts = self.source.intervals[interval.index()];
                let mut conditions = vec![!self.no_later(parts.end, moment)];
                if interval != at {
                    conditions.push(self.no_later(parts.start, moment));
                }
                conditions.extend(parts.present);
                let there = self.all(&conditions);
                sum.literal(-(demand as f64), there);
            }
            self.at_least(sum, 0.0);
        }
    }

    /// The level after all events of each moment, and before all of them.
    fn reservoir(&mut self, events: &[Event], from: Option<Variable>, (lower, upper): (i64, i64)) {
        let mut before = Sum::default();
        if let Some(from) = from {
            before.add(1.0, from);
        }
        self.between(&[], &before, lower, upper);
        for at in events {
            let mut level = before.clone();
            for event in events {
                let mut conditions: Vec<Literal> = event.active.into_iter().collect();
                if event.time != at.time {
                    conditions.push(self.no_later(event.time, at.time));
                }
                let happened = self.all(&conditions);
                level.literal(event.change as f64, happened);
            }
            self.between(&[], &level.merged(), lower, upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A solver that takes 0 for the best point, whatever the rows say.
    struct Stubborn;

    impl Backend for Stubborn {
        fn id(&self) -> &'static str {
            "stubborn"
        }

        fn version(&self) -> String {
            "stubborn".into()
        }

        fn solve(&self, model: &Model, _: &Request<'_>) -> Result<Outcome, SolverError> {
            let incumbent = Some(vec![0.0; model.columns()]);
            Ok(Outcome { incumbent, ..Outcome::empty(Stop::Optimal, model.size(), self.version()) })
        }
    }

    #[test]
    fn rows_are_added_no_longer_than_there_is_time() {
        let mut model = CpModel::default();
        let terms = [1 << 40, 1 << 41].map(|factor| (model.boolean(), -factor));
        model.at_most(terms.to_vec(), -(1 << 40));
        let request = CpRequest { time: Some(Duration::from_millis(20)), ..CpRequest::default() };
        let outcome = ByMip { id: "stubborn", solver: &Stubborn }.solve(&model, &request).expect("asked");
        assert_eq!((outcome.stop, outcome.values), (Stop::TimeLimit, None));
    }
}
