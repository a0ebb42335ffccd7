//! The subcommands, one file each: arguments, and what is done with them.

pub mod check;
pub mod export;
pub mod instances;
pub mod lift;
pub mod max_batch;
pub mod methods;
pub mod plot;
pub mod replay;
pub mod run;
pub mod solve;
pub mod table;
pub mod verify;
pub mod worker;
