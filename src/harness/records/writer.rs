//! Appends rows to a `records.csv`: one writer at a time, each row on the disk before the next run
//! begins, a torn last line mended on opening.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{COLUMNS, Kept, Key, Record, manifest, parse, parts};
use crate::ground::failure::Failure;
use crate::ground::output;

const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(30);
/// How the rows of every version begin.
const HEAD: &[u8; 15] = b"schema_version,";

/// What to do about rows that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Refuse,
    /// Keep them and add what is missing.
    Resume,
    /// Likewise, and rows that ended in an error count as missing.
    Retry,
    /// Drop them.
    Overwrite,
}

impl Existing {
    /// Whether a row that is there, and is an error or not, need not be made again.
    pub fn counts(self, is_error: bool) -> bool {
        !(self == Self::Retry && is_error)
    }
}

/// What a run writes is not for version control, unless somebody says what of it is.
fn keep_out_of_git(folder: &Path) -> Result<(), Failure> {
    let path = folder.join(".gitignore");
    let text = "# Written by bench run; change it to keep some of these results under version control.\n*\n";
    std::fs::write(&path, text).map_err(cannot("write", &path))
}

/// What belongs to the rows of a folder, in the order in which it is dropped: parts go first, then what tells of files, then
/// these, so that whatever a kill leaves is about no row or whole.
/// The manifest and the plans of a cluster's batches tell what happened here, and stay.
const OF_ROWS: [&str; 14] = [
    "parts",
    "max-batch.csv",
    "executed.csv",
    "plans.csv",
    "tables.md",
    "report.html",
    "schedules",
    "traces",
    "logs",
    "unfinished",
    "replays",
    "plans",
    "plots",
    "max-batch",
];

/// Drops what belongs to rows that were dropped; schedules, traces or plots of theirs would pass for those of the new rows.
fn drop_all(folder: &Path) -> Result<(), Failure> {
    OF_ROWS.iter().try_for_each(|name| {
        let path = folder.join(name);
        let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot("remove", &path)(error)),
            _ => Ok(()),
        }
    })
}

/// Whether nothing is in a folder, or only the plans of a cluster's batches, which come before its first row.
fn is_new(folder: &Path) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.all(|entry| entry.file_name() == "slurm")
}

/// Whether a run wrote to a folder: a manifest or the first line of its rows says so.
fn is_ours(folder: &Path) -> bool {
    let table = folder.join("records.csv");
    let mut head = [0; HEAD.len()];
    let read = table.is_file() && File::open(table).is_ok_and(|mut table| table.read_exact(&mut head).is_ok());
    (read && head == *HEAD) || !manifest::read(folder).is_empty()
}

/// Refuses to drop or to continue what somebody else wrote.
fn keep_foreign(folder: &Path, existing: Existing) -> Result<(), Failure> {
    let table = folder.join("records.csv");
    if is_ours(folder) {
        return Ok(());
    }
    if existing != Existing::Overwrite {
        return mend(&table, existing).map(|_| ());
    }
    let is_filled = table.metadata().is_ok_and(|table| table.is_file() && table.len() > 0);
    let dropped = OF_ROWS.into_iter().find(|name| folder.join(name).exists());
    match dropped.or(is_filled.then_some("records.csv")) {
        None => Ok(()),
        Some(name) => Err(Failure::input(format!(
            "{}: --force would remove {name} there, but no manifest.jsonl or records.csv says that `bench run` wrote it; \
             choose another folder with --out",
            folder.display()
        ))),
    }
}

/// The open file; one per folder at any time.
pub struct Writer {
    path: PathBuf,
    file: File,
    length: u64,
    seen: HashSet<Key>,
    _lock: File,
}

impl Writer {
    /// Makes the folder, locks it and opens `records.csv` in it, mending a torn last line.
    ///
    /// # Errors
    /// The folder cannot be written or is not of `bench run`, another run writes there, or there are rows and `existing` refuses.
    pub fn open(folder: &Path, existing: Existing) -> Result<Self, Failure> {
        keep_foreign(folder, existing)?;
        std::fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
        if is_new(folder) {
            keep_out_of_git(folder)?;
        }
        let lock_path = folder.join("records.lock");
        let lock = File::create(&lock_path).map_err(cannot("create the lock file", &lock_path))?;
        acquire(
            &lock_path,
            || lock.try_lock(),
            || {
                format!(
                    "{}: another bench run is writing here; wait for it, or choose another folder with --out",
                    folder.display()
                )
            },
        )?;
        let path = folder.join("records.csv");
        for name in ["schedules", "traces"] {
            output::sweep(&folder.join(name), None);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(existing == Existing::Overwrite);
        let file = options.open(&path).map_err(cannot("open", &path))?;
        let kept = mend(&path, existing)?;
        let seen = kept.records.iter().filter(|record| existing.counts(record.is_error())).map(Record::key).collect();
        let mut writer = Self { path, file, length: kept.length, seen, _lock: lock };
        writer.truncate()?;
        if writer.length == 0 {
            let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
            writer.append(format!("{}\n", names.join(",")).as_bytes())?;
        }
        match existing {
            // After the rows: killed in between, it leaves files without a row, and no row without its files.
            Existing::Overwrite => drop_all(folder)?,
            _ => parts::absorb(folder, &mut writer, existing)?,
        }
        Ok(writer)
    }

    /// Whether a row is there.
    pub fn contains(&self, key: &Key) -> bool {
        self.seen.contains(key)
    }

    /// The rows of the file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, Failure> {
        mend(&self.path, Existing::Resume).map(|kept| kept.records)
    }

    /// Appends a row and waits until the disk has it.
    ///
    /// # Errors
    /// The disk is full or failing; what was there stays, and no torn line is left behind.
    pub fn write(&mut self, record: &Record) -> Result<(), Failure> {
        self.append(&line(record)?)?;
        self.seen.insert(record.key());
        Ok(())
    }

    /// Appends a row that a worker made; one that ended in an error may count as missing.
    pub(super) fn take_over(&mut self, record: &Record, existing: Existing) -> Result<(), Failure> {
        self.write(record)?;
        if !existing.counts(record.is_error()) {
            self.seen.remove(&record.key());
        }
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> Result<(), Failure> {
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Should even this fail, the next run drops the torn line.
            let _ = self.truncate();
            let remedy = "the rows written so far are kept: make room, then continue with --resume";
            return Err(Failure::cannot("write", &self.path)(format!("{error}; {remedy}")));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Cuts the file to the known-good length and goes there.
    fn truncate(&mut self) -> Result<(), Failure> {
        let longer = self.file.metadata().is_ok_and(|metadata| metadata.len() > self.length);
        let cut = if longer { self.file.set_len(self.length) } else { Ok(()) };
        let at = SeekFrom::Start(self.length);
        cut.and_then(|()| self.file.seek(at)).map(|_| ()).map_err(cannot("write", &self.path))
    }
}

/// Whether a run is writing to a folder.
pub fn is_writing(folder: &Path) -> bool {
    let lock = File::open(folder.join("records.lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// What an error of the file system becomes.
pub(super) fn cannot(action: &str, path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::cannot(action, path)(format!("{error}; choose another folder with --out"))
}

/// Takes a lock. Whoever was killed just now may still hold it for an instant through a child that
/// it was starting, so a few attempts are made.
pub(super) fn acquire(
    path: &Path,
    mut attempt: impl FnMut() -> Result<(), TryLockError>,
    taken: impl FnOnce() -> String,
) -> Result<(), Failure> {
    for left in (0..LOCK_ATTEMPTS).rev() {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(cannot("lock", path)(error)),
            Err(TryLockError::WouldBlock) if left > 0 => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    Err(Failure::failed(taken()))
}

/// A row as a line of the file.
fn line(record: &Record) -> Result<Vec<u8>, Failure> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("a row cannot be written as CSV: {error}"));
    writer.serialize(record).map_err(|error| failed(&error))?;
    writer.into_inner().map_err(|error| failed(&error))
}

/// Reads what is there; a torn last line is left out.
fn mend(path: &Path, existing: Existing) -> Result<Kept, Failure> {
    // Not a regular file (a device, in a test of full disks): nothing to be read from it.
    if existing == Existing::Overwrite || !path.is_file() {
        return Ok(Kept { records: vec![], length: 0 });
    }
    let bytes = std::fs::read(path).map_err(Failure::unreadable(path))?;
    let kept = parse(path, &bytes)?;
    if existing == Existing::Refuse && !kept.records.is_empty() {
        return Err(Failure::input(format!(
            "{}: has {} rows already; continue it with --resume, write elsewhere with --out, or start afresh with --force",
            path.display(),
            kept.records.len()
        )));
    }
    Ok(kept)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;
    use crate::harness::records::{Ending, Skipped, read};

    #[test]
    fn rows_survive_the_file_and_a_torn_line_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (a, mut b) = (example("a", None), example("b", Some(("0.5x", 7))));
        b.termination = Ending::Skipped(Skipped::Skipped);
        b.simulated_time = None;
        let mut writer = Writer::open(folder.path(), Existing::Refuse).unwrap();
        writer.write(&a).unwrap();
        writer.write(&b).unwrap();
        drop(writer);
        let path = folder.path().join("records.csv");
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(read(&path).unwrap(), [a.clone(), b.clone()]);
        let first_row_ends = whole.len() - line(&b).unwrap().len();
        for cut in first_row_ends..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut writer = Writer::open(folder.path(), Existing::Resume).unwrap();
            assert!(writer.contains(&a.key()) && !writer.contains(&b.key()));
            writer.write(&b).unwrap();
            drop(writer);
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn folders_that_are_not_of_a_run_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let there = || {
            let mut names: Vec<_> =
                std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let refused = |existing| Writer::open(folder.path(), existing).map(|_| ()).unwrap_err().to_string();
        std::fs::create_dir(folder.path().join("plots")).unwrap();
        assert!(refused(Existing::Overwrite).contains("--force would remove plots there"));
        std::fs::write(folder.path().join("records.csv"), "artist,title\n").unwrap();
        for existing in [Existing::Refuse, Existing::Resume] {
            assert!(refused(existing).contains("name a file that `bench run` wrote"));
        }
        std::fs::remove_dir(folder.path().join("plots")).unwrap();
        assert!(refused(Existing::Overwrite).contains("--force would remove records.csv there"));
        assert_eq!(there(), ["records.csv"]);
        std::fs::remove_file(folder.path().join("records.csv")).unwrap();
        std::fs::write(folder.path().join("mine.txt"), "").unwrap();
        drop(Writer::open(folder.path(), Existing::Overwrite).unwrap());
        drop(Writer::open(folder.path(), Existing::Overwrite).unwrap());
        assert_eq!(there(), ["mine.txt", "records.csv", "records.lock"]);
    }

    #[test]
    fn a_second_writer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Writer::open(folder.path(), Existing::Refuse).unwrap();
        let second = Writer::open(folder.path(), Existing::Resume).map(|_| ()).unwrap_err();
        assert!(second.to_string().contains("another bench run is writing here"), "{second}");
    }
}
