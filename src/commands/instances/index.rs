//! `bench instances index`.

use clap::Args;

use crate::ground::failure::Failure;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::text::count;
use crate::harness::index::{Index, complaint};

const AFTER_HELP: &str = "\
The index holds what `bench instances list` shows, with a hash of each file. After instances were added or changed, \
write it anew; until then they are read themselves, and the list says so.

Examples:
  bench instances index
  bench instances index --check";

/// Arguments of `bench instances index`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Write nothing: read every instance, and fail if the index says anything else
    #[arg(long)]
    check: bool,
}

/// Writes or checks the index.
///
/// # Errors
/// There is no folder, the file cannot be written, or it is not that of the instances. A file is no instance: the others
/// have their lines.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let (made, broken) = Index::made(&library)?;
    if made.len() == 0 && broken.is_empty() {
        return Err(Failure::input("there is no instance under instances/ here; run inside a checkout"));
    }
    if arguments.check {
        let kept = Index::read(&library)?;
        let differences = kept.differences(&made);
        if let Some(first) = differences.first() {
            return Err(Failure::failed(format!("{} (first: {first})", complaint(&library, differences.len()))));
        }
    } else {
        made.write(&library)?;
    }
    output::info(&format!("{}: {}", Index::path(&library).display(), count(made.len(), "instance")));
    for failure in &broken {
        output::info(&failure.to_string());
    }
    if broken.is_empty() {
        return Ok(());
    }
    let it = if broken.len() == 1 { "it" } else { "them" };
    Err(Failure::failed(format!("{} without a line, for no instance is in {it}", count(broken.len(), "file"))))
}
