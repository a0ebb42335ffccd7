//! What a constraint solver is asked, and what became of it. As in the mixed-integer layer, why it
//! stopped, what it found and what it said are three facts.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::cp::model::Variable;
use crate::outcome::Stop;

/// What to spend effort on, where a solver lets one choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// The solver's own choice.
    Default,
    /// Raise the bound by unsatisfiable cores, no linear relaxation: proves cheap optima fast.
    Cores,
    /// Linear relaxation as strong as the solver can make it: proves optima that sum up many small costs.
    Relaxation,
}

/// What a solver is asked and what it may use.
#[derive(Clone, Debug)]
pub struct CpRequest<'a> {
    /// Wall time.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
    /// What to spend effort on.
    pub emphasis: Emphasis,
    /// Values to try first. A hint for every variable that is a solution is never lost.
    pub hint: &'a [(Variable, i64)],
    /// Set from outside to stop the solver.
    pub interrupt: Option<&'a AtomicBool>,
}

impl Default for CpRequest<'_> {
    fn default() -> Self {
        Self { time: None, threads: 1, seed: 0, emphasis: Emphasis::Default, hint: &[], interrupt: None }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CpOutcome {
    /// Why the solver stopped.
    pub stop: Stop,
    /// The best solution, checked; none if there is none, whatever the solver's arrays hold.
    pub values: Option<Vec<i64>>,
    /// Objective of the solution.
    pub objective: Option<i64>,
    /// Proved lower bound on the objective; kept whatever happened, where the solver has one.
    pub bound: Option<i64>,
    /// The solver's own words.
    pub raw_status: String,
    /// Seconds for everything.
    pub seconds: f64,
    /// Conflicts or nodes, where the solver counts them.
    pub conflicts: Option<u64>,
    /// Solver and version.
    pub solver: String,
}
