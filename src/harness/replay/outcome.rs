//! The executor's records, as far as rows of `executed.csv` are made of them (docs/reference/formats.md has all fields).

use std::path::Path;

use remat_core::io::read_text;
use serde::Deserialize;

use super::Execution;
use crate::harness::records::one_line;

/// A record; of one that failed only the error is there.
#[derive(Debug, Deserialize)]
struct Document {
    format: String,
    version: u32,
    device: DeviceDocument,
    framework: Option<Framework>,
    equality: Option<Equality>,
    time_ns: Option<Times>,
    over_store_all: Option<Ratio>,
    memory: Option<Memory>,
    arena: Option<Arena>,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    error: String,
}

#[derive(Debug, Deserialize)]
struct DeviceDocument {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct Framework {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
struct Equality {
    equal: Option<bool>,
    bitwise: u64,
    within_tolerance: u64,
}

#[derive(Debug, Deserialize)]
struct Times {
    median: u64,
    spread: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Ratio {
    executed: f64,
    simulated: f64,
}

#[derive(Debug, Deserialize)]
struct Arena {
    height_bytes: u64,
    beside_bytes: u64,
    equal_to_plain: bool,
}

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the file")]
struct Memory {
    allocated_peak_bytes: u64,
    reserved_peak_bytes: Option<u64>,
    storage_peak_bytes: Option<u64>,
}

/// A row with its measured part, from a record of the executor.
///
/// # Errors
/// The file cannot be read, or is no such record.
pub fn executed(path: &Path, of: Execution) -> Result<Execution, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let document: Document = serde_json::from_str(&text)
        .map_err(|error| format!("{}: is no record of a replay: {error}", path.display()))?;
    if (document.format.as_str(), document.version) != ("remat-replay", 1) {
        let Document { format, version, .. } = document;
        return Err(format!(
            "{}: is {format:?} version {version}; expected \"remat-replay\" version 1",
            path.display()
        ));
    }
    let arena = document.arena.as_ref();
    let (equality, times, memory) = (document.equality.as_ref(), document.time_ns.as_ref(), document.memory.as_ref());
    Ok(Execution {
        device_name: document.device.name,
        framework: document.framework.map_or(String::new(), |f| format!("{} {}", f.name, f.version)),
        executed_time_ns: times.map(|times| times.median),
        executed_time_spread_ns: times.map(|times| times.spread),
        executed_over_store_all: document.over_store_all.map(|ratio| ratio.executed),
        simulated_over_store_all: document.over_store_all.map(|ratio| ratio.simulated),
        executed_peak_bytes: memory.map(|memory| memory.allocated_peak_bytes),
        executed_storage_peak_bytes: memory.and_then(|memory| memory.storage_peak_bytes),
        executed_reserved_bytes: memory.and_then(|memory| memory.reserved_peak_bytes),
        executed_arena_bytes: arena.map(|arena| arena.height_bytes),
        executed_beside_bytes: arena.map(|arena| arena.beside_bytes),
        // In an arena nothing may change by a bit, whatever the framework's own iteration says.
        executed_equal: match arena {
            Some(arena) if !arena.equal_to_plain => Some(false),
            _ => equality.and_then(|equality| equality.equal),
        },
        executed_bitwise: equality.map(|equality| equality.bitwise),
        executed_within_tolerance: equality.map(|equality| equality.within_tolerance),
        executed_note: one_line(&document.notes.join("; ")),
        executed_error: one_line(&document.error),
        ..of
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Execution, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        std::fs::write(&path, text).unwrap();
        executed(&path, Execution::default()).map_err(|error| error.replace(&path.display().to_string(), "r.json"))
    }

    #[test]
    fn a_record_becomes_a_row() {
        let row = of(r#"{"format": "remat-replay", "version": 1, "method": "m", "seed": 0,
            "device": {"kind": "cpu", "name": "A"}, "framework": {"name": "pytorch", "version": "2.11"},
            "equality": {"equal": true, "bitwise": 5, "within_tolerance": 1, "tolerance": 0.1, "missing": []},
            "time_ns": {"median": 7, "spread": 1, "samples": [7]},
            "over_store_all": {"executed": 1.5, "simulated": 1.25},
            "memory": {"before_bytes": 1, "allocated_peak_bytes": 9, "storage_peak_bytes": 8}, "notes": ["a", "b"]}"#);
        let row = row.unwrap();
        assert_eq!(
            (row.executed_time_ns, row.executed_peak_bytes, row.executed_storage_peak_bytes),
            (Some(7), Some(9), Some(8))
        );
        assert_eq!((row.executed_over_store_all, row.simulated_over_store_all), (Some(1.5), Some(1.25)));
        assert_eq!(
            (row.executed_equal, row.executed_bitwise, row.executed_reserved_bytes),
            (Some(true), Some(5), None)
        );
        assert_eq!((row.executed_note.as_str(), row.framework.as_str()), ("a; b", "pytorch 2.11"));
    }

    #[test]
    fn a_record_in_an_arena_says_what_lies_beside_it_and_is_equal_only_if_the_plain_replay_is() {
        let text = |equal: bool| {
            format!(
                r#"{{"format": "remat-replay", "version": 1, "device": {{"kind": "cpu"}},
                "equality": {{"equal": true, "bitwise": 5, "within_tolerance": 1}},
                "memory": {{"allocated_peak_bytes": 9, "storage_peak_bytes": 8}},
                "arena": {{"height_bytes": 6, "beside_bytes": 1, "method": "m", "equal_to_plain": {equal}}}}}"#
            )
        };
        let row = of(&text(true)).unwrap();
        assert_eq!((row.executed_arena_bytes, row.executed_beside_bytes), (Some(6), Some(1)));
        assert_eq!((row.executed_equal, of(&text(false)).unwrap().executed_equal), (Some(true), Some(false)));
    }

    #[test]
    fn a_record_of_a_failure_has_its_words() {
        let row =
            of(r#"{"format": "remat-replay", "version": 1, "device": {"kind": "cpu"}, "error": "step 3"}"#).unwrap();
        assert_eq!((row.executed_error.as_str(), row.executed_time_ns, row.executed_equal), ("step 3", None, None));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(of("{}").unwrap_err().starts_with("r.json: is no record of a replay: missing field `format`"));
        let other = of(r#"{"format": "x", "version": 1, "device": {"kind": "cpu"}}"#).unwrap_err();
        assert_eq!(other, "r.json: is \"x\" version 1; expected \"remat-replay\" version 1");
    }
}
