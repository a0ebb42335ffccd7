//! The solvers, held to one suite and to each other.
//!
//! One program, because every test program of its own is compiled and linked for itself.

mod cbc;
mod conformance;
mod cp_conformance;
mod export;
