//! `max-batch.csv`: one row per network and method, and the table that is made of them.

use std::path::{Path, PathBuf};

use remat_core::format::MemoryUnit;
use remat_core::io::write_json_quickly;
use remat_core::schedule::ScheduleDocument;
use remat_formulations::Claim;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::format::{self, Format};
use crate::names::file_name;
use crate::output;
use crate::published::Published;
use crate::records::parts;
use crate::run::pool;
use crate::table::grid::Grid;
use crate::table::{rank, wrap};
use crate::text;

/// One search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchRow {
    /// Name of the first of the network's instances.
    #[serde(with = "text::csv")]
    pub network: String,
    /// The instances that show it at different batches, separated by spaces.
    #[serde(with = "text::csv")]
    pub instances: String,
    /// Hash of the network at the largest batch.
    pub instance_hash: String,
    /// Id of the method.
    pub method: String,
    /// The method with the parameters that the suite gives.
    #[serde(with = "text::csv")]
    pub label: String,
    /// Its claim.
    pub claim: Claim,
    /// Memory of the device.
    pub memory: u64,
    /// Forward passes allowed beyond store-all's time.
    pub extra_forwards: f64,
    /// Largest batch found.
    pub largest: Option<u64>,
    /// Least batch at which it is proved that no schedule of the method's class will do.
    pub refuted: Option<u64>,
    /// Batch sizes tried.
    pub probes: u64,
    /// Store-all's time at the largest batch.
    pub store_all_time: Option<u64>,
    /// The time allowed there.
    pub allowed_time: Option<u64>,
    /// The time of the schedule found there.
    pub simulated_time: Option<u64>,
    /// Its peak.
    pub simulated_peak: Option<u64>,
    /// CPU seconds of all runs.
    pub cpu_seconds: f64,
    /// Wall limit of each run.
    pub time_limit_seconds: Option<f64>,
    /// Threads of each run.
    pub threads: usize,
    /// Seed.
    pub seed: u64,
    /// What else to know.
    #[serde(with = "text::csv")]
    pub note: String,
    /// Version of bench.
    pub version: String,
    /// Revision of the checkout.
    pub git_revision: String,
    /// Host.
    #[serde(with = "text::csv")]
    pub host: String,
    /// End of the search.
    pub timestamp: String,
}

impl BatchRow {
    /// What the search was asked; two rows that were asked the same are one.
    pub fn question(&self) -> (&str, &str, u64, u64, u64, &str) {
        let Self { network, label, memory, extra_forwards, seed, version, .. } = self;
        (network, label, *memory, extra_forwards.to_bits(), *seed, version)
    }
}

/// The file in a folder of results.
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join("max-batch.csv")
}

/// The rows in a folder of results and in its parts, of those that answer the same question the last;
/// none where there is no such file.
///
/// # Errors
/// A file is none of ours.
pub fn read(folder: &Path) -> Result<Vec<BatchRow>, Failure> {
    let mut rows: Vec<BatchRow> = Vec::new();
    let parts = parts::folders(folder);
    for folder in std::iter::once(folder).chain(parts.iter().map(PathBuf::as_path)) {
        for row in of_file(&path_in(folder))? {
            match rows.iter_mut().find(|other| other.question() == row.question()) {
                Some(other) => *other = row,
                None => rows.push(row),
            }
        }
    }
    Ok(rows)
}

fn of_file(path: &Path) -> Result<Vec<BatchRow>, Failure> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let wrong = |error: csv::Error| Failure::input(format!("{}: {error}; remove the file", path.display()));
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    reader.deserialize().collect::<Result<_, _>>().map_err(wrong)
}

/// Writes all rows, beside and then over the old file.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, rows: &[BatchRow]) -> Result<(), Failure> {
    output::write_csv(&path_in(folder), rows)
}

/// The schedule of a row's largest batch: `schedules/max-batch/<network>/<method>@<memory>+forwards<n>+seed<seed>.json.zst`
/// (no seed 0).
pub fn schedule_path(results: &Path, row: &BatchRow) -> PathBuf {
    let seed = if row.seed == 0 { String::new() } else { format!("+seed{}", row.seed) };
    let name = file_name(&format!("{}@{}+forwards{}{seed}", row.label, row.memory, row.extra_forwards));
    results.join("schedules/max-batch").join(file_name(&row.network)).join(format!("{name}.json.zst"))
}

/// Keeps the schedule of a row.
///
/// # Errors
/// It cannot be written.
pub fn write_schedule(results: &Path, row: &BatchRow, schedule: &ScheduleDocument) -> Result<(), Failure> {
    let path = schedule_path(results, row);
    pool::write(&path, |path| write_json_quickly(path, schedule).map_err(|error| error.to_string()))
        .map_err(Failure::failed)
}

/// The text of the table.
pub fn render(rows: &[BatchRow], published: &Published, format: Format) -> String {
    let grid = grid(rows, published, format != Format::Text);
    let caption = caption(rows, published);
    match format {
        Format::Text => format!("{}\n{}", grid.folded(output::width()), wrap(&caption, output::width())),
        Format::Md => format!("{caption}\n\n{}", grid.render(format)),
        Format::Latex => format!("% {caption}\n{}", grid.render(format)),
        Format::Csv | Format::Json => grid.render(format),
    }
}

/// The table; names of networks in every row, or where they change.
pub fn grid(rows: &[BatchRow], published: &Published, every: bool) -> Grid {
    let header =
        ["network", "claim", "method", "largest batch", "none from", "overhead %", "peak", "probes", "published"];
    let mut grid = Grid::new(&header).numeric_from(3);
    let mut previous = "";
    // A resumed suite appends: networks in order of first appearance, methods as in the registry.
    let first_of = |row: &BatchRow| rows.iter().position(|other| other.network == row.network);
    let mut sorted: Vec<&BatchRow> = rows.iter().collect();
    sorted.sort_by_key(|row| (first_of(row), row.claim, rank(&row.method)));
    for row in sorted {
        if previous != row.network {
            grid.rule();
        }
        let first = every || previous != row.network;
        previous = &row.network;
        let number = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
        let overhead = row.simulated_time.zip(row.store_all_time).filter(|(_, reference)| *reference > 0);
        let overhead = overhead.map(|(time, reference)| 100.0 * (time as f64 / reference as f64 - 1.0));
        grid.row([
            if first { row.network.clone() } else { String::new() },
            row.claim.to_string(),
            row.label.clone(),
            if row.note.starts_with("skipped") { "skipped".into() } else { number(row.largest) },
            number(row.refuted),
            overhead.map_or("-".into(), |overhead| format!("{overhead:.1}")),
            row.simulated_peak.map_or("-".into(), |bytes| format::bytes(bytes, MemoryUnit::Bytes)),
            row.probes.to_string(),
            published.value("batch", &row.network, &row.method).to_owned(),
        ]);
    }
    grid
}

/// `16 GB` where it is a round number of these, as devices are sold.
fn decimal(bytes: u64) -> String {
    const GB: u64 = 1_000_000_000;
    if bytes > 0 && bytes.is_multiple_of(GB) {
        format!("{} GB", bytes / GB)
    } else {
        format::bytes(bytes, MemoryUnit::Bytes)
    }
}

/// What the table shows.
pub fn caption(rows: &[BatchRow], published: &Published) -> String {
    let question = rows.first().map_or(String::new(), |row| {
        format!(
            "Largest batch within {} whose iteration takes at most store-all's time and {} forward pass{} more. ",
            decimal(row.memory),
            row.extra_forwards,
            if row.extra_forwards > 1.0 { "es" } else { "" },
        )
    });
    let sources = published.sources("batch").join("; ");
    let source = if sources.is_empty() { String::new() } else { format!(" published: {sources}.") };
    format!(
        "{question}Found by bisection, as if a method that manages a batch managed every smaller one. \
         none from: the least batch at which it is proved that no schedule of the method's class will do.{source}"
    )
}
