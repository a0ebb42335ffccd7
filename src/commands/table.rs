//! `bench table`: the summary table of recorded results.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::harness::records::{self, COLUMNS};
use crate::harness::replay;
use crate::harness::suite;
use crate::views::list::{self, Material, VIEWS};

/// Arguments of `bench table`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bench table results/resnet\n  bench table results/resnet --format latex > table.tex\n  bench table results/paper-checkmate --show ratios --format csv\n  bench table --columns"
)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv", required_unless_present = "columns")]
    results: Option<PathBuf>,
    /// Format of the table
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Show one view instead of all that the suite has; formats for machines show one at a time
    #[arg(long, value_name = "VIEW", value_parser = views())]
    show: Option<String>,
    /// Explain the columns of records.csv and executed.csv instead
    #[arg(long)]
    columns: bool,
}

/// The names of the views, with what they show.
fn views() -> PossibleValuesParser {
    VIEWS.iter().map(|view| PossibleValue::new(view.name).help(view.help)).collect::<Vec<_>>().into()
}

/// Prints the table.
///
/// # Errors
/// There are no such results.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.results {
        Some(results) if !arguments.columns => {
            let rows = records::read(results)?;
            let suite = suite::kept_in(results);
            let (library, folder) = (Library::locate(), records::folder_of(results));
            let material = Material::new(&library, &rows, &folder, suite.as_ref());
            let text = match arguments.show.as_deref().and_then(list::find) {
                None => material.all(arguments.format),
                Some(view) => material.one(view, arguments.format),
            };
            output::result(&text?)
        }
        _ => {
            let lines = |columns: &[(&str, &str)], width: usize| {
                let lines: Vec<_> = columns.iter().map(|(name, text)| format!("{name:<width$}{text}")).collect();
                lines.join("\n")
            };
            output::result(&format!(
                "{}\n\nexecuted.csv, where schedules were executed:\n{}",
                lines(COLUMNS, 22),
                lines(replay::COLUMNS, 29)
            ))
        }
    }
}
