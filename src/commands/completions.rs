//! `bench completions` and `bench man`: what shells and `man` want to know of the command line.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::ground::failure::Failure;
use crate::ground::output;

/// Arguments of `bench completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bench completions bash > ~/.local/share/bash-completion/completions/bench\n  bench completions zsh > ~/.zfunc/_bench\n  bench completions fish > ~/.config/fish/completions/bench.fish"
)]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `bench man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bench man ~/.local/share/man/man1 && man bench-run")]
pub struct ManArguments {
    /// Folder for the pages, one for each command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the script for the command line `cli`.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(arguments: &Arguments, mut cli: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut cli, "bench", &mut script);
    output::result(&String::from_utf8_lossy(&script))
}

/// Writes the pages of the command line `cli`.
///
/// # Errors
/// The folder cannot be written.
pub fn man(arguments: &ManArguments, cli: Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(cli, folder));
    written.map_err(|error| Failure::failed(format!("{}: cannot write: {error}", folder.display())))
}
