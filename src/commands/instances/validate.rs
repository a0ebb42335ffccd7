//! `bench instances validate`.

use std::path::PathBuf;

use clap::Args;
use remat_core::io::read_instance;

use crate::ground::failure::Failure;
use crate::ground::output;

/// Arguments of `bench instances validate`.
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 2 if any file breaks a rule.\n\nExample:\n  bench instances validate instances/small/*.json"
)]
pub struct Arguments {
    /// Instance files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Validates files: a line for each good one on standard output, a line for each bad one on standard error.
///
/// # Errors
/// A file breaks a rule.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut errors = Vec::new();
    for file in &arguments.files {
        match read_instance(file) {
            Ok(instance) => output::result(&format!(
                "{}: valid, {} operators, {} tensors, hash {}",
                file.display(),
                instance.operators().len(),
                instance.tensors().len(),
                instance.hash()
            ))?,
            Err(error) => errors.push(error.to_string()),
        }
    }
    let Some(last) = errors.pop() else { return Ok(()) };
    for error in &errors {
        output::error(error);
    }
    Err(Failure::input(last))
}
