//! Rows in CSV files: read as a whole, and written as a whole.

use std::io;
use std::path::Path;

use remat_core::io::replace;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ground::failure::Failure;

/// The rows of a file; none where it is not there.
///
/// # Errors
/// The file cannot be read or a row is of another shape; then `remedy` says what helps.
pub fn read<T: DeserializeOwned>(path: &Path, remedy: &str) -> Result<Vec<T>, Failure> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let wrong = |error: csv::Error| {
        let error = error.to_string().replace('\n', " ");
        Failure::at(path)(format!("{error}; {remedy}"))
    };
    csv::Reader::from_path(path).map_err(wrong)?.into_deserialize().collect::<Result<_, _>>().map_err(wrong)
}

/// Writes rows beside and then over the old file, and makes the folder before.
///
/// # Errors
/// The file cannot be written.
pub fn write<T: Serialize>(path: &Path, rows: impl IntoIterator<Item = T>) -> Result<(), Failure> {
    let failed = Failure::cannot("write", path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let fill = |out: &mut dyn io::Write| {
        let mut writer = csv::Writer::from_writer(out);
        rows.into_iter().try_for_each(|row| writer.serialize(row))?;
        writer.flush()
    };
    replace(path, fill).map_err(failed)
}
