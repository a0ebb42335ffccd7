//! What is known of one budget while it is worked on: the best solution, the highest bound, and whether that is
//! enough. Shared by all threads; what is new leaves for the reporter at once.
//!
//! Three rules stand here and nowhere else.
//! * A bound that a solver states is lowered by its tolerance ([`TOLERANCE`], relative to the whole time, or to a single run that
//!   takes longer), then rounded up to the next whole number: [`certain_bound`].
//! * A solution is optimal when it exceeds the bound by no more than that tolerance: [`proves`].
//! * A solver that calls infeasible what has a solution contradicts itself; the answer is an error, and the
//!   solution is not dropped: [`Incumbent::refuted`].

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remat_core::Schedule;
use remat_solvers::Stop;

use crate::method::report::{Progress, Reporter};
use crate::method::{Claimed, MethodError};
use crate::setting;

/// By stage (and one more) and value, whether the value is there when the stage begins.
pub type Kept = Vec<Vec<bool>>;

/// Solvers' tolerance, as a part of the whole time.
pub const TOLERANCE: f64 = 1e-6;

/// The bound that a solver's bound on the time proves, where the longest time of its objective is so much: a solver's tolerances
/// are about that.
pub fn certain_bound(time: f64, longest: f64) -> u64 {
    if !time.is_finite() {
        return 0;
    }
    let certain = (time - TOLERANCE * time.abs().max(longest).max(1.0)).max(0.0).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^63")]
    let certain = certain as u64;
    certain
}

/// Whether a bound proves a time optimal within the tolerance.
pub fn proves(bound: u64, time: u64) -> bool {
    bound >= least_proving(time)
}

/// The least bound that proves a time optimal within the tolerance.
pub fn least_proving(time: u64) -> u64 {
    // A little more, for the rounding of the sums themselves.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below the time")]
    let within = (1.001 * TOLERANCE * time as f64) as u64;
    time - within
}

setting! {
    /// relative gap at which to stop, in parts per million of the time
    pub Gap("gap-ppm"): number from 0 to 1_000_000 = 0
}

/// Judges solutions of one budget.
pub trait Judge: Sync {
    /// A solution in the method's own terms.
    type Solution: Send + Sync;
    /// A time that no schedule undercuts, in the model's unit.
    fn least_time(&self) -> u64;
    /// Its time, in the model's unit.
    fn time(&self, solution: &Self::Solution) -> u64;
    /// Its schedule and claim, or why it does not count: over the budget, say.
    ///
    /// # Errors
    /// The schedule is not legal: a slip of the method.
    fn admit(&self, solution: &Self::Solution) -> Result<Result<(Schedule, Claimed), String>, MethodError>;
    /// A bound in the instance's unit, where a bound in the model's unit is one.
    fn bound(&self, bound: u64) -> Option<u64> {
        Some(bound)
    }
}

/// What is known of one budget.
pub struct Incumbent<'a, J: Judge> {
    /// Who judges solutions.
    pub judge: &'a J,
    reporter: &'a dyn Reporter,
    index: usize,
    /// Relative gap at which the search may stop.
    gap: f64,
    best: Mutex<Option<Arc<J::Solution>>>,
    bound: AtomicU64,
    /// What the last solution of a relaxation keeps; it need not fit.
    guide: Mutex<Option<Arc<Kept>>>,
    /// Why the last candidate did not count.
    rejected: Mutex<Option<String>>,
    done: AtomicBool,
}

/// The value of a mutex; a thread that panicked left a whole value or none.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, J: Judge> Incumbent<'a, J> {
    /// Nothing is known yet of the budget at a position.
    pub fn new(judge: &'a J, reporter: &'a dyn Reporter, index: usize, gap: f64) -> Self {
        Self {
            judge,
            reporter,
            index,
            gap,
            best: Mutex::default(),
            bound: AtomicU64::new(judge.least_time()),
            guide: Mutex::default(),
            rejected: Mutex::default(),
            done: AtomicBool::new(false),
        }
    }

    /// Asks whether more is wanted.
    pub fn hear(&self) {
        if !self.reporter.wants_more(self.index) {
            self.finish();
        }
    }

    /// Takes a solution if it is better and counts; whether it was taken.
    ///
    /// # Errors
    /// Its schedule is not legal.
    pub fn offer(&self, solution: J::Solution) -> Result<bool, MethodError> {
        let time = self.judge.time(&solution);
        if self.time().is_some_and(|best| best <= time) {
            return Ok(false);
        }
        let (schedule, claimed) = match self.judge.admit(&solution)? {
            Ok(admitted) => admitted,
            Err(reason) => {
                *lock(&self.rejected) = Some(format!("a solution of {time} was rejected: {reason}"));
                return Ok(false);
            }
        };
        let mut best = lock(&self.best);
        if best.as_ref().is_some_and(|best| self.judge.time(best) <= time) {
            return Ok(false);
        }
        *best = Some(Arc::new(solution));
        // Under the lock, so that incumbents are reported in their order.
        self.reporter.report(self.index, Progress::incumbent(schedule, claimed));
        drop(best);
        if self.is_enough() {
            self.finish();
        }
        Ok(true)
    }

    /// Takes a bound in the model's unit.
    pub fn raise(&self, bound: u64) {
        if self.bound.fetch_max(bound, Ordering::Relaxed) < bound {
            match self.judge.bound(bound) {
                Some(bound) => self.reporter.report(self.index, Progress::bound(bound)),
                // How far it has come, at least.
                None => self.effort(bound),
            }
            if self.is_enough() {
                self.finish();
            }
        }
    }

    /// Passes on how much was done so far: nodes, say.
    pub fn effort(&self, effort: u64) {
        self.reporter.report(self.index, Progress::default().after(effort));
    }

    /// The best solution.
    pub fn best(&self) -> Option<Arc<J::Solution>> {
        lock(&self.best).clone()
    }

    /// Time of the best solution.
    pub fn time(&self) -> Option<u64> {
        lock(&self.best).as_ref().map(|best| self.judge.time(best))
    }

    /// The highest bound, in the model's unit.
    pub fn bound(&self) -> u64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// The highest bound, in the instance's unit.
    pub fn reported_bound(&self) -> Option<u64> {
        self.judge.bound(self.bound())
    }

    /// What is left between the best solution and the bound.
    pub fn open(&self) -> Option<u64> {
        self.time().map(|time| time.saturating_sub(self.bound()))
    }

    /// Whether a time is as close to the bound as was asked for.
    fn is_close(&self, time: u64) -> bool {
        let bound = self.bound();
        proves(bound, time) || time.saturating_sub(bound) as f64 <= self.gap * time as f64
    }

    /// Whether the best solution is as good as was asked for.
    pub fn is_enough(&self) -> bool {
        self.time().is_some_and(|time| self.is_close(time))
    }

    /// Whether the best solution is proved to be optimal within the tolerance.
    pub fn is_optimal(&self) -> bool {
        self.time().is_some_and(|time| proves(self.bound(), time))
    }

    /// A solver says that there is no solution.
    ///
    /// # Errors
    /// There is one.
    pub fn refuted(&self, note: &str) -> Result<(), MethodError> {
        let error = |time| MethodError::Internal(format!("{note}: infeasible, though there is a schedule of {time}"));
        self.time().map_or(Ok(()), |time| Err(error(time)))
    }

    /// Takes what a solution of a relaxation keeps; it may exceed the budget.
    pub fn set_guide(&self, kept: Kept) {
        *lock(&self.guide) = Some(Arc::new(kept));
    }

    /// What the last solution of a relaxation keeps.
    pub fn guide(&self) -> Option<Arc<Kept>> {
        lock(&self.guide).clone()
    }

    /// Why the last candidate did not count, for the note.
    pub fn rejected(&self) -> Option<String> {
        lock(&self.rejected).clone()
    }

    /// Nothing more is wanted.
    pub fn finish(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// Whether nothing more is wanted: the best solution is as good as was asked for, or somebody says so.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Why nothing more is wanted; none while something is.
    pub fn stop(&self) -> Option<Stop> {
        self.is_done().then(|| if self.is_enough() { Stop::Optimal } else { Stop::Interrupted })
    }

    /// Whether a solver that is at work goes on.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Set once nothing more is wanted; solvers are interrupted by it.
    pub fn interrupt(&self) -> &AtomicBool {
        &self.done
    }
}
