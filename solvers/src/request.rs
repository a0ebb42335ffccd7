//! What a solver is asked and what it may use.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a solver is asked and what it may use.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Wall time.
    pub time: Option<Duration>,
    /// Branch-and-bound nodes.
    pub nodes: Option<u64>,
    /// Absolute gap at which to stop; no relative one does.
    pub absolute_gap: f64,
    /// Largest violation of a row or bound.
    pub tolerance: f64,
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
    /// Whether to ignore integrality.
    pub relaxation: bool,
    /// Whether a linear program is solved by an interior-point method alone, whose solution stays as approximate as it is
    /// ([`crate::Outcome::linear`]). Counts with HiGHS only.
    pub interior_point: bool,
    /// Points with a larger objective do not matter, and bounds need say no more than this. Counts with integrality only, and
    /// where [`crate::Backend::cuts_off`] says so.
    pub cutoff: Option<f64>,
    /// A value for every column, to start from. Checked before any solver sees it.
    pub start: Option<&'a [f64]>,
    /// Set from outside to stop the solver.
    pub interrupt: Option<&'a AtomicBool>,
    /// Whether to presolve once more beforehand, only to report time and sizes.
    pub measure_presolve: bool,
}

/// Hears of incumbents and bounds as they come; `Break` stops the solver.
pub type Observer<'a> = &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>;

/// A moment of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Seconds since the solver started.
    pub seconds: f64,
    /// Objective of the best vector found.
    pub incumbent: Option<f64>,
    /// That vector, where the event is about a new one.
    pub values: Option<&'a [f64]>,
    /// Proved lower bound on the objective.
    pub bound: Option<f64>,
    /// Nodes so far.
    pub nodes: u64,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self {
            time: None,
            nodes: None,
            absolute_gap: 1e-6,
            tolerance: 1e-6,
            threads: 1,
            seed: 0,
            relaxation: false,
            interior_point: false,
            cutoff: None,
            start: None,
            interrupt: None,
            measure_presolve: false,
        }
    }
}

impl Request<'_> {
    /// How far a column may be from a whole number that counts as one. Branch and bound closes a node whose columns all count,
    /// also where they are no solution once they are whole: models must not tell sums apart that differ by so little.
    pub fn integrality(&self) -> f64 {
        self.tolerance.min(1e-9)
    }
}
