//! The subcommands, one file each: arguments, and what is done with them.

pub mod allocate;
pub mod best;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod export;
pub mod fuzz;
pub mod instances;
pub mod lift;
pub mod max_batch;
pub mod methods;
pub mod plot;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod site;
pub mod solve;
pub mod status;
pub mod table;
pub mod task;
pub mod values;
pub mod verify;
pub mod worker;
