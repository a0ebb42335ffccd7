//! `bench` from end to end, as its users meet it: real processes in folders of their own.
//!
//! Nothing here depends on how fast the machine is: what is waited for is waited for until it happens.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic where they fail, and say what they skip")]

mod batches;
mod best;
mod cache;
mod check;
mod checkout;
mod cluster;
mod errors;
mod exit_codes;
mod export;
mod faults;
mod help;
mod hostile;
mod instances;
mod interruptions;
mod replay;
mod report;
mod reproduce;
mod results;
mod slurm;
mod verify;
