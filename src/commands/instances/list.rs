//! `bench instances list`.

use clap::Args;
use remat_core::io::read_instance;

use crate::baseline::Baseline;
use crate::failure::Failure;
use crate::format::{self, Format};
use crate::library::Library;
use crate::output;
use crate::table::grid::Grid;

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
    let mut grid =
        Grid::new(&["name", "operators", "tensors", "batch", "store-all time", "store-all peak"]).numeric_from(1);
    for entry in &entries {
        match read_instance(&entry.path) {
            Ok(instance) => {
                let units = instance.units();
                let baseline = Baseline::new(&instance).ok();
                grid.row([
                    entry.key.clone(),
                    instance.operators().len().to_string(),
                    instance.tensors().len().to_string(),
                    instance.provenance().batch_size.map_or(String::new(), |batch| batch.to_string()),
                    baseline.map_or("illegal".into(), |b| format::time(b.time, units.time)),
                    baseline.map_or("illegal".into(), |b| format::bytes(b.peak_bytes, units.memory)),
                ]);
            }
            Err(_) => grid.row([entry.key.as_str(), "broken: see `bench instances validate`", "", "", "", ""]),
        }
    }
    output::result(&grid.render(arguments.format))
}
