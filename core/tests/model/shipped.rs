//! Every shipped instance is valid and runs: store-all with default implementations simulates, and needs
//! what its tensors and fixed bytes say at least.

use std::path::{Path, PathBuf};

use remat_core::io::read_instance;
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::simulate;

/// Folders of `instances/` without instances, or with broken ones.
const OTHERS: [&str; 2] = ["suites", "malformed"];
const ENDINGS: [&str; 3] = [".json", ".json.zst", ".json.gz"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../instances")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if !OTHERS.contains(&name.as_str()) {
                files(&path, found);
            }
        } else if !name.ends_with(".schema.json") && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

fn shipped() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), &mut found);
    found.sort();
    found
}

#[test]
fn every_shipped_instance_is_valid_and_simulates() {
    let shipped = shipped();
    assert!(shipped.len() > 100, "only {} instances", shipped.len());
    for path in shipped {
        let instance = read_instance(&path).expect("shipped instances are valid");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("{}.json", instance.name())), "{name} is called {}", instance.name());
        let plan = Plan::default_choice(&instance);
        let schedule = with_liveness(&instance, &plan.store_all(&instance));
        let simulation = simulate(&instance, &schedule).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(simulation.recomputations(), 0, "{name}");
        let results = instance.bytes_of(|tensor| tensor.kind.is_result());
        assert!(simulation.peak_bytes >= instance.base_bytes() + results, "{name}");
        // MONeT's profiles differentiate the first convolution by the network's input: that run makes nothing.
        let makes_nothing = instance.operators().iter().filter(|operator| operator.makes(0).next().is_none()).count();
        assert_eq!(simulation.wasted_steps, makes_nothing, "{name}");
    }
}

#[test]
fn the_library_stays_under_forty_megabytes() {
    let bytes: u64 = shipped().iter().map(|path| path.metadata().expect("it is there").len()).sum();
    assert!(bytes < 40_000_000, "{bytes} bytes");
}
