//! `manifest.jsonl`: one line per `bench run` that wrote to a folder, with what is needed to repeat it:
//! command line, revision, versions, machine, and the hash of every instance.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Run;
use crate::failure::Failure;
use crate::host::{Host, VERSION, timestamp};

/// One `bench run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// When it began, UTC.
    pub started: String,
    /// Its arguments, the program's name first.
    pub command: Vec<String>,
    /// Version of bench.
    pub version: String,
    /// Revision of the checkout.
    pub git_revision: String,
    /// Host name, processor, logical cores.
    pub host: String,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Version of each solver that is built in.
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
    pub fn new(runs: &[Run], host: &Host) -> Self {
        let mut instances: Vec<InstanceEntry> = Vec::new();
        for run in runs {
            let (instance, path) = (&run.subject.instance, &run.subject.path);
            if instances.last().is_none_or(|last| last.path != *path) {
                let (name, hash) = (instance.name().to_owned(), instance.hash().to_string());
                instances.push(InstanceEntry { name, path: path.clone(), hash });
            }
        }
        Self {
            started: timestamp(),
            command: std::env::args().collect(),
            version: VERSION.into(),
            git_revision: host.git_revision.clone(),
            host: host.name.clone(),
            memory_bytes: host.memory_bytes,
            solvers: remat_formulations::solvers().into_iter().map(|(id, version)| (id.into(), version)).collect(),
            crates: crates(),
            instances,
        }
    }

    /// Appends the session to the folder's manifest.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&self, folder: &Path) -> Result<(), Failure> {
        let path = path(folder);
        let line = serde_json::to_string(self).map_err(Failure::failed)?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| writeln!(file, "{line}").and_then(|()| file.sync_data()))
            .map_err(|error| Failure::failed(format!("{}: cannot write: {error}", path.display())))
    }
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
