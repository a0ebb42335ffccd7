//! The folder `instances/`: where it is, what is in it, and which file a name means.

use std::path::{Path, PathBuf};

use fast_glob::glob_match;

use crate::ground::failure::Failure;
use crate::ground::names::nearest;

const ENDINGS: [&str; 3] = [".json", ".json.zst", ".json.gz"];
/// Folders and files below `instances/` that hold no instance to be listed.
const OTHERS: [&str; 4] = ["suites/", "malformed/", "instance.schema.json", "schedule.schema.json"];

/// A checkout: the folder that holds `instances/`.
#[derive(Clone, Debug)]
pub struct Library {
    /// The folder that holds `instances/`.
    pub root: PathBuf,
}

/// One instance file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Path below `instances/`, without the ending: `resnet/resnet50-224-b32`.
    pub key: String,
    /// The file.
    pub path: PathBuf,
}

impl Entry {
    /// The last part of the key: `resnet50-224-b32`.
    pub fn stem(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }
}

impl Library {
    /// The checkout that the current folder is in: the nearest folder upwards that holds `instances/suites`.
    ///
    /// Outside of one, the current folder.
    pub fn locate() -> Self {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let root = here.ancestors().find(|folder| folder.join("instances/suites").is_dir());
        match root {
            // Paths stay relative where they can, so that messages name what the user knows.
            Some(root) if root == here => Self { root: PathBuf::new() },
            Some(root) => Self { root: root.to_owned() },
            None => Self { root: PathBuf::new() },
        }
    }

    /// `instances/`.
    pub fn folder(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// Every instance file, sorted by key.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let folder = self.folder();
        let mut entries = Vec::new();
        if folder.is_dir() {
            collect(&folder, "", &mut entries)?;
        }
        entries.sort();
        Ok(entries)
    }

    /// The instance file that an argument means: a path, or a name below `instances/`.
    ///
    /// # Errors
    /// There is none, or more than one; the message lists near names.
    pub fn find(&self, argument: &str) -> Result<PathBuf, Failure> {
        let path = Path::new(argument);
        if path.is_file() {
            return Ok(path.to_owned());
        }
        let entries = self.entries()?;
        let wanted = stem_of(argument);
        let matches: Vec<_> = entries.iter().filter(|entry| entry.key == wanted || entry.stem() == wanted).collect();
        match matches.as_slice() {
            [one] => Ok(one.path.clone()),
            [] => Err(Failure::input(format!(
                "no instance {argument:?}: it is neither a file nor a name under instances/; {}",
                near(wanted, &entries)
            ))),
            several => {
                let keys: Vec<_> = several.iter().map(|entry| entry.key.as_str()).collect();
                Err(Failure::input(format!("{argument:?} could be {}; name one of them", keys.join(" or "))))
            }
        }
    }

    /// The entries that match any of some patterns, each pattern matching at least one, or naming a file by its absolute path.
    ///
    /// # Errors
    /// A pattern is malformed or matches nothing.
    pub fn matching(&self, patterns: &[String]) -> Result<Vec<Entry>, Failure> {
        let entries = self.entries()?;
        let mut chosen: Vec<Entry> = Vec::new();
        for pattern in patterns {
            let found = if let Some(entry) = named(pattern, &entries) {
                vec![entry]
            } else {
                let glob = glob(pattern)?;
                entries.iter().filter(|entry| glob.matches_name(&entry.key)).cloned().collect()
            };
            if found.is_empty() {
                return Err(Failure::input(format!(
                    "no instance under instances/ matches {pattern:?}, and no such file is there (those of a suite are relative \
                     to its folder); `bench instances list` shows what is under instances/"
                )));
            }
            for entry in found {
                if !chosen.contains(&entry) {
                    chosen.push(entry);
                }
            }
        }
        Ok(chosen)
    }
}

/// A pattern over instances.
#[derive(Debug)]
pub struct InstanceGlob(String);

impl InstanceGlob {
    /// Whether the pattern matches a key, with or without its folder.
    pub fn matches_name(&self, key: &str) -> bool {
        glob_match(&self.0, key) || glob_match(&self.0, key.rsplit('/').next().unwrap_or(key))
    }
}

/// Patterns over instances, of which one is to match; where there is none, every instance does.
#[derive(Debug)]
pub struct Globs(pub Vec<InstanceGlob>);

impl Globs {
    /// Takes patterns.
    ///
    /// # Errors
    /// A pattern is malformed.
    pub fn of<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Result<Self, Failure> {
        patterns.into_iter().map(|pattern| glob(pattern.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a key, with or without its folder, is asked for.
    pub fn matches_name(&self, key: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob.matches_name(key))
    }
}

/// Takes a pattern such as `resnet/*` or `resnet1001-*`.
///
/// # Errors
/// The pattern is malformed.
pub fn glob(pattern: &str) -> Result<InstanceGlob, Failure> {
    let closed = |[open, close]: [char; 2]| pattern.matches(open).count() == pattern.matches(close).count();
    if [['[', ']'], ['{', '}']].into_iter().all(closed) {
        Ok(InstanceGlob(stem_of(pattern).to_owned()))
    } else {
        let words = "a bracket has no partner; expected something like 'resnet/*'";
        Err(Failure::input(format!("{pattern:?} is not a pattern: {words}")))
    }
}

/// The file that an absolute path names, as the library calls it where it is in there.
fn named(path: &str, entries: &[Entry]) -> Option<Entry> {
    let path = Path::new(path);
    let is_it = |entry: &&Entry| std::path::absolute(&entry.path).is_ok_and(|there| there == path);
    let other = || Entry { key: stem_of(&path.to_string_lossy()).to_owned(), path: path.to_owned() };
    (path.is_absolute() && path.is_file()).then(|| entries.iter().find(is_it).cloned().unwrap_or_else(other))
}

/// A file name without the ending of an instance file.
fn stem_of(name: &str) -> &str {
    let name = name.strip_prefix("instances/").unwrap_or(name);
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

fn collect(folder: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<(), Failure> {
    let unreadable = |error| Failure::at(folder)(format!("cannot list the folder: {error}"));
    for item in std::fs::read_dir(folder).map_err(unreadable)? {
        let item = item.map_err(unreadable)?;
        let name = item.file_name().to_string_lossy().into_owned();
        let key = format!("{prefix}{name}");
        if item.path().is_dir() {
            let inside = format!("{key}/");
            if !OTHERS.contains(&inside.as_str()) {
                collect(&item.path(), &inside, entries)?;
            }
        } else if stem_of(&key) != key && !OTHERS.contains(&key.as_str()) {
            entries.push(Entry { key: stem_of(&key).to_owned(), path: item.path() });
        }
    }
    Ok(())
}

/// The names most like a wanted one.
fn near(wanted: &str, entries: &[Entry]) -> String {
    let names = nearest(wanted, entries.iter().map(Entry::stem));
    if names.is_empty() {
        "there is none there; run inside a checkout, or give the path of a file".into()
    } else {
        format!("nearest: {}; `bench instances list` shows all", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_endings_and_their_folder() {
        assert_eq!(stem_of("instances/small/a.json.zst"), "small/a");
        assert_eq!(stem_of("resnet/*"), "resnet/*");
    }
}
