//! The one module that prints: results to standard output, everything else to standard error; and tables
//! that are written as a whole.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::text;

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

/// Writes rows as CSV, beside and then over the old file.
///
/// # Errors
/// The file cannot be written.
pub fn write_csv<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), Failure> {
    let failed = |error: String| Failure::failed(format!("{}: cannot write: {error}", path.display()));
    let partial = path.with_extension("csv.partial");
    let mut writer = csv::Writer::from_path(&partial).map_err(|error| failed(error.to_string()))?;
    for row in rows {
        writer.serialize(row).map_err(|error| failed(error.to_string()))?;
    }
    writer.flush().map_err(|error| failed(error.to_string()))?;
    drop(writer);
    std::fs::rename(&partial, path).map_err(|error| failed(error.to_string()))
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
