//! `bench`: the harness of the referee. Every subcommand is one file under `commands/`.
//!
//! The methods live in `remat-formulations`, the judge in `remat-core`; this binary runs the former
//! in child processes, lets the latter check what they return, and writes down what came out.

mod cli;
mod commands;
mod ground;
mod harness;
mod views;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};
use commands::{
    allocate, best as best_command, check, completions, doctor, export, fuzz as fuzz_command, instances, lift,
    max_batch as max_batch_command, methods, plot as plot_command, replay as replay_command, report as report_command,
    reproduce as reproduce_command, run as run_command, site, solve, status, table as table_command, task, verify,
    worker,
};
use ground::failure::Failure;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let set = remat_core::bounded::setting().map(drop).map_err(Failure::input);
    match set.and_then(|()| perform(command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            ground::output::error(&failure.to_string());
            failure.exit_code()
        }
    }
}

fn perform(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run_command::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => completions::man(&arguments, Cli::command()),
        Command::Task(arguments) => task::run(&arguments),
        Command::Solve(arguments) => solve::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Allocate(arguments) => allocate::run(&arguments),
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
        Command::Site(arguments) => site::run(&arguments),
        Command::Fuzz(arguments) => fuzz_command::run(&arguments),
        Command::Methods(arguments) => methods::run(&arguments),
        Command::Instances(arguments) => instances::run(&arguments),
        Command::Worker => worker::run(),
    }
}
