//! `scripts/setup.sh` beside what a checkout has already.

use std::process::Command;

#[test]
fn a_configuration_of_cargo_that_somebody_else_wrote_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = |relative: &str| folder.path().join(relative);
    // What an earlier set-up fetched.
    for file in ["highs/complete", "highs/pkgconf/pkgconf", "highs/libclang/libclang.so", "checkout/.cargo/config.toml"]
    {
        std::fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        std::fs::write(path(file), "[build]\njobs = 1\n").unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/prebuilt.py");
    std::fs::create_dir(path("checkout/scripts")).unwrap();
    std::fs::copy(script, path("checkout/scripts/prebuilt.py")).unwrap();
    let set_up = || {
        let mut python = Command::new("python3");
        python.arg(path("checkout/scripts/prebuilt.py")).arg(path("highs")).output().unwrap()
    };
    let config = || std::fs::read_to_string(path("checkout/.cargo/config.toml")).unwrap();
    let refused = set_up();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && words.contains("is not from setup.sh and stays as it is"), "{words}");
    assert_eq!(config(), "[build]\njobs = 1\n");
    let ours = std::fs::read_to_string(path("highs/config.toml")).unwrap();
    std::fs::write(path("checkout/.cargo/config.toml"), format!("[build]\njobs = 1\n{ours}")).unwrap();
    assert!(set_up().status.success());
    assert!(config().starts_with("[build]\njobs = 1\n"));
    for stale in ["", "stale = 1\n"] {
        std::fs::write(path("checkout/.cargo/config.toml"), format!("{}\n{stale}", ours.lines().next().unwrap()))
            .unwrap();
        assert!(set_up().status.success());
        assert_eq!(config(), ours);
    }
}
