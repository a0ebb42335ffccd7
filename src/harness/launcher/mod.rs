//! Where runs are executed: here, or as job arrays of a cluster's own engine, which knows best how to
//! queue, place and restart them. Workers of a cluster write parts of one run directory
//! ([`crate::harness::records::parts`]); nothing here knows methods or instances.

pub mod batch;
pub mod slurm;
pub mod status;
pub mod submit;
pub mod worker;

use clap::ValueEnum;

/// What executes runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// Child processes of this one.
    #[default]
    Local,
    /// Job arrays, submitted through sbatch.
    Slurm,
}
