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
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Status(arguments) => commands::status::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => commands::completions::man(&arguments, Cli::command()),
        Command::Task(arguments) => commands::task::run(&arguments),
        Command::Solve(arguments) => commands::solve::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Allocate(arguments) => commands::allocate::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Lift(arguments) => commands::lift::run(&arguments),
        Command::Best(arguments) => commands::best::run(&arguments),
        Command::Table(arguments) => commands::table::run(&arguments),
        Command::MaxBatch(arguments) => commands::max_batch::run(&arguments),
        Command::Plot(arguments) => commands::plot::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Reproduce(arguments) => commands::reproduce::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Site(arguments) => commands::site::run(&arguments),
        Command::Fuzz(arguments) => commands::fuzz::run(&arguments),
        Command::Methods(arguments) => commands::methods::run(&arguments),
        Command::Instances(arguments) => commands::instances::run(&arguments),
        Command::Worker => commands::worker::run(),
    }
}
