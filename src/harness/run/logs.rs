//! What solvers print while a run lasts: one file per run, written by the system as it comes, so that it
//! survives whatever happens to worker and parent, and cut to a readable length afterwards.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::plan::{Run, RunBudget};
use crate::ground::host::timestamp;
use crate::harness::records::paths::path_of;

/// Bytes that are kept of the beginning, and of the end, of a log.
const KEPT: usize = 256 << 10;

/// `logs/<instance>/<method>[<parameters>]+seed<seed>.log` (no seed 0): one file for all budgets of a run.
pub fn path(folder: &Path, run: &Run) -> PathBuf {
    let parts = [run.method.id(), &run.parameters.to_string(), ""];
    path_of(folder, run.subject.instance.name(), parts, run.seed, "log")
}

/// Begins a run's part of its log; nothing where the file cannot be written, which is no reason not to run.
pub fn open(folder: &Path, run: &Run, budgets: &[RunBudget]) -> Option<PathBuf> {
    let path = path(folder, run);
    std::fs::create_dir_all(path.parent()?).ok()?;
    let path = path.canonicalize().or_else(|_| std::path::absolute(&path)).ok()?;
    let texts: Vec<_> = budgets.iter().map(|budget| budget.text.as_str()).filter(|text| !text.is_empty()).collect();
    let at = if texts.is_empty() { String::new() } else { format!(" at {}", texts.join(" ")) };
    let mut file = OpenOptions::new().create(true).append(true).open(&path).ok()?;
    writeln!(file, "{HEAD} {}: {}{at}", timestamp(), run.label()).ok()?;
    Some(path)
}

/// Begins the line that says which run follows.
const HEAD: &str = "# bench";

/// Leaves out the middle of a long log, and removes one in which no solver said anything.
pub fn trim(path: &Path) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let silent = bytes.split(|&byte| byte == b'\n').all(|line| line.is_empty() || line.starts_with(HEAD.as_bytes()));
    // A log that cannot be trimmed stays as it is.
    if silent {
        let _ = std::fs::remove_file(path);
        // Holds other logs, mostly.
        let _ = path.parent().map(std::fs::remove_dir);
    } else if bytes.len() > 2 * KEPT + KEPT / 4 {
        let _ = std::fs::write(path, shortened(&bytes));
    }
}

fn shortened(bytes: &[u8]) -> Vec<u8> {
    let (head, tail) = (&bytes[..KEPT], &bytes[bytes.len() - KEPT..]);
    let left_out = bytes.len() - 2 * KEPT;
    [head, format!("\n{HEAD}: {left_out} bytes left out here\n").as_bytes(), tail].concat()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn long_logs_lose_their_middle_and_silent_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net/a.log");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let text = format!("# bench now: a\nfirst\n{}\nlast\n", "x".repeat(4 * KEPT));
        std::fs::write(&path, &text).unwrap();
        trim(&path);
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.starts_with("# bench now: a\nfirst\n") && kept.ends_with("\nlast\n"));
        assert!(kept.contains(&format!("{} bytes left out", text.len() - 2 * KEPT)), "{}", kept.len());
        std::fs::write(&path, "# bench now: a\n# bench later: a\n").unwrap();
        trim(&path);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }
}
