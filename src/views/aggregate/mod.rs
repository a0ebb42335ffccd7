//! Aggregates over all cases of some results: means with their shift stated, penalties, counts of every
//! status, the virtual best, performance profiles, and quality over planning time.
//!
//! `measures.rs` has the formulas, `arena.rs` pairs methods and cases, the others are the tables.

pub mod arena;
mod claims;
pub mod digest;
pub mod findings;
pub mod measures;
pub mod overview;
pub mod planning;

pub use arena::Arena;

use std::path::Path;

use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::grid::Grid;
use crate::ground::output;
use crate::ground::text::wrap;
use crate::harness::records::Record;
use crate::harness::replay::Execution;
use crate::views::trajectory;

/// A table and what the reader must know to read it.
pub struct Table {
    /// A few words.
    pub title: &'static str,
    /// What the columns are.
    pub caption: String,
    /// Rows grouped by the class of the methods' claims.
    pub grid: Grid,
}

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Means over all cases.
    Summary,
    /// Counts per status.
    Statuses,
    /// The fastest schedule of each case, and whose.
    VirtualBest,
    /// Performance profiles at round ratios.
    Profile,
    /// Quality after planning for so long.
    Quality,
    /// Planning time to a gap.
    Gaps,
    /// Claimed, simulated and, where there is any, executed time and peak.
    Claims,
}

/// All of them, in the order of reports.
pub const ALL: [Aggregate; 7] = [
    Aggregate::Summary,
    Aggregate::Statuses,
    Aggregate::VirtualBest,
    Aggregate::Profile,
    Aggregate::Quality,
    Aggregate::Gaps,
    Aggregate::Claims,
];

/// The arena of some rows, with the traces in their folder.
///
/// # Errors
/// A trace cannot be read.
pub fn arena(records: &[Record], folder: &Path) -> Result<Arena, Failure> {
    Ok(Arena::new(records, &trajectory::read_all(records, folder)?))
}

impl Aggregate {
    /// Makes the table; executions of the rows' schedules may be there or not.
    pub fn table(self, arena: &Arena, records: &[Record], executed: &[Execution]) -> Table {
        match self {
            Self::Summary => overview::summary(arena),
            Self::Statuses => overview::statuses(records),
            Self::VirtualBest => overview::virtual_best(arena),
            Self::Profile => overview::profiles(arena),
            Self::Quality => planning::quality(arena),
            Self::Gaps => planning::gaps(arena),
            Self::Claims => claims::table(records, executed),
        }
    }
}

impl Table {
    /// The table and its caption in any format; the formats for machines have the grid alone.
    pub fn render(&self, format: Format) -> String {
        let grid = self.grid.render(format);
        let width = output::width();
        match format {
            Format::Text => format!("{}\n{}\n{}", self.title, self.grid.folded(width), wrap(&self.caption, width)),
            Format::Md => format!("{}\n\n{grid}", self.caption),
            Format::Latex => format!("% {}\n{grid}", self.caption),
            Format::Csv | Format::Json => grid,
        }
    }
}

/// A number with so many decimals, or a dash.
fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.decimals$}"))
}

/// Seconds with three digits, or a dash.
pub fn seconds(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value < 0.1 => format!("{value:.3}"),
        Some(value) => crate::ground::format::three_digits(value),
    }
}
