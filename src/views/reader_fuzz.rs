//! The binary's own readers take whatever they are given (tests only): suites, records and what is made of them,
//! best-known values, executions, plans, manifests and traces.

#![cfg(test)]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../tests/fuzz/mutate.rs"]
mod mutate;

use std::cell::Cell;
use std::path::Path;

use mutate::{Verdict, corpus, fuzz, root};

use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::harness::records::tests::example;
use crate::harness::records::{COLUMNS, Existing, Record, Writer};
use crate::harness::records::{manifest, paths};
use crate::harness::{best, launcher, records, replay, suite};
use crate::views::list::Material;
use crate::views::plot;

fn words(error: impl std::fmt::Display) -> String {
    crate::ground::text::line(&error.to_string())
}

/// A reader of one file of a folder.
fn any_file(reader: &str, files: &[(String, Vec<u8>)], name: &str, read: impl Fn(&Path) -> Verdict) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    fuzz(reader, files, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        read(folder.path())
    });
}

#[test]
fn any_suite_is_read_or_refused() {
    let mut files = corpus("suite");
    for name in ["smoke", "resnet"] {
        let path = root().join(format!("instances/suites/{name}.toml"));
        files.push((name.into(), std::fs::read(path).unwrap()));
    }
    any_file("suite", &files, "case.toml", |folder| {
        let file = suite::read_file(&folder.join("case.toml")).map_err(words)?;
        file.suite.methods.iter().for_each(|method| drop(method.settings()));
        Ok(())
    });
}

/// Rows as they are written, of some settings and budgets.
fn rows() -> Vec<Record> {
    let settings =
        [("store-all", None), ("revolve", Some(("0.5x", 1 << 29))), ("revolve", Some(("0.6x", 600_000_000)))];
    let mut rows: Vec<_> = settings.iter().map(|&(method, budget)| example(method, budget)).collect();
    rows.push(Record { parameters: "slots=5".into(), seed: 1, ..example("rotor-persistent", Some(("0.5x", 1 << 29))) });
    rows.push(Record {
        instance: "=net".into(),
        lower_bound: Some(7),
        ..example("checkmate-ilp", Some(("8GiB", 8 << 30)))
    });
    rows
}

#[test]
fn any_rows_are_read_or_refused_and_make_tables_and_figures() {
    let written = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(written.path(), Existing::Refuse).unwrap();
    for row in rows() {
        writer.write(&row).unwrap();
    }
    drop(writer);
    let bytes = std::fs::read(written.path().join("records.csv")).unwrap();
    let header = COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",") + "\n";
    // Changes to the header are refused at once: they are not worth a case.
    let body = bytes.strip_prefix(header.as_bytes()).unwrap().to_vec();
    let cases = Cell::new(0);
    let library = Library { root: root() };
    let folder = tempfile::tempdir().unwrap();
    fuzz("records", &[("rows".into(), body)], |bytes| {
        std::fs::write(folder.path().join("records.csv"), [header.as_bytes(), bytes].concat()).unwrap();
        let records = records::read(folder.path()).map_err(words)?;
        let format = [Format::Text, Format::Csv, Format::Latex, Format::Json][cases.get() % 4];
        Material::new(&library, &records, folder.path(), None).all(format).map_err(words)?;
        cases.set(cases.get() + 1);
        // Drawing takes a hundred times as long.
        let figures = plot::figures(&records, None, folder.path()).map_err(words)?;
        match figures.first().filter(|_| cases.get().is_multiple_of(50)) {
            Some(named) => named.figure.svg().map(drop).map_err(words),
            None => Ok(()),
        }
    });
}

#[test]
fn any_other_file_of_a_run_directory_is_read_or_refused() {
    let header = |text: &str| vec![("case".to_owned(), text.as_bytes().to_vec())];
    let trace = "seconds,claimed_time,claimed_peak,lower_bound,effort\n0.5,100,7,3,1\n0.75,90,7,4,\n";
    let row = example("revolve", Some(("0.5x", 7)));
    any_file("trace", &header(trace), "traces/net/revolve@0.5x.csv", |folder| {
        assert!(paths::trace_path(&folder.join("traces"), &row).is_file());
        crate::views::trajectory::read_all(std::slice::from_ref(&row), folder).map(drop).map_err(words)
    });
    any_file("manifest", &header("{\"started\": \"now\"}\n{}\n"), "manifest.jsonl", |folder| {
        manifest::read(folder);
        Ok(())
    });
    let plan = serde_json::json!({
        "number": 1, "suite": "s", "root": "", "limits": {"time": {"secs": 5, "nanos": 0}, "threads": 1, "seed": 0},
        "search_time": null, "cpu_limit": {"secs": 5, "nanos": 7}, "memory_limit_bytes": 9, "fresh": false,
        "tasks": [[{"kind": "run", "name": "n", "instance": "i.json", "instance_hash": "0", "method": "revolve",
            "given": {}, "parameters": "", "budgets": [{"text": "0.5x", "bytes": 7}], "seed": 0}]],
        "arrays": [{"name": "a", "first": 0, "count": 1}],
    });
    any_file("plan", &header(&plan.to_string()), "plan.json", |folder| {
        let batch = launcher::batch::read(&folder.join("plan.json")).map_err(words)?;
        let _ = (batch.place(0), batch.place(usize::MAX));
        Ok(())
    });
}

#[test]
fn any_table_of_values_is_read_or_refused() {
    let best = std::fs::read_to_string(root().join("results/best-known.csv")).unwrap();
    let few = best.lines().take(6).collect::<Vec<_>>().join("\n");
    any_file("best-known", &[("case".into(), few.into_bytes())], "best-known.csv", |folder| {
        let entries = best::read(folder).map_err(words)?;
        crate::views::best::render(&entries, Format::Text);
        crate::views::best::digest(&entries, Format::Text);
        Ok(())
    });
    let executed = tempfile::tempdir().unwrap();
    replay::write(executed.path(), &[replay::tests::execution("revolve", "0.5x", 5, 7)]).unwrap();
    let bytes = std::fs::read(replay::path_in(executed.path())).unwrap();
    any_file("executed", &[("case".into(), bytes)], "executed.csv", |folder| {
        replay::read(folder).map(drop).map_err(words)
    });
}
