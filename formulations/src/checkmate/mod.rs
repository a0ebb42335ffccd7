//! Checkmate: `checkmate-ilp`, its relaxation `checkmate-lp`, and `checkmate-rounding`.
//!
//! [`joint`] is the graph, [`plain`] the published formulation, [`compact`] the reduced one, [`stages`]
//! what a solution of either says, and [`program`] what leads from budgets to answers.

pub mod coarse;
pub mod compact;
pub mod encoding;
pub mod ilp;
pub mod joint;
pub mod lp;
pub mod plain;
pub mod primal;
pub mod program;
pub mod refine;
pub mod rounding;
pub mod stages;
pub mod strategies;
pub mod term;
pub mod watch;

pub use ilp::CheckmateIlp;
pub use lp::CheckmateLp;
pub use rounding::CheckmateRounding;
