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
        "check",
        "table",
        "max-batch",
        "plot",
        "reproduce",
        "methods",
        "instances",
        "instances list",
        "instances show",
        "instances validate",
        "instances import",
        "instances import-monet",
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
    assert!(!Checkout::new().ok("--help").stdout.contains("worker"));
}
