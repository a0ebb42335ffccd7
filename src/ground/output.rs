//! The one module that prints: results to standard output, everything else to standard error; and what writes files.

use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ground::failure::Failure;
use crate::ground::text;

/// Prints a result, with a newline at the end where it has none.
///
/// A reader that went away (`bench table | head`) is no error.
///
/// # Errors
/// Standard output cannot be written, for example because the disk behind it is full.
pub fn result(text: &str) -> Result<(), Failure> {
    let text = text::terminal(text);
    let mut out = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Columns of the terminal that standard output is, or that COLUMNS says; 100 where nobody says.
pub fn width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|&width| width > 0);
    named.or(terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))).unwrap_or(100)
}

/// Makes a folder, and those above it.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(Failure::cannot("make the folder", path))
}

/// Makes the folder and writes the file.
///
/// # Errors
/// Either fails.
pub fn write_file<E: Display>(path: &Path, contents: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), Failure> {
    make_folder(path.parent().unwrap_or(path))?;
    contents(path).map_err(Failure::failed)
}

/// Writes a file beside the old one and then over it.
///
/// # Errors
/// It cannot be written.
pub fn replace_file(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    remat_core::io::replace(path, |out| out.write_all(contents.as_ref())).map_err(Failure::cannot("write", path))
}

/// Refuses a file that could not be written, before the work that it is for.
///
/// # Errors
/// Its folder cannot be written, or it is a folder.
pub fn could_write(path: &Path) -> Result<(), Failure> {
    remat_core::io::could_replace(path).map_err(Failure::cannot("write", path))
}

/// Refuses to write over what is read, and to write two files in one place.
///
/// # Errors
/// An output is an input, or another output.
pub fn keep_apart(inputs: &[&Path], outputs: &[Option<&PathBuf>]) -> Result<(), Failure> {
    let mut taken: Vec<PathBuf> = inputs.iter().filter_map(|path| place(path)).collect();
    for path in outputs.iter().copied().flatten() {
        let place = place(path);
        if place.as_ref().is_some_and(|place| taken.contains(place)) {
            let path = path.display();
            return Err(Failure::input(format!(
                "{path}: this command reads or writes that file already; name another"
            )));
        }
        taken.extend(place);
    }
    Ok(())
}

/// Where a file is, or would be; none of a pipe or a device, which several may write to.
fn place(path: &Path) -> Option<PathBuf> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => None,
        Ok(_) => std::fs::canonicalize(path).ok(),
        Err(_) => {
            let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
            Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
        }
    }
}

/// Makes a folder and has it for oneself until the handle is dropped: whoever else asks waits.
///
/// # Errors
/// It cannot be made or locked.
pub fn hold(folder: &Path) -> Result<File, Failure> {
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let held = std::fs::create_dir_all(place).and_then(|()| File::open(place));
    held.and_then(|held| held.lock().map(|()| held)).map_err(Failure::cannot("be locked", place))
}

/// Removes what writers that were killed left in a folder and below: files named `*.partial`, of at least some age
/// where others may be writing. What cannot be removed stays: it is in nobody's way.
pub fn sweep(folder: &Path, age: Option<Duration>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = entry.metadata() else { continue };
        let old = |age: Duration| metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|passed| passed >= age));
        if metadata.is_dir() {
            sweep(&path, age);
        } else if path.extension().is_some_and(|extension| extension == "partial") && age.is_none_or(old) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Prints a line of information to standard error.
pub fn info(text: &str) {
    line(text);
}

/// Prints the line that explains a failure.
pub fn error(text: &str) {
    line(&format!("error: {}", text::line(text)));
}

fn line(text: &str) {
    // Where standard error itself is gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{}", text::terminal(text));
}
