//! `manifest.jsonl`: one line per `bench run` that wrote to a folder, with what is needed to repeat it:
//! command line, revision, versions, machine, and the hash of every instance.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;

/// One `bench run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Version of the columns of the records.
    pub schema_version: u32,
    /// When it began, UTC.
    pub started: String,
    /// Its arguments, the program's name first.
    pub command: Vec<String>,
    /// Version of bench.
    pub version: String,
    /// Revision of the checkout.
    pub git_revision: String,
    /// Hash of the sources that decide answers.
    pub sources: String,
    /// Host name, processor, logical cores.
    pub host: String,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Kernel of the system.
    pub system: String,
    /// Wall seconds of each row.
    pub time_limit_seconds: Option<String>,
    /// CPU seconds of each row.
    pub cpu_limit_seconds: Option<String>,
    /// Address space of each run.
    pub memory_limit_bytes: Option<u64>,
    /// Threads of each run.
    pub threads: usize,
    /// Version of each solver that is built in or, like CP-SAT, installed.
    pub solvers: BTreeMap<String, String>,
    /// Version of each crate that bench names as a dependency.
    pub crates: BTreeMap<String, String>,
    /// The instances of the suite.
    pub instances: Vec<InstanceEntry>,
    /// What it was to make; nothing from the tasks of a cluster, whose batches say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_come: Option<ToCome>,
}

/// Rows, and searches for a batch size, that a run was to make when it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToCome {
    /// Whether nothing was there.
    pub afresh: bool,
    /// Digests of the rows' identities, by the hash of the instance.
    pub rows: BTreeMap<String, BTreeSet<String>>,
    /// Networks, and labels of methods.
    pub searches: BTreeSet<(String, String)>,
}

/// An instance of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceEntry {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Hash of its contents.
    pub hash: String,
}

impl Session {
    /// Appends the session to the folder's manifest.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&self, folder: &Path) -> Result<(), Failure> {
        append(folder, &(serde_json::to_string(self).map_err(Failure::failed)? + "\n"))
    }
}

/// Appends the sessions of a part of a folder to the folder's own.
///
/// # Errors
/// They cannot be written.
pub fn absorb(folder: &Path, part: &Path) -> Result<(), Failure> {
    let present = read(folder);
    let mut new = read(part).into_iter().filter(|session| !present.contains(session));
    new.try_for_each(|session| session.append(folder))
}

fn append(folder: &Path, lines: &str) -> Result<(), Failure> {
    let path = path(folder);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()))
        .map_err(Failure::cannot("write", &path))
}

/// The sessions of a folder; a line that was torn by a kill is left out.
pub fn read(folder: &Path) -> Vec<Session> {
    let text = std::fs::read_to_string(path(folder)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What the runs of a folder were to make since the last one that found nothing there: of the version of bench that ran last, and of
/// instances as they are now.
pub fn to_come(mut sessions: Vec<Session>) -> ToCome {
    let entries = sessions.iter().flat_map(|session| session.instances.clone());
    let newest: HashMap<String, String> = entries.map(|entry| (entry.name, entry.hash)).collect();
    let hashes: HashSet<String> = newest.into_values().collect();
    let version = sessions.last().map(|session| session.version.clone());
    sessions.retain(|session| Some(&session.version) == version.as_ref());
    let mut all = ToCome::default();
    for ToCome { afresh, rows, searches } in sessions.into_iter().filter_map(|session| session.to_come) {
        if afresh {
            all = ToCome::default();
        }
        for (hash, rows) in rows.into_iter().filter(|(hash, _)| hashes.contains(hash)) {
            all.rows.entry(hash).or_default().extend(rows);
        }
        all.searches.extend(searches);
    }
    all
}

fn path(folder: &Path) -> PathBuf {
    folder.join("manifest.jsonl")
}
