//! Mutated files: the same for the same seed on every machine, without a fuzzing engine. Shared by the crates' tests.
//!
//! Each reader has a corpus, `tests/fuzz/corpus/READER/`, in which findings are kept. A case is a file of it with a few
//! changes, to its bytes or to its JSON. `BENCH_FUZZ_CASES` sets how many cases each reader gets, `BENCH_FUZZ_SEED`
//! where they begin; a failure writes the case and says how to repeat it.
#![allow(dead_code, reason = "each crate uses its part")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Cases of each reader in a test run that asks for nothing else.
const CASES: u64 = 1500;
/// A reader that needs longer for a few kilobytes does something quadratic or worse.
const SLOW: Duration = Duration::from_secs(10);
/// Virtual memory that a process may reserve at once: what a length in a file must not decide.
const MOST_KIB: u64 = 3 << 20;

/// What a reader makes of bytes: nothing, or the line that says what is wrong with them.
pub type Verdict = Result<(), String>;

/// Numbers at which something begins or ends.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "2",
    "127",
    "255",
    "65536",
    "2147483647",
    "4294967294",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "1e19",
    "1.8e308",
    "-1e308",
    "1e-320",
];
const TEXTS: [&str; 12] = [
    "\"\"",
    "\"..\"",
    "\"\\u001b[31m\"",
    "\"=1+1\"",
    "\"a/b\"",
    "\"\\n\"",
    "null",
    "true",
    "[]",
    "{}",
    "[[]]",
    "\"\u{202e}\u{feff}é\"",
];

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits() % bound.max(1) as u64).unwrap()
    }
    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// The files of a corpus, by name.
pub fn corpus(reader: &str) -> Vec<(String, Vec<u8>)> {
    let folder = root().join("tests/fuzz/corpus").join(reader);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The checkout.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().find(|folder| folder.join("tests/fuzz/corpus").is_dir()).unwrap().to_owned()
}

/// Gives a reader its corpus and mutations of it: no panic, no huge reservation, no hour, and of an error one line.
pub fn fuzz(reader: &str, files: &[(String, Vec<u8>)], read: impl Fn(&[u8]) -> Verdict) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (cases, first) = (number("BENCH_FUZZ_CASES").unwrap_or(CASES), number("BENCH_FUZZ_SEED").unwrap_or(0));
    for (name, bytes) in files {
        judge(reader, name, bytes, &read);
    }
    let mut read_well = 0;
    for seed in first..first + cases {
        let bytes = mutated(&mut Random(seed ^ hash(reader)), files);
        read_well += u64::from(judge(reader, &format!("seed {seed}"), &bytes, &read));
    }
    // Cases that all fail at the first byte test nothing.
    assert!(cases < 1000 || read_well * 200 > cases, "{reader}: {read_well} of {cases} cases were read");
    if let Some(peak) = peak_kib() {
        assert!(peak < MOST_KIB, "{reader}: {peak} KiB were reserved; run parts of the seeds to find the case");
    }
}

/// Whether the case was read.
fn judge(reader: &str, case: &str, bytes: &[u8], read: &impl Fn(&[u8]) -> Verdict) -> bool {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| read(bytes)));
    let wrong = match &outcome {
        Err(_) => Some("panicked".to_owned()),
        Ok(Err(line)) if line.is_empty() || line.contains('\n') || line.len() > 4000 => {
            Some(format!("said no single line of a decent length: {line:?}"))
        }
        Ok(_) if started.elapsed() > SLOW => Some(format!("took {:?}", started.elapsed())),
        Ok(_) => None,
    };
    if let Some(wrong) = wrong {
        let path = std::env::temp_dir().join(format!("fuzz-{reader}-{}", case.replace(' ', "-")));
        std::fs::write(&path, bytes).unwrap();
        panic!(
            "{reader}, {case}: {wrong}; the case is {}: mend the reader and keep it under tests/fuzz/corpus/{reader}/",
            path.display()
        );
    }
    outcome.is_ok_and(|verdict| verdict.is_ok())
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Largest virtual memory of this process, where the system says so.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
}

/// One of the files, changed.
pub fn mutated(random: &mut Random, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = random.pick(files).1.clone();
    let other = &random.pick(files).1;
    let tree = random.below(3) > 0;
    if let (true, Ok(mut value)) = (tree, serde_json::from_slice::<Value>(&bytes)) {
        let other = serde_json::from_slice(other).unwrap_or(Value::Null);
        for _ in 0..=random.below(4) {
            change(random, &mut value, &other);
        }
        bytes = serde_json::to_vec(&value).unwrap();
        if random.below(8) > 0 {
            return bytes;
        }
    }
    for _ in 0..=random.below(6) {
        scratch(random, &mut bytes, other);
    }
    bytes
}

/// One change to the bytes.
fn scratch(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let from = random.below(bytes.len() + 1);
    let most = 1 << random.below(8);
    let to = (from + random.below(most)).min(bytes.len());
    match random.below(9) {
        0 => bytes.truncate(from),
        1 => drop(bytes.drain(from..to)),
        2 => {
            let part = bytes[from..to].to_vec();
            let at = random.below(bytes.len() + 1);
            bytes.splice(at..at, part.repeat(1 + random.below(40)));
        }
        3 => {
            let start = random.below(other.len() + 1);
            let end = (start + random.below(64)).min(other.len());
            bytes.splice(from..to, other[start..end].iter().copied());
        }
        4 if from < bytes.len() => bytes[from] ^= 1 << random.below(8),
        5 if from < bytes.len() => bytes[from] = u8::try_from(random.below(256)).unwrap(),
        6 => drop(bytes.splice(from..to, random.pick(&TEXTS).bytes())),
        _ => {
            // The number that stands here, or next.
            let digit = |byte: &u8| byte.is_ascii_digit();
            let start = bytes[from..].iter().position(digit).map_or(from, |at| from + at);
            let end = bytes[start..].iter().position(|byte| !digit(byte)).map_or(bytes.len(), |at| start + at);
            drop(bytes.splice(start..end, random.pick(&NUMBERS).bytes()));
        }
    }
}

/// One change to a document: somewhere in it something goes, comes twice, changes places or becomes something else.
fn change(random: &mut Random, value: &mut Value, other: &Value) {
    let descend = random.below(12) > 0;
    match value {
        Value::Object(fields) if descend && !fields.is_empty() => {
            let key = fields.keys().nth(random.below(fields.len())).unwrap().clone();
            match random.below(10) {
                0 => drop(fields.remove(&key)),
                1 => {
                    let taken = fields.remove(&key).unwrap();
                    fields.insert(format!("{key}x"), taken);
                }
                _ => change(random, fields.get_mut(&key).unwrap(), other.get(&key).unwrap_or(other)),
            }
        }
        Value::Array(items) if descend && !items.is_empty() => {
            let (at, to) = (random.below(items.len()), random.below(items.len()));
            match random.below(10) {
                0 => drop(items.remove(at)),
                1 => items.insert(to, items[at].clone()),
                2 => items.swap(at, to),
                3 => items.truncate(at),
                _ => change(random, &mut items[at], other.get(at).unwrap_or(other)),
            }
        }
        Value::Number(number) if random.below(2) == 0 => {
            let near = number.as_u64().unwrap_or(0);
            *value = near.wrapping_add(random.below(5) as u64).wrapping_sub(2).into();
        }
        _ => {
            let text = if random.below(3) > 0 { *random.pick(&NUMBERS) } else { *random.pick(&TEXTS) };
            *value = match random.below(6) {
                0 => other.clone(),
                _ => serde_json::from_str(text).unwrap_or(Value::Null),
            };
        }
    }
}
