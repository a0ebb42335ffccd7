//! `bench replay`: the schedules of recorded results, executed by the real framework.

use std::path::PathBuf;

use clap::Args;

use crate::commands::values::positive;
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::output;
use crate::harness::records::{self, folder_of};
use crate::harness::replay::pass::{self, Target};
use crate::harness::replay::{self, Device};
use crate::views::table::replay as table;

/// Arguments of `bench replay`.
#[derive(Debug, Args)]
#[command(
    after_help = "Runs the profiler's executor (Python with torch; scripts/setup.sh --profiler). Only instances that the profiler traced can be replayed. Records are kept under DIR/replays and not made again; executed.csv is made of them. The exit code is 1 where an execution failed, or came to other gradients than plain training. A machine without this program replays a folder of --pack with profiler/replay.sh; --from brings its records back.\n\nExamples:\n  bench replay results/replay-cpu --device cpu\n  bench replay results/replay-cpu --arena\n  bench replay results/resnet --device cuda --pack replay-out\n  bench replay results/resnet --device cuda --from replay-out"
)]
pub struct Arguments {
    /// Folder of a `bench run`, or its records.csv
    #[arg(value_name = "DIR|records.csv")]
    results: PathBuf,
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    device: Device,
    /// Run each schedule in one arena, by the plan that `bench allocate --results DIR` made of it
    #[arg(long)]
    arena: bool,
    /// Timed iterations of each schedule
    #[arg(long, value_name = "N", default_value = "10", value_parser = positive)]
    repeat: usize,
    /// Run nothing; write instances and schedules to this folder, for another machine
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pack: Option<PathBuf>,
    /// Run nothing; take the records over that another machine put into this folder
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Format of the table of errors
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Replays, packs or collects.
///
/// # Errors
/// There are no such results, the executor cannot be run, or an execution failed or had another outcome than plain training.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rows = records::read(&arguments.results)?;
    let folder = folder_of(&arguments.results);
    let target = Target { device: arguments.device, arena: arguments.arena };
    let wrong = match (&arguments.pack, &arguments.from) {
        (Some(to), _) => return pass::pack(&rows, &folder, target, to),
        (_, Some(from)) => {
            pass::bring(&rows, &folder, target, from)?;
            pass::collect(&rows, &folder, target)?
        }
        _ => pass::replay(&rows, &folder, target, arguments.repeat)?,
    };
    let table = table::table(&rows, &replay::read(&folder)?, table::Group::Method);
    output::result(&table.render(arguments.format))?;
    wrong.map_or(Ok(()), Err)
}
