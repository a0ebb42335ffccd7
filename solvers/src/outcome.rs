//! What became of a request. Why the solver stopped, what it found and what it said are three facts.

use std::fmt;

/// Why a solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Optimal within the solver's tolerances (and the absolute gap).
    Optimal,
    /// Stopped at a gap, and more than the absolute one asked for is left.
    GapReached,
    /// Proved infeasible.
    Infeasible,
    /// Proved that no point is within the cutoff; there may be others or none.
    Cutoff,
    /// Proved unbounded.
    Unbounded,
    /// One of the last two; the solver does not say which.
    InfeasibleOrUnbounded,
    /// The time limit was reached.
    TimeLimit,
    /// The solver ran out of memory.
    MemoryLimit,
    /// The node limit was reached.
    NodeLimit,
    /// Stopped from outside, or by the observer.
    Interrupted,
    /// Anything else; see [`Outcome::raw_status`].
    Error,
}

/// Rows, columns and nonzeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Terms in all rows.
    pub nonzeros: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} columns, {} rows, {} nonzeros", self.columns, self.rows, self.nonzeros)
    }
}

/// Where a linear program was left: what the vectors are worth is for [`crate::safe_bound`] to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Value of each column; it may miss rows and bounds by more than the tolerance.
    pub values: Vec<f64>,
    /// Multiplier of each row, positive where its lower bound holds the objective up.
    pub multipliers: Vec<f64>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why the solver stopped.
    pub stop: Stop,
    /// The last vectors of a relaxation, where the solver tells its multipliers.
    pub linear: Option<Linear>,
    /// The best feasible vector; none if there is none, whatever the solver's arrays hold.
    pub incumbent: Option<Vec<f64>>,
    /// Objective of the incumbent.
    pub objective: Option<f64>,
    /// Proved lower bound on the objective; kept whatever happened, where the solver has one.
    pub dual_bound: Option<f64>,
    /// The solver's own words.
    pub raw_status: String,
    /// Branch-and-bound nodes, where the solver counts them.
    pub nodes: Option<u64>,
    /// Seconds for presolve, where they were asked for and can be told.
    pub presolve_seconds: Option<f64>,
    /// Seconds for the search.
    pub solve_seconds: f64,
    /// Size of the model.
    pub size: Size,
    /// Size after presolve, where it was asked for and can be told.
    pub presolved: Option<Size>,
    /// Solver and version.
    pub solver: String,
}

impl Outcome {
    /// Stopped with nothing found or proved, and without a word.
    pub(crate) fn empty(stop: Stop, size: Size, solver: String) -> Self {
        Self {
            stop,
            linear: None,
            incumbent: None,
            objective: None,
            dual_bound: None,
            raw_status: String::new(),
            nodes: None,
            presolve_seconds: None,
            solve_seconds: 0.0,
            size,
            presolved: None,
            solver,
        }
    }

    /// Optimal or within the gap: which of the two, by the gaps that are left.
    pub fn finished(objective: f64, bound: Option<f64>, absolute_gap: f64) -> Stop {
        // What is left beyond rounding noise of the objective itself.
        let noise = 1e-9 * objective.abs();
        match bound {
            Some(bound) if objective - bound > absolute_gap + noise => Stop::GapReached,
            _ => Stop::Optimal,
        }
    }
}
