//! A small checkout in a temporary folder, and ways to run `bench` in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

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

/// Rows of the first instance that a run of [`SUITE`] writes before it comes to `rotor-persistent`.
const ROWS_BEFORE_ROTOR: usize = 5;

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

    /// Runs a command in which a method misbehaves.
    pub fn with_fault(&self, fault: &str, arguments: &str) -> Done {
        self.command(arguments).env("BENCH_TEST_FAULT", fault).output().unwrap().into()
    }

    /// Starts a run in which `rotor-persistent` never returns, and waits until it has begun to.
    pub fn start_hanging(&self, arguments: &str, records: &str) -> Hanging {
        let mut command = self.command(arguments);
        let child =
            command.env("BENCH_TEST_FAULT", "rotor-persistent:hang").stdout(Stdio::piped()).stderr(Stdio::piped());
        let hanging = Hanging { child: child.spawn().unwrap() };
        // store-all and the sweep of sequential come first.
        let settled = || rows(&self.path(records)).len() == ROWS_BEFORE_ROTOR && hanging.worker().is_some();
        wait_until("the method hangs", settled);
        hanging
    }
}

/// A run whose worker hangs.
pub struct Hanging {
    pub child: Child,
}

impl Hanging {
    /// Process id of the worker.
    pub fn worker(&self) -> Option<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let children = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        children.collect::<String>().split_whitespace().next()?.parse().ok()
    }
}

/// Whether a process is gone, or a zombie that nobody has buried.
pub fn is_gone(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

/// Waits for something that must happen, for two minutes.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The rows of a `records.csv`, each a map from column to value.
pub fn rows(path: &Path) -> Vec<std::collections::HashMap<String, String>> {
    let Ok(mut reader) = csv::Reader::from_path(path) else { return vec![] };
    reader.deserialize().flatten().collect()
}
