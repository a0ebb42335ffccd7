//! `records.csv`: one row per instance, method, parameters and budget, flushed to the disk one by one.
//!
//! A row is a line (texts hold no line breaks), so a writer that was killed leaves at most one torn
//! last line, which the next one drops. A lock file keeps a second writer out; workers on several
//! machines share it and write [`parts`]. This file must not know how rows come about.

pub mod batches;
mod columns;
pub mod manifest;
pub mod parts;
pub mod paths;
pub mod select;
mod writer;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use remat_core::format::{MemoryUnit, TimeUnit};
use remat_formulations::method::claim::Time;
use remat_formulations::{Claim, Class, Termination};
use serde::{Deserialize, Serialize};

use crate::ground::failure::Failure;
use crate::ground::output;
use crate::ground::text;
use manifest::InstanceEntry;

pub use columns::{COLUMNS, SCHEMA_VERSION};
pub use writer::{Existing, Writer, is_writing};

/// How a row ended: a method's termination, or that the method does not support the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ending {
    /// The method ran.
    Ran(Termination),
    /// It was not run.
    Skipped(Skipped),
}

impl Ending {
    /// Whether a limit stopped the method, with a schedule or without.
    pub fn is_limit(self) -> bool {
        use Termination::{CpuLimit, MemoryLimit, NodeLimit, TimeLimit};
        matches!(self, Self::Ran(TimeLimit | CpuLimit | MemoryLimit | NodeLimit))
    }
}

/// The method does not support the instance; the column `note` says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// The only value.
    Skipped,
}

/// One row. [`COLUMNS`] documents the fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub schema_version: u32,
    #[serde(with = "text::csv")]
    pub suite: String,
    #[serde(with = "text::csv")]
    pub instance: String,
    pub instance_hash: String,
    pub batch_size: Option<u64>,
    pub times: String,
    pub time_unit: TimeUnit,
    pub memory_unit: MemoryUnit,
    pub store_all_time: u64,
    pub store_all_peak: u64,
    pub method: String,
    #[serde(with = "text::csv")]
    pub parameters: String,
    pub claim: Claim,
    pub schedule_class: Option<Class>,
    pub budget_size: Option<u64>,
    #[serde(with = "text::csv")]
    pub budget: String,
    pub termination: Ending,
    pub claimed_time: Option<u64>,
    pub claimed_peak: Option<u64>,
    pub simulated_time: Option<u64>,
    pub simulated_peak: Option<u64>,
    pub overhead: Option<f64>,
    pub overhead_default: Option<f64>,
    pub lower_bound: Option<u64>,
    pub recomputations: Option<u64>,
    pub build_seconds: Option<f64>,
    pub solve_seconds: Option<f64>,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    pub peak_rss_bytes: u64,
    pub threads: usize,
    pub time_limit_seconds: Option<f64>,
    pub cpu_limit_seconds: Option<f64>,
    pub memory_limit_bytes: Option<u64>,
    pub seed: u64,
    #[serde(with = "text::csv")]
    pub note: String,
    #[serde(with = "text::csv")]
    pub error: String,
    pub cached: bool,
    #[serde(with = "text::csv")]
    pub version: String,
    pub sources: String,
    #[serde(with = "text::csv")]
    pub git_revision: String,
    #[serde(with = "text::csv")]
    pub host: String,
    pub timestamp: String,
}

/// What identifies a row: a resumed run repeats none of those that are there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Hash of the instance.
    pub instance_hash: String,
    /// Id of the method.
    pub method: String,
    /// Every parameter.
    pub parameters: String,
    /// Budget.
    pub budget_size: Option<u64>,
    /// Budget as written; on tiny instances two of them may come to the same bytes.
    pub budget: String,
    /// Seed.
    pub seed: u64,
    /// Version of bench.
    pub version: String,
}

impl Key {
    /// A short text that tells it from all others.
    pub fn digest(&self) -> String {
        let Self { instance_hash, method, parameters, budget_size, budget, seed, version } = self;
        let text = format!("{:?}", (instance_hash, method, parameters, budget_size, budget, seed, version));
        blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
    }
}

impl Record {
    /// The row's identity.
    pub fn key(&self) -> Key {
        Key {
            instance_hash: self.instance_hash.clone(),
            method: self.method.clone(),
            parameters: self.parameters.clone(),
            budget_size: self.budget_size,
            budget: self.budget.clone(),
            seed: self.seed,
            version: self.version.clone(),
        }
    }

    /// Whether the run failed, rather than came to an answer or to a limit: what tables count as errors, what
    /// makes `bench run` end with exit code 1, and what `--retry-errors` runs again.
    pub fn is_error(&self) -> bool {
        self.termination == Ending::Ran(Termination::Error)
    }

    /// The bound that the row proves on the time of every schedule in its claim's class. Other ways to count time are no
    /// bounds on what the simulator says.
    pub fn proved_bound(&self) -> Option<u64> {
        let optimal = self.termination == Ending::Ran(Termination::Optimal);
        let bound = self.lower_bound.or(self.simulated_time.filter(|_| optimal));
        bound.filter(|_| self.claim.proves() && self.claim.class.time == Time::Exact)
    }

    /// The first column whose number cannot be: no finite one, or a negative number of seconds.
    fn impossible(&self) -> Option<&'static str> {
        let seconds = [
            ("build_seconds", self.build_seconds),
            ("solve_seconds", self.solve_seconds),
            ("wall_seconds", Some(self.wall_seconds)),
            ("cpu_seconds", Some(self.cpu_seconds)),
            ("time_limit_seconds", self.time_limit_seconds),
            ("cpu_limit_seconds", self.cpu_limit_seconds),
        ];
        let parts = [("overhead", self.overhead), ("overhead_default", self.overhead_default)];
        let seconds =
            seconds.iter().find(|(_, value)| value.is_some_and(|value| !(0.0..f64::INFINITY).contains(&value)));
        let part = parts.iter().find(|(_, value)| value.is_some_and(|value| !value.is_finite()));
        seconds.or(part).map(|(column, _)| *column)
    }

    /// The limits that it was made under.
    pub fn limits(&self) -> String {
        limits(self.time_limit_seconds, self.cpu_limit_seconds, self.memory_limit_bytes)
    }

    /// Whether the row carries a checked schedule that meets the budget.
    pub fn is_solved(&self) -> bool {
        let refused = matches!(
            self.termination,
            Ending::Ran(Termination::Error | Termination::NotFound | Termination::BoundOnly | Termination::Infeasible)
                | Ending::Skipped(_)
        );
        self.simulated_time.is_some() && !refused
    }
}

/// Limits as the command line has them.
pub fn limits(time: Option<f64>, cpu: Option<f64>, memory: Option<u64>) -> String {
    let given = [
        time.map(|seconds| format!("--time-limit {seconds}")),
        cpu.map(|seconds| format!("--cpu-limit {seconds}")),
        memory.map(|bytes| format!("--memory-limit {bytes}")),
    ];
    let given: Vec<String> = given.into_iter().flatten().collect();
    if given.is_empty() { "no limits".into() } else { given.join(" ") }
}

/// One line of text: line breaks become spaces, for a row is a line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Kept {
    records: Vec<Record>,
    /// Bytes up to the end of the last complete row.
    length: u64,
}

/// What a spreadsheet or an editor has made of a file that a program continues to the byte.
fn edited(bytes: &[u8]) -> Option<&'static str> {
    let head = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("was saved as UTF-16"),
        [0xef, 0xbb, 0xbf, ..] => Some("was saved with a byte order mark"),
        _ if head.ends_with(b"\r") => Some("was saved with Windows line ends (CRLF)"),
        _ => None,
    }
}

/// The complete rows of a file, in order, and where the last one ends.
fn parse(path: &Path, bytes: &[u8]) -> Result<Kept, Failure> {
    let mut records = Vec::new();
    let mut length = 0;
    if let Some(edited) = edited(bytes) {
        return Err(Failure::input(format!("{}: {edited}; take the file as bench wrote it", path.display())));
    }
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n').enumerate().peekable();
    let header: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    while let Some((index, line)) = lines.next() {
        let complete = line.ends_with(b"\n");
        let last = lines.peek().is_none();
        if !complete {
            break;
        }
        if index == 0 {
            if line.strip_suffix(b"\n") != Some(header.join(",").as_bytes()) {
                return Err(other_columns(path, line, bytes.get(line.len()..).unwrap_or_default()));
            }
        } else {
            match row(line) {
                Ok(record) => records.push(record),
                // A line that was torn in the middle of a block may still end in a line break.
                Err(Wrong::Torn(_)) if last => break,
                Err(Wrong::Torn(words) | Wrong::Value(words)) => {
                    return Err(Failure::input(format!(
                        "{}: line {}: {}; mend or remove the line",
                        path.display(),
                        index + 1,
                        one_line(&words)
                    )));
                }
            }
        }
        length += line.len() as u64;
    }
    Ok(Kept { records, length })
}

/// Why a file is not read: rows of another version mean something else by the same names.
fn other_columns(path: &Path, header: &[u8], rows: &[u8]) -> Failure {
    let version = rows.split(|&byte| byte == b',').next().map(String::from_utf8_lossy);
    let version = version.and_then(|text| text.parse::<u32>().ok()).filter(|_| header.starts_with(b"schema_version,"));
    let path = path.display();
    Failure::input(match version {
        Some(SCHEMA_VERSION) => {
            format!("{path}: line 1: {}; take the file as bench wrote it", difference(&String::from_utf8_lossy(header)))
        }
        Some(version) => format!(
            "{path}: its columns are of version {version}, and this bench reads version {SCHEMA_VERSION}; run the suite \
             again (--force here, or --out elsewhere), or read it with the bench that wrote it"
        ),
        None => {
            format!("{path}: its columns are not those of this version of bench; name a file that `bench run` wrote")
        }
    })
}

/// In what a line of names differs from that of the columns.
fn difference(header: &str) -> String {
    let found: Vec<&str> = header.trim_end().split(',').collect();
    let missing = COLUMNS.iter().map(|(name, _)| *name).find(|name| !found.contains(name));
    let unknown = found.iter().find(|name| !COLUMNS.iter().any(|(column, _)| column == *name));
    match (missing, unknown) {
        (Some(missing), Some(unknown)) => format!("expected the column {missing}, found {unknown:?}"),
        (Some(missing), None) => format!("the column {missing} is missing"),
        (None, Some(unknown)) => format!("there is no column {unknown:?}"),
        (None, None) => "the columns are in another order, or twice".into(),
    }
}

/// Why a line is no row.
enum Wrong {
    /// It has not as many fields as a row.
    Torn(String),
    /// A field is not what its column holds.
    Value(String),
}

fn row(line: &[u8]) -> Result<Record, Wrong> {
    let torn = |error: csv::Error| Wrong::Torn(error.to_string());
    let mut fields = csv::StringRecord::new();
    csv::ReaderBuilder::new().has_headers(false).from_reader(line).read_record(&mut fields).map_err(torn)?;
    if fields.len() != COLUMNS.len() {
        return Err(Wrong::Torn(format!("expected {} fields, found {}", COLUMNS.len(), fields.len())));
    }
    let wrong = |at: usize, found: &str, holds: &str| {
        let (column, meaning) = COLUMNS[at];
        Wrong::Value(format!("{column} is {found:?}; the column holds {holds}{meaning}"))
    };
    let record: Record = fields.deserialize(None).map_err(|_| {
        let at = unreadable(&fields);
        wrong(at, &fields[at], "")
    })?;
    match record.impossible() {
        Some(column) => {
            let at = COLUMNS.iter().position(|(name, _)| *name == column).unwrap_or_default();
            Err(wrong(at, &fields[at], "finite numbers, and no negative seconds: "))
        }
        None => Ok(record),
    }
}

/// The first field that cannot be read: a row that ends before it is too short, and nothing else.
fn unreadable(fields: &csv::StringRecord) -> usize {
    let short = |length: &usize| {
        let part: csv::StringRecord = fields.iter().take(*length).collect();
        let read: Result<Record, csv::Error> = part.deserialize(None);
        read.is_err_and(|error| error.to_string().contains("invalid length"))
    };
    (1..fields.len()).take_while(short).last().unwrap_or_default()
}

/// The folder of results that an argument means: itself, or that of a `records.csv`.
pub fn folder_of(argument: &Path) -> PathBuf {
    if argument.is_dir() { argument.to_owned() } else { argument.parent().map(Path::to_owned).unwrap_or_default() }
}

/// The rows of a `records.csv`, or of a folder with those that workers put into its parts; a torn last
/// line is left out, and of rows with the same identity the last counts. Rows of an instance that has changed since are
/// left out, which is said. There may be none beside searches for batch sizes.
///
/// # Errors
/// The file cannot be read, is none of ours, or holds no row.
pub fn read(argument: &Path) -> Result<Vec<Record>, Failure> {
    let path = if argument.is_dir() { argument.join("records.csv") } else { argument.to_owned() };
    let parted = argument.is_dir() && !parts::folders(argument).is_empty();
    let records = if parted { read_any(argument)? } else { latest(of_file(&path)?) };
    let folder = folder_of(argument);
    let sessions = manifest::read(&folder);
    let of_runs = sessions.iter().flat_map(|session| &session.instances);
    let (all, records) = (records.len(), up_to_date(of_runs, records));
    if records.is_empty() && !batches::path_in(&folder).is_file() {
        return Err(Failure::input(format!(
            "{}: holds no row yet; continue its `bench run` with --resume",
            path.display()
        )));
    }
    if records.len() < all {
        let left_out = text::count(all - records.len(), "row");
        output::info(&format!("{}: {left_out} of instances as they were before are left out", path.display()));
    }
    Ok(records)
}

/// Those of some rows that are about an instance as the last run had it, or as the last row has it where it is in no run.
pub fn up_to_date<'a>(of_runs: impl IntoIterator<Item = &'a InstanceEntry>, records: Vec<Record>) -> Vec<Record> {
    let rows = records.iter().map(|record| (&record.instance, &record.instance_hash));
    let runs = of_runs.into_iter().map(|entry| (&entry.name, &entry.hash));
    let newest: HashMap<_, _> = rows.chain(runs).collect();
    let is_current: Vec<_> = records.iter().map(|record| newest[&record.instance] == &record.instance_hash).collect();
    records.into_iter().zip(is_current).filter_map(|(record, current)| current.then_some(record)).collect()
}

/// The rows of a folder and of its parts; none where there is none.
///
/// # Errors
/// A file cannot be read, or is none of ours.
pub fn read_any(folder: &Path) -> Result<Vec<Record>, Failure> {
    let path = folder.join("records.csv");
    let mut records = if path.exists() { of_file(&path)? } else { vec![] };
    let parts = parts::rows(folder)?;
    if !parts.is_empty() {
        records.extend(parts);
        records = in_order(folder, records);
    }
    Ok(latest(records))
}

/// Rows of workers, which finish in any order, by instance: the manifest lists them in the suite's order.
fn in_order(folder: &Path, mut records: Vec<Record>) -> Vec<Record> {
    let sessions = manifest::read(folder);
    let hashes: Vec<_> = sessions.iter().flat_map(|session| &session.instances).map(|entry| &entry.hash).collect();
    records.sort_by_cached_key(|record| hashes.iter().position(|hash| **hash == record.instance_hash));
    records
}

fn of_file(path: &Path) -> Result<Vec<Record>, Failure> {
    let remedy = "expected a folder of `bench run`, or its records.csv";
    let bytes = std::fs::read(path).map_err(|error| Failure::unreadable(path)(format!("{error}; {remedy}")))?;
    Ok(parse(path, &bytes)?.records)
}

/// Rows without those that later ones of the same identity replace, each at the place of the first.
pub fn latest(records: Vec<Record>) -> Vec<Record> {
    let mut positions: HashMap<Key, usize> = HashMap::new();
    let mut kept: Vec<Record> = Vec::with_capacity(records.len());
    for record in records {
        match positions.entry(record.key()) {
            Entry::Occupied(position) => kept[*position.get()] = record,
            Entry::Vacant(vacant) => {
                vacant.insert(kept.len());
                kept.push(record);
            }
        }
    }
    kept
}

/// How many rows ended in an error.
pub fn errors(records: &[Record]) -> usize {
    records.iter().filter(|record| record.is_error()).count()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub mod tests {
    use super::*;

    /// A row as tests need it.
    pub fn example(method: &str, budget: Option<(&str, u64)>) -> Record {
        Record {
            schema_version: SCHEMA_VERSION,
            suite: "s".into(),
            instance: "net".into(),
            instance_hash: "0123456789abcdef".into(),
            batch_size: Some(2),
            times: "modelled".into(),
            time_unit: TimeUnit::Ns,
            memory_unit: MemoryUnit::Bytes,
            store_all_time: 1_000_000,
            store_all_peak: 1 << 30,
            method: method.into(),
            parameters: String::new(),
            claim: Claim::baseline(Class::ALL),
            schedule_class: None,
            budget_size: budget.map(|(_, bytes)| bytes),
            budget: budget.map(|(text, _)| text.into()).unwrap_or_default(),
            termination: Ending::Ran(Termination::Feasible),
            claimed_time: Some(1_000_000),
            claimed_peak: Some(1 << 30),
            simulated_time: Some(1_000_000),
            simulated_peak: Some(1 << 30),
            overhead: Some(0.0),
            overhead_default: Some(0.0),
            lower_bound: None,
            recomputations: Some(0),
            build_seconds: Some(0.0),
            solve_seconds: Some(0.001),
            wall_seconds: 0.01,
            cpu_seconds: 0.01,
            peak_rss_bytes: 1 << 20,
            threads: 1,
            time_limit_seconds: None,
            cpu_limit_seconds: None,
            memory_limit_bytes: None,
            seed: 0,
            note: String::new(),
            error: String::new(),
            cached: false,
            version: "0".into(),
            sources: "s".into(),
            git_revision: String::new(),
            host: "a, \"b\"".into(),
            timestamp: "2026-11-21T10:09:08Z".into(),
        }
    }

    /// What reading says of a file of one good row, one that is changed, and a good one again.
    fn refused(change: impl Fn(&mut Record), replaced: (&str, &str)) -> String {
        let mut changed = example("m", None);
        change(&mut changed);
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in [example("a", None), changed, example("b", None)] {
            writer.serialize(row).unwrap();
        }
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap().replacen(replaced.0, replaced.1, 1);
        parse(Path::new("r.csv"), text.as_bytes()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_by_column_and_value() {
        for value in [f64::INFINITY, f64::NAN, -1.0] {
            let words = refused(|row| row.solve_seconds = Some(value), ("", ""));
            assert!(words.starts_with("r.csv: line 3: solve_seconds is \""), "{words}");
            let words = refused(|row| row.wall_seconds = value, ("", ""));
            assert!(words.contains("wall_seconds is"), "{words}");
        }
        let words = refused(|row| row.overhead = Some(f64::NAN), ("", ""));
        assert!(words.contains("line 3: overhead is \"NaN\"; the column holds finite numbers"), "{words}");
    }

    #[test]
    fn an_unreadable_field_and_a_missing_column_are_named() {
        let words = refused(|row| row.note = "x".into(), (",feasible,", ",finished,"));
        assert!(
            words.contains("line 2: termination is \"finished\"; the column holds optimal, gap_reached"),
            "{words}"
        );
        assert!(words.matches("line").count() == 2 && words.ends_with("mend or remove the line"), "{words}");
        let words = refused(|_| (), (",solve_seconds", ""));
        assert!(words.contains("line 1: the column solve_seconds is missing"), "{words}");
        let words = refused(|_| (), (",solve_seconds", ",seconds"));
        assert!(words.contains("expected the column solve_seconds, found \"seconds\""), "{words}");
    }

    #[test]
    fn rows_of_an_instance_as_it_was_before_are_left_out() {
        let of = |instance: &str, hash: &str| Record {
            instance: instance.into(),
            instance_hash: hash.into(),
            ..example("m", None)
        };
        let rows = vec![of("a", "1"), of("b", "2"), of("a", "3")];
        let hashes = |rows: Vec<Record>| rows.into_iter().map(|row| row.instance_hash).collect::<Vec<_>>();
        assert_eq!(hashes(up_to_date(&[], rows.clone())), ["2", "3"]);
        // The file is as it was at first again, and no row had to be made.
        let run = InstanceEntry { name: "a".into(), path: "a.json".into(), hash: "1".into() };
        assert_eq!(hashes(up_to_date(&[run], rows)), ["1", "2"]);
    }

    #[test]
    fn the_documented_columns_are_the_fields_in_order() {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(example("m", None)).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
        assert_eq!(text.lines().next().unwrap(), names.join(","));
    }
}
