//! Instance and schedule files: what is written is read again, and what docs/reference/formats.md shows is valid.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Dice, network};
use remat_core::format::InstanceDocument;
use remat_core::io::{read_instance, read_json, read_schedule, replace, write_json};
use remat_core::liveness::with_liveness;
use remat_core::plan::Plan;
use remat_core::schedule::{ScheduleDocument, StepDocument};
use remat_core::{Instance, Schedule};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("remat-core-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn document() -> InstanceDocument {
    network(&Dice { layers: vec![(4, 1, 0, 0), (8, 2, 3, 2), (8, 2, 3, 4), (2, 1, 0, 0)] })
}

fn store_all(instance: &Instance) -> Schedule {
    with_liveness(instance, &Plan::fastest(instance).store_all(instance))
}

#[test]
fn an_instance_survives_each_compression() {
    let folder = Folder::new("compression");
    let hash = Instance::new(&document()).expect("valid").hash();
    for name in ["a.json", "a.json.gz", "a.json.zst"] {
        write_json(&folder.file(name), &document()).expect("writable");
        let back: InstanceDocument = read_json(&folder.file(name)).expect("readable");
        assert_eq!(back, document(), "{name}");
        assert_eq!(read_instance(&folder.file(name)).expect("valid").hash(), hash, "{name}");
    }
}

#[test]
fn a_schedule_survives_its_file() {
    let folder = Folder::new("schedule");
    let instance = Instance::new(&document()).expect("valid");
    let schedule = store_all(&instance);
    let path = folder.file("s.json");
    write_json(&path, &ScheduleDocument::new(&instance, &schedule)).expect("writable");
    let (_, back) = read_schedule(&path, &instance).expect("readable");
    assert_eq!(back, schedule);
}

/// The message for a schedule document that was tampered with.
fn refusal(tamper: impl FnOnce(&mut ScheduleDocument)) -> String {
    let instance = Instance::new(&document()).expect("valid");
    let mut document = ScheduleDocument::new(&instance, &store_all(&instance));
    tamper(&mut document);
    document.resolve(&instance).expect_err("tampered with").to_string()
}

#[test]
fn a_schedule_of_another_instance_is_refused() {
    let message = refusal(|s| (s.instance, s.instance_hash) = ("other".into(), Some("0".repeat(16))));
    let name = document().name;
    assert!(message.starts_with(&format!("was made for other (0000000000000000), not for {name} (")), "{message}");
}

#[test]
fn unknown_ids_and_names_in_a_schedule_are_named() {
    let compute = |id| StepDocument { compute: Some(id), ..StepDocument::default() };
    assert_eq!(refusal(|s| s.steps[1] = compute(99)), "step 1: computes operator 99, which the instance does not have");
    assert_eq!(
        refusal(|s| s.steps[0] = StepDocument { implementation: Some("fast".into()), ..compute(0) }),
        "step 0: operator 0 has no implementation \"fast\"; it has default, masked"
    );
    assert_eq!(
        refusal(|s| s.steps[2] = StepDocument { free: Some(77), ..StepDocument::default() }),
        "step 2: frees tensor 77, which the instance does not have"
    );
    assert_eq!(
        refusal(|s| s.steps[3] = StepDocument { free: Some(1), ..compute(1) }),
        "step 3: is not one of {\"compute\": ID}, {\"free\": ID}, {\"offload\": ID} and {\"fetch\": ID}; give exactly one"
    );
    let offload = |id| StepDocument { offload: Some(id), ..StepDocument::default() };
    assert_eq!(
        refusal(|s| s.steps[3] = offload(1)),
        "step 3: offloads a tensor, but the schedule has no transfer_rates; give bytes per 1000 units of time"
    );
    assert_eq!(
        refusal(|s| s.steps[3] = StepDocument { fetch: Some(77), ..StepDocument::default() }),
        "step 3: fetches tensor 77, which the instance does not have"
    );
    let both = || StepDocument { fetch: Some(1), ..offload(1) };
    assert!(refusal(|s| s.steps[3] = both()).starts_with("step 3: is not one of "));
    assert_eq!(refusal(|s| s.version = 3), "is \"remat-schedule\" version 3; expected \"remat-schedule\" version 1");
}

#[test]
fn a_view_stands_for_its_storage() {
    let mut document = document();
    let plain = Instance::new(&document).expect("valid");
    document.views.push(serde_json::from_str(r#"{"id": 900, "name": "flat", "of": 901}"#).expect("a view"));
    document.views.push(serde_json::from_str(r#"{"id": 901, "name": "row", "of": 1}"#).expect("a view"));
    document.operators[1].inputs = vec![900];
    let viewed = Instance::new(&document).expect("valid");
    let reads = |instance: &Instance| instance.operators()[1].implementations[0].reads.clone();
    assert_eq!(reads(&viewed), reads(&plain));
    assert_eq!(viewed.tensors().len(), plain.tensors().len());
}

#[test]
fn a_hundred_thousand_views_of_each_other_are_followed_once() {
    let mut document = document();
    let view = |id: u32| {
        let of = if id == 100_999 { 1 } else { id + 1 };
        serde_json::from_str(&format!(r#"{{"id": {id}, "name": "v", "of": {of}}}"#)).expect("a view")
    };
    document.views = (1_000..101_000).map(view).collect();
    document.operators[1].inputs = vec![1_000];
    assert!(Instance::new(&document).is_ok());
    document.views[99_999].of = 50_000;
    let error = Instance::new(&document).expect_err("a loop").to_string();
    assert!(error.contains("is part of a loop of views"), "{error}");
}

#[test]
fn the_example_on_the_page_of_formats_is_valid() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/formats.md"))
        .expect("it is there");
    let example = text.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("it has an example");
    let document: InstanceDocument = serde_json::from_str(example).expect("of the right shape");
    Instance::new(&document).expect("valid");
}

#[test]
fn writing_into_a_missing_folder_names_the_file() {
    let error = write_json(Path::new("no/such/folder/a.json"), &document()).expect_err("there is no such folder");
    assert!(error.to_string().starts_with("no/such/folder/a.json: cannot write: "), "{error}");
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_stays_one_and_a_pipe_is_written_into() {
    let folder = Folder::new("replace");
    let [file, link, pipe] = ["file.csv", "link.csv", "pipe"].map(|name| folder.file(name));
    std::fs::write(&file, "old").expect("writable");
    std::os::unix::fs::symlink(&file, &link).expect("links can be made");
    replace(&link, |out| out.write_all(b"new")).expect("writable");
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), "new");
    replace(&file, |out| out.write_all(b"half").and(Err(std::io::Error::other("stopped")))).expect_err("stopped");
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), "new");

    assert!(Command::new("mkfifo").arg(&pipe).status().expect("is everywhere").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).expect("readable")
    });
    replace(&pipe, |out| out.write_all(b"rows")).expect("writable");
    assert_eq!(reader.join().expect("no panic"), "rows");
    let names = std::fs::read_dir(pipe.parent().expect("has one")).expect("readable");
    assert_eq!(names.count(), 3, "nothing is left beside them");
}

/// A file whose text is a pattern, compressed.
fn bomb(folder: &Folder, name: &str, head: &str, part: &str, times: usize) -> PathBuf {
    let path = folder.file(name);
    let mut encoder = zstd::Encoder::new(std::fs::File::create(&path).expect("writable"), 1).expect("zstd works");
    std::io::Write::write_all(&mut encoder, head.as_bytes()).expect("writable");
    let block = part.repeat(1000);
    for _ in 0..times / 1000 {
        std::io::Write::write_all(&mut encoder, block.as_bytes()).expect("writable");
    }
    encoder.finish().expect("writable");
    path
}

#[test]
fn small_files_that_expand_beyond_the_limits_are_refused_before_anything_is_built() {
    let folder = Folder::new("limits");
    let cases = [
        bomb(&folder, "numbers.json.zst", "{\"fweight\": [", "0,", 50_000_000),
        bomb(&folder, "objects.json.zst", "{\"nodes\": [", "{\"\":0},", 20_000_000),
        bomb(&folder, "lists.json.zst", "", "[", 20_000_000),
    ];
    for path in cases {
        assert!(std::fs::metadata(&path).expect("it is there").len() < 100_000);
        let error = read_json::<serde_json::Value>(&path).expect_err("too many elements").to_string();
        assert!(error.contains("more than 10485760 JSON elements"), "{error}");
        assert!(error.contains("BENCH_MAX_FILE_MIB is set above 256"), "{error}");
    }
    let text = bomb(&folder, "text.json.zst", "\"", "xxxxxxxxxx", 30_000_000);
    let error = read_json::<serde_json::Value>(&text).expect_err("too many bytes").to_string();
    assert!(error.contains("holds more than 256 MiB, the limit"), "{error}");
}

#[test]
fn encodings_are_read_where_harmless_and_named_elsewhere() {
    let folder = Folder::new("encodings");
    let plain = serde_json::to_string_pretty(&document()).expect("a document always serialises");
    let read = |name: &str, bytes: Vec<u8>| {
        std::fs::write(folder.file(name), bytes).expect("writable");
        read_instance(&folder.file(name)).map(|instance| instance.hash().to_string()).map_err(|error| error.to_string())
    };
    let hash = read("plain.json", plain.clone().into()).expect("valid");
    assert_eq!(read("mark.json", format!("\u{feff}{plain}").into()), Ok(hash.clone()));
    assert_eq!(read("windows.json", plain.replace('\n', "\r\n").into()), Ok(hash));
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (name, bytes, named) in [
        ("utf16.json", utf16(&plain), "is UTF-16 text; save it as UTF-8"),
        ("utf16-mark.json", utf16(&format!("\u{feff}{plain}")), "is UTF-16 text; save it as UTF-8"),
        ("zstd.json", zstd::encode_all(plain.as_bytes(), 1).expect("zstd works"), "its name should end in .json.zst"),
        ("gzip.json", vec![0x1f, 0x8b, 8, 0], "its name should end in .json.gz"),
    ] {
        let error = read(name, bytes).expect_err(name);
        assert!(error.ends_with(named) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn inputs_that_many_implementations_share_do_not_multiply() {
    let mut document = document();
    let inputs = 6_000;
    for id in 0..inputs {
        let tensor = format!(r#"{{"id": {}, "name": "x", "bytes": 0, "kind": "input"}}"#, 1000 + id);
        document.tensors.push(serde_json::from_str(&tensor).expect("a tensor"));
        document.operators[0].inputs.push(1000 + id);
    }
    let way = document.operators[0].implementations[0].clone();
    for copy in 0..6_000 {
        let way = remat_core::format::ImplementationDocument { name: format!("copy{copy}"), ..way.clone() };
        document.operators[0].implementations.push(way);
    }
    let error = Instance::new(&document).expect_err("36 million reads").to_string();
    assert!(error.contains("bring the reads of all to more than 33554432"), "{error}");
}

#[test]
fn a_list_is_no_object() {
    let folder = Folder::new("lists");
    let path = folder.file("i.json");
    let whole = serde_json::to_value(document()).expect("serialises");
    let refusal = |value: &serde_json::Value| {
        std::fs::write(&path, value.to_string()).expect("written");
        read_instance(&path).expect_err("refused").to_string()
    };
    let listed = |value: &serde_json::Value| value.as_object().expect("an object").values().cloned().collect();
    for (pointer, element) in [("/tensors/0", "tensors[0]"), ("/operators/0/implementations/0", "operators[0]")] {
        let mut changed = whole.clone();
        let part = changed.pointer_mut(pointer).expect("it is there");
        *part = serde_json::Value::Array(listed(part));
        let words = refusal(&changed);
        assert!(words.contains(element) && words.contains("expected an object"), "{words}");
    }
    let words = refusal(&serde_json::Value::Array(listed(&whole)));
    assert!(words.contains("the top") && words.contains("expected an object"), "{words}");
}
