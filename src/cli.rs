//! The command line: the subcommands.

use clap::{Parser, Subcommand};

use crate::commands::{
    allocate, best, check, completions, doctor, export, fuzz, instances, lift, max_batch, methods, plot, replay,
    report, reproduce, run, site, solve, status, table, task, verify,
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
    /// Find the best schedule of an instance within a budget: by `auto`, or by the method that is named
    Solve(solve::Arguments),
    /// Simulate a schedule: time, peak, what fills it, or the first illegal step
    Verify(verify::Arguments),
    /// Give the tensors of a schedule addresses in one arena
    Allocate(allocate::Arguments),
    /// Simulate the schedules of recorded results again and compare
    Check(check::Arguments),
    /// Write the model behind a method's answer, for another solver
    Export(export::Arguments),
    /// Turn another solver's solution of an exported model into a schedule, and simulate it
    Lift(lift::Arguments),
    /// Print the summary table of recorded results
    Table(table::Arguments),
    /// Show, check, update and work on the library of best-known values
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
    /// Write the library of best-known values as a site: a page per network, method and paper
    Site(site::Arguments),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
