//! `bench allocate` and `bench verify --plan`: addresses, and what is wrong with others.

use std::collections::HashMap;

use crate::checkout::{Checkout, rows};

fn planned() -> Checkout {
    let checkout = Checkout::new();
    checkout.ok("solve counter --method rotor-persistent --budget 15 -o schedule.json");
    checkout.ok("allocate counter schedule.json -o plan.json");
    checkout
}

fn edit(checkout: &Checkout, change: impl FnOnce(&mut serde_json::Value)) {
    let text = std::fs::read_to_string(checkout.path("plan.json")).unwrap();
    let mut plan = serde_json::from_str(&text).unwrap();
    change(&mut plan);
    std::fs::write(checkout.path("plan.json"), plan.to_string()).unwrap();
}

const BUFFERS: &str = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,6,2\nd,6,9,6\n";

#[test]
fn a_schedule_has_a_plan_that_is_confirmed() {
    let checkout = planned();
    let report = checkout.ok("allocate counter schedule.json --format json").stdout;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["optimal"], true, "{report}");
    assert_eq!(
        (&report["peak"], &report["alignment"]),
        (&report["bound"], &1.into()),
        "abstract units are not rounded"
    );
    assert_eq!(report["caching"], serde_json::Value::Null, "no allocator knows abstract units");
    let verified = checkout.ok("verify counter schedule.json --plan plan.json").stdout;
    assert!(verified.contains("no two at one address at one moment"), "{verified}");
    checkout.ok(&format!("verify --plan plan.json --budget {}", report["memory"]));
}

#[test]
fn a_capacity_is_met_or_its_miss_is_a_failure() {
    let checkout = planned();
    checkout.ok("allocate counter schedule.json --capacity 15");
    let done = checkout.bench("allocate counter schedule.json --capacity 3 -o never.json");
    assert_eq!(done.code, Some(1));
    let least = "error: does not fit the capacity of 3: no addresses need less than 15, proved";
    assert_eq!(done.last_error(), least);
    assert!(!checkout.path("never.json").exists());
}

#[test]
fn a_plan_is_refused_where_buffers_meet_are_missing_or_end_above_the_budget() {
    let checkout = planned();
    let refused = |words: &str, arguments: &str| {
        let done = checkout.bench(arguments);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(done.stderr.starts_with("error: plan.json: ") && done.stderr.contains(words), "{}", done.stderr);
    };
    refused("fixed bytes are more than 1", "verify --plan plan.json --budget 1");
    let text = std::fs::read(checkout.path("plan.json")).unwrap();
    // An arena is allocated as a whole, however little of it is used.
    edit(&checkout, |plan| plan["height"] = 1000.into());
    refused("an arena of 1000 and", "verify --plan plan.json --budget 999");
    let set = |change: &dyn Fn(&mut Vec<serde_json::Value>)| {
        std::fs::write(checkout.path("plan.json"), &text).unwrap();
        edit(&checkout, |plan| change(plan["buffers"].as_array_mut().unwrap()));
    };
    set(&|buffers| buffers.iter_mut().for_each(|buffer| buffer["offset"] = 0.into()));
    refused("both hold address 0 at moment", "verify --plan plan.json");
    set(&|buffers| drop(buffers.remove(0)));
    refused("no arena is lower than 15, but its own buffers end at", "verify --plan plan.json");
    edit(&checkout, |plan| plan["bound"] = 0.into());
    refused("is in 0 buffers; expected one", "verify counter schedule.json --plan plan.json");
    checkout.ok("verify --plan plan.json");
    set(&|_| ());
    edit(&checkout, |plan| plan["instance_hash"] = "0".into());
    refused("was made for instance \"0\"", "verify counter schedule.json --plan plan.json");
    edit(&checkout, |plan| plan["version"] = 2.into());
    refused("version 2; expected \"remat-arena\" version 1", "verify --plan plan.json");
}

#[test]
fn a_plan_with_other_fixed_bytes_than_the_instance_is_refused() {
    let checkout = planned();
    edit(&checkout, |plan| plan["fixed_bytes"] = 7.into());
    // By itself a plan may say what it likes of them.
    checkout.ok("verify --plan plan.json");
    let done = checkout.bench("verify counter schedule.json --plan plan.json");
    assert_eq!(done.code, Some(1));
    let words = "error: plan.json: has 7 fixed bytes, but the instance has 0; make the plan anew with bench allocate\n";
    assert_eq!(done.stderr, words);
}

#[test]
fn the_object_of_a_check_has_every_violation_as_an_element() {
    let checkout = planned();
    let object = |arguments: &str, code: i32| {
        let done = checkout.bench(&format!("{arguments} --format json"));
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        serde_json::from_str::<serde_json::Value>(&done.stdout).unwrap()
    };
    let sound = object("verify --plan plan.json", 0);
    assert_eq!((&sound["plan"]["valid"], &sound["plan"]["violations"]), (&true.into(), &serde_json::json!([])));
    let sound = object("verify counter schedule.json --plan plan.json", 0);
    assert_eq!((&sound["legal"], &sound["plan"]["against_schedule"]), (&true.into(), &true.into()));
    let text = std::fs::read_to_string(checkout.path("plan.json")).unwrap();
    let mut plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    // The first tensor has no buffer any more, the second buffer is where that was, and the fixed bytes are others.
    let tensor = plan["buffers"][0]["tensors"][0]["tensor"].clone();
    plan["buffers"][0]["tensors"] = serde_json::json!([]);
    plan["buffers"][1]["offset"] = plan["buffers"][0]["offset"].clone();
    plan["fixed_bytes"] = 5.into();
    plan["height"] = 100.into();
    std::fs::write(checkout.path("plan.json"), plan.to_string()).unwrap();
    let report = object("verify counter schedule.json --plan plan.json", 1)["plan"].clone();
    let violations = report["violations"].as_array().unwrap();
    assert_eq!((&report["valid"], &report["violation_count"]), (&false.into(), &violations.len().into()));
    let of = |rule: &str| violations.iter().filter(|found| found["rule"] == rule).collect::<Vec<_>>();
    assert_eq!(of("fixed-bytes").len(), 1, "{report}");
    assert!(of("shared-address").iter().any(|found| found["buffers"][1] == plan["buffers"][1]["id"]), "{report}");
    let places = of("place");
    assert_eq!((places.len(), &places[0]["tensor"], &places[0]["step"]), (1, &tensor, &0.into()), "{report}");
    assert_eq!(of("fixed-bytes").len() + of("shared-address").len() + of("place").len(), violations.len(), "{report}");
    let text = checkout.bench("verify counter schedule.json --plan plan.json").stderr;
    let more = violations.len() - 1;
    assert!(text.ends_with(&format!("(and {more} more violations; --format json lists all)\n")), "{text}");

    let packed = "id,lower,upper,size,offset\na,0,3,4,0\nb,3,9,4,0\nc,0,6,2,1\nd,6,9,6,8\n";
    std::fs::write(checkout.path("packed.csv"), packed).unwrap();
    let report = object("verify --plan packed.csv --budget 9", 1)["plan"].clone();
    let rules: Vec<_> = report["violations"].as_array().unwrap().iter().map(|found| found["rule"].clone()).collect();
    assert_eq!(rules, ["capacity", "shared-address", "shared-address"], "{report}");
}

#[test]
fn lists_of_buffers_are_packed_by_every_method_and_the_packing_is_confirmed() {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("buffers.csv"), BUFFERS).unwrap();
    for method in ["best-fit-size", "best-fit-lifetime", "best-fit-start", "minimalloc"] {
        checkout.ok(&format!("allocate buffers.csv --method {method} -o packed.csv"));
        checkout.ok("verify --plan packed.csv");
    }
    insta::assert_snapshot!("allocate", {
        let text = checkout.ok("allocate buffers.csv --alignment 4 --threads 1").stdout;
        text.lines().filter(|line| !line.starts_with("found by")).collect::<Vec<_>>().join("\n")
    });
    let done = checkout.bench("verify --plan buffers.csv");
    assert!(done.last_error().contains("has no offsets"), "{}", done.stderr);
    std::fs::write(checkout.path("some.csv"), "id,lower,upper,size\n=1+1,0,2,0\nb,0,2,4\n").unwrap();
    assert!(checkout.ok("allocate some.csv -o packed.csv").stdout.starts_with("2 buffers, "));
    let packed = std::fs::read_to_string(checkout.path("packed.csv")).unwrap();
    assert_eq!(packed, "id,lower,upper,size,offset\n'=1+1,0,2,0,0\nb,0,2,4,0\n");
    for ending in ["mps", "lp", "cp-model"] {
        checkout.ok(&format!("allocate buffers.csv --export model.{ending}"));
        assert!(std::fs::metadata(checkout.path(&format!("model.{ending}"))).unwrap().len() > 100);
    }
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let checkout = planned();
    std::fs::write(checkout.path("buffers.csv"), BUFFERS).unwrap();
    std::fs::write(checkout.path("bad.csv"), "id,lower,upper,size\na,3,3,4\n").unwrap();
    std::fs::write(checkout.path("empty.csv"), "").unwrap();
    std::fs::write(checkout.path("header.csv"), "id,lower,upper,size,offset\n").unwrap();
    std::fs::write(checkout.path("cells.csv"), "id,lower,upper,size,offset\na,0,3,4,\n").unwrap();
    for (arguments, words) in [
        ("allocate counter", "no schedule of counter; give INSTANCE SCHEDULE"),
        ("allocate counter schedule.json --method first-fit", "there are best-fit-size, best-fit-lifetime"),
        ("allocate counter schedule.json --alignment 0", "alignment of 0"),
        ("allocate buffers.csv schedule.json", "needs no schedule"),
        ("allocate buffers.csv -o plan.json", "is written as .csv"),
        ("allocate buffers.csv --export model.txt", "end the name in .mps, .lp or .cp-model"),
        ("allocate bad.csv", "lives in 3..3"),
        ("allocate bad.csv -o plan.json", "is written as .csv"),
        ("allocate empty.csv", "empty.csv: has no column id, lower, upper, size; expected CSV"),
        ("allocate header.csv", "header.csv: holds no buffers"),
        ("verify --plan header.csv", "header.csv: holds no buffers"),
        ("allocate missing missing.json -o plan.txt", "plan.txt: unknown kind of file"),
        ("allocate missing missing.json --export model.txt", "end the name in .mps, .lp or .cp-model"),
        ("allocate counter schedule.json -o schedule.json", "reads or writes that file already"),
        ("allocate counter schedule.json -o instances/small/counter.json", "reads or writes that file already"),
        ("allocate buffers.csv -o buffers.csv", "reads or writes that file already"),
        ("verify counter schedule.json --timeline schedule.json", "reads or writes that file already"),
        ("verify counter schedule.json --timeline instances/small/counter.json", "reads or writes that file already"),
        ("export counter --method checkmate-ilp -o instances/small/counter.json", "reads or writes that file already"),
        ("allocate --best-known results -o bk.json", "name a file that ends in .csv"),
        ("verify --plan plan.json --budget 0.5x", "is a part of store-all's peak"),
    ] {
        let done = checkout.bench(arguments);
        assert_eq!(done.code, Some(2), "{arguments}: {}", done.stderr);
        assert!(done.last_error().contains(words), "{arguments}: {}", done.stderr);
    }
    let done = checkout.bench("verify --plan cells.csv");
    assert!(done.last_error().contains("cells.csv: has no offsets"), "{}", done.stderr);
}

#[test]
fn solving_with_an_arena_asks_for_a_smaller_peak_where_rounded_sizes_do_not_fit() {
    let checkout = Checkout::new();
    let table2 = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/small/rotor-toms-table2.json");
    // The peak of the fastest persistent schedule within this budget is the budget to the byte.
    let solve = format!("solve {table2} --method rotor-persistent[slots=2000] --budget 112208119 -o schedule.json");
    let without = checkout.ok(&format!("{solve} --format json")).stdout;
    let without: serde_json::Value = serde_json::from_str(&without).unwrap();
    assert_eq!(without["simulated_peak"], 112_208_119);
    let done = checkout.ok(&format!("{solve} --arena plan.json"));
    assert!(done.stderr.contains("needs 112209408 with addresses; asking for "), "{}", done.stderr);
    assert!(
        done.stdout.contains("(112208119)\n") && done.stdout.contains("with addresses it needs 112188416"),
        "{}",
        done.stdout
    );
    let done = checkout.ok(&format!("{solve} --arena plan.json --time-limit 60 --format json"));
    let row: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let [budget, bound] = ["budget_size", "lower_bound"].map(|column| row[column].as_u64());
    assert_eq!(
        (budget, &row["budget"], &row["time_limit_seconds"]),
        (Some(112_208_119), &"112208119".into(), &60.0.into())
    );
    assert_eq!(
        (bound, &row["termination"]),
        (without["lower_bound"].as_u64(), &"feasible".into()),
        "of the budget asked for"
    );
    checkout.ok(&format!("verify {table2} schedule.json --plan plan.json --budget 112208119"));
}

#[test]
fn between_a_peak_that_is_too_large_and_one_that_is_infeasible_others_are_asked_for() {
    let checkout = Checkout::new();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/data/between.json");
    let done = checkout
        .ok(&format!("solve {network} --method monet --budget 1x --arena plan.json -o schedule.json --threads 1"));
    assert!(done.stderr.contains("no schedule within 16284; asking for "), "{}", done.stderr);
    checkout.ok(&format!("verify {network} schedule.json --plan plan.json --budget 1x"));
}

#[test]
fn where_no_arena_fits_one_sentence_says_what_ran_out() {
    let checkout = Checkout::new();
    let table2 = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/small/rotor-toms-table2.json");
    let ended = |method: &str, budget: u64| {
        let command = format!("solve {table2} --method {method} --budget {budget} --arena plan.json");
        let done = checkout.bench(&command);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(!checkout.path("plan.json").exists());
        done.last_error().to_owned()
    };
    // Store-all asks for nothing else at any budget, and its peak is no multiple of 512.
    let peak = checkout.ok(&format!("solve {table2} --method store-all --format json")).stdout;
    let peak: serde_json::Value = serde_json::from_str(&peak).unwrap();
    let peak = peak["simulated_peak"].as_u64().unwrap();
    let words = ended("store-all", peak);
    let expected = format!(
        "error: no arena within {peak}: 1 schedule does not fit with addresses (1 proved), and the method found no schedule"
    );
    assert!(words.starts_with(&expected), "{words}");
}

/// All but the arenas themselves, which a search finds in its time: here in less than what made the table.
#[test]
fn the_table_of_the_best_known_schedules_is_about_these_schedules() {
    let checkout = Checkout::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = checkout.path("arenas.csv");
    let networks = "resnet{18,50}-224-b32";
    let arguments = ["allocate", "--best-known", "results", networks, "--time-limit", "0.2", "-o"];
    let done = checkout.command("").current_dir(root).args(arguments).arg(&table).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let without_memory = |path: &std::path::Path| {
        let number = |row: &HashMap<String, String>| row["memory"].parse::<u64>().unwrap();
        let mut rows = rows(path);
        rows.retain(|row| ["resnet18-224-b32", "resnet50-224-b32"].contains(&row["instance"].as_str()));
        let memory: Vec<u64> = rows.iter().map(number).collect();
        for row in &mut rows {
            row.remove("memory");
        }
        (rows, memory)
    };
    let (again, quick) = without_memory(&table);
    let (committed, memory) = without_memory(&root.join("results/arenas.csv"));
    assert!(
        !committed.is_empty() && again == committed,
        "results/arenas.csv is old: run `bench allocate --best-known results -o results/arenas.csv`"
    );
    assert!(memory.iter().zip(&quick).all(|(memory, quick)| memory <= quick));
}

#[test]
fn rows_that_are_there_stay_where_only_new_schedules_are_packed() {
    let checkout = Checkout::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = checkout.path("arenas.csv");
    let pack = |networks: &str, more: &[&str]| {
        let arguments = ["allocate", "--best-known", "results", networks, "--time-limit", "0.1", "-o"];
        checkout.command("").current_dir(root).args(arguments).arg(&table).args(more).output().unwrap()
    };
    let done = pack("resnet18-224-b32", &["--only-new"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // Told apart by a figure that no schedule has.
    let written = std::fs::read_to_string(&table).unwrap();
    let small = rows(&table);
    let buffers = format!(",{},", small[0]["buffers"]);
    std::fs::write(&table, written.replacen(&buffers, ",1,", 1)).unwrap();
    assert!(pack("resnet{18,50}-224-b32", &["--only-new"]).status.success());
    let both = rows(&table);
    assert!(both.len() > small.len() && both.iter().filter(|row| row["buffers"] == "1").count() == 1);
    // Of what does not match, rows stay as they are, whether or not the library has their schedules.
    let text = std::fs::read_to_string(&table).unwrap() + "zebra,best-known/zebra/1.json.zst,bytes,1,1,1,1,1,,\n";
    std::fs::write(&table, &text).unwrap();
    assert!(pack("resnet18-224-b32", &["--only-new"]).status.success());
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    assert!(pack("resnet18-224-b32", &[]).status.success());
    let anew = rows(&table);
    assert!(
        anew.len() == small.len() && anew.iter().all(|row| row["buffers"] != "1"),
        "without it all are packed anew"
    );
    std::fs::write(&table, "instance\nresnet18\n").unwrap();
    let refused = pack("resnet18-224-b32", &["--only-new"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && words.contains("without --only-new"), "{words}");
}

#[test]
fn the_plans_of_a_folder_are_in_its_tables_and_only_those_of_its_present_schedules() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --no-plots");
    let shown = || -> Vec<serde_json::Map<String, serde_json::Value>> {
        let text = checkout.ok("table results/mini --show rows --format json").stdout;
        serde_json::from_str(&text).unwrap()
    };
    assert!(shown().iter().all(|row| row["arena"] == "-" && row["above peak"] == "-"));
    let page = || std::fs::read_to_string(checkout.path("results/mini/report.html")).unwrap();
    checkout.ok("report results/mini");
    assert!(!page().contains(">above peak %</th>"));

    let done = checkout.ok("allocate --results results/mini --threads 1").stdout;
    let planned = rows(&checkout.path("results/mini/plans.csv"));
    assert!(done.starts_with(&format!("{} plans in results/mini/plans: ", planned.len())), "{done}");
    let solved = rows(&checkout.path("results/mini/records.csv"));
    let solved: Vec<_> = solved.iter().filter(|row| !row["simulated_time"].is_empty()).collect();
    assert_eq!(planned.len(), solved.len());
    let table = shown();
    let with: Vec<_> = table.iter().filter(|row| row["arena"] != "-").collect();
    assert_eq!(with.len(), solved.len());
    for row in &planned {
        let number = |name: &str| row[name].parse::<u64>().unwrap();
        let (fixed, height, peak) = (number("fixed"), number("height"), number("peak"));
        let arena = height.to_string();
        let above = format!("{:.4}", 100.0 * ((fixed + height) as f64 / peak as f64 - 1.0));
        let here = |line: &&&serde_json::Map<String, serde_json::Value>| {
            line["instance"] == *row["instance"] && line["arena"] == arena && line["above peak"] == above
        };
        assert!(with.iter().any(|line| here(&line)), "{row:?} {table:?}");
    }
    checkout.ok("report results/mini");
    assert!(page().contains(">above peak %</th>"));
    // A plan of another schedule than that of its row is named and not shown.
    let name = "rotor-persistent[fit=exact,loss=1000,slots=auto,table-mib=4096]";
    let folder = checkout.path("results/mini/plans/counter");
    let plan = |budget: &str| folder.join(format!("{name}@{budget}.json.zst"));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(plan("0.6x").is_file() && plan("1.0x").is_file(), "{files:?}");
    std::fs::copy(plan("0.6x"), plan("1.0x")).unwrap();
    checkout.ok("report results/mini");
    assert!(page().contains("run bench allocate --results again"));
    // Rows that were made anew have no plan until they are packed anew.
    let path = checkout.path("results/mini/plans.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let cells: Vec<String> =
        lines[1].split(',').enumerate().map(|(at, cell)| if at == 6 { "1".into() } else { cell.to_owned() }).collect();
    lines[1] = cells.join(",");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    assert_eq!(shown().iter().filter(|row| row["arena"] != "-").count(), solved.len() - 1);
}

#[test]
fn a_picture_has_a_rectangle_for_each_buffer_and_the_lines_of_height_and_capacity() {
    let checkout = planned();
    std::fs::write(checkout.path("buffers.csv"), BUFFERS).unwrap();
    let drawn = |arguments: &str| {
        checkout.ok(&format!("allocate {arguments} --plot a.svg"));
        let svg = std::fs::read_to_string(checkout.path("a.svg")).unwrap();
        (svg.matches("class=\"buffer\"").count(), svg)
    };
    let text = std::fs::read_to_string(checkout.path("plan.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (count, svg) = drawn("counter schedule.json --capacity 20");
    assert_eq!(count, plan["buffers"].as_array().unwrap().len());
    assert!(svg.contains(&format!(">height {}", plan["height"])) && svg.contains(">step</text>"), "{svg}");
    let (count, svg) = drawn("buffers.csv --capacity 11");
    assert!(
        count == 4 && svg.contains(">height 10") && svg.contains(">capacity 11<") && svg.contains(">moment</text>")
    );
    let done = checkout.bench("allocate buffers.csv --plot a.png");
    assert!(done.last_error().contains("name a file that ends in .svg"), "{}", done.stderr);
}
