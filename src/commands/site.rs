//! `bench site`: the library as pages for a browser.

use std::path::PathBuf;

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::views::site;

const AFTER_HELP: &str = "\
The pages are files: they open from a folder as from any web server, ask nobody for anything, and load a schedule only when it is \
shown. Methods' pages are those of docs/methods, papers' those of instances/reproduce and results/reproduce.

Examples:
  bench site results -o site
  bench site results -o site --programs 150";

/// Arguments of `bench site`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder of best-known.csv and its schedules
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// Folder for the pages
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Write a program for other solvers (MPS, compressed) of each network of up to so many operators: 150 are 13 MB in all
    #[arg(long, value_name = "OPERATORS", default_value_t = 0)]
    programs: usize,
}

/// Writes the site.
///
/// # Errors
/// Files are none of ours, an instance is gone, or the folder cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let place = |path: &PathBuf| std::fs::canonicalize(path).ok();
    if place(&arguments.output).is_some_and(|output| Some(output) == place(&arguments.results)) {
        let folder = arguments.output.display();
        return Err(Failure::input(format!("{folder}: holds the library; choose another folder for the pages")));
    }
    let written = site::write(&Library::locate(), &arguments.results, &arguments.output, arguments.programs)?;
    output::info(&format!("{} in {}", count(written, "page"), arguments.output.display()));
    Ok(())
}
