//! `bench reproduce`: runs, comparisons that are kept, and texts that are made of them.

use std::path::Path;
use std::process::Command;

use crate::checkout::{Checkout, Done, rows};

/// A paper with one table, about the chain of Figure 4 with n = 5: 3n - 2 = 13 within 15.
const CATALOGUE: &str = r#"
paper = "mini-2026"
title = "Somebody: A paper"
tables = 2
figures = 1

[[entry]]
id = "mini-table-1"
item = "Table 1"
shows = "Makespans"
kind = "exact"
why = "The chain is given"
figures = [{ file = "mini.csv", where = "Table 1" }]
agreement = { within = 0.0 }
plot = "throughput-against-peak"
[[entry.run]]
suite = "mini"
budgets = ["15"]
quick = { instances = ["small/counter"] }

[[entry]]
id = "mini-table-2"
item = "Table 2"
shows = "The same"
kind = "exact"
why = "It is printed twice"
same_as = "mini-table-1"

[[entry]]
id = "mini-figure-1"
item = "Figure 1"
shows = "A drawing"
kind = "not"
why = "There is nothing to compute"
"#;

const FIGURES: &str = "\
paper,where,instance,method,budget,quantity,printed,unit,remark
mini-2026,Table 1,small/counter,rotor-persistent,15,time,13,,
mini-2026,Table 1,small/counter,rotor-persistent,15,time,12,,doubtful
mini-2026,Table 1,small/counter,rotor-persistent,1,time,-,,
mini-2026,Table 1,small/random,rotor-persistent,15,time,100,,
";

fn checkout() -> Checkout {
    let checkout = Checkout::new();
    for folder in ["instances/reproduce", "results/published"] {
        std::fs::create_dir_all(checkout.path(folder)).unwrap();
    }
    std::fs::write(checkout.path("instances/reproduce/mini.toml"), CATALOGUE).unwrap();
    std::fs::write(checkout.path("results/published/mini.csv"), FIGURES).unwrap();
    checkout
}

/// `bench` in the real checkout.
fn here(arguments: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().unwrap().into()
}

#[test]
fn printed_figures_stand_beside_ours_and_are_kept() {
    let checkout = checkout();
    let done = checkout.ok("reproduce mini-table-1");
    assert!(done.stderr.contains("mini-table-1: suite mini"), "{}", done.stderr);
    let run = rows(&checkout.path("results/reproduce-quick/mini/records.csv"));
    assert!(run.iter().all(|row| row["instance"] == "counter" || row["instance"].contains("n5")), "{run:?}");
    assert!(run.iter().all(|row| row["budget"].is_empty() || row["budget"] == "15"), "{run:?}");
    assert!(done.stdout.contains("1 match exactly, 1 worse, 2 not run (quick pass)"), "{}", done.stdout);
    let kept = rows(&checkout.path("results/reproduce/mini-table-1-quick.csv"));
    let columns = |column: &str| kept.iter().map(|row| row[column].clone()).collect::<Vec<_>>();
    assert_eq!(columns("verdict"), ["match", "worse", "not-run", "not-run"]);
    assert_eq!(columns("ours"), ["13.0", "13.0", "", ""]);
    assert_eq!(columns("note")[1..], ["doubtful", "", ""]);
    assert!(checkout.path("results/reproduce/mini-table-1-quick/counter.svg").is_file());
}

#[test]
fn a_second_run_goes_on_where_the_first_ended_and_a_full_one_counts_more() {
    let checkout = checkout();
    checkout.ok("reproduce mini-table-1 --quick");
    // What programs read is one document.
    let both = checkout.ok("reproduce mini-table-1 mini-figure-1 --no-run --format json").stdout;
    let both: Vec<serde_json::Value> = serde_json::from_str(&both).unwrap();
    assert!(both.len() == 4 && both.iter().all(|row| row["entry"] == "mini-table-1"), "{both:?}");
    let again = checkout.ok("reproduce mini-table-2");
    assert!(again.stderr.contains("0 runs for 0 rows"), "{}", again.stderr);
    let list = checkout.ok("reproduce --list").stdout;
    assert!(list.contains("1 match exactly, 1 worse, 2 not run (quick pass)"), "{list}");
    checkout.ok("reproduce --all --full");
    let list = checkout.ok("reproduce --list").stdout;
    assert_eq!(list.matches("(full pass)").count(), 2, "{list}");
    assert!(list.contains("There is nothing to compute") && list.contains("As mini-table-1."), "{list}");
    let kept = rows(&checkout.path("results/reproduce/mini-table-1.csv"));
    assert_ne!(kept[3]["ours"], "");
}

#[test]
fn rows_of_other_limits_are_refused_and_a_comparison_without_rows_leaves_the_one_that_is_there() {
    let checkout = checkout();
    checkout.ok("run --suite mini --instances counter --budgets 15 --time-limit 50 --no-plots");
    let kept = checkout.path("results/reproduce/mini-table-1.csv");
    let refused = checkout.bench("reproduce mini-table-1 --full");
    assert_eq!(refused.code, Some(2));
    let words = refused.last_error();
    assert!(
        words.contains("was made with --time-limit 50 and 1 thread, and this run has no limits and 1 thread; "),
        "{words}"
    );
    assert!(words.ends_with("remove the folder, or name another one with --most SECONDS"), "{words}");
    assert!(!kept.exists());

    std::fs::remove_dir_all(checkout.path("results/mini")).unwrap();
    checkout.ok("reproduce mini-table-1 --full");
    let before = std::fs::read(&kept).unwrap();
    std::fs::remove_dir_all(checkout.path("results/mini")).unwrap();
    let done = checkout.ok("reproduce mini-table-1 --full --no-run");
    assert!(done.stderr.contains("mini-table-1: nothing was run for its figures"), "{}", done.stderr);
    assert_eq!((std::fs::read(&kept).unwrap(), done.stdout.as_str()), (before, ""));
}

#[test]
fn what_cannot_be_reproduced_says_why_and_a_wrong_id_names_the_nearest() {
    let checkout = checkout();
    let done = checkout.ok("reproduce mini-figure-1");
    assert!(done.stderr.contains("mini-figure-1: not: There is nothing to compute"), "{}", done.stderr);
    let wrong = checkout.bench("reproduce mini-tabel-1");
    assert_eq!(wrong.code, Some(2));
    assert_eq!(
        wrong.last_error(),
        "error: no table or figure \"mini-tabel-1\"; nearest: mini-table-1, mini-table-2, mini-figure-1; `bench reproduce --list` names all"
    );
    assert_eq!(checkout.bench("reproduce").code, Some(2));
}

#[test]
fn a_catalogue_or_a_figure_that_breaks_a_rule_is_named() {
    let checkout = checkout();
    let figures = checkout.path("results/published/mini.csv");
    std::fs::write(&figures, FIGURES.replace(",time,13", ",tiem,13")).unwrap();
    let wrong = checkout.bench("reproduce mini-table-1 --no-run");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.last_error().starts_with("error: mini-2026, Table 1: quantity \"tiem\" is not known"));
    let catalogue = checkout.path("instances/reproduce/mini.toml");
    std::fs::write(&catalogue, CATALOGUE.replace("tables = 2", "tables = 3")).unwrap();
    let wrong = checkout.bench("reproduce --list");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.last_error().ends_with("mini-2026: Table 3 has 0 entries; each has one"), "{}", wrong.last_error());
    std::fs::write(&catalogue, CATALOGUE.replace("shows = \"Makespans\"", "show = \"Makespans\"")).unwrap();
    let wrong = checkout.bench("reproduce --list");
    assert!(wrong.last_error().contains("mini.toml: line 10: unknown field `show`"), "{}", wrong.last_error());
}

#[test]
fn sections_of_a_text_are_made_anew_and_checked() {
    let checkout = checkout();
    let path = checkout.path("page.md");
    let text = "Results\n\n<!-- bench reproduce: list -->\n<!-- bench reproduce: end -->\n";
    std::fs::write(&path, text).unwrap();
    let stale = checkout.bench("reproduce --splice page.md --check");
    assert_eq!(stale.code, Some(1));
    assert!(stale.last_error().contains("run `bench reproduce --splice page.md`"), "{}", stale.last_error());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    checkout.ok("reproduce --splice page.md");
    checkout.ok("reproduce --splice page.md --check");
    assert!(std::fs::read_to_string(&path).unwrap().contains("| mini-table-2 |"));
}

#[test]
fn the_results_on_the_pages_are_what_the_command_would_write() {
    let pages = ["README.md", "docs/results/overview.md", "results/reproduce/README.md"];
    let done = here(&[&["reproduce", "--splice"], &pages[..], &["--check"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn the_pages_of_the_methods_are_what_the_command_would_write() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().to_str().unwrap();
    let done = here(&["methods", "--pages", made]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/methods");
    let names = |folder: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&kept), names(folder.path()), "run `just pages`");
    for name in names(&kept) {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(&name)).unwrap();
        assert!(
            read(&kept) == read(folder.path()),
            "{} is not what its doc comment says: run `just pages`",
            name.display()
        );
    }
}
