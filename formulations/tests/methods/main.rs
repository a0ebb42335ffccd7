//! The methods, held against each other, against slow twins and against what was published.
//!
//! One program, because every test program of its own is compiled and linked for itself.

mod auto;
mod chain_exhaustive;
mod chains;
mod checkmate;
mod checkmate_coarse;
mod checkmate_reference;
mod checkmate_text;
mod chen;
mod classes;
#[path = "../../../core/tests/model/common/mod.rs"]
mod common;
mod condition;
mod dtr_planner;
mod errata;
mod fastsa;
mod free_order;
mod fuzz;
mod gist;
mod h_ilp;
mod kusumoto;
mod moccasin;
mod moccasin_reference;
mod monet;
mod monet_reference;
mod monet_released;
#[expect(clippy::unwrap_used, reason = "tests panic where they fail")]
#[path = "../../../tests/fuzz/mutate.rs"]
mod mutate;
mod networks;
mod one_budget;
mod options;
mod oracle;
mod policies;
mod prices;
mod refinement;
mod registry;
mod rotor_reference;
mod torch_planners;
mod tw_planner;
mod weak_exhaustive;
mod xla_planner;
