//! A variable of the matrices R and S, or the constant that it is known to be; and how memory and
//! time are scaled so that solvers' absolute tolerances mean little.

use remat_solvers::{Column, Model};

/// A zero-one variable or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// 0.
    Zero,
    /// 1.
    One,
    /// A column of the model.
    Column(Column),
}

impl Term {
    /// Its value in a vector.
    pub fn value(self, values: &[f64]) -> f64 {
        match self {
            Self::Zero => 0.0,
            Self::One => 1.0,
            Self::Column(column) => values[column.index()],
        }
    }
    /// The column, unless it is a constant.
    pub fn column(self) -> Option<Column> {
        match self {
            Self::Column(column) => Some(column),
            Self::Zero | Self::One => None,
        }
    }
}

/// A sum of terms and a constant, on its way to becoming a row.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Terms with columns.
    pub terms: Vec<(Column, f64)>,
    /// The rest.
    pub constant: f64,
}

impl Sum {
    /// Adds a multiple of a term.
    pub fn add(&mut self, factor: f64, term: Term) {
        match term {
            Term::Zero => {}
            Term::One => self.constant += factor,
            Term::Column(column) => {
                if factor != 0.0 {
                    self.terms.push((column, factor));
                }
            }
        }
    }
    /// The sum, of these terms.
    pub fn of(terms: impl IntoIterator<Item = (f64, Term)>) -> Self {
        let mut sum = Self::default();
        for (factor, term) in terms {
            sum.add(factor, term);
        }
        sum
    }
    /// Adds up the factors of equal columns: a column may occur once in a row.
    pub fn merge(&mut self) {
        self.terms.sort_by_key(|&(column, _)| column);
        self.terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.terms.retain(|&(_, factor)| factor != 0.0);
    }
    /// The sum and a multiple of another.
    #[must_use]
    pub fn plus(mut self, factor: f64, other: &Self) -> Self {
        self.constant += factor * other.constant;
        self.terms.extend(other.terms.iter().map(|&(column, value)| (column, factor * value)));
        self
    }
    /// Whether it is 1 whatever the columns, which are from 0 to 1.
    pub fn is_certain(&self) -> bool {
        self.terms.is_empty() && self.constant >= 1.0
    }
    /// Whether it is nothing whatever the columns.
    pub fn is_nothing(&self) -> bool {
        self.terms.is_empty() && self.constant <= 0.0
    }
    /// A value that it does not undercut, the columns being from 0 to 1.
    pub fn least(&self) -> f64 {
        self.constant + self.terms.iter().map(|&(_, factor)| factor.min(0.0)).sum::<f64>()
    }
    /// Becomes a row: at most so much. None where that always holds within the bounds of the columns.
    pub fn at_most(mut self, model: &mut Model, upper: f64) {
        self.merge();
        let bound = upper - self.constant;
        let most_of = |&(column, factor): &(Column, f64)| {
            let bounds = if factor > 0.0 { &model.upper } else { &model.lower };
            factor * bounds[column.index()]
        };
        let most: f64 = self.terms.iter().map(most_of).sum();
        if most > bound {
            model.at_most(bound, self.terms);
        }
    }
    /// Its value in a vector.
    pub fn value(&self, values: &[f64]) -> f64 {
        self.constant + self.terms.iter().map(|&(column, factor)| factor * values[column.index()]).sum::<f64>()
    }
}

/// Powers of two that memory and time are divided by: exact, and budget and costs become about 10^4.
///
/// Bytes are counted in whole units, of which the largest memory of interest has 2^26 at most, and rounded down: a
/// model is a relaxation by less than a unit for each of its terms. In exact bytes a solver can take columns that are whole
/// within its tolerance for a solution that exceeds the budget by a few bytes, find that it does, and drop the schedules
/// beside it too: a false proof. Between two sums of units there is more than that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Divisor of bytes.
    pub memory: f64,
    /// Divisor of times.
    pub time: f64,
    /// The longest time of interest.
    pub longest: f64,
    /// Bytes of a unit.
    unit: u64,
}

/// Binary digits of the largest memory, in units. What a row of memory counts comes to about that memory, and a solver may take
/// 10^-9 of it for nothing: a unit is 15 times as much, or more.
const GRAIN: u32 = 26;

impl Scale {
    /// For a memory and a time that are the largest of interest.
    pub fn new(memory: u64, time: u64) -> Self {
        let unit = 1 << (u64::BITS - memory.leading_zeros()).saturating_sub(GRAIN);
        Self { memory: divisor(memory), time: divisor(time), longest: time as f64, unit }
    }
    /// The same with units of one byte.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { unit: 1, ..self }
    }
    /// By how much sums of units may exceed another for rounding, scaled.
    pub fn rounding(self) -> f64 {
        (self.unit as f64 / self.memory / 2.0).min(1e-5)
    }
    /// Bytes, in whole units, scaled.
    pub fn bytes(self, bytes: u64) -> f64 {
        (bytes / self.unit * self.unit) as f64 / self.memory
    }
    /// A difference of bytes, in whole units, scaled.
    pub fn difference(self, bytes: i128) -> f64 {
        let unit = i128::from(self.unit);
        (bytes.div_euclid(unit) * unit) as f64 / self.memory
    }
    /// A duration, scaled.
    pub fn duration(self, time: u64) -> f64 {
        time as f64 / self.time
    }
}

fn divisor(largest: u64) -> f64 {
    let mut divisor = 1.0;
    while largest as f64 / divisor > 16_384.0 {
        divisor *= 2.0;
    }
    divisor
}
