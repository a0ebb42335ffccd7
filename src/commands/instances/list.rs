//! `bench instances list`.

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::format::{self, Format};
use crate::ground::grid::Grid;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::index::{Index, complaint};

/// Arguments of `bench instances list`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// List only what matches, e.g. 'resnet/*'
    pattern: Option<String>,
    /// Format of the list
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Lists the instances.
///
/// # Errors
/// The folder cannot be read, or the pattern matches nothing. A broken instance is listed as such.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let entries = match &arguments.pattern {
        Some(pattern) => library.matching(std::slice::from_ref(pattern))?,
        None => library.entries()?,
    };
    if entries.is_empty() {
        return Err(Failure::input("there is no folder instances/ here; run inside a checkout"));
    }
    let index = Index::read(&library)?;
    let (lines, stale) = index.look_up(&entries)?;
    let stale = stale + if arguments.pattern.is_none() { index.gone(&entries) } else { 0 };
    if stale > 0 {
        output::info(&complaint(&library, stale));
    }
    let mut grid =
        Grid::new(["name", "operators", "tensors", "batch", "store-all time", "store-all peak"]).numeric_from(1);
    for (entry, line) in entries.iter().zip(lines) {
        match line {
            Some(line) => grid.row([
                entry.key.clone(),
                line.operators.to_string(),
                line.tensors.to_string(),
                line.batch_size.map_or(String::new(), |batch| batch.to_string()),
                line.store_all_time.map_or("illegal".into(), |time| format::time(time, line.time_unit)),
                line.store_all_peak.map_or("illegal".into(), |bytes| format::bytes(bytes, line.memory_unit)),
            ]),
            None => grid.row([entry.key.as_str(), "broken: see `bench instances validate`", "", "", "", ""]),
        }
    }
    output::result(&grid.render(arguments.format))
}
