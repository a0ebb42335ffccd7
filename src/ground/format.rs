//! Numbers as people read them. Abstract units print bare numbers: no ms, no MB.

use remat_core::format::{MemoryUnit, TimeUnit};
use serde::Serialize;

use crate::ground::failure::Failure;

/// Formats in which tables and lists are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An aligned table for a terminal.
    #[default]
    Text,
    /// A Markdown table.
    Md,
    /// Comma-separated values.
    Csv,
    /// An array of objects.
    Json,
    /// A LaTeX table (package booktabs).
    Latex,
}

/// Formats of commands that report on one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One object.
    Json,
}

impl ReportFormat {
    /// The object, or its lines for people.
    ///
    /// # Errors
    /// The object cannot be written.
    pub fn render<T: Serialize>(self, object: &T, lines: impl FnOnce(&T) -> String) -> Result<String, Failure> {
        match self {
            Self::Json => serde_json::to_string_pretty(object).map_err(Failure::failed),
            Self::Text => Ok(lines(object)),
        }
    }
}

/// `3.21 GiB`, or the bare number.
pub fn bytes(bytes: u64, unit: MemoryUnit) -> String {
    if unit == MemoryUnit::Abstract {
        return bytes.to_string();
    }
    let scales = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match scales.iter().find(|(_, scale)| bytes >= *scale) {
        Some((name, scale)) => format!("{} {name}", three_digits(bytes as f64 / *scale as f64)),
        None => format!("{bytes} B"),
    }
}

/// `37.4 ms`, or the bare number.
pub fn time(time: u64, unit: TimeUnit) -> String {
    if unit == TimeUnit::Abstract {
        return time.to_string();
    }
    let scales = [("s", 1_000_000_000u64), ("ms", 1_000_000), ("µs", 1_000)];
    match scales.iter().find(|(_, scale)| time >= *scale) {
        Some((name, scale)) => format!("{} {name}", three_digits(time as f64 / *scale as f64)),
        None => format!("{time} ns"),
    }
}

/// At least three significant digits, no more than two decimals.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// So many decimals, and never a zero below zero.
pub fn decimals(value: f64, decimals: usize) -> String {
    let shown = format!("{value:.decimals$}");
    if shown.bytes().all(|byte| b"-0.".contains(&byte)) { shown.trim_start_matches('-').into() } else { shown }
}

/// A number as short as it can be, as ticks of an axis are.
pub fn tick(value: f64) -> String {
    let decimals = if value != 0.0 && value.abs() < 0.01 { 6 } else { 3 };
    let text = format!("{value:.decimals$}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0" } else { short }.to_owned()
}

/// Per cent with two decimals; what is more than nothing is not shown as nothing.
pub fn percent(value: f64) -> String {
    let shown = decimals(value, 2);
    if value > 0.0 && shown == "0.00" { "<0.01".into() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_not_nothing_and_no_zero_is_below_zero() {
        assert_eq!([0.0, 0.004, 0.006, -0.004, -0.006].map(percent), ["0.00", "<0.01", "0.01", "0.00", "-0.01"]);
        assert_eq!([-0.04, -0.06, 10.04].map(|value| decimals(value, 1)), ["0.0", "-0.1", "10.0"]);
    }

    #[test]
    fn three_digits_are_shown_whatever_the_scale() {
        let shown = [0, 1023, 1024, 3 << 29, 1 << 40].map(|b| bytes(b, MemoryUnit::Bytes));
        assert_eq!(shown, ["0 B", "1023 B", "1.00 KiB", "1.50 GiB", "1024 GiB"]);
        let shown = [7, 37_400_000, 2_000_000_000].map(|t| time(t, TimeUnit::Ns));
        assert_eq!(shown, ["7 ns", "37.4 ms", "2.00 s"]);
    }

    #[test]
    fn abstract_units_print_bare_numbers() {
        assert_eq!(bytes(1 << 30, MemoryUnit::Abstract), "1073741824");
        assert_eq!(time(1_000_000, TimeUnit::Abstract), "1000000");
    }
}
