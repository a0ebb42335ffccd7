//! Packings of given buffers and of schedules.
//!
//! One program, because every test program of its own is compiled and linked for itself.

mod packings;
mod schedules;
