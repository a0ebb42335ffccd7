//! `bench max-batch`: the largest batch that each method can train within a memory and a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use remat_formulations::Limits;

use crate::commands::values::{positive, seconds, specs};
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::host::cores;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::Size;
use crate::harness::max_batch::{self, Network, Question};
use crate::harness::records::batches::BatchRow;
use crate::harness::run::{Allowance, Conditions};
use crate::harness::suite::SuiteMethod;
use crate::views::batches;
use crate::views::published::Published;

const AFTER_HELP: &str = "\
Two instances of one network at different batch sizes give every size and time at any batch, where \
those are affine in it; times that are FLOPs are. Further instances are compared with what the two \
lead to. Methods that ignore budgets run their whole sweep.

Examples:
  bench max-batch vgg19-224-b128-flops vgg19-224-b256-flops --memory 16GB --methods store-all,chen-greedy
  bench max-batch unet-416x608-b16-flops unet-416x608-b32-flops --memory 16GB --methods checkmate-ilp --time-limit 60";

/// Arguments of `bench max-batch`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// One network at two or more batch sizes: instance files, or names under instances/
    #[arg(value_name = "INSTANCE", required = true)]
    instances: Vec<String>,
    /// Methods: METHOD or METHOD[name=value,...]
    #[arg(long, short, value_name = "METHOD,...", num_args = 1.., required = true)]
    methods: Vec<String>,
    /// Memory of the device, e.g. 16GB
    #[arg(long, value_name = "SIZE")]
    memory: Size,
    /// Forward passes that an iteration may take longer than store-all
    #[arg(long, value_name = "N", default_value = "1")]
    extra_forwards: f64,
    /// Largest batch to try
    #[arg(long, value_name = "N", default_value = "65536")]
    most: u64,
    /// Wall limit of each run in seconds
    #[arg(long, visible_alias = "timelimit", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    time_limit: Option<Duration>,
    /// Limit on the CPU seconds of each run, all its threads and processes together
    #[arg(long, visible_alias = "cpulimit", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    cpu_limit: Option<Duration>,
    /// Threads that each method may use [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Published figures to print beside ours, as results/published/*.csv
    #[arg(long, value_name = "FILE.csv")]
    published: Option<PathBuf>,
    /// Format of the table
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Searches, and prints the table.
///
/// # Errors
/// The instances are no family, a method is unknown, a run ended in an error, or interrupted.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    if !(arguments.extra_forwards >= 0.0 && arguments.extra_forwards.is_finite()) || arguments.most == 0 {
        return Err(Failure::input("--extra-forwards takes a number from 0 on, --most one from 1 on"));
    }
    let question =
        Question { memory: arguments.memory, extra_forwards: arguments.extra_forwards, most: arguments.most };
    let published = arguments.published.as_deref().map(Published::read).transpose()?.unwrap_or_default();
    let methods: Vec<_> = specs(&arguments.methods)
        .map_err(Failure::input)?
        .iter()
        .map(|spec| SuiteMethod { sweep: spec.parameters.is_empty(), ..SuiteMethod::of(spec) })
        .collect();
    let allowance = Allowance {
        limits: Limits { time: arguments.time_limit, threads: arguments.threads.unwrap_or_else(cores), seed: 0 },
        cpu_limit: arguments.cpu_limit,
        memory_limit_bytes: None,
    };
    let conditions = Conditions::bare(allowance, &library.root);
    let stop = crate::harness::run::interrupts()?;
    let folder = std::env::temp_dir().join(format!("bench-max-batch-{}", std::process::id()));
    let mut network = Network::read(&library, &arguments.instances, &folder)?;
    let mut found = Vec::new();
    let searched = search(&mut network, &methods, &question, &conditions, &stop, &mut found);
    if searched.is_ok() || !found.is_empty() {
        output::result(&batches::render(&found, &published, arguments.format))?;
    }
    searched?;
    let failed = found.iter().find(|row| row.is_error());
    failed.map_or(Ok(()), |row| Err(Failure::failed(format!("a run of {} ended in an {}", row.label, row.note))))
}

/// A row for each method, in `rows` as they come.
fn search(
    network: &mut Network,
    methods: &[SuiteMethod],
    question: &Question,
    conditions: &Conditions,
    stop: &Arc<AtomicBool>,
    rows: &mut Vec<BatchRow>,
) -> Result<(), Failure> {
    for method in methods {
        let guess = max_batch::guess(rows, &network.name);
        let (row, _) = max_batch::largest(network, method, question, guess, conditions, stop)?;
        rows.push(row);
    }
    Ok(())
}
