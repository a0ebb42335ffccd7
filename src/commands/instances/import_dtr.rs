//! `bench instances import-dtr`: a log of DTR's authors as an instance.

use std::path::PathBuf;

use clap::Args;
use remat_core::format::Origin;
use remat_core::io::read_text;
use remat_formulations::planners::dtr::import::instance_of;

use super::import::{file_name, finish, stem};
use crate::ground::failure::Failure;

/// Arguments of `bench instances import-dtr`.
#[derive(Debug, Args)]
#[command(
    after_help = "The log has a JSON object a line, as simrd reads it. Constants become inputs, views tensors without\nbytes, and every operator may run again.\n\nExample:\n  bench instances import-dtr resnet32-56.log -o instances/dtr/resnet32-b56.json.zst"
)]
pub struct Arguments {
    /// Log of operators
    file: PathBuf,
    /// Write the instance to this file (.json, .json.zst or .json.gz)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Name of the instance [default: the output file's]
    #[arg(long)]
    name: Option<String>,
    /// Publication that the log is from
    #[arg(long, value_name = "TEXT", default_value = "Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021)")]
    paper: String,
    /// Add this to the instance's notes, say the repository and its licence (repeatable)
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
}

/// Imports a log.
///
/// # Errors
/// The file is no such log, or the instance cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = read_text(&arguments.file)?;
    let name = arguments.name.clone().unwrap_or_else(|| stem(&arguments.output));
    let origin = Origin::Published { paper: arguments.paper.clone(), location: file_name(&arguments.file) };
    let document = instance_of(&name, &text, &origin).map_err(Failure::at(&arguments.file))?;
    finish(&arguments.file, &arguments.output, &arguments.note, document)
}
