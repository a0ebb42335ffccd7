//! `bench` from end to end, as its users meet it: real processes in folders of their own.
//!
//! Tests in which methods misbehave need the feature `faults`: a plain build does not know how.
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
#[cfg(feature = "faults")]
mod cluster;
mod errors;
mod exit_codes;
mod export;
#[cfg(feature = "faults")]
mod faults;
mod floors;
mod help;
mod hostile;
mod instances;
#[cfg(feature = "faults")]
mod interruptions;
mod limits;
#[cfg(feature = "faults")]
mod misbehaviour;
mod own_method;
mod refuted;
mod replay;
mod report;
mod reproduce;
mod results;
mod rows;
mod setup;
mod site;
#[cfg(feature = "faults")]
mod slurm;
mod submission;
mod verify;
