//! The JSON of the authors' P100 profiles of MONeT (one network, batch and mode per file), and the
//! instance that such a file becomes.
//!
//! [`file`] is what stands in the file, `convert` what becomes of it. What the file cannot say in this
//! format is said in the instance's notes:
//! * sizes are bytes; workspaces are MiB that are whole bytes; milliseconds become nanoseconds, rounded up,
//!   so that any coarser rounding up of them gives what it gives of the milliseconds;
//! * a negative workspace means that an output took over the buffer of an input. Where that input has one
//!   reader and the output's size this is an in-place implementation, beside one out of place with the same
//!   time and no workspace; elsewhere the workspace is 0;
//! * an algorithm with a negative time failed in cuDNN, and is left out;
//! * an intermediate node (a mask, indices) becomes a `saved` tensor of an implementation of its parent;
//! * batch norm's repeated run, which reuses the statistics, is an implementation marked `recompute`;
//! * the output of the loss is an activation that the first backward operators read: its gradient is not
//!   counted apart.

mod convert;
mod file;

pub use convert::{MonetError, instance_of};
pub use file::{MonetFile, Node, Variant};
