//! The settings of MONeT's methods.

pub use crate::method::claim::Modes as Mode;
use crate::method::parameters::Parameters;
use crate::setting;
pub use crate::staged::graph::Modes;

/// The switches that parameters set.
pub fn modes(parameters: &Parameters) -> Modes {
    let mode = parameters.get::<Mode>();
    Modes {
        algorithms: matches!(mode, Mode::Conv | Mode::All),
        outputs: matches!(mode, Mode::OutputActivated | Mode::All),
        intermediates: matches!(mode, Mode::IntermediateActivated | Mode::All),
        in_place: parameters.get::<InPlace>(),
        recompute: parameters.get::<Recompute>(),
    }
}

setting! {
    /// whether forward operators may run in place
    pub InPlace("in-place"): switch = on
}

setting! {
    /// whether anything may run twice; off, implementations alone are chosen
    pub Recompute("recompute"): switch = on
}

setting! {
    /// exact: memory as simulated, recomputation before any operator; as-released: stages and counting of the authors' program
    pub enum Rules("rules") = Exact { Exact = "exact", AsReleased = "as-released" }
}

setting! {
    /// plain: all rows, branch and bound; coarse: a relaxation over blocks of stages, refined, beside neighbourhoods of the
    /// best schedule, then memory rows when violated
    pub enum Strategy("strategy") = Coarse { Plain = "plain", Coarse = "coarse" }
}
