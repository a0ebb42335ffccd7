//! How long something may take, and how long what cannot be stopped is expected to take.

use std::time::{Duration, Instant};

/// A clock that started at some moment, with a limit or none.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
    limit: Option<Duration>,
}

impl Clock {
    /// Starts now.
    pub fn start(limit: Option<Duration>) -> Self {
        Self { began: Instant::now(), limit }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time left; none where there is no limit.
    pub fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.began.elapsed()))
    }

    /// The share of the time that is over; 0 where there is no limit.
    pub fn progress(&self) -> f64 {
        self.limit.map_or(0.0, |limit| (self.elapsed().as_secs_f64() / limit.as_secs_f64().max(1e-9)).min(1.0))
    }

    /// Whether less than this is left.
    pub fn has_less_than(&self, time: Duration) -> bool {
        self.left().is_some_and(|left| left < time)
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// A clock that starts now with one of so many parts of what is left.
    #[must_use]
    pub fn share(&self, parts: u32) -> Self {
        Self::start(self.left().map(|left| left / parts.max(1)))
    }

    /// A clock that starts now with all but one of so many parts of what is left.
    #[must_use]
    pub fn all_but(&self, parts: u32) -> Self {
        Self::start(self.left().map(|left| left.saturating_sub(left / parts.max(1))))
    }

    /// A clock that starts now with what is left but so much.
    #[must_use]
    pub fn without(&self, time: Duration) -> Self {
        Self::start(self.left().map(|left| left.saturating_sub(time)))
    }

    /// A clock that starts now with what is left, or with less.
    #[must_use]
    pub fn at_most(&self, time: Duration) -> Self {
        Self::start(Some(self.left().map_or(time, |left| left.min(time))))
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }
}

/// How long something takes that nothing stops once it has begun, by its size: building a model, say, and presolving it.
/// A guess at first, then as slow as it was found to be.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Seconds for one unit of size.
    seconds: f64,
}

impl Pace {
    /// Linear models, by rows and columns of the grid over which they are stated: blocks or stages, times values.
    pub const OF_MODELS: Self = Self { seconds: 2e-5 };
    /// Constraint models, likewise: what a linear solver is given of one is larger than the grid.
    pub const OF_CONSTRAINTS: Self = Self { seconds: 6e-5 };
    /// Neighbourhoods without their solution, by stages times values.
    pub const OF_NEIGHBOURHOODS: Self = Self { seconds: 1e-7 };

    /// Takes note of how long something of a size took.
    pub fn learn(&mut self, size: usize, took: Duration) {
        self.seconds = self.seconds.max(took.as_secs_f64() / size.max(1) as f64);
    }

    /// The largest size that is expected to be done before a clock's time is up.
    pub fn most(&self, clock: &Clock) -> f64 {
        clock.left().map_or(f64::INFINITY, |left| left.as_secs_f64() / self.seconds)
    }

    /// Whether something of a size is expected to be done before a clock's time is up.
    pub fn allows(&self, size: usize, clock: &Clock) -> bool {
        size as f64 <= self.most(clock)
    }
}
