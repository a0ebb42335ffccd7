//! `bench` from end to end, as its users meet it: real processes in folders of their own.
//!
//! Tests in which methods misbehave need a build with debug assertions: no release build knows how.
//!
//! Nothing here depends on how fast the machine is: what is waited for is waited for until it happens.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic where they fail, and say what they skip")]

mod allocate;
mod batches;
mod best;
mod book;
mod cache;
mod check;
mod checkout;
#[cfg(debug_assertions)]
mod cluster;
mod errors;
mod exit_codes;
mod export;
#[cfg(debug_assertions)]
mod faults;
mod floors;
mod help;
mod hostile;
mod instances;
#[cfg(debug_assertions)]
mod interruptions;
mod limits;
#[cfg(debug_assertions)]
mod misbehaviour;
mod own_method;
mod replay;
mod report;
mod reproduce;
mod results;
mod rows;
mod site;
#[cfg(debug_assertions)]
mod slurm;
mod submission;
mod verify;
