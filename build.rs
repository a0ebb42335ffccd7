//! Hashes what decides the answers of methods: their sources, the simulator's, the solvers', those of the
//! runner, the locked dependencies and how everything is compiled. Results are reused only where it agrees.

use std::env;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 7] = [
    "core/src",
    "formulations/src",
    "solvers/src",
    "src/harness/run",
    "src/harness/baseline.rs",
    "src/commands/worker.rs",
    "Cargo.lock",
];
const OPTIONS: [&str; 5] = ["TARGET", "OPT_LEVEL", "DEBUG_ASSERTIONS", "CARGO_FEATURE_CBC", "CARGO_ENCODED_RUSTFLAGS"];

fn main() -> std::io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    for option in OPTIONS {
        hasher.update(format!("{option}={}\n", env::var(option).unwrap_or_default()).as_bytes());
    }
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        let mut files = Vec::new();
        collect(Path::new(source), &mut files)?;
        files.sort();
        for file in files {
            let text = std::fs::read(&file)?;
            hasher.update(format!("{} {}\n", file.display(), text.len()).as_bytes());
            hasher.update(&text);
        }
    }
    println!("cargo:rustc-env=BENCH_SOURCES={}", &hasher.finalize().to_hex()[..16]);
    Ok(())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
