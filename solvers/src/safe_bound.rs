//! A lower bound on a minimisation that holds in exact arithmetic, from multipliers that need not be good.
//!
//! For any multipliers y, the sum over rows of y times the row's lower (y > 0) or upper (y < 0) bound, plus
//! for each column the least of (c - y A) x within its bounds, is at most the optimum: of the relaxation,
//! and so of the program. Interior-point and first-order methods give such y; neither their feasibility nor
//! their optimality need be believed. Rounding is bounded as it comes: a sum of n products is off by at
//! most n units in the last place of the sum of their sizes (Higham, "Accuracy and Stability of Numerical
//! Algorithms", section 3.1; doubled here, which covers the rounding of the bound itself).

use crate::model::Model;

/// A sum whose rounding error is bounded.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    sum: f64,
    size: f64,
    terms: f64,
}

impl Interval {
    fn add(&mut self, term: f64) {
        self.sum += term;
        self.size += term.abs();
        self.terms += 1.0;
    }

    /// What the sum may be off by; products are rounded once before they are added.
    fn error(self) -> f64 {
        2.0 * (self.terms + 2.0) * f64::EPSILON * self.size
    }

    fn lower(self) -> f64 {
        self.sum - self.error()
    }

    fn upper(self) -> f64 {
        self.sum + self.error()
    }
}

/// The bound that multipliers prove; minus infinity where a column that matters is unbounded.
///
/// # Panics
/// When there is not one multiplier per row.
pub fn safe_bound(model: &Model, multipliers: &[f64]) -> f64 {
    assert_eq!(multipliers.len(), model.rows.len(), "one multiplier per row");
    let mut reduced: Vec<Interval> = vec![Interval::default(); model.columns()];
    for (interval, &cost) in reduced.iter_mut().zip(&model.costs) {
        interval.add(cost);
    }
    let mut bound = Interval::default();
    bound.add(model.offset);
    for (row, &given) in multipliers.iter().enumerate() {
        let side = if given > 0.0 { model.rows.lower[row] } else { model.rows.upper[row] };
        // A multiplier that pulls at a bound that is not there is noise.
        if given == 0.0 || !given.is_finite() || !side.is_finite() {
            continue;
        }
        bound.add(given * side);
        for (column, value) in model.rows.terms(row) {
            reduced[column.index()].add(-given * value);
        }
    }
    let mut slack = 0.0;
    for (column, interval) in reduced.into_iter().enumerate() {
        let (lower, upper) = (model.lower[column], model.upper[column]);
        // The least over an interval of factors and an interval of values lies at a corner.
        let corners =
            [interval.lower() * lower, interval.lower() * upper, interval.upper() * lower, interval.upper() * upper];
        // A factor of exactly 0 makes nothing of an infinite bound.
        let corners = corners.map(|value| if value.is_nan() { 0.0 } else { value });
        let least = corners.into_iter().fold(f64::INFINITY, f64::min);
        bound.add(least);
        slack += least.abs() * f64::EPSILON;
    }
    bound.lower() - slack
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;

    /// min x + 2 y, x + y >= 1.5, both from 0 to 1: 2 at (1, 0.5), with multiplier 2.
    fn model() -> Model {
        let mut model = Model::default();
        let x = model.column(0.0, 1.0, 1.0, Kind::Continuous);
        let y = model.column(0.0, 1.0, 2.0, Kind::Continuous);
        model.at_least(1.5, [(x, 1.0), (y, 1.0)]);
        model
    }

    #[test]
    fn good_multipliers_prove_the_optimum_and_bad_ones_something_below() {
        assert!((safe_bound(&model(), &[2.0]) - 2.0).abs() < 1e-12);
        for multiplier in [-7.0, 0.0, 0.5, 1.0, 1.9, 2.1, 30.0, 1e12, f64::NAN] {
            assert!(safe_bound(&model(), &[multiplier]) <= 2.0, "{multiplier}");
        }
    }

    #[test]
    fn rounding_is_on_the_safe_side() {
        // A third has no exact binary form: the bound must not exceed what exact arithmetic gives.
        let mut model = Model::default();
        let columns: Vec<_> = (0..3).map(|_| model.column(0.0, 1.0, 1.0 / 3.0, Kind::Continuous)).collect();
        model.equal(3.0, columns.into_iter().map(|column| (column, 1.0)));
        let bound = safe_bound(&model, &[1.0 / 3.0]);
        assert!(bound <= 1.0 && bound > 1.0 - 1e-14, "{bound}");
    }

    #[test]
    fn an_unbounded_column_leaves_no_bound_unless_its_cost_is_paid() {
        let mut model = Model::default();
        let x = model.column(0.0, f64::INFINITY, 1.0, Kind::Continuous);
        model.at_least(3.0, [(x, 1.0)]);
        assert!(safe_bound(&model, &[1.1]).is_infinite());
        assert!((safe_bound(&model, &[0.5]) - 1.5).abs() < 1e-12);
    }
}
