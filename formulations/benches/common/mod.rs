//! What several benchmarks measure with.
#![allow(dead_code, reason = "each benchmark uses its part")]

use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use remat_core::chain::Chain;
use remat_core::chain_file::{ChainFile, Scale};

/// CPU time of this process so far.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the system counts CPU time");
    Duration::from(time).as_secs_f64()
}

/// A reference chain of Rotor's authors; `file` is relative to this crate.
pub fn reference_chain(file: &str) -> Chain {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(path).expect("the reference chains are in the repository");
    let value: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    let file: ChainFile = serde_json::from_value(value["chain"].clone()).expect("with six arrays");
    file.chain(Scale { time: None, memory: None }).expect("of whole numbers")
}

/// Most bytes that a run had in memory beyond those that were there before, as the kernel counts them (Linux).
pub fn peak_bytes(run: impl FnOnce()) -> usize {
    // Resets the high-water mark of this process.
    std::fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own high-water mark");
    let before = resident("VmRSS:");
    run();
    resident("VmHWM:").saturating_sub(before)
}

fn resident(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel says how it is");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("with its memory");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("in kB")
}
