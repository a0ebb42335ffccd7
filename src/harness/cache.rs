//! Rows that need not be computed again: one file per row, named by the hash of everything that decides
//! it. What is taken is judged anew, and every column that can be computed is; the others (bounds, proofs, notes,
//! seconds) are believed only under a seal: a hash of the entry and of its key, keyed with a secret of the folder.
//! What does not hold is computed as if it had not been there. The seal shows damage, and entries of other folders
//! or other keys; it is no protection from someone who can read the folder's secret.
//!
//! The key: instance hash, method, every parameter, budget, seed, limits, threads, and the hash of the
//! sources and of the build ([`crate::ground::host::SOURCES`]). Rows that ended in an error or were interrupted are not kept.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use remat_core::io::{read_json, write_json_quickly};
use remat_core::schedule::ScheduleDocument;
use remat_formulations::Termination;
use serde::{Deserialize, Serialize};

use crate::ground::output;
use crate::harness::records::{Ending, Record};
use crate::harness::run::job::Point;
use crate::harness::run::plan::RunBudget;
use crate::harness::run::{Conditions, Row, Run, execute};

/// Names the folder; empty means no cache.
const VARIABLE: &str = "BENCH_CACHE";
/// File of the secret in the folder.
const SECRET: &str = "secret";
/// Age at which a file that was not finished belongs to nobody any more.
const ABANDONED: Duration = Duration::from_secs(3600);

/// One process says once that there is no cache.
static WARNED: Once = Once::new();

/// A folder of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    /// Whether rows are only put in, and none taken.
    fresh: bool,
    /// What seals are made with.
    secret: [u8; 32],
}

/// An entry as it is kept.
#[derive(Serialize, Deserialize)]
struct Sealed {
    /// Keyed hash of key and entry.
    seal: String,
    /// An [`Entry`] as text.
    entry: String,
}

/// A row as it is kept.
#[derive(Serialize, Deserialize)]
struct Entry {
    record: Record,
    schedule: Option<ScheduleDocument>,
    trace: Vec<Point>,
}

impl Cache {
    /// The folder that the environment names, or else `results/.cache` under `root`; none where the
    /// environment says so by an empty name, or, with a warning, where the folder cannot be used.
    pub fn locate(root: &Path, fresh: bool) -> Option<Self> {
        let folder = match std::env::var_os(VARIABLE) {
            Some(named) if named.is_empty() => return None,
            Some(named) => named.into(),
            None => root.join("results/.cache"),
        };
        output::sweep(&folder, Some(ABANDONED));
        match secret(&folder) {
            Ok(secret) => Some(Self { folder, fresh, secret }),
            Err(error) => {
                WARNED.call_once(|| {
                    let folder = folder.display();
                    output::info(&format!(
                        "warning: {folder}: cannot be the cache: {error}; rows are computed and not kept, unless {VARIABLE} names another folder"
                    ));
                });
                None
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The row of a budget, as if it had just been computed, if it is there and holds.
    pub fn take(&self, run: &Run, budget: &RunBudget, conditions: &Conditions) -> Option<Row> {
        if self.fresh {
            return None;
        }
        let key = conditions.key(run, budget);
        let Sealed { seal, entry } = read_json(&self.path(&key)).ok()?;
        if blake3::Hash::from_hex(&seal).ok()? != self.seal(&key, &entry) {
            return None;
        }
        let Entry { record, schedule, trace } = serde_json::from_str(&entry).ok()?;
        execute::again(run, budget, conditions, Row { record, schedule, trace })
    }

    /// Keeps a row, if it may be used again. That it cannot be kept is no failure of the run.
    pub fn put(&self, row: &Row, run: &Run, conditions: &Conditions) {
        let again = row.record.is_error() || row.record.termination == Ending::Ran(Termination::Interrupted);
        if again || row.record.cached {
            return;
        }
        let budget = RunBudget { text: row.record.budget.clone(), bytes: row.record.budget_size };
        let key = conditions.key(run, &budget);
        let path = self.path(&key);
        let entry = Entry { record: row.record.clone(), schedule: row.schedule.clone(), trace: row.trace.clone() };
        let Ok(entry) = serde_json::to_string(&entry) else { return };
        if path.parent().is_some_and(|parent| std::fs::create_dir_all(parent).is_ok()) {
            let seal = self.seal(&key, &entry).to_hex().to_string();
            let _ = write_json_quickly(&path, &Sealed { seal, entry });
        }
    }

    fn seal(&self, key: &str, entry: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.secret, format!("{key}{entry}").as_bytes())
    }

    fn path(&self, key: &str) -> PathBuf {
        let hash = blake3::hash(key.as_bytes()).to_hex();
        self.folder.join(&hash[..2]).join(format!("{}.json.zst", &hash[2..32]))
    }
}

/// The secret of a folder, made with it, for its owner's eyes only.
fn secret(folder: &Path) -> std::io::Result<[u8; 32]> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(SECRET);
    let read = || {
        let mut secret = [0; 32];
        std::fs::File::open(&path)?.read_exact(&mut secret).map(|()| secret)
    };
    if let Ok(secret) = read() {
        return Ok(secret);
    }
    // Whole before it has its name, so one that is too short is damaged. Where another process is first, its secret counts.
    let _ = std::fs::remove_file(&path);
    let beside = folder.join(format!("{SECRET}.{}.partial", std::process::id()));
    let mut fresh = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut fresh)?;
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?.write_all(&fresh)?;
    let _ = std::fs::hard_link(&beside, &path);
    std::fs::remove_file(&beside)?;
    read()
}
