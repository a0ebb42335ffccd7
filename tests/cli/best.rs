//! Best-known values: they get better, never worse, and every one has a schedule.

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
fn a_row_whose_schedule_says_otherwise_is_refused() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
    let path = checkout.path("run/records.csv");
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let headers = reader.headers().unwrap().clone();
    let column = headers.iter().position(|name| name == "simulated_time").unwrap();
    let row: Vec<_> = reader.records().next().unwrap().unwrap().iter().map(str::to_owned).collect();
    let edited = row.iter().enumerate().map(|(at, value)| if at == column { "1" } else { value.as_str() });
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_path(&path).unwrap();
    writer.write_record(&headers).unwrap();
    writer.write_record(edited).unwrap();
    writer.flush().unwrap();
    let done = checkout.bench("best --update run");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("the entry says 1"), "{}", done.stdout);
    assert!(times(&checkout).is_empty());
}

#[test]
fn a_schedule_that_is_gone_is_named_by_a_check() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --budgets 1.0x --out run");
    checkout.ok("best --update run");
    std::fs::remove_dir_all(checkout.path("results/best-known")).unwrap();
    let done = checkout.bench("best --check");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("counter chain, memory-persistent at "), "{}", done.stdout);
}

/// Those that are committed.
#[test]
fn every_best_known_value_of_the_project_is_what_the_simulator_says_of_its_schedule() {
    let root = env!("CARGO_MANIFEST_DIR");
    let mut command = Checkout::new().command("best --check");
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
    assert!(checkout.ok("best --check").stdout.ends_with("each is what the simulator says\n"));
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
