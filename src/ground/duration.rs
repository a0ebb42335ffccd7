//! Limits in seconds as people write them.

use std::time::Duration;

/// The longest limit, 31 years: a deadline that far ahead still is a time that the system can count.
const MOST_SECONDS: f64 = 1e9;

/// A limit of so many seconds; none unless they are above 0 and at most [`MOST_SECONDS`].
pub fn limit(seconds: f64) -> Option<Duration> {
    let sane = seconds > 0.0 && seconds <= MOST_SECONDS;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| sane).filter(|limit| !limit.is_zero())
}
