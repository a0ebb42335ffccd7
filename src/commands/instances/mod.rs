//! `bench instances`: what there is, what is in it, and how more is made.

mod generate;
mod import;
mod import_dtr;
mod import_monet;
mod index;
mod list;
mod schema;
mod show;
mod validate;

use clap::Subcommand;

use crate::ground::failure::Failure;

/// The subcommands of `bench instances`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the instances under instances/
    List(list::Arguments),
    /// Show an instance: provenance, counts, bytes, store-all, and its chain view
    Show(show::Arguments),
    /// Check instance files against every rule of the format
    Validate(validate::Arguments),
    /// Write or check the index of the instances, from which `list` answers
    Index(index::Arguments),
    /// Turn a chain file (fweight, bweight, cweight, cbweight, ftmp, btmp), or a graph in node-link form, into an instance
    Import(import::Arguments),
    /// Turn a profile of MONeT's authors into an instance
    ImportMonet(import_monet::Arguments),
    /// Turn a log of DTR's authors into an instance
    ImportDtr(import_dtr::Arguments),
    /// Generate an instance
    Generate(generate::Arguments),
    /// Print the JSON Schema of instance or schedule files
    Schema(schema::Arguments),
}

/// Runs one of them.
///
/// # Errors
/// As each of them says.
pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Validate(arguments) => validate::run(arguments),
        Command::Index(arguments) => index::run(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::ImportMonet(arguments) => import_monet::run(arguments),
        Command::ImportDtr(arguments) => import_dtr::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
    }
}
