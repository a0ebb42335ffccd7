//! Runs: what a suite expands to, the child processes that do the work, and the rows that come out.

pub mod child;
pub mod execute;
mod group;
pub mod job;
pub mod journal;
pub mod judge;
pub mod logs;
pub mod messenger;
pub mod plan;
pub mod program;
pub mod progress;
pub mod session;

pub use execute::{Conditions, Row, execute};
pub use job::Allowance;
pub use plan::Run;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::ground::failure::{Failure, INTERRUPTED};

/// A flag that an interrupt or a request to end sets.
///
/// # Errors
/// The signals cannot be caught.
pub fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::failed(format!("cannot catch interrupts: {error}")))?;
    }
    Ok(stop)
}

/// Lets an interrupt or a request to end do so at once, where nobody looks at the flag any more.
///
/// # Errors
/// The signals cannot be caught.
pub fn end_at_once() -> Result<(), Failure> {
    let now = Arc::new(AtomicBool::new(true));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), now.clone())
            .map_err(|error| Failure::failed(format!("cannot catch interrupts: {error}")))?;
    }
    Ok(())
}
