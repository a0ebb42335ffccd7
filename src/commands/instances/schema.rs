//! `bench instances schema`.

use clap::{Args, ValueEnum};
use remat_core::format::InstanceDocument;
use remat_core::schedule::ScheduleDocument;
use schemars::schema_for;

use crate::ground::failure::Failure;
use crate::ground::output;

/// Arguments of `bench instances schema`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bench instances schema instance > instances/instance.schema.json")]
pub struct Arguments {
    /// Kind of file
    #[arg(value_enum, default_value_t)]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Kind {
    /// Instance files
    #[default]
    Instance,
    /// Schedule files
    Schedule,
}

/// Prints a schema, generated from the Rust types.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let schema = match arguments.kind {
        Kind::Instance => schema_for!(InstanceDocument),
        Kind::Schedule => schema_for!(ScheduleDocument),
    };
    output::result(&serde_json::to_string_pretty(&schema).map_err(Failure::failed)?)
}
