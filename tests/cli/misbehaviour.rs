//! Methods that misbehave on request, and what it takes to watch them; no release build has them.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::checkout::{Checkout, Done, rows};

/// Rows of the first instance that a run of the suite `mini` writes before it comes to `rotor-persistent`.
const ROWS_BEFORE_ROTOR: usize = 5;

impl Checkout {
    /// Runs a command in which a method misbehaves.
    pub fn with_fault(&self, fault: &str, arguments: &str) -> Done {
        self.command(arguments).env("BENCH_TEST_FAULT", fault).output().unwrap().into()
    }

    /// Starts a run in which `rotor-persistent` never returns, and waits until it has begun to.
    pub fn start_hanging(&self, arguments: &str, records: &str) -> Hanging {
        let mut command = self.command(arguments);
        let child =
            command.env("BENCH_TEST_FAULT", "rotor-persistent:hang").stdout(Stdio::piped()).stderr(Stdio::piped());
        let hanging = Hanging { child: child.spawn().unwrap() };
        // store-all and the sweep of sequential come first.
        let settled = || rows(&self.path(records)).len() == ROWS_BEFORE_ROTOR && hanging.worker().is_some();
        wait_until("the method hangs", settled);
        hanging
    }
}

/// A run whose worker hangs.
pub struct Hanging {
    pub child: Child,
}

impl Hanging {
    /// Process id of the worker.
    pub fn worker(&self) -> Option<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let children = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        children.collect::<String>().split_whitespace().next()?.parse().ok()
    }
}

/// Whether a process is gone, or a zombie that nobody has buried.
pub fn is_gone(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// Waits for something that must happen, for two minutes.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
