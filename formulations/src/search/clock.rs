//! How long something may take.

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
