//! `bench instances import-monet`: a profile of MONeT's authors as an instance.

use std::path::PathBuf;

use clap::Args;
use remat_core::format::Origin;
use remat_core::io::read_json;
use remat_core::monet_file::{MonetFile, instance_of};

use super::import::{file_name, finish, stem};
use crate::ground::failure::Failure;

/// Arguments of `bench instances import-monet`.
#[derive(Debug, Args)]
#[command(
    after_help = "Milliseconds become nanoseconds, rounded up; MiB become bytes, which must be whole. What the format\ncannot say (negative workspaces out of place, failed algorithms) is in the instance's notes.\n\nExample:\n  bench instances import-monet vgg16_176_inplace_conv_normal.json.gz -o instances/p100/vgg16-conv.json.zst"
)]
pub struct Arguments {
    /// Profile (.json, .json.zst or .json.gz)
    file: PathBuf,
    /// Write the instance to this file (.json, .json.zst or .json.gz)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Name of the instance [default: the output file's]
    #[arg(long)]
    name: Option<String>,
    /// Publication that the sizes are from
    #[arg(long, value_name = "TEXT", default_value = "MONeT (Shah et al., ICLR 2021), the authors' profiles")]
    paper: String,
    /// Add this to the instance's notes, say the repository and its licence (repeatable)
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
}

/// Imports a profile.
///
/// # Errors
/// The file is no such profile, or the instance cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file: MonetFile = read_json(&arguments.file)?;
    let name = arguments.name.clone().unwrap_or_else(|| stem(&arguments.output));
    let origin = Origin::Published { paper: arguments.paper.clone(), location: file_name(&arguments.file) };
    let document = instance_of(&name, &file, &origin).map_err(Failure::at(&arguments.file))?;
    finish(&arguments.file, &arguments.output, &arguments.note, document)
}
