//! The instances that recorded rows are about, found again by their hashes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use remat_core::Instance;
use remat_core::io::read_instance;

use crate::ground::library::Library;
use crate::harness::records::Record;
use crate::harness::records::manifest;

/// The instances of a folder of results, read once each.
pub struct Instances {
    library: Library,
    /// Where the folder's runs found them, by hash.
    paths: BTreeMap<String, PathBuf>,
    read: BTreeMap<String, Instance>,
    /// Every file of the library by hash, once it was needed.
    all: Option<BTreeMap<String, PathBuf>>,
}

impl Instances {
    /// Of a folder; its manifest says where each instance was.
    pub fn new(folder: &Path) -> Self {
        let sessions = manifest::read(folder);
        let entries = sessions.into_iter().flat_map(|session| session.instances);
        let paths = entries.map(|entry| (entry.hash, entry.path)).collect();
        Self { library: Library::locate(), paths, read: BTreeMap::new(), all: None }
    }

    /// The instance that a row is about.
    ///
    /// # Errors
    /// It is gone, or no longer what the row says.
    pub fn get(&mut self, row: &Record) -> Result<&Instance, String> {
        self.named(&row.instance, &row.instance_hash)
    }

    /// The file of an instance with a hash.
    ///
    /// # Errors
    /// It is gone, or no longer what it was.
    pub fn path(&mut self, name: &str, hash: &str) -> Result<PathBuf, String> {
        self.locate(name, hash).map(|(path, _)| path)
    }

    /// The instance with a hash.
    ///
    /// # Errors
    /// It is gone, or no longer what it was.
    pub fn named(&mut self, name: &str, hash: &str) -> Result<&Instance, String> {
        if !self.read.contains_key(hash) {
            let (_, instance) = self.locate(name, hash)?;
            self.read.insert(hash.to_owned(), instance);
        }
        self.read.get(hash).ok_or_else(|| "no such instance".into())
    }

    /// Looks where a run found the instance, then for a file of its name, then, since a file may be called
    /// otherwise than the instance in it, at every file of the library.
    fn locate(&mut self, name: &str, hash: &str) -> Result<(PathBuf, Instance), String> {
        let mut changed = None;
        let places = [self.paths.get(hash).cloned(), self.library.find(name).ok()];
        for path in places.into_iter().flatten().filter(|path| path.is_file()) {
            let instance = read_instance(&path).map_err(|error| error.to_string())?;
            let found = instance.hash().to_string();
            if found == hash {
                return Ok((path, instance));
            }
            changed = Some(format!(
                "{} has changed: its hash is {found}, the row is about {hash}; run the suite again",
                path.display()
            ));
        }
        let path = self.all().get(hash).cloned();
        let Some(path) = path else {
            let gone = || {
                format!(
                    "no instance {name:?} with the hash {hash}: neither where the run found it nor under instances/"
                )
            };
            return Err(changed.unwrap_or_else(gone));
        };
        read_instance(&path).map(|instance| (path, instance)).map_err(|error| error.to_string())
    }

    fn all(&mut self) -> &BTreeMap<String, PathBuf> {
        let library = &self.library;
        self.all.get_or_insert_with(|| {
            let entries = library.entries().unwrap_or_default();
            // A file that is no instance is nobody's here.
            let hashed = entries.into_iter().filter_map(|entry| {
                let hash = read_instance(&entry.path).ok()?.hash().to_string();
                Some((hash, entry.path))
            });
            hashed.collect()
        })
    }
}
