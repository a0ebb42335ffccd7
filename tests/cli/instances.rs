//! `bench instances`: list, show, validate, import, generate, schema.

use std::path::Path;

use crate::checkout::Checkout;

#[test]
fn instances_are_listed_and_shown() {
    let checkout = Checkout::new();
    let list = checkout.ok("instances list").stdout;
    let shown = checkout.ok("instances show counter").stdout;
    let stages = checkout.ok("instances show small/random --stages").stdout;
    insta::assert_snapshot!("instances", format!("{list}\n{shown}\n{stages}"));
}

#[test]
fn the_list_comes_from_the_index_and_never_from_a_stale_line() {
    let checkout = Checkout::new();
    let listed = checkout.ok("instances list").stdout;
    checkout.ok("instances index");
    checkout.ok("instances index --check");
    let path = checkout.path("instances/index.csv");
    let index = std::fs::read_to_string(&path).unwrap();
    let indexed = checkout.ok("instances list");
    assert_eq!((indexed.stdout, indexed.stderr.as_str()), (listed.clone(), ""));
    // The list believes a line whose hash is that of the file; the check believes none.
    std::fs::write(&path, index.replace(",16,25,", ",17,25,")).unwrap();
    assert!(checkout.ok("instances list").stdout.contains("small/counter         17       25"));
    let refused = checkout.bench("instances index --check");
    assert_eq!((refused.code, refused.last_error().contains("first: small/counter")), (Some(1), true));
    // Another instance under the name, and a new one: both are read, and the user is told.
    std::fs::write(&path, &index).unwrap();
    checkout.ok("instances generate figure4 --n 6 -o instances/small/counter.json");
    checkout.ok("instances generate figure4 --n 7 -o instances/small/new.json");
    let stale = checkout.ok("instances list");
    assert!(
        stale.stdout.contains("small/counter         18") && stale.stdout.contains("small/new"),
        "{}",
        stale.stdout
    );
    assert!(stale.stderr.contains("not up to date for 2 instances"), "{}", stale.stderr);
    let refused = checkout.bench("instances index --check");
    assert!(refused.last_error().contains("not up to date for 2 instances"), "{}", refused.stderr);
    std::fs::rename(checkout.path("instances/small/random.json.zst"), checkout.path("other.json.zst")).unwrap();
    let gone = checkout.ok("instances list");
    assert!(gone.stderr.contains("not up to date for 3 instances"), "{}", gone.stderr);
    std::fs::rename(checkout.path("other.json.zst"), checkout.path("instances/small/random.json.zst")).unwrap();
    std::fs::remove_file(checkout.path("instances/small/new.json")).unwrap();
    checkout.ok("instances generate figure4 --n 5 -o instances/small/counter.json");
    checkout.ok("instances index --check");
    std::fs::write(&path, "name\nx\n").unwrap();
    assert!(checkout.bench("instances list").last_error().contains("`bench instances index` writes it anew"));
}

#[test]
fn files_that_are_no_instances_are_named_and_the_others_have_their_lines() {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("instances/small/broken.json"), "{").unwrap();
    for command in ["instances index", "instances index --check"] {
        let done = checkout.bench(command);
        assert_eq!(done.code, Some(1));
        assert!(
            done.stderr.contains("instances/index.csv: 2 instances\ninstances/small/broken.json: "),
            "{}",
            done.stderr
        );
        assert_eq!(done.last_error(), "error: 1 file without a line, for no instance is in it");
    }
}

#[test]
fn the_committed_index_is_that_of_the_instances() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bench"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["instances", "index", "--check"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn names_are_found_from_folders_below() {
    let checkout = Checkout::new();
    let below = checkout.path("instances/small");
    let output = checkout.command("instances show counter").current_dir(below).output().unwrap();
    assert!(output.status.success());
}

#[test]
fn an_ambiguous_name_lists_its_meanings() {
    let checkout = Checkout::new();
    std::fs::create_dir(checkout.path("instances/other")).unwrap();
    std::fs::copy(checkout.path("instances/small/counter.json"), checkout.path("instances/other/counter.json"))
        .unwrap();
    let done = checkout.bench("instances show counter");
    assert_eq!(done.code, Some(2));
    assert_eq!(done.stderr, "error: \"counter\" could be other/counter or small/counter; name one of them\n");
    checkout.ok("instances show other/counter");
}

#[test]
fn validation_reports_every_file() {
    let checkout = Checkout::new();
    std::fs::write(checkout.path("bad.json"), "[1").unwrap();
    std::fs::write(checkout.path("worse.json"), "{\"format\": 3}").unwrap();
    let done = checkout.bench("instances validate bad.json instances/small/counter.json worse.json");
    assert_eq!(done.code, Some(2));
    assert_eq!(done.stdout.lines().count(), 1);
    assert_eq!(done.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{}", done.stderr);
}

#[test]
fn a_chain_is_imported_from_wherever_it_stands_in_the_file() {
    let checkout = Checkout::new();
    let chain = r#"{"fweight": [1.5, 2], "bweight": [3, 4, 0], "cweight": [1, 2, 3], "cbweight": [1, 2, 4], "ftmp": [0, 0], "btmp": [0, 1, 0]}"#;
    let places = [
        ("top.json", chain.to_owned(), ""),
        ("chain.json", format!("{{\"chain\": {chain}}}"), ""),
        ("list.json", format!("{{\"instances\": [{{}}, {{\"chain\": {chain}}}]}}"), "--index 1"),
    ];
    for (file, text, option) in places {
        std::fs::write(checkout.path(file), text).unwrap();
        let refused = checkout.bench(&format!("instances import {file} -o out.json {option}"));
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("fweight[0] is 1.5, not whole; give --time-scale"), "{}", refused.stderr);
        checkout.ok(&format!("instances import {file} -o out.json --time-scale 1000000 --memory-scale 1024 {option}"));
        let shown = checkout.ok("instances show out.json").stdout;
        assert!(shown.contains("time 10.5 ms, peak"), "{shown}");
    }
    let twice = chain.replace("{\"fweight", &format!("{{\"chain\": {chain}, \"fweight"));
    std::fs::write(checkout.path("twice.json"), twice).unwrap();
    let refused = checkout.bench("instances import twice.json -o out.json");
    let words = "error: twice.json: has something to import at the top and under chain; leave one of them out";
    assert_eq!((refused.code, refused.last_error()), (Some(2), words));
}

#[test]
fn the_committed_schemas_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances");
    for kind in ["instance", "schedule"] {
        let printed = Checkout::new().ok(&format!("instances schema {kind}")).stdout;
        let committed = std::fs::read_to_string(folder.join(format!("{kind}.schema.json"))).unwrap_or_default();
        assert_eq!(
            committed, printed,
            "instances/{kind}.schema.json is stale; run: bench instances schema {kind} > instances/{kind}.schema.json"
        );
    }
}

#[test]
fn generated_chains_equal_the_reference_chains() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("formulations/tests/data/rotor");
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path());
    let files: Vec<_> = files.filter(|path| path.file_name().unwrap().to_string_lossy().contains("seed")).collect();
    assert!(files.len() >= 10);
    let checkout = Checkout::new();
    for file in files {
        let value: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let chain = if value["fweight"].is_array() { &value } else { &value["chain"] };
        let (stages, seed, kind) = (&chain["L"], &chain["seed"], chain["kind"].as_str().unwrap());
        checkout.ok(&format!(
            "instances generate random-chain --stages {stages} --seed {seed} --kind {kind} -o g.json --name x"
        ));
        checkout.ok(&format!("instances import {} -o i.json --name x", file.display()));
        let tensors = |name: &str| {
            let text = std::fs::read_to_string(checkout.path(name)).unwrap();
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            (document["tensors"].clone(), document["operators"].clone())
        };
        assert_eq!(tensors("g.json"), tensors("i.json"), "{}", file.display());
    }
}

/// What `instances/published/sources.csv` says of an instance.
#[derive(serde::Deserialize)]
struct Source {
    instance: String,
    importer: String,
    file: String,
    paper: String,
    note: String,
}

fn sources() -> Vec<Source> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances/published/sources.csv");
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

#[test]
fn every_published_instance_names_its_paper_its_repository_and_the_licence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances");
    let mut listed: Vec<_> = sources().into_iter().map(|source| root.join(source.instance + ".json.zst")).collect();
    let folders = std::fs::read_dir(root.join("published")).unwrap().flatten().map(|folder| folder.path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let mut found: Vec<_> = files.map(|file| file.path()).collect();
    listed.sort();
    found.sort();
    assert_eq!(listed, found);
    for source in sources() {
        let path = root.join(source.instance + ".json.zst");
        let document: remat_core::format::InstanceDocument = remat_core::io::read_json(&path).unwrap();
        let published = format!("{:?}", document.provenance.sizes);
        assert!(published.contains(&source.paper), "{published}");
        assert!(document.provenance.notes.contains(&source.note), "{}", path.display());
        assert!(source.note.contains("https://github.com/") && source.note.contains("licence"), "{}", source.note);
    }
}

/// Needs the authors' own files. UPDATE_PUBLISHED=1 writes the instances anew.
#[test]
fn published_instances_are_what_the_importers_make_of_the_authors_files() {
    let Some(folder) = std::env::var_os("BENCH_REFERENCE_DATA") else {
        eprintln!("SKIPPED: BENCH_REFERENCE_DATA is not set, so instances/published/ is not imported again");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances");
    let checkout = Checkout::new();
    for source in sources() {
        let committed = root.join(format!("{}.json.zst", source.instance));
        let made = checkout.path(&format!("{}.json.zst", source.instance));
        std::fs::create_dir_all(made.parent().unwrap()).unwrap();
        let mut command = checkout.command(&format!("instances {}", source.importer));
        command.arg(Path::new(&folder).join(&source.file)).arg("--output").arg(&made);
        let output = command.args(["--paper", &source.paper, "--note", &source.note]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        if std::env::var_os("UPDATE_PUBLISHED").is_some() {
            std::fs::create_dir_all(committed.parent().unwrap()).unwrap();
            std::fs::copy(&made, &committed).unwrap();
        }
        let read = |path: &Path| remat_core::io::read_json::<remat_core::format::InstanceDocument>(path).unwrap();
        assert!(read(&made) == read(&committed), "{}: UPDATE_PUBLISHED=1 writes it anew", source.instance);
    }
}
