//! Parts: folders in which workers of one run directory write side by side, on one machine or many.
//!
//! `parts/<worker>/` looks like a run directory of its own: `records.csv`, `max-batch.csv`,
//! `manifest.jsonl`. No two workers ever write the same file, so that nothing depends on how a shared
//! file system appends. A lock that workers share and that whoever writes the main file takes for itself
//! says when the parts may be absorbed.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::writer::{Existing, Writer, acquire, cannot};
use super::{Record, batches, manifest, parse};
use crate::ground::failure::Failure;

/// Held by a worker for as long as it writes.
pub struct Share {
    _lock: File,
}

/// Shares a run directory with other workers.
///
/// # Errors
/// A run that writes the main file has it for itself.
pub fn share(folder: &Path) -> Result<Share, Failure> {
    std::fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
    let path = folder.join("records.lock");
    let lock = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let lock = lock.map_err(cannot("open the lock file", &path))?;
    acquire(
        &path,
        || lock.try_lock_shared(),
        || format!("{}: a bench run has this folder for itself; wait for it, then use --resume", folder.display()),
    )?;
    Ok(Share { _lock: lock })
}

/// The folder of a worker's part.
pub fn folder(results: &Path, worker: &str) -> PathBuf {
    results.join("parts").join(worker)
}

/// The parts of a run directory, sorted by name.
pub fn folders(results: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(results.join("parts")).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The rows of all parts; torn last lines, and lines that are just being written, are left out.
///
/// # Errors
/// A file cannot be read, or is none of ours.
pub fn rows(results: &Path) -> Result<Vec<Record>, Failure> {
    folders(results).iter().try_fold(Vec::new(), |mut records, part| {
        records.extend(rows_of(part)?);
        Ok(records)
    })
}

/// The rows of one part, or of a run directory without its parts, likewise.
///
/// # Errors
/// The file cannot be read, or is none of ours.
pub fn rows_of(part: &Path) -> Result<Vec<Record>, Failure> {
    let path = part.join("records.csv");
    match std::fs::read(&path) {
        Ok(bytes) => parse(&path, &bytes).map(|kept| kept.records),
        // A worker that has not come so far.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(vec![]),
        Err(error) => Err(cannot("read", &path)(error)),
    }
}

/// Moves what the parts hold into the main files. The writer has the lock, so no worker is at work.
///
/// Killed in between, it leaves parts that are absorbed again: rows that are there already are left out.
///
/// # Errors
/// A file cannot be read or written.
pub fn absorb(results: &Path, writer: &mut Writer, existing: Existing) -> Result<(), Failure> {
    let folders = folders(results);
    if folders.is_empty() {
        return Ok(());
    }
    let present = writer.records()?;
    for record in super::in_order(results, rows(results)?) {
        if !present.contains(&record) {
            writer.take_over(&record, existing)?;
        }
    }
    batches::write(results, &batches::read(results)?)?;
    for part in folders {
        manifest::absorb(results, &part)?;
        std::fs::remove_dir_all(&part).map_err(cannot("remove", &part))?;
    }
    // Empty by now.
    let _ = std::fs::remove_dir(results.join("parts"));
    Ok(())
}
