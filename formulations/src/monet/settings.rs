//! The settings of MONeT's methods.

use crate::setting;

setting! {
    /// which alternatives may be chosen: none, algorithms, backward operators that read outputs, or what is saved
    /// for them, or all
    pub enum Mode("modes") = All {
        Noop = "noop",
        Conv = "conv",
        OutputActivated = "output-activated",
        IntermediateActivated = "intermediate-activated",
        All = "all",
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
    /// bound on local memory: bar as in the paper's experiments, dot as in its Appendix B, which is tighter
    pub enum Local("local") = Dot { Bar = "bar", Dot = "dot" }
}

setting! {
    /// exact: bytes and the instance's times; as-released: as the authors' program counts (with local=bar)
    pub enum Count("rules") = Exact { Exact = "exact", AsReleased = "as-released" }
}

setting! {
    /// plain: all rows, branch and bound; lazy: memory rows when violated, then branch and bound; coarse: a relaxation
    /// over blocks of stages, refined, beside neighbourhoods of the best schedule, then lazy
    pub enum Strategy("strategy") = Coarse { Plain = "plain", Lazy = "lazy", Coarse = "coarse" }
}

setting! {
    /// relative gap at which to stop, in parts per million of the time
    pub Gap("gap-ppm"): number from 0 to 1_000_000 = 0
}
