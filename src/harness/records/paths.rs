//! Where the files of a row lie in its folder: schedule, trace, replay.

use std::path::{Path, PathBuf};

use super::Record;
use crate::ground::names::file_name;

/// What brings the schedule back of a row that is there.
pub const RESTORE: &str = "remove its row, and continue the run with --resume, or start it afresh with --force";

/// `schedules/<instance>/<method>[<parameters>]@<budget>+seed<seed>.json.zst` (no seed 0), in characters safe for file names.
pub fn schedule_path(folder: &Path, record: &Record) -> PathBuf {
    named_path(folder, record, "json.zst")
}

/// `traces/<instance>/<method>[<parameters>]@<budget>+seed<seed>.csv`, likewise.
pub fn trace_path(folder: &Path, record: &Record) -> PathBuf {
    named_path(folder, record, "csv")
}

/// `<instance>/<method>[<parameters>]@<budget>+seed<seed>.<extension>` in a folder.
pub fn named_path(folder: &Path, record: &Record, extension: &str) -> PathBuf {
    let Record { instance, method, parameters, budget, seed, .. } = record;
    path_of(folder, instance, [method, parameters, budget], *seed, extension)
}

/// The same of what is no row; a part that is empty, and seed 0, are left out.
pub fn path_of(
    folder: &Path,
    instance: &str,
    [method, parameters, budget]: [&str; 3],
    seed: u64,
    extension: &str,
) -> PathBuf {
    let parameters = if parameters.is_empty() { String::new() } else { format!("[{parameters}]") };
    let budget = if budget.is_empty() { String::new() } else { format!("@{budget}") };
    let seed = if seed == 0 { String::new() } else { format!("+seed{seed}") };
    let name = file_name(&format!("{method}{parameters}{budget}{seed}"));
    folder.join(file_name(instance)).join(format!("{name}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::records::tests::example;

    #[test]
    fn schedules_have_safe_file_names_and_rows_that_differ_have_others() {
        let mut record = example("rotor-persistent", Some(("0.5x", 7)));
        record.parameters = "slots=500".into();
        let path = schedule_path(Path::new("out"), &record);
        assert_eq!(path, Path::new("out/net/rotor-persistent[slots=500]@0.5x.json.zst"));
        record.seed = 3;
        let path = schedule_path(Path::new("out"), &record);
        assert_eq!(path, Path::new("out/net/rotor-persistent[slots=500]@0.5x+seed3.json.zst"));
        let folder = |name: &str| {
            let record = Record { instance: name.into(), ..record.clone() };
            schedule_path(Path::new("out"), &record).parent().map(|path| path.display().to_string())
        };
        assert_ne!(folder("../etc/a b"), folder("../etc/a_b"));
        assert!(folder("..").is_some_and(|path| path.starts_with("out/_")));
        // FastSA's parameters once made a name of 262 bytes, which no file system takes.
        record.parameters = "option=value,".repeat(20);
        let long = schedule_path(Path::new("out"), &record);
        record.budget = "0.6x".into();
        assert_ne!(long, schedule_path(Path::new("out"), &record));
        assert!(long.file_name().is_some_and(|name| name.len() < 220));
    }
}
