//! The list of methods. Adding one: its file, and a line here.

use crate::method::Method;

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
    &crate::kusumoto::Kusumoto,
    &crate::kusumoto::chen::KusumotoChen,
    &crate::oracle::Oracle,
    &crate::checkmate::CheckmateIlp,
    &crate::checkmate::CheckmateLp,
    &crate::checkmate::CheckmateRounding,
    &crate::moccasin::Moccasin,
    &crate::moccasin::reordered::MoccasinReordered,
    &crate::fastsa::FastSa,
    &crate::monet::Monet,
    &crate::monet::MonetLp,
];

/// The method with an id.
pub fn find(id: &str) -> Option<&'static dyn Method> {
    METHODS.iter().copied().find(|method| method.id() == id)
}
