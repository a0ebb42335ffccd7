//! The search over schedules that all methods with a solver share, whatever their model.
//!
//! [`clock`] says how long, [`incumbent`] what is known so far (and by which rules it is believed), [`separation`] adds
//! rows as they are violated, [`paths`] some that only solutions without integrality violate. A method whose relaxation is
//! over [`blocks`] of stages implements [`problem::Staged`]; then [`refinement`] splits blocks where that pays,
//! [`neighbourhoods`] improves the incumbent on all other threads, and [`driver`] leads from a budget to its answer.
//! [`term`] is what models are written with. [`sweep`] is for methods without a solver: the best of many schedules.

pub mod blocks;
pub mod clock;
pub mod driver;
pub mod incumbent;
pub mod neighbourhoods;
pub mod paths;
pub mod problem;
pub mod refinement;
pub mod separation;
pub mod splitting;
pub mod sweep;
pub mod term;
