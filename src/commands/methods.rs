//! `bench methods`: what there is, what each claims, and where it comes from.

use std::path::PathBuf;

use clap::Args;
use remat_formulations::{BudgetUse, Claim, METHODS, Method};
use serde::Serialize;

use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::grid::Grid;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::views::method_pages;

/// Arguments of `bench methods`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bench methods\n  bench methods --format json\n  bench methods --pages docs/methods"
)]
pub struct Arguments {
    /// Write a page for each method, from its doc comment, into this folder instead (inside a checkout)
    #[arg(long, value_name = "DIR", conflicts_with = "format")]
    pages: Option<PathBuf>,
    /// Format of the list
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A method as an object.
#[derive(Debug, Serialize)]
struct Row {
    id: &'static str,
    title: &'static str,
    claim: Claim,
    budgets: &'static str,
    parameters: Vec<ParameterRow>,
    reference: &'static str,
}

#[derive(Debug, Serialize)]
struct ParameterRow {
    name: &'static str,
    default: &'static str,
    expected: String,
    help: &'static str,
}

/// Prints the methods, or writes their pages.
///
/// # Errors
/// Standard output or the folder cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(folder) = &arguments.pages {
        let written = method_pages::write(&Library::locate(), folder)?;
        output::info(&format!("{} in {}", count(written, "page"), folder.display()));
        return Ok(());
    }
    let rows: Vec<_> = METHODS.iter().map(|method| row(*method)).collect();
    let text = match arguments.format {
        Format::Json => serde_json::to_string_pretty(&rows).map_err(Failure::failed)?,
        Format::Text => rows.iter().map(text).collect::<Vec<_>>().join("\n"),
        format => grid(&rows).render(format),
    };
    output::result(&text)
}

fn row(method: &dyn Method) -> Row {
    let about = method.about();
    let parameter = |spec: &remat_formulations::ParameterSpec| ParameterRow {
        name: spec.name,
        default: spec.default,
        expected: spec.kind.to_string(),
        help: spec.help,
    };
    Row {
        id: method.id(),
        title: about.title,
        claim: method.usual_claim(),
        budgets: if about.budgets == BudgetUse::Used { "used" } else { "ignored" },
        parameters: about.parameters.iter().map(parameter).collect(),
        reference: about.reference,
    }
}

fn text(row: &Row) -> String {
    let mut text = vec![format!("{}: {}\n", row.id, row.title)];
    text.push(format!("  claim      {}\n", row.claim));
    text.push(format!("  budgets    {}\n", row.budgets));
    for parameter in &row.parameters {
        let ParameterRow { name, default, expected, help } = parameter;
        text.push(format!("  parameter  {name}={default}: {help} ({expected})\n"));
    }
    text.push(format!("  reference  {}\n", row.reference));
    text.concat()
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(["method", "claim", "budgets", "parameters", "reference"]);
    for row in rows {
        let parameters: Vec<_> = row.parameters.iter().map(|p| format!("{}={}", p.name, p.default)).collect();
        grid.row([row.id, &row.claim.to_string(), row.budgets, &parameters.join(", "), row.reference]);
    }
    grid
}
