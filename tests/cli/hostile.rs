//! Files that nobody would write in good faith: each command ends with one line, and no run with a row in error.

use crate::checkout::{Checkout, Done, edit, rows};

#[path = "../fuzz/mutate.rs"]
mod mutate;

/// A chain file whose times or sizes come close to what an instance may hold.
fn write_chain(checkout: &Checkout, name: &str, time: u64, bytes: u64) {
    const STAGES: usize = 9;
    let array = |value: u64, count: usize| serde_json::json!(vec![value; count]);
    let chain = serde_json::json!({
        "fweight": array(time, STAGES), "bweight": array(time, STAGES + 1), "cweight": array(bytes, STAGES + 1),
        "cbweight": array(2 * bytes, STAGES + 1), "ftmp": array(0, STAGES), "btmp": array(0, STAGES + 1),
    });
    std::fs::write(checkout.path(&format!("{name}.json")), chain.to_string()).unwrap();
    checkout.ok(&format!("instances import {name}.json -o instances/small/{name}.json"));
}

#[test]
fn no_method_fails_on_the_largest_numbers_that_an_instance_may_hold() {
    let checkout = Checkout::new();
    let limit = remat_core::instance::LARGEST_SUM;
    write_chain(&checkout, "times", limit / 32, 1000);
    write_chain(&checkout, "bytes", 1000, limit / 64);
    let methods = "sequential,griewank-logn,chen-sqrt,chen-greedy,ap-greedy,revolve,rotor-persistent,rotor-weak,\
        kusumoto-2019,oracle,checkmate-ilp,moccasin,fastsa,monet";
    // Where CI looks at all that tests can draw, it waits longer too.
    let seconds = if std::env::var_os("BENCH_ALL_NETWORKS").is_some() { 20 } else { 5 };
    let done = checkout.bench(&format!(
        "run --suite mini --instances small/*es --methods {methods} --budgets 0.6x --time-limit {seconds} --out large"
    ));
    let rows = rows(&checkout.path("large/records.csv"));
    assert!(rows.len() >= 2 * 14, "{}", done.stderr);
    for row in rows {
        assert!(row["error"].is_empty() || row["termination"] == "time_limit", "{row:?}");
    }
}

/// Names that were chosen to get somewhere: onto each other's files, out of the folder, into a spreadsheet, a terminal.
fn hostile_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "net b",
        "net_b",
        "net  b",
        "..",
        ".hidden",
        "overhead-against-budget",
        "performance-profile",
        "progress",
        "overhead@0.6x",
        "=cmd|' !A0",
        "@SUM(A1)",
        "-1+1",
        "'quoted",
        "a\u{1b}[31mred\u{9b}0m",
        "bell\u{7}\rback",
        "\u{202e}gnp.exe",
        "a|b](javascript:alert(1))<img src=x onerror=alert(1)>",
        "\"quoted\" & <blink>",
        "$(touch owned)`id`%x%",
        "~#{x}^$",
    ]
    .iter()
    .map(|&name| name.to_owned())
    .collect();
    names.push("x".repeat(300));
    names.push(format!("{}y", "x".repeat(300)));
    names
}

fn instances_with(checkout: &Checkout, names: &[String]) {
    let text = std::fs::read_to_string(checkout.path("instances/small/counter.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    std::fs::create_dir_all(checkout.path("instances/hostile")).unwrap();
    for (at, name) in names.iter().enumerate() {
        let mut document = document.clone();
        document["name"] = name.as_str().into();
        document["provenance"]["model"] = name.as_str().into();
        for operator in document["operators"].as_array_mut().unwrap() {
            operator["name"] = format!("{name}{}", operator["name"].as_str().unwrap()).into();
        }
        std::fs::write(checkout.path(&format!("instances/hostile/i{at}.json")), document.to_string()).unwrap();
    }
}

/// Nothing that a terminal would obey.
fn assert_harmless(what: &str, text: &str) {
    let harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    let line = text.lines().find(|line| line.contains(harmful));
    assert_eq!(line, None, "{what}");
}

/// Every file under a folder, relative to it.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() { files.extend(self::files(&entry.path())) } else { files.push(entry.path()) }
    }
    files
}

#[test]
fn hostile_names_get_files_of_their_own_and_reach_no_terminal_spreadsheet_or_page() {
    let checkout = Checkout::new();
    let names = hostile_names();
    instances_with(&checkout, &names);
    let suite = crate::checkout::SUITE.replace("small/*", "hostile/*");
    std::fs::write(checkout.path("instances/suites/mini.toml"), suite).unwrap();
    let methods = "--methods store-all,revolve";
    let run = checkout.ok(&format!("run --suite mini {methods}"));
    assert_harmless("run", &(run.stdout + &run.stderr));
    let rows = rows(&checkout.path("results/mini/records.csv"));
    assert_eq!(rows.len(), 3 * names.len());

    // Each row has its schedule, and each instance its figure, none outside of its folder or hidden.
    let schedules = files(&checkout.path("results/mini/schedules"));
    assert_eq!(schedules.len(), 3 * names.len());
    let figures = files(&checkout.path("results/mini/plots"));
    let of_instances = figures.iter().filter(|path| path.extension().is_some_and(|ending| ending == "svg"));
    let of_instances = of_instances.filter(|path| path.parent().unwrap().ends_with("plots")).count();
    assert!(of_instances > names.len(), "{figures:#?}");
    for path in files(&checkout.path("results")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.len() < 250 && (!name.starts_with('.') || name == ".gitignore" || name == ".lock"), "{name}");
    }
    assert!(!checkout.path("owned").exists() && !checkout.path("results/mini/hidden").exists());
    for path in figures.iter().filter(|path| path.extension().is_some_and(|ending| ending == "svg")) {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains(['\u{1b}', '\u{7}']) && !text.contains("<img") && !text.contains("<blink>"), "{path:?}");
    }

    // What a spreadsheet opens begins no formula; what bench reads again is what it was.
    for row in &rows {
        assert!(row.values().all(|cell| !cell.starts_with(['=', '@', '+', '\t', '\r']) && cell != "-1+1"), "{row:?}");
    }
    let checked = checkout.ok("check results/mini");
    assert!(checked.stdout.starts_with(&format!("{} rows: each is", rows.len())), "{}", checked.stdout);
    checkout.ok(&format!("run --suite mini {methods} --resume"));
    assert_eq!(crate::checkout::rows(&checkout.path("results/mini/records.csv")).len(), rows.len());

    for command in [
        "table results/mini",
        "table results/mini --format md",
        "table results/mini --format csv",
        "table results/mini --format latex",
        "status results/mini",
        "instances list",
        "instances show instances/hostile/i12.json",
        "verify instances/hostile/i12.json missing.json",
        "best --update results/mini --folder best",
        "report results/mini",
        "plot results/mini",
    ] {
        let done = checkout.bench(command);
        assert_harmless(command, &(done.stdout.clone() + &done.stderr));
        let formula = |cell: &str| cell.trim_matches('"').starts_with(['=', '@']);
        if command.ends_with("csv") {
            assert!(done.stdout.lines().all(|line| !line.split(',').any(formula)), "{}", done.stdout);
        }
        if command.ends_with("md") {
            assert!(!done.stdout.contains("<img") && !done.stdout.contains("](java"), "{}", done.stdout);
        }
    }
    let page = std::fs::read_to_string(checkout.path("results/mini/report.html")).unwrap();
    for foreign in ["<img src=x", "<blink>", "\u{1b}"] {
        let around = page.find(foreign).map(|at| page[at.saturating_sub(80)..at].to_owned());
        assert_eq!(around, None, "{foreign}");
    }
}

#[test]
fn records_that_a_spreadsheet_has_saved_are_named_as_such() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all --no-plots");
    let path = checkout.path("results/mini/records.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let utf16 = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (bytes, named) in [
        (text.replace('\n', "\r\n").into_bytes(), "Windows line ends"),
        (format!("\u{feff}{text}").into_bytes(), "byte order mark"),
        (utf16, "UTF-16"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for command in ["table results/mini", "run --suite mini --methods store-all --resume"] {
            let done = checkout.bench(command);
            assert_eq!(done.code, Some(2), "{}", done.stderr);
            assert!(done.last_error().contains(named), "{}", done.stderr);
        }
    }
}

#[test]
fn of_a_network_that_takes_no_time_no_part_is_said() {
    let checkout = Checkout::new();
    let path = checkout.path("instances/small/counter.json");
    let mut document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for operator in document["operators"].as_array_mut().unwrap() {
        operator["implementations"].as_array_mut().unwrap().iter_mut().for_each(|way| way["time"] = 0.into());
    }
    std::fs::write(&path, document.to_string()).unwrap();
    checkout.ok("run --suite mini --instances counter --methods rotor-persistent,checkmate-ilp,auto --time-limit 5");
    for file in ["records.csv", "tables.md"] {
        let text = std::fs::read_to_string(checkout.path("results/mini").join(file)).unwrap();
        assert!(!text.contains("NaN") && !text.contains("-100"), "{text}");
    }
}

#[test]
fn records_with_numbers_that_cannot_be_are_refused_in_one_line() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods store-all --no-plots");
    edit(&checkout.path("results/mini/records.csv"), "solve_seconds", "inf");
    for command in ["plot", "report", "table", "check"] {
        let done = checkout.bench(&format!("{command} results/mini"));
        assert_eq!((done.code, done.stderr.lines().count()), (Some(2), 1), "{}", done.stderr);
        assert!(done.last_error().contains("line 2: solve_seconds is \"inf\""), "{}", done.stderr);
    }
}

#[test]
fn suites_are_read_with_a_mark_and_windows_line_ends_but_not_as_utf16() {
    let checkout = Checkout::new();
    let suite = crate::checkout::SUITE;
    std::fs::write(checkout.path("windows.toml"), format!("\u{feff}{}", suite.trim_start().replace('\n', "\r\n")))
        .unwrap();
    checkout.ok("run --suite windows.toml --methods store-all --no-plots");
    std::fs::write(checkout.path("utf16.toml"), suite.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
        .unwrap();
    let done = checkout.bench("run --suite utf16.toml");
    assert_eq!((done.code, done.stderr.lines().count()), (Some(2), 1));
    assert!(done.stderr.contains("is UTF-16 text; save it as UTF-8"), "{}", done.stderr);
}

#[test]
fn no_library_is_taken_from_the_current_folder() {
    let checkout = Checkout::new();
    std::fs::create_dir_all(checkout.path("ortools/.libs")).unwrap();
    std::fs::write(checkout.path("ortools/__init__.py"), "").unwrap();
    std::fs::write(checkout.path("ortools/.libs/libortools.so.9"), "no library").unwrap();
    let done = checkout.command("doctor").env_remove("BENCH_ORTOOLS").output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap();
    let folder = checkout.path("ortools").canonicalize().unwrap();
    assert!(text.contains("cp-sat"), "{text}");
    assert!(!text.contains(&folder.display().to_string()) && !text.contains("libortools.so.9"), "{text}");
}

#[test]
fn no_cache_entry_that_was_changed_changes_a_run() {
    let checkout = Checkout::new();
    let columns = ["instance", "method", "budget", "termination", "simulated_time", "simulated_peak", "lower_bound"];
    let run = |round: usize| {
        let arguments = format!("run --suite mini --methods store-all,revolve --no-plots --out out{round}");
        let done: Done =
            checkout.command(&arguments).env("BENCH_CACHE", checkout.path("cache")).output().unwrap().into();
        assert_eq!(done.code, Some(0), "round {round}: {}", done.stderr);
        let rows = rows(&checkout.path(&format!("out{round}/records.csv")));
        // What is taken comes before what is run.
        rows.iter().map(|row| columns.map(|column| row[column].clone())).collect::<std::collections::BTreeSet<_>>()
    };
    let fresh = run(0);
    let mut entries = files(&checkout.path("cache"));
    entries.retain(|path| path.to_string_lossy().ends_with(".json.zst"));
    assert_eq!(entries.len(), fresh.len());
    let text = |path: &std::path::PathBuf| (path.display().to_string(), remat_core::io::read_bytes(path).unwrap());
    let texts: Vec<_> = entries.iter().map(text).collect();
    for round in 1..20 {
        for (at, path) in entries.iter().enumerate() {
            let mutated = mutate::mutated(&mut mutate::Random((round * entries.len() + at) as u64), &texts);
            match serde_json::from_slice::<serde_json::Value>(&mutated) {
                Ok(value) => remat_core::io::write_json_quickly(path, &value).unwrap(),
                Err(_) => std::fs::write(path, mutated).unwrap(),
            }
        }
        assert_eq!(run(round), fresh, "round {round}");
    }
}
