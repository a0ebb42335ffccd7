//! Reading and writing instance and schedule files: JSON, optionally zstd- or gzip-compressed.
//!
//! The compression follows from the file name (`.json`, `.json.zst`, `.json.gz`). What a file may expand to,
//! and of how many elements it may consist, is bounded before anything is built of it (`bounded`). Every error
//! names the file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use thiserror::Error;

use crate::bounded::{self, Excess, Found};

use crate::format::InstanceDocument;
use crate::instance::{Instance, InstanceError};
use crate::schedule::{Schedule, ScheduleDocument, ScheduleError};

/// Characters of a message that quotes a file.
const LONGEST_MESSAGE: usize = 1000;
/// For files that are written once and read for years.
const ZSTD_LEVEL: i32 = 19;
/// For files that are written by the hundred.
const ZSTD_QUICK_LEVEL: i32 = 3;

/// A file that could not be read or written, or does not hold what it should.
#[derive(Debug, Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// `open`, `write`, ...
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The name ends in none of the known extensions.
    #[error("{path}: unknown kind of file; expected a name ending in .json, .json.zst or .json.gz")]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// More than this program takes unless it is told to.
    #[error("{path}: {excess}")]
    Excess {
        /// The file.
        path: PathBuf,
        /// What there is too much of, and what lifts the limit.
        excess: Excess,
    },
    /// Not UTF-8 text, but something that can be named.
    #[error("{path}: {found}")]
    Found {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do.
        found: Found,
    },
    /// The text is not JSON, or not of the expected shape.
    #[error("{path}: at {element}: {message}; docs/reference/formats.md describes every field")]
    Json {
        /// The file.
        path: PathBuf,
        /// Path of the element, e.g. `operators[3].implementations[0].time`.
        element: String,
        /// What was expected and found, with line and column.
        message: String,
    },
    /// A rule of the instance format is broken.
    #[error("{path}: {source}")]
    Instance {
        /// The file.
        path: PathBuf,
        /// The rule.
        source: InstanceError,
    },
    /// A schedule does not belong to the instance.
    #[error("{path}: {source}")]
    Schedule {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        source: ScheduleError,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Zstd,
    Gzip,
}

impl Compression {
    fn of(path: &Path) -> Result<Self, FileError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kinds = [(".json", Self::None), (".json.zst", Self::Zstd), (".json.gz", Self::Gzip)];
        kinds
            .into_iter()
            .find_map(|(ending, compression)| name.ends_with(ending).then_some(compression))
            .ok_or_else(|| FileError::Extension { path: path.to_owned() })
    }
}

fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io { path, action, source }
}

/// Reads a JSON document of a given shape.
///
/// # Errors
/// The file cannot be opened, is compressed otherwise than its name says, is too large, or is not of that shape.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    parse_json(path, &read_bytes(path)?)
}

/// The JSON text of a file, decompressed, within the limits.
///
/// # Errors
/// The file cannot be opened, is compressed otherwise than its name says, or is too large.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let compression = Compression::of(path)?;
    let file = File::open(path).map_err(io_error(path, "open"))?;
    let reader: Box<dyn Read> = match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
        Compression::Zstd => Box::new(zstd::Decoder::new(file).map_err(io_error(path, "decompress"))?),
    };
    // Of what the name says is compressed, the decoder has seen that it is.
    bounded_bytes(path, reader, bounded::Limits::of_json())
}

/// The bytes of a file, within limits, unless they are of a kind that can be named.
fn bounded_bytes(path: &Path, reader: impl Read, limits: bounded::Limits) -> Result<Vec<u8>, FileError> {
    let bytes = bounded::read(reader, limits).map_err(io_error(path, "read"))?;
    let bytes = bytes.map_err(|excess| FileError::Excess { path: path.to_owned(), excess })?;
    match Found::in_bytes(&bytes) {
        Some(found) => Err(FileError::Found { path: path.to_owned(), found }),
        None => Ok(bytes),
    }
}

/// A JSON document of a given shape, which is an object, from the bytes of a file.
///
/// # Errors
/// The bytes are not of that shape.
pub fn parse_json<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, FileError> {
    let text = bounded::without_mark(bytes);
    let mut parser = serde_json::Deserializer::from_slice(text);
    let json_error = |element: String, error: &serde_json::Error| {
        let element = if element == "." { "the top".into() } else { element };
        FileError::Json { path: path.to_owned(), element: one_line(&element), message: one_line(&error.to_string()) }
    };
    if text.trim_ascii_start().starts_with(b"[") {
        return Err(json_error("the top".into(), &serde_json::Error::custom("is a list, expected an object")));
    }
    let value = serde_path_to_error::deserialize(&mut parser)
        .map_err(|error| json_error(error.path().to_string(), error.inner()))?;
    parser.end().map_err(|error| json_error("the end".into(), &error))?;
    Ok(value)
}

/// What quotes a file in a message: without its line breaks, and not all of it.
pub fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = text.chars().take(LONGEST_MESSAGE).map(plain).collect();
    if shown.len() < text.len() { shown + "..." } else { shown }
}

/// A text file, such as a suite, within the limit on sizes; a byte order mark is left out.
///
/// # Errors
/// The file cannot be read, is too large, or is no UTF-8 text.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let file = File::open(path).map_err(io_error(path, "open"))?;
    let bytes = bounded_bytes(path, file, bounded::Limits::of_text())?;
    let wrong = |_| FileError::Found { path: path.to_owned(), found: Found::NotText };
    std::str::from_utf8(bounded::without_mark(&bytes)).map(str::to_owned).map_err(wrong)
}

/// Writes a value as JSON, replacing the file only once everything is written.
///
/// # Errors
/// The file or its folder cannot be written.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    write_json_at(path, value, ZSTD_LEVEL)
}

/// [`write_json`], thirty times as fast where it compresses, for files a third larger.
///
/// # Errors
/// The file or its folder cannot be written.
pub fn write_json_quickly<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    write_json_at(path, value, ZSTD_QUICK_LEVEL)
}

fn write_json_at<T: Serialize>(path: &Path, value: &T, level: i32) -> Result<(), FileError> {
    let compression = Compression::of(path)?;
    replace(path, |out| write_compressed(out, compression, value, level)).map_err(io_error(path, "write"))
}

/// Whether [`write_json`] could write a file, asked before the work that it is for.
///
/// # Errors
/// The name has another ending, or the folder cannot be written.
pub fn could_write_json(path: &Path) -> Result<(), FileError> {
    Compression::of(path)?;
    could_replace(path).map_err(io_error(path, "write"))
}

/// Whether [`replace`] could write a file: makes the one beside it, and removes that again.
///
/// # Errors
/// The folder cannot be written, or the path is one.
pub fn could_replace(path: &Path) -> io::Result<()> {
    let Some(target) = target(path)? else { return Ok(()) };
    let partial = partial(&target);
    File::create(&partial)?;
    std::fs::remove_file(partial)
}

/// The file that takes the place of what is at a path, through links; none where that is a pipe or a device.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() => std::fs::canonicalize(path).map(Some),
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(None),
        Err(error) => match std::fs::read_link(path) {
            // Of a link to nothing, what it points to is written; one that comes back to itself is another error.
            Ok(link) if error.kind() == io::ErrorKind::NotFound => {
                target(&path.parent().unwrap_or(Path::new("")).join(link))
            }
            _ => Ok(Some(path.to_owned())),
        },
    }
}

/// The file beside another one that is written first. Several processes may write the same file at once, on a shared file
/// system.
fn partial(target: &Path) -> PathBuf {
    let mut partial = target.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    partial.into()
}

/// Writes a file beside the old one and then over it, so that there is never half of one. A link stays a link; into a
/// pipe or a device it writes at once.
///
/// # Errors
/// The file or its folder cannot be written, or what writes it fails.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let fill = |file: File| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)
    };
    let Some(target) = target(path)? else { return fill(File::create(path)?).map(drop) };
    let partial = partial(&target);
    let filled = File::create(&partial).and_then(fill).and_then(|file| file.sync_all());
    let replaced = filled.and_then(|()| std::fs::rename(&partial, &target));
    if replaced.is_err() {
        // It is of no use to anybody; that it cannot be removed would be said twice.
        let _ = std::fs::remove_file(&partial);
    }
    replaced
}

fn write_compressed<T: Serialize>(
    out: &mut dyn Write,
    compression: Compression,
    value: &T,
    level: i32,
) -> io::Result<()> {
    match compression {
        Compression::None => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            out.write_all(b"\n")
        }
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::best());
            serde_json::to_writer(&mut encoder, value)?;
            encoder.finish().map(drop)
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(out, level)?;
            serde_json::to_writer(&mut encoder, value)?;
            encoder.finish().map(drop)
        }
    }
}

/// Reads and checks an instance.
///
/// # Errors
/// The file cannot be read, or the instance breaks a rule.
pub fn read_instance(path: &Path) -> Result<Instance, FileError> {
    let document: InstanceDocument = read_json(path)?;
    Instance::new(&document).map_err(|source| FileError::Instance { path: path.to_owned(), source })
}

/// Reads a schedule of an instance.
///
/// # Errors
/// The file cannot be read, belongs to another instance, or names what the instance lacks.
pub fn read_schedule(path: &Path, instance: &Instance) -> Result<(ScheduleDocument, Schedule), FileError> {
    let document: ScheduleDocument = read_json(path)?;
    let schedule =
        document.resolve(instance).map_err(|source| FileError::Schedule { path: path.to_owned(), source })?;
    Ok((document, schedule))
}
