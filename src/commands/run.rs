//! `bench run`: a suite from its file to records, table and plots.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use remat_formulations::Limits;

use crate::cli::{count, positive, seconds, specs};
use crate::failure::Failure;
use crate::format::Format;
use crate::host::{Host, cores};
use crate::library::Library;
use crate::max_batch::campaign::Campaign;
use crate::output;
use crate::plot;
use crate::records::{self, Existing, Writer};
use crate::replay::{self, pass};
use crate::run::manifest::Session;
use crate::run::plan::{self, Overrides};
use crate::run::{Conditions, Run, interrupts, pool};
use crate::size::{Budget, Size};
use crate::suite::{self, Suite};
use crate::table::sections;

const AFTER_HELP: &str = "\
Each run (instance, method, parameters; all budgets together) is a process of its own: a crash, a lack \
of memory or a time-out is a row, not the end. Rows are appended to OUT/records.csv one by one; \
schedules are kept under OUT/schedules, what was known when under OUT/traces, plots under OUT/plots. What a \
method reported before it was killed counts. Every schedule is checked by the \
simulator here. Press Ctrl-C to stop; --resume continues.

Examples:
  bench run --suite smoke
  bench run --suite resnet --methods rotor-persistent[slots=1000],revolve --instances 'resnet50-*'
  bench run --suite my-suite.toml --budgets 0.25x,0.5x,8GiB --time-limit 60 --memory-limit 4GiB
  bench run --suite resnet --resume";

/// Arguments of `bench run`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Suite to run: a name under instances/suites/, or a .toml file
    #[arg(long, value_name = "NAME|FILE.toml")]
    suite: String,
    /// Run only these methods: METHOD (with the suite's settings) or METHOD[name=value,...]
    #[arg(long, value_name = "METHOD,...", num_args = 1..)]
    methods: Vec<String>,
    /// Run only the suite's instances that match, e.g. 'resnet1001-*'
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    instances: Vec<String>,
    /// Budgets instead of the suite's: sizes (8GiB, 500MB) or fractions of store-all's peak (0.5x)
    #[arg(long, value_name = "SIZE,...", num_args = 1.., value_delimiter = ',')]
    budgets: Vec<Budget>,
    /// Wall limit of each run in seconds; a run that goes on a second and a tenth longer is killed
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    time_limit: Option<Duration>,
    /// Address-space limit of each run, e.g. 4GiB
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<Size>,
    /// Runs at the same time; more than 1 disturbs the timings
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    jobs: usize,
    /// Threads that each method may use [default: the suite's, or the cores divided by the jobs]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Seeds: methods with random choices run once for each, and tables show their median [default: the suite's, or 0]
    #[arg(long, value_name = "N,...", num_args = 1.., value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Folder for the results [default: results/NAME of the suite]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue: keep the rows that are there, run what is missing
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Start afresh: drop the rows that are there
    #[arg(long)]
    force: bool,
    /// List the runs, and run nothing
    #[arg(long)]
    list: bool,
    /// Execute the schedules for real afterwards, on this device: columns of executed.csv
    #[arg(long, value_enum, value_name = "DEVICE")]
    replay: Option<replay::Device>,
    /// Make no plots
    #[arg(long)]
    no_plots: bool,
    /// Format of the table on standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs a suite.
///
/// # Errors
/// Arguments or files do not fit, results cannot be written, a row ended in an error, or interrupted.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let library = Library::locate();
    let file = suite::read(&library, &arguments.suite)?;
    let overrides = Overrides {
        methods: specs(&arguments.methods).map_err(Failure::input)?,
        instances: arguments.instances.clone(),
        budgets: arguments.budgets.clone(),
        seeds: arguments.seeds.clone(),
    };
    let runs = plan::expand(&library, &file.suite, &overrides)?;
    let ids: Vec<_> = overrides.methods.iter().map(|spec| spec.id.as_str()).collect();
    let campaign = Campaign::of(&file.suite, &ids, &arguments.instances)?;
    if arguments.list {
        let searches = campaign.as_ref().map_or(String::new(), Campaign::listing);
        return output::result(&format!("{searches}{}", listing(&runs)));
    }
    let folder = arguments.out.clone().unwrap_or_else(|| library.root.join("results").join(&file.suite.name));
    let existing = match (arguments.resume, arguments.force) {
        (true, _) => Existing::Resume,
        (_, true) => Existing::Overwrite,
        _ => Existing::Refuse,
    };
    let stop = interrupts()?;
    let mut writer = Writer::open(&folder, existing)?;
    write_suite(&folder, &file.text)?;
    let conditions = conditions(arguments, &library, &file.suite);
    Session::new(&runs, &conditions.host).append(&folder)?;
    let missing = pool::missing(runs.clone(), &writer);
    output::info(&format!("{}: {}", file.suite.name, file.suite.title));
    announce(&runs, &missing, &folder);
    pool::run_all(missing, arguments.jobs, &mut writer, &folder, &conditions, &stop)?;
    if let Some(campaign) = &campaign {
        let time = arguments.time_limit.or(campaign.time_limit()).or(conditions.limits.time);
        let conditions = Conditions { limits: Limits { time, ..conditions.limits }, ..conditions };
        campaign.run(&library, &folder, existing, &conditions, &stop)?;
    }
    report(arguments, &runs, &writer, &folder, &library, &file.suite)
}

/// Table, plots, and the verdict on all rows of the suite, earlier ones included.
fn report(
    arguments: &Arguments,
    runs: &[Run],
    writer: &Writer,
    folder: &Path,
    library: &Library,
    suite: &Suite,
) -> Result<(), Failure> {
    let wanted: std::collections::HashSet<_> =
        runs.iter().flat_map(|run| run.budgets.iter().map(|budget| run.key(budget))).collect();
    let mut rows = records::read(writer.path())?;
    if let Some(device) = arguments.replay {
        pass::replay(&rows, folder, device, replay::REPEATS)?;
    }
    rows.retain(|record| wanted.contains(&record.key()));
    output::result(&sections::all(library, &rows, folder, arguments.format, Some(suite))?)?;
    if !arguments.no_plots {
        let plots = folder.join("plots");
        let executed = replay::read(folder)?;
        let written =
            plot::write_all(&rows, Some(suite), &plots)? + plot::executed::write_all(&rows, &executed, &plots)?;
        output::info(&format!("{} in {}", count(written, "plot"), plots.display()));
    }
    let failed = records::errors(&rows);
    if failed > 0 {
        let path = writer.path().display();
        return Err(Failure::failed(format!(
            "{failed} of {} rows ended in an error; see column error of {path}",
            rows.len()
        )));
    }
    Ok(())
}

fn conditions(arguments: &Arguments, library: &Library, suite: &Suite) -> Conditions {
    let suite_time = suite.limits.time_seconds.map(Duration::from_secs_f64);
    let threads = arguments.threads.or(suite.limits.threads).unwrap_or((cores() / arguments.jobs).max(1));
    Conditions {
        limits: Limits { time: arguments.time_limit.or(suite_time), threads, seed: 0 },
        memory_limit_bytes: arguments.memory_limit.or(suite.limits.memory).map(|size| size.0),
        host: Host::new(&library.root),
    }
}

/// What was run is kept beside what came out.
fn write_suite(folder: &Path, text: &str) -> Result<(), Failure> {
    let path = folder.join("suite.toml");
    std::fs::write(&path, text).map_err(|error| Failure::failed(format!("{}: cannot write: {error}", path.display())))
}

fn announce(runs: &[Run], missing: &[Run], folder: &Path) {
    let rows = |runs: &[Run]| runs.iter().map(|run| run.budgets.len()).sum::<usize>();
    let there = rows(runs) - rows(missing);
    let already = if there > 0 { format!("; {} there already", count(there, "row")) } else { String::new() };
    let (runs, rows) = (count(missing.len(), "run"), count(rows(missing), "row"));
    output::info(&format!("{runs} for {rows}, to {}{already}", folder.display()));
}

fn listing(runs: &[Run]) -> String {
    let mut text = Vec::with_capacity(runs.len() + 1);
    for run in runs {
        let budgets: Vec<_> =
            run.budgets.iter().map(|budget| budget.text.as_str()).filter(|text| !text.is_empty()).collect();
        let budgets = if budgets.is_empty() { String::new() } else { format!("  at {}", budgets.join(" ")) };
        text.push(format!("{}  {}{budgets}\n", run.subject.instance.name(), run.label()));
    }
    text.push(format!("{}\n", count(runs.len(), "run")));
    text.concat()
}
