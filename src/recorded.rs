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
        if !self.read.contains_key(&row.instance_hash) {
            let there = self.paths.get(&row.instance_hash).filter(|path| path.is_file()).cloned();
            let path = match there {
                Some(path) => path,
                None => self.library.find(&row.instance).map_err(|failure| failure.to_string())?,
            };
            let instance = read_instance(&path).map_err(|error| error.to_string())?;
            let found = instance.hash().to_string();
            if found != row.instance_hash {
                return Err(format!(
                    "{} has changed: its hash is {found}, the row is about {}; run the suite again",
                    path.display(),
                    row.instance_hash
                ));
            }
            self.read.insert(found, instance);
        }
        self.read.get(&row.instance_hash).ok_or_else(|| "no such instance".into())
    }
}
