//! From a budget to its answer: schedules to start from, the refinement of blocks on one thread and neighbourhoods on
//! all others, then the exact model; where that is small, another thread turns to it once a quarter of the time brings no
//! better schedule.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
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

impl Ended {
    fn is_infeasible(&self) -> bool {
        self.stop == Some(Stop::Infeasible)
    }
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
    let explore = |part| Explorer::new(solving.seed, part).run(incumbent, &solving, clock);
    beside(incumbent, solving, clock, explore, search).map(|(found, _)| found)
}

/// Runs a search beside others of the same incumbent, which are told their numbers from 1 on; what each came to.
fn beside<P: Staged, T, O: Send>(
    incumbent: &Incumbent<'_, P>,
    solving: Solving,
    clock: Clock,
    other: impl Fn(usize) -> Result<O, MethodError> + Sync,
    search: impl FnOnce(Solving, usize) -> Result<T, MethodError>,
) -> Result<(T, Vec<O>), MethodError> {
    let others = if clock.is_limited() { solving.threads.saturating_sub(1) } else { 0 };
    std::thread::scope(|scope| {
        let other = &other;
        let running: Vec<_> = (1..=others).map(|part| scope.spawn(move || other(part))).collect();
        let found = search(Solving { threads: solving.threads - others, ..solving }, others);
        incumbent.finish();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let others = running.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok((found?, others))
    })
}

/// Searches until the incumbent is good enough, nothing is left to try, or the time is up.
///
/// # Errors
/// The solver refuses, or contradicts a schedule that there is.
pub fn search<P: Staged>(incumbent: &Incumbent<'_, P>, solving: Solving, clock: Clock) -> Result<Ended, MethodError> {
    let small = incumbent.judge.is_small();
    let taken = AtomicBool::new(false);
    // By one thread at most.
    let exact = |solving| {
        let free = !taken.swap(true, Ordering::Relaxed);
        free.then(|| exactly(incumbent, incumbent.judge.exact(), Pass::Relaxed, solving, clock)).transpose()
    };
    let other = |part| {
        let mut explorer = Explorer::new(solving.seed, part);
        let mut ended = None;
        if small && part == 1 {
            let quarter = clock.left().map_or(Duration::ZERO, |left| left / 4);
            loop {
                let before = incumbent.time();
                explorer.run(incumbent, &solving, clock.at_most(quarter))?;
                if incumbent.is_done() || clock.is_over() || incumbent.time() == before {
                    break;
                }
            }
            let size = incumbent.judge.stages() * incumbent.judge.columns();
            if !incumbent.is_done() && Pace::OF_MODELS.allows(size, &clock) {
                ended = exact(Solving { threads: 1, ..solving })?;
            }
            if ended.as_ref().is_some_and(Ended::is_infeasible) {
                incumbent.finish();
            }
        }
        explorer.run(incumbent, &solving, clock)?;
        Ok(ended)
    };
    let (ended, others) = beside(incumbent, solving, clock, other, |solving, explorers| {
        let mut refinement = Refinement::new(incumbent, solving, clock, explorers);
        if small && explorers == 0 {
            refinement = refinement.until(clock.share(2));
        }
        let stop = refinement.run()?;
        let note = std::mem::take(&mut refinement.note);
        if !matches!(stop, None | Some(Stop::TimeLimit)) || clock.is_over() {
            return Ok(Ended { stop, note });
        }
        let wanted = (small || stop.is_none()) && refinement.allows_exact(&clock);
        if let Some(ended) = wanted.then(|| exact(solving)).transpose()?.flatten() {
            return Ok(Ended { note: format!("{note}; then {}", ended.note), ..ended });
        }
        refinement.explore(clock)?;
        Ok(Ended { stop: Some(Stop::TimeLimit), note })
    })?;
    let Some(beside) = others.into_iter().flatten().next() else { return Ok(ended) };
    let stop = if beside.is_infeasible() { beside.stop } else { ended.stop };
    Ok(Ended { stop, note: format!("{}; beside that {}", ended.note, beside.note) })
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
    let infeasible = ended.is_infeasible();
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
