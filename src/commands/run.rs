//! `bench run`: a suite from its file to records, table and plots.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::commands::values::{positive, seconds, specs};
use crate::ground::failure::Failure;
use crate::ground::format::Format;
use crate::ground::library::Library;
use crate::ground::output;
use crate::ground::size::{Budget, Size};
use crate::ground::text::count;
use crate::harness::launcher::Launcher;
use crate::harness::launcher::slurm::Request;
use crate::harness::launcher::submit::{self, Known, Order, Submitted};
use crate::harness::max_batch::campaign::Campaign;
use crate::harness::records::manifest::Session;
use crate::harness::records::{self, Existing, Record, Writer, batches};
use crate::harness::replay::{self, pass};
use crate::harness::run::plan::Overrides;
use crate::harness::run::{Run, end_at_once, interrupts};
use crate::harness::suite::{self, Suite, SuiteSlurm};
use crate::harness::sweep::{Grants, Sweep, rows_of, write_suite};
use crate::views::list::Material;
use crate::views::plot;
use crate::views::report::{self, Embedding};

const AFTER_HELP: &str = "\
Each run (instance, method, parameters; all budgets together) is a process of its own. A crash, a lack of memory or a time-out \
becomes a row, and the budgets that it leaves open are asked again, one by one. What a method reported before it was killed \
counts. The simulator checks every schedule.

OUT gets records.csv (row by row), schedules/, traces/ (what was known when), logs/ (what solvers printed), tables.md, plots/ \
and report.html (everything on one page). A row whose instance, method, parameters, budget, seed, limits and sources are those of an \
earlier one is taken from the cache. Press Ctrl-C to stop; --resume continues.

Examples:
  bench run --suite smoke
  bench run --suite resnet --methods rotor-persistent[slots=1000],revolve --instances 'resnet50-*'
  bench run --suite my-suite.toml --budgets 0.25x,0.5x,8GiB --time-limit 60 --memory-limit 4GiB
  bench run --suite resnet --resume --details
  bench run --suite resnet --launcher slurm --partition long --cpus-per-task 4 --chunk 10";

/// Arguments of `bench run`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Suite to run: a name under instances/suites/, or a .toml file; a suite is code, so run only those that you trust
    #[arg(long, value_name = "NAME|FILE.toml")]
    suite: String,
    /// Run only these methods: METHOD (with the suite's settings) or METHOD[name=value,...]
    #[arg(long, value_name = "METHOD,...", num_args = 1..)]
    methods: Vec<String>,
    /// Run only the suite's instances that match, e.g. 'resnet1001-*'
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    instances: Vec<String>,
    /// Budgets instead of the suite's: sizes (8GiB, 500MB) or fractions of store-all's peak (0.5x, 50%)
    #[arg(long, value_name = "SIZE,...", num_args = 1.., value_delimiter = ',')]
    budgets: Vec<Budget>,
    /// Wall limit of each row (one budget) in seconds; a run of n rows is killed a second and a tenth after n times as long
    #[arg(long, visible_alias = "timelimit", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    time_limit: Option<Duration>,
    /// Limit on the CPU seconds of each row, all threads and processes together; a run of n rows that uses more than n times as much is killed
    #[arg(long, visible_alias = "cpulimit", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    cpu_limit: Option<Duration>,
    /// Limit on the address space of each run's process, and on the resident memory of all of them, e.g. 4GiB
    #[arg(long, visible_alias = "memlimit", value_name = "SIZE")]
    memory_limit: Option<Size>,
    /// Runs at the same time; more than there are cores disturb the timings [default: the suite's, or 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    jobs: Option<usize>,
    /// Threads that each method may use [default: the suite's, or the cores divided by the jobs]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Seeds: methods with random choices run once for each, and tables show their median; searches for the largest batch
    /// take the first [default: the suite's, or 0; of searches 0]
    #[arg(long, value_name = "N,...", num_args = 1.., value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Folder for the results [default: results/NAME of the suite]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue: keep the rows that are there, run what is missing
    #[arg(long, conflicts_with = "force")]
    resume: bool,
    /// Start afresh: drop the rows that are there, and the files about them: all of schedules/, traces/, logs/, plans/, replays/ and plots/
    #[arg(long)]
    force: bool,
    /// With --resume: run again what ended in an error
    #[arg(long, requires = "resume")]
    retry_errors: bool,
    /// Take no row from the cache (results/.cache, or the folder that BENCH_CACHE names; empty: none)
    #[arg(long)]
    fresh: bool,
    /// What executes the runs: processes here, or job arrays of a Slurm cluster
    #[arg(long, value_enum, default_value_t)]
    launcher: Launcher,
    /// List the runs, and run nothing
    #[arg(long)]
    list: bool,
    /// Execute the schedules for real afterwards, on this device: columns of executed.csv
    #[arg(long, value_enum, value_name = "DEVICE")]
    replay: Option<replay::Device>,
    /// Make no plots, and no page of HTML
    #[arg(long)]
    no_plots: bool,
    /// Print the tables of every instance too, folded to the terminal's width, not the digest alone
    #[arg(long)]
    details: bool,
    /// Leave out the suite's searches for the largest batch
    #[arg(long)]
    no_batches: bool,
    /// Format of what is printed; formats other than text have the tables instead of the digest
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    // At the end, for its heading is that of all that follows.
    #[command(flatten)]
    slurm: SlurmArguments,
}

/// What tasks ask of a Slurm cluster; anything here goes before the suite's `[slurm]`.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --launcher slurm")]
struct SlurmArguments {
    /// Partition [default: the suite's, or the cluster's]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Wall limit of a task in minutes [default: the suite's, or what its runs' limits come to]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    task_time: Option<u64>,
    /// Memory of a task, e.g. 8GiB [default: the suite's, or the runs' limit and half a GiB]
    #[arg(long, value_name = "SIZE")]
    task_memory: Option<Size>,
    /// CPUs of a task [default: the suite's, or the threads of a run, or 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    cpus_per_task: Option<usize>,
    /// Runs that a task does one after the other [default: the suite's, or 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    chunk: Option<usize>,
    /// Most tasks of an array that run at the same time [default: the suite's, or as many as the cluster likes]
    #[arg(long, value_name = "N", value_parser = positive)]
    most_at_once: Option<usize>,
    /// Another option for sbatch, e.g. --sbatch=--account=me
    #[arg(long = "sbatch", value_name = "OPTION", allow_hyphen_values = true)]
    options: Vec<String>,
    /// Wait until all tasks have ended, then print the table
    #[arg(long)]
    wait: bool,
}

impl SlurmArguments {
    /// The first flag that is given.
    fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--partition", self.partition.is_some()),
            ("--task-time", self.task_time.is_some()),
            ("--task-memory", self.task_memory.is_some()),
            ("--cpus-per-task", self.cpus_per_task.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--most-at-once", self.most_at_once.is_some()),
            ("--sbatch", !self.options.is_empty()),
            ("--wait", self.wait),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// What to ask for, and how many runs go into a task.
    fn request(&self, suite: Option<&SuiteSlurm>, threads: Option<usize>) -> (Request, usize) {
        let suite = suite.cloned().unwrap_or_default();
        let request = Request {
            partition: self.partition.clone().or(suite.partition),
            minutes: self.task_time.or(suite.task_minutes),
            memory: self.task_memory.or(suite.task_memory),
            cpus_per_task: self.cpus_per_task.or(suite.cpus_per_task).or(threads).unwrap_or(1),
            most_at_once: self.most_at_once.or(suite.most_at_once),
            options: suite.options.iter().chain(&self.options).cloned().collect(),
        };
        (request, self.chunk.or(suite.chunk).unwrap_or(1))
    }
}

/// Runs a suite.
///
/// # Errors
/// Arguments or files do not fit, results cannot be written, a row ended in an error, or interrupted.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(flag) = arguments.slurm.given().filter(|_| arguments.launcher != Launcher::Slurm) {
        return Err(Failure::input(format!("{flag} is for tasks of a cluster; add --launcher slurm, or leave it out")));
    }
    let library = Library::locate();
    let file = suite::read(&library, &arguments.suite)?;
    let overrides = Overrides {
        methods: specs(&arguments.methods).map_err(Failure::input)?,
        instances: arguments.instances.clone(),
        budgets: arguments.budgets.clone(),
        seeds: arguments.seeds.clone(),
    };
    let folder = arguments.out.clone().unwrap_or_else(|| library.root.join("results").join(&file.suite.name));
    let sweep = Sweep {
        library: &library,
        host: OnceCell::new(),
        file: &file,
        overrides,
        grants: Grants {
            time: arguments.time_limit,
            cpu: arguments.cpu_limit,
            memory: arguments.memory_limit,
            threads: arguments.threads,
            jobs: arguments.jobs,
        },
        batches: !arguments.no_batches,
        fresh: arguments.fresh,
        existing: existing(arguments),
        folder,
    };
    let runs = sweep.runs()?;
    if runs.is_empty() && sweep.campaign()?.is_none() {
        return Err(Failure::input("nothing to run: what is asked for leaves no method on any instance; ask for more"));
    }
    if arguments.list {
        let searches = sweep.campaign()?.as_ref().map_or(String::new(), Campaign::listing);
        return output::result(&format!("{searches}{}", listing(&runs)));
    }
    if arguments.resume {
        sweep.same_limits(&runs, "give the same limits, or write elsewhere with --out")?;
    }
    if arguments.launcher == Launcher::Slurm {
        return on_slurm(arguments, &sweep, &runs);
    }
    if arguments.force {
        match Known::of(&sweep.folder) {
            Ok(known) => known.none_coming(&sweep.folder)?,
            Err(failure) => {
                output::info(&format!("whether tasks of a cluster are on their way is not known: {failure}"));
            }
        }
    }
    sweep.perform(&runs, &interrupts()?)?;
    report(arguments, &sweep, &runs)
}

/// Submits what is missing, and waits for it if asked to.
fn on_slurm(arguments: &Arguments, sweep: &Sweep<'_>, runs: &[Run]) -> Result<(), Failure> {
    let (folder, suite) = (&sweep.folder, sweep.suite());
    let turn = submit::turn(folder)?;
    let asked = arguments.threads.or(suite.limits.threads);
    let (request, chunk) = arguments.slurm.request(suite.slurm.as_ref(), asked);
    let mut conditions = sweep.conditions();
    conditions.allowance.limits.threads = asked.unwrap_or(request.cpus_per_task);
    let known = Known::of(folder)?;
    known.same_limits(runs, folder, &conditions.allowance)?;
    submit::prepare(folder, sweep.existing)?;
    write_suite(folder, &sweep.file.text)?;
    Session::new(runs, &conditions).append(folder)?;
    output::info(&format!("{}: {}", suite.name, suite.title));
    let campaign = sweep.campaign()?;
    let order = Order {
        runs: runs.to_vec(),
        campaign: campaign.as_ref(),
        suite: &suite.name,
        root: &sweep.library.root,
        results: folder,
        conditions: &conditions,
        search_time: campaign.as_ref().and_then(|campaign| sweep.search_time(campaign, &conditions)),
        fresh: sweep.fresh,
        existing: sweep.existing,
        chunk,
        request,
    };
    let submitted = submit::submit(order, &known)?;
    drop(turn);
    tell(&submitted, folder);
    if !arguments.slurm.wait {
        return Ok(());
    }
    let stop = interrupts()?;
    let status = submit::wait(folder, &stop)?;
    // Moves what the workers wrote into one file.
    drop(Writer::open(folder, Existing::Resume)?);
    if !status.lost.is_empty() {
        return Err(Failure::failed(format!(
            "{} lost; `bench status {}` says which, --resume submits them again",
            count(status.lost.len(), "task"),
            folder.display()
        )));
    }
    report(arguments, sweep, runs)
}

fn tell(submitted: &Submitted, folder: &Path) {
    let Submitted { tasks, jobs, there, coming } = submitted;
    let already = if *there > 0 { format!("; {} there already", count(*there, "row")) } else { String::new() };
    let way = if *coming > 0 { format!("; {} on the way", count(*coming, "row")) } else { String::new() };
    let jobs = if jobs.is_empty() { String::new() } else { format!(" as {}", jobs.join(", ")) };
    output::info(&format!("submitted {}{jobs}{already}{way}", count(*tasks, "task")));
    output::info(&format!("`bench status {}` shows how far they are", folder.display()));
}

/// What becomes of the rows that are there.
fn existing(arguments: &Arguments) -> Existing {
    match (arguments.resume, arguments.force) {
        (true, _) if arguments.retry_errors => Existing::Retry,
        (true, _) => Existing::Resume,
        (_, true) => Existing::Overwrite,
        _ => Existing::Refuse,
    }
}

/// Table and verdict of all rows that were asked for, earlier ones included; files about all rows of the folder.
fn report(arguments: &Arguments, sweep: &Sweep<'_>, runs: &[Run]) -> Result<(), Failure> {
    let (library, folder, suite) = (sweep.library, &sweep.folder, sweep.suite());
    let all = records::read(folder)?;
    let replayed = arguments.replay.map(|device| {
        let target = pass::Target { device, arena: false };
        pass::replay(&all, folder, target, replay::REPEATS)
    });
    let wrong = replayed.transpose()?.flatten();
    // All rows are there: tables, plots and page can be made again.
    end_at_once()?;
    let rows = rows_of(runs, &all);
    let material = Material::new(library, &rows, folder, Some(suite));
    if arguments.details || arguments.format != Format::Text || rows.is_empty() {
        output::result(&material.all(arguments.format)?)?;
    }
    if arguments.format == Format::Text && !rows.is_empty() {
        output::result(&material.digest(Format::Text)?)?;
    }
    keep(arguments, &all, folder, library, suite)?;
    let searches = batches::read(folder)?;
    if let Some(search) = searches.iter().find(|search| search.is_error()) {
        let path = batches::path_in(folder);
        let words = format!("the search for {}'s largest batch of {}", search.label, search.network);
        return Err(Failure::failed(format!("{}: {words} had a run that ended in an {}", path.display(), search.note)));
    }
    let failed = records::errors(&rows);
    if failed > 0 {
        let path = folder.join("records.csv");
        let path = path.display();
        return Err(Failure::failed(format!(
            "{failed} of {} rows ended in an error; see column error of {path}",
            rows.len()
        )));
    }
    wrong.map_or(Ok(()), Err)
}

/// Writes what is looked at later: tables, and unless told otherwise plots and the page.
fn keep(
    arguments: &Arguments,
    rows: &[Record],
    folder: &Path,
    library: &Library,
    suite: &Suite,
) -> Result<(), Failure> {
    let tables = folder.join("tables.md");
    let material = Material::new(library, rows, folder, Some(suite));
    let digest = material.digest(Format::Md)?;
    let text = material.all(Format::Md)?;
    output::replace_file(&tables, format!("{digest}\n{text}"))?;
    let more = if arguments.details { "" } else { " (--details prints them)" };
    output::info(&format!("tables: {}{more}", tables.display()));
    if arguments.no_plots {
        return Ok(());
    }
    let (plots, page) = (folder.join("plots"), folder.join("report.html"));
    let written = plot::write_all(rows, Some(suite), folder, &plots)?;
    output::info(&format!("{}: {}", count(written, "plot"), plots.display()));
    output::replace_file(&page, report::page(library, rows, Some(suite), folder, Embedding::default())?)?;
    output::info(&format!("page: {}", page.display()));
    Ok(())
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
