//! The command line: the subcommands, and values that several of them take.

use std::time::Duration;

use clap::{Parser, Subcommand};
use remat_formulations::Spec;

use crate::commands::{
    best, check, completions, doctor, export, fuzz, instances, lift, max_batch, methods, plot, replay, report,
    reproduce, run, solve, status, table, task, verify,
};

const AFTER_HELP: &str = "\
Exit codes:
  0    success
  1    something failed: an illegal schedule, a run that ended in an error, an unwritable file
  2    bad usage or input: a flag, a size, a name, a file
  130  interrupted

Examples:
  bench run --suite smoke
  bench solve resnet50-224-b32 --method rotor-persistent --budget 0.5x -o schedule.json
  bench verify resnet50-224-b32 schedule.json
  bench table results/smoke --format md";

/// The referee of tensor rematerialization: one instance format, one simulator, every method.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = AFTER_HELP, infer_subcommands = false)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a suite: every method on every instance, each run in a process of its own
    Run(run::Arguments),
    /// Show how far a run is: rows queued, running, done and failed
    Status(status::Arguments),
    /// Run one method on one instance
    Solve(solve::Arguments),
    /// Simulate a schedule: time, peak, what fills it, or the first illegal step
    Verify(verify::Arguments),
    /// Simulate the schedules of recorded results again and compare
    Check(check::Arguments),
    /// Write the model behind a method's answer, for another solver
    Export(export::Arguments),
    /// Turn another solver's solution of an exported model into a schedule, and simulate it
    Lift(lift::Arguments),
    /// Print the summary table of recorded results
    Table(table::Arguments),
    /// Show, check and update the best-known values
    Best(best::Arguments),
    /// Search for the largest batch that each method can train within a memory and a time
    MaxBatch(max_batch::Arguments),
    /// Plot recorded results as SVG and PNG: memory, planning time, performance profiles
    Plot(plot::Arguments),
    /// Execute the schedules of recorded results for real, and compare with the simulator
    Replay(replay::Arguments),
    /// Reproduce the tables and figures of the papers, each beside ours
    Reproduce(reproduce::Arguments),
    /// Write recorded results as one HTML page: tables, plots, schedules step by step
    Report(report::Arguments),
    /// Hold all methods against each other on random instances
    Fuzz(fuzz::Arguments),
    /// List the methods: claim, parameters, reference
    Methods(methods::Arguments),
    /// List, show, check, import and generate instances
    #[command(subcommand)]
    Instances(instances::Command),
    /// Show what is installed, what of it is alive, and how to get what is missing
    Doctor(doctor::Arguments),
    /// Print a script that completes commands and flags in a shell
    Completions(completions::Arguments),
    /// Write man pages
    Man(completions::ManArguments),
    /// Work on one task of a batch (started by a cluster)
    #[command(hide = true)]
    Task(task::Arguments),
    /// Work on one job from standard input (started by `run` and `solve`)
    #[command(hide = true)]
    Worker,
}

/// The longest limit, 31 years: a deadline that far ahead still is a time that the system can count.
const MOST_SECONDS: f64 = 1e9;

/// Parses a number of seconds that a limit may have.
///
/// # Errors
/// The text is none.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    number
        .and_then(limit)
        .ok_or_else(|| "expected a number of seconds above 0 and at most 1e9, such as 60 or 0.5".into())
}

/// A limit of so many seconds; none unless they are above 0 and at most [`MOST_SECONDS`].
pub fn limit(seconds: f64) -> Option<Duration> {
    let sane = seconds > 0.0 && seconds <= MOST_SECONDS;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| sane).filter(|limit| !limit.is_zero())
}

/// `1 row`, `2 rows`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Parses a positive whole number.
///
/// # Errors
/// The text is none.
pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 1024".into())
}

/// Splits a list of method specs at the commas outside of brackets.
///
/// # Errors
/// A part is no spec.
pub fn specs(texts: &[String]) -> Result<Vec<Spec>, String> {
    let mut specs = Vec::new();
    for text in texts {
        let mut depth = 0usize;
        let parts = text.split(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        for part in parts {
            specs.push(part.trim().parse::<Spec>().map_err(|error| error.to_string())?);
        }
    }
    Ok(specs)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_brackets_separate_parameters_not_methods() {
        let specs = specs(&["a,b[x=1,y=2],c".into(), "d".into()]).unwrap();
        let texts: Vec<_> = specs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a", "b[x=1,y=2]", "c", "d"]);
    }

    #[test]
    fn limits_are_positive_and_no_longer_than_the_system_can_count() {
        for text in ["0", "-1", "nan", "inf", "1e-10", "1e19", "1.8e19", "1e300", "1000000001", "x", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds("1e9").unwrap(), Duration::from_secs(1_000_000_000));
        assert_eq!(seconds("0.5s").unwrap(), Duration::from_millis(500));
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
