//! `manifest.jsonl`: one line per `bench run` that wrote to a folder, with what is needed to repeat it:
//! command line, revision, versions, machine, and the hash of every instance.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Conditions, Run};
use crate::failure::Failure;
use crate::host::{SOURCES, VERSION, timestamp};
use crate::records::SCHEMA_VERSION;

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
    /// The session that is about to execute `runs`.
    pub fn new(runs: &[Run], conditions: &Conditions) -> Self {
        let host = &conditions.host;
        let seconds = |limit: Option<Duration>| limit.map(|limit| limit.as_secs_f64().to_string());
        let mut instances: Vec<InstanceEntry> = Vec::new();
        for run in runs {
            let (instance, path) = (&run.subject.instance, &run.subject.path);
            if instances.last().is_none_or(|last| last.path != *path) {
                let (name, hash) = (instance.name().to_owned(), instance.hash().to_string());
                instances.push(InstanceEntry { name, path: path.clone(), hash });
            }
        }
        Self {
            schema_version: SCHEMA_VERSION,
            started: timestamp(),
            command: std::env::args().collect(),
            version: VERSION.into(),
            git_revision: host.git_revision.clone(),
            sources: SOURCES.into(),
            host: host.name.clone(),
            memory_bytes: host.memory_bytes,
            system: host.system.clone(),
            time_limit_seconds: seconds(conditions.limits.time),
            cpu_limit_seconds: seconds(conditions.cpu_limit),
            memory_limit_bytes: conditions.memory_limit_bytes,
            threads: conditions.limits.threads,
            solvers: solvers(),
            crates: crates(),
            instances,
        }
    }

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
        .map_err(|error| Failure::failed(format!("{}: cannot write: {error}", path.display())))
}

fn solvers() -> BTreeMap<String, String> {
    let (id, version) = remat_formulations::constraint_solver();
    let installed = version.ok().map(|version| (id, version));
    let all = remat_formulations::solvers().into_iter().chain(installed);
    all.map(|(id, version)| (id.to_owned(), version)).collect()
}

/// The sessions of a folder; a line that was torn by a kill is left out.
pub fn read(folder: &Path) -> Vec<Session> {
    let text = std::fs::read_to_string(path(folder)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn path(folder: &Path) -> PathBuf {
    folder.join("manifest.jsonl")
}

/// What the lock file says of the dependencies that the workspace's own packages name.
fn crates() -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        source: Option<String>,
        #[serde(default)]
        dependencies: Vec<String>,
    }
    let lock: Lock = toml::from_str(include_str!("../../Cargo.lock")).expect("the lock file was good enough for cargo");
    let own = lock.package.iter().filter(|package| package.source.is_none());
    let named: Vec<&str> = own.flat_map(|package| &package.dependencies).map(String::as_str).collect();
    // Of a crate in two versions, the lock file names the version as well.
    let names = |package: &&Package| {
        let both = format!("{} {}", package.name, package.version);
        package.source.is_some() && (named.contains(&package.name.as_str()) || named.contains(&both.as_str()))
    };
    lock.package.iter().filter(names).map(|package| (package.name.clone(), package.version.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_are_those_that_the_workspace_names() {
        let crates = crates();
        assert!(crates.contains_key("highs-sys") && crates.contains_key("clap"), "{crates:?}");
        assert!(!crates.contains_key("clap_lex") && !crates.contains_key("bench"), "{crates:?}");
    }
}
