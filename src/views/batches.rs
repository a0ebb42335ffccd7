//! The table of largest batches.

use remat_core::format::MemoryUnit;

use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::ground::output;
use crate::ground::text::wrap;
use crate::harness::records::batches::BatchRow;
use crate::harness::records::select::rank;
use crate::views::published::Published;

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
         none from: the least batch that is refuted: no schedule of the method's class will do, or the only one that it makes does not.{source}"
    )
}
