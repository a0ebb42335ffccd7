//! Every file of `instances/malformed/` is refused with the message that stands beside it.

use std::path::PathBuf;

use remat_core::io::read_instance;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../instances/malformed")
}

/// Set `UPDATE_EXPECTED=1` to write the messages anew; read the difference before committing it.
#[test]
fn every_malformed_instance_is_refused_with_its_message() {
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut files: Vec<_> =
        std::fs::read_dir(folder()).expect("the folder is there").flatten().map(|e| e.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension != "error"));
    files.sort();
    assert!(files.len() >= 25, "only {} malformed instances", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let found = match read_instance(&path) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string().replace(&path.display().to_string(), &name),
        };
        let expected_path = folder().join(format!("{name}.error"));
        if update {
            std::fs::write(&expected_path, format!("{found}\n")).expect("the folder is writable");
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        if expected.trim_end() != found {
            wrong.push(format!("{name}\n  expected {expected}  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
