//! The neutral model: minimise c x subject to row bounds, column bounds and integrality.
//!
//! Filled row by row in O(nonzeros) and handed to a backend as it lies. Carries no names: whoever
//! built the model can name its parts when somebody asks ([`Names`]).

use crate::outcome::Size;
use crate::position::position;

/// Position of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(u32);

/// Position of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(u32);

position!(Column);
position!(Row);

/// Domain of a column within its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every real number.
    Continuous,
    /// Whole numbers.
    Integer,
}

/// Rows in compressed form: terms of row r lie at `starts[r]..starts[r + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RowBlock {
    /// Least activity of each row.
    pub lower: Vec<f64>,
    /// Greatest activity of each row.
    pub upper: Vec<f64>,
    /// Where each row's terms begin, and where the last one's end.
    pub starts: Vec<i32>,
    /// Column of each term.
    pub columns: Vec<i32>,
    /// Coefficient of each term.
    pub values: Vec<f64>,
}

impl Default for RowBlock {
    fn default() -> Self {
        Self { lower: vec![], upper: vec![], starts: vec![0], columns: vec![], values: vec![] }
    }
}

impl RowBlock {
    /// Appends `lower <= terms <= upper`. A column must not occur twice in a row.
    ///
    /// # Panics
    /// When there are 2^31 terms or more.
    pub fn push(&mut self, lower: f64, upper: f64, terms: impl IntoIterator<Item = (Column, f64)>) -> Row {
        let row = Row::from_index(self.len());
        for (column, value) in terms {
            self.columns.push(column.0.cast_signed());
            self.values.push(value);
        }
        self.starts.push(i32::try_from(self.columns.len()).expect("solvers count terms in 31 bits"));
        self.lower.push(lower);
        self.upper.push(upper);
        row
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.lower.len()
    }
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.lower.is_empty()
    }
    /// Terms of a row.
    pub fn terms(&self, row: usize) -> impl Iterator<Item = (Column, f64)> + '_ {
        let range = position_of(self.starts[row])..position_of(self.starts[row + 1]);
        self.columns[range.clone()].iter().zip(&self.values[range]).map(|(&c, &v)| (Column(c.cast_unsigned()), v))
    }
    /// For rows whose greatest activity a whole point exceeds, by however little: not everything that makes it do so, of binary
    /// columns. To see that takes no sums that are nearly equal. None for a row where `point`, of which `whole` is the rounded
    /// one, does not exceed that.
    #[must_use]
    pub fn covers(&self, whole: &[f64], point: &[f64]) -> Self {
        let mut covers = Self::default();
        for row in 0..self.len() {
            let activity: f64 = self.terms(row).map(|(column, factor)| factor * whole[column.index()]).sum();
            let mut over = activity - self.upper[row];
            if over <= 0.0 {
                continue;
            }
            let raises = |&(column, factor): &(Column, f64)| (whole[column.index()] >= 0.5) == (factor > 0.0);
            let mut raising: Vec<(Column, f64)> = self.terms(row).filter(raises).collect();
            raising.sort_by(|left, right| left.1.abs().total_cmp(&right.1.abs()));
            // Without the small ones it is exceeded as well.
            raising.retain(|&(_, factor)| {
                let spare = factor.abs() < over;
                over -= if spare { factor.abs() } else { 0.0 };
                !spare
            });
            let most = raising.iter().filter(|term| term.1 > 0.0).count() as f64 - 1.0;
            let signs = || raising.iter().map(|&(column, factor)| (column, factor.signum()));
            if signs().map(|(column, sign)| sign * point[column.index()]).sum::<f64>() > most + 0.5 {
                covers.push(f64::NEG_INFINITY, most, signs());
            }
        }
        covers
    }
    /// The block by columns: rows and coefficients of the terms of each.
    pub fn by_column(&self, columns: usize) -> Vec<Vec<(usize, f64)>> {
        let mut by_column = vec![Vec::new(); columns];
        for row in 0..self.len() {
            for (column, value) in self.terms(row) {
                by_column[column.index()].push((row, value));
            }
        }
        by_column
    }
    /// Whether a row without terms asks for less than 0, so that no point satisfies it.
    pub fn has_hopeless(&self) -> bool {
        (0..self.len()).any(|row| self.upper[row] < 0.0 && self.starts[row] == self.starts[row + 1])
    }
    /// Appends all rows of another block.
    pub fn append(&mut self, other: &Self) {
        for row in 0..other.len() {
            self.push(other.lower[row], other.upper[row], other.terms(row));
        }
    }
}

/// A position that the model made itself.
fn position_of(value: i32) -> usize {
    usize::try_from(value).expect("starts are never negative")
}

/// A mixed-integer program; always a minimisation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Constant of the objective.
    pub offset: f64,
    /// Objective coefficient of each column.
    pub costs: Vec<f64>,
    /// Least value of each column.
    pub lower: Vec<f64>,
    /// Greatest value of each column.
    pub upper: Vec<f64>,
    /// Kind of each column.
    pub kinds: Vec<Kind>,
    /// The rows.
    pub rows: RowBlock,
}

/// What the parts of a model are called, when somebody asks.
pub trait Names {
    /// Name of a column, unique, without white space.
    fn column(&self, column: Column) -> String;
    /// Name of a row, likewise.
    fn row(&self, row: Row) -> String {
        format!("c{}", row.0)
    }
}

/// `x0, x1, ...` and `r0, r1, ...`.
pub struct Numbered;

impl Names for Numbered {
    fn column(&self, column: Column) -> String {
        format!("x{}", column.0)
    }
    fn row(&self, row: Row) -> String {
        format!("r{}", row.0)
    }
}

/// How far a vector is from satisfying a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Violation {
    /// Largest distance to a column bound.
    pub bound: f64,
    /// Largest distance to a row bound.
    pub row: f64,
    /// Largest distance of an integer column to a whole number.
    pub integrality: f64,
}

impl Violation {
    /// The largest of the three.
    pub fn max(self) -> f64 {
        self.bound.max(self.row).max(self.integrality)
    }
}

impl Model {
    /// An empty model with room for as many columns.
    pub fn with_capacity(columns: usize, rows: usize, terms: usize) -> Self {
        let mut model = Self {
            costs: Vec::with_capacity(columns),
            lower: Vec::with_capacity(columns),
            upper: Vec::with_capacity(columns),
            kinds: Vec::with_capacity(columns),
            ..Self::default()
        };
        model.rows.lower.reserve(rows);
        model.rows.upper.reserve(rows);
        model.rows.starts.reserve(rows);
        model.rows.columns.reserve(terms);
        model.rows.values.reserve(terms);
        model
    }

    /// Adds a column.
    pub fn column(&mut self, lower: f64, upper: f64, cost: f64, kind: Kind) -> Column {
        let column = Column::from_index(self.costs.len());
        self.lower.push(lower);
        self.upper.push(upper);
        self.costs.push(cost);
        self.kinds.push(kind);
        column
    }

    /// Adds a column that is 0 or 1.
    pub fn binary(&mut self, cost: f64) -> Column {
        self.column(0.0, 1.0, cost, Kind::Integer)
    }

    /// Adds `terms <= upper`.
    pub fn at_most(&mut self, upper: f64, terms: impl IntoIterator<Item = (Column, f64)>) -> Row {
        self.rows.push(f64::NEG_INFINITY, upper, terms)
    }

    /// Adds `terms >= lower`.
    pub fn at_least(&mut self, lower: f64, terms: impl IntoIterator<Item = (Column, f64)>) -> Row {
        self.rows.push(lower, f64::INFINITY, terms)
    }

    /// Adds `terms = value`.
    pub fn equal(&mut self, value: f64, terms: impl IntoIterator<Item = (Column, f64)>) -> Row {
        self.rows.push(value, value, terms)
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.costs.len()
    }

    /// Number of terms in all rows.
    pub fn nonzeros(&self) -> usize {
        self.rows.values.len()
    }

    /// Numbers of rows, columns and terms.
    pub fn size(&self) -> Size {
        Size { rows: self.rows.len(), columns: self.columns(), nonzeros: self.nonzeros() }
    }

    /// Whether any column must be whole.
    pub fn has_integers(&self) -> bool {
        self.kinds.contains(&Kind::Integer)
    }

    /// The objective of a vector.
    pub fn objective(&self, values: &[f64]) -> f64 {
        self.offset + self.costs.iter().zip(values).map(|(cost, value)| cost * value).sum::<f64>()
    }

    /// How far a vector is from satisfying the model; infinite when it has another length or is not
    /// made of numbers.
    pub fn violation(&self, values: &[f64]) -> Violation {
        if values.len() != self.columns() || values.iter().any(|value| !value.is_finite()) {
            return Violation { bound: f64::INFINITY, row: 0.0, integrality: 0.0 };
        }
        let outside = |value: f64, lower: f64, upper: f64| (lower - value).max(value - upper).max(0.0);
        let mut violation = Violation::default();
        for (column, &value) in values.iter().enumerate() {
            violation.bound = violation.bound.max(outside(value, self.lower[column], self.upper[column]));
            if self.kinds[column] == Kind::Integer {
                violation.integrality = violation.integrality.max((value - value.round()).abs());
            }
        }
        for row in 0..self.rows.len() {
            let activity = self.rows.terms(row).map(|(column, value)| value * values[column.index()]).sum();
            violation.row = violation.row.max(outside(activity, self.rows.lower[row], self.rows.upper[row]));
        }
        violation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_of_bounds_rows_and_integrality_are_told_apart() {
        let mut model = Model::default();
        let x = model.binary(1.0);
        let y = model.column(0.0, 4.0, 2.0, Kind::Continuous);
        model.at_most(3.0, [(x, 1.0), (y, 1.0)]);
        assert_eq!(model.violation(&[1.0, 2.0]), Violation::default());
        assert_eq!(model.violation(&[1.0, 3.0]), Violation { row: 1.0, ..Violation::default() });
        assert_eq!(model.violation(&[0.5, 0.0]), Violation { integrality: 0.5, ..Violation::default() });
        assert!((model.violation(&[0.0, -2.0]).bound - 2.0).abs() < 1e-12);
        assert!(model.violation(&[0.0]).max().is_infinite());
        assert!((model.objective(&[1.0, 2.0]) - 5.0).abs() < 1e-12);
    }

    #[test]
    fn rows_of_another_block_are_appended_as_they_are() {
        let (x, y) = (Column::from_index(0), Column::from_index(1));
        let mut first = RowBlock::default();
        first.push(0.0, 1.0, [(x, 1.0)]);
        let mut second = RowBlock::default();
        second.push(2.0, 3.0, [(x, 4.0), (y, 5.0)]);
        first.append(&second);
        assert_eq!(first.terms(1).collect::<Vec<_>>(), [(x, 4.0), (y, 5.0)]);
        assert_eq!((first.lower[1], first.upper[1]), (2.0, 3.0));
    }
}
