//! Ratios to the optimum and the search for the largest batch, from the command line.

use crate::checkout::{Checkout, rows};

/// A checkout with one network at three batch sizes, whose every size and time is proportional to the
/// batch; returns store-all's peak at batch 1 too.
fn with_batches() -> (Checkout, u64) {
    let checkout = Checkout::new();
    let text = std::fs::read_to_string(checkout.path("instances/small/counter.json")).unwrap();
    for batch in [1, 2, 5] {
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["name"] = format!("net-b{batch}").into();
        document["provenance"]["batch_size"] = batch.into();
        for tensor in document["tensors"].as_array_mut().unwrap() {
            tensor["bytes"] = (tensor["bytes"].as_u64().unwrap() * batch).into();
        }
        for operator in document["operators"].as_array_mut().unwrap() {
            for way in operator["implementations"].as_array_mut().unwrap() {
                way["time"] = (way["time"].as_u64().unwrap() * batch).into();
            }
        }
        std::fs::write(checkout.path(&format!("instances/net-b{batch}.json")), document.to_string()).unwrap();
    }
    let solved = checkout.ok("solve net-b1 --method store-all --format json").stdout;
    let solved: serde_json::Value = serde_json::from_str(&solved).unwrap();
    (checkout, solved["simulated_peak"].as_u64().unwrap())
}

#[test]
fn store_all_manages_the_batch_that_the_memory_is_a_multiple_of() {
    let (checkout, peak) = with_batches();
    for batch in [1, 6, 7] {
        let memory = batch * peak + peak / 2;
        let found = checkout
            .ok(&format!(
                "max-batch net-b1 net-b2 net-b5 --methods store-all,chen-greedy --memory {memory} --most 100 --format json"
            ))
            .stdout;
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found[0]["largest batch"], batch.to_string());
        assert_eq!(found[0]["none from"], (batch + 1).to_string());
        assert!(found[1]["largest batch"].as_str().unwrap().parse::<u64>().unwrap() >= batch);
    }
}

#[test]
fn a_batch_whose_numbers_overflow_is_above_the_largest() {
    let (checkout, _) = with_batches();
    let search = "max-batch net-b1 net-b2 --methods store-all --memory 9000000000000000 --format json";
    let mut command = checkout.command(&format!("{search} --most {}", u64::MAX));
    let done = command.env("TMPDIR", checkout.path("")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let largest: u64 = found[0]["largest batch"].as_str().unwrap().parse().unwrap();
    assert!(largest > 1 << 32 && found[0]["none from"] == "-", "{found}");
    let left = std::fs::read_dir(checkout.path("")).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("bench-max-batch"));
    assert_eq!(left.count(), 0);
}

#[test]
fn what_is_no_family_ends_with_the_element() {
    let (checkout, _) = with_batches();
    let mistakes = [
        "max-batch net-b1 counter --methods store-all --memory 99",
        "max-batch net-b1 net-b1 --methods store-all --memory 99",
        "max-batch net-b1 --methods store-all --memory 99",
        "max-batch net-b1 net-b2 --methods store-all --memory 99 --most 0",
    ];
    let mut shown = Vec::new();
    for mistake in mistakes {
        let done = checkout.bench(mistake);
        assert_eq!(done.code, Some(2));
        shown.push(format!("$ bench {mistake}\n{}\n", done.last_error()));
    }
    insta::assert_snapshot!("families", shown.concat());
}

const SUITE: &str = r#"
name = "both"
title = "ratios and batches"
analysis = "Nothing follows from it."
instances = ["net-b2"]
budgets = ["0.8x", "1.0x"]
ratios = true
published = "published.csv"
[limits]
threads = 1
[[methods]]
id = "store-all"
[[methods]]
id = "checkmate-ilp"
[max_batch]
memory = MEMORY
extra_forwards = 1.0
most = 100
networks = [["net-b1", "net-b2"]]
[[max_batch.methods]]
id = "store-all"
"#;

/// A checkout with the suite, whose memory is three times store-all's peak at batch 1, and lines of published figures.
pub fn with_suite(published: &str) -> Checkout {
    let (checkout, peak) = with_batches();
    let suite = SUITE.replace("MEMORY", &(3 * peak).to_string());
    std::fs::write(checkout.path("instances/suites/both.toml"), suite).unwrap();
    let published = format!("paper,where,instance,method,quantity,printed\n{published}");
    std::fs::write(checkout.path("published.csv"), published).unwrap();
    checkout
}

#[test]
fn a_suite_shows_ratios_and_batches_beside_published_figures_and_searches_once() {
    let checkout = with_suite("p,Table 1,net-*,checkmate-ilp,ratio,1.23\np,Table 2,net-*,store-all,batch,17\n");
    let first = checkout.ok("run --suite both --details").stdout;
    let table = checkout.ok("table results/both").stdout;
    let digest = checkout.ok("table results/both --show digest").stdout;
    assert_eq!(first, table + &digest);
    assert!(
        first.contains("net-b2: ratios over 2 budgets to the optimum of stages, one implementation, proved at 2"),
        "{first}"
    );
    let batches = checkout.path("results/both/max-batch.csv");
    let found = rows(&batches);
    assert_eq!((found[0]["largest"].as_str(), found[0]["refuted"].as_str()), ("3", "4"));
    assert!(!checkout.path("results/both/max-batch").exists(), "instances of single batches are left behind");

    let checked = checkout.ok("check results/both").stdout;
    assert!(checked.ends_with("4 rows: each is what the simulator says of its schedule\n"), "{checked}");

    let ratios = checkout.ok("table results/both --show ratios --format csv").stdout;
    assert!(
        ratios.contains("net-b2,2/2,\"optimum: stages, one implementation\",checkmate-ilp,1.000,1.000,2/2,1.23"),
        "{ratios}"
    );
    assert!(
        ratios
            .contains("net-b2,2/2,\"baseline: stages, one run each, one implementation\",store-all,1.000,1.000,1/2,\n"),
        "{ratios}"
    );
    let shown = checkout.ok("table results/both --show batches --format csv").stdout;
    assert!(
        shown.contains("net-b1,\"baseline: stages, one run each, one implementation\",store-all,3,4,0.0,"),
        "{shown}"
    );
    assert!(shown.trim_end().ends_with(",17"), "{shown}");

    let again = checkout.ok("run --suite both --resume");
    assert_eq!(rows(&batches), found);
    assert_eq!(again.stdout, digest);
}

#[test]
fn a_run_that_fails_does_not_end_a_search() {
    let checkout = with_suite("");
    let done = checkout.with_fault("store-all:abort", "run --suite both");
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.last_error().contains("the search for store-all's largest batch of net-b1"), "{}", done.stderr);
    let found = &rows(&checkout.path("results/both/max-batch.csv"))[0];
    assert_eq!((found["largest"].as_str(), found["refuted"].as_str()), ("", ""));
    assert!(found["note"].starts_with("error: store-all on net-b1@b"), "{}", found["note"]);
    assert!(checkout.path("results/both/tables.md").is_file() && !checkout.path("results/both/unfinished").exists());

    // Both the run and the search.
    let status = || checkout.ok("status results/both").stdout;
    assert!(status().contains("2 done, 2 failed"), "{}", status());
    assert_eq!(checkout.bench("run --suite both --resume").code, Some(1));
    checkout.ok("run --suite both --resume --retry-errors");
    assert!(status().contains("4 done, 0 failed"), "{}", status());
    let found = rows(&checkout.path("results/both/max-batch.csv"));
    assert_eq!((found.len(), found[0]["largest"].as_str(), found[0]["note"].as_str()), (1, "3", ""));
}

#[test]
fn a_resumed_suite_searches_again_where_the_question_is_another() {
    let checkout = with_suite("");
    let (suite, batches) = (checkout.path("instances/suites/both.toml"), checkout.path("results/both/max-batch.csv"));
    let edit = |path: &std::path::Path, from: &str, to: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    };
    let resumed = || {
        checkout.ok("run --suite both --resume --no-plots");
        let found = rows(&batches);
        assert_eq!(found.len(), 1);
        found[0]["largest"].clone()
    };
    edit(&suite, "most = 100", "most = 2");
    assert_eq!(resumed(), "2");
    edit(&suite, "most = 2", "most = 100");
    assert_eq!(resumed(), "3");
    for batch in [1, 2] {
        let path = checkout.path(&format!("instances/net-b{batch}.json"));
        let mut document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for tensor in document["tensors"].as_array_mut().unwrap() {
            tensor["bytes"] = (tensor["bytes"].as_u64().unwrap() * 2).into();
        }
        std::fs::write(&path, document.to_string()).unwrap();
    }
    assert_eq!(resumed(), "1");

    // A file of before there were these columns.
    let text = std::fs::read_to_string(&batches).unwrap();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let is_old = |at: usize| !["instance_hashes", "settings", "most"].contains(&&lines[0][at]);
    let mut writer = csv::Writer::from_path(&batches).unwrap();
    for line in &lines {
        writer.write_record(line.iter().enumerate().filter(|(at, _)| is_old(*at)).map(|(_, field)| field)).unwrap();
    }
    writer.flush().unwrap();
    assert!(checkout.ok("table results/both --show batches --format csv").stdout.contains(",store-all,1,2,"));
    assert_eq!(resumed(), "1");
    assert_eq!(rows(&batches)[0]["most"], "100");
}

#[test]
fn the_schedule_of_a_largest_batch_is_kept_and_checked() {
    let checkout = with_suite("");
    checkout.ok("run --suite both");
    let batches = checkout.path("results/both/max-batch.csv");
    let text = std::fs::read_to_string(&batches).unwrap();
    let row = &rows(&batches)[0];
    let time = &row["simulated_time"];
    std::fs::write(&batches, text.replace(&format!(",{time},"), ",1,")).unwrap();
    let done = checkout.bench("check results/both");
    assert_eq!(done.code, Some(1));
    assert!(
        done.stdout.contains(&format!("largest batch: store_all_time: the row says 1, the simulator {time}")),
        "{}",
        done.stdout
    );
    std::fs::write(&batches, &text).unwrap();
    std::fs::remove_dir_all(checkout.path("results/both/schedules/max-batch")).unwrap();
    assert!(checkout.bench("check results/both").last_error().contains("store-all@"));
}

#[test]
fn a_search_whose_network_is_not_found_is_counted_apart() {
    let checkout = with_suite("");
    checkout.ok("run --suite both --methods store-all --no-plots");
    std::fs::remove_file(checkout.path("instances/net-b1.json")).unwrap();
    let done = checkout.bench("check results/both");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.starts_with("not checked, 1 row: no instance \"net-b1\""), "{}", done.stdout);
    let words = "error: 1 of 2 rows not checked: 1 instance not found or not as they were; run inside the checkout";
    assert_eq!(done.last_error(), words);
}

#[test]
fn a_search_follows_the_options_and_needs_no_run_beside_it() {
    let checkout = with_suite("");
    let suite = std::fs::read_to_string(checkout.path("instances/suites/both.toml")).unwrap();
    let suite = suite + "[[max_batch.methods]]\nid = \"fastsa\"\nparameters = { iterations = 1000 }\n";
    std::fs::write(checkout.path("instances/suites/both.toml"), suite).unwrap();
    let run = "run --suite both --instances net-b1 --methods fastsa[iterations=10]";
    assert_eq!(
        checkout.ok(&format!("{run} --list")).stdout,
        "net-b1 net-b2  fastsa[iterations=10]  largest batch\n0 runs\n"
    );
    let done = checkout.ok(&format!("{run} --seeds 7,8"));
    assert!(done.stdout.contains("[iterations=10]"), "{}", done.stdout);
    let found = rows(&checkout.path("results/both/max-batch.csv"));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0]["label"].as_str(), found[0]["seed"].as_str()), ("fastsa[iterations=10]", "7"));
    for command in ["check", "table", "report", "status"] {
        checkout.ok(&format!("{command} results/both"));
    }
    assert_eq!(checkout.bench(&format!("{run} --no-batches --resume")).code, Some(2));
}

#[test]
fn a_search_of_instances_with_spaces_in_their_names_is_checked() {
    let checkout = with_suite("");
    std::fs::create_dir(checkout.path("instances/my nets")).unwrap();
    for name in ["net-b1", "net-b2"] {
        let [from, to] =
            ["instances", "instances/my nets"].map(|folder| checkout.path(&format!("{folder}/{name}.json")));
        std::fs::rename(from, to).unwrap();
    }
    let path = checkout.path("instances/suites/both.toml");
    let suite = std::fs::read_to_string(&path)
        .unwrap()
        .replace("[\"net-b1\", \"net-b2\"]", "[\"my nets/net-b1\", \"my nets/net-b2\"]");
    std::fs::write(path, suite).unwrap();
    checkout.ok("run --suite both --methods store-all");
    let row = &rows(&checkout.path("results/both/max-batch.csv"))[0];
    assert_eq!(row["instances"], "[\"my nets/net-b1\",\"my nets/net-b2\"]");
    checkout.ok("check results/both");
    checkout.ok("run --suite both --methods store-all --resume");
}
