//! The list of methods. Adding one: its file, and a line here.

use crate::method::{Method, Starts};
use crate::planners::planner::Planned;

/// Every method, in the order of the tables.
pub static METHODS: &[&dyn Method] = &[
    &crate::store_all::StoreAll,
    &crate::chain::sequential::Sequential,
    &crate::gist::Gist,
    &crate::chain::griewank::GriewankLogN,
    &crate::chen::CHEN_SQRT,
    &crate::chen::CHEN_GREEDY,
    &crate::chen::AP_SQRT,
    &crate::chen::AP_GREEDY,
    &crate::chen::LINEARIZED_SQRT,
    &crate::chen::LINEARIZED_GREEDY,
    &crate::chain::revolve::Revolve,
    &crate::chain::persistent::RotorPersistent,
    &crate::chain::weak::RotorWeak,
    &crate::options::ROTOR_OPTIONS,
    &crate::options::ROCKMATE,
    &crate::options::h_ilp::H_ILP,
    &crate::options::h_ilp::HIREMATE,
    &crate::kusumoto::Kusumoto,
    &crate::kusumoto::chen::KusumotoChen,
    &Planned(crate::planners::torch::TorchMincut),
    &Planned(crate::planners::torch::TorchBudget),
    &Planned(crate::planners::policies::CheckpointEvery),
    &Planned(crate::planners::policies::Sac),
    &Planned(crate::planners::dtr::Dtr),
    &Planned(crate::planners::xla::XlaGreedy),
    &Planned(crate::planners::tw::TwRemat),
    &crate::oracle::Oracle,
    &crate::checkmate::CheckmateIlp,
    &crate::checkmate::CheckmateLp,
    &crate::checkmate::CheckmateRounding,
    &crate::moccasin::Moccasin,
    &crate::moccasin::reordered::MoccasinReordered,
    &crate::fastsa::FastSa,
    &crate::monet::Monet,
    &crate::monet::MonetLp,
    &crate::free_order::FreeOrderBound,
    &crate::auto::Auto,
];

/// The method with an id.
pub fn find(id: &str) -> Option<&'static dyn Method> {
    METHODS.iter().copied().find(|method| method.id() == id)
}

/// Starts from the methods of the registry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registered;

impl Starts for Registered {
    fn method(&self, id: &str) -> Option<&'static dyn Method> {
        find(id)
    }
}
