//! The help texts, word by word.

use crate::checkout::Checkout;

#[test]
fn help_texts_are_as_reviewed() {
    let checkout = Checkout::new();
    let commands = [
        "",
        "run",
        "solve",
        "verify",
        "allocate",
        "check",
        "status",
        "best",
        "site",
        "doctor",
        "completions",
        "man",
        "table",
        "max-batch",
        "plot",
        "reproduce",
        "methods",
        "instances",
        "instances list",
        "instances show",
        "instances validate",
        "instances index",
        "instances import",
        "instances import-monet",
        "instances import-dtr",
        "instances generate",
        "instances generate figure4",
        "instances schema",
    ];
    let texts = commands.map(|command| {
        let text = checkout.ok(&format!("{command} --help")).stdout;
        format!("##### bench {command} --help\n{text}")
    });
    insta::assert_snapshot!("help", texts.join("\n"));
}

#[test]
fn the_worker_is_not_advertised() {
    let help = Checkout::new().ok("--help").stdout;
    assert!(!help.contains("worker") && !help.contains("one task of a batch"), "{help}");
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    let checkout = Checkout::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = checkout.ok(&format!("completions {shell}")).stdout;
        for word in ["reproduce", "max-batch", "launcher", "retry-errors"] {
            assert!(script.contains(word), "{shell} hears nothing of {word}");
        }
    }
    checkout.ok("man pages");
    let page = std::fs::read_to_string(checkout.path("pages/bench-run.1")).unwrap();
    assert!(page.contains(".TH bench-run 1") && page.contains("cpu\\-limit"), "{page}");
    assert!(checkout.path("pages/bench-instances-list.1").is_file());
}

#[test]
fn the_doctor_names_what_is_missing_and_how_to_get_it() {
    let checkout = Checkout::new();
    let done =
        checkout.command("doctor --format csv").env("PATH", "").env("BENCH_ORTOOLS", "nowhere").output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(0));
    for (what, remedy) in
        [("slurm", "scripts/setup.sh"), ("gpu", "modelled"), ("cp-sat", "--ortools"), ("cache", "unset BENCH_CACHE")]
    {
        let line = text.lines().find(|line| line.starts_with(&format!("{what},missing,")));
        assert!(line.is_some_and(|line| line.contains(remedy)), "{what}: {text}");
    }
    for what in ["bench", "machine", "highs", "microlp", "instances"] {
        assert!(text.contains(&format!("{what},live,")), "{what}: {text}");
    }
}
