//! Best-known values: they get better, never worse, and every one has a schedule.

use std::collections::BTreeSet;

use crate::checkout::{Checkout, rows};

fn times(checkout: &Checkout) -> Vec<(String, String, String)> {
    let rows = rows(&checkout.path("results/best-known.csv"));
    rows.iter().map(|row| (row["instance"].clone(), row["budget_size"].clone(), row["time"].clone())).collect()
}

#[test]
fn an_update_takes_what_is_better_and_nothing_else() {
    let checkout = Checkout::new();
    let budgets = "--budgets 0.8x,1.0x";
    checkout.ok(&format!("run --suite mini --methods revolve {budgets} --out weak"));
    checkout.ok(&format!("run --suite mini --methods rotor-persistent {budgets} --out strong"));
    let done = checkout.ok("best --update weak");
    assert!(done.stdout.contains("results/best-known.csv: ") && !done.stdout.contains(": 0 new"), "{}", done.stdout);
    let weak = times(&checkout);
    checkout.ok("best --update strong");
    let strong = times(&checkout);
    assert!(strong.len() >= weak.len());
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let mut better = 0;
    for (instance, budget, time) in &weak {
        let now = strong.iter().find(|(name, bytes, _)| (name, bytes) == (instance, budget)).unwrap();
        assert!(number(&now.2) <= number(time), "{instance} at {budget}");
        better += usize::from(number(&now.2) < number(time));
    }
    assert!(better > 0, "revolve is as good as rotor-persistent nowhere");
    assert!(checkout.ok("best --update weak").stdout.ends_with(": 0 new, 0 better\n"));
    assert_eq!(times(&checkout), strong);
    assert!(checkout.ok("best --instance count*").stdout.contains("rotor-persistent"));
    checkout.ok("best --check");
}

#[test]
fn an_update_removes_the_schedules_that_it_replaced_and_no_others() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods revolve --out weak");
    checkout.ok("run --suite mini --methods rotor-persistent --out strong");
    let schedules = || -> BTreeSet<_> {
        let folders = std::fs::read_dir(checkout.path("results/best-known")).unwrap().flatten();
        folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten()).map(|file| file.path()).collect()
    };
    let table = checkout.path("results/best-known.csv");
    checkout.ok("best --update weak");
    let before = schedules();
    checkout.ok("best --update strong");
    let named: BTreeSet<_> = rows(&table)
        .iter()
        .map(|row| checkout.path("results").join(&row["schedule"]))
        .filter(|p| p.is_file())
        .collect();
    assert_eq!(schedules(), named);
    assert!(!before.is_subset(&named), "none was replaced");
    // The table loses lines: their schedules stay.
    let text = std::fs::read_to_string(&table).unwrap();
    let head: String = text.split_inclusive('\n').take(2).collect();
    for lost in [Some(head.as_str()), Some(""), None] {
        std::fs::remove_file(&table).unwrap();
        if let Some(text) = lost {
            std::fs::write(&table, text).unwrap();
        }
        checkout.ok("best --update weak");
        assert!(schedules().is_superset(&named), "{lost:?}");
    }
}

#[test]
fn a_folder_without_values_and_a_pattern_that_matches_none_are_one_error() {
    let checkout = Checkout::new();
    for arguments in ["best --folder nowhere", "best --check --folder nowhere", "allocate --best-known nowhere"] {
        let done = checkout.bench(arguments);
        let words = "error: nowhere/best-known.csv: no best-known values; name a folder that has some";
        assert_eq!((done.code, done.last_error()), (Some(2), words), "{arguments}");
    }
    checkout.ok("run --suite mini --methods store-all --out none");
    checkout.ok("best --update none");
    assert!(!checkout.path("results/best-known.csv").exists(), "store-all has no budget, so no value");
    checkout.ok("run --suite mini --methods rotor-persistent --budgets 1.0x --out run");
    checkout.ok("best --update run");
    for arguments in ["best --instance rondom", "allocate --best-known results rondom -o t.csv"] {
        let done = checkout.bench(arguments);
        let begins = "error: results/best-known.csv: none of its 2 instances matches \"rondom\"; nearest: ";
        assert!(done.code == Some(2) && done.last_error().starts_with(begins), "{arguments}: {}", done.stderr);
    }
    assert!(!checkout.path("t.csv").exists());
}

#[test]
fn a_row_whose_schedule_says_otherwise_is_refused() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
    edit(&checkout, "run/records.csv", "simulated_time", "1");
    let done = checkout.bench("best --update run");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("the row says 1 and"), "{}", done.stdout);
    assert!(times(&checkout).is_empty());
}

#[test]
fn a_proof_that_its_method_does_not_claim_is_refused() {
    for (method, words) in [
        ("wizard", "its proof cannot be tried again: no method \"wizard\""),
        ("rotor-persistent", "the row claims \"optimum: all schedules\", rotor-persistent["),
    ] {
        let checkout = Checkout::new();
        checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
        edit(&checkout, "run/records.csv", "claim", "optimum: all schedules");
        edit(&checkout, "run/records.csv", "method", method);
        let done = checkout.bench("best --update run");
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(done.stdout.contains(words), "{}", done.stdout);
        assert!(times(&checkout).is_empty());
    }
}

/// Sets a column of the first row of a file.
fn edit(checkout: &Checkout, file: &str, column: &str, value: &str) {
    let path = checkout.path(file);
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let headers = reader.headers().unwrap().clone();
    let at = headers.iter().position(|name| name == column).unwrap();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_path(&path).unwrap();
    writer.write_record(&headers).unwrap();
    for (index, row) in rows.iter().enumerate() {
        let edited = row.iter().enumerate().map(|(column, old)| if (index, column) == (0, at) { value } else { old });
        writer.write_record(edited).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn updates_at_the_same_time_lose_nothing() {
    let checkout = Checkout::new();
    let chosen = [("revolve", "counter"), ("rotor-persistent", "random")];
    for (method, instance) in chosen {
        checkout.ok(&format!("run --suite mini --methods {method} --instances {instance} --out {instance}"));
    }
    let start = |(_, instance): (&str, &str)| checkout.command(&format!("best --update {instance}")).spawn().unwrap();
    for mut update in chosen.map(start) {
        assert!(update.wait().unwrap().success());
    }
    let known: BTreeSet<String> = times(&checkout).into_iter().map(|(instance, ..)| instance).collect();
    assert_eq!(known, chosen.map(|(_, instance)| instance.to_owned()).into());
    checkout.ok("best --check --time 0.1");
}

#[test]
fn a_schedule_that_is_gone_is_named_by_a_check() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
    checkout.ok("best --update run");
    std::fs::remove_dir_all(checkout.path("results/best-known")).unwrap();
    let done = checkout.bench("best --check");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("counter all schedules at 1.0x: "), "{}", done.stdout);
}

#[test]
fn a_check_of_some_instances_looks_at_no_others() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --budgets 1.0x --out run");
    checkout.ok("best --update run");
    std::fs::remove_dir_all(checkout.path("results/best-known/counter")).unwrap();
    assert_eq!(checkout.bench("best --check --time 1").code, Some(1));
    assert_eq!(checkout.bench("best --check --time 1 --instance counter").code, Some(1));
    checkout.ok("best --check --time 1 --instance random*");
    let nothing = checkout.bench("best --check --instance other");
    assert!(nothing.code == Some(2) && nothing.last_error().contains("matches \"other\""), "{}", nothing.stderr);
}

#[test]
fn a_check_names_what_does_not_follow_and_what_is_not_proved_again() {
    for (column, value, words) in [
        ("gap", "7.5", "do not follow"),
        ("status", "solved", "do not follow"),
        ("bound", "1", "do not follow"),
        ("bound_by", "revolve", "does not cover the class"),
        ("bound_by", "ap-greedy", "does not cover the class"),
        ("bound_by", "nothing", "no method"),
    ] {
        let checkout = library("checkmate-lp");
        checkout.ok("best --campaign run --time 5");
        checkout.ok("best --check --time 1");
        edit(&checkout, "results/best-known.csv", column, value);
        let done = checkout.bench("best --check --time 1");
        assert_eq!(done.code, Some(1), "{column}");
        assert!(done.stdout.contains(words), "{column}: {}", done.stdout);
    }
}

fn library(methods: &str) -> Checkout {
    let checkout = Checkout::new();
    add_library(&checkout, methods);
    checkout
}

/// Gives a checkout a suite `library` with some methods, separated by spaces.
pub fn add_library(checkout: &Checkout, methods: &str) {
    let methods = methods.split(' ').map(|id| format!("[[methods]]\nid = \"{id}\"\n")).collect::<Vec<_>>().concat();
    let text = format!(
        "name = \"library\"\ntitle = \"t\"\nanalysis = \"a\"\ninstances = [\"small/*\"]\nbudgets = [\"0.6x\", \"0.9x\"]\n\
         [limits]\ntime_seconds = 5\nthreads = 1\n{methods}"
    );
    std::fs::write(checkout.path("instances/suites/library.toml"), text).unwrap();
}

#[test]
fn a_campaign_leaves_out_what_is_solved_and_every_value_passes_the_check() {
    let checkout = library("checkmate-ilp monet free-order-bound auto");
    let first = checkout.ok("best --campaign first");
    assert!(first.stdout.contains("results/best-known.csv: "), "{}", first.stdout);
    let known = rows(&checkout.path("results/best-known.csv"));
    assert!(known.iter().any(|row| row["status"] == "solved"), "{known:?}");
    for class in ["stages, one implementation", "all schedules"] {
        assert!(known.iter().any(|row| row["class"] == class), "{class}");
    }
    for row in &known {
        let number = |column: &str| row[column].parse::<u64>().ok();
        assert!(number("bound").zip(number("time")).is_none_or(|(bound, time)| bound <= time), "{row:?}");
    }
    let checked = checkout.ok("best --check --time 5").stdout;
    assert!(checked.contains(" proved again") && !checked.contains(" 0 values proved"), "{checked}");
    // Rows of the same folder are not made again; in another one, what is solved is left out.
    let made = rows(&checkout.path("first/records.csv")).len();
    assert!(checkout.ok("best --campaign first").stdout.ends_with(": 0 new, 0 better\n"));
    assert_eq!(rows(&checkout.path("first/records.csv")).len(), made);
    checkout.ok("best --campaign second");
    assert!(rows(&checkout.path("second/records.csv")).len() < made);
    assert_eq!(rows(&checkout.path("results/best-known.csv")).len(), known.len());
}

#[test]
fn a_killed_campaign_goes_on_where_it_was() {
    let checkout = library("checkmate-ilp free-order-bound");
    for milliseconds in [100, 300, 500] {
        let mut child = checkout.command("best --campaign run").stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        // What is there is whole, whenever it was that the campaign was killed.
        if checkout.path("results/best-known.csv").exists() {
            checkout.ok("best --check --time 0.1");
        }
    }
    checkout.ok("best --campaign run");
    let keys = |file: &str| {
        let key = |row: std::collections::HashMap<String, String>| {
            (row["instance"].clone(), row["method"].clone(), row["budget"].clone())
        };
        rows(&checkout.path(file)).into_iter().map(key).collect::<Vec<_>>()
    };
    let made = keys("run/records.csv");
    let distinct: std::collections::HashSet<_> = made.iter().collect();
    assert_eq!(made.len(), distinct.len());
    checkout.ok("best --check --time 1");
    assert!(times(&checkout).len() >= 4);
}

/// Those that are committed.
#[test]
fn every_best_known_value_of_the_project_is_what_the_simulator_says_of_its_schedule() {
    let root = env!("CARGO_MANIFEST_DIR");
    // Of the proofs CI tries as many as the command does.
    let proofs = if std::env::var_os("BENCH_ALL_NETWORKS").is_some() { "" } else { " --time 2" };
    let mut command = Checkout::new().command(&format!("best --check{proofs}"));
    let output = command.current_dir(root).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let schedules: usize = text.split_whitespace().next().unwrap().parse().unwrap();
    assert!(schedules > 20, "{text}");
}

/// Every entry was once called wrong where a file is called otherwise than the instance in it.
#[test]
fn an_instance_is_found_by_its_contents_whatever_its_file_is_called() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
    checkout.ok("best --update run");
    std::fs::rename(checkout.path("instances/small/counter.json"), checkout.path("instances/small/other.json"))
        .unwrap();
    assert!(checkout.ok("best --check").stdout.contains("each is what the simulator says; "));
    checkout.ok("check run");
    // A file of that name with something else in it is no reason to stop looking.
    checkout.ok("instances generate figure4 --n 6 -o instances/small/counter.json");
    checkout.ok("best --check");
    std::fs::remove_file(checkout.path("instances/small/other.json")).unwrap();
    std::fs::remove_file(checkout.path("instances/small/counter.json")).unwrap();
    let done = checkout.bench("best --check");
    assert!(done.stdout.contains("neither where the run found it nor under instances/"), "{}", done.stdout);
}

#[test]
fn values_of_an_instance_as_it_was_before_make_room_for_those_of_the_new_one() {
    let checkout = Checkout::new();
    let run = "run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out";
    checkout.ok(&format!("{run} first"));
    checkout.ok("best --update first");
    let path = checkout.path("instances/small/counter.json");
    let mut document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let time = &mut document["operators"][0]["implementations"][0]["time"];
    *time = (time.as_u64().unwrap() + 1).into();
    std::fs::write(&path, document.to_string()).unwrap();
    assert!(checkout.bench("best --check").stdout.contains("has changed"));
    let before = rows(&checkout.path("results/best-known.csv"));
    checkout.ok(&format!("{run} second"));
    let done = checkout.ok("best --update second").stdout;
    assert!(
        done.contains(&format!(", {} value", before.len())) && done.contains("as they were before dropped"),
        "{done}"
    );
    checkout.ok("best --check");
    assert_eq!(rows(&checkout.path("results/best-known.csv")).len(), before.len());
}

#[test]
fn what_goes_wrong_advises_no_flag_that_best_lacks() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
    std::fs::create_dir_all(checkout.path("results")).unwrap();
    std::fs::write(checkout.path("results/best-known"), "in the way of a folder").unwrap();
    let in_the_way = checkout.bench("best --update run");
    std::fs::write(checkout.path("run/records.csv"), "a,b\n1,2\n").unwrap();
    let foreign = checkout.bench("best --update run");
    for done in [in_the_way, foreign] {
        assert!(done.code != Some(0) && !done.last_error().contains("--"), "{}", done.stderr);
    }
}
