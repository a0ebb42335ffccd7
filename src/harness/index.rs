//! The index of the library, `instances/index.csv`: what `bench instances list` shows of each instance, so that it need
//! not decompress and simulate them all.
//!
//! A line holds for a file with the very bytes that it was made of, by their hash, and for no other. What the index has no
//! such line of is read from its file. Nothing but lists believes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use remat_core::format::{MemoryUnit, TimeUnit};
use remat_core::io::read_instance;
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::library::{Entry, Library};
use crate::ground::rows;
use crate::ground::text;
use crate::ground::text::count;
use crate::harness::baseline::Baseline;

/// What a list shows of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Path below `instances/`, without the ending.
    #[serde(with = "text::csv")]
    pub name: String,
    /// Hash of the file's bytes.
    pub blake3: String,
    /// Number of operators.
    pub operators: usize,
    /// Number of tensors.
    pub tensors: usize,
    /// Samples per iteration, where the instance says so.
    pub batch_size: Option<u64>,
    /// Unit of `store_all_time`.
    pub time_unit: TimeUnit,
    /// Simulated time of store-all with the fastest implementations; none where it is illegal.
    pub store_all_time: Option<u64>,
    /// Unit of `store_all_peak`.
    pub memory_unit: MemoryUnit,
    /// Its simulated peak; likewise.
    pub store_all_peak: Option<u64>,
}

/// The lines of the file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    lines: BTreeMap<String, Line>,
}

impl Line {
    /// Reads an instance and simulates store-all on it.
    ///
    /// # Errors
    /// The file is no instance.
    fn made(entry: &Entry) -> Result<Self, Failure> {
        let blake3 = hash(entry)?;
        let instance = read_instance(&entry.path)?;
        let baseline = Baseline::new(&instance).ok();
        Ok(Self {
            name: entry.key.clone(),
            blake3,
            operators: instance.operators().len(),
            tensors: instance.tensors().len(),
            batch_size: instance.provenance().batch_size,
            time_unit: instance.units().time,
            store_all_time: baseline.map(|baseline| baseline.time),
            memory_unit: instance.units().memory,
            store_all_peak: baseline.map(|baseline| baseline.peak_bytes),
        })
    }
}

impl Index {
    /// Where the index of a library is.
    pub fn path(library: &Library) -> PathBuf {
        library.folder().join("index.csv")
    }

    /// The index as it is on the disk; nothing where there is none.
    ///
    /// # Errors
    /// The file is no index.
    pub fn read(library: &Library) -> Result<Self, Failure> {
        let lines = rows::read(&Self::path(library), "`bench instances index` writes it anew")?;
        Ok(Self { lines: lines.into_iter().map(|line: Line| (line.name.clone(), line)).collect() })
    }

    /// The index of what is in the library, and what is wrong with files that have no line because they break a rule.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn made(library: &Library) -> Result<(Self, Vec<Failure>), Failure> {
        let (mut lines, mut broken) = (BTreeMap::new(), Vec::new());
        for entry in library.entries()? {
            match Line::made(&entry) {
                Ok(line) => drop(lines.insert(entry.key, line)),
                Err(failure) => broken.push(failure),
            }
        }
        Ok((Self { lines }, broken))
    }

    /// Writes the index.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, library: &Library) -> Result<(), Failure> {
        rows::write(&Self::path(library), self.lines.values())
    }

    /// How many lines it has.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// What there is to say of some entries, each from its line or from its file; none of a file that is no
    /// instance. Also, how many had to be read although there is an index.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn look_up(&self, entries: &[Entry]) -> Result<(Vec<Option<Line>>, usize), Failure> {
        let mut stale = 0;
        let mut lines = Vec::with_capacity(entries.len());
        for entry in entries {
            let indexed = match self.lines.get(&entry.key) {
                Some(line) if line.blake3 == hash(entry)? => Some(line.clone()),
                _ => None,
            };
            stale += usize::from(indexed.is_none() && !self.lines.is_empty());
            lines.push(indexed.or_else(|| Line::made(entry).ok()));
        }
        Ok((lines, stale))
    }

    /// How many lines are of files that are not among all entries of the library.
    pub fn gone(&self, entries: &[Entry]) -> usize {
        self.lines.keys().filter(|name| entries.iter().all(|entry| entry.key != **name)).count()
    }

    /// The names of which two indexes differ.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let missing = self.lines.keys().filter(|name| !other.lines.contains_key(*name));
        let different = other.lines.iter().filter(|(name, line)| self.lines.get(*name) != Some(line));
        let mut names: Vec<_> = missing.chain(different.map(|(name, _)| name)).map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// What is wrong with an index that is not that of its library.
pub fn complaint(library: &Library, stale: usize) -> String {
    let path = Index::path(library);
    format!(
        "{}: not up to date for {}; `bench instances index` writes it anew",
        path.display(),
        count(stale, "instance")
    )
}

fn hash(entry: &Entry) -> Result<String, Failure> {
    let bytes = std::fs::read(&entry.path).map_err(Failure::unreadable(&entry.path))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}
