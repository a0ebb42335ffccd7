//! What the threads that work on one budget tell each other: the best decisions, the bound, and that it is over.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::monet::decisions::Decisions;

/// By stage (and one more) and node, whether a value is there when the stage begins.
pub type Kept = Vec<Vec<bool>>;

/// What is known of a budget by all threads.
#[derive(Debug, Default)]
pub struct Board {
    best: Mutex<Option<Decisions>>,
    /// What the last solution of a relaxation keeps.
    guide: Mutex<Option<Kept>>,
    changed: Condvar,
    bound: AtomicI64,
    /// Whether nothing more is wanted; solvers are interrupted by it.
    pub done: AtomicBool,
}

impl Board {
    fn lock_guide(&self) -> MutexGuard<'_, Option<Kept>> {
        self.guide.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Decisions>> {
        // A thread that panicked left whole decisions or none.
        self.best.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes decisions that are better than what is here; whether they were.
    pub fn offer(&self, found: &Decisions) -> bool {
        let mut best = self.lock();
        let better = best.as_ref().is_none_or(|best| found.time() < best.time());
        if better {
            *best = Some(found.clone());
            self.changed.notify_all();
        }
        better
    }

    /// The best decisions.
    pub fn best(&self) -> Option<Decisions> {
        self.lock().clone()
    }

    /// The best decisions as soon as there are some; none once nothing more is wanted.
    pub fn wait(&self) -> Option<Decisions> {
        let mut best = self.lock();
        while best.is_none() && !self.is_done() {
            best = self.changed.wait(best).unwrap_or_else(PoisonError::into_inner);
        }
        best.clone().filter(|_| !self.is_done())
    }

    /// Takes what a solution of a relaxation keeps; it may exceed the capacity.
    pub fn guide(&self, kept: &Kept) {
        *self.lock_guide() = Some(kept.clone());
    }

    /// What the last solution of a relaxation keeps.
    pub fn guided(&self) -> Option<Kept> {
        self.lock_guide().clone()
    }

    /// Takes a bound.
    pub fn raise(&self, bound: i64) {
        self.bound.fetch_max(bound, Ordering::Relaxed);
    }

    /// The highest bound.
    pub fn bound(&self) -> i64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Nothing more is wanted.
    pub fn finish(&self) {
        // Under the lock, so that nobody begins to wait in between.
        let best = self.lock();
        self.done.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        drop(best);
    }

    /// Whether nothing more is wanted.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}
