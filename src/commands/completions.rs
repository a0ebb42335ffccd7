//! `bench completions` and `bench man`: what shells, `man` and the book want to know of the command line.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::ground::failure::Failure;
use crate::ground::output;

/// Columns of the help texts on the page of the book.
const COLUMNS: usize = 100;

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
#[command(
    after_help = "Examples:\n  bench man ~/.local/share/man/man1 && man bench-run\n  bench man --page docs/reference/command-line.md"
)]
pub struct ManArguments {
    /// Folder for the pages, one for each command
    #[arg(value_name = "DIR", required_unless_present = "page")]
    folder: Option<PathBuf>,
    /// Write the help of all commands as one Markdown page instead
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    page: Option<PathBuf>,
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
/// The folder or the file cannot be written.
pub fn man(arguments: &ManArguments, cli: Command) -> Result<(), Failure> {
    let ManArguments { folder, page } = arguments;
    match (page, folder) {
        (Some(page), _) => output::replace_file(page, markdown(cli)),
        (None, Some(folder)) => {
            let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(cli, folder));
            written.map_err(Failure::cannot("write", folder))
        }
        (None, None) => Err(Failure::input("name a folder for the pages, or a file with --page")),
    }
}

/// The help of every command that is not hidden, a section each.
fn markdown(cli: Command) -> String {
    let mut cli = cli.term_width(COLUMNS);
    cli.build();
    let mut page = String::from(
        "# Command line\n\nThe help of every command. Made by `bench man --page docs/reference/command-line.md`; do not edit.\n",
    );
    section(&mut cli, "bench", &mut page);
    page
}

fn section(command: &mut Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    // Writing to a text cannot fail.
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        let name = format!("{name} {}", below.get_name());
        section(below, &name, page);
    }
}
