//! The instances that recorded rows are about, found again by their hashes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use remat_core::Instance;
use remat_core::io::read_instance;

use crate::library::Library;
use crate::records::Record;
use crate::run::manifest;

/// The instances of a folder of results, read once each.
pub struct Instances {
    library: Library,
    paths: BTreeMap<String, PathBuf>,
    read: BTreeMap<String, Instance>,
}

impl Instances {
    /// Of a folder; its manifest says where each instance was.
    pub fn new(folder: &Path) -> Self {
        let sessions = manifest::read(folder);
        let entries = sessions.into_iter().flat_map(|session| session.instances);
        let paths = entries.map(|entry| (entry.hash, entry.path)).collect();
        Self { library: Library::locate(), paths, read: BTreeMap::new() }
    }

    /// The instance that a row is about.
    ///
    /// # Errors
    /// It is gone, or no longer what the row says.
    pub fn get(&mut self, row: &Record) -> Result<&Instance, String> {
        self.named(&row.instance, &row.instance_hash)
    }

    /// The file of an instance: where it was, or where a library has it by name.
    ///
    /// # Errors
    /// It is in neither place.
    pub fn path(&self, name: &str, hash: &str) -> Result<PathBuf, String> {
        let there = self.paths.get(hash).filter(|path| path.is_file()).cloned();
        there.map_or_else(|| self.library.find(name).map_err(|failure| failure.to_string()), Ok)
    }

    /// The instance with a hash, looked for by name where the manifest does not know it.
    ///
    /// # Errors
    /// It is gone, or no longer what it was.
    pub fn named(&mut self, name: &str, hash: &str) -> Result<&Instance, String> {
        if !self.read.contains_key(hash) {
            let path = self.path(name, hash)?;
            let instance = read_instance(&path).map_err(|error| error.to_string())?;
            let found = instance.hash().to_string();
            if found != hash {
                return Err(format!(
                    "{} has changed: its hash is {found}, the row is about {hash}; run the suite again",
                    path.display()
                ));
            }
            self.read.insert(found, instance);
        }
        self.read.get(hash).ok_or_else(|| "no such instance".into())
    }
}
