//! `bench instances import-dtr`: a log of DTR's authors as an instance.

use std::path::PathBuf;

use clap::Args;
use remat_core::format::Origin;
use remat_core::io::read_text;
use remat_formulations::planners::dtr::import::instance_of;

use super::import::Target;
use crate::ground::failure::Failure;

/// Arguments of `bench instances import-dtr`.
#[derive(Debug, Args)]
#[command(
    after_help = "The log has a JSON object a line, as simrd reads it. Constants become inputs, views tensors without\nbytes, and every operator may run again.\n\nExample:\n  bench instances import-dtr resnet32-56.log -o instances/dtr/resnet32-b56.json.zst"
)]
pub struct Arguments {
    /// Log of operators
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Publication that the log is from
    #[arg(long, value_name = "TEXT", default_value = "Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021)")]
    paper: String,
}

/// Imports a log.
///
/// # Errors
/// The file is no such log, or the instance cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, target, paper } = arguments;
    target.import(file, |name, location| {
        let origin = Origin::Published { paper: paper.clone(), location };
        instance_of(name, &read_text(file)?, &origin).map_err(Failure::at(file))
    })
}
