//! `bench`: the harness of the referee. Every subcommand is one file under `commands/`.
//!
//! The methods live in `remat-formulations`, the judge in `remat-core`; this binary runs the former
//! in child processes, lets the latter check what they return, and writes down what came out.

mod aggregate;
mod baseline;
mod best;
mod cache;
mod cli;
mod commands;
mod failure;
#[cfg(debug_assertions)]
mod fault;
mod format;
#[cfg(test)]
mod fuzz;
mod host;
mod index;
mod launcher;
mod library;
mod max_batch;
mod method_pages;
mod names;
mod output;
mod plot;
mod published;
mod recorded;
mod records;
mod replay;
mod report;
mod reproduce;
mod run;
mod size;
mod suite;
mod table;
mod text;
mod trajectory;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use commands::{
    best as best_command, check, completions, doctor, export, fuzz as fuzz_command, instances, lift,
    max_batch as max_batch_command, methods, plot as plot_command, replay as replay_command, report as report_command,
    reproduce as reproduce_command, run as run_command, solve, status, table as table_command, task, verify, worker,
};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(arguments) => run_command::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => completions::man(&arguments),
        Command::Task(arguments) => task::run(&arguments),
        Command::Solve(arguments) => solve::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Lift(arguments) => lift::run(&arguments),
        Command::Best(arguments) => best_command::run(&arguments),
        Command::Table(arguments) => table_command::run(&arguments),
        Command::MaxBatch(arguments) => max_batch_command::run(&arguments),
        Command::Plot(arguments) => plot_command::run(&arguments),
        Command::Replay(arguments) => replay_command::run(&arguments),
        Command::Reproduce(arguments) => reproduce_command::run(&arguments),
        Command::Report(arguments) => report_command::run(&arguments),
        Command::Fuzz(arguments) => fuzz_command::run(&arguments),
        Command::Methods(arguments) => methods::run(&arguments),
        Command::Instances(arguments) => instances::run(&arguments),
        Command::Worker => worker::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            failure.exit_code()
        }
    }
}
