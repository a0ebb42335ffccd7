//! Instances on which answers once contradicted each other, the simulator, or what is true: `tests/fuzz/refuted`.

use crate::checkout::Checkout;

#[test]
fn what_was_refuted_once_is_not_claimed_again() {
    let checkout = Checkout::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/refuted");
    let mut files: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect();
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    // Another seed draws other settings.
    for seed in 0..3 {
        let done = checkout.ok(&format!("fuzz --seconds 3600 --seed {seed} {}", files.join(" ")));
        assert!(done.stdout.ends_with("nothing contradicts\n"), "{}", done.stdout);
        assert!(done.stdout.starts_with(&format!("{} instances, ", files.len())), "{}", done.stdout);
    }
}
