//! From a budget to its answer: schedules to start from, the refinement of blocks on one thread and neighbourhoods on
//! all others, then the exact model.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use remat_solvers::{Outcome, Progress, Stop};

use crate::method::{Answer, MethodError, Termination};
use crate::search::clock::{Clock, Pace};
use crate::search::incumbent::{Incumbent, Judge};
use crate::search::neighbourhoods::Explorer;
use crate::search::problem::Staged;
use crate::search::refinement::Refinement;
use crate::search::separation::{Follower, Pass, Relaxation, Separated, Solving, Terms, separate};

/// How a search ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why; none where nothing was left to try.
    pub stop: Option<Stop>,
    /// Words for the reader.
    pub note: String,
}

/// Runs a search beside others that improve its incumbent in neighbourhoods, one on each thread but one. There are none
/// without a time limit, where what is found must not depend on who is first.
///
/// # Errors
/// Those of the search and of the others.
pub fn beside_explorers<P: Staged, T>(
    incumbent: &Incumbent<'_, P>,
    solving: Solving,
    clock: Clock,
    search: impl FnOnce(Solving, usize) -> Result<T, MethodError>,
) -> Result<T, MethodError> {
    let explorers = if clock.is_limited() { solving.threads.saturating_sub(1) } else { 0 };
    std::thread::scope(|scope| {
        let explore = |part| scope.spawn(move || Explorer::new(solving.seed, part).run(incumbent, &solving, clock));
        let running: Vec<_> = (1..=explorers).map(explore).collect();
        let found = search(Solving { threads: solving.threads - explorers, ..solving }, explorers);
        incumbent.finish();
        for explorer in running {
            explorer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        found
    })
}

/// Searches until the incumbent is good enough, nothing is left to try, or the time is up.
///
/// # Errors
/// The solver refuses, or contradicts a schedule that there is.
pub fn search<P: Staged>(incumbent: &Incumbent<'_, P>, solving: Solving, clock: Clock) -> Result<Ended, MethodError> {
    beside_explorers(incumbent, solving, clock, |solving, explorers| {
        let small = incumbent.judge.is_small();
        let mut refinement = Refinement::new(incumbent, solving, clock, explorers);
        if small {
            refinement = refinement.until(clock.share(2));
        }
        let stop = refinement.run()?;
        let note = std::mem::take(&mut refinement.note);
        if !matches!(stop, None | Some(Stop::TimeLimit)) || clock.is_over() {
            return Ok(Ended { stop, note });
        }
        if !(small || stop.is_none()) || !refinement.allows_exact(&clock) {
            refinement.explore(clock)?;
            return Ok(Ended { stop: Some(Stop::TimeLimit), note });
        }
        let ended = exactly(incumbent, incumbent.judge.exact(), Pass::Relaxed, solving, clock)?;
        Ok(Ended { note: format!("{note}; then {}", ended.note), ..ended })
    })
}

/// Searches, or solves a whole model alone where one is given and there is time to build it; and how long that took.
///
/// # Errors
/// The solver refuses, or contradicts a schedule that there is.
pub fn search_or_solve<'p, P: Staged>(
    incumbent: &Incumbent<'p, P>,
    whole: Option<impl FnOnce() -> P::Relaxation<'p>>,
    solving: Solving,
    clock: Clock,
) -> Result<(Ended, Duration), MethodError> {
    let Some(whole) = whole else { return Ok((search(incumbent, solving, clock)?, Duration::ZERO)) };
    let size = incumbent.judge.stages() * incumbent.judge.columns();
    if !Pace::OF_MODELS.allows(size, &clock) {
        let note = "no time to build the exact model".into();
        return Ok((Ended { stop: Some(Stop::TimeLimit), note }, Duration::ZERO));
    }
    let began = Instant::now();
    let linear = whole();
    let build = began.elapsed();
    Ok((exactly(incumbent, linear, Pass::Whole, solving, clock)?, build))
}

/// Solves an exact model, rows as they are violated, from a pass on.
///
/// # Errors
/// The solver refuses, or contradicts a schedule that there is.
pub fn exactly<'p, P: Staged>(
    incumbent: &Incumbent<'p, P>,
    mut relaxation: P::Relaxation<'p>,
    from: Pass,
    solving: Solving,
    clock: Clock,
) -> Result<Ended, MethodError> {
    let interrupt = Some(incumbent.interrupt());
    let terms = Terms { clock, nodes: None, from, until: Pass::Whole, interrupt };
    let mut follower = Exact { incumbent, error: None };
    let Separated { outcome, solves, .. } = separate(&solving, &mut relaxation, terms, &mut follower)?;
    let note = format!(
        "{}: {}; {} in {solves} solves; {} nodes",
        outcome.solver,
        outcome.raw_status,
        outcome.size,
        outcome.nodes.map_or("unknown".into(), |nodes| nodes.to_string())
    );
    if outcome.stop == Stop::Infeasible {
        incumbent.refuted(&note)?;
    }
    Ok(Ended { stop: Some(outcome.stop), note })
}

/// Follows the exact model: every whole point is a candidate, every bound one on all schedules.
struct Exact<'e, P: Staged> {
    incumbent: &'e Incumbent<'e, P>,
    /// What went wrong while the solver worked.
    error: Option<MethodError>,
}

impl<P: Staged> Exact<'_, P> {
    fn offer(&self, relaxation: &P::Relaxation<'_>, point: &[f64]) -> Result<(), MethodError> {
        match self.incumbent.judge.expand(relaxation, point) {
            Some(solution) => self.incumbent.offer(solution).map(drop),
            None => Ok(()),
        }
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.error.is_some() { ControlFlow::Break(()) } else { self.incumbent.flow() }
    }
}

impl<'p, P: Staged> Follower<P::Relaxation<'p>> for Exact<'_, P> {
    /// What cannot be told apart from an optimum: times are whole.
    fn gap(&self) -> f64 {
        0.5
    }

    fn start(&self, relaxation: &P::Relaxation<'p>) -> Option<Vec<f64>> {
        self.incumbent.best().map(|best| self.incumbent.judge.point(relaxation, &best))
    }

    fn hear(&mut self, relaxation: &P::Relaxation<'p>, event: &Progress<'_>) -> ControlFlow<()> {
        if let Some(bound) = event.bound {
            self.incumbent.raise(relaxation.bound(bound));
        }
        if let Some(Err(error)) = event.values.map(|point| self.offer(relaxation, point)) {
            self.error = Some(error);
        }
        self.flow()
    }

    fn solved(
        &mut self,
        relaxation: &P::Relaxation<'p>,
        outcome: &Outcome,
        pass: Pass,
    ) -> Result<ControlFlow<()>, MethodError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        // Fewer rows, a lower optimum: every bound on the way is one.
        if let Some(bound) = outcome.dual_bound {
            self.incumbent.raise(relaxation.bound(bound));
        }
        if let Some(point) = outcome.incumbent.as_ref().filter(|_| pass == Pass::Whole) {
            self.offer(relaxation, point)?;
        }
        Ok(self.flow())
    }
}

/// The answer that the incumbent and the end of a search amount to.
///
/// # Errors
/// The best schedule is not legal: a slip of the method.
pub fn answer<J: Judge>(
    incumbent: &Incumbent<'_, J>,
    budget: Option<u64>,
    ended: Ended,
    build: Duration,
    solve: Duration,
) -> Result<Answer, MethodError> {
    let best = incumbent.best();
    let infeasible = ended.stop == Some(Stop::Infeasible);
    let termination = match (&best, ended.stop) {
        (Some(_), _) if incumbent.is_optimal() => Termination::Optimal,
        (Some(_), _) if incumbent.is_enough() => Termination::GapReached,
        // A solution within the solver's tolerance that is not within the budget leaves the question open.
        (Some(_), None | Some(Stop::Optimal | Stop::GapReached)) => Termination::Feasible,
        (None, None | Some(Stop::Optimal | Stop::GapReached)) => Termination::NotFound,
        (_, Some(stop)) => stop.into(),
    };
    let (schedule, claimed) = match best.map(|best| incumbent.judge.admit(&best)).transpose()? {
        Some(Ok((schedule, claimed))) => (Some(schedule), Some(claimed)),
        _ => (None, None),
    };
    let note = [Some(ended.note), incumbent.rejected()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let lower_bound = incumbent.reported_bound().filter(|_| !infeasible);
    Ok(Answer { budget, termination, schedule, claimed, lower_bound, claim: None, build, solve, note })
}
