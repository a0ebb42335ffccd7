//! The floors of `src/`: what a module may know is read from the `crate::` paths in its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// From the ground up; a module knows its own floor and those below.
const FLOORS: [&str; 4] = ["ground", "harness", "views", "commands"];

/// A module of a floor, such as `(1, "records")`.
type Module = (usize, String);

/// The Rust files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Whom each module names.
fn mentions() -> BTreeMap<Module, BTreeSet<Module>> {
    let mut known: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (floor, name) in FLOORS.into_iter().enumerate() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name);
        let mut found = Vec::new();
        files(&folder, &mut found);
        for path in found {
            let below = path.strip_prefix(&folder).unwrap();
            let module = below.components().next().unwrap().as_os_str().to_string_lossy().replace(".rs", "");
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests, at the end of a file, may take their examples where they find them.
            let text = text.split("[cfg(test)]\n").next().unwrap_or_default();
            let alone = below.components().count() == 1 && module != "mod";
            assert!(!(alone && text.contains("\nuse super::")), "{}: write crate::{name}::", path.display());
            let named = text.split("crate::").skip(1).map(|place| named(place, &path));
            known.entry((floor, module)).or_default().extend(named);
        }
    }
    known
}

/// The module that a path after `crate::` names.
fn named(place: &str, path: &Path) -> Module {
    let mut words = place.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let floor = words.next().unwrap_or_default();
    // The command line itself stands above all floors.
    let at = FLOORS.iter().position(|known| *known == floor).unwrap_or(FLOORS.len());
    assert!(!place.starts_with(&format!("{floor}::{{")), "{}: name the modules one by one", path.display());
    (at, words.next().unwrap_or_default().to_owned())
}

#[test]
fn no_floor_knows_one_above_it() {
    for ((floor, module), named) in mentions() {
        let above: Vec<_> = named.iter().filter(|(other, _)| *other > floor).collect();
        assert!(above.is_empty(), "{}/{module} names {above:?}", FLOORS[floor]);
    }
}

#[test]
fn no_modules_of_a_floor_know_each_other_in_a_circle() {
    let mentions = mentions();
    for start in mentions.keys() {
        let mut open = vec![start];
        let mut seen = BTreeSet::new();
        while let Some(module) = open.pop() {
            for other in mentions.get(module).into_iter().flatten().filter(|other| *other != module) {
                assert!(other != start, "{}/{} and {} know each other", FLOORS[start.0], start.1, module.1);
                if seen.insert(other) {
                    open.push(other);
                }
            }
        }
    }
}
