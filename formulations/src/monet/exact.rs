//! The exact model, over single stages: branch and bound with all memory rows, or with those that are violated, and
//! its relaxation, from which schedules and bounds come that hold in exact arithmetic.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use remat_solvers::request::Observer;
use remat_solvers::{LpAlgorithm, Request, Stop, safe_bound};

use crate::method::MethodError;
use crate::monet::decisions::Decisions;
use crate::monet::formulation::Formulation;
use crate::monet::improve::{Effort, improve};
use crate::monet::program::{Known, Program, failed, whole_bound};

/// Stages times nodes squared, about the terms of all memory rows, up to which branch and bound gets all.
const ALL_ROWS: usize = 600_000;

impl Program<'_> {
    /// The mixed-integer program as it stands.
    pub(super) fn exactly(
        &self,
        index: usize,
        formulation: &mut Formulation<'_>,
        known: &mut Known,
    ) -> Result<Option<Stop>, MethodError> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            known.heed();
            let start = known.best.as_ref().map(|best| formulation.vector(best));
            let board = Arc::clone(&known.board);
            let model = &formulation.layout.model;
            let mut found = Vec::new();
            let mut proved = known.bound;
            let mut observer = |event: &remat_solvers::Progress<'_>| {
                if let Some(bound) = event.bound.map(|bound| whole_bound(formulation, bound)).filter(|&b| b > proved) {
                    proved = bound;
                    board.raise(bound);
                    self.report_bound(index, bound);
                }
                let values = event.values.filter(|values| formulation.violates_nothing(values));
                let kept = values.map(|values| formulation.kept(values, 0.5));
                found.extend(kept.and_then(|kept| Decisions::complete(&self.problem, kept, formulation.capacity)));
                ControlFlow::Continue(())
            };
            let observer: Option<Observer<'_>> = Some(&mut observer);
            let interrupt = Some(&board.done);
            let mut request = Request { start: start.as_deref(), observer, interrupt, ..self.request() };
            let outcome = self.solver.solve(model, &mut request).map_err(|error| failed(&error))?;
            known.heed();
            for decisions in found {
                self.take(index, formulation.capacity, known, decisions)?;
            }
            if let Some(bound) = outcome.dual_bound {
                self.raise(index, known, whole_bound(formulation, bound));
            }
            known.infeasible = outcome.stop == Stop::Infeasible;
            known.note = format!(
                "{}: {}; {}; {rounds} rounds; {} nodes",
                outcome.solver,
                outcome.raw_status,
                outcome.size,
                outcome.nodes.unwrap_or(0)
            );
            let solved = matches!(outcome.stop, Stop::Optimal | Stop::GapReached);
            let Some(vector) = outcome.incumbent else { return Ok(Some(outcome.stop)) };
            if formulation.add_violated(&vector) > 0 {
                if solved {
                    continue;
                }
                return Ok(Some(outcome.stop));
            }
            let found = Decisions::complete(&self.problem, formulation.kept(&vector, 0.5), formulation.capacity);
            let mut stop = outcome.stop;
            if let Some(found) = found {
                // The completion is at least as good as what the solver did with what it keeps.
                let (time, rejected) = (found.time(), known.note.clone());
                self.take(index, formulation.capacity, known, found)?;
                if known.best.as_ref().is_none_or(|best| best.time() > time) && stop == Stop::Optimal {
                    // Within the program's rules, but not within the budget.
                    known.note = format!("{}; {rejected}", known.note);
                    stop = Stop::GapReached;
                }
            }
            return Ok(Some(stop));
        }
    }

    /// Memory rows as the relaxation violates them; schedules from what it keeps; then the whole program.
    pub(super) fn lazily(
        &self,
        index: usize,
        formulation: &mut Formulation<'_>,
        known: &mut Known,
    ) -> Result<Option<Stop>, MethodError> {
        formulation.add_first();
        let stop = self.relax(index, formulation, known)?;
        if stop.is_some() || self.enough(known) || self.context.parameters.word("strategy") == "relaxed" {
            return Ok(stop);
        }
        // Branch and bound proves more with all rows, as long as they are not too many.
        let nodes = self.problem.nodes.len();
        if self.problem.stages.len() * nodes * nodes <= ALL_ROWS {
            formulation.add_all();
        }
        self.exactly(index, formulation, known)
    }

    /// Solves the relaxation until no memory row is violated; a schedule from each vector on the way.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn relax(
        &self,
        index: usize,
        formulation: &mut Formulation<'_>,
        known: &mut Known,
    ) -> Result<Option<Stop>, MethodError> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let request = self.request();
            let large = formulation.layout.model.nonzeros() > 50_000;
            let lp_algorithm = if large { LpAlgorithm::InteriorPoint } else { LpAlgorithm::Automatic };
            let mut request = Request { relaxation: true, crossover: !large, lp_algorithm, ..request };
            let model = &formulation.layout.model;
            let outcome = self.solver.solve(model, &mut request).map_err(|error| failed(&error))?;
            known.note =
                format!("{}: {}; relaxation in {rounds} rounds; {}", outcome.solver, outcome.raw_status, outcome.size);
            if outcome.stop == Stop::Infeasible {
                known.infeasible = true;
                return Ok(Some(Stop::Infeasible));
            }
            let Some(linear) = outcome.linear else { return Ok(Some(outcome.stop)) };
            let proved = safe_bound(model, &linear.multipliers);
            self.raise(index, known, whole_bound(formulation, proved));
            let seconds = self.left().map(|left| left.min(Duration::from_secs(60)));
            if self.schedules {
                let (kept, seed) = (formulation.kept(&linear.values, 0.5), self.context.limits.seed);
                if let Some(found) = improve(&self.problem, kept, formulation.capacity, seed, Effort::usual(seconds)) {
                    self.take(index, formulation.capacity, known, found)?;
                }
            }
            let added = formulation.add_violated(&linear.values);
            if added == 0 || self.enough(known) {
                return Ok(None);
            }
            if matches!(outcome.stop, Stop::TimeLimit | Stop::Interrupted) {
                return Ok(Some(outcome.stop));
            }
        }
    }
}
