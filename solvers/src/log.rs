//! Whether solvers write their own logs, to the process's standard output. Off unless a process asks
//! for it: one that runs a single method, and has sent its standard output to a file.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on every solver writes its log to standard output.
pub fn enable() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether solvers are to write their logs.
pub(crate) fn wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}
