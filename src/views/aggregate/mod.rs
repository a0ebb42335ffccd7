//! Aggregates over all cases of some results: means with their shift stated, penalties, counts of every
//! status, the virtual best, performance profiles, and quality over planning time.
//!
//! `measures.rs` has the formulas, `arena.rs` pairs methods and cases, the others are the tables.

pub mod arena;
pub mod claims;
pub mod digest;
pub mod findings;
pub mod measures;
pub mod overview;
pub mod planning;

pub use arena::Arena;

use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::ground::output;
use crate::ground::text::wrap;

/// A table and what the reader must know to read it.
pub struct Table {
    /// A few words.
    pub title: &'static str,
    /// What the columns are.
    pub caption: String,
    /// Rows grouped by the class of the methods' claims.
    pub grid: Grid,
}

impl Table {
    /// The table and its caption in any format; the formats for machines have the grid alone.
    pub fn render(&self, format: Format) -> String {
        let title = if format == Format::Text { format!("{}\n", self.title) } else { String::new() };
        title + &captioned(&self.grid, &self.caption, format)
    }
}

/// A grid and its caption in any format; the formats for machines have the grid alone.
pub fn captioned(grid: &Grid, caption: &str, format: Format) -> String {
    match format {
        Format::Text => format!("{}\n{}", grid.folded(output::width()), wrap(caption, output::width())),
        Format::Md => format!("{caption}\n\n{}", grid.render(format)),
        Format::Latex => format!("% {caption}\n{}", grid.render(format)),
        Format::Csv | Format::Json => grid.render(format),
    }
}

/// A number with so many decimals, or a dash.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |value| format::decimals(value, decimals))
}

/// Seconds with three digits, or a dash.
pub fn seconds(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value < 0.1 => format!("{value:.3}"),
        Some(value) => format::three_digits(value),
    }
}
