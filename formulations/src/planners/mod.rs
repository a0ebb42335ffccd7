//! What people use: the planners that ship with frameworks, and policies that are written by hand.
//!
//! None of them models the peak of the iteration. Each is what its own program does, restated on instances; where a
//! planner has a knob, every value of a grid is tried, and of the schedules whose simulated peak is within the budget
//! the fastest is the answer. Peaks are those of operators that run one by one: nothing is fused.
//!
//! Shared here: [`planner`], what is the same of all, [`saved`], from a set of saved tensors to a schedule, and
//! [`modules`], the blocks of a network.

pub mod modules;
pub mod planner;
pub mod saved;

pub mod dtr;
pub mod policies;
pub mod torch;
pub mod tw;
pub mod xla;
