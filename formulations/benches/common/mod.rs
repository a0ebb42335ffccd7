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
