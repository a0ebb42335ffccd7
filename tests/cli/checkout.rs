//! A small checkout in a temporary folder, and ways to run `bench` in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The suite that most tests run: three methods on two instances.
pub const SUITE: &str = r#"
name = "mini"
title = "a suite for tests"
analysis = "Nothing follows from it."
instances = ["small/*"]
budgets = ["0.6x", "1.0x"]
[limits]
threads = 1
[[methods]]
id = "store-all"
[[methods]]
id = "sequential"
sweep = true
[[methods]]
id = "rotor-persistent"
"#;

/// What a command did.
pub struct Done {
    /// Exit code; none after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Done {
    /// The last line of standard error.
    pub fn last_error(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}

/// A folder with `instances/`, removed at the end.
pub struct Checkout {
    folder: tempfile::TempDir,
}

impl Checkout {
    /// Two instances and the suite `mini`.
    pub fn new() -> Self {
        let checkout = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(checkout.path("instances/suites")).unwrap();
        std::fs::create_dir_all(checkout.path("instances/small")).unwrap();
        std::fs::write(checkout.path("instances/suites/mini.toml"), SUITE).unwrap();
        checkout.ok("instances generate figure4 --n 5 -o instances/small/counter.json");
        checkout
            .ok("instances generate random-chain --stages 8 --seed 3 --kind small0 -o instances/small/random.json.zst");
        checkout
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// A command with its arguments separated by spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command
            .current_dir(self.folder.path())
            .args(arguments.split_whitespace())
            .env_remove("BENCH_TEST_FAULT")
            // Tests compare runs; those of the cache name a folder.
            .env("BENCH_CACHE", "")
            .env_remove("COLUMNS");
        command
    }

    pub fn bench(&self, arguments: &str) -> Done {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, arguments: &str) -> Done {
        let done = self.bench(arguments);
        assert_eq!(done.code, Some(0), "bench {arguments}\n{}", done.stderr);
        done
    }
}

/// Puts a value into a column of the first row of a `records.csv`.
pub fn edit(path: &Path, column: &str, value: &str) {
    let mut lines: Vec<csv::StringRecord> =
        csv::ReaderBuilder::new().has_headers(false).from_path(path).unwrap().records().map(Result::unwrap).collect();
    let at = lines[0].iter().position(|name| name == column).unwrap();
    lines[1] = lines[1].iter().enumerate().map(|(place, field)| if place == at { value } else { field }).collect();
    let mut writer = csv::Writer::from_path(path).unwrap();
    for line in lines {
        writer.write_record(&line).unwrap();
    }
}

/// The rows of a `records.csv`, each a map from column to value.
pub fn rows(path: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let Ok(mut reader) = csv::Reader::from_path(path) else { return vec![] };
    reader.deserialize().flatten().collect()
}
