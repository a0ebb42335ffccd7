//! What a run leaves behind: records, schedules, tables, plots.

use std::collections::BTreeMap;
use std::path::Path;

use crate::checkout::{Checkout, SUITE, rows};

#[test]
fn the_table_is_the_same_in_every_format() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    let text = checkout.ok("table results/mini").stdout;
    let mut all = vec![format!("##### text\n{text}")];
    for format in ["md", "csv", "latex", "json"] {
        all.push(format!("\n##### {format}\n{}", checkout.ok(&format!("table results/mini --format {format}")).stdout));
    }
    insta::assert_snapshot!("table", all.concat());
}

#[test]
fn a_run_prints_the_digest_and_where_everything_lies() {
    let checkout = Checkout::new();
    let done = checkout.ok("run --suite mini");
    assert_eq!(done.stdout, checkout.ok("table results/mini --show digest").stdout);
    for (what, path) in [("tables", "tables.md"), ("plots", "plots"), ("page", "report.html")] {
        let path = format!("results/mini/{path}");
        assert!(checkout.path(&path).exists() && done.stderr.contains(&format!("{what}: {path}")), "{}", done.stderr);
    }
    assert!(checkout.path("results/mini/plots/overhead-against-budget.svg").is_file());
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&checkout.ok("table results/mini --show digest --format json").stdout).unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["networks"], "counter random");
}

/// Of committed records, for planning takes what it takes.
#[test]
fn the_digest_of_the_tour_is_as_reviewed() {
    let output = Checkout::new()
        .command("table results/tour --show digest")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    insta::assert_snapshot!("digest", String::from_utf8(output.stdout).unwrap());
}

#[test]
fn nothing_that_a_run_prints_is_wider_than_the_terminal() {
    let checkout = Checkout::new();
    let budgets = "0.3x,0.35x,0.4x,0.45x,0.5x,0.55x,0.6x,0.65x,0.7x,0.75x,0.8x,0.85x,0.9x,0.95x,1.0x";
    for (width, columns) in [(None, 100), (Some("70"), 70), (Some("180"), 180)] {
        let mut command =
            checkout.command(&format!("run --suite mini --details --no-plots --force --budgets {budgets}"));
        let done = command.envs(width.map(|width| ("COLUMNS", width))).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= columns, "{columns}: {widest}");
        assert!(text.contains("counter: store-all takes 5 and 27") && text.contains("over which schedules"), "{text}");
    }
}

#[test]
fn methods_run_on_the_instances_that_the_suite_names() {
    let checkout = Checkout::new();
    let suite = crate::checkout::SUITE
        .replace("id = \"rotor-persistent\"", "id = \"rotor-persistent\"\ninstances = [\"count*\"]");
    std::fs::write(checkout.path("some.toml"), suite.replace("[limits]", "[limits]\njobs = 2")).unwrap();
    let listed = checkout.ok("run --suite some.toml --list").stdout;
    assert!(listed.contains("counter  rotor-persistent") && !listed.contains("random  rotor-persistent"), "{listed}");
    checkout.ok("run --suite some.toml --instances random --no-plots");
    std::fs::write(checkout.path("idle.toml"), suite.replace("count*", "resnet*")).unwrap();
    let refused = checkout.bench("run --suite idle.toml --list");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("none of the suite's instances matches \"resnet*\""), "{}", refused.stderr);
}

#[test]
fn every_row_is_complete_and_its_schedule_is_kept_and_legal() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    let rows = rows(&checkout.path("results/mini/records.csv"));
    assert!(rows.len() > 8);
    for row in rows {
        assert_eq!(row["error"], "");
        for column in ["instance_hash", "version", "host", "timestamp", "wall_seconds", "peak_rss_bytes", "seed"] {
            assert_ne!(row[column], "", "{column}");
        }
        if row["simulated_time"].is_empty() {
            continue;
        }
        let budget = if row["budget"].is_empty() { String::new() } else { format!("@{}", row["budget"]) };
        let parameters = if row["parameters"].is_empty() { String::new() } else { format!("[{}]", row["parameters"]) };
        let file = format!("results/mini/schedules/{}/{}{parameters}{budget}.json.zst", row["instance"], row["method"]);
        let report = checkout.ok(&format!("verify {} {file} --format json", row["instance"])).stdout;
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["time"].to_string(), row["simulated_time"]);
        assert_eq!(report["peak"].to_string(), row["simulated_peak"]);
    }
}

#[test]
fn the_runs_are_listed_without_being_run() {
    let checkout = Checkout::new();
    let listed = checkout.ok("run --suite mini --list").stdout;
    assert!(!checkout.path("results").exists());
    insta::assert_snapshot!("list", listed);
    let chosen = checkout
        .ok("run --suite mini --list --methods revolve[slots=7],store-all --instances count* --budgets 7,0.5x")
        .stdout;
    assert_eq!(chosen, "counter  revolve[slots=7]  at 7 0.5x\ncounter  store-all\n2 runs\n");
}

#[test]
fn plots_are_written_as_svg_and_png() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini");
    checkout.ok("plot results/mini/records.csv --out figures");
    for folder in ["results/mini/plots", "figures"] {
        for instance in ["counter", "random"] {
            let svg = std::fs::read_to_string(checkout.path(&format!("{folder}/{instance}.svg"))).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            for word in
                [instance, "rotor-persistent", "sequential", "store-all", "Peak memory", "Time (relative to store-all)"]
            {
                assert!(svg.contains(word), "{folder}/{instance}.svg lacks {word:?}");
            }
            let png = std::fs::read(checkout.path(&format!("{folder}/{instance}.png"))).unwrap();
            assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000);
        }
    }
}

#[test]
fn store_all_is_not_drawn_where_it_does_not_fit_the_device() {
    let checkout = Checkout::new();
    let chain = r#"{"fweight": [1, 2, 3], "bweight": [3, 4, 3, 0], "cweight": [1, 2, 3, 2], "cbweight": [1, 8, 9, 7], "ftmp": [0, 0, 0], "btmp": [0, 1, 0, 0]}"#;
    std::fs::write(checkout.path("chain.json"), chain).unwrap();
    checkout.ok(
        "instances import chain.json -o instances/small/device.json --time-scale 1000000 --memory-scale 1073741824",
    );
    for (memory, fits) in [("8GiB", false), ("100GiB", true)] {
        let suite = format!("{}\n[device]\nname = 'toy device'\nmemory = '{memory}'\n", crate::checkout::SUITE);
        std::fs::write(checkout.path("device.toml"), suite).unwrap();
        checkout.ok("run --suite device.toml --instances device --force --out out");
        let svg = std::fs::read_to_string(checkout.path("out/plots/device.svg")).unwrap();
        let legend = svg.lines().filter(|line| *line == "store-all").count();
        assert_eq!(legend, usize::from(fits));
        assert_eq!(svg.contains("too much for the toy device, not drawn"), !fits);
        assert!(svg.contains("Peak memory (GiB)"));
    }
}

#[test]
fn a_method_that_does_not_support_an_instance_is_skipped_with_its_reason() {
    let checkout = Checkout::new();
    let path = checkout.path("instances/small/counter.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut instance: serde_json::Value = serde_json::from_str(&text).unwrap();
    instance["operators"][1]["recomputable"] = false.into();
    std::fs::write(&path, instance.to_string()).unwrap();
    let done = checkout.ok("run --suite mini --instances counter --format csv");
    assert!(done.stdout.contains("rotor-persistent,skipped,skipped,0,0,0"), "{}", done.stdout);
    let rows = rows(&checkout.path("results/mini/records.csv"));
    let skipped: Vec<_> = rows.iter().filter(|row| row["termination"] == "skipped").collect();
    assert!(skipped.iter().any(|row| row["method"] == "rotor-persistent"));
    assert!(skipped.iter().all(|row| row["note"].contains("cannot be recomputed") && row["error"].is_empty()));
}

#[test]
fn solve_prints_the_columns_of_the_records() {
    let checkout = Checkout::new();
    let done = checkout.ok("solve counter --method rotor-persistent --budget 0.8x --format json -o schedule.json");
    let object: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    checkout.ok("run --suite mini");
    let row = &rows(&checkout.path("results/mini/records.csv"))[0];
    let mut columns: Vec<_> = row.keys().cloned().collect();
    let mut keys: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
    columns.sort();
    keys.sort();
    assert_eq!(keys, columns);
    assert_eq!(object["termination"], "optimal");
    assert!(object["simulated_peak"].as_u64() <= object["budget_size"].as_u64());
    checkout.ok("verify counter schedule.json --budget 0.8x");
}

#[test]
fn solve_draws_what_was_known_when_and_by_whom() {
    let checkout = Checkout::new();
    checkout.ok("solve counter --budget 0.8x --time-limit 2 --trace quality.svg");
    let svg = std::fs::read_to_string(checkout.path("quality.svg")).unwrap();
    for words in ["Planning time (s)", "auto", "store-all"] {
        assert!(svg.contains(words), "{words}");
    }
    let done = checkout.bench("solve counter --trace quality.pdf");
    assert_eq!(done.code, Some(2));
    assert_eq!(done.last_error(), "error: --trace quality.pdf: the figure is an SVG; name a file that ends in .svg");
}

#[test]
fn solve_fails_where_there_is_no_schedule() {
    let checkout = Checkout::new();
    let done = checkout.bench("solve counter --method rotor-persistent --budget 3");
    assert_eq!(done.code, Some(1));
    let proved = "infeasible within the budget, proved for the class \"chain, memory-persistent\"";
    assert!(done.last_error().contains(proved), "{}", done.stderr);
    std::fs::write(checkout.path("s.json"), "{}").unwrap();
    let done = checkout.bench("solve counter --method store-all --budget 3 -o s.json");
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("store-all ignores budgets"), "{}", done.stdout);
    assert!(done.last_error().contains("; store-all needs "), "{}", done.stderr);
    assert!(done.stderr.starts_with("s.json: left as it was\n"), "{}", done.stderr);
}

#[test]
fn a_suite_names_files_relative_to_its_own_folder() {
    let checkout = Checkout::new();
    std::fs::create_dir(checkout.path("elsewhere")).unwrap();
    std::fs::rename(checkout.path("instances/small/counter.json"), checkout.path("elsewhere/trace.json")).unwrap();
    let random = checkout.path("instances/small/random.json.zst");
    let suite = SUITE.replace("\"small/*\"", &format!("\"trace.json\", \"small/*\", {:?}", random.to_string_lossy()));
    std::fs::write(checkout.path("elsewhere/mini.toml"), &suite).unwrap();
    let run = "run --suite elsewhere/mini.toml --no-plots --methods store-all --out out";
    checkout.ok(run);
    let mut names: Vec<_> = rows(&checkout.path("out/records.csv")).iter().map(|row| row["instance"].clone()).collect();
    names.sort();
    assert_eq!(names, ["counter", "random"]);
    checkout.ok("check out");
    let one = checkout.ok(&format!("{run} --force --list --instances trace"));
    assert!(one.stdout.starts_with("counter ") && one.stdout.ends_with("\n1 run\n"), "{}", one.stdout);
    std::fs::write(checkout.path("elsewhere/mini.toml"), suite.replace("trace.json", "gone.json")).unwrap();
    let gone = checkout.bench(run);
    assert_eq!(gone.code, Some(2));
    assert!(
        gone.last_error().contains("and no such file is there (those of a suite are relative to its folder)"),
        "{}",
        gone.stderr
    );
}

#[test]
fn solve_says_whether_a_network_fits_and_which_budget_would_do() {
    let checkout = Checkout::new();
    let ample = checkout.ok("solve counter --budget 1.0x");
    assert!(ample.stdout.contains("fits           yes, no slower than store-all, which needs "), "{}", ample.stdout);
    assert!(ample.stderr.starts_with("-o FILE.json keeps the schedule"), "{}", ample.stderr);
    let tight = checkout.ok("solve counter --budget 0.6x -o s.json");
    assert!(tight.stdout.contains("% slower than store-all") && tight.stderr.is_empty(), "{}", tight.stderr);
    let none = checkout.bench("solve counter --budget 3");
    assert!(none.stdout.contains("fits           no: it is proved that no schedule does\n"), "{}", none.stdout);
    let (_, fraction) = none.last_error().split_once("; auto has a schedule at --budget ").unwrap();
    let (fraction, _) = fraction.split_once(", with a peak of ").unwrap();
    checkout.ok(&format!("solve counter --budget {fraction}"));
    let of_class = checkout.bench("solve counter --method rotor-persistent --budget 3");
    let words = "no schedule of the class \"chain, memory-persistent\" does: proved; others may";
    assert!(of_class.stdout.contains(words), "{}", of_class.stdout);
    // The library is asked, too.
    checkout.ok("run --suite mini --methods rotor-persistent --instances counter --no-plots --out run");
    checkout.ok("best --update run");
    let known = checkout.bench("solve counter --method store-all --budget 3");
    let words = "; the least peak in the library of best-known values is ";
    assert!(
        known.last_error().contains(words) && known.last_error().ends_with(", by rotor-persistent"),
        "{}",
        known.stderr
    );
}

#[test]
fn methods_are_listed_in_every_format() {
    let checkout = Checkout::new();
    let json = checkout.ok("methods --format json").stdout;
    let methods: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    for format in ["text", "md", "csv", "latex"] {
        let text = checkout.ok(&format!("methods --format {format}")).stdout;
        for method in &methods {
            assert!(text.contains(method["id"].as_str().unwrap()));
            assert_ne!(method["reference"], "");
        }
    }
}

#[test]
fn every_suite_of_the_project_is_legible() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("instances/suites");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let suite = file.path().file_stem().unwrap().to_string_lossy().into_owned();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bench"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["run", "--suite", &suite, "--list"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.contains(&format!("name = \"{suite}\"")), "{suite}.toml is named otherwise inside");
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn random_methods_run_once_per_seed_and_the_table_shows_their_median() {
    let checkout = Checkout::new();
    let methods = "--methods store-all,checkmate-rounding[rounding=random] --instances random --budgets 0.9x";
    let done = checkout.ok(&format!("run --suite mini {methods} --seeds 1,2,3 --format json"));
    let rows = rows(&checkout.path("results/mini/records.csv"));
    let seeds = |method: &str| {
        let of = rows.iter().filter(|row| row["method"] == method);
        of.map(|row| row["seed"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (seeds("store-all"), seeds("checkmate-rounding")),
        (vec!["1".into()], ["1", "2", "3"].map(String::from).into())
    );
    let mut overheads: Vec<f64> =
        rows.iter().filter(|row| row["method"] != "store-all").map(|row| row["overhead"].parse().unwrap()).collect();
    overheads.sort_by(f64::total_cmp);
    let table: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
    let row = table.iter().find(|row| row["method"] != "store-all").unwrap();
    assert_eq!(row["overhead"]["0.9x"].as_f64(), Some(overheads[1]));
    assert_eq!(row["solved"], 3);
    let schedules = std::fs::read_dir(checkout.path("results/mini/schedules/random")).unwrap().count();
    assert_eq!(schedules, 4, "one for store-all and one per seed");
}

#[test]
fn rows_of_an_instance_as_it_was_before_are_in_no_table_of_a_later_run() {
    let checkout = Checkout::new();
    let generate = |seed: u64| {
        std::fs::remove_file(checkout.path("instances/small/random.json.zst")).unwrap();
        let to = "--kind small0 -o instances/small/random.json.zst";
        checkout.ok(&format!("instances generate random-chain --stages 8 --seed {seed} {to}"));
    };
    let columns = |row: &BTreeMap<String, String>| (row["instance"].clone(), row["method"].clone());
    checkout.ok("run --suite mini --methods store-all,rotor-persistent --budgets 0.9x");
    generate(4);
    let resumed = checkout.ok("run --suite mini --methods store-all --budgets 0.9x --resume");
    assert_eq!(resumed.stderr.matches("rows of instances as they were before are left out").count(), 1);
    assert_eq!(rows(&checkout.path("results/mini/records.csv")).len(), 5, "{}", resumed.stderr);
    let tables = std::fs::read_to_string(checkout.path("results/mini/tables.md")).unwrap();
    let printed = checkout.ok("table results/mini --show rows --format csv").stdout;
    let mut reader = csv::Reader::from_reader(printed.as_bytes());
    let left: Vec<_> = reader.deserialize().map(|row| columns(&row.unwrap())).collect();
    assert_eq!(left.iter().filter(|(instance, _)| instance == "random").count(), 1, "{left:?}");
    // The instance as it is has no row of Rotor's.
    assert!(!tables.lines().any(|line| line.contains("random") && line.contains("rotor-persistent")), "{tables}");
}

#[test]
fn figures_of_tables_are_drawn_where_they_are_listed_and_compared() {
    let checkout = Checkout::new();
    let file = checkout.path("results/figures.toml");
    std::fs::create_dir_all(checkout.path("results")).unwrap();
    std::fs::write(checkout.path("results/t.csv"), "who,at,time\na,1,110\na,2,100\n").unwrap();
    std::fs::write(
        &file,
        "[[figure]]\nfile = 'drawn/f.svg'\nsource = 't.csv'\ntitle = 't'\nby = ['who']\n\
         horizontal = { column = 'at', label = 'x' }\nvertical = { column = 'time', label = 'y' }\n",
    )
    .unwrap();
    let check = "plot --figures results/figures.toml --check";
    assert_eq!(checkout.bench(check).code, Some(1));
    checkout.ok("plot --figures results/figures.toml");
    assert!(std::fs::read_to_string(checkout.path("results/drawn/f.svg")).unwrap().contains("<svg"));
    checkout.ok(check);
}

#[test]
fn the_committed_figures_are_what_their_file_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/figures.toml");
    let done = Checkout::new().bench(&format!("plot --figures {} --check", file.display()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn every_view_of_the_tour_is_shown_or_says_what_would_bring_something() {
    let checkout = Checkout::new();
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/tour");
    let show = |view: &str| checkout.bench(&format!("table {} --show {view} --format csv", tour.display()));
    for view in
        ["summary", "ratios", "overheads", "digest", "statuses", "virtual-best", "profile", "quality", "gaps", "claims"]
    {
        let done = show(view);
        assert!(done.code == Some(0) && done.stdout.lines().count() > 4, "{view}: {}", done.stderr);
    }
    let rows = show("rows").stdout;
    assert!(rows.starts_with("instance,budget,method,seed,ended,overhead,peak,bound,gap,first s,best s,"), "{rows}");
    assert!(rows.contains("resnet50-224-b32,,sequential[segments=3],0,feasible,26.90,68.22,"), "{rows}");
    for (view, remedy) in [
        ("batches", "max-batch.csv holds no row; run a suite that has [max_batch]"),
        ("replay", "nothing was executed; run bench replay"),
        ("replay-networks", "nothing was executed; run bench replay"),
    ] {
        let done = show(view);
        assert!(done.code == Some(2) && done.last_error().ends_with(remedy), "{}", done.stderr);
    }
}
