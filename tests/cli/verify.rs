//! `bench verify`: reports on legal schedules, and the first illegal step of others.

use crate::checkout::Checkout;

fn solved() -> Checkout {
    let checkout = Checkout::new();
    checkout.ok("solve counter --method rotor-persistent --budget 15 -o schedule.json");
    checkout
}

fn edit(checkout: &Checkout, change: impl FnOnce(&mut serde_json::Value)) {
    let text = std::fs::read_to_string(checkout.path("schedule.json")).unwrap();
    let mut schedule = serde_json::from_str(&text).unwrap();
    change(&mut schedule);
    std::fs::write(checkout.path("schedule.json"), schedule.to_string()).unwrap();
}

#[test]
fn a_legal_schedule_is_reported_on() {
    insta::assert_snapshot!("verify", solved().ok("verify counter schedule.json").stdout);
}

#[test]
fn the_timeline_has_a_line_per_step() {
    let checkout = solved();
    let report = checkout.ok("verify counter schedule.json --timeline memory.csv --format json").stdout;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let timeline = std::fs::read_to_string(checkout.path("memory.csv")).unwrap();
    assert!(timeline.starts_with("step,action,element,memory_bytes\n0,compute,F1 ("), "{timeline}");
    assert_eq!(timeline.lines().count() - 1, usize::try_from(report["steps"].as_u64().unwrap()).unwrap());
    let highest = timeline.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap()).max();
    assert_eq!(highest, report["peak"].as_u64());
}

#[test]
fn the_first_illegal_step_is_named() {
    let checkout = solved();
    edit(&checkout, |schedule| drop(schedule["steps"].as_array_mut().unwrap().remove(0)));
    let done = checkout.bench("verify counter schedule.json");
    assert_eq!(done.code, Some(1));
    assert_eq!(done.stdout, "");
    assert_eq!(
        done.stderr,
        "error: schedule.json: illegal schedule: step 0 (compute operator 1 \"F2\"): reads tensor 2 \"a1\", which is not resident\n"
    );
    let report = checkout.bench("verify counter schedule.json --format json");
    assert_eq!(report.code, Some(1));
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["legal"], false);
}

#[test]
fn transfers_are_reported_with_the_rates_that_the_schedule_assumes() {
    let checkout = solved();
    let offload = |schedule: &mut serde_json::Value| {
        schedule["steps"].as_array_mut().unwrap().insert(1, serde_json::json!({"offload": 2}));
        schedule["steps"].as_array_mut().unwrap().insert(2, serde_json::json!({"fetch": 2}));
        schedule["claimed_time"] = serde_json::Value::Null;
    };
    edit(&checkout, offload);
    let done = checkout.bench("verify counter schedule.json");
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("step 1: offloads a tensor, but the schedule has no transfer_rates"),
        "{}",
        done.stderr
    );
    edit(&checkout, |schedule| schedule["transfer_rates"] = serde_json::json!({"offload": 1000, "fetch": 500}));
    let report = checkout.ok("verify counter schedule.json").stdout;
    assert!(report.contains("transfers       1 offloads, 1 fetches: "), "{report}");
    assert!(report.contains("assuming 1000 and 500 "), "{report}");
    let report = checkout.ok("verify counter schedule.json --format json").stdout;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let bytes = report["transfers"]["host"].as_u64().unwrap();
    assert_eq!(report["transfers"]["time"].as_u64(), Some(3 * bytes), "1 and 2 units of time for each byte");
    edit(&checkout, |schedule| schedule["transfer_rates"]["fetch"] = 0.into());
    assert_eq!(checkout.bench("verify counter schedule.json").code, Some(2));
}

#[test]
fn exceeded_budgets_and_wrong_claims_fail() {
    let checkout = solved();
    let done = checkout.bench("verify counter schedule.json --budget 14");
    assert_eq!(done.code, Some(1));
    assert_eq!(done.stderr, "error: schedule.json: the budget is 14, but the simulator says 15\n");
    edit(&checkout, |schedule| schedule["claimed_time"] = 1.into());
    let done = checkout.bench("verify counter schedule.json");
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("the claimed time is 1, but the simulator says"), "{}", done.stderr);
    edit(&checkout, |schedule| {
        schedule["claimed_time"] = serde_json::Value::Null;
        schedule["budget_bytes"] = 1.into();
    });
    let done = checkout.bench("verify counter schedule.json --budget 14 --format json");
    assert_eq!(done.code, Some(1));
    assert_eq!(done.stderr, "error: schedule.json: the file's own budget is 1, but the simulator says 15\n");
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let own = serde_json::json!({"figure": "the file's own budget", "is": 1, "simulated": 15});
    assert_eq!((&report["exceeded"][0], report["exceeded"].as_array().unwrap().len()), (&own, 2));
}

#[test]
fn what_would_be_ignored_is_refused() {
    let checkout = solved();
    checkout.ok("allocate counter schedule.json -o plan.json");
    for arguments in ["verify nothing --plan plan.json", "verify --plan plan.json --timeline q.csv"] {
        let done = checkout.bench(arguments);
        assert!(done.code == Some(2) && done.stderr.contains("<SCHEDULE>"), "{arguments}: {}", done.stderr);
    }
}

#[test]
fn a_schedule_of_another_instance_is_refused() {
    let done = solved().bench("verify random schedule.json");
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("was made for counter ("), "{}", done.stderr);
    assert!(done.stderr.contains("), not for random ("), "{}", done.stderr);
    // Without a hash its name says so.
    let checkout = solved();
    edit(&checkout, |schedule| {
        schedule.as_object_mut().unwrap().remove("instance_hash");
    });
    checkout.ok("verify counter schedule.json");
    edit(&checkout, |schedule| schedule["instance"] = "other".into());
    let done = checkout.bench("verify counter schedule.json");
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("was made for instance \"other\", but this one is \""), "{}", done.stderr);
}
