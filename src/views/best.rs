//! The table of best-known values.

use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::harness::best::Entry;

/// The table.
pub fn render(entries: &[Entry], format: Format) -> String {
    let mut grid =
        Grid::new(&["instance", "class", "budget", "time", "bound", "gap %", "status", "found by", "bound by"]);
    for entry in entries {
        let time = |value: Option<u64>| value.map_or("-".into(), |value| format::time(value, entry.time_unit));
        grid.row([
            entry.instance.clone(),
            entry.class.to_string(),
            format::bytes(entry.budget_size, entry.memory_unit),
            time(entry.time),
            time(entry.bound),
            entry.gap().map_or("-".into(), |gap| format!("{gap:.2}")),
            entry.status.label().into(),
            entry.found_by.clone(),
            entry.bound_by.clone(),
        ]);
    }
    grid.render(format)
}
