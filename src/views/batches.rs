//! The table of largest batches.

use remat_core::format::MemoryUnit;

use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::harness::baseline::overhead_percent;
use crate::harness::records::batches::BatchRow;
use crate::harness::records::select::rank;
use crate::views::aggregate::captioned;
use crate::views::published::Published;

/// The text of the table.
pub fn render(rows: &[BatchRow], published: &Published, format: Format) -> String {
    captioned(&grid(rows, published, format != Format::Text), &caption(rows, published), format)
}

/// The table; names of networks in every row, or where they change.
pub fn grid(rows: &[BatchRow], published: &Published, every: bool) -> Grid {
    let header =
        ["network", "claim", "method", "largest batch", "none from", "overhead %", "peak", "probes", "published"];
    let several = one_question(rows).is_none();
    let seeds = rows.iter().any(|row| row.seed != rows[0].seed);
    let header = header.into_iter().chain(several.then_some("within")).chain(seeds.then_some("seed"));
    let mut grid = Grid::new(header).numeric_from(3);
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
        let times = row.simulated_time.zip(row.store_all_time);
        let overhead = times.and_then(|(time, reference)| overhead_percent(time, reference));
        let least = if row.stopped_at_most() { ">= " } else { "" };
        let cells = [
            if first { row.network.clone() } else { String::new() },
            row.claim.to_string(),
            row.label.clone(),
            match row.largest {
                None if row.note.starts_with("skipped") => "skipped".into(),
                None if row.is_error() => "error".into(),
                largest => least.to_owned() + &number(largest),
            },
            number(row.refuted),
            overhead.map_or("-".into(), |overhead| format!("{overhead:.1}")),
            row.simulated_peak.map_or("-".into(), |bytes| format::bytes(bytes, MemoryUnit::Bytes)),
            row.probes.to_string(),
            published.value("batch", &row.network, &row.method).to_owned(),
        ];
        let seed = seeds.then(|| row.seed.to_string());
        grid.row(cells.into_iter().chain(several.then(|| limits(row))).chain(seed));
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

/// `16 GB, 1 forward pass`.
fn limits(row: &BatchRow) -> String {
    let many = if row.extra_forwards > 1.0 { "es" } else { "" };
    format!("{}, {} forward pass{many}", decimal(row.memory), row.extra_forwards)
}

/// The memory and the forward passes that all rows were asked for.
fn one_question(rows: &[BatchRow]) -> Option<String> {
    let first = limits(rows.first()?);
    rows.iter().all(|row| limits(row) == first).then_some(first)
}

/// What the table shows.
pub fn caption(rows: &[BatchRow], published: &Published) -> String {
    let limits = one_question(rows).unwrap_or_else(|| "a memory, and forward passes, as in the column within".into());
    let question = format!(
        "Largest batch within {limits}: an iteration takes at most store-all's time and so many forward passes more. \
         A larger one was not tried where it says >=. "
    );
    let sources = published.sources("batch").join("; ");
    let source = if sources.is_empty() { String::new() } else { format!(" published: {sources}.") };
    format!(
        "{question}Found by bisection, as if a method that manages a batch managed every smaller one. \
         none from: the least batch that is refuted: no schedule of the method's class will do, or the only one that it makes does not.{source}"
    )
}

#[cfg(test)]
mod tests {
    use remat_formulations::{Claim, Class};

    use super::*;

    #[test]
    fn the_largest_that_was_tried_is_no_largest_batch_and_questions_are_told_apart() {
        let row = |memory: u64, most: u64| BatchRow {
            network: "net".into(),
            instances: "net-b1 net-b2".into(),
            instance_hashes: String::new(),
            instance_hash: String::new(),
            method: "store-all".into(),
            label: "store-all".into(),
            settings: String::new(),
            most,
            claim: Claim::baseline(Class::ALL),
            memory,
            extra_forwards: 1.0,
            largest: Some(4),
            refuted: None,
            probes: 3,
            store_all_time: None,
            allowed_time: None,
            simulated_time: None,
            simulated_peak: None,
            cpu_seconds: 0.0,
            time_limit_seconds: None,
            threads: 1,
            seed: 0,
            note: String::new(),
            version: String::new(),
            git_revision: String::new(),
            host: String::new(),
            timestamp: String::new(),
        };
        let rows = [row(16_000_000_000, 4), row(8_000_000_000, 65_536)];
        let csv = |rows: &[BatchRow]| render(rows, &Published::default(), Format::Csv);
        assert!(csv(&rows).contains(",>= 4,") && csv(&rows).contains("\"8 GB, 1 forward pass\""), "{}", csv(&rows));
        assert!(!csv(&rows[1..]).contains("within"), "{}", csv(&rows[1..]));
        assert!(caption(&rows[1..], &Published::default()).starts_with("Largest batch within 8 GB, 1 forward pass:"));
    }
}
