//! `bench instances import-monet`: a profile of MONeT's authors as an instance.

use std::path::PathBuf;

use clap::Args;
use remat_core::format::Origin;
use remat_core::io::read_json;
use remat_core::monet_file::{MonetFile, instance_of};

use super::import::Target;
use crate::ground::failure::Failure;

/// Arguments of `bench instances import-monet`.
#[derive(Debug, Args)]
#[command(
    after_help = "Milliseconds become nanoseconds, rounded up; MiB become bytes, which must be whole. What the format\ncannot say (negative workspaces out of place, failed algorithms) is in the instance's notes.\n\nExample:\n  bench instances import-monet vgg16_176_inplace_conv_normal.json.gz -o instances/p100/vgg16-conv.json.zst"
)]
pub struct Arguments {
    /// Profile (.json, .json.zst or .json.gz)
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Publication that the sizes are from
    #[arg(long, value_name = "TEXT", default_value = "MONeT (Shah et al., ICLR 2021), the authors' profiles")]
    paper: String,
}

/// Imports a profile.
///
/// # Errors
/// The file is no such profile, or the instance cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, target, paper } = arguments;
    target.import(file, |name, location| {
        let origin = Origin::Published { paper: paper.clone(), location };
        instance_of(name, &read_json::<MonetFile>(file)?, &origin).map_err(Failure::at(file))
    })
}
