//! What is known of one budget while it is worked on: the best stages and the best bound. Both leave
//! for the reporter as they come.

use crate::checkmate::program::Program;
use crate::checkmate::stages::Stages;
use crate::method::report::Progress;

/// The best that is known of one budget.
pub struct Watch<'p, 'a> {
    /// What works on it.
    pub program: &'p Program<'a>,
    index: usize,
    /// The budget.
    pub budget: Option<u64>,
    /// The best stages within the budget, and their time.
    pub best: Option<(u64, Stages)>,
    /// The highest proved lower bound on the time.
    pub bound: Option<u64>,
}

impl<'p, 'a> Watch<'p, 'a> {
    /// Nothing is known yet of the budget at a position.
    pub fn new(program: &'p Program<'a>, index: usize, budget: Option<u64>) -> Self {
        Self { program, index, budget, best: None, bound: None }
    }

    /// Takes stages, if they are within the budget and better; says whether they were.
    pub fn schedule(&mut self, stages: &Stages) -> bool {
        let program = self.program;
        let claimed = stages.claim(&program.joint, program.workspace);
        let fits = self.budget.is_none_or(|budget| claimed.peak_bytes <= budget);
        if !fits || self.best.as_ref().is_some_and(|(time, _)| *time <= claimed.time) {
            return false;
        }
        let schedule = stages.schedule(program.instance, &program.joint);
        program.reporter.report(self.index, Progress::incumbent(schedule, claimed));
        self.best = Some((claimed.time, stages.clone()));
        true
    }

    /// Takes a bound, if it is better.
    pub fn bound(&mut self, bound: u64) {
        if self.bound.is_none_or(|known| bound > known) {
            self.bound = Some(bound);
            self.program.reporter.report(self.index, Progress::bound(bound));
        }
    }

    /// Takes a bound on a model's objective, of which one unit is worth `unit`.
    pub fn objective_bound(&mut self, objective: Option<f64>, unit: f64) {
        if let Some(objective) = objective {
            self.bound(self.program.bound(objective, unit));
        }
    }

    /// Time of the best stages.
    pub fn time(&self) -> Option<u64> {
        self.best.as_ref().map(|(time, _)| *time)
    }

    /// Whether the best stages are proved to be optimal within the solver's tolerance, or within the gap
    /// asked for.
    pub fn closed(&self) -> bool {
        let (Some(time), Some(bound)) = (self.time(), self.bound) else { return false };
        let allowed = self.program.gap * time.saturating_sub(self.program.fixed_time()) as f64;
        time.saturating_sub(bound) as f64 <= allowed.max(Program::margin(time))
    }

    /// Whether they are proved to be optimal within the solver's tolerance.
    pub fn optimal(&self) -> bool {
        let known = self.time().zip(self.bound);
        known.is_some_and(|(time, bound)| time.saturating_sub(bound) as f64 <= Program::margin(time))
    }
}
