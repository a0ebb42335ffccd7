//! Starts the executor: Python with the profiler's package, in its virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Device;
use crate::ground::failure::Failure;

/// Names the Python to use instead of the one in the profiler's virtual environment.
const PYTHON: &str = "REMAT_PYTHON";

/// The Python that has torch: `$REMAT_PYTHON`, or that of the virtual environment which
/// `scripts/profiler-venv.sh` names.
///
/// # Errors
/// There is none.
pub fn python(root: &Path) -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(PYTHON) {
        return Ok(named.into());
    }
    let script = root.join("scripts/profiler-venv.sh");
    let said = Command::new(&script)
        .output()
        .map_err(|error| Failure::at(&script)(format!("cannot run: {error}; name a Python with torch in {PYTHON}")))?;
    let python = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()).join("bin/python");
    if python.is_file() {
        return Ok(python);
    }
    Err(Failure::input(format!(
        "{}: not there; make it with scripts/setup.sh --profiler, or name a Python with torch in {PYTHON}",
        python.display()
    )))
}

/// Works through a list of replays; what is there already is not run again.
///
/// # Errors
/// No Python, or the executor refuses its request or is interrupted.
pub fn run(root: &Path, list: &Path, device: Device, repeat: usize) -> Result<(), Failure> {
    let package = std::path::absolute(root.join("profiler")).map_err(Failure::failed)?;
    let there = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let paths =
        std::iter::once(package).chain(std::env::split_paths(&there).filter(|path| !path.as_os_str().is_empty()));
    let paths = std::env::join_paths(paths).map_err(Failure::failed)?;
    let status = Command::new(python(root)?)
        .args(["-u", "-m", "remat_profiler", "replay-batch"])
        .arg(list)
        .args(["--device", device.name(), "--repeat", &repeat.to_string()])
        .env("PYTHONPATH", paths)
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| Failure::failed(format!("the executor cannot be started: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(130) | None => Err(Failure::Interrupted("the replay was interrupted; run the same again to go on".into())),
        Some(code) => Err(Failure::failed(format!("the executor ended with exit code {code}; its words are above"))),
    }
}
