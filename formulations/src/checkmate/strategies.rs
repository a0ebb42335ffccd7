//! The ways of solving one budget: the published model, the reduced one, the reduced one with memory
//! rows as they are violated, and that one behind the coarse relaxation.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use remat_solvers::{Anew, Capability, Progress, Request, Session, Stop};

use crate::checkmate::compact::{Compact, Rows};
use crate::checkmate::plain::Plain;
use crate::checkmate::program::{Found, INTEGRALITY, Program, failed};
use crate::checkmate::refine::Refinement;
use crate::checkmate::stages::Stages;
use crate::checkmate::watch::Watch;
use crate::method::MethodError;

/// One budget, and what may be used for it.
pub struct Question<'s> {
    /// Its position.
    pub index: usize,
    /// The budget.
    pub budget: Option<u64>,
    /// Stages to start from.
    pub start: Option<&'s Stages>,
    /// Wall time.
    pub time: Option<Duration>,
}

impl Question<'_> {
    /// What is left of the time since a moment.
    fn left(&self, began: Instant) -> Option<Duration> {
        self.time.map(|time| time.saturating_sub(began.elapsed()))
    }
}

impl Program<'_> {
    /// Solves one budget exactly, time permitting.
    ///
    /// # Errors
    /// The solver refuses.
    pub fn optimise(&self, question: &Question<'_>, strategy: &str) -> Result<Found, MethodError> {
        if let Some(found) = self.at_once(question.budget) {
            return Ok(found);
        }
        let mut watch = Watch::new(self, question.index, question.budget);
        if let Some(start) = question.start {
            watch.schedule(start);
        }
        match strategy {
            "plain" => self.plainly(question, &mut watch),
            "reduced" => self.reduced(question, &mut watch),
            "lazy" => self.lazily(question, &mut watch),
            _ => self.coarsely(question, &mut watch),
        }
    }

    fn plainly(&self, question: &Question<'_>, watch: &mut Watch<'_, '_>) -> Result<Found, MethodError> {
        let began = Instant::now();
        let plain = Plain::new(&self.joint, question.budget, self.workspace);
        let build = began.elapsed();
        let unit = plain.time_unit();
        let mut observer = |progress: &Progress<'_>| {
            let stages = progress.values.and_then(|values| plain.stages(values, INTEGRALITY).ok());
            hear(watch, progress, stages.as_ref(), unit)
        };
        let mut request = Request { observer: Some(&mut observer), ..self.request(question.time) };
        let outcome = self.solver.solve(&plain.model, &mut request).map_err(|error| failed(&error))?;
        let stages = outcome.incumbent.as_ref().map(|values| plain.stages(values, INTEGRALITY));
        self.found(watch, &outcome, stages, unit, build)
    }

    fn reduced(&self, question: &Question<'_>, watch: &mut Watch<'_, '_>) -> Result<Found, MethodError> {
        let began = Instant::now();
        let compact = Compact::new(&self.joint, question.budget, self.workspace, Rows::All);
        let build = began.elapsed();
        let unit = compact.time_unit();
        let vector = question.start.map(|stages| compact.vector(stages));
        let mut observer = |progress: &Progress<'_>| {
            let stages = progress.values.and_then(|values| compact.stages(values, INTEGRALITY).ok());
            hear(watch, progress, stages.as_ref(), unit)
        };
        let mut request =
            Request { start: vector.as_deref(), observer: Some(&mut observer), ..self.request(question.time) };
        let outcome = self.solver.solve(&compact.model, &mut request).map_err(|error| failed(&error))?;
        let stages = outcome.incumbent.as_ref().map(|values| compact.stages(values, INTEGRALITY));
        self.found(watch, &outcome, stages, unit, build)
    }

    /// Memory rows as they are violated: first by the relaxation, then by whole solutions.
    fn lazily(&self, question: &Question<'_>, watch: &mut Watch<'_, '_>) -> Result<Found, MethodError> {
        let began = Instant::now();
        let compact = Compact::new(&self.joint, question.budget, self.workspace, Rows::Lazy);
        let unit = compact.time_unit();
        let mut session: Box<dyn Session> = match self.solver.supports(Capability::Sessions) {
            Ok(()) => self.solver.session(&compact.model).map_err(|error| failed(&error))?,
            Err(_) => Box::new(Anew::new(self.solver, compact.model.clone())),
        };
        let build = began.elapsed();
        let (mut relaxed, mut rounds, mut added) = (true, 0, 0);
        loop {
            let vector = watch.best.as_ref().filter(|_| !relaxed).map(|(_, stages)| compact.vector(stages));
            let mut observer = |progress: &Progress<'_>| {
                let whole = progress.values.filter(|values| compact.violated(values).is_empty());
                let stages = whole.and_then(|values| compact.stages(values, INTEGRALITY).ok());
                hear(watch, progress, stages.as_ref(), unit)
            };
            let mut request = Request {
                relaxation: relaxed,
                start: vector.as_deref(),
                observer: Some(&mut observer),
                ..self.request(question.left(began))
            };
            let mut outcome = session.solve(&mut request).map_err(|error| failed(&error))?;
            let solved = outcome.stop == Stop::Optimal || outcome.stop == Stop::GapReached;
            let rows = outcome.incumbent.as_ref().filter(|_| solved).map(|values| compact.violated(values));
            let rows = rows.filter(|rows| !rows.is_empty());
            rounds += 1;
            if outcome.stop != Stop::Infeasible {
                // Fewer rows, a lower optimum: every bound on the way is one.
                watch.objective_bound(outcome.dual_bound, unit);
            }
            if let Some(rows) = rows {
                added += rows.len();
                session.add_rows(&rows).map_err(|error| failed(&error))?;
                continue;
            }
            if relaxed && solved && !watch.closed() {
                relaxed = false;
                continue;
            }
            if relaxed && outcome.stop != Stop::Infeasible {
                // Out of time before there was anything whole.
                outcome.incumbent = None;
            }
            outcome.solve_seconds = began.elapsed().as_secs_f64() - build.as_secs_f64();
            let whole = outcome.incumbent.as_ref().filter(|values| compact.violated(values).is_empty());
            let stages = whole.map(|values| compact.stages(values, INTEGRALITY));
            let mut found = self.found(watch, &outcome, stages, unit, build)?;
            found.note = format!("{}; {added} memory rows added in {rounds} rounds", found.note);
            return Ok(found);
        }
    }

    /// Behind the coarse relaxation, which leaves a good schedule and a good bound.
    fn coarsely(&self, question: &Question<'_>, watch: &mut Watch<'_, '_>) -> Result<Found, MethodError> {
        let began = Instant::now();
        let refinement = Refinement::new(question.time, watch).run()?;
        if let Some(found) = refinement {
            return Ok(found);
        }
        let coarse = began.elapsed();
        let rest = Question { time: question.left(began), ..*question };
        let found = self.lazily(&rest, watch)?;
        let note = format!("coarse relaxation for {:.1} s, then {}", coarse.as_secs_f64(), found.note);
        Ok(Found { solve: found.solve + coarse, note, ..found })
    }
}

/// Takes note of what a solver says while it works.
fn hear(watch: &mut Watch<'_, '_>, progress: &Progress<'_>, stages: Option<&Stages>, unit: f64) -> ControlFlow<()> {
    if let Some(stages) = stages {
        watch.schedule(stages);
    }
    watch.objective_bound(progress.bound, unit);
    ControlFlow::Continue(())
}
